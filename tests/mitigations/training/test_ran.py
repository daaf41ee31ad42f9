from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenhand as eh
from evenhand.arrays import unit_rows
from evenhand.errors import UsageError, VocabularyError
from evenhand.mitigations import RAN, VectorMap
from evenhand.mitigations.selection import ExceptListed
from evenhand.mitigations.training.ran import (
    PAPER,
    NeighbourBlock,
    block_of,
    descend,
    gradient,
    indirect,
    listed_words,
    objective,
)
from evenhand.models.vectors import Vectors
from evenhand.words import Concept

LETTERS = "abcdefghijklmnopqrstuvwxyz"
PAIRS = [("she", "he"), ("woman", "man")]
GENDER = Concept("gender", {"female": ["she", "woman"], "male": ["he", "man"]}, PAIRS, specific=["mother"])


def toy(seed: int = 0, n: int = 60, dim: int = 12) -> Vectors:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, dim))
    rows[:, 0] *= 3  # a strong direction, which the pairs lie along
    poles = np.array([[3.0], [-3.0], [3.0], [-3.0], [3.0]]) * np.eye(dim)[:1] + 0.3 * rng.normal(size=(5, dim))
    names = [f"{a}{b}" for a in LETTERS for b in LETTERS][:n]
    return Vectors(["she", "he", "woman", "man", "mother", *names], np.vstack([poles, rows]), name="toy")


def blocks(seed: int, *, words: int = 4, dim: int = 5, most: int = 3) -> tuple[NeighbourBlock, np.ndarray]:
    rng = np.random.default_rng(seed)
    g = unit_rows(rng.normal(size=(1, dim)))[0]
    repel = [unit_rows(rng.normal(size=(rng.integers(0, most + 1), dim))) for _ in range(words)]
    return block_of(unit_rows(rng.normal(size=(words, dim))), repel, g, PAPER), rng.normal(size=(words, dim))


def test_the_objective_by_hand() -> None:
    block = block_of(
        np.array([[1.0, 0.0]]), [np.array([[0.0, 1.0], [1.0, 0.0]])], np.array([0.0, 1.0]), (1.0, 10.0, 100.0)
    )
    # x = (3, 4): cosines 0.8 and 0.6 with the neighbours, 0.6 with the word, 4 along g
    assert objective(np.array([[3.0, 4.0]]), block, (1.0, 10.0, 100.0)) == pytest.approx([0.7 + 10 * 0.2 + 400])


@given(st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_the_gradient_is_that_of_the_objective(seed: int) -> None:
    block, x = blocks(seed)
    slope, step = gradient(x, block, PAPER), 1e-6
    for coordinate in range(x.shape[1]):
        nudge = step * np.eye(x.shape[1])[coordinate]
        kinked = (
            np.abs(np.matmul(block.rows, x[:, :, None])[:, :, 0]).min(axis=1, initial=1.0, where=block.rows.any(axis=2))
            < 1e-4
        )
        rise = (objective(x + nudge, block, PAPER) - objective(x - nudge, block, PAPER)) / (2 * step)
        assert np.allclose(slope[~kinked, coordinate], rise[~kinked], atol=1e-6)


def test_padding_and_other_words_of_the_block_change_nothing() -> None:
    block, _ = blocks(1, words=6)
    together = descend(block, PAPER, steps=40, rate=0.01)
    for word in range(6):
        there = block.rows[word, :-2][block.rows[word, :-2].any(axis=1)]
        alone = block_of(block.words[word][None], [there], block.rows[word, -1], PAPER)
        assert np.allclose(descend(alone, PAPER, steps=40, rate=0.01)[0], together[word], atol=1e-10)


@pytest.mark.parametrize("variant", ["paper", "released"])
def test_same_as_a_per_word_optimiser_of_the_same_objective(variant: str) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed (extra: models)")
    v = toy()
    method = RAN(variant=variant, theta=0.02, steps=100)  # type: ignore[arg-type]
    vm = method.fit(v, GENDER)
    l1, l2, l3 = vm.report["weights"]
    unit = unit_rows(v.matrix)
    g = eh.subspaces.pairs(v, PAIRS, normalise=True).basis[0]
    off = unit_rows(unit - np.outer(unit @ g, g))
    for word in ("aa", "ab", "ba", "cc"):
        w = unit[v.index[word]]
        dots = unit @ w
        order = [row for row in np.argsort(-dots) if row != v.index[word]][:199]
        hits = [row for row in order if (dots[row] - off[row] @ off[v.index[word]]) / dots[row] >= 0.02][:100]
        assert hits
        x = torch.tensor(w, requires_grad=True)
        near, own, along = torch.tensor(unit[hits]), torch.tensor(w), torch.tensor(g)
        adam = torch.optim.Adam([x], lr=0.01)
        for _ in range(100):
            length = x.norm()
            loss = l1 * (near @ x / length).abs().mean() + l2 * (1 - own @ x / length) / 2 + l3 * (x @ along).abs()
            adam.zero_grad()
            loss.backward()
            adam.step()
        expected = (x / x.norm()).detach().numpy()
        assert np.allclose(vm(v)[word], expected, atol=1e-4)


def test_indirect_bias_by_hand() -> None:
    # w = (.6, .8, 0), n = (.6, 0, .8): without the first axis they share nothing, so that all of .36 is due to it
    assert indirect(np.array([0.36]), np.array([0.6]), np.array([0.6])) == pytest.approx([1.0])
    assert indirect(np.array([0.5]), np.array([0.0]), np.array([0.0])) == pytest.approx([0.0])
    assert indirect(np.array([0.0, 1.0]), np.array([0.1, 1.0]), np.array([0.1, 1.0])).tolist() == [0.0, 0.0]


def test_indirect_bias_by_its_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    """1 - cos(w', n') / w.n with what lies along g taken out of both; 0 where either is next to nothing."""
    rng = np.random.default_rng(0)
    g = np.eye(4)[0]
    near = np.eye(4)[0] + 1e-3 * np.eye(4)[1]
    rows = unit_rows(np.vstack([rng.normal(size=(6, 4)), near, near + 1e-4 * np.eye(4)[2], np.eye(4)[1]]))
    for w in rows[:, None, :]:
        off = [row - (row @ g) * g for row in (w[0], *rows)]
        wanted = [1 - off[0] @ n / np.linalg.norm(off[0]) / np.linalg.norm(n) / (w[0] @ row) if abs(w[0] @ row) > 1e-6 else 0.0
                  for n, row in zip(off[1:], rows, strict=True)]  # fmt: skip
        found = indirect(w[0] @ rows.T, (w @ g)[0], rows @ g)
        assert found == pytest.approx(np.array(wanted), abs=1e-6)
    assert indirect(np.array([1e-6, 1.1e-6]), np.zeros(2), np.zeros(2)).tolist() == [0.0, 0.0]
    assert indirect(np.array([1.1e-6]), np.array([0.5]), np.array([0.5]))[0] > 1e4
    assert indirect(np.array([1e-6]), np.array([0.5]), np.array([0.5]))[0] == 0.0


def test_only_words_that_the_concept_does_not_list_are_changed() -> None:
    v = toy()
    vm = RAN(steps=50).fit(v, GENDER)
    after = vm(v)
    assert np.allclose(after.matrix[:5], unit_rows(v.matrix[:5]), atol=1e-6)
    assert np.allclose(after.norms, 1)
    assert vm.report["words_in_table"] == vm.report["words_changed"] == 60
    cosines = vm.report["mean_abs_cos_direction"]
    assert cosines["after"] < cosines["before"]
    assert listed_words(v, GENDER) == {"she", "he", "woman", "man", "mother"}


def test_the_words_to_change_can_be_chosen() -> None:
    v = toy()
    vm = RAN(change=["aa", "ab", "gone"], words=ExceptListed(["ab"]), steps=20).fit(v, GENDER)
    assert vm.report["words_in_table"] == 1
    assert vm.report["words_missing"] == ["gone"]
    assert vm.report["params"]["change"] == ["aa", "ab", "gone"]
    with pytest.raises(VocabularyError, match="none of the words to change"):
        RAN(change=["gone"]).fit(v, GENDER)


def test_a_vector_of_zeros_stays_one() -> None:
    v = toy()
    matrix = v.matrix.copy()
    matrix[7] = 0.0
    vm = RAN(steps=5).fit(Vectors(v.words, matrix), GENDER)
    after = vm(Vectors(v.words, matrix))
    assert vm.report["words_in_table"] == 59
    assert not after.matrix[7].any()
    assert np.allclose(np.delete(after.norms, 7), 1)
    with pytest.raises(VocabularyError, match="none of the words to change"):
        RAN(steps=5, change=[v.words[7]]).fit(Vectors(v.words, matrix), GENDER)


def test_the_released_weights() -> None:
    assert RAN(variant="released", steps=1).fit(toy(), GENDER).report["weights"] == [0.125, 0.75, 0.75]
    assert RAN(weights=(1.0, 0.0, 0.0), steps=1).fit(toy(), GENDER).report["weights"] == [1.0, 0.0, 0.0]


def test_repulsion_alone_lowers_the_objective() -> None:
    block, _ = blocks(5, words=20, dim=10)
    after = descend(block, PAPER, steps=300, rate=0.01)
    assert (objective(after, block, PAPER) <= objective(block.words, block, PAPER) + 1e-3).all()


def test_laws(tmp_path: Path) -> None:
    v = toy()
    before = v.matrix.copy()
    vm, again = (RAN(steps=30).fit(v, GENDER) for _ in range(2))
    assert vm.digest == again.digest
    assert np.array_equal(v.matrix, before)
    assert VectorMap.load(vm.save(tmp_path / "m")) == vm
    assert np.array_equal(vm(v.matrix, v.words), vm(v).matrix)
    with pytest.raises(UsageError, match="cannot map bare numbers"):
        vm(v.matrix)
    assert json.loads(json.dumps(vm.report))["method"] == "ran"


def test_single_precision_is_near() -> None:
    v = toy()
    double, single = (RAN(steps=30, precision=kind).fit(v, GENDER)(v).matrix for kind in ("double", "single"))  # type: ignore[arg-type]
    assert np.quantile(np.abs(double - single), 0.9) < 1e-4


def test_a_concept_without_pairs_uses_its_published_direction() -> None:
    v = eh.Vectors.default().head(300)
    concept = Concept("means", {"a": ["she", "her"], "b": ["he", "his"]})
    assert RAN(change=["president"], steps=5).fit(v, concept).report["subspace"]["how"] == "two-means"


def test_misuse() -> None:
    for wrong, message in (
        ({"variant": "code"}, "unknown variant 'code'"),
        ({"steps": 0}, "must be positive"),
        ({"neighbours": 1}, "at least 2"),
        ({"change": ["aa"], "vocabulary": 5}, "'aa' is not among the first 5 words"),
        ({"weights": (1.0, -1.0, 0.0)}, "at least 0"),
        ({"precision": "half"}, "unknown precision 'half'"),
    ):
        with pytest.raises(UsageError, match=message):
            RAN(**wrong).fit(toy(), GENDER)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="got the string 'nurse'"):
        RAN(change="nurse")
    with pytest.raises(VocabularyError, match="gal/guy"):
        RAN().fit(toy(), Concept("g", {"f": ["gal"], "m": ["guy"]}, [("gal", "guy")]))
