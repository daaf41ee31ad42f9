"""Groups of a concept: contrasts of one with others, and any number of groups by a measure of two.

WEAT, RND, ECT and others compare two groups by definition. `pairwise` and `one_against_rest` ask such a measure about
every comparison and adjust the p-values together, so a table of many groups does not find differences by chance.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal, TypeVar

import numpy as np

from evenhand.arrays import Matrix64, Rows
from evenhand.errors import UsageError, few
from evenhand.measures.call import Call
from evenhand.measures.measurement import Measurement
from evenhand.measures.registry import IDEALS, Info, Measured, MeasureFunction, as_measurements, get
from evenhand.models.vectors import Coverage
from evenhand.stats.multiplicity import holm
from evenhand.stats.permutation import relabelling_p
from evenhand.stats.units import mean_units, null_p
from evenhand.words import Concept, Query, WordSet, as_concept, concept_query
from evenhand.words import query as find_query

GroupKey = TypeVar("GroupKey", bound=Hashable)
GroupComparison = Literal["pairwise", "one-against-rest"]
REST = "others"
LEVEL = 0.05
NAMED = 5  # comparisons named in a reading


@dataclass(frozen=True)
class GroupRow:
    """One comparison: the measurement of two groups, with the p-value adjusted for all comparisons of the table."""

    first: str
    second: str
    measurement: Measurement
    p_adjusted: float | None

    @property
    def name(self) -> str:
        """The two groups in one text."""
        return f"{self.first} – {self.second}"

    def to_dict(self) -> dict[str, object]:
        """Return plain data for JSON and data frames."""
        m = self.measurement
        low, high = m.interval or (None, None)
        row: dict[str, object] = {"first": self.first, "second": self.second, "score": m.score, "value": m.value}
        row |= {"low": low, "high": high, "p_value": m.p_value, "p_holm": self.p_adjusted, "n": m.n}
        return row | {"status": m.status, "reason": m.reason}


@dataclass(frozen=True)
class GroupTable:
    """All comparisons of the groups of a query or a concept by one measure.

    Attributes:
        measure: id of the measure.
        how: "pairwise" or "one-against-rest".
        groups: the groups in the order they were given.
        rows: the comparisons; a measure with several scores has a row for each score.
        asked: the query or the concept whose groups were compared.
    """

    measure: str
    how: GroupComparison
    groups: tuple[str, ...]
    rows: tuple[GroupRow, ...]
    asked: str

    def __repr__(self) -> str:
        different = f"{len(self.significant)} of {len(self.rows)} differ (Holm, {LEVEL:.0%})"
        return f"GroupTable({self.measure!r}, {self.asked!r}, {self.how}: {different})"

    @property
    def significant(self) -> tuple[GroupRow, ...]:
        """The comparisons whose adjusted p-value is at most 5 %."""
        return tuple(row for row in self.rows if row.p_adjusted is not None and row.p_adjusted <= LEVEL)

    def get(self, first: str, second: str = REST) -> GroupRow:
        """Return the comparison of two groups, in either order."""
        for row in self.rows:
            if {row.first, row.second} == {first, second}:
                return row
        raise UsageError(f"no comparison of {first!r} and {second!r}", hint=f"groups: {', '.join(self.groups)}")

    def to_frame(self) -> Any:
        """Return one row per comparison as a polars or pandas data frame."""
        from evenhand.arrays import frame

        return frame([row.to_dict() for row in self.rows])

    def to_dict(self) -> dict[str, object]:
        """Return plain data for JSON."""
        plain: dict[str, object] = {"measure": self.measure, "asked": self.asked, "how": self.how}
        return plain | {"groups": list(self.groups), "correction": "holm", "rows": [row.to_dict() for row in self.rows]}

    def measurements(self) -> tuple[Measurement, ...]:
        """Return the table as one measurement for each score, which is what an audit stores.

        The value is that of the comparison furthest from the ideal, without its sign where 0 is ideal. The p-value is
        the smallest adjusted one: that of the hypothesis that no two groups differ. There is no interval, because the
        comparison is chosen by its value. The comparisons, with their intervals, are the items.
        """
        info = get(self.measure).info
        scores = dict.fromkeys(row.measurement.score for row in self.rows)
        return tuple(
            _summary(self, info, [row for row in self.rows if row.measurement.score == score]) for score in scores
        )


def pairwise(
    view: object, measure: str, asked: Query | Concept | str, *, concept: Concept | str = "", **options: Any
) -> GroupTable:
    """Compare every two groups by a measure of two groups, with p-values adjusted by Holm (1979).

    The first group of a comparison is the one that comes first in the alphabet, so that the order in which the groups
    are given does not change a value.

    Args:
        view: what the measure takes: vectors, an encoder, a language model, a model.
        measure: id of the measure, such as "weat".
        asked: for a measure that takes a query, a query with more than two target sets, or its id; otherwise the words
            or the data set that the measure takes.
        concept: the concept whose groups are compared; for a query, the concept whose generic queries `asked` may name
            ("religion/pleasant-unpleasant").
        **options: further options of the measure.

    What it does not tell you: adjusted p-values say which groups differ from each other, not which one is treated
    badly. With many groups of few words nothing is significant: see `one_against_rest`.
    """
    return _table("pairwise", view, measure, asked, concept, options)


def one_against_rest(
    view: object, measure: str, asked: Query | Concept | str, *, concept: Concept | str = "", **options: Any
) -> GroupTable:
    """Compare each group with all other groups together, with p-values adjusted by Holm (1979).

    The arguments are those of `pairwise`. The words of the other groups are joined, so that large groups count more.
    """
    return _table("one-against-rest", view, measure, asked, concept, options)


def needs_table(info: Info, query: Query) -> bool:
    """Return whether a measure of two target sets is asked about more of them."""
    return info.arity[0] == 2 and len(query.targets) > 2


def measure_groups(
    function: MeasureFunction[..., Measured], view: object, query: Query, **options: Any
) -> tuple[Measurement, ...]:
    """Measure a query of more than two target sets both ways, as an audit does."""
    return tuple(
        measurement
        for compare in (pairwise, one_against_rest)
        for measurement in compare(view, function.info.id, query, **options).measurements()
    )


def _table(
    how: GroupComparison,
    view: object,
    measure: str,
    asked: Query | Concept | str,
    concept: Concept | str,
    options: dict[str, Any],
) -> GroupTable:
    function = get(measure)
    info = function.info
    compared = as_concept(concept) if concept else None
    if info.takes == "query":
        query = concept_query(asked, compared) if isinstance(asked, str) and compared else find_query(asked)  # type: ignore[arg-type]
        if info.arity[0] not in (None, 2):
            raise UsageError(f"{measure} does not compare two groups", hint="choose another measure")
        groups = tuple(group.name for group in query.targets)
        name = query.name
    elif "concept" in inspect.signature(function).parameters:
        compared = compared or as_concept("gender")
        groups, name = tuple(compared.groups), compared.name
    else:
        raise UsageError(f"{measure} takes neither target sets nor a concept, so it has no groups to compare")
    if len(groups) < 2:
        raise UsageError(f"{name} has {len(groups)} group, and groups are compared", hint="add a group")
    results: list[tuple[str, str, Measurement]] = []
    for first, others in _comparisons(groups, how):
        second = others[0] if how == "pairwise" else REST
        argument = _restricted_query(query, first, others, second) if info.takes == "query" else asked
        extra = {} if info.takes == "query" else {"concept": compared.restricted(first, others, second)}  # type: ignore[union-attr]
        measured = as_measurements(function(view, argument, **extra, **options))
        results += [(first, second, measurement) for measurement in measured]
    return GroupTable(measure, how, groups, adjust_rows(results), name)


def _comparisons(groups: Sequence[str], how: GroupComparison) -> Iterator[tuple[str, tuple[str, ...]]]:
    if how == "pairwise":
        # in alphabetical order, because not every measure changes just its sign when the two groups are exchanged
        yield from ((min(pair), (max(pair),)) for pair in combinations(groups, 2))
    else:
        yield from ((first, tuple(group for group in groups if group != first)) for first in groups)


def _restricted_query(query: Query, first: str, others: Sequence[str], second: str) -> Query:
    """Return the query of one target set against others, whose words are joined."""
    sets = {group.name: group for group in query.targets}
    joined = tuple(dict.fromkeys(word for name in others for word in sets[name]))
    targets = {first: sets[first], second: WordSet(second, joined)}
    attributes = {group.name: group for group in query.attributes}
    return Query(query.name, targets, attributes, concept=query.concept, language=query.language)


def adjust_rows(results: list[tuple[str, str, Measurement]]) -> tuple[GroupRow, ...]:
    """Adjust the p-values of each score over all comparisons; comparisons without one are left out of the family."""
    adjusted: dict[int, float] = {}
    for score in dict.fromkeys(measurement.score for *_, measurement in results):
        tested = [
            (number, m.p_value)
            for number, (*_, m) in enumerate(results)
            if m.score == score and m.p_value is not None and m.status == "ok"
        ]
        if tested:
            values = holm([p for _, p in tested])
            adjusted |= {number: float(p) for (number, _), p in zip(tested, values, strict=True)}
    return tuple(
        GroupRow(first, second, measurement, adjusted.get(number))
        for number, (first, second, measurement) in enumerate(results)
    )


def _summary(table: GroupTable, info: Info, rows: list[GroupRow]) -> Measurement:
    defined = [row for row in rows if row.measurement.value is not None]
    example = (defined or rows)[0].measurement
    score = ":".join(filter(None, (example.score, table.how)))
    coverage = Coverage(
        tuple(dict.fromkeys(word for row in rows for word in row.measurement.coverage.found)),
        tuple(dict.fromkeys(word for row in rows for word in row.measurement.coverage.missing)),
    )
    params = {**example.params, "correction": "holm"}
    call = Call(info, example.model, params, example.seed, query=example.query, coverage=coverage)
    if not defined:
        return call.undefined(example.reason, score=score)
    better = info.better_score(example.score)
    furthest = max(defined, key=lambda row: _distance(better, row.measurement))
    value = furthest.measurement.value or 0.0
    value = abs(value) if better == "zero" else value
    tested = [row for row in defined if row.p_adjusted is not None]
    different = [row.name for row in tested if row.p_adjusted is not None and row.p_adjusted <= LEVEL]
    reading = f"of {len(defined)} comparisons, {furthest.name} is furthest from the ideal"
    if tested:
        named = f": {few(different, most=NAMED)}" if different else ""
        reading += f"; {len(different)} of {len(tested)} differ (Holm, {LEVEL:.0%}){named}"
    return call.measurement(
        value,
        furthest.measurement.n,
        score=score,
        p_value=min((row.p_adjusted for row in tested if row.p_adjusted is not None), default=None),
        reading=reading,
        note="chosen as the furthest, so that it has no interval of its own; see the items",
        items=tuple({"word": row.name, **row.to_dict()} for row in defined),
        details={
            "groups": list(table.groups),
            "how": table.how,
            "undefined": {row.name: row.measurement.reason for row in rows if row.measurement.value is None},
        },
    )


def _distance(better: str, measurement: Measurement) -> float:
    """Return how far a value is on the worse side of the ideal."""
    value = measurement.value or 0.0
    if better in IDEALS:
        return abs(value - IDEALS[better])
    return value if better == "lower" else -value


WORD = re.compile(r"\w+")
ARTICLES = frozenset({"a", "an"})  # they follow the word behind them


@dataclass(frozen=True)
class Contrast:
    """A group against others, by their numbers.

    Attributes:
        group: name of the group.
        score: suffix of the name of a score; empty for the only contrast of two groups.
        first: number of the group.
        others: numbers of the groups that it is compared with.
        against: the others in words.
    """

    group: str
    score: str
    first: int
    others: tuple[int, ...]
    against: str

    def name(self, score: str) -> str:
        """Return the name of a score of this contrast."""
        return ":".join(filter(None, (score, self.score)))


def contrasts(groups: Sequence[str]) -> tuple[Contrast, ...]:
    """Return the contrasts of groups.

    >>> [contrast.score for contrast in contrasts(["female", "male"])]
    ['']
    >>> [(contrast.score, contrast.others) for contrast in contrasts(["a", "b", "c"])]
    [('a', (1, 2)), ('b', (0, 2)), ('c', (0, 1))]
    """
    if len(groups) == 2:
        return (Contrast(groups[0], "", 0, (1,), groups[1]),)
    every = range(len(groups))
    return tuple(
        Contrast(name, name, number, tuple(other for other in every if other != number), "the other groups")
        for number, name in enumerate(groups)
    )


def against_others(values: Matrix64) -> Matrix64:
    """Return the value of each group minus the mean of the other groups, (cases, groups)."""
    others = (values.sum(axis=1, keepdims=True) - values) / (values.shape[1] - 1)
    return np.asarray(values - others)


def means_by(keys: Iterable[GroupKey], values: Iterable[float]) -> dict[GroupKey, float]:
    """Return the mean value of each key, in the order in which the keys come.

    >>> means_by(["a", "b", "a"], [1.0, 2.0, 4.0])
    {'a': 2.5, 'b': 2.0}
    """
    found: dict[GroupKey, list[float]] = {}
    for key, value in zip(keys, values, strict=True):
        found.setdefault(key, []).append(value)
    return {key: float(np.mean(some)) for key, some in found.items()}


def group_word_p(
    texts: Sequence[Sequence[str]], values: Matrix64, contrast: Contrast, clusters: Sequence[Sequence[str]] = ()
) -> float:
    """Return the two-sided p-value of the mean of a contrast over cases, each a text in a version for each group.

    Many cases share few group words. A model that knows nothing of groups may still prefer one word to another, and
    does so in all cases with these words, so that cases are not independent. Therefore group words are exchanged: all
    cases whose versions differ in the same words get another first group together. With few different words, no
    p-value is small.

    The test is exact for a model whose words differ by chance alone, such as one with random weights: exchanging two
    words of a row then changes nothing in the distribution of all scores, whatever else the texts share. The larger
    p-value over clusters makes it conservative. Of 2,500 random encoders asked about gender, 4.6 % have p < .05.

    Args:
        texts: the version of each group, for each case.
        values: what a case adds if a group is taken as the first one, (cases, groups), such as `against_others`.
        contrast: which group is the first one.
        clusters: further labels of the cases, such as templates; the largest p-value counts.
    """
    codes = same_words(texts)
    sums = np.zeros((int(codes.max()) + 1, values.shape[1]))
    np.add.at(sums, codes, values)
    others = [null_p(mean_units("", labels, values[:, contrast.first])) for labels in clusters]
    return max([relabelling_p(sums, contrast.first), *(p for p in others if p is not None)])


def same_words(texts: Sequence[Sequence[str]]) -> Rows:
    """Number cases so that those whose versions differ in a common word have the same number.

    >>> same_words([["the old man", "the young man"], ["Agnes", "Kristy"], ["an old dog", "a young dog"]]).tolist()
    [0, 1, 0]
    """
    linked: dict[str, str] = {}

    def root(word: str) -> str:
        while linked.setdefault(word, word) != word:
            word = linked[word]
        return word

    firsts: list[str] = []
    for number, versions in enumerate(texts):
        words = [set(WORD.findall(text.lower())) - ARTICLES for text in versions]
        own = sorted(set.union(*words) - set.intersection(*words)) or [f"case {number}"]
        for word in own[1:]:
            linked[root(word)] = root(own[0])
        firsts.append(own[0])
    distinct: dict[str, int] = {}
    return np.array([distinct.setdefault(root(word), len(distinct)) for word in firsts], dtype=np.int64)
