"""The measures by id, and what a reader must know of each. A new measure is one file with a decorated function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from evenhand.errors import UsageError
from evenhand.measures.measurement import Measurement
from evenhand.registry import Registry
from evenhand.words import Concept, Query, concept_query

if TYPE_CHECKING:
    from evenhand.subjects.subject import ViewName  # importing it would import the readers of all models

Better = Literal["zero", "lower", "higher", "one", "fifty"]
ARROWS: dict[str, str] = {"zero": "→ 0", "lower": "↓", "higher": "↑", "one": "→ 1", "fifty": "→ 50"}
IDEALS: dict[str, float] = {"zero": 0.0, "one": 1.0, "fifty": 50.0}  # a value on either side of it is worse
Measured: TypeAlias = Measurement | tuple[Measurement, ...]
MeasureFunction: TypeAlias = Callable[..., Measured]
Function = TypeVar("Function", bound=MeasureFunction)

FAMILIES = ("association", "geometry", "sentences", "inference", "likelihood", "labels", "text", "quality")
MEASURES: Registry[MeasureFunction] = Registry(
    "measure", tuple(f"evenhand.measures.{family}" for family in FAMILIES), group="evenhand.measures"
)


@dataclass(frozen=True)
class Info:
    """What a reader must know of a measure before its number means anything.

    Args:
        id: kebab-case name, stable.
        title: name for headings.
        takes: what the second argument of the function is.
        better: which way is better; "fifty" is a percentage of which 50 is ideal.
        formula: the definition, in one line.
        reading: how to read a value.
        limits: what a value does not tell.
        cites: keys of `data/references.bib`.
        queries: what an audit asks unless told otherwise; those about another concept are left out.
        view: the view of a subject that the function takes as its first argument.
        family: the heading under which reports show it.
        arity: for `takes="query"`, the number of target and attribute sets; None accepts any number.
        matched_sets: whether a query needs as many target sets as attribute sets.
        one_against_rest: whether a concept of more than two groups is asked about group by group.
        generic: the attributes it is asked about where a concept brings no queries (`words.generic`).
        concepts: the only concepts the measure is defined for; empty for any.
        variants: settings that get rows of their own in an audit, by the name of the row.
        needs_reference: whether it compares with the subject before mitigation.
        definition: number of the definition, raised when the same input gives another value.
        available: further queries, whose data may or may not be on this disk.
        query_concepts: for measures that do not take word queries, the concept of each query that has one; an audit of
            another concept leaves it out.
        scores: which way is better for scores of the measure that differ from `better`.
        needs: the kind of model that the view must come from; empty for any.
        data: the catalog ids of the data sets that it reads.
        whole: the query that spans all concepts, which `evenhand measure` asks where no concept is named.
        find_query: for `takes="query"`, finds queries that are in no word list, such as those of a data set.
        null: the value expected without bias, against which a value can be tested; by score where there are several.
            None where the value is above its ideal by construction, as a mean of absolute values is.
        two_groups: for measures that take words, whether they compare the positive group with all others together.
        crossed: whether the measure is about intersections, and is asked of nothing else.
    """

    id: str
    title: str
    takes: Literal["query", "words", "pairs", "table", "dataset", "probe", "text"]
    better: Better
    formula: str
    reading: str
    limits: str
    cites: tuple[str, ...]
    queries: tuple[str, ...]
    view: ViewName = "vectors"
    family: Literal["association", "geometry", "sentences", "inference", "likelihood", "labels", "text", "quality"] = (
        "association"
    )
    arity: tuple[int | None, int | None] = (None, None)
    matched_sets: bool = False
    one_against_rest: bool = False
    generic: tuple[str, ...] = ("pleasant-unpleasant", "career-family")
    concepts: tuple[str, ...] = ()
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    needs_reference: bool = False
    definition: int = 1
    available: Callable[[], tuple[str, ...]] | None = None
    query_concepts: Mapping[str, str] = field(default_factory=dict)
    scores: Mapping[str, Better] = field(default_factory=dict)
    needs: Literal["", "masked-lm", "causal-lm"] = ""
    data: tuple[str, ...] = ()
    whole: str = ""
    find_query: Callable[[str], Query | None] | None = None
    null: float | Mapping[str, float] | None = None
    two_groups: bool = False
    crossed: bool = False

    @property
    def groups(self) -> str:
        """How many groups the measure compares, and what to do about more."""
        if self.crossed:
            return "the cells of two concepts"
        if self.arity[0] == 2 and self.takes == "query":
            return "two; more groups by `measures.pairwise` and `measures.one_against_rest`"
        if self.two_groups:
            return "the positive group against all others; every two groups by `measures.pairwise`"
        return "any number"

    def default_queries(self) -> tuple[str, ...]:
        """Return the named queries, and those whose data set is on this disk."""
        return self.queries + (self.available() if self.available else ())

    def better_score(self, score: str) -> Better:
        """Return which way is better for one of the scores."""
        return self.scores.get(score, self.better)

    def query(self, id: str, concept: Concept) -> Query:
        """Return a word query by id: one of a data set, of the concept, or of the shipped lists."""
        found = self.find_query(id) if self.find_query else None
        return found or concept_query(id, concept)


def measure(info: Info) -> Callable[[Function], Function]:
    """Register a function as a measure and attach its description as `function.info`."""

    def attach(function: Function) -> Function:
        function.info = info  # type: ignore[attr-defined]
        MEASURES.add(info.id, function)
        return function

    return attach


def ids() -> list[str]:
    """Return every measure id, ours first."""
    return MEASURES.ids()


def get(measure_id: str) -> MeasureFunction:
    """Return the measure with this id."""
    return MEASURES.get(measure_id)


def info(measure_id: str) -> Info:
    """Return the description of a measure."""
    description: Info = get(measure_id).info  # type: ignore[attr-defined]
    return description


def as_measurements(result: Measured) -> tuple[Measurement, ...]:
    """Return the measurements of one call as a tuple, whether it has one score or several."""
    found = result if isinstance(result, tuple) else (result,)
    for item in found:
        if not isinstance(item, Measurement):
            raise UsageError(
                f"a measure returned {item!r} ({type(item).__name__})",
                hint="a measure returns a Measurement, or a tuple of them: `fields.measurement(value, n, coverage)`, "
                "as in docs/how-to/extend.md",
            )
    return found
