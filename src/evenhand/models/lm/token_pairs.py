"""Pairs of words as pairs of rows of a sub-word vocabulary."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenhand import words
from evenhand.errors import UsageError, VocabularyError

FORMS = ("{}", " {}")  # at the beginning of a text, and inside it


@dataclass(frozen=True)
class TokenPairs:
    """Pairs of rows, rows of words whose partner is more than one token, and the pairs of words that have no rows."""

    pairs: tuple[tuple[int, int], ...]
    alone: frozenset[int]
    lost: tuple[tuple[str, str], ...]


def token_pairs(pairs: str | Path | Iterable[tuple[str, str]], tokenizer: Any) -> TokenPairs:
    """The rows of pairs whose words are single tokens, both with a blank before them or both without.

    A word of several tokens has no row of its own, so that its pair cannot be used; its pieces belong to other words.
    """
    if tokenizer is None:
        raise UsageError("without a tokenizer the rows of words are not known", hint="give tokenizer=")
    given = [(one, other) for one, other in (words.pairs(pairs) if isinstance(pairs, str | Path) else pairs)]
    found: dict[tuple[int, int], None] = {}
    single: set[int] = set()
    lost = []
    for pair in given:
        rows = [tuple(_row(form.format(word), tokenizer) for word in pair) for form in FORMS]
        whole = [(one, other) for one, other in rows if one is not None and other is not None]
        found |= dict.fromkeys(whole)
        single |= {row for both in rows for row in both if row is not None}
        if not whole:
            lost.append(pair)
    if not found:
        raise VocabularyError(
            f"none of the {len(given)} pairs has two words that are single tokens",
            hint="use pairs of more frequent words, or the tokenizer that belongs to the model",
        )
    return TokenPairs(tuple(found), frozenset(single), tuple(lost))


def _row(text: str, tokenizer: Any) -> int | None:
    ids = tokenizer.encode(text, add_special_tokens=False)
    return int(ids[0]) if len(ids) == 1 and ids[0] != tokenizer.unk_token_id else None
