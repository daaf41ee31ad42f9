"""Counterfactual data augmentation: add each document with the words of the groups swapped."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from scipy.optimize import linear_sum_assignment

from evenhand import words
from evenhand.arrays import Matrix64
from evenhand.errors import UsageError
from evenhand.mitigations.method import CORPUS, Mitigation, Target, require_groups, require_pairs
from evenhand.mitigations.registry import MITIGATIONS
from evenhand.mitigations.text.text_change import SwapCounts, TextChange
from evenhand.models.vectors import Vectors
from evenhand.subjects.subject import Subject, TextView
from evenhand.words import Concept, WordSet, as_concept
from evenhand.words.grammar import article
from evenhand.words.pronouns import OTHER, SPLIT, is_independent, is_object, weights
from evenhand.words.proper_names import ADDRESS, TITLES, Role, is_kept
from evenhand.words.wordset import checked_pairs

END = "\0"
CONTEXT = 8  # words on each side of a word that may decide how it is swapped
KEY = 1000  # characters of a document that decide its random group
PIECE = 1 << 18  # characters swapped at a time
ARTICLES = ("a", "an")

RULES = 2
"""Number of the rules for pronouns and proper names; increased when the same text is swapped in another way."""

PairTuple = tuple[tuple[str, str], ...]


class Replacement(NamedTuple):
    """What becomes of a word."""

    target: str
    role: Role


@dataclass(frozen=True, eq=False)
class WordSwap(TextChange):
    """Swap words by lists.

    A word is a run of letters and digits: punctuation, possessive 's and hyphens stay where they are. he, He and HE
    become she, She and SHE. The number of words does not change.

    Args:
        pairs: counterparts, swapped in both directions.
        one_way: words that are replaced, but are not the counterpart of their counterpart.
        names: first names and their counterparts; matched with a capital letter only.
        titles: words of `pairs` that stand before a name; see `proper_names`.
        sets: words with a counterpart in each of three or more groups; each document draws the group that takes the
            place of each group.
        pronouns: swap her, hers, him and his by their context.
        keep_proper_nouns: leave words as they are that are part of a proper name.
        sides: `two` keeps the original of each document in a corpus, `one` does not.
        seed: seed of the draws for `sets`.
    """

    kind: ClassVar[str] = "word-swap"

    pairs: PairTuple = ()
    one_way: PairTuple = ()
    names: PairTuple = ()
    titles: tuple[str, ...] = ()
    sets: tuple[tuple[str, ...], ...] = ()
    pronouns: bool = False
    keep_proper_nouns: bool = False
    sides: Literal["two", "one"] = "two"
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("pairs", "one_way", "names"):
            object.__setattr__(self, name, checked_pairs(getattr(self, name), what=name))
        object.__setattr__(self, "titles", tuple(self.titles))
        object.__setattr__(self, "sets", tuple(tuple(row) for row in self.sets))
        if self.sides not in ("two", "one"):
            raise UsageError(f"sides must be 'two' or 'one', got {self.sides!r}")
        if len({len(row) for row in self.sets}) > 1:
            raise UsageError("every row of sets needs one word for each group")
        for twice in (_repeated(word for pair in self.pairs for word in pair), _repeated(a for a, _ in self.one_way)):
            if twice:
                raise UsageError(f"{twice!r} has several counterparts", hint="keep one")

    @property
    def keeps_original(self) -> bool:
        """Whether `sides` is `two`."""
        return self.sides == "two"

    @property
    def groups(self) -> int:
        """The number of groups that `sets` tells apart."""
        return len(self.sets[0]) if self.sets else 0

    def change(self, text: str, counts: SwapCounts | None = None, *, key: str | None = None) -> str:
        """Return the swapped form of a document."""
        parts = SPLIT.split(text)
        count = len(parts) // 2
        log = SwapCounts() if counts is None else counts
        log.documents += 1
        log.words += count
        table = self._tables[self._table_number((text if key is None else key)[:KEY])]
        return "".join(self._swap(parts, 0, count, table, log))

    def stream(self, fragments: Iterable[str], counts: SwapCounts | None = None) -> Iterator[str]:
        """Yield the swapped form of a stream of documents."""
        log = SwapCounts() if counts is None else counts
        if not self.sets:
            yield from self._stream(_counted(fragments, log), self._tables[0], log)
            return
        for head, document in _documents(fragments):
            log.documents += 1
            yield from self._stream(document, self._tables[self._table_number(head)], log)

    def _stream(self, fragments: Iterable[str], table: Mapping[str, Replacement], log: SwapCounts) -> Iterator[str]:
        """Swap piece by piece; the words at the end of a piece wait until the words after them are known."""
        rest, done = "", 0  # text whose first words are done and serve as context
        for piece in _pieces(fragments):
            parts = SPLIT.split(rest + piece)
            stop = len(parts) // 2 - CONTEXT
            while stop > done and parts[2 * stop - 1].lower() in ARTICLES:  # the word after it decides
                stop -= 1
            if stop <= done:
                rest += piece
                continue
            yield "".join(self._swap(parts, done, stop, table, log)[2 * done : 2 * stop])
            log.words += stop - done
            first = max(0, stop - CONTEXT)
            rest, done = "".join(parts[2 * first :]), stop - first
        parts = SPLIT.split(rest)
        stop = len(parts) // 2
        log.words += stop - done
        yield "".join(self._swap(parts, done, stop, table, log)[2 * done :])

    def _swap(
        self, parts: list[str], first: int, stop: int, table: Mapping[str, Replacement], log: SwapCounts
    ) -> list[str]:
        """Return the parts with the words from `first` to `stop` swapped."""
        changed = list(parts)
        begin = 2 * first + 1
        found = [index for index, word in enumerate(parts[begin : 2 * stop : 2]) if word in table]
        for position in (begin + 2 * index for index in found):
            word = parts[position]
            target, role = table[word]
            if self._keeps(parts, position, role, table):
                if word.lower() != "miss":
                    log.kept[word.lower()] += 1
                continue
            if role in (Role.HER, Role.HIS):
                target = self._pronoun(parts, position, role, log)
            changed[position] = target
            if position > 2 and parts[position - 2].lower() in ARTICLES and not parts[position - 1].strip():
                changed[position - 2] = _agreeing(parts[position - 2], word, target)
            log.swapped[word.lower(), target.lower()] += 1
        return changed

    def _keeps(self, parts: list[str], position: int, role: Role, table: Mapping[str, Replacement]) -> bool:
        if not self.keep_proper_nouns or (parts[position].islower() and role is not Role.ADDRESS):
            return False
        return is_kept(parts, position, role, lambda word: table[word].role if word in table else None)

    def _pronoun(self, parts: list[str], position: int, role: Role, log: SwapCounts) -> str:
        word = parts[position]
        first, uncertain = (is_object if role is Role.HER else is_independent)(parts, position)
        log.uncertain[word.lower()] += uncertain
        targets = ("him", "his") if role is Role.HER else ("hers", "her")
        return _in_case_of(word, targets[0] if first else targets[1])

    def _table_number(self, head: str) -> int:
        """Return which table a document takes."""
        if not self.sets:
            return 0
        digest = hashlib.blake2b(f"{self.seed}\0{head}".encode(errors="surrogatepass"), digest_size=8).digest()
        return int.from_bytes(digest, "big") % (self.groups - 1)

    @cached_property
    def _tables(self) -> tuple[dict[str, Replacement], ...]:
        """Every spelling with its entry, one table for each shift of the groups."""
        table: dict[str, Replacement] = {}
        for first, second in self.names:
            _add(table, first, second, Role.NAME)
            _add(table, second, first, Role.NAME)
        for first, second in self.pairs:
            _add(table, first, second, self._role(first))
            _add(table, second, first, self._role(second))
        for first, second in self.one_way:
            _add(table, first, second, self._role(first))
        if self.pronouns:
            for word, target, role in (
                ("her", "him", Role.HER), ("hers", "his", Role.PLAIN), ("him", "her", Role.PLAIN),
                ("his", "her", Role.HIS), ("she", "he", Role.PLAIN), ("he", "she", Role.PLAIN),
                ("herself", "himself", Role.PLAIN), ("himself", "herself", Role.PLAIN),
            ):  # fmt: skip
                _add(table, word, target, role)
        if not self.sets:
            return (table,)
        tables = []
        for shift in range(1, self.groups):
            shifted = dict(table)
            for row in self.sets:
                for index, word in enumerate(row):
                    _add(shifted, word, row[(index + shift) % self.groups], Role.PLAIN)
            tables.append(shifted)
        return tuple(tables)

    def _role(self, word: str) -> Role:
        if not self.keep_proper_nouns:
            return Role.PLAIN
        if word in ADDRESS:
            return Role.ADDRESS
        return Role.TITLE if word in self.titles else Role.NOUN

    def state(self) -> dict[str, object]:
        """Return the lists and settings, and the weights that decide pronouns."""
        state: dict[str, object] = {
            "pairs": [list(pair) for pair in self.pairs],
            "one_way": [list(pair) for pair in self.one_way],
            "names": [list(pair) for pair in self.names],
            "titles": list(self.titles),
            "sets": [list(row) for row in self.sets],
            "pronouns": self.pronouns,
            "keep_proper_nouns": self.keep_proper_nouns,
            "sides": self.sides,
            "seed": self.seed,
        }
        if self.pronouns:
            content = repr(sorted(weights().items()))
            state["pronoun_weights"] = hashlib.sha256(content.encode()).hexdigest()
            state["rules"] = RULES
        return state

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return the swap with these lists and settings."""
        lists: dict[str, Any] = {name: tuple(map(tuple, state[name])) for name in ("pairs", "one_way", "names", "sets")}
        settings = {name: state[name] for name in ("pronouns", "keep_proper_nouns", "sides", "seed")}
        return cls(**lists, titles=tuple(state["titles"]), **settings)


def _add(table: dict[str, Replacement], word: str, target: str, role: Role) -> None:
    """Add the spellings of a word: as listed, capitalised, in capitals; a listed capital needs one in the text."""
    spellings = [(word, target), (word.upper(), target.upper())]
    if word.islower():
        spellings.append((word[0].upper() + word[1:], target[0].upper() + target[1:]))
    for source, replacement in spellings:
        table[source] = Replacement(replacement, role)


def _agreeing(present: str, word: str, target: str) -> str:
    """Return the article for the new word; an article that did not fit the old word stays."""
    before, after = article(word), article(target)
    if before == after or present.lower() != before:
        return present
    return _in_case_of(present, after)


def _in_case_of(pattern: str, text: str) -> str:
    """Return text in the case of another: lower, capitalised or capitals."""
    if pattern.islower():
        return text
    return text.upper() if pattern.isupper() and len(pattern) > 1 else text.capitalize()


def _repeated(words: Iterable[str]) -> str:
    seen: set[str] = set()
    for word in words:
        if word in seen:
            return word
        seen.add(word)
    return ""


def _counted(fragments: Iterable[str], log: SwapCounts) -> Iterator[str]:
    for fragment in fragments:
        log.documents += fragment.count(END)
        yield fragment


def _pieces(fragments: Iterable[str]) -> Iterator[str]:
    """Join small fragments to pieces, which cost less to swap."""
    held: list[str] = []
    length = 0
    for fragment in fragments:
        held.append(fragment)
        length += len(fragment)
        if length >= PIECE:
            yield "".join(held)
            held, length = [], 0
    if held:
        yield "".join(held)


def _documents(fragments: Iterable[str]) -> Iterator[tuple[str, Iterator[str]]]:
    """Yield the beginning of each document, and its fragments up to and with its end mark."""
    parts = (part for fragment in fragments for part in re.findall(rf"[^{END}]*{END}|[^{END}]+", fragment))
    for part in parts:
        begun = [part]
        while not begun[-1].endswith(END) and sum(map(len, begun)) < KEY:
            more = next(parts, None)
            if more is None:
                break
            begun.append(more)
        head = "".join(begun).removesuffix(END)[:KEY]
        document = _until_end(begun, parts)
        yield head, document
        for _ in document:  # a consumer may stop early
            pass


def _until_end(begun: Sequence[str], parts: Iterator[str]) -> Iterator[str]:
    yield from begun
    if begun[-1].endswith(END):
        return
    for part in parts:
        yield part
        if part.endswith(END):
            return


GENDER = ("she", "he")
PAIRS = "counterfactual-gender"
ONE_WAY = ("counterfactual-gender-female-to-male", "counterfactual-gender-male-to-female")
NAMES = ("counterfactual-names-female", "counterfactual-names-male")


@MITIGATIONS.register("cda")
@dataclass(frozen=True)
class CounterfactualAugmentation(Mitigation):
    """Counterfactual data augmentation (CDA).

    A document is written a second time with he for she, brother for sister, Emma for Noah. Trained on both forms, a
    model sees every context with both groups. The counterpart of `her` (him or his) and of `his` (her or hers) is
    chosen by the words around it. First names are paired by frequency and by how specific they are to a sex
    (Hall Maudslay et al. 2019). Words that are part of a proper name stay: Mr. King becomes Mrs. King.

    A concept of three groups or more needs lists of the same length: the n-th words are counterparts. Each document
    draws which group takes the place of which.

    It does not change what a text says without listed words, it makes false sentences (a pregnant man), and it does
    not see coreference: "the actress Meryl" becomes "the actor Meryl" where the name is not listed.

    Args:
        sides: `two` keeps the original documents beside the swapped ones, `one` replaces them.
        names: Swap first names too, for gender.
        lists: Add the shipped list of gender words to the pairs of the concept, if these have she and he.
        seed: Seed of the draw of groups, for three groups or more.
    """

    id: ClassVar[str] = "cda"
    title: ClassVar[str] = "Counterfactual data augmentation (CDA)"
    formula: ClassVar[str] = "D + {swap(d) : d in D}"
    cites: ClassVar[tuple[str, ...]] = ("lu2020", "zhao2018gender", "hallmaudslay2019", "zmigrod2019")
    limits: ClassVar[str] = (
        "Balances listed words only; stereotypes without a listed word stay. Swapped texts can be false or odd. "
        "Pronouns follow a rule that errs, names are those of US births, and proper names are told by capital letters."
    )
    works_on: ClassVar[tuple[Target, ...]] = (CORPUS,)
    elsewhere: ClassVar[str] = (
        "use it on corpora and training data, then train on the result: `evenhand debias corpus:PATH -m cda -o OUT`; "
        "for vectors use linear, hard or another method of `evenhand list methods`; cda-tuning trains a model so"
    )
    definition: ClassVar[int] = 2

    sides: Literal["two", "one"] = "two"
    names: bool = True
    lists: bool = True
    seed: int = 0

    def fit(
        self, subject: TextView | Subject | Vectors | None, concept: Concept | str, *, seed: int | None = None
    ) -> WordSwap:
        """Return the swap of a concept; nothing is learned from the text.

        Args:
            subject: the text or the corpus that is to be changed, or None.
            concept: the concept whose groups are swapped, or its id or file.
            seed: the seed, instead of the field `seed`.
        """
        about, method = as_concept(concept), self.with_seed(seed)
        if not isinstance(subject, TextView | None):
            method.check_subject(subject)
        method.check_concept(about)
        return method._swap(about)

    def _fit_subject(self, subject: Subject, concept: Concept) -> WordSwap:
        return self._swap(concept)

    def _check(self, concept: Concept) -> None:
        require_groups(concept, self.id)
        if len(concept.groups) == 2:
            require_pairs(concept, self.id)
        elif len({len(group) for group in concept.groups.values()}) > 1:
            sizes = ", ".join(f"{name} {len(group)}" for name, group in concept.groups.items())
            raise UsageError(
                f"{self.id} swaps the n-th words of the groups; those of concept {concept.name!r} differ in length "
                f"({sizes})",
                hint="list the counterparts in the same order in every group",
            )

    def _swap(self, concept: Concept) -> WordSwap:
        settings: dict[str, Any] = {"sides": self.sides, "seed": self.seed}
        if len(concept.groups) > 2:
            swap = WordSwap(sets=tuple(zip(*concept.groups.values(), strict=True)), **settings)
            return self._with_report(swap, concept, ())
        gender = GENDER in concept.pairs.pairs or GENDER[::-1] in concept.pairs.pairs
        shipped = gender and self.lists
        listed = [*concept.pairs, *(words.pairs(PAIRS) if shipped else ())]
        if gender:
            listed = [pair for pair in listed if not set(pair) & set(OTHER)]
        known = {name.lower() for id in NAMES for name in words.wordset(id)} if shipped else set()
        fixed = [_capitalised(pair) for pair in listed if set(pair) <= known or all(map(str.istitle, pair))]
        common = [pair for pair in listed if _capitalised(pair) not in fixed]
        pairs, unused = one_to_one(common)
        taken = {word for pair in pairs for word in pair}
        one_way = [pair for id in ONE_WAY for pair in words.pairs(id)] if shipped else []
        names = [*fixed, *(name_pairs() if shipped and self.names else ())]
        swap = WordSwap(
            pairs=tuple(pairs),
            one_way=tuple((a, b) for a, b in one_way if a not in taken),
            names=tuple(one_to_one(names)[0]),
            titles=words.wordset(TITLES).words if shipped else (),
            pronouns=gender,
            keep_proper_nouns=gender,
            **settings,
        )
        return self._with_report(swap, concept, unused)

    def _with_report(self, swap: WordSwap, concept: Concept, unused: Iterable[tuple[str, str]]) -> WordSwap:
        return swap.with_report(
            **self._about(),
            concept=concept.name,
            pairs=len(swap.pairs) + len(swap.one_way) + len(swap.sets),
            names=len(swap.names),
            pairs_unused=[list(pair) for pair in unused],
        )


def one_to_one(pairs: Iterable[tuple[str, str]]) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return the pairs whose words no earlier pair has, and the others, which have a second counterpart for a word."""
    kept: list[tuple[str, str]] = []
    unused: list[tuple[str, str]] = []
    taken: set[str] = set()
    for pair in dict.fromkeys(pairs):
        if taken & set(pair):
            if pair[::-1] not in kept:
                unused.append(pair)
            continue
        kept.append(pair)
        taken |= set(pair)
    return kept, unused


@cache
def name_pairs() -> tuple[tuple[str, str], ...]:
    """Return the shipped first names in pairs of about the same frequency and specificity."""
    female, male = (words.wordset(id) for id in NAMES)
    return pair_names(female.words, male.words, _features(female, own=1), _features(male, own=0))


def _features(names: WordSet, *, own: int) -> Matrix64:
    """Return log births and the share of the bearers that have the sex of the list."""
    share = np.array(names.scores["share-female"])
    return np.stack([np.log(names.scores["births"]), share if own else 1 - share], axis=1)


def _capitalised(pair: tuple[str, str]) -> tuple[str, str]:
    return pair[0].capitalize(), pair[1].capitalize()


def pair_names(
    first: Sequence[str], second: Sequence[str], first_features: Matrix64, second_features: Matrix64
) -> tuple[tuple[str, str], ...]:
    """Return the one-to-one pairing with the smallest sum of squared distances between the features of the names.

    Features are standardised over all names. Where the lists differ in length, names of the longer one stay without a
    counterpart.

    Args:
        first: names of the first group.
        second: names of the second group.
        first_features: one row for each name, such as log frequency and share of the bearers that are of the group.
        second_features: the same for the second group.
    """
    scale = np.concatenate([first_features, second_features]).std(axis=0)
    scale[scale == 0] = 1
    a, b = first_features / scale, second_features / scale
    distances = ((a[:, None, :] - b[None, :, :]) ** 2).sum(axis=2)
    rows, columns = linear_sum_assignment(distances)
    return tuple((first[row], second[column]) for row, column in zip(rows, columns, strict=True))
