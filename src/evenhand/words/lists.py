"""Lists of words and pairs in a word file: written out, or included from another list by `@id`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

from evenhand.words.source import Source
from evenhand.words.toml_table import Entry
from evenhand.words.wordset import Pairs, WordSet, checked_pairs, checked_words

Item = TypeVar("Item", str, tuple[str, str])


class Shelf(Protocol):
    """What a record may refer to while it is built."""

    def source_of(self, entry: Entry) -> Source | None:
        """The source that an entry names, or the only one of its file."""

    def words(self, reference: str) -> WordSet:
        """The word set, or the side of a pair list (`id/first`, `id/second`), that a reference includes."""

    def pairs(self, reference: str) -> Pairs:
        """The pairs that a reference includes."""


def reference_in(item: Any) -> str:
    """The id after the @ of an including item; empty for any other, `@@word` being the word `@word`."""
    return item[1:] if isinstance(item, str) and item.startswith("@") and not item.startswith("@@") else ""


def only_reference(value: Any) -> str:
    """The id when a list consists of one included list and nothing else."""
    return reference_in(value[0]) if isinstance(value, list) and len(value) == 1 else ""


def word_list(entry: Entry, key: str, shelf: Shelf) -> tuple[str, ...]:
    """The words under a key, included lists spelt out.

    A repeated word or a stray blank is an error unless the list is marked `verbatim`; an included list adds only words
    that are not there yet.
    """

    def written(item: Any) -> str:
        word = item[1:] if isinstance(item, str) and item.startswith("@") else item
        return checked_words([word], what="the list")[0]

    return _collected(entry, key, shelf.words, written)


def pair_list(entry: Entry, key: str, shelf: Shelf) -> tuple[tuple[str, str], ...]:
    """The pairs under a key, included lists spelt out, with the same rules as for words."""
    return _collected(entry, key, shelf.pairs, lambda item: checked_pairs([item], what="the list")[0])


def _collected(
    entry: Entry, key: str, included: Callable[[str], Iterable[Item]], written: Callable[[Any], Item]
) -> tuple[Item, ...]:
    verbatim = entry.flag("verbatim")
    kept: list[Item] = []
    seen: set[Item] = set()
    for raw in entry.items(key):
        with entry.at(key):
            if reference := reference_in(raw):
                kept += (new := [item for item in dict.fromkeys(included(reference)) if item not in seen])
                seen.update(new)
            else:
                item = written(raw)
                if not verbatim:
                    _refuse_slips(entry, key, item, repeated=item in seen)
                kept.append(item)
                seen.add(item)
    return tuple(kept)


def _refuse_slips(entry: Entry, key: str, item: str | tuple[str, str], *, repeated: bool) -> None:
    remedy = "or add verbatim = true to keep the list as its source prints it"
    if repeated:
        raise entry.error(key, f"{item!r} stands twice", hint=f"remove one, {remedy}")
    if any(word != word.strip() for word in ((item,) if isinstance(item, str) else item)):
        raise entry.error(key, f"{item!r} has blanks around it", hint=f"remove them, {remedy}")
