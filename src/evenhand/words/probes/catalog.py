"""Find probes by id or file: `gender-occupation`, `gender-occupation+162`, `mine.toml#id`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from evenhand.errors import UsageError, shown, unknown_name
from evenhand.words import catalog
from evenhand.words.document import SUFFIXES, Document, TomlTable, read_document
from evenhand.words.library import Library
from evenhand.words.probes.building import KEYS, build_probe
from evenhand.words.probes.probe import Probe
from evenhand.words.template import Template

SHIPPED = Path(__file__).with_name("probes.toml")
VARIANT = "+"


@dataclass(frozen=True)
class ProbeListing:
    """A line of the listing of shipped probes."""

    id: str
    pairs: int
    expected: str
    variants: tuple[str, ...]
    note: str
    varies: str
    source: str


def probe(reference: str | Path | Probe) -> Probe:
    """Return a probe by id ("gender-occupation", or with variants "nationality-polarity+cross") or from a file.

    A `Probe` is returned unchanged.
    """
    if isinstance(reference, Probe):
        return reference
    if not isinstance(reference, (str, Path)):
        raise UsageError(f"a probe must be an id or a file, got {shown(reference)}")
    path, _, inside = str(reference).partition("#")
    if not path.lower().endswith(SUFFIXES):
        return _build(_shelf(SHIPPED), str(reference))
    shelf = _Shelf(read_document(Path(path).expanduser()))
    if not inside and len(shelf.probes.table) != 1:
        names = tuple(shelf.probes.table)
        hint = f"name one: {path}#{names[0]}" if names else "add a table [probe.my-probe]"
        raise UsageError(f"{path} holds {len(names)} probes", hint=hint)
    return _build(shelf, inside or next(iter(shelf.probes.table)))


def ids() -> tuple[str, ...]:
    """Return the ids of the shipped probes."""
    return tuple(_shelf(SHIPPED).probes.table)


def listing() -> tuple[ProbeListing, ...]:
    """Return every shipped probe with its size, as `evenhand list` shows them."""
    return tuple(_listing(name) for name in ids())


class _Shelf:
    """The probes of a file, and its other records."""

    def __init__(self, document: Document) -> None:
        others = {key: value for key, value in document.data.items() if key != "probe"}
        self.probes = TomlTable(document, (), document.data).child("probe")
        self.library = Library(replace(document, data=others), catalog._shipped)

    def template(self, name: str) -> Template:
        """Return a template of this file, or a shipped one."""
        if name not in self.library.ids("template"):
            return catalog.template(name)
        template: Template = self.library.get("template", name)
        return template


@cache
def _shelf(path: Path) -> _Shelf:
    return _Shelf(read_document(path))


def _build(shelf: _Shelf, reference: str) -> Probe:
    name, *variants = reference.split(VARIANT)
    if name not in shelf.probes:
        raise unknown_name("probe", name, shelf.probes.table)
    entry = shelf.probes.child(name)
    known: Mapping[str, object] = entry.value("variants", dict, {})
    table = dict(entry.table)
    for number, variant in enumerate(variants):
        if variant not in known or variant in variants[:number]:
            raise unknown_name(f"variant of probe {name!r}", variant, set(known) - set(variants[:number]))
        changes = entry.child("variants").child(variant)
        changes.only(*KEYS)
        table |= changes.table
    built = build_probe(TomlTable(entry.document, entry.keys, table), shelf.library, shelf.template)
    return replace(built, name=reference)


def _listing(name: str) -> ProbeListing:
    item = probe(name)
    return ProbeListing(name, item.n_pairs, item.expected, variants(name), item.note, _varies(item), _citation(item))


def variants(name: str) -> tuple[str, ...]:
    """Return the variants of a shipped probe, which can be added to its id."""
    return tuple(_shelf(SHIPPED).probes.child(name).table.get("variants", {}))


def _varies(item: Probe) -> str:
    """Return the first word of each side, such as "accountant … → woman …"."""
    sides = (item.premise, item.hypothesis)
    return " → ".join(side[0].word + (" …" if len(side) > 1 else "") for side in sides)


def _citation(item: Probe) -> str:
    """Return first author and year; `evenhand show` prints the whole reference."""
    source = item.source
    return f"{source.authors.partition(',')[0].partition(' and ')[0]} {source.year}" if source else ""
