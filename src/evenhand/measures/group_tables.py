"""More than two groups: every two of them, or each against the rest, by any measure of two groups.

WEAT, RND, ECT and others compare two groups by definition. `pairwise` and `one_against_rest` ask such a measure about
every comparison and adjust the p-values together, so that a table of many groups does not find differences by chance.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

from evenhand.errors import DegenerateError, UsageError, VocabularyError, few
from evenhand.measures.measurement import Measurement, undefined
from evenhand.measures.registry import IDEALS, Info, MeasureFunction, as_measurements, get
from evenhand.models.vectors import Coverage
from evenhand.stats.multiplicity import holm
from evenhand.words import Concept, Query, WordSet, as_concept, concept_query
from evenhand.words import query as find_query

How = Literal["pairwise", "one-against-rest"]
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

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON and data frames."""
        m = self.measurement
        low, high = m.interval or (None, None)
        row: dict[str, Any] = {"first": self.first, "second": self.second, "score": m.score, "value": m.value}
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
    how: How
    groups: tuple[str, ...]
    rows: tuple[GroupRow, ...]
    asked: str

    def __repr__(self) -> str:
        found = f"{len(self.significant)} of {len(self.rows)} differ (Holm, {LEVEL:.0%})"
        return f"GroupTable({self.measure!r}, {self.asked!r}, {self.how}: {found})"

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

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        plain: dict[str, Any] = {"measure": self.measure, "asked": self.asked, "how": self.how}
        return plain | {"groups": list(self.groups), "correction": "holm", "rows": [row.to_dict() for row in self.rows]}

    def measurements(self) -> tuple[Measurement, ...]:
        """Return the table as one measurement for each score, which is what an audit stores.

        The value is that of the comparison furthest from the ideal, without its sign where 0 is ideal. The p-value is
        the smallest adjusted one: that of the hypothesis that no two groups differ. There is no interval, because the
        comparison is chosen by its value. The comparisons, with their intervals, are the items.
        """
        info: Info = get(self.measure).info  # type: ignore[attr-defined]
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


def measure_groups(function: MeasureFunction, view: object, query: Query, **options: Any) -> tuple[Measurement, ...]:
    """Measure a query of more than two target sets both ways, as an audit does."""
    id: str = function.info.id  # type: ignore[attr-defined]
    return tuple(
        measurement
        for compare in (pairwise, one_against_rest)
        for measurement in compare(view, id, query, **options).measurements()
    )


def _table(
    how: How, view: object, measure: str, asked: Query | Concept | str, concept: Concept | str, options: dict[str, Any]
) -> GroupTable:
    function = get(measure)
    info: Info = function.info  # type: ignore[attr-defined]
    about = as_concept(concept) if concept else None
    if info.takes == "query":
        query = concept_query(asked, about) if isinstance(asked, str) and about else find_query(asked)  # type: ignore[arg-type]
        if info.arity[0] not in (None, 2):
            raise UsageError(f"{measure} does not compare two groups", hint="choose another measure")
        groups = tuple(group.name for group in query.targets)
        name = query.name
    elif "concept" in inspect.signature(function).parameters:
        about = about or as_concept("gender")
        groups, name = tuple(about.groups), about.name
    else:
        raise UsageError(f"{measure} takes neither target sets nor a concept, so it has no groups to compare")
    if len(groups) < 2:
        raise UsageError(f"{name} has {len(groups)} group, and groups are compared", hint="add a group")
    results: list[tuple[str, str, Measurement]] = []
    for first, others in _comparisons(groups, how):
        second = others[0] if how == "pairwise" else REST
        argument = _restricted_query(query, first, others, second) if info.takes == "query" else asked
        extra = {} if info.takes == "query" else {"concept": about.restricted(first, others, second)}  # type: ignore[union-attr]
        try:
            measured = as_measurements(function(view, argument, **extra, **options))
        except (VocabularyError, DegenerateError) as error:
            measured = (undefined(measure, error.message, Coverage(()), query=name),)
        results += [(first, second, measurement) for measurement in measured]
    return GroupTable(measure, how, groups, adjust_rows(results), name)


def _comparisons(groups: Sequence[str], how: How) -> Iterator[tuple[str, tuple[str, ...]]]:
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
    fields: dict[str, Any] = {"query": example.query, "score": score, "model": example.model, "seed": example.seed}
    fields |= {"params": {**example.params, "correction": "holm"}, "definition": info.definition}
    if not defined:
        return undefined(table.measure, example.reason, coverage, **fields)
    better = info.better_score(example.score)
    furthest = max(defined, key=lambda row: _distance(better, row.measurement))
    value = furthest.measurement.value
    if better == "zero" and value is not None:
        value = abs(value)
    tested = [row for row in defined if row.p_adjusted is not None]
    different = [row.name for row in tested if row.p_adjusted is not None and row.p_adjusted <= LEVEL]
    reading = f"of {len(defined)} comparisons, {furthest.name} is furthest from the ideal"
    if tested:
        named = f": {few(different, most=NAMED)}" if different else ""
        reading += f"; {len(different)} of {len(tested)} differ (Holm, {LEVEL:.0%}){named}"
    return Measurement(
        table.measure,
        value,
        furthest.measurement.n,
        coverage,
        p_value=min((row.p_adjusted for row in tested if row.p_adjusted is not None), default=None),
        reading=reading,
        note="chosen as the furthest, so that it has no interval of its own; see the items",
        items=tuple({"word": row.name, **row.to_dict()} for row in defined),
        details={
            "groups": list(table.groups),
            "how": table.how,
            "undefined": {row.name: row.measurement.reason for row in rows if row.measurement.value is None},
        },
        **fields,
    )


def _distance(better: str, measurement: Measurement) -> float:
    """Return how far a value is on the worse side of the ideal."""
    value = measurement.value or 0.0
    if better in IDEALS:
        return abs(value - IDEALS[better])
    return value if better == "lower" else -value
