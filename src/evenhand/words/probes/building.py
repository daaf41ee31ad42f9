"""Build probes from tables of word files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, get_args

from evenhand.errors import UsageError, shown
from evenhand.words.builders import Shelf, build_template, reference_in, word_list
from evenhand.words.document import TomlTable
from evenhand.words.probes.fillers import WORD, Filler
from evenhand.words.probes.probe import Label, Probe
from evenhand.words.probes.surface import CHOICES, Surface
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


def build_probe(entry: TomlTable, shelf: Shelf, find: FindTemplate) -> Probe:
    """Build a probe from its table: templates, fillers of both sides, the differing slot, the expected label."""
    entry.only(*KEYS, "variants")
    templates = tuple(_templates(entry, shelf, find))
    sides = {side: tuple(_fillers(entry, side, shelf)) for side in ("premise", "hypothesis")}
    label: Any = entry.text("expected", "neutral")
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
            source=shelf.source_of(entry),
            note=entry.prose("note"),
            concept=entry.text("concept", ""),
        )


def _templates(entry: TomlTable, shelf: Shelf, find: FindTemplate) -> Iterator[Template]:
    for number, item in enumerate(entry.items("templates"), start=1):
        if name := reference_in(item):
            with entry.at("templates"):
                yield find(name)
        elif isinstance(item, dict):
            yield build_template(TomlTable(entry.document, (*entry.keys, "templates", str(number)), item), shelf)
        elif isinstance(item, str):
            with entry.at("templates"):
                yield Template(f"{entry.id}-{number}", item)
        else:
            raise entry.error("templates", f"a template must be '@id', a text or a table, got {shown(item)}")


def _fillers(entry: TomlTable, side: str, shelf: Shelf) -> Iterator[Filler]:
    """Yield the fillers of a side; an item is a list of words with shared options, or all items are plain words."""
    values = entry.items(side)
    items = values if all(isinstance(item, dict) for item in values) else [{"words": values}]
    for number, item in enumerate(items, start=1):
        part = TomlTable(entry.document, (*entry.keys, side, str(number)), item)
        part.only("words", "frame", "group", "bare", "capital", "gender", "verbatim")
        flags = {"bare": part.flag("bare"), "capital": part.flag("capital")}
        with part.at("frame"):
            for word in word_list(part, "words", shelf):
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
    choices: dict[str, Any] = {key: table.text(key) for key in table.table}
    rules = {template.articles for template in templates}
    if "articles" not in choices:
        if len(rules) > 1:
            raise UsageError("the templates have different article rules", hint="set articles in surface")
        choices["articles"] = rules.pop()
    return Surface(**choices)
