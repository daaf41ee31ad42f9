"""Find probes by id or file: `gender-occupation`, `gender-occupation+162`, `mine.toml#id`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import cast, get_args

from evenhand.errors import UsageError, shown, unknown_name
from evenhand.words import catalog
from evenhand.words.document import SUFFIXES, Document, TomlTable, read_document
from evenhand.words.library import Library, build_template, reference_in, word_list
from evenhand.words.probes.phrases import CHOICES, Surface
from evenhand.words.probes.probe import WORD, Filler, Label, Probe
from evenhand.words.template import Template

KEYS = (
    "templates",
    "premise",
    "hypothesis",
    "differs",
    "expected",
    "contrast",
    "controls",
    "concept",
    "surface",
    "note",
    "source",
)
FindTemplate = Callable[[str], Template]


def build_probe(entry: TomlTable, library: Library, find: FindTemplate) -> Probe:
    """Build a probe from its table: templates, fillers of both sides, the differing slot, the expected label."""
    entry.only(*KEYS, "variants")
    templates = tuple(_templates(entry, library, find))
    sides = {side: tuple(_fillers(entry, side, library)) for side in ("premise", "hypothesis")}
    label = cast(Label, entry.text("expected", "neutral"))  # Probe itself refuses another
    with entry.at("" if label in get_args(Label) else "expected"):
        return Probe(
            entry.id,
            templates,
            **sides,
            differs=entry.text("differs", "subject"),
            expected=label,
            contrast=_contrast(entry),
            controls=tuple(entry.texts("controls")) if "controls" in entry else (),
            surface=_surface(entry, templates),
            source=library.source_of(entry),
            note=entry.prose("note"),
            concept=entry.text("concept", ""),
        )


def _templates(entry: TomlTable, library: Library, find: FindTemplate) -> Iterator[Template]:
    for number, item in enumerate(entry.items("templates"), start=1):
        if name := reference_in(item):
            with entry.at("templates"):
                yield find(name)
        elif isinstance(item, dict):
            yield build_template(TomlTable(entry.document, (*entry.keys, "templates", str(number)), item), library)
        elif isinstance(item, str):
            with entry.at("templates"):
                yield Template(f"{entry.id}-{number}", item)
        else:
            raise entry.error("templates", f"a template must be '@id', a text or a table, got {shown(item)}")


def _fillers(entry: TomlTable, side: str, library: Library) -> Iterator[Filler]:
    """Yield the fillers of a side; an item is a list of words with shared options, or all items are plain words."""
    values = entry.items(side)
    items = values if all(isinstance(item, dict) for item in values) else [{"words": values}]
    for number, item in enumerate(items, start=1):
        part = TomlTable(entry.document, (*entry.keys, side, str(number)), item)
        part.only("words", "frame", "group", "bare", "capital", "gender", "verbatim")
        flags = {"bare": part.flag("bare"), "capital": part.flag("capital")}
        with part.at("frame"):
            for word in word_list(part, "words", library):
                frame, group = part.text("frame", WORD), part.text("group", "")
                yield Filler(word, frame, group, **flags, gender=part.text("gender", ""))


def _contrast(entry: TomlTable) -> tuple[str, str] | None:
    if "contrast" not in entry:
        return None
    names = entry.texts("contrast")
    if len(names) != 2:
        raise entry.error("contrast", f"must name two groups, got {shown(names)}")
    return names[0], names[1]


def _surface(entry: TomlTable, templates: tuple[Template, ...]) -> Surface:
    """Return the surface form; articles are those of the templates unless set."""
    table = entry.child("surface")
    table.only(*CHOICES)
    choices = {key: table.text(key) for key in table.table}
    rules = {template.articles for template in templates}
    if "articles" not in choices:
        if len(rules) > 1:
            raise UsageError("the templates have different article rules", hint="set articles in surface")
        choices["articles"] = rules.pop()
    return Surface(**choices)  # type: ignore[arg-type]  # Surface itself refuses other values


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
        return _build(_file(SHIPPED), str(reference))
    file = _ProbeFile(read_document(Path(path).expanduser()))
    if not inside and len(file.probes.table) != 1:
        names = tuple(file.probes.table)
        hint = f"name one: {path}#{names[0]}" if names else "add a table [probe.my-probe]"
        raise UsageError(f"{path} holds {len(names)} probes", hint=hint)
    return _build(file, inside or next(iter(file.probes.table)))


def ids() -> tuple[str, ...]:
    """Return the ids of the shipped probes."""
    return tuple(_file(SHIPPED).probes.table)


def listing() -> tuple[ProbeListing, ...]:
    """Return every shipped probe with its size, as `evenhand list` shows them."""
    return tuple(_listing(name) for name in ids())


class _ProbeFile:
    """The probes of a file, and its other records."""

    def __init__(self, document: Document) -> None:
        others = {key: value for key, value in document.data.items() if key != "probe"}
        self.probes = TomlTable(document, (), document.data).child("probe")
        self.library = Library(replace(document, data=others), catalog.shipped_library)

    def template(self, name: str) -> Template:
        """Return a template of this file, or a shipped one."""
        own = name in self.library.ids(Template)
        return self.library.get(Template, name) if own else catalog.template(name)


@cache
def _file(path: Path) -> _ProbeFile:
    return _ProbeFile(read_document(path))


def _build(file: _ProbeFile, reference: str) -> Probe:
    name, *variants = reference.split(VARIANT)
    if name not in file.probes:
        raise unknown_name("probe", name, file.probes.table)
    entry = file.probes.child(name)
    known: Mapping[str, object] = entry.value("variants", dict, {})
    table = dict(entry.table)
    for number, variant in enumerate(variants):
        if variant not in known or variant in variants[:number]:
            raise unknown_name(f"variant of probe {name!r}", variant, set(known) - set(variants[:number]))
        changes = entry.child("variants").child(variant)
        changes.only(*KEYS)
        table |= changes.table
    built = build_probe(TomlTable(entry.document, entry.keys, table), file.library, file.template)
    return replace(built, name=reference)


def _listing(name: str) -> ProbeListing:
    item = probe(name)
    return ProbeListing(name, item.n_pairs, item.expected, variants(name), item.note, _varies(item), _citation(item))


def variants(name: str) -> tuple[str, ...]:
    """Return the variants of a shipped probe, which can be added to its id."""
    return tuple(_file(SHIPPED).probes.child(name).child("variants").table)


def _varies(item: Probe) -> str:
    """Return the first word of each side, such as "accountant … → woman …"."""
    sides = (item.premise, item.hypothesis)
    return " → ".join(side[0].word + (" …" if len(side) > 1 else "") for side in sides)


def _citation(item: Probe) -> str:
    """Return first author and year; `evenhand show` prints the whole reference."""
    source = item.source
    return f"{source.authors.partition(',')[0].partition(' and ')[0]} {source.year}" if source else ""
