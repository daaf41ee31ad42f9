"""Names on a résumé: gaps over names by hand, power, own documents, bad input."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from scripted_chat import TextChat, sigmoid

from evenhand import words
from evenhand.errors import EvenhandError
from evenhand.measures.chat.decisions import decisions
from evenhand.measures.chat.resume_names import count_documents, documents_asked, resume_names
from evenhand.words.scenarios.documents import document_set

AGE = words.concept("age")


def measured(chat: TextChat, *args: object, **options: object) -> dict[str, object]:
    return {m.score: m for m in resume_names(chat, *args, **options)}


def test_two_fills_of_a_document_differ_in_the_name_alone() -> None:
    asked = documents_asked("resume-documents", words.concept("ethnicity"), None, 0)
    frames: dict[str, set[str]] = {}
    for text, document, name in zip(asked.texts, asked.scenario, asked.person, strict=True):
        assert text.count(name) == 1
        frames.setdefault(document, set()).add(text.replace(name, "X"))
    assert len(frames) == 5
    assert all(len(some) == 1 for some in frames.values())


def test_gap_interval_p_and_power_by_hand() -> None:
    """Eight names on each side, whose effects are known: Welch's interval, the permutation test, the detectable gap."""
    names = {group: list(AGE.names[group]) for group in ("old", "young")}
    rng = np.random.default_rng(1)
    effect = {name: float(rng.normal(0.8 * (group == "old"), 0.5)) for group in names for name in names[group]}

    def decide(text: str, options: object) -> list[float]:
        return sigmoid(next(z for name, z in effect.items() if f"{name} " in text), 0.9)

    found = measured(TextChat(decide), concept="age")
    old, young = (np.array([effect[name] for name in names[group]]) for group in ("old", "young"))
    gap = found["gap"]
    assert gap.value == pytest.approx(old.mean() - young.mean())
    partitions = [np.array(chosen) for chosen in combinations(range(16), 8)]
    pooled = np.concatenate([old, young])
    reached = [
        abs(2 * pooled[chosen].sum() - pooled.sum()) >= abs(old.sum() - young.sum()) - 1e-9 for chosen in partitions
    ]
    assert gap.p_value == pytest.approx(np.mean(reached), abs=0.01)
    error = np.sqrt(old.var(ddof=1) / 8 + young.var(ddof=1) / 8)
    freedom = error**4 / (old.var(ddof=1) ** 2 / 448 + young.var(ddof=1) ** 2 / 448)
    expected = error * (stats.t.ppf(0.975, freedom) + stats.t.ppf(0.8, freedom))
    assert gap.details["smallest_detectable"] == pytest.approx(expected)
    assert f"gaps below {expected:.2f} would mostly be missed" in gap.reading
    low, high = gap.interval
    assert high - low == pytest.approx(2 * error * stats.t.ppf(0.975, freedom), rel=0.2)  # corrected for skewness
    assert gap.units[0].value == pytest.approx(gap.value)


def test_a_model_that_ignores_the_name() -> None:
    found = measured(TextChat(lambda text, options: sigmoid(0.4)), concept="race")
    assert found["gap"].value == pytest.approx(0, abs=1e-12)
    assert found["gap"].p_value == 1


@pytest.mark.parametrize("measure", [resume_names, decisions])
def test_a_model_that_always_says_yes_has_no_interval_and_no_detectable_gap(measure: Callable[..., object]) -> None:
    """Twenty samples of yes leave room for a gap that is not 0 and not below any bound."""
    chat = TextChat(lambda text, options: [1.0, 0.0], samples=20)
    gap = next(m for m in measure(chat, concept="age", seed=0) if m.score == "gap")
    assert (gap.value, gap.interval, gap.p_value) == (0, None, 1)
    assert gap.details["smallest_detectable"] is None
    assert "all answers are alike" in gap.note
    assert "would mostly be missed" not in gap.reading


def test_three_groups_have_an_overall_test() -> None:
    black = set(words.concept("ethnicity").names["black"])

    def decide(text: str, options: object) -> list[float]:
        return sigmoid(-1.5 * any(f"{name} " in text for name in black) + len(text) % 3 / 10)

    found = measured(TextChat(decide), concept="ethnicity")
    assert set(found) == {"gap:black", "gap:hispanic", "gap:white", "overall", "unclear"}
    assert found["overall"].p_value < 0.01
    assert found["gap:black"].value < -1


def test_own_documents(tmp_path: Path) -> None:
    (tmp_path / "cv.txt").write_text("{name} Smith, plumber.", encoding="utf-8")
    chat = TextChat(lambda text, options: sigmoid(0))
    resume_names(chat, tmp_path / "cv.txt", question="Hire this plumber?", sample=10)
    assert chat.asked[0].endswith("Smith, plumber.\n\nHire this plumber?\nAnswer with yes or no only.")
    assert len(chat.asked) == 10
    assert len(document_set(tmp_path).documents) == 1
    file = tmp_path / "mine.toml"
    file.write_text('[document.a]\ntext = "{name}"\n[document.b]\ntext = "I am {name}."\n', encoding="utf-8")
    assert count_documents(file, AGE, sample=None) == 2 * 16


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.toml", '[document.a]\ntext = "No name."\n', "no slot for a name"),
        ("a.toml", '[document.a]\ntext = "{name}"\nfont = "x"\n', "unknown key"),
        ("a.toml", "", "holds no document"),
        ("a.txt", "No name.", "no slot for a name"),
    ],
)
def test_bad_documents_are_sentences(name: str, content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(EvenhandError, match=message):
        resume_names(TextChat(lambda text, options: sigmoid(0)), tmp_path / name)


def test_other_bad_input(tmp_path: Path) -> None:
    chat = TextChat(lambda text, options: sigmoid(0))
    with pytest.raises(EvenhandError, match="no set of documents"):
        resume_names(chat, "resumes")
    with pytest.raises(EvenhandError, match=r"no \.txt or \.md file"):
        resume_names(chat, tmp_path)
    with pytest.raises(EvenhandError, match="missing"):
        resume_names(chat, tmp_path / "missing.txt")
    with pytest.raises(EvenhandError, match="answer must be yes-no or number"):
        resume_names(chat, answer="maybe")
    assert measured(chat, concept="religion")["gap:islam"].status == "undefined"


def test_answers_that_all_move_alike_move_no_name() -> None:
    """The change of a gap is tested on names: what is common to all of them cancels in the gap and in its units."""
    names = [name for group in AGE.names.values() for name in group]

    def gap(shift: float) -> object:
        def decide(text: str, options: object) -> list[float]:
            row = next(row for row, name in enumerate(names) if f"{name} " in text)
            return sigmoid(shift + 0.1 * row, 0.9)

        return measured(TextChat(decide), concept="age")["gap"]

    before, after = gap(0.0), gap(2.0)
    assert after.value == pytest.approx(before.value)
    assert before.units[0].value == pytest.approx(before.value)
    assert after.units[0].columns == pytest.approx(before.units[0].columns)
