"""Phrases: the parts that premise and hypothesis share, one for every filling of a template's other slots.

A `Surface` decides how a sentence is written: determiner, articles, case and full stop.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Literal, NamedTuple, get_args

import numpy as np

from evenhand.arrays import Rows
from evenhand.errors import UsageError, unknown_name
from evenhand.words.grammar import agrees, with_articles
from evenhand.words.template import SLOT, Template
from evenhand.words.wordset import Words, checked_words, digest_of

Determiner = Literal["", "The", "A/An"]
Casing = Literal["natural", "lower"]
Stop = Literal["", ".", " ."]
PROBES_KEPT = 8  # whose phrases are written once: a megabyte each
CHOICES = {"determiner": Determiner, "articles": None, "case": Casing, "stop": Stop}  # any language has its articles


@dataclass(frozen=True)
class Surface:
    """A surface form, the same for premise and hypothesis, so that only the subject differs.

    An empty `determiner` or `stop` keeps that of the template. Articles follow the sound of the next word, or its first
    letter with `articles="letter"`. With `articles="french"` all that is marked in a sentence agrees with the gender of
    its subject. `case="lower"` is the published preprocessing.
    """

    determiner: Determiner = ""
    articles: str = "phonetic"
    case: Casing = "natural"
    stop: Stop = ""

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            allowed = get_args(CHOICES[name])
            if name != "articles" and value not in allowed:
                choices = ", ".join(map(repr, filter(None, allowed)))
                raise UsageError(f"surface: {name} cannot be {value!r}", hint=f"use one of {choices}")
        agrees(self.articles)  # raises an error for an unknown rule

    def determiner_for(self, original: str) -> str:
        """Return the determiner that replaces that of a template, in the same case; "" stays ""."""
        if not self.determiner or not original:
            return original
        return self.determiner if original[0].isupper() else self.determiner.lower()

    def end(self, text: str) -> str:
        """Replace the full stop of a template, if it has one."""
        return text.rstrip(". ") + self.stop if self.stop and text.endswith(".") else text

    def apply_case(self, text: str) -> str:
        """Return the text in the chosen case."""
        return text.lower() if self.case == "lower" else text


# The released code of Dev et al. (2020), also used by Dawkins (2021): "A nurse bought a SUV ."
RELEASED = Surface("A/An", "letter", "natural", " .")


DETERMINER = re.compile(r"\b(The|the|A/An|a/an) $")
SUBJECT = "\x00"  # marks the differing slot while articles are chosen; no word contains it


class Phrase(NamedTuple):
    """A sentence around its subject."""

    before: str
    determiner: str
    after: str


class Phrases:
    """All fillings of the templates by index, or consecutive ones; the last slot of a template varies fastest."""

    def __init__(
        self, templates: Sequence[Template], differs: str, surface: Surface, span: tuple[int, int] | None = None
    ) -> None:
        self.templates, self.differs, self.surface = tuple(templates), differs, surface
        for template in self.templates:
            if template.free != (differs,) or template.text.count("{" + differs + "}") != 1:
                raise UsageError(
                    f"template {template.name!r}: {differs!r} must occur once and be the only slot without fillers",
                    hint=f"its slots are {list(template.slots)}, those without fillers {list(template.free)}",
                )
        self.starts = np.cumsum([0, *(template.size for template in self.templates)])
        self.start, self.stop = span or (0, int(self.starts[-1]))

    def __len__(self) -> int:
        return self.stop - self.start

    def words(self, number: int) -> dict[str, str]:
        """Return the fillers of a phrase, by slot."""
        template = self._template(number)
        fillers = {slot: self.templates[template].fillers[slot] for slot in self._other_slots(template)}
        sizes = tuple(map(len, fillers.values()))
        rows = np.unravel_index(self.start + number - int(self.starts[template]), sizes) if sizes else ()
        return {slot: words.words[int(row)] for (slot, words), row in zip(fillers.items(), rows, strict=True)}

    def _template(self, number: int) -> int:
        return int(np.searchsorted(self.starts, self.start + number, side="right")) - 1

    def _other_slots(self, template: int) -> list[str]:
        return [slot for slot in self.templates[template].slots if slot != self.differs]

    def __getitem__(self, number: int) -> Phrase:
        if not 0 <= number < len(self):
            raise UsageError(f"there is no phrase {number}; indices are 0 to {len(self) - 1}")
        words = self.words(number)
        text = self.surface.end(self.templates[self._template(number)].text)
        front, _, back = text.partition("{" + self.differs + "}")
        mark = DETERMINER.search(front)
        front = front[: mark.start()] if mark else front
        sentence = SLOT.sub(lambda slot: words[slot[1]], front + SUBJECT + back)
        before, _, after = self.surface.apply_case(with_articles(sentence, self.surface.articles)).partition(SUBJECT)
        return Phrase(before, mark[1] if mark else "", after)

    def part(self, start: int, stop: int) -> Phrases:
        """Return consecutive phrases, numbered from 0."""
        if not 0 <= start < stop <= len(self):
            raise UsageError(f"there are no phrases {start} to {stop}; indices are 0 to {len(self) - 1}")
        return Phrases(self.templates, self.differs, self.surface, (self.start + start, self.start + stop))

    @cached_property
    def all(self) -> tuple[Phrase, ...]:
        """Every phrase; there are thousands where pairs are millions."""
        key = digest_of([[each.to_dict() for each in self.templates], self.differs, asdict(self.surface)])
        if key not in _WRITTEN:
            while len(_WRITTEN) >= PROBES_KEPT:
                _WRITTEN.pop(next(iter(_WRITTEN)), None)
            whole = Phrases(self.templates, self.differs, self.surface)
            _WRITTEN[key] = tuple(whole[number] for number in range(len(whole)))
        return _WRITTEN[key][self.start : self.stop]

    def fillers(self, slot: str) -> tuple[Rows, tuple[str, ...]]:
        """Return the index of every phrase's word in a slot (-1 if its template lacks the slot), and the words."""
        numbers: dict[str, int] = {}
        codes = np.full(int(self.starts[-1]), -1)
        for template, start in enumerate(self.starts[:-1].tolist()):
            slots = self._other_slots(template)
            if slot in slots:
                fillers = self.templates[template].fillers
                sizes = tuple(len(fillers[name]) for name in slots)
                rows = np.indices(sizes)[slots.index(slot)].ravel()
                words = np.array([numbers.setdefault(word, len(numbers)) for word in fillers[slot]])
                codes[start : start + len(rows)] = words[rows]
        return codes[self.start : self.stop], tuple(numbers)

    @property
    def template_of(self) -> Rows:
        """The index of every phrase's template."""
        return np.repeat(np.arange(len(self.templates)), np.diff(self.starts))[self.start : self.stop]

    @cached_property
    def slots(self) -> tuple[str, ...]:
        """The slots other than the differing one."""
        return tuple(dict.fromkeys(s for template in self.templates for s in template.slots if s != self.differs))


_WRITTEN: dict[str, tuple[Phrase, ...]] = {}
"""Phrases by the hash of what decides them: every training seed of a model asks the same ones."""


def restrict_templates(templates: Sequence[Template], slots: dict[str, str | Words]) -> tuple[Template, ...]:
    """Return the templates with fewer fillers; those without the slot, or without any of the words, are dropped."""
    remaining = list(templates)
    for slot, words in slots.items():
        wanted = set((words,) if isinstance(words, str) else checked_words(words, what=f"slot {slot!r}"))
        present = {word for template in templates if slot in template.fillers for word in template.fillers[slot]}
        if not present:
            names = {name for template in templates for name in template.fillers}
            raise unknown_name("slot", slot, names | {"premise", "hypothesis"})
        for word in sorted(wanted - present):
            raise unknown_name(f"{slot} filler", word, present)
        remaining = [_restrict(t, slot, wanted) for t in remaining if wanted & set(t.fillers.get(slot, ()))]
    return tuple(remaining)


def drop_fillers(templates: Sequence[Template], words: Mapping[str, Collection[str]]) -> tuple[Template, ...]:
    """Return the templates without some fillers, by slot; one that has no filler left for a slot is dropped."""
    kept = []
    for template in templates:
        for slot in set(words) & set(template.fillers):
            left = set(template.fillers[slot]) - set(words[slot])
            if not left:
                break
            template = _restrict(template, slot, left)
        else:
            kept.append(template)
    return tuple(kept)


def _restrict(template: Template, slot: str, wanted: set[str]) -> Template:
    others = {name: words for name, words in template.fillers.items() if name != slot}
    left = [word for word in template.fillers[slot] if word in wanted]
    return Template(
        template.name, template.text, {**others, slot: left}, template.articles, template.source, note=template.note
    )
