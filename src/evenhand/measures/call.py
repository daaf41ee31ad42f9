"""One call of a measure: the parameters it records, the rules under which it has no value, and the records it builds.

The coverage rule: when more than half of a list is missing from the vocabulary, there is no number. A list is a word
set of a query, the words of a measure, a group of names, or the complete pairs, rows or questions of a data set.
`min_share` sets another limit. A vocabulary that is measured as a whole is not a list.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Concatenate,
    Literal,
    NamedTuple,
    ParamSpec,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np

from evenhand.arrays import row_norms
from evenhand.errors import DegenerateError, UsageError, VocabularyError
from evenhand.measures.measurement import MeasuredItem, Measurement
from evenhand.measures.registry import MEASURES, Info, Measured, MeasureFunction, as_measurements
from evenhand.models.vectors import Coverage, Vectors
from evenhand.stats.bootstrap import Interval, Statistic, percentile_interval
from evenhand.stats.units import Units
from evenhand.words import Pairs, Query, as_concept

# A list that lost most of its words no longer asks what its author asked: the GoogleNews cut of 26,423 words has one of
# the eight female names of WEAT 6. Half is a choice of this package; WEFE uses 0.8, other codes use whatever is there.
MIN_SHARE = 0.5
COLLAPSED = 1e-6  # of the reference's median norm, or of 1: what is left of such vectors is rounding
SAMPLED_ROWS = 2_000  # rows that decide whether the norms collapsed
NOTHING = Coverage(())
P = ParamSpec("P")
R = TypeVar("R", bound=Measured)


def measure(info: Info) -> Callable[[Callable[Concatenate[Call, P], R]], MeasureFunction[P, R]]:
    """Register a function as a measure.

    The function is written with the call as its first parameter, and called without it: `weat(vectors, query)`. Its
    other parameters are recorded. A parameter that is annotated with names (`Literal["a", "b"]`) takes no other value.
    If it raises `VocabularyError` or `DegenerateError`, the measurement is undefined, with the message as its reason.
    """

    def bind(function: Callable[Concatenate[Call, P], R]) -> MeasureFunction[P, R]:
        call_parameter, *parameters = inspect.signature(function).parameters.values()
        if call_parameter.name != "call":
            raise UsageError(
                f"the first parameter of a measure is `call`, {function.__name__} has {call_parameter.name!r}",
                hint="see docs/how-to/extend.md",
            )
        signature = inspect.Signature(parameters)

        @functools.wraps(function)
        def measured(*args: P.args, **kwargs: P.kwargs) -> R:
            call = Call.bind(info, signature, args, kwargs, names_taken(function))
            try:
                result = function(call, *args, **kwargs)
            except (VocabularyError, DegenerateError) as error:
                return cast("R", call.undefined_scores(error.message))
            as_measurements(result)  # a result that is no measurement is an error of this function
            return result

        measured.__dict__.update({"info": info, "__signature__": signature})
        measured.__annotations__ = {
            name: hint for name, hint in function.__annotations__.items() if name != call_parameter.name
        }
        bound = cast("MeasureFunction[P, R]", measured)
        MEASURES.add(info.id, bound)
        return bound

    return bind


@dataclass(eq=False)
class Call:
    """What all measurements of one call share.

    Attributes:
        info: the description of the measure.
        model: name of what is measured.
        params: the parameters to record.
        seed: the seed.
        view: what is measured.
        reference: the view before mitigation.
        query: name of what is asked.
        positive: what a positive value stands for.
        coverage: the words found and lost.
        scores: the score that an error leaves undefined, or several, which make a tuple of measurements.
        note: what sets the numbers apart from others of the measure.
    """

    info: Info
    model: str = ""
    params: dict[str, object] = field(default_factory=dict)
    seed: int | None = None
    view: object = field(default=None, repr=False)
    reference: object = field(default=None, repr=False)
    query: str = ""
    positive: str = ""
    coverage: Coverage = NOTHING
    scores: str | Sequence[str] = ""
    note: str = ""

    @classmethod
    def bind(
        cls,
        info: Info,
        signature: inspect.Signature,
        args: Sequence[object],
        kwargs: Mapping[str, object],
        names: Mapping[str, tuple[object, ...]],
    ) -> Call:
        """Return the call of a measure with these arguments; all but view, query, reference and seed are recorded.

        Args:
            info: the description of the measure.
            signature: the parameters of the measure, without the call.
            args: the arguments by position.
            kwargs: the arguments by name.
            names: the only values of some parameters, see `names_taken`.
        """
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{info.id.replace('-', '_')}() {error}") from None
        bound.apply_defaults()
        values = dict(bound.arguments)
        for name, known in names.items():
            if values[name] not in known:
                listed = " or ".join(str(value) for value in known if value not in ("", None))
                raise UsageError(f"{name} must be {listed}, got {values[name]!r}")
        view, _ = (values.pop(name) for name in list(values)[:2])
        reference, seed = values.pop("reference", None), values.pop("seed", None)
        if values.get("concept"):
            values["concept"] = as_concept(values["concept"])
        params = {name: _plain(value) for name, value in values.items()}
        if isinstance(view, Vectors):
            params |= {"case": view.case} | ({} if view.language in ("", "en") else {"language": view.language})
        return cls(info, str(getattr(view, "name", "")), params, seed, view, reference)

    def describe(
        self,
        query: Query | str,
        *,
        positive: str = "",
        coverage: Coverage = NOTHING,
        scores: str | Sequence[str] = "",
        params: Mapping[str, object] | None = None,
    ) -> None:
        """Say what is asked, once it is known; `params` are parameters in the form in which they took effect."""
        if isinstance(query, Query) and query.language != "en":
            self.params["language"] = query.language
        self.query = query.name if isinstance(query, Query) else query
        self.positive, self.coverage, self.scores = positive, coverage, scores
        self.params |= params or {}

    def require(self, lists: Iterable[ListCoverage] = (), min_share: float = MIN_SHARE) -> None:
        """Raise the error that leaves the measurement undefined, by the rules that hold for every measure."""
        reference = self.reference if isinstance(self.reference, Vectors) else None
        if isinstance(self.view, Vectors) and (reason := collapse_problem(self.view, reference)):
            raise DegenerateError(reason)
        if reason := coverage_problem(lists, min_share):
            raise VocabularyError(reason)

    def measurement(
        self,
        value: float,
        n: int,
        *,
        reading: str,
        score: str = "",
        interval: Interval = None,
        p_value: float | None = None,
        positive: str | None = None,
        note: str = "",
        items: Iterable[MeasuredItem] = (),
        details: Mapping[str, object] | None = None,
        units: tuple[Units, ...] = (),
        params: Mapping[str, object] | None = None,
    ) -> Measurement:
        """Return a measurement with a value; one that is not finite is undefined, with the reading as its reason."""
        if not np.isfinite(value):
            return self.undefined(reading, score=score, positive=positive, details=details, params=params)
        return Measurement(
            self.info.id,
            float(value),
            n,
            self.coverage,
            interval=interval,
            p_value=p_value,
            query=self.query,
            score=score,
            model=self.model,
            positive=self.positive if positive is None else positive,
            reading=reading,
            note="; ".join(filter(None, (self.note, note))),
            items=tuple(items),
            details=details or {},
            params={**self.params, **(params or {})},
            seed=self.seed,
            definition=self.info.definition,
            units=units,
        )

    def undefined(
        self,
        reason: str,
        *,
        score: str = "",
        positive: str | None = None,
        items: Iterable[MeasuredItem] = (),
        details: Mapping[str, object] | None = None,
        params: Mapping[str, object] | None = None,
    ) -> Measurement:
        """Return a measurement without a value that says why."""
        asked = self.measurement(
            0.0, 0, reading="", score=score, positive=positive, items=items, details=details, params=params
        )
        return replace(asked, value=None, status="undefined", reason=reason)

    def undefined_scores(self, reason: str) -> Measured:
        """Return every score without a value."""
        if isinstance(self.scores, str):
            return self.undefined(reason, score=self.scores)
        return tuple(self.undefined(reason, score=score) for score in self.scores)


@functools.cache
def names_taken(function: Callable[..., object]) -> dict[str, tuple[object, ...]]:
    """Return the values that each parameter takes whose type is a list of names; None among them where it may be."""
    try:
        hints = get_type_hints(function)
    except NameError:  # of a type that is imported for type checkers only
        return {}
    taken = {}
    for name, hint in hints.items():
        kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
        named = [kind for kind in kinds if get_origin(kind) is Literal]
        if named and all(kind is NoneType for kind in kinds if kind not in named):
            values = [value for kind in named for value in get_args(kind)]
            taken[name] = (*values, None) if len(named) < len(kinds) else tuple(values)
    return taken


def _plain(value: object) -> object:
    """Return an argument as plain data: the name of what has one, "given" for other objects."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Path):
        return str(value)
    if isinstance(name := getattr(value, "name", None), str):
        return name
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, Sequence) else "given"


class ListCoverage(NamedTuple):
    """How many entries of a list the vocabulary has; an entry is a word, or a pair or row that needs all its words."""

    name: str
    found: int
    total: int
    unit: str = "word"

    @classmethod
    def of_words(cls, name: str, coverage: Coverage) -> ListCoverage:
        """Return the coverage of a list of words."""
        return cls(name, len(coverage.found), coverage.asked)

    @classmethod
    def of_pairs(cls, vectors: Vectors, pairs: Pairs) -> ListCoverage:
        """Return the coverage of a list of pairs, of which both words must be in the vocabulary."""
        complete = sum(all(vectors.find(word) is not None for word in pair) for pair in pairs)
        return cls(pairs.name, complete, len(pairs), "pair")


def coverage_problem(lists: Iterable[ListCoverage], min_share: float = MIN_SHARE) -> str:
    """Return why these lists cannot be measured: one is empty, or lost more than `1 - min_share`; else ""."""
    if not 0 <= min_share <= 1:
        raise UsageError(
            f"min_share must be between 0 and 1, got {min_share}", hint="use 0.5 to require half of each list"
        )
    checked = tuple(lists)
    if empty := [entry for entry in checked if entry.found == 0]:
        names = ", ".join(entry.name for entry in empty if entry.unit == empty[0].unit)
        return f"no {empty[0].unit} of {names} is in the vocabulary"
    if short := [entry for entry in checked if entry.found < min_share * entry.total]:
        same = [entry for entry in short if entry.unit == short[0].unit]
        counts = ", ".join(f"{entry.name} {entry.found} of {entry.total}" for entry in same)
        return f"too few {same[0].unit}s are in the vocabulary: {counts} (min_share={min_share:g})"
    return ""


def collapse_problem(vectors: Vectors, reference: Vectors | None = None) -> str:
    """Return why vectors whose norms collapsed cannot be measured; "" for all others.

    The median norm of a sample of rows is compared with that of the reference, or with 1 where there is none.
    """
    norm = _median_norm(vectors)
    scale = _median_norm(reference) if reference is not None else 1.0
    if not len(vectors) or norm > COLLAPSED * scale:
        return ""
    compared = "of the reference's" if reference is not None else "of 1"
    return f"the vectors collapsed: their median norm is {norm:.2g}, below {COLLAPSED:g} {compared}"


def _median_norm(vectors: Vectors) -> float:
    if not len(vectors):
        return 0.0
    rows = np.unique(np.linspace(0, len(vectors) - 1, min(len(vectors), SAMPLED_ROWS)).astype(np.int64))
    return float(np.quantile(row_norms(vectors.matrix[rows]), 0.5))  # np.median imports masked arrays


FEWEST = 3  # one or two words leave nothing to resample


def word_interval(statistic: Statistic, units: int, *, seed: int) -> Interval:
    """Return the percentile interval of a statistic of (draws, units) rows; None for fewer than three units."""
    return percentile_interval(statistic, units, seed=seed) if units >= FEWEST else None
