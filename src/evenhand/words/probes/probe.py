"""`Probe`: templates x premise fillers x hypothesis fillers, an index space that is never written out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from evenhand.arrays import Rows
from evenhand.errors import UsageError, unknown_name
from evenhand.words.probes.fillers import Filler, groups_of, places_of
from evenhand.words.probes.phrases import Phrases, narrowed
from evenhand.words.probes.surface import Surface
from evenhand.words.source import Cited, Source, digest_of
from evenhand.words.template import Template
from evenhand.words.wordset import Words

Label = Literal["entailment", "neutral", "contradiction"]
Side = Literal["premise", "hypothesis"]
MOST_SINGLE = 200  # groups of one filler each; every group costs as much memory as all draws of a bootstrap


class Points(NamedTuple):
    """Some pairs of a probe, as numbers of phrase, premise filler and hypothesis filler."""

    phrase: Rows
    premise: Rows
    hypothesis: Rows


@dataclass(frozen=True)
class Pair:
    """One pair of sentences and what it is made of."""

    index: int
    premise: str
    hypothesis: str
    expected: Label
    premise_word: str
    hypothesis_word: str
    words: Mapping[str, str]


@dataclass(frozen=True)
class Probe(Cited):
    """Pairs of sentences that differ only in one slot; `expected` is the label a model without bias gives them.

    Pair i is phrase i // (P H), premise filler (i // H) % P and hypothesis filler i % H, for P premise and H hypothesis
    fillers. `contrast` names the two groups whose difference is the headline; without it, and with more than two
    groups, the two that differ most are compared.
    """

    name: str
    templates: tuple[Template, ...]
    premise: tuple[Filler, ...]
    hypothesis: tuple[Filler, ...]
    differs: str = "subject"
    expected: Label = "neutral"
    contrast: tuple[str, str] | None = None
    controls: tuple[str, ...] = ()
    surface: Surface = field(default_factory=Surface)
    source: Source | None = None
    note: str = ""
    concept: str = ""

    def __post_init__(self) -> None:
        for part in ("templates", "premise", "hypothesis"):
            if not getattr(self, part):
                raise UsageError(f"probe {self.name!r} has no {part}", hint="a probe needs templates and both sides")
        if self.expected not in get_args(Label):
            known = ", ".join(get_args(Label))
            raise UsageError(f"probe {self.name!r}: {self.expected!r} is no label", hint=f"use one of {known}")
        for name in self.contrast or ():
            if name not in self.groups:
                raise unknown_name(f"group of probe {self.name!r}", name, self.groups)
        len(self.phrases)  # a template that does not fit is an error here, not at the first sentence

    def __repr__(self) -> str:
        shape = " x ".join(f"{size:,}" for size in self.shape)
        return f"Probe({self.name!r}, {shape} = {self.n_pairs:,} pairs, {self.expected})"

    @property
    def digest(self) -> str:
        """Hash of the sentences: templates, fillers, and how they are written."""
        fillers = [[asdict(filler) for filler in side] for side in (self.premise, self.hypothesis)]
        templates = [template.to_dict() for template in self.templates]
        return digest_of([templates, fillers, self.differs, self.expected, self.contrast, asdict(self.surface)])

    @cached_property
    def phrases(self) -> Phrases:
        """What premise and hypothesis share, by number."""
        return Phrases(self.templates, self.differs, self.surface)

    @property
    def shape(self) -> tuple[int, int, int]:
        """How many phrases, premise fillers and hypothesis fillers."""
        return len(self.phrases), len(self.premise), len(self.hypothesis)

    @property
    def n_pairs(self) -> int:
        """How many pairs the product has."""
        phrases, premises, hypotheses = self.shape
        return phrases * premises * hypotheses

    @cached_property
    def grouped(self) -> Side:
        """The side whose fillers belong to groups; the hypothesis unless only the premise has them."""
        return "premise" if groups_of(self.premise) and not groups_of(self.hypothesis) else "hypothesis"

    @cached_property
    def groups(self) -> dict[str, tuple[int, ...]]:
        """The places of each group's fillers; without groups each filler is one of its own, or too many are one."""
        fillers = self.side(self.grouped)
        words = [filler.word for filler in fillers]
        if len(words) > MOST_SINGLE or len(set(words)) < len(words):
            return groups_of(fillers) or {"all": tuple(range(len(words)))}
        return groups_of(fillers) or {word: (place,) for place, word in enumerate(words)}

    def side(self, side: Side) -> tuple[Filler, ...]:
        """The fillers of one side."""
        return self.premise if side == "premise" else self.hypothesis

    def pair(self, index: int) -> Pair:
        """The pair of that number."""
        if not 0 <= index < self.n_pairs:
            raise UsageError(f"probe {self.name!r} has no pair {index}: they are numbered 0 to {self.n_pairs - 1}")
        t, p, h = (int(place) for place in np.unravel_index(index, self.shape))
        premise, hypothesis = self.texts(Points(np.array([t]), np.array([p]), np.array([h])))
        words = self.premise[p].word, self.hypothesis[h].word
        return Pair(index, premise[0], hypothesis[0], self.expected, *words, self.phrases.words(t))

    def points(self, start: int, stop: int) -> Points:
        """The pairs from one number up to another."""
        return Points(*np.unravel_index(np.arange(start, min(stop, self.n_pairs)), self.shape))

    def blocks(self, size: int = 10_000) -> Iterator[Points]:
        """All pairs in order, so many at a time."""
        if size < 1:
            raise UsageError(f"a block holds at least 1 pair, got {size}")
        return (self.points(start, start + size) for start in range(0, self.n_pairs, size))

    def texts(self, points: Points) -> tuple[list[str], list[str]]:
        """Premises and hypotheses of some pairs."""
        return self._sentences("premise", points), self._sentences("hypothesis", points)

    def subjects(self, side: Side, determiner: str) -> tuple[str, ...]:
        """What the fillers of a side are in a sentence, behind a template's determiner."""
        key = side, determiner
        if key not in self._written:
            self._written[key] = tuple(filler.phrase(determiner, self.surface) for filler in self.side(side))
        return self._written[key]

    @cached_property
    def _written(self) -> dict[tuple[Side, str], tuple[str, ...]]:
        return {}

    def _sentences(self, side: Side, points: Points) -> list[str]:
        fillers = points.premise if side == "premise" else points.hypothesis
        phrases = self.phrases.all
        pairs = ((phrases[t], f) for t, f in zip(points.phrase.tolist(), fillers.tolist(), strict=True))
        return [x.before + self.subjects(side, x.determiner)[f] + x.after for x, f in pairs]

    def restrict(
        self, premise: str | Words | None = None, hypothesis: str | Words | None = None, **slots: str | Words
    ) -> Probe:
        """The same probe with some fillers only: `restrict("rude", "iraqi", verb=["loved", "met"])`."""
        fewer: dict[str, Any] = {
            side: tuple(self.side(side)[place] for place in places_of(self.side(side), words, what=side))
            for side, words in _given(premise, hypothesis)
        }
        templates = narrowed(self.templates, slots) if slots else self.templates
        left = replace(self, templates=templates, contrast=None, **fewer)
        kept = self.contrast if self.contrast and set(self.contrast) <= set(left.groups) else None
        return replace(left, contrast=kept)

    def part(self, start: int, stop: int) -> Probe:
        """The same probe with consecutive phrases only, numbered anew from 0: what a worker is asked."""
        made = replace(self)
        vars(made)["phrases"] = self.phrases.part(start, stop)
        return made

    def written(self, surface: Surface | None = None, **choices: Any) -> Probe:
        """The same probe in another surface form: `written(articles="letter")`, `written(RELEASED)`."""
        return replace(self, surface=replace(surface or self.surface, **choices))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for people: sizes, choices and an example, not the lists themselves."""
        return {
            "name": self.name,
            "pairs": self.n_pairs,
            "phrases": len(self.phrases),
            "premise": [filler.word for filler in self.premise],
            "hypothesis": [filler.word for filler in self.hypothesis],
            "groups": {name: len(places) for name, places in self.groups.items()},
            "expected": self.expected,
            "surface": vars(self.surface),
            "example": [self.pair(0).premise, self.pair(0).hypothesis],
            "note": self.note,
            "source": self.source.reference if self.source else "",
        }


def _given(premise: str | Words | None, hypothesis: str | Words | None) -> Sequence[tuple[Side, str | Words]]:
    both: tuple[tuple[Side, str | Words | None], ...] = (("premise", premise), ("hypothesis", hypothesis))
    return [(side, words) for side, words in both if words is not None]
