"""What a WEAT-like measure is asked: sets of target words against sets of attribute words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from evenhand.errors import UsageError, shown
from evenhand.language import language as rules_of
from evenhand.words.wordset import Cited, FrozenMap, Source, Words, WordSet, digest_of, source_dict

Sets: TypeAlias = Mapping[str, Words] | Sequence[Words]


@dataclass(frozen=True, init=False)
class Query(Cited):
    """Target sets and attribute sets; in the letters of WEAT the targets are X and Y, the attributes A and B.

    A positive value of a measure says that the first target goes with the first attribute. Sets may be word sets,
    plain lists, or a mapping from the name of each set to its words. `concept` is the id of the concept that the query
    is about; an audit asks the queries of its own concept, and those without one as controls. `language` is the ISO
    code of the words, by whose rules they are looked up.
    """

    name: str
    targets: tuple[WordSet, ...]
    attributes: tuple[WordSet, ...]
    source: Source | None
    note: str
    concept: str
    language: str

    def __init__(
        self,
        name: str = "",
        targets: Sets = (),
        attributes: Sets = (),
        source: Source | None = None,
        *,
        note: str = "",
        concept: str = "",
        language: str = "en",
    ) -> None:
        rules_of(language)  # refuses what is not a code
        vars(self).update(
            name=name,
            targets=_sets(targets, "target", name, source),
            attributes=_sets(attributes, "attribute", name, source),
            source=source,
            note=note,
            concept=concept,
            language=language,
        )

    def __repr__(self) -> str:
        sides = (" / ".join(group.name for group in sets) for sets in (self.targets, self.attributes))
        return f"Query({self.name!r}, {' x '.join(sides)})"

    @property
    def arity(self) -> tuple[int, int]:
        """How many target sets and how many attribute sets there are; a measure may ask for (2, 2)."""
        return len(self.targets), len(self.attributes)

    @property
    def words(self) -> tuple[str, ...]:
        """Every word asked, once."""
        return tuple(dict.fromkeys(word for group in (*self.targets, *self.attributes) for word in group))

    def to_dict(self) -> dict[str, object]:
        """Plain data for JSON, in the form that a word file has."""
        plain: dict[str, object] = {"name": self.name}
        plain["targets"] = [group.to_dict() for group in self.targets]
        plain["attributes"] = [group.to_dict() for group in self.attributes]
        if self.concept:
            plain["concept"] = self.concept
        if self.language != "en":
            plain["language"] = self.language
        return plain | ({"note": self.note} if self.note else {}) | source_dict(self.source)


class SentenceQuery(Query):
    """A query whose sets hold whole sentences; `word_of` gives the word that each sentence is about."""

    word_of: Mapping[str, str]

    def __init__(self, query: Query, word_of: Mapping[str, str]) -> None:
        vars(self).update(vars(query), word_of=FrozenMap(word_of))

    @property
    def digest(self) -> str:
        """Hash of the sentences and their words."""
        return digest_of([self.to_dict(), dict(self.word_of)])


def _sets(given: Sets, role: str, query: str, source: Source | None) -> tuple[WordSet, ...]:
    if isinstance(given, (str, WordSet)) or not isinstance(given, (Mapping, Sequence)):
        raise UsageError(f"query {query!r}: {role}s must be several lists of words, got {shown(given)}")
    named = given.items() if isinstance(given, Mapping) else [(f"{role} {n}", g) for n, g in enumerate(given, 1)]
    sets: tuple[WordSet, ...] = ()
    for name, group in named:
        sets += (group if isinstance(group, WordSet) else WordSet(name, group, source),)
    if not sets:
        raise UsageError(f"query {query!r} has no {role} set", hint=f"give {role}s=(words, other_words)")
    for group in sets:
        if not len(group):
            raise UsageError(f"query {query!r}: the {role} set {group.name!r} is empty")
    return sets
