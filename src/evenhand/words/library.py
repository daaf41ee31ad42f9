"""One word file as records, each built from its table when it is asked for."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias, TypeVar, cast

from evenhand.errors import UnknownNameError, UsageError, shown, unknown_name
from evenhand.words.characters import require_plain_characters
from evenhand.words.concept import Concept, How, Recipe
from evenhand.words.concept_check import warn_of_groups
from evenhand.words.document import Document, TomlTable, read_document
from evenhand.words.query import Query, Sets
from evenhand.words.template import Template
from evenhand.words.wordset import Pairs, Source, Table, Words, WordSet, checked_pairs, checked_words


def build_source(entry: TomlTable, library: Library) -> Source:
    """A source; the only record that refers to nothing else on the library."""
    texts = ("title", "authors", "where", "url", "licence", "note")
    entry.only(*texts, "year", "bibtex")
    with entry.at("title"):
        year, bibtex = entry.value("year", int, 0), entry.text("bibtex", "").strip()
        return Source(**{key: entry.prose(key) for key in texts}, year=year, bibtex=bibtex)


def build_wordset(entry: TomlTable, library: Library) -> WordSet:
    """A word set: plain `words`, or `rows` of a word and its scores under `columns`."""
    entry.only("name", "words", "columns", "rows", "verbatim", "note", "source")
    words, scores = _scored(entry) if "rows" in entry else (word_list(entry, "words", library), {})
    with entry.at("rows" if "rows" in entry else "words"):
        source, note = library.source_of(entry), entry.prose("note")
        return WordSet(entry.text("name", entry.id), words, source, note=note, scores=scores)


def build_pairs(entry: TomlTable, library: Library) -> Pairs:
    """A list of pairs, with the names of its two poles."""
    entry.only("name", "pairs", "poles", "verbatim", "note", "source")
    poles = entry.texts("poles") if "poles" in entry else ("first", "second")
    pairs, note = pair_list(entry, "pairs", library), entry.prose("note")
    with entry.at("poles"):
        return Pairs(entry.text("name", entry.id), pairs, poles, library.source_of(entry), note=note)


def build_table(entry: TomlTable, library: Library) -> Table:
    """A table; a row is a list, or one text whose cells have blanks between them."""
    entry.only("name", "columns", "rows", "note", "source")
    columns, note = entry.texts("columns"), entry.prose("note")
    rows = [row.split() if isinstance(row, str) else row for row in entry.items("rows")]
    with entry.at("rows"):
        return Table(entry.text("name", entry.id), columns, rows, library.source_of(entry), note=note)


def build_query(entry: TomlTable, library: Library) -> Query:
    """A query: targets and attributes, each a table of named sets or a list of sets."""
    entry.only("name", "targets", "attributes", "concept", "language", "note", "source")
    sets: dict[str, Sets] = {}
    for key in ("targets", "attributes"):
        if isinstance(entry.table.get(key), list):
            sets[key] = tuple(_groups(entry.numbered(key), library).values())
        else:
            sets[key] = _groups(entry.child(key), library)
    with entry.at(""):
        return Query(
            entry.text("name", entry.id),
            sets["targets"],
            sets["attributes"],
            library.source_of(entry),
            note=entry.prose("note"),
            concept=entry.text("concept", ""),
            language=entry.text("language", "en"),
        )


def build_template(entry: TomlTable, library: Library) -> Template:
    """A sentence template."""
    entry.only("name", "text", "fillers", "articles", "note", "source")
    fillers, articles = _groups(entry.child("fillers"), library), entry.text("articles", "phonetic")
    with entry.at("text"):
        source, note = library.source_of(entry), entry.prose("note")
        return Template(entry.text("name", entry.id), entry.text("text"), fillers, articles, source, note=note)


def build_concept(entry: TomlTable, library: Library) -> Concept:
    """A concept with its groups, pairs, names and recipe."""
    lists = ("groups", "pairs", "names", "equalize", "specific", "neutral", "adjectives", "nouns")
    entry.only("name", *lists, "positive", "direction", "language", "limits", "source")
    with entry.at("positive" if "positive" in entry else ""):
        built = Concept(
            entry.text("name", entry.id),
            _groups(entry.child("groups"), library),
            _pairs(entry, "pairs", library),
            entry.text("positive", ""),
            _recipe(entry.child("direction"), library) if "direction" in entry else None,
            _groups(entry.child("names"), library),
            _pairs(entry, "equalize", library),
            _group(entry, "specific", library),
            library.source_of(entry),
            entry.prose("limits"),
            language=entry.text("language", "en"),
            neutral=_group(entry, "neutral", library),
            adjectives=_groups(entry.child("adjectives"), library),
            nouns=_groups(entry.child("nouns"), library),
        )
    warn_of_groups(built, str(entry.document.path))
    return built


BUILDERS: dict[type[object], Callable[[TomlTable, Library], object]] = {
    Source: build_source,
    WordSet: build_wordset,
    Pairs: build_pairs,
    Table: build_table,
    Query: build_query,
    Template: build_template,
    Concept: build_concept,
}


def _scored(entry: TomlTable) -> tuple[tuple[str, ...], dict[str, tuple[float, ...]]]:
    columns = entry.texts("columns")
    for row in entry.items("rows"):
        numbers = row[1:] if isinstance(row, list) else []
        if len(numbers) != len(columns) or any(type(number) not in (int, float) for number in numbers):
            raise entry.error("rows", f"a row is a word and {len(columns)} number(s), got {shown(row)}")
    words, *scores = zip(*entry.items("rows"), strict=True)
    return words, dict(zip(columns, scores, strict=True))


def _recipe(entry: TomlTable, library: Library) -> Recipe:
    entry.only("how", "words", "k", "centre", "normalise")
    words = word_list(entry, "words", library) if entry.table.get("words") else ()
    how = cast(How, entry.text("how"))  # Recipe itself refuses an unknown name
    with entry.at("how"):
        return Recipe(how, words, entry.value("k", int, 1), entry.flag("centre"), entry.flag("normalise"))


def _group(entry: TomlTable, key: str, library: Library) -> Words:
    """A set inside a record: a table of its own, one included list (which brings its source), or a plain list."""
    if key not in entry:
        return ()
    if isinstance(entry.table[key], dict):
        return build_wordset(entry.child(key), library)
    words = _collect(entry, key, library.words, checked_words)
    if reference := only_reference(entry.table[key]):
        included = library.words(reference)
        return WordSet(key, words, included.source, note=included.note)
    return words


def _groups(table: TomlTable, library: Library) -> dict[str, Words]:
    groups = {}
    for name in table.table:
        groups[name] = _group(table, name, library)
    return groups


def _pairs(entry: TomlTable, key: str, library: Library) -> Pairs | tuple[tuple[str, str], ...]:
    if key not in entry:
        return ()
    if isinstance(entry.table[key], dict):
        return build_pairs(entry.child(key), library)
    kept = pair_list(entry, key, library)
    reference = only_reference(entry.table[key])
    return library.pairs(reference) if reference else kept


VERBATIM = "or add verbatim = true to keep the list as published"
ListItem = TypeVar("ListItem", str, tuple[str, str])


def reference_in(item: object) -> str:
    """Return the id of an item `@id`, or the empty string; `@@word` stands for the word `@word`."""
    return item[1:] if isinstance(item, str) and item.startswith("@") and not item.startswith("@@") else ""


def only_reference(value: object) -> str:
    """Return the id if a list consists of a single included list, or the empty string."""
    return reference_in(value[0]) if isinstance(value, list) and len(value) == 1 else ""


def word_list(entry: TomlTable, key: str, library: Library) -> tuple[str, ...]:
    """Return the words under a key, with included lists expanded.

    A repeated word or surrounding white space is an error unless the list is marked `verbatim`; an included list adds
    only new words. `@@word` stands for the word `@word`.
    """
    return _collect(entry, key, library.words, checked_words)


def pair_list(entry: TomlTable, key: str, library: Library) -> tuple[tuple[str, str], ...]:
    """Return the pairs under a key, with the same rules as `word_list`."""
    return _collect(entry, key, library.pairs, checked_pairs)


def _collect(
    entry: TomlTable, key: str, include: Callable[[str], Iterable[ListItem]], check: Callable[..., tuple[ListItem, ...]]
) -> tuple[ListItem, ...]:
    verbatim = entry.flag("verbatim")
    items: list[ListItem] = []
    seen: set[ListItem] = set()
    for raw in entry.items(key):
        with entry.at(key):
            if reference := reference_in(raw):
                items += (new := [item for item in dict.fromkeys(include(reference)) if item not in seen])
                seen.update(new)
                continue
            (item,) = check([raw[1:] if isinstance(raw, str) and raw.startswith("@") else raw], what="the list")
            members = (item,) if isinstance(item, str) else item
            if not verbatim and entry.keys[0] in ("concept", "query"):  # other lists may hold tokens of a vocabulary
                require_plain_characters(members, what="the list")
            if not verbatim and item in seen:
                raise entry.error(key, f"{item!r} occurs twice", hint=f"remove one, {VERBATIM}")
            if not verbatim and members != tuple(map(str.strip, members)):
                raise entry.error(key, f"{item!r} has surrounding white space", hint=f"remove them, {VERBATIM}")
            items.append(item)
            seen.add(item)
    return tuple(items)


OF_PAIRS = ("pairs", "equalize")  # the keys of lists of pairs; all other lists are of words
WITHOUT_REFERENCES = ("rows", "columns", "poles")
Key: TypeAlias = tuple["Library", type[object], str]  # the file, kind and id of a record
R = TypeVar("R")


def kind_of(record: type[object]) -> str:
    """Return the kind of records of a class: the name of the class in lower case.

    >>> kind_of(WordSet)
    'wordset'
    """
    return record.__name__.lower()


KINDS = tuple(kind_of(record) for record in BUILDERS if record is not Source)


def nowhere(kind: type[object], name: str) -> Library:
    """The answer for an id that is in no other file."""
    raise unknown_name(kind_of(kind), name, ())


class Library:
    """The records of one word file, each built when it is asked for; `elsewhere(kind, id)` finds the file of an id."""

    def __init__(self, document: Document, elsewhere: Callable[[type[object], str], Library] = nowhere) -> None:
        self.document = document
        self._elsewhere = elsewhere
        self._built: dict[tuple[type[object], str], object] = {}
        top = TomlTable(document, (), document.data)
        top.only(*map(kind_of, BUILDERS), "probe")
        self.probe_ids = tuple(top.child("probe").table)  # `words.probes` builds them
        self._tables = dict(zip(BUILDERS, map(top.child, map(kind_of, BUILDERS)), strict=True))

    def ids(self, kind: type[object]) -> tuple[str, ...]:
        """The ids of one kind, in the order of the file."""
        return tuple(self._tables[kind].table)

    def get(self, kind: type[R], name: str) -> R:
        """The record of that id, here or elsewhere.

        Its source and the lists that it includes are built before it, one after the other.
        """
        home = self if name in self._tables[kind].table else self._elsewhere(kind, name)
        waiting: dict[Key, Iterator[Key]] = {}
        if (kind, name) not in home._built:
            waiting[home, kind, name] = home._included(kind, name)
        while waiting:
            library, of, id = last = next(reversed(waiting))
            following = next(waiting[last], None)
            if following is None:
                library._built[of, id] = BUILDERS[of](library._tables[of].child(id), library)
                del waiting[last]
            elif following in waiting:
                entry = following[0]._tables[following[1]].child(following[2])
                raise entry.error("", "the list includes itself", hint="break the circle of @ references")
            else:
                waiting[following] = following[0]._included(*following[1:])
        return cast(R, home._built[kind, name])

    def _included(self, kind: type[object], name: str) -> Iterator[Key]:
        """Yield what a record refers to and what is not built yet; what does not exist is left out."""
        parts: list[tuple[str, object]] = [("", self._tables[kind].table[name])]
        while parts:
            key, value = parts.pop()
            if isinstance(value, dict):
                if kind is not Source and (source := self._source_name(value)):
                    yield from self._unbuilt(Source, source)
                parts += [(name, item) for name, item in value.items() if isinstance(item, dict | list)]
            elif isinstance(value, list) and key not in WITHOUT_REFERENCES:
                parts += [(key, item) for item in value if not isinstance(item, str) or reference_in(item)]
            elif reference := reference_in(value):
                id, _, side = reference.partition("/")
                yield from self._unbuilt(Pairs if side or key in OF_PAIRS else WordSet, id)

    def _unbuilt(self, kind: type[object], name: str) -> Iterator[Key]:
        with contextlib.suppress(UnknownNameError):
            library = self if name in self._tables[kind].table else self._elsewhere(kind, name)
            if (kind, name) not in library._built:
                yield library, kind, name

    def _source_name(self, table: Mapping[str, object]) -> str:
        """Return the source that a record names: by its key, or the only one of this file; empty for one it holds."""
        sources = self._tables[Source].table
        named = table.get("source", next(iter(sources)) if len(sources) == 1 else "")
        return named if isinstance(named, str) else ""

    def all(self) -> dict[tuple[str, str], object]:
        """Every record of this file, so that every error in it comes to light."""
        return {(kind_of(kind), name): self.get(kind, name) for kind in BUILDERS for name in self.ids(kind)}

    def source_of(self, entry: TomlTable) -> Source | None:
        """The source that an entry holds or names (here or elsewhere), or the only one of this file."""
        if isinstance(entry.table.get("source"), dict):
            return build_source(entry.child("source"), self)
        name = entry.text("source") if "source" in entry else self._source_name(entry.table)
        with entry.at("source"):
            try:
                return self.get(Source, name) if name else None
            except UnknownNameError as error:
                raise UnknownNameError(
                    error.message, hint=f'describe it in this file: [source.{name}] with title = "..."; or {error.hint}'
                ) from None

    def words(self, reference: str) -> WordSet:
        """The word set of that id, here or elsewhere; `id/first` and `id/second` are the sides of a pair list."""
        name, _, side = reference.partition("/")
        if not side:
            return self.get(WordSet, name)
        if side not in ("first", "second"):
            raise UsageError(f"'@{reference}' is not a list", hint=f"use '@{name}/first' or '@{name}/second'")
        pairs = self.pairs(name)
        return WordSet(name, pairs.first if side == "first" else pairs.second, pairs.source, note=pairs.note)

    def pairs(self, reference: str) -> Pairs:
        """The pair list of that id, here or elsewhere."""
        return self.get(Pairs, reference)


def load_file(path: str | Path, elsewhere: Callable[[type[object], str], Library] = nowhere) -> Library:
    """Read a TOML or JSON word file and check every record in it."""
    library = Library(read_document(Path(path)), elsewhere)
    if not any(kind in KINDS for kind, _ in library.all()):
        raise library.document.error((), "holds no record", hint=f"add a table [{KINDS[0]}.my-list] with words")
    return library
