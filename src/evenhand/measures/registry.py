"""The measures by id, and what a reader must know of each. A new measure is one file with a decorated function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, ParamSpec, Protocol, TypeAlias, TypeVar

from evenhand.errors import UsageError
from evenhand.measures.measurement import Measurement
from evenhand.registry import Registry
from evenhand.words import Concept, Query, concept_query

if TYPE_CHECKING:
    from evenhand.subjects.subject import ViewName  # importing it would import the readers of all models

Better = Literal["zero", "lower", "higher", "one", "fifty"]
ARROWS: dict[str, str] = {"zero": "→ 0", "lower": "↓", "higher": "↑", "one": "→ 1", "fifty": "→ 50"}
IDEALS: dict[str, float] = {"zero": 0.0, "one": 1.0, "fifty": 50.0}  # a value on either side of it is worse
MeasureRole = Literal["bias", "left", "cost", "moved"]
Measured: TypeAlias = Measurement | tuple[Measurement, ...]
P = ParamSpec("P")
R = TypeVar("R", bound=Measured, covariant=True)
LAST = 1_000
FAMILIES = (
    "association", "geometry", "sentences", "inference", "likelihood", "chat", "labels", "text", "outcomes", "quality",
)  # fmt: skip
FAMILY_OF_VIEW = {"vectors": "association", "generation": "text"}  # of other views, the family has the same name


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
        family: the heading under which reports show it; by default that of the view.
        arity: for `takes="query"`, the number of target and attribute sets; None accepts any number.
        matched_sets: whether a query needs as many target sets as attribute sets.
        one_against_rest: whether a concept of more than two groups is asked about group by group.
        generic: the attributes it is asked about where a concept brings no queries (`words.generic`).
        concepts: the only concepts the measure is defined for; empty for any.
        variants: settings that get rows of their own in an audit, by the name of the row.
        needs_reference: whether it compares with the subject before mitigation.
        definition: number of the definition, raised when the same input gives another value.
        available: further queries, whose data may or may not be on this disk; by default the first data set in `data`
            where all of them are here.
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
        role: what an audit reads from it. "bias": how much there is, and whether a method lowers it. "left": it takes
            the most biased words of the original and asks whether they can still be told apart; on the original they
            can, by construction, so only what is left after a method counts. "cost": what a method costs. "moved": how
            far a method moves the subject; 1 on the original by construction, so a change is no loss.
        by_construction: the variants that a method brings to their ideal by construction, which says nothing about
            its success.
        in_tradeoff: whether it counts as bias in the comparison of bias left with quality kept.
        plain: the place among the measures of its view whose numbers a reader understands without the paper, the
            plainest 1; 0 for all others. Reports tell of those first.
        charts: the ids of the charts that draw it.
        effect_size: whether the value is an effect size d, which has Cohen's names (small, medium, large).
        on_request: whether an audit asks it only if it is named, because it takes many passes.
        requests: for chat models, counts the conversations that a question takes, from the query, the concept and the
            options; an audit says so before it starts.
        asked_if: the option without which an audit does not ask it unless it is named, such as `judge`.
        ticked: the views for which a page that starts audits ticks it at first: of subjects that do this before all
            else. A few measures that answer quickly.
        facts: whether its scores are facts about the texts that were asked, which a report tells without a test; a gap
            between groups is tested.
        criteria: for scores that ask different questions, the question of each; p-values are corrected over questions.
    """

    id: str
    title: str
    takes: Literal["query", "words", "pairs", "table", "dataset", "probe", "text"]
    better: Better
    formula: str
    reading: str
    limits: str
    cites: tuple[str, ...]
    queries: tuple[str, ...] = ()
    view: ViewName = "vectors"
    family: Literal[
        "", "association", "geometry", "sentences", "inference", "likelihood", "chat", "labels", "text", "outcomes",
        "quality",
    ] = ""  # fmt: skip
    arity: tuple[int | None, int | None] = (None, None)
    matched_sets: bool = False
    one_against_rest: bool = False
    generic: tuple[str, ...] = ("pleasant-unpleasant", "career-family")
    concepts: tuple[str, ...] = ()
    variants: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
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
    role: MeasureRole = "bias"
    by_construction: tuple[str, ...] = ()
    in_tradeoff: bool = False
    plain: int = 0
    charts: tuple[str, ...] = ()
    effect_size: bool = False
    on_request: bool = False
    requests: Callable[..., int] | None = None
    asked_if: str = ""
    ticked: tuple[ViewName, ...] = ()
    facts: bool = False
    criteria: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "family", self.family or FAMILY_OF_VIEW.get(self.view, self.view))

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

    @property
    def prominence(self) -> int:
        """The place among the measures of its view in what a report tells, those that a reader understands first."""
        return self.plain or LAST

    def default_queries(self) -> tuple[str, ...]:
        """Return the named queries, and those whose data set is on this disk."""
        return self.queries + (self.available() if self.available else self._data_on_disk())

    def _data_on_disk(self) -> tuple[str, ...]:
        from evenhand.data import locate

        return self.data[:1] if all(locate(name) for name in self.data) else ()

    def better_score(self, score: str) -> Better:
        """Return which way is better for one of the scores."""
        return self.scores.get(score, self.better)

    def query(self, id: str, concept: Concept) -> Query:
        """Return a word query by id: one of a data set, of the concept, or of the shipped lists."""
        return (self.find_query(id) if self.find_query else None) or concept_query(id, concept)


class MeasureFunction(Protocol[P, R]):
    """A measure: a function of a view and a query, with its description."""

    info: Info

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Measure."""
        ...


MEASURES: Registry[MeasureFunction[..., Measured]] = Registry(
    "measure", tuple(f"evenhand.measures.{family}" for family in FAMILIES), group="evenhand.measures"
)


def ids() -> list[str]:
    """Return every measure id, ours first."""
    return MEASURES.ids()


def get(measure_id: str) -> MeasureFunction[..., Measured]:
    """Return the measure with this id."""
    return MEASURES.get(measure_id)


def info(measure_id: str) -> Info:
    """Return the description of a measure."""
    return get(measure_id).info


def as_measurements(result: Measured) -> tuple[Measurement, ...]:
    """Return the measurements of one call as a tuple, whether it has one score or several."""
    measurements = result if isinstance(result, tuple) else (result,)
    for item in measurements:
        if not isinstance(item, Measurement):
            raise UsageError(
                f"a measure returned {item!r} ({type(item).__name__})",
                hint="a measure returns a Measurement, or a tuple of them: `call.measurement(value, n, reading=...)`, "
                "as in docs/how-to/extend.md",
            )
    return measurements
