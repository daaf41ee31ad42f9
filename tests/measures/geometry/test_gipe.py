from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenhand as eh
from evenhand.errors import UsageError
from evenhand.measures import get
from evenhand.measures.geometry import proximity_bias as graph_module
from evenhand.measures.geometry.biased_words import concept_direction
from evenhand.models.vectors import Vectors
from evenhand.subspaces import Subspace

gipe, proximity_bias = get("gipe"), get("proximity-bias")
WORDS = [f"w{c}" for c in "abcdefghijklmnop"]
THETA, K = 0.05, 3
# The planted vectors have three of the ten pairs of gender.
pytestmark = pytest.mark.filterwarnings("ignore:planted has 3 of 10 pairs:evenhand.errors.EvenhandWarning")


def tables(seed: int) -> tuple[Vectors, Vectors, Subspace]:
    rng = np.random.default_rng(seed)
    before = Vectors(WORDS, rng.normal(size=(len(WORDS), 5)))
    now = before.with_matrix(before.matrix + rng.normal(scale=0.7, size=before.matrix.shape))
    return now, before, Subspace.given(rng.normal(size=(1, 5)))


def beta(w: np.ndarray, v: np.ndarray, g: np.ndarray) -> float:
    w, v = w / np.linalg.norm(w), v / np.linalg.norm(v)
    w_off, v_off = w - (w @ g) * g, v - (v @ g) * g
    return float((w @ v - w_off @ v_off / np.linalg.norm(w_off) / np.linalg.norm(v_off)) / (w @ v))


def brute_force(
    now: Vectors, before: Vectors, along: Subspace, sources: list[str], pool: list[str], unvisited: int
) -> tuple[float, float, bool]:
    """GIPE, mean eta, and whether some edge is so near theta that rounding may decide it."""
    g = along.basis[0]
    edges: list[tuple[str, str, float]] = []
    for word in sources:
        unit = {w: now[w].astype(float) / np.linalg.norm(now[w]) for w in {word, *pool}}
        near = sorted((w for w in pool if w != word), key=lambda w: -float(unit[w] @ unit[word]))[:K]
        edges += [(word, w, beta(before[word].astype(float), before[w].astype(float), g)) for w in near]
    eta = {w: np.mean([b > THETA for start, _, b in edges if start == w]) for w in sources}
    gamma = {}
    for word in sources:
        into = [b > THETA for _, end, b in edges if end == word]
        gamma[word] = 1 + sum(into) / len(into) if into else unvisited
    total = sum(gamma.values())
    return (
        sum(gamma[w] * eta[w] for w in sources) / total,
        float(np.mean(list(eta.values()))),
        min(abs(b - THETA) for _, _, b in edges) < 1e-4,
    )


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 100_000), unvisited=st.sampled_from([0, 1]), some=st.booleans())
def test_it_equals_a_double_loop(seed: int, unvisited: int, some: bool) -> None:
    now, before, along = tables(seed)
    sources, pool = (WORDS[:9], WORDS[4:]) if some else (WORDS, WORDS)
    expected, eta, close = brute_force(now, before, along, sources, pool, unvisited)
    if close:
        return
    options = {"theta": THETA, "k": K, "pool": pool, "subspace": along, "reference": before}
    m = gipe(now, sources, unvisited=unvisited, **options)
    assert m.value == pytest.approx(expected, abs=1e-9)
    assert m.details["unweighted"] == pytest.approx(eta)
    assert proximity_bias(now, sources, **options).value == pytest.approx(eta)


def test_the_weight_of_a_word_without_incoming_edges() -> None:
    # c is far from the three others, so that with one neighbour each, no edge leads to it.
    v = Vectors(["a", "b", "c"], [[1, 0.05, 0.1], [1, 0, 0], [-0.2, 0.2, 1]])
    along = Subspace.given([[1.0, 0.0, 0.0]])
    options = {"k": 1, "pool": ["a", "b", "c"], "subspace": along, "theta": -10}
    one, nothing = (gipe(v, ["a", "b", "c"], unvisited=weight, **options) for weight in (1, 0))
    assert one.details["unvisited"] == 1
    assert [item["weight"] for item in one.items][2] == 1
    assert [item["weight"] for item in nothing.items][2] == 0


def test_a_sample_has_neighbours_in_the_whole_pool(planted) -> None:
    v = planted()
    m = gipe(v, sample=10, k=5, min_share=0.3)
    assert (m.n, m.details["pool"]["used"]) == (10, 40)
    assert (m.params["sample"], m.params["pool"]) == (10, "vocabulary")
    assert gipe(v, sample=10, k=5, min_share=0.3) == m
    assert gipe(v, sample=None, k=5, min_share=0.3).n == 40


def test_a_sample_estimates_the_whole(planted) -> None:
    v = planted(n=150, first=0.5, second=0.0)
    drawn, whole = (gipe(v, sample=sample, k=10, min_share=0.3).value for sample in (150, None))
    assert drawn == pytest.approx(whole, abs=0.03)


def test_blocks_do_not_change_the_answer(planted, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = gipe(planted(), k=5, min_share=0.3)
    monkeypatch.setattr(graph_module, "CELLS_AT_ONCE", 100)
    assert gipe(planted(), k=5, min_share=0.3) == whole


def test_the_direction_is_that_of_the_reference(planted) -> None:
    before = planted(first=0.4, second=0.0)
    scattered = before.with_matrix(np.random.default_rng(5).normal(size=before.matrix.shape))
    old, new = (concept_direction(table, eh.concept("gender")) for table in (before, scattered))
    m = gipe(scattered, k=5, reference=before, min_share=0.3)
    assert m.value == gipe(scattered, k=5, reference=before, subspace=old).value
    assert m.value != pytest.approx(gipe(scattered, k=5, reference=before, subspace=new).value, abs=0.01)


def test_nothing_along_the_direction_means_no_illicit_neighbour() -> None:
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(len(WORDS), 5))
    rows[:, 0] = 0
    m = gipe(Vectors(WORDS, rows), WORDS, k=3, pool=WORDS, subspace=Subspace.given([[1.0, 0, 0, 0, 0]]))
    assert m.value == 0


def test_undefined_results_and_invalid_arguments(planted) -> None:
    v = planted()
    for function in (gipe, proximity_bias):
        assert "no word of words" in function(v, ["nowhere"]).reason
        assert "pairs 3 of 10" in function(v, "vocabulary", k=5).reason  # most pairs of the concept are missing
        assert function(v.restrict(v.words[6:])).status == "undefined"  # no pair to learn the direction from
    alone = Vectors(["a", "b"], np.eye(2))
    along = Subspace.given([[1.0, 0.0]])
    m = gipe(alone, ["a"], pool=["a", "b"], subspace=along, unvisited=0)
    assert "all weights are 0" in m.reason
    with pytest.raises(UsageError, match="unvisited must be 0 or 1, got 2"):
        gipe(v, unvisited=2)
    with pytest.raises(UsageError, match="got 0"):
        gipe(v, sample=0, min_share=0.3)


@pytest.mark.data
def test_the_published_number_on_googlenews(googlenews: Vectors) -> None:
    """Dawkins 2021, table 6: .021 over a larger vocabulary (46,960 words against 26,106 here)."""
    assert gipe(googlenews).value == pytest.approx(0.021, abs=0.004)
