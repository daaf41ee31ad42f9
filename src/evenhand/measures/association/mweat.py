"""MWEAT: are the two forms of an occupation equally far on the sides of women and of men? (Zhou et al. 2019)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from evenhand.arrays import Matrix64, Vector64, unit_rows
from evenhand.errors import DegenerateError
from evenhand.measures.association.located_query import same_direction
from evenhand.measures.association.weat import association
from evenhand.measures.call import Call, ListCoverage, measure
from evenhand.measures.measurement import MeasuredItem, Measurement
from evenhand.measures.registry import Info
from evenhand.models.vectors import Vectors
from evenhand.stats import jackknife_interval, mean_interval
from evenhand.stats.bootstrap import Interval, leave_one_out
from evenhand.stats.units import Units, linearised_units, mean_units, null_p
from evenhand.words import Concept, Pairs, as_concept
from evenhand.words import pairs as find_pairs

CODES = ("de", "es", "fr", "it", "ru")
FORMS = {f"occupation-forms-{code}": f"gender-{code}" for code in CODES}
INFO = Info(
    id="mweat",
    title="Modified WEAT for words with two forms",
    takes="pairs",
    better="lower",
    formula=(
        "difference = | |mean_i t(f_i)| - |mean_i t(m_i)| |,  lean = mean_i (t(f_i) + t(m_i)) / 2,  "
        "imbalance = mean_i | |t(f_i)| - |t(m_i)| |,  t(w) = mean_F cos(w, a) - mean_M cos(w, b)"
    ),
    reading=(
        "Difference 0: over all occupations, the feminine forms are as far from the middle as the masculine forms. "
        "Lean above 0: over both forms, occupations are nearer to women than to men. Imbalance 0: the two forms of "
        "every single occupation are equally far from the middle."
    ),
    limits=(
        "Defined for languages whose words for people have two forms. It says nothing about what the forms share with "
        "nouns for things: compare it before and after the grammatical direction is taken out. In the difference and "
        "the lean, occupations that lean to opposite sides cancel. Difference and imbalance are above 0 for random "
        "vectors too. Rare feminine forms have poor vectors."
    ),
    cites=("zhou2019", "caliskan2017"),
    queries=tuple(FORMS),
    query_concepts=FORMS,
    scores={"difference": "lower", "lean": "zero", "imbalance": "lower"},
    null={"lean": 0.0},
    definition=3,
)


@measure(INFO)
def mweat(
    call: Call,
    vectors: Vectors,
    forms: Pairs | str | Iterable[Sequence[str]],
    *,
    concept: Concept | str = "gender-fr",
    min_share: float = 0.0,
    reference: Vectors | None = None,
    seed: int = 0,
) -> tuple[Measurement, Measurement, Measurement]:
    """Measure how unequally the two forms of occupations are associated with women and men.

    `difference` is the statistic of the authors' released code, | |sum t(f)| - |sum t(m)| |, divided by the number of
    occupations, so that lists of different coverage can be compared; `details["sum"]` has the undivided value. If the
    feminine forms lie on the side of women and the masculine forms on that of men, it is twice the absolute lean.
    The formula was checked against that code, not against the text of the paper.
    `lean` and `imbalance` are additions: the lean has a sign, and in the imbalance occupations do not cancel.

    The released code also has a p-value: the share of random divisions of all forms into halves with a larger
    statistic. It is not given here, because no division can exceed |sum t(f) + sum t(m)|, which is the statistic
    itself whenever the two sums have opposite signs. The p-value is then 0 up to rounding. `lean` has a valid one.

    Vectors without their grammatical component show what is social:

        grammar = eh.subspaces.grammatical(v, *eh.subspaces.nouns("fr"), how="means")
        plain = eh.mitigations.LinearProjection(grammar).fit(v)(v)
        eh.measures.mweat(plain, "occupation-forms-fr", concept="gender-fr", reference=v)

    Args:
        vectors: the vectors to measure.
        forms: the pairs (feminine, masculine), their id or their file.
        concept: the concept whose positive group is compared with the others, women with men.
        min_share: smallest share of the pairs that the vocabulary must have. The default asks for none, because small
            vocabularies lack most feminine forms; lost pairs are in `details`.
        reference: vectors before mitigation.
        seed: recorded only; the test of `lean` draws the same signs for all seeds.

    Returns:
        The scores `difference`, `lean` and `imbalance`. All have an interval over occupations. The p-value of `lean` is
        that of random signs of the occupations' leans. `items` has t of both forms, and `details["separation"]` the
        mean of t(feminine) - t(masculine), which grammar makes large.

    What it does not tell you: whether an occupation is biased in texts. See `evenhand show mweat`.
    """
    concept = as_concept(concept)
    asked = find_pairs(forms) if isinstance(forms, str | Pairs) else Pairs("forms", forms, ("feminine", "masculine"))
    language = concept.language if concept.language != "en" else ""
    _, coverage = vectors.locate((word for pair in asked for word in pair), language=language)
    known = set(coverage.found)
    used = [pair for pair in asked if known.issuperset(pair)]
    lost = [list(pair) for pair in asked if not known.issuperset(pair)]
    groups = [vectors.locate(words, language=language) for words in _sides(concept)]
    call.describe(asked.name, coverage=coverage, scores=("difference", "lean", "imbalance"))
    sides = zip((concept.positive, "others"), groups, strict=True)
    call.require([ListCoverage.of_words(f"{concept.name} {name}", located) for name, (_, located) in sides])
    call.require([ListCoverage(asked.name, len(used), len(asked), "pair")], min_share)
    a, b = (unit_rows(vectors.matrix[rows]) for rows, _ in groups)
    if same_direction(a.mean(axis=0), b.mean(axis=0)):
        raise DegenerateError(
            f"the groups of {concept.name} have the same mean vector, so that no word is nearer to one of them"
        )
    first, second = (_associations(vectors, [pair[side] for pair in used], a, b, language) for side in (0, 1))
    leans, imbalances = (first + second) / 2, np.abs(np.abs(first) - np.abs(second))
    difference = float(abs(abs(first.mean()) - abs(second.mean())))
    details: dict[str, object] = {"separation": float((first - second).mean()), "pairs_lost": lost, "pairs": len(asked)}
    items = _items(used, first, second)
    names = ["/".join(pair) for pair in used]
    lean_units = mean_units("pair", names, leans)
    return (
        call.measurement(
            difference,
            len(used),
            score="difference",
            interval=strength_interval(first, second),
            reading=f"the feminine and the masculine forms differ by {difference:.3f} in strength",
            items=items,
            details={"sum": difference * len(used), **details},
            units=_strength_units(names, first, second, difference),
        ),
        call.measurement(
            float(leans.mean()),
            len(used),
            score="lean",
            positive=concept.positive,
            interval=mean_interval(leans),
            p_value=null_p(lean_units),
            reading=f"over both forms, nearer to {concept.positive if leans.mean() >= 0 else 'the others'}",
            items=items,
            units=(lean_units,),
            details=details,
        ),
        call.measurement(
            float(imbalances.mean()),
            len(used),
            score="imbalance",
            interval=mean_interval(imbalances, limits=(0.0, np.inf)),
            reading=f"the two forms of an occupation differ by {imbalances.mean():.3f} in strength",
            items=items,
            units=(mean_units("pair", names, imbalances),),
            details=details,
        ),
    )


def strength_interval(first: Vector64, second: Vector64) -> Interval:
    """Return the interval of the difference in strength of the two forms, over pairs.

    It is that of the signed difference, folded at 0. A bootstrap of absolute values never contains 0.
    """

    def signed(sums: Matrix64) -> Vector64:
        return np.asarray((np.abs(sums[:, 0]) - np.abs(sums[:, 1])) / sums[:, 2])

    bounds = jackknife_interval(signed, np.stack([first, second, np.ones(len(first))], axis=1))
    if bounds is None:
        return None
    sizes = sorted(map(abs, bounds))
    return (0.0 if bounds[0] <= 0 <= bounds[1] else sizes[0]), sizes[1]


def _strength_units(names: list[str], first: Vector64, second: Vector64, value: float) -> tuple[Units, ...]:
    if len(names) < 3:
        return ()
    rows = leave_one_out(len(names))
    left_out = np.abs(np.abs(first[rows].mean(axis=1)) - np.abs(second[rows].mean(axis=1)))
    return (linearised_units("pair", names, value, left_out),)


def _sides(concept: Concept) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the words of the positive group and those of all others."""
    others = (words for name, words in concept.groups.items() if name != concept.positive)
    return tuple(concept.groups[concept.positive]), tuple(word for words in others for word in words)


def _associations(vectors: Vectors, words: Sequence[str], a: np.ndarray, b: np.ndarray, language: str) -> Vector64:
    """Return t of each word, in order; a word may occur twice."""
    rows, coverage = vectors.locate(words, language=language)
    row_of = dict(zip(coverage.found, rows.tolist(), strict=True))
    return association(unit_rows(vectors.matrix[[row_of[word] for word in words]]), a, b)


def _items(used: Sequence[tuple[str, str]], first: Vector64, second: Vector64) -> tuple[MeasuredItem, ...]:
    return tuple(
        {"word": f"{pair[0]}/{pair[1]}", "value": float((f + m) / 2), "feminine": float(f), "masculine": float(m)}
        for pair, f, m in zip(used, first, second, strict=True)
    )
