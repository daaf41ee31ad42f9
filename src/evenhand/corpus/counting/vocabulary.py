"""Words and their ids, in order of first appearance; special tokens and stop words."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Rows
from evenhand.corpus.counting.tokenise import Tokeniser
from evenhand.errors import FormatError, UsageError
from evenhand.files import existing

if TYPE_CHECKING:
    import polars as pl


class Vocabulary:
    """Maps words to ids through a polars categorical, which takes half the time of a Python dict or less.

    The initial words have the ids 0, 1, ... The table is private to this object and is freed with it.
    """

    def __init__(self, words: Iterable[str]) -> None:
        import polars as pl

        self._categories: pl.Categories = pl.Categories.random()
        self._dtype: pl.Categorical = pl.Categorical(self._categories)
        # polars drops the ids when no Series with them remains, so one is kept.
        self._anchor: pl.Series = pl.Series(list(words), dtype=self._dtype)

    def ids(self, words: pl.Series) -> Rows:
        """Return the ids of a Series of words without its empty words; a new word gets the next id."""
        non_empty = words.filter(words != "")  # drops nulls too: an exploded empty list is one
        return np.asarray(non_empty.cast(self._dtype).to_physical().to_numpy(), dtype=np.intp)

    @property
    def words(self) -> pl.Series:
        """All words, in the order of their ids."""
        return self._categories.to_series()


SPECIAL_TOKENS = ("<unk>", "<eos>", "N")  # of Penn Treebank and WikiText: a rare word, a line end, a number
IN_BRACKETS = r"^<[^<>]+>$"
LETTER_OR_DIGIT = r"[\p{L}\p{M}\p{N}]"


def drops_special_tokens(choice: str | None, tokeniser: Tokeniser) -> bool:
    """Return True if special tokens are not scored; by default they are dropped from whitespace-tokenised text.

    The tokeniser `words` yields words only, and the meaning of a function's tokens is known to its author only.
    """
    if choice not in (None, "drop", "keep"):
        raise UsageError(f"unknown special_tokens {choice!r}", hint="use drop or keep")
    return tokeniser.name == "whitespace" if choice is None else choice == "drop"


def are_special_tokens(words: pl.Series, *, lower: bool) -> NDArray[np.bool_]:
    """Return which words are in `SPECIAL_TOKENS`, look like <num>, or have no letter or digit."""
    named = words.is_in([token.lower() if lower else token for token in SPECIAL_TOKENS])
    special = named | words.str.contains(IN_BRACKETS) | ~words.str.contains(LETTER_OR_DIGIT)
    return np.asarray(special.to_numpy(), dtype=bool)


CLASSES: dict[str, str] = {
    "pronouns": """i me my mine myself you your yours yourself yourselves he him his himself she her hers herself it its
        itself we us our ours ourselves they them their theirs themselves who whom whose which what this that these
        those""",
    "determiners": "a an the some any no each every all both few more most other such own same",
    "prepositions": """of at by for with about against between into through during before after above below to from up
        down in out on off over under""",
    "conjunctions": "and but if or because as until while than nor so",
    "adverbs": "again further then once here there when where why how not only too very just now",
    "auxiliaries": """am is are was were be been being have has had having do does did doing will would shall should can
        could may might must""",
    "clitics": """'s n't 're 've 'd 'll 'm s t d ll m o re ve y don ain aren couldn didn doesn hadn hasn haven isn
        mightn mustn needn shan shouldn wasn weren won wouldn""",
    "contractions": """don't ain't aren't couldn't didn't doesn't hadn't hasn't haven't isn't mightn't mustn't needn't
        shan't shouldn't wasn't weren't won't wouldn't can't cannot i'm you're he's she's it's we're they're i've you've
        we've they've i'll you'll he'll she'll it'll we'll they'll i'd you'd he'd she'd we'd they'd that's that'll
        should've""",
}
ENGLISH: tuple[str, ...] = tuple(dict.fromkeys(word for words in CLASSES.values() for word in words.split()))


def load_stop_words(stop_words: str | Path | Iterable[str]) -> tuple[str, ...]:
    """Return the stop words of a name (`english`, `none`), a file of words, or a list."""
    if stop_words == "english":
        return ENGLISH
    if isinstance(stop_words, str) and stop_words in ("", "none"):
        return ()
    if isinstance(stop_words, (str, Path)):
        path = existing(Path(stop_words), what="stop list")
        try:
            return tuple(path.read_text(encoding="utf-8").split())
        except UnicodeDecodeError as error:
            raise FormatError(f"{path}: not valid UTF-8 ({error})", hint="save the stop list as UTF-8") from error
    words = tuple(stop_words)
    if not all(isinstance(word, str) for word in words):
        raise UsageError("stop_words must be a list of words", hint="or english, or the name of a file of words")
    return words
