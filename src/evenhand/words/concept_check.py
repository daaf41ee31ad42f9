"""Check a concept: look-alikes and invisible characters, words in two groups, sizes, coverage and frequencies."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from statistics import median
from typing import Literal

from evenhand.errors import EvenhandWarning, counted, few
from evenhand.words.characters import EAST_ASIAN, accepting_all_characters, character_problem, folded, scripts
from evenhand.words.concept import Concept
from evenhand.words.wordset import WordSet

Level = Literal["problem", "note"]
SIZE_FACTOR = 2.0  # groups whose sizes differ by more are called unequal
RANK_FACTOR = 10.0  # groups whose median ranks differ by more are called unbalanced
MIN_SHARE = 0.5  # of a group's words that vectors must have; measures require the same
LISTED = 12  # words named in a message
SOURCE_WANTED = (
    'no source is named: say where the words come from, with source = "me" in the concept and '
    '[source.me] title = "..." in the same file'
)


@dataclass(frozen=True)
class Flaw:
    """Something that a concept's author should change or know.

    Attributes:
        level: "problem" where the words are wrong, "note" where they limit what can be measured.
        kind: what it is, such as "mixed-scripts".
        where: the list it is in.
        words: the words concerned.
        message: what is wrong, in a sentence.
    """

    level: Level
    kind: str
    where: str
    words: tuple[str, ...]
    message: str

    def to_dict(self) -> dict[str, object]:
        """Return plain data for JSON."""
        return {**asdict(self), "words": list(self.words)}


def check_concept(
    concept: Concept, *, find: Callable[[str], str | None] | None = None, rank: Mapping[str, int] | None = None
) -> tuple[Flaw, ...]:
    """Return everything that is wrong with the words of a concept, problems first.

    Args:
        concept: the concept to check.
        find: the spelling of a word in a vocabulary, or None where it is missing, as `Vectors.find`.
        rank: the place of each word of that vocabulary, as `Vectors.index`. It stands for the frequency, which vector
            files are usually sorted by.

    >>> flawed = Concept("c", groups={"a": ["x", "y"], "b": ["y", "z"]})
    >>> [(flaw.kind, flaw.words) for flaw in check_concept(flawed) if flaw.level == "problem"]
    [('in-two-groups', ('y',))]
    """
    flaws = [
        *_characters(concept),
        *_foreign_scripts(concept),
        *_shared_words(concept.groups, "groups"),
        *_shared_words(concept.names, "names"),
        *_pair_flaws(concept),
        *_sizes(concept),
        *_description(concept),
    ]
    if find is not None:
        flaws += _coverage(concept, find)
        flaws += _frequencies(concept, find, rank) if rank is not None else []
    return tuple(sorted(flaws, key=lambda flaw: flaw.level != "problem"))


def warn_of_groups(concept: Concept, where: str) -> None:
    """Warn of words in two groups and of groups of one word, when a concept is loaded from a file."""
    shared = _shared_words(concept.groups, "groups")
    single = (flaw for flaw in _sizes(concept) if flaw.kind == "single-word")
    for flaw in (*shared, *single):
        warnings.warn(f"{where}: concept {concept.name!r}: {flaw.message}", EvenhandWarning, stacklevel=2)


def _lists(concept: Concept) -> Iterator[tuple[str, WordSet]]:
    for part, groups in (
        ("groups", concept.groups),
        ("names", concept.names),
        ("adjectives", concept.adjectives),
        ("nouns", concept.nouns),
    ):
        for name, words in groups.items():
            yield f"{part}.{name}", words
    with accepting_all_characters():
        yield "pairs", WordSet("pairs", concept.pairs.first + concept.pairs.second)
    yield "specific", concept.specific
    yield "neutral", concept.neutral


def _characters(concept: Concept) -> Iterator[Flaw]:
    for where, words in _lists(concept):
        for word in dict.fromkeys(words):
            if reason := character_problem(word):
                kind = reason.partition(" ")[0] == "mixes"
                yield Flaw("problem", "mixed-scripts" if kind else "characters", where, (word,), f"{word!a} {reason}")


def _foreign_scripts(concept: Concept) -> Iterator[Flaw]:
    """Yield words wholly in another alphabet than most of the concept, which look like words of that one."""
    every = [(where, word) for where, words in _lists(concept) for word in dict.fromkeys(words)]
    counts = Counter(script for _, word in every for script in scripts(word) - EAST_ASIAN)
    if len(counts) < 2:
        return
    usual = counts.most_common(1)[0][0]
    for where, word in every:
        written = scripts(word) - EAST_ASIAN
        if len(written) == 1 and usual not in written:
            message = f"{word!a} is written in {next(iter(written))}, most other words in {usual}"
            yield Flaw("problem", "other-script", where, (word,), message)


def _shared_words(groups: Mapping[str, WordSet], part: str) -> list[Flaw]:
    owners: dict[str, dict[str, str]] = {}
    for name, words in groups.items():
        for word in words:
            owners.setdefault(folded(word), {}).setdefault(name, word)
    return [
        Flaw(
            "problem",
            "in-two-groups",
            part,
            tuple(dict.fromkeys(spellings.values())),
            f"{' and '.join(repr(word) for word in dict.fromkeys(spellings.values()))} "
            f"{'is' if len(set(spellings.values())) == 1 else 'are the same word'} in {' and '.join(spellings)}",
        )
        for spellings in owners.values()
        if len(spellings) > 1
    ]


def _pair_flaws(concept: Concept) -> Iterator[Flaw]:
    first, second = set(concept.pairs.first), set(concept.pairs.second)
    if concept.pairs.poles == ("first", "second") and len(concept.groups) > 2:
        return  # without fixed poles a word may be on both sides
    if both := sorted(first & second):
        yield Flaw(
            "problem", "both-poles", "pairs", tuple(both), f"{few(both, most=LISTED)}: on both sides of the pairs"
        )
    if len(first) != len(second):
        message = f"{len(first)} different first words are paired with {len(second)} second words"
        yield Flaw("note", "unequal-pairs", "pairs", (), message)


def _sizes(concept: Concept) -> list[Flaw]:
    flaws = []
    for part, groups in (("groups", concept.groups), ("names", concept.names)):
        for name, words in groups.items():
            if len(words) == 1:
                message = f"the group {name!r} has one word ({words.words[0]!r}): its mean is that word, with no spread"
                flaws.append(Flaw("note", "single-word", f"{part}.{name}", words.words, message))
        sizes = {name: len(words) for name, words in groups.items()}
        if sizes and max(sizes.values()) > SIZE_FACTOR * min(sizes.values()):
            listed = ", ".join(f"{name} {size}" for name, size in sizes.items())
            flaws.append(Flaw("note", "unequal-groups", part, (), f"the groups differ in size: {listed}"))
    return flaws


def _description(concept: Concept) -> Iterator[Flaw]:
    if concept.source is None:
        yield Flaw("note", "no-source", "source", (), SOURCE_WANTED)
    if not concept.limits:
        yield Flaw("note", "no-limits", "limits", (), "nothing says what the words do not cover")


def _coverage(concept: Concept, find: Callable[[str], str | None]) -> Iterator[Flaw]:
    for name, words in concept.groups.items():
        missing = tuple(word for word in dict.fromkeys(words) if find(word) is None)
        if not missing:
            continue
        enough = len(words) - len(missing) >= MIN_SHARE * len(words)
        named = few((ascii(word) if character_problem(word) else word for word in missing), most=LISTED)
        message = f"{counted(len(missing), 'word')} of {len(words)} of {name} missing: {named}"
        yield Flaw("note" if enough else "problem", "missing-words", f"groups.{name}", missing, message)


def _frequencies(concept: Concept, find: Callable[[str], str | None], rank: Mapping[str, int]) -> list[Flaw]:
    ranks = median_ranks(concept, find, rank)
    if len(ranks) < 2 or max(ranks.values()) <= RANK_FACTOR * min(ranks.values()):
        return []
    listed = ", ".join(f"{name} {value:,.0f}" for name, value in ranks.items())
    message = f"the groups differ in frequency, and part of every difference is frequency; median rank: {listed}"
    return [Flaw("note", "unbalanced-frequencies", "groups", (), message)]


def median_ranks(concept: Concept, find: Callable[[str], str | None], rank: Mapping[str, int]) -> dict[str, float]:
    """Return the median rank of each group's words in a vocabulary, the most frequent word having rank 1."""
    ranks = {
        name: [rank[spelling] + 1 for word in words if (spelling := find(word)) is not None]
        for name, words in concept.groups.items()
    }
    return {name: median(places) for name, places in ranks.items() if places}
