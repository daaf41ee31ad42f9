"""Methods by their id: ours, and those that other packages add through the entry point `evenhand.mitigations`."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from evenhand.errors import EvenhandError, EvenhandWarning, UsageError, unknown_name
from evenhand.mitigations.method import Mitigation

GROUP = "evenhand.mitigations"

# Id -> module and class; a module is imported when its method is first asked for.
METHODS = {
    "bam": "evenhand.mitigations.alignment.bam:BAM",
    "double-hard": "evenhand.mitigations.projection.double_hard:DoubleHardDebias",
    "gn-glove": "evenhand.mitigations.training.gn_glove:GNGloVe",
    "gp": "evenhand.mitigations.training.gp:GP",
    "hard": "evenhand.mitigations.projection.hard:HardDebias",
    "hsr": "evenhand.mitigations.erasure.hsr:HSR",
    "inlp": "evenhand.mitigations.erasure.inlp:INLP",
    "leace": "evenhand.mitigations.erasure.leace:LEACE",
    "linear": "evenhand.mitigations.projection.linear:LinearProjection",
    "misp": "evenhand.mitigations.projection.misp:MISP",
    "oscar": "evenhand.mitigations.alignment.oscar:OSCaR",
    "ran": "evenhand.mitigations.training.ran:RAN",
    "rlace": "evenhand.mitigations.erasure.rlace:RLACE",
    "soft": "evenhand.mitigations.projection.soft:SoftDebias",
    "span": "evenhand.mitigations.projection.span:Span",
}


@dataclass(frozen=True)
class Entry:
    """One line of the list of methods."""

    id: str
    title: str
    citation: str
    limits: str
    """What it cannot do."""


def get(id: str) -> type[Mitigation]:
    """The method with this id: `get("linear")().fit(vectors, concept)`."""
    if id in METHODS:
        return _named(METHODS[id])
    added = _added()
    if id in added:
        return _load(added[id])
    raise unknown_name("mitigation", id, [*METHODS, *added])


def listing() -> tuple[Entry, ...]:
    """All methods, sorted by id; one that another package adds and that fails to load is left out with a warning."""
    found = [_entry(_named(place)) for place in METHODS.values()]
    for point in _added().values():
        try:
            found.append(_entry(_load(point)))
        except EvenhandError as error:
            warnings.warn(error.message, EvenhandWarning, stacklevel=2)
    return tuple(sorted(found, key=lambda entry: entry.id))


def _named(place: str) -> type[Mitigation]:
    module, _, name = place.partition(":")
    method: type[Mitigation] = getattr(import_module(module), name)
    return method


def _added() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP) if point.name not in METHODS}


def _load(point: EntryPoint) -> type[Mitigation]:
    try:
        method: Any = point.load()
    except Exception as error:  # somebody else's module may fail in any way
        raise UsageError(
            f"the mitigation {point.name!r} ({point.value}) could not be loaded: {error}",
            hint="update or remove the package that adds it",
        ) from error
    if not (isinstance(method, type) and issubclass(method, Mitigation)):
        raise UsageError(f"{point.value} is not a Mitigation", hint="derive it from evenhand.mitigations.Mitigation")
    return method


def _entry(method: type[Mitigation]) -> Entry:
    return Entry(method.id, method.title, method.citation, method.limits)
