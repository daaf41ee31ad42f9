"""Table 2 of Ethayarajh et al. 2019: where vectors reconstruct the counts exactly, text and vectors agree."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scipy.sparse import csr_array
from typer.testing import CliRunner

from evenhand.cli.app import app
from evenhand.corpus import Cooccurrence
from evenhand.errors import DegenerateError, UsageError, VocabularyError
from evenhand.models.vectors import Vectors
from evenhand.reproduce.genderedness import (
    MEANS,
    PUBLISHED,
    GenderednessGroup,
    GenderednessSettings,
    as_table,
    compare,
    estimate_constants,
    examples,
    prepare,
    table_2,
    usable_pairs,
)
from evenhand.words import Pairs

PAIRS = Pairs("defining", [("she", "he"), ("woman", "man"), ("girl", "boy")], ("female", "male"))
APPROPRIATE = Pairs("appropriate", [("queen", "king"), ("mom", "dad"), ("she", "he")])
BIASED = Pairs("biased", [("nurse", "doctor"), ("singer", "boss")])
LISTED = [word for pairs in (PAIRS, APPROPRIATE, BIASED) for two in pairs for word in two]
WORDS = [*dict.fromkeys(LISTED), "speed", *(f"w{chr(97 + i)}" for i in range(26))]
SETTING = GenderednessSettings(PAIRS, APPROPRIATE, BIASED, neutral=20, min_pairs=3)
Q, LAMBDA = 0.3, 1.7


def loaded(name: str) -> ModuleType:
    """Return a script as a module."""
    spec = spec_from_file_location(name, Path(__file__).parents[2] / f"scripts/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def exact(seed: int = 0, lambda_: float = LAMBDA) -> tuple[Cooccurrence, Vectors]:
    """Counts with p(x|x) = Q for every word, and vectors W with lambda W W^T = PMI + 1: no error of reconstruction.

    Then lambda |x - y|^2 = PMI(x,x) + PMI(y,y) - 2 PMI(x,y) = 2 log Q - csPMI(x,y): alpha is 2 log Q.
    """
    rng = np.random.default_rng(seed)
    n = len(WORDS)
    upper = np.triu(np.exp(0.2 * rng.normal(size=(n, n))), 1)
    table = upper + upper.T
    table += np.diag(Q / (1 - Q) * table.sum(axis=1))
    row = table.sum(axis=1)
    # Any multiple of the matrix of ones may be added: it cancels in differences, and makes the square root exist.
    values, axes = np.linalg.eigh(np.log(table * table.sum() / np.outer(row, row)) + 1)
    assert values.min() > 0
    vectors = Vectors(WORDS, axes * np.sqrt(values / lambda_), name="exact")
    return Cooccurrence(tuple(WORDS), csr_array(table), np.full(n, 500), {}), vectors


def test_alpha_and_lambda_are_recovered_from_an_exact_factorisation() -> None:
    counts, vectors = exact()
    pairs = usable_pairs(counts, vectors, PAIRS)
    assert estimate_constants(counts, vectors, pairs, lambda_=LAMBDA).alpha == pytest.approx(2 * np.log(Q), abs=1e-3)
    both = estimate_constants(
        counts, vectors, Pairs("more", [(a, b) for a in WORDS[:8] for b in WORDS[8:16]]), lambda_=None
    )
    assert both.alpha == pytest.approx(2 * np.log(Q), abs=0.01)
    assert both.lambda_ == pytest.approx(LAMBDA, rel=0.01)
    assert both.error < 1e-5


def test_without_error_of_reconstruction_nothing_changes() -> None:
    counts, vectors = exact()
    found = compare(counts, vectors, settings=replace(SETTING, lambda_=LAMBDA, defining=True))
    assert set(found.groups) == {"appropriate", "biased", "neutral"}
    for group in found.groups.values():
        assert group.embedding == pytest.approx(group.corpus, abs=1e-4)
        assert group.change == pytest.approx(0, abs=1e-4)
    assert len(found.groups["appropriate"].words) == 6
    assert len(found.groups["neutral"].words) == 20


def test_male_is_above_zero() -> None:
    counts, vectors = exact()
    found = compare(counts, vectors, settings=replace(SETTING, lambda_=LAMBDA, defining=True)).groups["appropriate"]
    assert found.values("he")[0] > 0 > found.values("she")[0]
    assert found.values("he")[1] > 0 > found.values("she")[1]
    assert found.values("absent") is None


def test_vectors_stretched_along_the_axis_are_told_from_the_text() -> None:
    """Twice the part along the mean difference: every word becomes more gendered than its text."""
    counts, vectors = exact()
    pairs = usable_pairs(counts, vectors, PAIRS)
    c = estimate_constants(counts, vectors, pairs, lambda_=LAMBDA)
    axis = np.mean([vectors[a] - vectors[b] for a, b in pairs], axis=0).astype(np.float64)
    axis /= np.linalg.norm(axis)
    stretched = vectors.with_matrix((vectors.matrix + 2 * np.outer(vectors.matrix @ axis, axis)).astype(np.float32))
    given = replace(SETTING, alpha=c.alpha, lambda_=c.lambda_)
    before, after = (compare(counts, v, settings=given).groups["neutral"] for v in (vectors, stretched))
    assert before.summary()["change"] == pytest.approx(0, abs=1e-4)
    assert after.summary()["change"] > 0.1
    assert after.summary()["t_test"] < 0.001
    assert after.summary()["interval"][0] > 0


def test_summary_by_hand() -> None:
    group = GenderednessGroup("x", ("a", "b", "c"), np.array([0.1, -0.2, 0.3]), np.array([0.2, -0.5, -0.3]))
    ours = group.summary()
    assert group.change == pytest.approx([0.1, 0.3, 0.0])
    assert ours["corpus"] == pytest.approx(0.2)
    assert ours["embedding"] == pytest.approx(1 / 3)
    assert ours["change"] == pytest.approx(0.4 / 3)
    mean, deviation = 0.4 / 3, np.std([0.1, 0.3, 0.0], ddof=1)
    from scipy.stats import t

    assert ours["t_test"] == pytest.approx(2 * t.sf(mean / (deviation / np.sqrt(3)), 2))
    assert GenderednessGroup("x", ("a",), np.ones(1), np.ones(1)).summary()["change"] is None


def test_rare_words_are_lost_with_the_reason() -> None:
    counts, vectors = exact()
    given = replace(SETTING, biased=Pairs("b", [("nurse", "zebra"), ("boss", "nurse")]), least=1.0, min_pairs=1)
    table = counts.matrix.toarray()
    place = WORDS.index("boss")
    table[place, : len(LISTED)] = table[: len(LISTED), place] = 0.01
    thin = Cooccurrence(counts.words, csr_array(table), counts.occurrences)
    found = compare(thin, vectors, settings=given).groups["biased"]
    assert found.lost == {"zebra": "too rare", "boss": "0 pairs defined"}
    assert found.words == ("nurse",)


def test_the_table_has_the_published_values_beside_ours() -> None:
    counts, vectors = exact()
    table = as_table(examples(counts, vectors, settings=SETTING), title="exact")
    assert len(table.rows) == 15
    rows = {(row[0], row[1]): row for row in table.rows}
    assert rows["biased", "nurse"][2:8:2] == PUBLISHED["biased"]["nurse"]
    assert rows["biased", "nurse"][3] is not None
    assert rows["biased", "housekeeper"][3] is None
    (mean,) = (row for row in table.rows if row[0] == "neutral" and row[1].startswith("mean of 20"))
    assert mean[2:8:2] == MEANS["neutral"][1:4]
    assert any("alpha" in note for note in table.notes)
    json.dumps(table.to_dict(), allow_nan=False)


def test_published_changes_fit_the_published_values() -> None:
    """Every printed change is |embedding| - |corpus| to rounding, which says which column is which."""
    for words in PUBLISHED.values():
        for corpus, embedding, change in words.values():
            assert abs(embedding) - abs(corpus) == pytest.approx(change, abs=0.0015)


def test_sensitivity_has_a_row_for_every_choice_and_one_that_is_impossible() -> None:
    script = loaded("genderedness_page")
    counts, vectors = exact()
    shifted = vectors.with_matrix(vectors.matrix * np.float32(1.5))
    others = {"stretched vectors": (counts, shifted)}
    table = script.sensitivity(counts, vectors, settings=SETTING, others=others)
    rows = {row[0]: row for row in table.rows}
    assert rows["the paper"][script.SENSITIVITY_COLUMNS.index("appropriate n")] == 164
    assert rows["alpha -1"][1] == -1
    assert any(label.startswith("neutral words from 1000 occurrences: no neutral word") for label in rows)
    assert (
        rows["stretched vectors"][script.SENSITIVITY_COLUMNS.index("neutral vectors")]
        > rows["as in the table"][script.SENSITIVITY_COLUMNS.index("neutral vectors")]
    )
    assert rows["with the defining words"][script.SENSITIVITY_COLUMNS.index("appropriate n")] == 6
    assert rows["as in the table"][script.SENSITIVITY_COLUMNS.index("appropriate n")] == 4
    json.dumps(script.record(examples(counts, vectors, settings=SETTING)), allow_nan=False)


def test_misuse_and_missing_words_are_named(tmp_path: Path) -> None:
    counts, vectors = exact()
    with pytest.raises(UsageError, match="neutral and min_pairs must be at least 1"):
        GenderednessSettings(neutral=0)
    with pytest.raises(VocabularyError, match="no pair of defining is in the counts and in strange"):
        compare(counts, Vectors(["x"], [[1.0]], name="strange"), settings=SETTING)
    with pytest.raises(DegenerateError, match="no neutral word occurs 501 times"):
        compare(counts, vectors, settings=replace(SETTING, frequent=501))
    with pytest.raises(UsageError, match=r"holds counts, on which SGNS cannot be trained"):
        table_2(tmp_path / "counts.safetensors")


def test_the_command_takes_counts_and_vectors(tmp_path: Path) -> None:
    counts, vectors = exact()
    counts.save(tmp_path / "counts.safetensors")
    vectors.save(tmp_path / "words.safetensors")
    asked = ["reproduce", "ethayarajh2019", "--table", "2", "--json", "--vectors", str(tmp_path / "words.safetensors")]
    done = CliRunner().invoke(app, [*asked, "--corpus", str(tmp_path / "counts.safetensors")])
    assert done.exit_code == 0, done.output
    (table,) = json.loads(done.stdout)
    assert len(table["series"][0]["table"]["rows"]) == 15
    assert "neutral: mean" in {number["row"] for number in table["numbers"]}
    (without,) = json.loads(CliRunner().invoke(app, asked).stdout)
    assert "--corpus" in without["missing"][0]


def talk(seed: int = 0) -> str:
    rng = np.random.default_rng(seed)
    female, male = (
        ["she", "woman", "girl", "queen", "nurse", "speed"],
        ["he", "man", "boy", "king", "doctor", "speed"],
    )
    both = [*female, *male, "mom", "dad"]
    lines = [" ".join(rng.choice(group, size=12)) for _ in range(60) for group in (female, male, both)]
    return "\n".join(lines)


def test_vectors_are_trained_and_counts_follow_their_training(tmp_path: Path) -> None:
    pytest.importorskip("gensim")
    path = tmp_path / "text.txt"
    path.write_text(talk())
    training = {"dim": 8, "window": 3, "epochs": 2, "min_count": 2, "documents": "line"}
    counts, vectors = prepare([path], **training)
    assert counts.words == vectors.words
    assert {name: counts.params[name] for name in ("window", "weighting", "min_count", "documents")} == {
        "window": 3, "weighting": "dynamic", "min_count": 2, "documents": "line",
    }  # fmt: skip
    again, same = prepare(path, vectors, documents="line")
    assert same is vectors
    assert (again.matrix != counts.matrix).nnz == 0
    table = table_2(path, vectors, settings=replace(SETTING, frequent=10, neutral=3), documents="line")
    assert str(path) in table.title
