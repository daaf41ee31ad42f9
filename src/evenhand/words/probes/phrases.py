"""The templates of a probe, every filling of their other slots numbered from 0: what premise and hypothesis share."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from evenhand.arrays import Rows
from evenhand.errors import UsageError, unknown_name
from evenhand.words.articles import with_articles
from evenhand.words.probes.surface import Surface
from evenhand.words.template import SLOT, Template
from evenhand.words.wordset import Words, checked_words

DETERMINER = re.compile(r"\b(The|the|A/An|a/an) $")
HERE = "\x00"  # marks the differing slot while articles are decided; no word holds it


class Phrase(NamedTuple):
    """A sentence around its subject."""

    before: str
    determiner: str
    after: str


class Phrases:
    """All fillings of the templates, by number; the templates follow one another, the last slot varies fastest."""

    def __init__(self, templates: Sequence[Template], differs: str, surface: Surface) -> None:
        self.templates, self.differs, self.surface = tuple(templates), differs, surface
        for template in self.templates:
            if template.free != (differs,) or template.text.count("{" + differs + "}") != 1:
                raise UsageError(
                    f"template {template.name!r}: {differs!r} must stand in it once, the only slot without fillers",
                    hint=f"it has the slots {list(template.slots)}, without fillers: {list(template.free)}",
                )
        self.starts = np.cumsum([0, *(template.size for template in self.templates)])

    def __len__(self) -> int:
        return int(self.starts[-1])

    def words(self, number: int) -> dict[str, str]:
        """The fillers of a phrase, by slot."""
        place = self._template(number)
        fillers = {slot: self.templates[place].fillers[slot] for slot in self._others(place)}
        sizes = tuple(map(len, fillers.values()))
        chosen = np.unravel_index(number - int(self.starts[place]), sizes) if sizes else ()
        return {slot: words.words[int(row)] for (slot, words), row in zip(fillers.items(), chosen, strict=True)}

    def _template(self, number: int) -> int:
        return int(np.searchsorted(self.starts, number, side="right")) - 1

    def _others(self, place: int) -> list[str]:
        return [slot for slot in self.templates[place].slots if slot != self.differs]

    def __getitem__(self, number: int) -> Phrase:
        if not 0 <= number < len(self):
            raise UsageError(f"there is no phrase {number}: they are numbered 0 to {len(self) - 1}")
        words = self.words(number)
        text = self.surface.stopped(self.templates[self._template(number)].text)
        front, _, back = text.partition("{" + self.differs + "}")
        mark = DETERMINER.search(front)
        front = front[: mark.start()] if mark else front
        filled = SLOT.sub(lambda slot: words[slot[1]], front + HERE + back)
        before, _, after = self.surface.cased(with_articles(filled, self.surface.articles)).partition(HERE)
        return Phrase(before, mark[1] if mark else "", after)

    def part(self, start: int, stop: int) -> Phrases:
        """Consecutive phrases, numbered anew from 0."""
        return _SomePhrases(self, start, stop)

    @cached_property
    def all(self) -> tuple[Phrase, ...]:
        """Every phrase: thousands where the pairs are millions."""
        return tuple(self[number] for number in range(len(self)))

    def fillers(self, slot: str) -> tuple[Rows, tuple[str, ...]]:
        """Which word stands in a slot of every phrase, by number (-1 where the slot is not in its template)."""
        numbers: dict[str, int] = {}
        found = np.full(int(self.starts[-1]), -1)
        for place, start in enumerate(self.starts[:-1].tolist()):
            others = self._others(place)
            if slot in others:
                fillers = self.templates[place].fillers
                sizes = tuple(len(fillers[name]) for name in others)
                chosen = np.indices(sizes)[others.index(slot)].ravel()
                words = np.array([numbers.setdefault(word, len(numbers)) for word in fillers[slot]])
                found[start : start + len(chosen)] = words[chosen]
        return found, tuple(numbers)

    @property
    def template_of(self) -> Rows:
        """The number of every phrase's template."""
        return np.repeat(np.arange(len(self.templates)), np.diff(self.starts))

    @cached_property
    def slots(self) -> tuple[str, ...]:
        """The slots other than the differing one."""
        return tuple(dict.fromkeys(s for template in self.templates for s in template.slots if s != self.differs))


class _SomePhrases(Phrases):
    def __init__(self, whole: Phrases, start: int, stop: int) -> None:
        super().__init__(whole.templates, whole.differs, whole.surface)
        if not 0 <= start < stop <= len(whole):
            raise UsageError(f"there are no phrases {start} to {stop}: they are numbered 0 to {len(whole) - 1}")
        self._whole, self._start, self._stop = whole, start, stop

    def __len__(self) -> int:
        return self._stop - self._start

    def words(self, number: int) -> dict[str, str]:
        return self._whole.words(self._start + number)

    def fillers(self, slot: str) -> tuple[Rows, tuple[str, ...]]:
        numbers, words = self._whole.fillers(slot)
        return numbers[self._start : self._stop], words

    @property
    def template_of(self) -> Rows:
        return self._whole.template_of[self._start : self._stop]

    def __getitem__(self, number: int) -> Phrase:
        if not 0 <= number < len(self):
            raise UsageError(f"there is no phrase {number}: they are numbered 0 to {len(self) - 1}")
        return self._whole[self._start + number]


def narrowed(templates: Sequence[Template], slots: dict[str, str | Words]) -> tuple[Template, ...]:
    """The templates with fewer fillers; one that none of the words fits, or without the slot, drops out."""
    kept = list(templates)
    for slot, words in slots.items():
        wanted = set((words,) if isinstance(words, str) else checked_words(words, what=f"slot {slot!r}"))
        known = {word for template in templates if slot in template.fillers for word in template.fillers[slot]}
        if not known:
            named = {name for template in templates for name in template.fillers}
            raise unknown_name("slot", slot, named | {"premise", "hypothesis"})
        for word in sorted(wanted - known):
            raise unknown_name(f"{slot} filler", word, known)
        kept = [_narrow(template, slot, wanted) for template in kept if wanted & set(template.fillers.get(slot, ()))]
    return tuple(kept)


def _narrow(template: Template, slot: str, wanted: set[str]) -> Template:
    fewer = {name: words for name, words in template.fillers.items() if name != slot}
    left = [word for word in template.fillers[slot] if word in wanted]
    return Template(
        template.name,
        template.text,
        {**fewer, slot: left},
        template.articles,
        template.source,
        note=template.note,
    )
