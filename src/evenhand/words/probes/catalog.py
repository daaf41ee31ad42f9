"""The shipped probes, and the user's own, by id: `gender-occupation`, `gender-occupation+162`, `mine.toml#id`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from evenhand.errors import UsageError, shown, unknown_name
from evenhand.words import catalog
from evenhand.words.document import SUFFIXES, Document, read_document
from evenhand.words.library import Library
from evenhand.words.probes.building import KEYS, build_probe
from evenhand.words.probes.probe import Probe
from evenhand.words.toml_table import Entry

SHIPPED = Path(__file__).with_name("probes.toml")
VARIANT = "+"


@dataclass(frozen=True)
class Listed:
    """One line of the listing."""

    id: str
    pairs: int
    expected: str
    variants: tuple[str, ...]
    note: str
    varies: str
    source: str


def probe(reference: str | Path | Probe) -> Probe:
    """A probe by its id ("gender-occupation", with variants "nationality-polarity+cross"), from a file, or as it is."""
    if isinstance(reference, Probe):
        return reference
    if not isinstance(reference, (str, Path)):
        raise UsageError(f"a probe is asked for by its id or file, got {shown(reference)}")
    path, _, inside = str(reference).partition("#")
    if not path.lower().endswith(SUFFIXES):
        return _built(_shelf(SHIPPED), str(reference))
    shelf = _Shelf(read_document(Path(path).expanduser()))
    if not inside and len(shelf.probes.table) != 1:
        known = tuple(shelf.probes.table)
        hint = f"say which: {path}#{known[0]}" if known else "add a table [probe.my-probe]"
        raise UsageError(f"{path} holds {len(known)} probes", hint=hint)
    return _built(shelf, inside or next(iter(shelf.probes.table)))


def ids() -> tuple[str, ...]:
    """The ids of the shipped probes."""
    return tuple(_shelf(SHIPPED).probes.table)


def listing() -> tuple[Listed, ...]:
    """Every shipped probe with its size: what `evenhand list` shows."""
    return tuple(_listed(name) for name in ids())


class _Shelf:
    """One file: its probes, and the other records it holds."""

    def __init__(self, document: Document) -> None:
        others = {key: value for key, value in document.data.items() if key != "probe"}
        self.probes = Entry(document, (), document.data).child("probe")
        self.library = Library(replace(document, data=others), catalog._shipped)

    def template(self, name: str) -> Any:
        """A template of this file, or a shipped one."""
        return self.library.get("template", name) if name in self.library.ids("template") else catalog.template(name)


@cache
def _shelf(path: Path) -> _Shelf:
    return _Shelf(read_document(path))


def _built(shelf: _Shelf, reference: str) -> Probe:
    name, *variants = reference.split(VARIANT)
    if name not in shelf.probes:
        raise unknown_name("probe", name, shelf.probes.table)
    entry = shelf.probes.child(name)
    known: Mapping[str, Any] = entry.value("variants", dict, {})
    table = dict(entry.table)
    for place, variant in enumerate(variants):
        if variant not in known or variant in variants[:place]:
            raise unknown_name(f"variant of probe {name!r}", variant, set(known) - set(variants[:place]))
        changes = entry.child("variants").child(variant)
        changes.only(*KEYS)
        table |= changes.table
    built = build_probe(Entry(entry.document, entry.keys, table), shelf.library, shelf.template)
    return replace(built, name=reference)


def _listed(name: str) -> Listed:
    found = probe(name)
    return Listed(name, found.n_pairs, found.expected, variants(name), found.note, _varies(found), _cited(found))


def variants(name: str) -> tuple[str, ...]:
    """What may be added to the id of a shipped probe."""
    return tuple(_shelf(SHIPPED).probes.child(name).table.get("variants", {}))


def _varies(found: Probe) -> str:
    """The first word of each side, such as "accountant … → woman …"."""
    sides = (found.premise, found.hypothesis)
    return " → ".join(side[0].word + (" …" if len(side) > 1 else "") for side in sides)


def _cited(found: Probe) -> str:
    """Authors and year; the whole reference is in `evenhand show`."""
    about = found.source
    return f"{about.authors.partition(',')[0].partition(' and ')[0]} {about.year}" if about else ""
