"""The options of a corpus measurement: one frozen object shared by `bias`, `compare`, the jackknife and the CLI."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

import numpy as np

from evenhand.corpus.counting.count import CountingPlan
from evenhand.corpus.counting.text_stream import PIECE
from evenhand.corpus.counting.tokenise import Tokeniser, Tokenizer, make_tokeniser
from evenhand.corpus.counting.vocabulary import drops_special_tokens, load_stop_words
from evenhand.corpus.scores.log_ratio import check_normalisation
from evenhand.errors import UnknownNameError, UsageError, unknown_name
from evenhand.words import Concept, Pairs, WordSet, concept, ids, pairs
from evenhand.words.wordset import checked_words

WINDOW = 10
LISTS = "bordia2019-cnn-dm"  # the paper's corrected list for lower-cased running text

Groups: TypeAlias = "Mapping[str, WordSet | Iterable[str]] | Concept | Pairs | None"


@dataclass(frozen=True)
class CorpusOptions:
    """Everything that determines the scores of a text, apart from the text itself.

    The fields are the keyword arguments of `corpus.bias`. Invalid values raise `UsageError` on construction.
    """

    groups: Groups = None
    lists: str | Path | None = None
    window: int | None = None
    """Words on each side; 10 unless `window` or `decay` is given."""
    decay: float | None = None
    tokenizer: Tokenizer = "words"
    lower: bool | None = None
    """None lower-cases for the tokenizer `words` only."""
    stop_words: str | Path | Iterable[str] = ()
    special_tokens: str | None = None
    """`drop` or `keep`; None drops special tokens for the tokenizer `whitespace` only."""
    min_count: int = 1
    smoothing: float = 0.0
    normalisation: str = "conditional"
    bootstrap: int | None = 0
    """Resamples for the interval of each word; None chooses by the size of the text."""
    permutations: int | None = 0
    """The most permuted labellings for the baseline of mu; None chooses by the size of the text."""
    seed: int = 0
    piece: int = PIECE
    """Characters processed at a time; affects memory only."""

    def __post_init__(self) -> None:
        self._check_numbers()
        if self.window is None and self.decay is None:
            object.__setattr__(self, "window", WINDOW)
        if not isinstance(self.stop_words, (str, Path)):
            object.__setattr__(self, "stop_words", tuple(self.stop_words))
        check_normalisation(self.normalisation)
        # Evaluate these now so that a wrong name is reported before any text is read.
        _ = self.tokeniser, self.drop_special_tokens, self.stop_list, self._named_groups

    def _check_numbers(self) -> None:
        if self.window is not None and self.decay is not None:
            raise UsageError("give window or decay, not both", hint="decay=0.95 is the infinite context of the paper")
        if self.window is not None and self.window < 1:
            raise UsageError(f"window must be at least 1, got {self.window}")
        if self.decay is not None and not 0 < self.decay < 1:
            raise UsageError(f"decay must lie between 0 and 1, got {self.decay}", hint="the paper uses 0.95")
        for name, lowest in (("min_count", 1), ("piece", 1), ("bootstrap", 0), ("permutations", 0), ("seed", 0)):
            value = getattr(self, name)
            if value is not None and value < lowest:
                raise UsageError(f"{name} must be at least {lowest}, got {value}")
        if not (np.isfinite(self.smoothing) and self.smoothing >= 0):
            raise UsageError(f"smoothing must be a number of at least 0, got {self.smoothing}")

    @cached_property
    def tokeniser(self) -> Tokeniser:
        """The tokeniser that `tokenizer` and `lower` select."""
        return make_tokeniser(self.tokenizer, lower=self.lower)

    @cached_property
    def drop_special_tokens(self) -> bool:
        """True if <unk>, <eos>, N and tokens without a letter or digit are not scored."""
        return drops_special_tokens(self.special_tokens, self.tokeniser)

    @cached_property
    def stop_list(self) -> tuple[str, ...]:
        """The stop words, lower-cased if the text is, each once."""
        words = load_stop_words(self.stop_words)
        return tuple(dict.fromkeys(map(self.tokeniser.fold, words)))

    @property
    def group_words(self) -> dict[str, tuple[str, ...]]:
        """Group name to its distinct words, the positive group first."""
        return self._named_groups[0]

    @property
    def lists_name(self) -> str:
        """The name of the word lists."""
        return self._named_groups[1]

    @cached_property
    def _named_groups(self) -> tuple[dict[str, tuple[str, ...]], str]:
        return resolve_groups(self.groups, self.lists, fold=self.tokeniser.fold)

    def plan(self, *, folds: int = 0, unit: int | None = None) -> CountingPlan:
        """Return what to count; with `folds`, also separately for each fold of the text."""
        log_labels = bool(self.permutations)
        return CountingPlan(
            self.group_words, self.window, self.decay, self.tokeniser, self.piece, folds, unit, log_labels
        )

    def to_dict(self) -> dict[str, object]:
        """Return the options as plain data for the record."""
        return {
            "window": self.window,
            "decay": self.decay,
            "tokenizer": self.tokeniser.name,
            "lower": self.tokeniser.lower,
            "lists": self.lists_name,
            "min_count": self.min_count,
            "smoothing": self.smoothing,
            "normalisation": self.normalisation,
            "stop_words": len(self.stop_list),
            "special_tokens": "drop" if self.drop_special_tokens else "keep",
            "bootstrap": self.bootstrap,
            "permutations": self.permutations,
        }


def resolve_groups(
    groups: Groups, lists: str | Path | None, *, fold: Callable[[str], str]
) -> tuple[dict[str, tuple[str, ...]], str]:
    """Return the distinct words of each group, the positive group first, and the name of the lists."""
    if groups is not None and lists is not None:
        raise UsageError(
            "give groups or lists, not both", hint="lists names shipped pairs; groups holds your own words"
        )
    source = _load_lists(lists or LISTS) if groups is None else groups
    name = str(lists or LISTS) if groups is None else getattr(source, "name", "own words")
    distinct = {group: _distinct_words(words, group, fold) for group, words in _sides(source).items()}
    _check_groups(distinct)
    return distinct, name


def _load_lists(name: str | Path) -> Concept | Pairs:
    """Load a concept or a list of pairs by its id, or from a word file that holds exactly one."""
    reasons = []
    for load in (concept, pairs):
        try:
            return load(name)
        except (UsageError, UnknownNameError) as error:
            reasons.append(error.message)
    if "." not in Path(name).name:
        raise unknown_name("concept or list of pairs", str(name), (*ids("concept"), *ids("pairs")))
    raise UsageError(f"neither one concept nor one list of pairs: {'; '.join(reasons)}", hint="select one: FILE#ID")


def _sides(groups: Groups) -> Mapping[str, WordSet | Iterable[str]]:
    if isinstance(groups, Pairs):
        return {groups.poles[0]: groups.first, groups.poles[1]: groups.second}
    if isinstance(groups, Concept):
        others = [name for name in groups.groups if name != groups.positive]
        return {name: groups.groups[name] for name in (groups.positive, *others)}
    if isinstance(groups, Mapping):
        return groups
    raise UsageError(
        f"groups must map a name to its words, got {type(groups).__name__}",
        hint='write groups={"female": ["she", ...], "male": ["he", ...]}',
    )


def _distinct_words(words: WordSet | Iterable[str], group: str, fold: Callable[[str], str]) -> tuple[str, ...]:
    checked = checked_words(words, what=f"group {group!r}")
    return tuple(dict.fromkeys(map(fold, checked)))


def _check_groups(groups: Mapping[str, tuple[str, ...]]) -> None:
    if len(groups) < 2:
        raise UsageError(f"a comparison needs at least 2 groups, got {len(groups)}", hint="add the other group")
    owner: dict[str, str] = {}
    for group, words in groups.items():
        if not words:
            raise UsageError(f"group {group!r} has no words")
        for word in words:
            if owner.setdefault(word, group) != group:
                raise UsageError(f"{word!r} is in group {owner[word]!r} and in group {group!r}", hint="keep it in one")
