"""The columns about generated text in the tables of Bordia & Bowman, from language models of a few thousand numbers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from evenhand import reproduce
from evenhand.corpus import Corpus
from evenhand.corpus.comparison import against_training
from evenhand.models import lm
from evenhand.reproduce import PaperComparison
from evenhand.reproduce.inputs import PaperInputs

SETTINGS = {"embedding": 8, "hidden": 10, "layers": 1, "batch": 8, "eval_batch": 2, "bptt": 20, "learning_rate": 5.0}
PARTS = {"train": 400, "valid": 40, "test": 40}


def sentences(count: int, seed: int) -> str:
    rng = np.random.default_rng(seed)
    lines = []
    for _ in range(count):
        woman = rng.random() < 0.5
        who = rng.choice(["she", "her", "mother"] if woman else ["he", "him", "father"])
        what = rng.choice(["nurse", "talent", "parents", "manager", "work", "idea"], p=weights(woman=woman))
        lines.append(f"{who} {rng.choice(['saw', 'met', 'knew'])} the {what} in the {rng.choice(['town', 'garden'])}")
    return "\n".join(lines) + "\n"


def weights(*, woman: bool) -> list[float]:
    return [0.3, 0.2, 0.2, 0.1, 0.1, 0.1] if woman else [0.1, 0.1, 0.1, 0.3, 0.2, 0.2]


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus in the files of the Penn Treebank."""
    folder = tmp_path_factory.mktemp("ptb")
    for seed, (part, count) in enumerate(PARTS.items()):
        (folder / f"ptb.{part}.txt").write_text(sentences(count, seed))
    return folder


@pytest.fixture(scope="module")
def models(texts: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """One model with two seeds."""
    corpus = lm.LMCorpus.read(*(str(texts / f"ptb.{part}.txt") for part in PARTS))
    folders = []
    for seed in (0, 1):
        folders.append(tmp_path_factory.mktemp(f"model-{seed}"))
        settings = lm.settings_of("ptb", **SETTINGS)
        lm.train(corpus, settings=settings, seed=seed, device="cpu", epochs=1).save(folders[-1])
    return folders


@pytest.fixture(scope="module", autouse=True)
def found_here(texts: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("evenhand.reproduce.bordia2019.locate", lambda name: texts if name == "ptb" else None)
        yield


def computed(id: str, *given: str, corpus: str | None = None) -> PaperComparison:
    return reproduce.beside(id, PaperInputs(models=given, sample=40, device="cpu", corpus=corpus))


@pytest.fixture(scope="module")
def found(found_here: None, models: list[Path]) -> PaperComparison:
    """One seed without the penalty, two with it."""
    return computed("bordia2019/table-1", f"0.0={models[0]}", *(f"0.01={folder}" for folder in models))


def test_scores_and_perplexity_are_those_of_the_model(found: PaperComparison, texts: Path, models: list[Path]) -> None:
    series = found.series[0]
    columns = {column for row, column in series.values if row == "0.0"}
    assert columns == {f"{context} {mark}" for context in ("fixed", "infinite") for mark in "μσβ"} | {"perplexity"}
    model, vocabulary, _ = lm.load(models[0], device="cpu")
    rows = lm.generate(model, vocabulary, samples=40, tokens=500, seed=0, start="uniform")
    source = Corpus([texts / "ptb.train.txt"], documents="file")
    expected = against_training(source, [vocabulary.decode(row) for row in rows], lists="bordia2019-ptb")["fixed"]
    ours = series.values["0.0", "fixed μ"]
    assert (ours.value, ours.interval) == (expected.value("mu"), expected.interval("mu"))
    words = (texts / "ptb.test.txt").read_text().replace("\n", " <eos> ").split()
    perplexity = lm.perplexity(model, vocabulary.encode(words))
    assert series.values["0.0", "perplexity"].value == pytest.approx(perplexity, rel=1e-6)
    assert series.values["0.01 - 0.0", "perplexity"].value == pytest.approx(
        0
    )  # paired: the first seed is the same model


def test_several_models_of_a_row_are_seeds_and_one_alone_never_says_no(found: PaperComparison) -> None:
    values = found.series[0].values
    assert [(values[row, "perplexity"].n, values[row, "perplexity"].sd is None) for row in ("0.0", "0.01")] == [
        (1, True), (2, False),
    ]  # fmt: skip
    single = [one for one in found.numbers if one.series == found.series[0].name and one.row == "0.0"]
    assert any(one.ours.interval and abs(one.difference or 0) > 1 for one in single)
    assert {one.agrees for one in single} <= {"yes", "unclear"}


def test_word_scores_are_those_of_what_the_model_writes(texts: Path, models: list[Path]) -> None:
    text = str(texts / "ptb.train.txt")
    series = computed("bordia2019/table-5", f"0.1={models[0]}", corpus=text).series[0]
    assert {column for _, column in series.values} == {"training", "0.1"}
    generated = {row: one for (row, column), one in series.values.items() if column == "0.1"}
    assert {"manager", "work", "idea"} <= set(generated)
    assert all(one.single for one in generated.values())  # whose difference from the paper is never a no
    women = computed("bordia2019/table-6", corpus=text).series[0]
    assert series.values["manager", "training"].value < 0 < women.values["talent", "training"].value


def test_a_file_of_texts_has_no_perplexity(texts: Path) -> None:
    series = computed("bordia2019/table-1", f"0.5={texts / 'ptb.valid.txt'}").series[0]
    assert ("0.5", "fixed μ") in series.values
    assert ("0.5", "perplexity") not in series.values
