"""`Probe`: the lazy product of templates, premise fillers and hypothesis fillers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Literal, NamedTuple, get_args

import numpy as np

from evenhand.arrays import Rows
from evenhand.errors import UsageError, unknown_name
from evenhand.words.grammar import agree, agrees, genders_of, with_articles
from evenhand.words.probes.phrases import Phrases, Surface, drop_fillers, restrict_templates
from evenhand.words.template import Template
from evenhand.words.wordset import Cited, Source, Words, digest_of

WORD = "{word}"


GENDERS = ("feminine", "masculine", "neuter")


@dataclass(frozen=True)
class Filler:
    """A word, the phrase around it, and the group of people it belongs to.

    `bare` fillers (names, pronouns) take no determiner. `capital` fillers are capitalised in natural case: published
    lists have demonyms in lower case. `gender` is the grammatical gender of the phrase, with which a sentence agrees.
    """

    word: str
    frame: str = WORD
    group: str = ""
    bare: bool = False
    capital: bool = False
    gender: str = ""

    def __post_init__(self) -> None:
        if self.frame.count(WORD) != 1:
            raise UsageError(f"filler {self.word!r}: the frame {self.frame!r} must contain {WORD} once")
        if self.gender not in ("", *GENDERS):
            raise UsageError(
                f"filler {self.word!r}: unknown gender {self.gender!r}", hint=f"use one of {', '.join(GENDERS)}"
            )

    def phrase(self, determiner: str, surface: Surface) -> str:
        """Return the phrase in the sentence, with determiner, articles and capitals."""
        word = self.word[:1].upper() + self.word[1:] if self.capital else self.word
        front = "" if self.bare or not determiner else surface.determiner_for(determiner) + " "
        return surface.apply_case(with_articles(front + self.frame.replace(WORD, word), surface.articles))


def groups_of(fillers: Sequence[Filler]) -> dict[str, tuple[int, ...]]:
    """Return the indices of each group's fillers, in order of appearance, without fillers that have no group."""
    groups: dict[str, list[int]] = {}
    for index, filler in enumerate(fillers):
        if filler.group:
            groups.setdefault(filler.group, []).append(index)
    return {name: tuple(indices) for name, indices in groups.items()}


def indices_of(fillers: Sequence[Filler], words: str | Iterable[str], *, what: str) -> list[int]:
    """Return the indices of the fillers with these words; an unknown word is an error that suggests similar ones."""
    wanted = {words} if isinstance(words, str) else set(words)
    present = [filler.word for filler in fillers]
    for word in sorted(wanted - set(present)):
        raise unknown_name(f"{what} filler", word, set(present))
    return [index for index, word in enumerate(present) if word in wanted]


Label = Literal["entailment", "neutral", "contradiction"]
Side = Literal["premise", "hypothesis"]
MAX_SINGLE_GROUPS = 200  # groups of one filler each; every group takes the memory of all bootstrap draws


class Points(NamedTuple):
    """Some pairs of a probe, as indices of phrase, premise filler and hypothesis filler."""

    phrase: Rows
    premise: Rows
    hypothesis: Rows


@dataclass(frozen=True)
class Pair:
    """One pair of sentences, with its words."""

    index: int
    premise: str
    hypothesis: str
    expected: Label
    premise_word: str
    hypothesis_word: str
    words: Mapping[str, str]


@dataclass(frozen=True)
class Probe(Cited):
    """Pairs of sentences that differ in one slot only; `expected` is the label of a model without bias.

    Pair i is phrase i // (P H), premise filler (i // H) % P and hypothesis filler i % H, for P premise and H hypothesis
    fillers. `contrast` names the two groups of the gap; without it, if there are more than two groups, the two that
    differ most are compared.
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
                raise UsageError(
                    f"probe {self.name!r} has no {part}", hint="a probe needs templates, premise and hypothesis fillers"
                )
        if self.expected not in get_args(Label):
            known = ", ".join(get_args(Label))
            raise UsageError(f"probe {self.name!r}: {self.expected!r} is not a label", hint=f"use one of {known}")
        for name in self.contrast or ():
            if name not in self.groups:
                raise unknown_name(f"group of probe {self.name!r}", name, self.groups)
        for filler in (*self.premise, *self.hypothesis) if self.agrees else ():
            if filler.gender not in (genders := genders_of(self.surface.articles)):
                raise UsageError(
                    f"probe {self.name!r}: {filler.word!r} has no gender, and sentences agree with it",
                    hint="add " + " or ".join(f'gender = "{gender}"' for gender in genders) + " to its list",
                )
        len(self.phrases)  # raises an error for a template that does not fit

    def __repr__(self) -> str:
        shape = " x ".join(f"{size:,}" for size in self.shape)
        return f"Probe({self.name!r}, {shape} = {self.n_pairs:,} pairs, {self.expected})"

    @property
    def digest(self) -> str:
        """Hash of the sentences: templates, fillers, and how they are written."""
        fillers = [[_plain(filler) for filler in side] for side in (self.premise, self.hypothesis)]
        templates = [template.to_dict() for template in self.templates]
        return digest_of([templates, fillers, self.differs, self.expected, self.contrast, asdict(self.surface)])

    @property
    def agrees(self) -> bool:
        """True if sentences agree with the gender of their subject, so that they differ in more than the subject."""
        return agrees(self.surface.articles)

    @cached_property
    def phrases(self) -> Phrases:
        """The phrases, which premise and hypothesis share."""
        return Phrases(self.templates, self.differs, self.surface)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Numbers of phrases, premise fillers and hypothesis fillers."""
        return len(self.phrases), len(self.premise), len(self.hypothesis)

    @property
    def n_pairs(self) -> int:
        """Number of pairs."""
        phrases, premises, hypotheses = self.shape
        return phrases * premises * hypotheses

    @cached_property
    def grouped(self) -> Side:
        """The side whose fillers have groups: the hypothesis, unless only the premise has them."""
        return "premise" if groups_of(self.premise) and not groups_of(self.hypothesis) else "hypothesis"

    @cached_property
    def groups(self) -> dict[str, tuple[int, ...]]:
        """Indices of each group's fillers; without groups, each filler is a group, or all are if there are many."""
        fillers = self.side(self.grouped)
        words = [filler.word for filler in fillers]
        if len(words) > MAX_SINGLE_GROUPS or len(set(words)) < len(words):
            return groups_of(fillers) or {"all": tuple(range(len(words)))}
        return groups_of(fillers) or {word: (index,) for index, word in enumerate(words)}

    def side(self, side: Side) -> tuple[Filler, ...]:
        """Return the fillers of one side."""
        return self.premise if side == "premise" else self.hypothesis

    def pair(self, index: int) -> Pair:
        """Return a pair by index."""
        if not 0 <= index < self.n_pairs:
            raise UsageError(f"probe {self.name!r} has no pair {index}; indices are 0 to {self.n_pairs - 1}")
        t, p, h = (int(part) for part in np.unravel_index(index, self.shape))
        premise, hypothesis = self.texts(Points(np.array([t]), np.array([p]), np.array([h])))
        words = self.premise[p].word, self.hypothesis[h].word
        return Pair(index, premise[0], hypothesis[0], self.expected, *words, self.phrases.words(t))

    def points(self, start: int, stop: int) -> Points:
        """Return the pairs `start` to `stop`."""
        return Points(*np.unravel_index(np.arange(start, min(stop, self.n_pairs)), self.shape))

    def blocks(self, size: int = 10_000) -> Iterator[Points]:
        """Yield all pairs in order, in blocks of `size`."""
        if size < 1:
            raise UsageError(f"size must be at least 1, got {size}")
        return (self.points(start, start + size) for start in range(0, self.n_pairs, size))

    def texts(self, points: Points) -> tuple[list[str], list[str]]:
        """Return the premises and hypotheses of some pairs."""
        return self._sentences("premise", points), self._sentences("hypothesis", points)

    def subjects(self, side: Side, determiner: str) -> tuple[str, ...]:
        """Return the fillers of a side as they appear in a sentence, after a template's determiner."""
        key = side, determiner
        if key not in self._subjects:
            self._subjects[key] = tuple(filler.phrase(determiner, self.surface) for filler in self.side(side))
        return self._subjects[key]

    @cached_property
    def _subjects(self) -> dict[tuple[Side, str], tuple[str, ...]]:
        return {}

    def _sentences(self, side: Side, points: Points) -> list[str]:
        fillers = points.premise if side == "premise" else points.hypothesis
        phrases = self.phrases.all
        pairs = ((phrases[t], f) for t, f in zip(points.phrase.tolist(), fillers.tolist(), strict=True))
        if self.agrees:
            genders, rule = [filler.gender for filler in self.side(side)], self.surface.articles
            return [
                agree(x.before + self.subjects(side, x.determiner)[f] + x.after, genders[f], rule) for x, f in pairs
            ]
        return [x.before + self.subjects(side, x.determiner)[f] + x.after for x, f in pairs]

    def restrict(
        self, premise: str | Words | None = None, hypothesis: str | Words | None = None, **slots: str | Words
    ) -> Probe:
        """Return the probe with some fillers only: `restrict("rude", "iraqi", verb=["loved", "met"])`."""
        sides = {"premise": self.premise, "hypothesis": self.hypothesis}
        for side, words in (("premise", premise), ("hypothesis", hypothesis)):
            if words is not None:
                sides[side] = tuple(sides[side][index] for index in indices_of(sides[side], words, what=side))
        templates = restrict_templates(self.templates, slots) if slots else self.templates
        left = replace(
            self, templates=templates, contrast=None, premise=sides["premise"], hypothesis=sides["hypothesis"]
        )
        contrast = self.contrast if self.contrast and set(self.contrast) <= set(left.groups) else None
        return replace(left, contrast=contrast)

    def without(self, words: Mapping[str, Collection[str]]) -> Probe:
        """Return the probe without some words of a side or slot; templates that lack the slot stay as they are."""
        sides = {
            side: [f.word for f in self.side(side) if f.word not in words.get(side, ())] for side in get_args(Side)
        }
        left = self.restrict(**{side: kept for side, kept in sides.items() if words.get(side)})
        return replace(left, templates=drop_fillers(self.templates, words))

    def part(self, start: int, stop: int) -> Probe:
        """Return the probe with consecutive phrases only, numbered from 0, as a worker evaluates it."""
        part = replace(self)
        vars(part)["phrases"] = self.phrases.part(start, stop)
        return part

    def with_surface(self, surface: Surface | None = None, **choices: str) -> Probe:
        """Return the probe in another surface form: `with_surface(articles="letter")`, `with_surface(RELEASED)`."""
        return replace(self, surface=replace(surface or self.surface, **choices))  # type: ignore[arg-type]

    def to_dict(self) -> dict[str, object]:
        """Return plain data: sizes, words, options and an example."""
        return {
            "name": self.name,
            "pairs": self.n_pairs,
            "phrases": len(self.phrases),
            "premise": [filler.word for filler in self.premise],
            "hypothesis": [filler.word for filler in self.hypothesis],
            "groups": {name: len(indices) for name, indices in self.groups.items()},
            "expected": self.expected,
            "surface": vars(self.surface),
            "example": [self.pair(0).premise, self.pair(0).hypothesis],
            "note": self.note,
            "source": self.source.reference if self.source else "",
        }


def _plain(filler: Filler) -> dict[str, object]:
    """Return the filler as plain data, without a gender that it does not have."""
    return {name: value for name, value in asdict(filler).items() if name != "gender" or value}
