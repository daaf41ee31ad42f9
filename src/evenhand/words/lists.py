"""Lists of words and pairs in a word file, written out or included from another list by `@id`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

from evenhand.words.source import Source
from evenhand.words.toml_table import TomlTable
from evenhand.words.wordset import Pairs, WordSet, checked_pairs, checked_words

Item = TypeVar("Item", str, tuple[str, str])


class Shelf(Protocol):
    """Resolves the references of a record to other records."""

    def source_of(self, entry: TomlTable) -> Source | None:
        """Return the source that an entry names, or the only source of its file."""

    def words(self, reference: str) -> WordSet:
        """Return the word set, or the side of a pair list (`id/first`, `id/second`), of a reference."""

    def pairs(self, reference: str) -> Pairs:
        """Return the pairs of a reference."""


def reference_in(item: object) -> str:
    """Return the id of an item `@id`, or the empty string; `@@word` stands for the word `@word`."""
    return item[1:] if isinstance(item, str) and item.startswith("@") and not item.startswith("@@") else ""


def only_reference(value: object) -> str:
    """Return the id if a list consists of a single included list, or the empty string."""
    return reference_in(value[0]) if isinstance(value, list) and len(value) == 1 else ""


def word_list(entry: TomlTable, key: str, shelf: Shelf) -> tuple[str, ...]:
    """Return the words under a key, with included lists expanded.

    A repeated word or surrounding white space is an error unless the list is marked `verbatim`; an included list adds
    only new words.
    """

    def parse(item: Any) -> str:
        word = item[1:] if isinstance(item, str) and item.startswith("@") else item
        return checked_words([word], what="the list")[0]

    return _collect(entry, key, shelf.words, parse)


def pair_list(entry: TomlTable, key: str, shelf: Shelf) -> tuple[tuple[str, str], ...]:
    """Return the pairs under a key, with the same rules as `word_list`."""
    return _collect(entry, key, shelf.pairs, lambda item: checked_pairs([item], what="the list")[0])


def _collect(
    entry: TomlTable, key: str, include: Callable[[str], Iterable[Item]], parse: Callable[[Any], Item]
) -> tuple[Item, ...]:
    verbatim = entry.flag("verbatim")
    items: list[Item] = []
    seen: set[Item] = set()
    for raw in entry.items(key):
        with entry.at(key):
            if reference := reference_in(raw):
                items += (new := [item for item in dict.fromkeys(include(reference)) if item not in seen])
                seen.update(new)
            else:
                item = parse(raw)
                if not verbatim:
                    _check_item(entry, key, item, repeated=item in seen)
                items.append(item)
                seen.add(item)
    return tuple(items)


def _check_item(entry: TomlTable, key: str, item: str | tuple[str, str], *, repeated: bool) -> None:
    remedy = "or add verbatim = true to keep the list as published"
    if repeated:
        raise entry.error(key, f"{item!r} occurs twice", hint=f"remove one, {remedy}")
    if any(word != word.strip() for word in ((item,) if isinstance(item, str) else item)):
        raise entry.error(key, f"{item!r} has surrounding white space", hint=f"remove them, {remedy}")
