"""From the table of a word file to a probe."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, get_args

from evenhand.errors import UsageError, shown
from evenhand.words.builders import build_template
from evenhand.words.lists import Shelf, reference_in, word_list
from evenhand.words.probes.fillers import WORD, Filler
from evenhand.words.probes.probe import Label, Probe
from evenhand.words.probes.surface import CHOICES, Surface
from evenhand.words.template import Template
from evenhand.words.toml_table import Entry

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


def build_probe(entry: Entry, shelf: Shelf, find: FindTemplate) -> Probe:
    """A probe: templates, the fillers of both sides, which slot differs, the expected label."""
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


def _templates(entry: Entry, shelf: Shelf, find: FindTemplate) -> Iterator[Template]:
    for place, item in enumerate(entry.items("templates"), start=1):
        if name := reference_in(item):
            with entry.at("templates"):
                yield find(name)
        elif isinstance(item, dict):
            yield build_template(Entry(entry.document, (*entry.keys, "templates", str(place)), item), shelf)
        elif isinstance(item, str):
            with entry.at("templates"):
                yield Template(f"{entry.id}-{place}", item)
        else:
            raise entry.error("templates", f"a template is '@id', a text or a table, got {shown(item)}")


def _fillers(entry: Entry, side: str, shelf: Shelf) -> Iterator[Filler]:
    """Each item is a list of words with what they have in common; a plain list of words is such an item."""
    given = entry.items(side)
    items = given if all(isinstance(item, dict) for item in given) else [{"words": given}]
    for place, item in enumerate(items, start=1):
        part = Entry(entry.document, (*entry.keys, side, str(place)), item)
        part.only("words", "frame", "group", "bare", "capital", "verbatim")
        flags = {"bare": part.flag("bare"), "capital": part.flag("capital")}
        with part.at("frame"):
            for word in word_list(part, "words", shelf):
                yield Filler(word, part.text("frame", WORD), part.text("group", ""), **flags)


def _contrast(entry: Entry) -> tuple[str, str] | None:
    if "contrast" not in entry:
        return None
    names = entry.texts("contrast")
    if len(names) != 2:
        raise entry.error("contrast", f"names two groups, got {shown(names)}")
    return names[0], names[1]


def _surface(entry: Entry, templates: tuple[Template, ...]) -> Surface:
    """The surface asked for; articles are those of the templates where these agree."""
    table = entry.child("surface")
    table.only(*CHOICES)
    choices: dict[str, Any] = {key: table.text(key) for key in table.table}
    rules = {template.articles for template in templates}
    if "articles" not in choices:
        if len(rules) > 1:
            raise UsageError("the templates have different article rules", hint="set articles in surface")
        choices["articles"] = rules.pop()
    return Surface(**choices)
