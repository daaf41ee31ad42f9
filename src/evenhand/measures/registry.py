"""The measures by id. A new one is a file with a decorated function, and a row in the table of its family."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Literal, TypeVar

from evenhand.errors import unknown_name
from evenhand.measures import association, geometry, inference, quality
from evenhand.measures.measurement import Measurement

Better = Literal["zero", "lower", "higher", "one"]
ARROWS: dict[str, str] = {"zero": "→ 0", "lower": "↓", "higher": "↑", "one": "→ 1"}

# Listing every id must not import every measure, hence names of modules instead of functions.
FAMILIES = (association, geometry, inference, quality)
TABLE: dict[str, str] = {
    name: f"{family.__name__}.{target}" for family in FAMILIES for name, target in family.MEASURES.items()
}
ENTRY_POINTS = "evenhand.measures"
Function = TypeVar("Function", bound=Callable[..., Measurement])


@dataclass(frozen=True)
class Info:
    """What a reader must know of a measure before its number means anything."""

    id: str
    title: str
    takes: Literal["query", "words", "dataset", "probe"]
    better: Better
    formula: str
    reading: str
    limits: str
    cites: tuple[str, ...]
    queries: tuple[str, ...]  # what an audit asks when nobody says otherwise
    family: Literal["association", "geometry", "inference", "quality"] = "association"
    needs_reference: bool = False
    available: Callable[[], tuple[str, ...]] | None = None  # further queries, whose data may or may not be here

    def default_queries(self) -> tuple[str, ...]:
        """What an audit asks: the queries named, and those whose data set is found without a download."""
        return self.queries + (self.available() if self.available else ())


def measure(info: Info) -> Callable[[Function], Function]:
    """Attach the description to the function; the table above makes it findable."""

    def attach(function: Function) -> Function:
        function.info = info  # type: ignore[attr-defined]
        return function

    return attach


@cache
def _foreign() -> dict[str, Any]:
    return {point.name: point for point in entry_points(group=ENTRY_POINTS)}


def ids() -> list[str]:
    """Every known measure id, ours first."""
    return [*TABLE, *(name for name in _foreign() if name not in TABLE)]


def get(measure_id: str) -> Callable[..., Measurement]:
    """The measure of that id."""
    if measure_id in TABLE:
        module, _, name = TABLE[measure_id].partition(":")
        found: Callable[..., Measurement] = getattr(import_module(module), name)
        return found
    if measure_id in _foreign():
        loaded: Callable[..., Measurement] = _foreign()[measure_id].load()
        return loaded
    raise unknown_name("measure", measure_id, ids())


def info(measure_id: str) -> Info:
    """The description of a measure."""
    found: Info = get(measure_id).info  # type: ignore[attr-defined]
    return found
