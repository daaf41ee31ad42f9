"""One word file as records, each built from its table when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Protocol, TypeVar

from evenhand.errors import UnknownNameError, UsageError, shown, unknown_name
from evenhand.words.characters import require_plain_characters
from evenhand.words.concept import Concept, Recipe
from evenhand.words.concept_check import warn_of_groups
from evenhand.words.document import Document, TomlTable, read_document
from evenhand.words.query import Query
from evenhand.words.template import Template
from evenhand.words.wordset import Pairs, Source, Table, Words, WordSet, checked_pairs, checked_words


def build_source(entry: TomlTable, shelf: Shelf) -> Source:
    """A source; the only record that refers to nothing else on the shelf."""
    texts = ("title", "authors", "where", "url", "licence", "note")
    entry.only(*texts, "year", "bibtex")
    with entry.at("title"):
        year, bibtex = entry.value("year", int, 0), entry.text("bibtex", "").strip()
        return Source(**{key: entry.prose(key) for key in texts}, year=year, bibtex=bibtex)


def build_wordset(entry: TomlTable, shelf: Shelf) -> WordSet:
    """A word set: plain `words`, or `rows` of a word and its scores under `columns`."""
    entry.only("name", "words", "columns", "rows", "verbatim", "note", "source")
    about: dict[str, Any] = {"source": shelf.source_of(entry), "note": entry.prose("note")}
    name = entry.text("name", entry.id)
    if "rows" not in entry:
        return WordSet(name, word_list(entry, "words", shelf), **about)
    words, scores = _scored(entry)
    with entry.at("rows"):
        return WordSet(name, words, scores=scores, **about)


def build_pairs(entry: TomlTable, shelf: Shelf) -> Pairs:
    """A list of pairs, with the names of its two poles."""
    entry.only("name", "pairs", "poles", "verbatim", "note", "source")
    poles = entry.texts("poles") if "poles" in entry else ("first", "second")
    pairs, note = pair_list(entry, "pairs", shelf), entry.prose("note")
    with entry.at("poles"):
        return Pairs(entry.text("name", entry.id), pairs, poles, shelf.source_of(entry), note=note)


def build_table(entry: TomlTable, shelf: Shelf) -> Table:
    """A table; a row is a list, or one text whose cells have blanks between them."""
    entry.only("name", "columns", "rows", "note", "source")
    columns, note = entry.texts("columns"), entry.prose("note")
    rows = [row.split() if isinstance(row, str) else row for row in entry.items("rows")]
    with entry.at("rows"):
        return Table(entry.text("name", entry.id), columns, rows, shelf.source_of(entry), note=note)


def build_query(entry: TomlTable, shelf: Shelf) -> Query:
    """A query: targets and attributes, each a table of named sets or a list of sets."""
    entry.only("name", "targets", "attributes", "concept", "language", "note", "source")
    sets = {key: _sets(entry, key, shelf) for key in ("targets", "attributes")}
    with entry.at(""):
        about: dict[str, Any] = {"source": shelf.source_of(entry), "note": entry.prose("note")}
        about |= {"concept": entry.text("concept", ""), "language": entry.text("language", "en")}
        return Query(entry.text("name", entry.id), **sets, **about)


def build_template(entry: TomlTable, shelf: Shelf) -> Template:
    """A sentence template."""
    entry.only("name", "text", "fillers", "articles", "note", "source")
    fillers, articles = _groups(entry, "fillers", shelf), entry.text("articles", "phonetic")
    with entry.at("text"):
        about: dict[str, Any] = {"source": shelf.source_of(entry), "note": entry.prose("note")}
        return Template(entry.text("name", entry.id), entry.text("text"), fillers, articles, **about)


def build_concept(entry: TomlTable, shelf: Shelf) -> Concept:
    """A concept with its groups, pairs, names and recipe."""
    lists = ("groups", "pairs", "names", "equalize", "specific", "neutral", "adjectives", "nouns")
    entry.only("name", *lists, "positive", "direction", "language", "limits", "source")
    with entry.at("positive" if "positive" in entry else ""):
        built = Concept(
            entry.text("name", entry.id),
            _groups(entry, "groups", shelf),
            _pairs(entry, "pairs", shelf),
            entry.text("positive", ""),
            _recipe(entry.child("direction"), shelf) if "direction" in entry else None,
            _groups(entry, "names", shelf),
            _pairs(entry, "equalize", shelf),
            _specific(entry, shelf),
            shelf.source_of(entry),
            entry.prose("limits"),
            language=entry.text("language", "en"),
            neutral=_group(entry, "neutral", shelf) if "neutral" in entry else (),
            adjectives=_groups(entry, "adjectives", shelf),
            nouns=_groups(entry, "nouns", shelf),
        )
    warn_of_groups(built, str(entry.document.path))
    return built


BUILDERS: dict[str, Callable[[TomlTable, Shelf], Any]] = {
    "source": build_source,
    "wordset": build_wordset,
    "pairs": build_pairs,
    "table": build_table,
    "query": build_query,
    "template": build_template,
    "concept": build_concept,
}


def _scored(entry: TomlTable) -> tuple[tuple[str, ...], dict[str, tuple[float, ...]]]:
    columns = entry.texts("columns")
    for row in entry.items("rows"):
        numbers = row[1:] if isinstance(row, list) else []
        if len(numbers) != len(columns) or any(type(number) not in (int, float) for number in numbers):
            raise entry.error("rows", f"a row is a word and {len(columns)} number(s), got {shown(row)}")
    words, *scores = zip(*entry.items("rows"), strict=True)
    return words, dict(zip(columns, scores, strict=True))


def _recipe(entry: TomlTable, shelf: Shelf) -> Recipe:
    entry.only("how", "words", "k", "centre", "normalise")
    words = word_list(entry, "words", shelf) if entry.table.get("words") else ()
    how: Any = entry.text("how")  # Recipe itself refuses an unknown name
    with entry.at("how"):
        return Recipe(how, words, entry.value("k", int, 1), entry.flag("centre"), entry.flag("normalise"))


def _group(entry: TomlTable, key: str, shelf: Shelf) -> Words:
    """A set inside a record: a table of its own, one included list (which brings its source), or a plain list."""
    if isinstance(entry.table[key], dict):
        return build_wordset(entry.child(key), shelf)
    words = word_list(entry, key, shelf)
    if reference := only_reference(entry.table[key]):
        included = shelf.words(reference)
        return WordSet(key, words, included.source, note=included.note)
    return words


def _groups(entry: TomlTable, key: str, shelf: Shelf) -> dict[str, Words]:
    table = entry.child(key)
    return {name: _group(table, name, shelf) for name in table.table}


def _sets(entry: TomlTable, key: str, shelf: Shelf) -> Any:
    """The sets of a query: named in a table, or a list whose sets are called after their place."""
    if not isinstance(entry.table.get(key), list):
        return _groups(entry, key, shelf)
    numbered = {str(place): item for place, item in enumerate(entry.items(key), start=1)}
    table = TomlTable(entry.document, (*entry.keys, key), numbered)
    return tuple(_group(table, name, shelf) for name in numbered)


def _pairs(entry: TomlTable, key: str, shelf: Shelf) -> Pairs | tuple[tuple[str, str], ...]:
    if key not in entry:
        return ()
    if isinstance(entry.table[key], dict):
        return build_pairs(entry.child(key), shelf)
    kept = pair_list(entry, key, shelf)
    reference = only_reference(entry.table[key])
    return shelf.pairs(reference) if reference else kept


def _specific(entry: TomlTable, shelf: Shelf) -> Words:
    return _group(entry, "specific", shelf) if "specific" in entry else ()


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
    if entry.keys[0] in ("concept", "query"):  # other lists may hold tokens of a vocabulary, whatever they are
        require_plain_characters((item,) if isinstance(item, str) else item, what="the list")
    if repeated:
        raise entry.error(key, f"{item!r} occurs twice", hint=f"remove one, {remedy}")
    if any(word != word.strip() for word in ((item,) if isinstance(item, str) else item)):
        raise entry.error(key, f"{item!r} has surrounding white space", hint=f"remove them, {remedy}")


KINDS = tuple(kind for kind in BUILDERS if kind != "source")
Elsewhere = Callable[[str, str], Any]

# What is being built right now, so that a list that includes itself is an error and not an endless recursion. A context
# variable, not an attribute: two threads may build the same record at the same time.
_BUILDING: ContextVar[tuple[tuple[Path, str, str], ...]] = ContextVar("building", default=())


def nowhere(kind: str, name: str) -> Any:
    """The answer for an id that is in no other file."""
    raise unknown_name(kind, name, ())


class Library:
    """The records of one word file; `elsewhere(kind, id)` finds the lists it includes from other files."""

    def __init__(self, document: Document, elsewhere: Elsewhere = nowhere) -> None:
        self.document = document
        self._elsewhere = elsewhere
        self._built: dict[tuple[str, str], Any] = {}
        top = TomlTable(document, (), document.data)
        top.only(*BUILDERS, "probe")
        self.probe_ids = tuple(top.child("probe").table)  # `words.probes` builds them
        self._tables = {kind: top.child(kind) for kind in BUILDERS}

    def ids(self, kind: str) -> tuple[str, ...]:
        """The ids of one kind, in the order of the file."""
        return tuple(self._tables[kind].table)

    def get(self, kind: str, name: str) -> Any:
        """A record of this file."""
        if name not in self._tables[kind]:
            raise unknown_name(f"{kind} in {self.document.path}", name, self.ids(kind))
        if (kind, name) not in self._built:
            self._built[kind, name] = self._build(kind, name)
        return self._built[kind, name]

    def all(self) -> dict[tuple[str, str], Any]:
        """Every record of this file, so that every error in it comes to light."""
        return {(kind, name): self.get(kind, name) for kind in BUILDERS for name in self.ids(kind)}

    def source_of(self, entry: TomlTable) -> Source | None:
        """The source that an entry holds or names (here or elsewhere), or the only one of this file."""
        if isinstance(entry.table.get("source"), dict):
            return build_source(entry.child("source"), self)
        name = entry.text("source") if "source" in entry else _only(self.ids("source"))
        with entry.at("source"):
            try:
                found: Source | None = self._anywhere("source", name) if name else None
            except UnknownNameError as error:
                raise UnknownNameError(
                    error.message, hint=f'describe it in this file: [source.{name}] with title = "..."; or {error.hint}'
                ) from None
            return found

    def words(self, reference: str) -> WordSet:
        """The word set of that id, here or elsewhere; `id/first` and `id/second` are the sides of a pair list."""
        name, _, side = reference.partition("/")
        if not side:
            found: WordSet = self._anywhere("wordset", name)
            return found
        if side not in ("first", "second"):
            raise UsageError(f"'@{reference}' is not a list", hint=f"use '@{name}/first' or '@{name}/second'")
        pairs = self.pairs(name)
        return WordSet(name, pairs.first if side == "first" else pairs.second, pairs.source, note=pairs.note)

    def pairs(self, reference: str) -> Pairs:
        """The pair list of that id, here or elsewhere."""
        found: Pairs = self._anywhere("pairs", reference)
        return found

    def _anywhere(self, kind: str, name: str) -> Any:
        return self.get(kind, name) if name in self._tables[kind] else self._elsewhere(kind, name)

    def _build(self, kind: str, name: str) -> Any:
        entry = self._tables[kind].child(name)
        mark = (self.document.path, kind, name)
        if mark in _BUILDING.get():
            raise entry.error("", "the list includes itself", hint="break the circle of @ references")
        token = _BUILDING.set((*_BUILDING.get(), mark))
        try:
            return BUILDERS[kind](entry, self)
        finally:
            _BUILDING.reset(token)


def load_file(path: str | Path, elsewhere: Elsewhere = nowhere) -> Library:
    """Read a TOML or JSON word file and check every record in it."""
    library = Library(read_document(Path(path)), elsewhere)
    if not any(kind in KINDS for kind, _ in library.all()):
        raise library.document.error((), "holds no record", hint=f"add a table [{KINDS[0]}.my-list] with words")
    return library


def _only(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else ""
