"""her -> him or his, his -> her or hers: accuracy on sentences labelled by hand, and on natural text.

Half of the sentences were used to choose the rule (`pronouns-tuning.tsv`); the other half only to measure it.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from evenhand.stats.bootstrap import wilson
from evenhand.words.pronouns import SPLIT, counterpart, is_independent, is_object

HERE = Path(__file__).parent
DATA = os.environ.get("EVENHAND_DATA")


def decisions(half: str) -> list[tuple[str, str]]:
    """Return the expected and the chosen word for each sentence."""
    rows = []
    for line in (HERE / f"pronouns-{half}.tsv").read_text(encoding="utf-8").splitlines():
        expected, sentence = line.split("\t")
        before, pronoun, after = re.fullmatch(r"(.*)\[(\w+)\](.*)", sentence).groups()  # type: ignore[union-attr]
        parts, position = SPLIT.split(before + pronoun + after), len(SPLIT.split(before))
        assert parts[position] == pronoun
        if pronoun.lower() == "her":
            chosen = "him" if is_object(parts, position)[0] else "his"
        else:
            chosen = "hers" if is_independent(parts, position)[0] else "her"
        assert counterpart(before + pronoun + after, len(before), len(before + pronoun)) == chosen
        rows.append((expected, chosen))
    return rows


def test_there_are_enough_sentences_of_each_kind() -> None:
    labels = [expected for half in ("tuning", "held-out") for expected, _ in decisions(half)]
    assert len(labels) == 237
    assert all(labels.count(word) >= 40 for word in ("him", "his", "her", "hers"))


@pytest.mark.parametrize(
    ("words", "right", "count", "interval"),
    [(("him", "his"), 66, 77, (0.762, 0.918)), (("her", "hers"), 42, 43, (0.879, 0.996))],
)
def test_the_documented_accuracy_on_held_out_sentences(
    words: tuple[str, ...], right: int, count: int, interval: tuple[float, float]
) -> None:
    held_out = [(expected, chosen) for expected, chosen in decisions("held-out") if expected in words]
    assert len(held_out) == count
    assert sum(expected == chosen for expected, chosen in held_out) == right
    assert wilson(right / count, count).ravel() == pytest.approx(interval, abs=5e-4)


@pytest.mark.parametrize(
    ("text", "position", "expected"),
    [
        ("I saw her.", 2, True),
        ("I gave her a pen", 2, True),
        ("with her mother", 1, False),
        ("made her on-screen debut", 1, False),
        ("of [her] work", 1, False),
        ("lost her ring to him", 1, False),
        ("SHE LEFT HER HOUSE", 2, False),
        ("She Left Her House", 2, False),
        ("they elected her president in May", 2, True),
        ("they elected her successor in May", 2, False),
        ("they made her chief executive", 2, True),
    ],
)
def test_her(text: str, position: int, expected: bool) -> None:
    assert is_object(SPLIT.split(text), 2 * position + 1)[0] is expected


@pytest.mark.parametrize(
    ("text", "position", "expected"),
    [
        ("It is his.", 2, True),
        ("a friend of his from Rome", 3, True),
        ("his or her passport", 0, False),
        ("his/her passport", 0, False),
        ("his in-laws", 0, False),
        ("his newly built house", 0, False),
        ("it was his alone", 2, True),
        ("all his alone time", 1, False),
        ("a friend of his called", 3, True),
        ("a friend of his father called", 3, False),
        ("he said that one of his wounded men", 5, False),
    ],
)
def test_his(text: str, position: int, expected: bool) -> None:
    assert is_independent(SPLIT.split(text), 2 * position + 1)[0] is expected


@pytest.mark.data
@pytest.mark.skipif(not DATA, reason="needs EVENHAND_DATA")
def test_natural_text_whose_pronouns_are_masculine() -> None:
    """Him and his are replaced by her, and must be found again; this text took no part in fitting the weights."""
    texts = [(Path(str(DATA)) / "wikitext-2" / f"{part}.txt").read_text(encoding="utf-8") for part in ("test", "valid")]
    lines = (Path(str(DATA)) / "snli" / "test.jsonl").read_text(encoding="utf-8").splitlines()
    texts += [text for line in lines for key, text in json.loads(line).items() if key in ("premise", "hypothesis")]
    right = count = 0
    for text in texts:
        parts = SPLIT.split(text)
        for position in range(1, len(parts), 2):
            word = parts[position].lower()
            if word in ("him", "his"):
                masked = [*parts[max(0, position - 5) : position], "her", *parts[position + 1 : position + 12]]
                right += is_object(masked, min(position, 5))[0] == (word == "him")
                count += 1
    assert count > 3000
    assert right / count > 0.975
