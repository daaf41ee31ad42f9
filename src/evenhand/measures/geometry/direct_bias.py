"""Direct and indirect bias: words and similarities along the direction of a concept (Bolukbasi et al. 2016)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from evenhand import subspaces
from evenhand.arrays import Matrix64, Vector64, row_norms, unit_rows
from evenhand.errors import UsageError
from evenhand.measures.call import MIN_SHARE, Call, ListCoverage, measure
from evenhand.measures.geometry.biased_words import (
    DirectionFrom,
    DirectionSource,
    Restriction,
    WordSelection,
    WordSource,
    describe_direction,
    direction_source,
    given_or_learned,
    select_words,
)
from evenhand.measures.measurement import MeasuredItem, Measurement, word_items
from evenhand.measures.registry import Info
from evenhand.models.vectors import Vectors
from evenhand.stats import mean_interval
from evenhand.stats.units import mean_units
from evenhand.subspaces import Subspace
from evenhand.subspaces.subspace import oriented
from evenhand.words import Concept, Pairs, as_concept
from evenhand.words import pairs as find_pairs

DIRECT_BIAS_INFO = Info(
    id="direct-bias",
    title="Direct bias",
    takes="words",
    better="lower",
    formula="DB_c = mean_w |cos(w, g)|^c;  in k dimensions |cos| is the length of the unit word's projection",
    reading="0: the words have no component along the direction. Random words in d dimensions: about sqrt(2 / (pi d)).",
    limits=(
        "Projecting the direction out makes it 0 by construction while neighbours and classifiers still find the "
        "concept (Gonen & Goldberg 2019): a 0 here does not mean that bias is gone."
    ),
    cites=("bolukbasi2016", "gonen2019"),
    queries=("bolukbasi2016-professions",),
    family="geometry",
    variants={"old-direction": {"direction": "original"}, "new-direction": {"direction": "own"}},
    definition=3,
    by_construction=("old-direction",),
    in_tradeoff=True,
    plain=7,
    charts=("extreme-words", "projection-density", "word-movement", "scree", "measure-agreement"),
    ticked=("vectors",),
)
LEARNED_FROM = 500  # words, spread over the list, from which the direction across the axis is learned
NEGLIGIBLE = 1e-6  # below the precision of float32 vectors a component counts as 0: 0^0 would count it as a whole word


@measure(DIRECT_BIAS_INFO)
def direct_bias(
    call: Call,
    vectors: Vectors,
    words: WordSource,
    *,
    subspace: Subspace | None = None,
    concept: Concept | str = "gender",
    how: DirectionFrom = "pairs",
    direction: DirectionSource = "own",
    c: float = 1.0,
    min_share: float = MIN_SHARE,
    restriction: Restriction | None = None,
    reference: Vectors | None = None,
    seed: int = 0,
) -> Measurement:
    """Measure the mean |cos(w, g)|^c over words.

    Args:
        vectors: the vectors to measure.
        words: a list of words, its id or its file; "vocabulary" is V_t, see `Restriction`.
        subspace: the direction or subspace g; learned from the concept by default.
        concept: the concept whose pairs give g. With three groups or more, g is the first principal direction of all
            pairs; without pairs, that of the concept's recipe or between its positive group and the rest.
        how: "pairs" takes the first principal direction of the pairs with unit vectors, as in the paper; "pair" the
            published pair (she - he) alone, as Dawkins 2021 does.
        direction: "own" learns g on these vectors: what is still there after a mitigation. "original" learns it on the
            reference: what is left along the direction that was removed.
        c: strictness. 0 is the paper's strictest case: the share of words with any component along g.
        min_share: smallest share of the words, and of the pairs, that the vocabulary must have.
        restriction: how the vocabulary is restricted.
        reference: vectors before mitigation.
        seed: recorded only; nothing is drawn at random.

    Returns:
        The mean, with the signed cosine of each word in `items`.

    What it does not tell you: whether bias is gone, see `evenhand show direct-bias`.
    """
    concept = as_concept(concept)
    if not c >= 0:
        raise UsageError(f"c must not be negative, got {c}")
    source = direction_source(vectors, reference, direction)
    selection = select_words(vectors, words, concept=concept, restriction=restriction)
    took_effect = {"direction": "given" if subspace else direction, **selection.restriction}
    call.describe(selection.name, positive=concept.positive, coverage=selection.coverage, params=took_effect)
    axis = given_or_learned(call, subspace, source, concept, how=how, lists=selection.lists(), min_share=min_share)
    cosines = axis.coordinates(unit_rows(selection.matrix(vectors)))
    pictured = {
        "groups": _group_cosines(vectors, concept, axis),
        **({"scree": subspaces.scree(source, axis, seed=seed).to_dict()} if axis.how == "pairs" else {}),
    }
    lengths = _powers(cosines, c)
    value = float(lengths.mean())
    return call.measurement(
        value,
        len(lengths),
        interval=mean_interval(lengths, limits=(0.0, 1.0)),
        reading=_reading(value, c, concept.name),
        items=word_items(selection.words, cosines[:, 0], across=_across(selection, vectors, source, axis)),
        units=(mean_units("word", selection.words, lengths),),
        details={
            "random_level": float(np.sqrt(2 / (np.pi * vectors.dim))),
            "sizes": dict(selection.sizes),
            **describe_direction(axis),
            **pictured,
        },
    )


def _group_cosines(vectors: Vectors, concept: Concept, axis: Subspace) -> dict[str, list[float]]:
    """Return cos(w, g) of the words and names of each group, for a picture."""
    by_group: dict[str, list[float]] = {}
    for name, words in concept.groups.items():
        rows, _ = vectors.locate([*words, *concept.names.get(name, ())])
        cosines = axis.coordinates(unit_rows(vectors.matrix[rows]))[:, 0] if len(rows) else np.zeros(0)
        by_group[name] = np.round(cosines, 4).tolist()
    return by_group


def _across(selection: WordSelection, vectors: Vectors, source: Vectors, axis: Subspace) -> list[float]:
    """Return cosines with the strongest direction of the words across the axis, learned where the axis was learned."""
    rows, _ = source.locate(selection.words)
    spread = rows[np.unique(np.linspace(0, len(rows) - 1, min(len(rows), LEARNED_FROM)).astype(np.int64))]
    rest = axis.reject(unit_rows(source.matrix[spread])) if len(rows) else np.zeros((0, axis.dim))
    if len(rest) < 2 or np.ptp(rest, axis=0).max() <= NEGLIGIBLE:
        return [0.0] * len(selection)
    _, _, right = np.linalg.svd(rest - rest.mean(axis=0), full_matrices=False)
    coordinates = unit_rows(selection.matrix(vectors)) @ oriented(right[:1])[0]
    return [round(float(coordinate), 4) for coordinate in coordinates]


def _powers(cosines: Matrix64, c: float) -> Vector64:
    """Return the length of each unit word's projection onto the subspace, to the power c."""
    lengths = row_norms(cosines)
    return np.where(lengths > NEGLIGIBLE, lengths**c, 0.0)


def _reading(value: float, c: float, concept: str) -> str:
    if c == 1:
        return f"on average {100 * value:.1f} % of a word's length is along the {concept} direction"
    return f"the mean share along the {concept} direction, to the power {c:g}, is {value:.4f}"


INDIRECT_BIAS_INFO = Info(
    id="indirect-bias",
    title="Indirect bias",
    takes="words",
    better="zero",
    formula="beta(w, v) = (w.v - cos(w', v')) / w.v,  unit w and v, w' = w without its component along g",
    reading="The share of the similarity of two words that is due to the direction; below 0 when it hid some.",
    limits=(
        "It sees the similarity along one direction only, grows without bound as w.v nears 0, and a pair says nothing "
        "about other pairs. Words that share nothing but the concept have beta near 1, which may be justified."
    ),
    cites=("bolukbasi2016",),
    queries=(),  # no published list of pairs; proximity-bias and gipe measure it over whole neighbourhoods
    family="geometry",
    definition=3,
)
SMALLEST = 1e-6  # below this w.v and the length of w' are rounding of float32 vectors, and beta is a quotient of noise


@measure(INDIRECT_BIAS_INFO)
def indirect_bias(
    call: Call,
    vectors: Vectors,
    pairs: Pairs | str | Iterable[Sequence[str]],
    *,
    subspace: Subspace | None = None,
    concept: Concept | str = "gender",
    how: DirectionFrom = "pairs",
    direction: DirectionSource = "own",
    smallest: float = SMALLEST,
    min_share: float = MIN_SHARE,
    reference: Vectors | None = None,
    seed: int = 0,
) -> Measurement:
    """Measure the mean beta over pairs of words.

    Args:
        vectors: the vectors to measure.
        pairs: pairs of words, their id or their file.
        subspace: the direction or subspace g; learned from the concept by default.
        concept: the concept whose pairs give g, as in `direct_bias`; any number of groups.
        how: how g is learned, as in `direct_bias`.
        direction: "own" learns g on these vectors, "original" on the reference.
        smallest: a pair whose similarity (or whose length off the direction) is below this has no beta; it is listed
            with the reason and left out of the mean.
        min_share: smallest share of the pairs, and of the concept's pairs, that the vocabulary must have.
        reference: vectors before mitigation.
        seed: recorded only; nothing is drawn at random.

    Returns:
        The mean, with beta and the similarity of each pair in `items`.

    What it does not tell you: whether that share is unjust. See `evenhand show indirect-bias`.
    """
    wanted = find_pairs(pairs) if isinstance(pairs, str | Pairs) else Pairs("pairs", pairs)
    concept, source = as_concept(concept), direction_source(vectors, reference, direction)
    selection = select_words(vectors, dict.fromkeys(wanted.first + wanted.second), concept=concept)
    index = {word: row for row, word in enumerate(selection.words)}
    complete = [(w, v) for w, v in wanted if w in index and v in index]
    call.describe(wanted.name, coverage=selection.coverage, params={"direction": "given" if subspace else direction})
    pairs_list = ListCoverage(wanted.name, len(complete), len(wanted), "pair")
    axis = given_or_learned(call, subspace, source, concept, how=how, lists=(pairs_list,), min_share=min_share)
    unit = unit_rows(selection.matrix(vectors))
    first, second = (unit[[index[pair[side]] for pair in complete]] for side in (0, 1))
    similarities = np.einsum("ij,ij->i", first, second)
    values = beta(similarities, axis.coordinates(first), axis.coordinates(second), smallest=smallest)
    items = tuple(_item(*row) for row in zip(complete, similarities, values, strict=True))
    defined = values[np.isfinite(values)]
    if not len(defined):
        return call.undefined("no pair has a beta: all similarities are nearly 0", items=items)
    return call.measurement(
        float(defined.mean()),
        len(defined),
        interval=mean_interval(defined),
        units=(mean_units("pair", (" ".join(pair) for pair in _defined(complete, values)), defined),),
        reading=f"{100 * defined.mean():.1f} % of the similarity of a pair is along the {concept.name} direction",
        items=items,
        details={
            "asked": len(wanted),
            "lost": len(wanted) - len(complete),
            "undefined": len(complete) - len(defined),
            **describe_direction(axis),
        },
    )


def _defined(pairs: Sequence[tuple[str, str]], values: Vector64) -> list[tuple[str, str]]:
    return [pair for pair, value in zip(pairs, values, strict=True) if np.isfinite(value)]


def beta(similarities: Matrix64, first: Matrix64, second: Matrix64, *, smallest: float = SMALLEST) -> Vector64:
    """Return beta from w.v and the coordinates (..., k) of unit w and v in the subspace; NaN where it is undefined.

    cos(w', v') = (w.v - <a_w, a_v>) / sqrt((1 - |a_w|^2) (1 - |a_v|^2)), so that no word has to be projected.
    """
    off = np.sqrt(np.clip(1 - (first**2).sum(axis=-1), 0, None) * np.clip(1 - (second**2).sum(axis=-1), 0, None))
    defined = (np.abs(similarities) >= smallest) & (off >= smallest)
    divisor = np.where(defined, off * similarities, 1.0)
    return np.asarray(np.where(defined, 1 - (similarities - (first * second).sum(axis=-1)) / divisor, np.nan))


def _item(pair: tuple[str, str], similarity: float, value: float) -> MeasuredItem:
    item = {"pair": " ".join(pair), "value": None, "similarity": float(similarity)}
    if np.isfinite(value):
        return {**item, "value": float(value)}
    return {**item, "reason": "the similarity, or the length off the direction, is nearly 0"}
