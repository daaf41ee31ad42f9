"""Counterfactual data augmentation: add each document with the words of the groups swapped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.optimize import linear_sum_assignment

from evenhand import words
from evenhand.arrays import Matrix64
from evenhand.errors import UsageError
from evenhand.mitigations.method import CORPUS, Mitigation, Target, require_groups, require_pairs
from evenhand.mitigations.registry import MITIGATIONS
from evenhand.mitigations.text.word_swap import WordSwap
from evenhand.models.vectors import Vectors
from evenhand.subjects.subject import Subject, TextView
from evenhand.words import Concept, WordSet, as_concept
from evenhand.words.pronouns import OTHER
from evenhand.words.proper_names import TITLES

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
        if self.sides not in ("two", "one"):
            raise UsageError(f"{self.id}: sides must be 'two' or 'one', got {self.sides!r}")
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
            method=self.id,
            definition=self.definition,
            concept=concept.name,
            params=self.params(),
            seed=self.seed,
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
