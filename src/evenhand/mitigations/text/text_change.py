"""`TextChange`: a frozen function from documents to documents, which fitted methods on text return."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, overload

from evenhand.errors import FormatError, UsageError
from evenhand.mitigations.json_change import JsonChange
from evenhand.subjects.subject import AnySubject, Subject

if TYPE_CHECKING:
    from evenhand.corpus.readers.paths import Paths
    from evenhand.mitigations.text.augmentation import AugmentedCorpus


@dataclass
class SwapCounts:
    """What a change did to a text.

    Attributes:
        documents: documents read.
        words: words read.
        forms: changed forms written; documents without a listed word have none.
        swapped: how often each word was replaced by which, both in lower case.
        kept: how often a listed word was left as it is, because it is part of a proper name.
        uncertain: how often the counterpart of a pronoun was decided by a narrow margin.
    """

    documents: int = 0
    words: int = 0
    forms: int = 0
    swapped: Counter[tuple[str, str]] = field(default_factory=Counter)
    kept: Counter[str] = field(default_factory=Counter)
    uncertain: Counter[str] = field(default_factory=Counter)

    def add(self, other: SwapCounts) -> None:
        """Add the counts of another part of the text."""
        self.documents += other.documents
        self.words += other.words
        self.forms += other.forms
        self.swapped += other.swapped
        self.kept += other.kept
        self.uncertain += other.uncertain

    def to_dict(self) -> dict[str, object]:
        """Return plain data for JSON, most frequent first."""
        return {
            "documents": self.documents,
            "words": self.words,
            "swapped_forms": self.forms,
            "swapped": self.swapped.total(),
            "swaps": {f"{a} -> {b}": count for (a, b), count in self.swapped.most_common()},
            "kept_in_names": dict(self.kept.most_common()),
            "uncertain_pronouns": dict(self.uncertain.most_common()),
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> SwapCounts:
        """Read the output of `to_dict`."""
        swaps = {tuple(pair.split(" -> ", 1)): count for pair, count in record["swaps"].items()}
        return cls(
            record["documents"], record["words"], record["swapped_forms"], Counter(swaps),
            Counter(record["kept_in_names"]), Counter(record["uncertain_pronouns"]),
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class TextChange(JsonChange):
    """A frozen change of documents.

    Call it on a document for its changed form. `documents` returns what replaces a document in a corpus: the changed
    form alone, or the original and the changed form if it differs. `b @ a` applies a first. Two changes are equal if
    they have the same kind and the same content.
    """

    kind: ClassVar[str]
    acts_on: ClassVar[str] = "text"
    title: ClassVar[str] = "a text change"
    format: ClassVar[int] = 2

    report: Mapping[str, object] = field(default_factory=dict, kw_only=True, repr=False)
    """Report of the method that made the change: method, params, concept, words."""

    @property
    def keeps_original(self) -> bool:
        """Whether a corpus keeps the original of each document beside its changed form."""
        return False

    @abstractmethod
    def change(self, text: str, counts: SwapCounts | None = None, *, key: str | None = None) -> str:
        """Return the changed form of a document.

        Args:
            text: the document.
            counts: where to count what is done.
            key: what decides random choices, the document itself by default; texts that belong together share one.
        """

    @abstractmethod
    def stream(self, fragments: Iterable[str], counts: SwapCounts | None = None) -> Iterator[str]:
        """Yield the changed form of a stream of documents, each closed by NUL; memory does not grow with a document.

        A fragment ends at white space or at the end of a document.
        """

    @abstractmethod
    def state(self) -> dict[str, object]:
        """Return the content as plain data, for saving, hashing and comparing."""

    @classmethod
    @abstractmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return the change with this content."""

    @overload
    def __call__(self, text: str) -> str: ...
    @overload
    def __call__(self, text: AnySubject) -> AnySubject: ...
    def __call__(self, text: str | Subject) -> str | Subject:
        """Return the changed form of a document, or of a corpus."""
        if isinstance(text, Subject):
            return text.changed(self)
        if not isinstance(text, str):
            raise UsageError(
                f"a text change takes a str, got {type(text).__name__}", hint="use documents() for several"
            )
        return self.change(text)

    def write(self, paths: Paths, out: Path, **reading: Any) -> AugmentedCorpus:
        """Write the corpus of some paths after the change; see `write_augmented`."""
        from evenhand.mitigations.text.augmentation import write_augmented

        return write_augmented(self, paths, out, **reading)

    def versions(self) -> tuple[tuple[TextChange, ...], ...]:
        """Return the changes that make each document of the changed corpus; the empty tuple is the original."""
        return ((), (self,)) if self.keeps_original else ((self,),)

    def documents(self, texts: Iterable[str]) -> Iterator[str]:
        """Yield the documents of the changed corpus, the forms of one document after each other.

        A change that keeps the original adds no second form of a document that it leaves as it is.
        """
        for text in texts:
            for steps in self.versions():
                forms = list(accumulate(steps, lambda form, step: step(form), initial=text))
                repeats = zip(steps, pairwise(forms), strict=True)
                if not any(step.keeps_original and before == after for step, (before, after) in repeats):
                    yield forms[-1]

    def __matmul__(self, first: TextChange) -> TextChain:
        return TextChain((first, self)) if isinstance(first, TextChange) else NotImplemented

    def with_report(self, **entries: object) -> Self:
        """Return the change with these entries added to its report."""
        return replace(self, report={**self.report, **entries})

    def content(self) -> list[object]:
        """Return kind and state."""
        return [self.kind, self.state()]

    def stored(self) -> dict[str, object]:
        """Return kind and state."""
        return {"kind": self.kind, "state": self.state()}

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> TextChange:
        """Load a change of any kind from its file."""
        return cls._read(path, _build)


@dataclass(frozen=True, eq=False)
class TextChain(TextChange):
    """Several text changes, applied in order; `b @ a` is `TextChain((a, b))`."""

    kind: ClassVar[str] = "chain"

    changes: tuple[TextChange, ...]

    def __post_init__(self) -> None:
        flat = tuple(
            one for change in self.changes for one in (change.changes if isinstance(change, TextChain) else (change,))
        )
        if not flat:
            raise UsageError("a chain needs at least one text change")
        object.__setattr__(self, "changes", flat)
        if not self.report:
            methods = ".".join(str(change.report.get("method", change.kind)) for change in flat)
            object.__setattr__(self, "report", {"method": methods, "chain": [dict(change.report) for change in flat]})

    @property
    def keeps_original(self) -> bool:
        """Whether every change does."""
        return all(change.keeps_original for change in self.changes)

    def versions(self) -> tuple[tuple[TextChange, ...], ...]:
        """Return every combination of the versions of the changes."""
        combined: tuple[tuple[TextChange, ...], ...] = ((),)
        for change in self.changes:
            combined = tuple((*steps, *more) for steps in combined for more in change.versions())
        return combined

    def change(self, text: str, counts: SwapCounts | None = None, *, key: str | None = None) -> str:
        """Apply the changes in order."""
        for change in self.changes:
            text = change.change(text, counts, key=key)
        return text

    def stream(self, fragments: Iterable[str], counts: SwapCounts | None = None) -> Iterator[str]:
        """Apply the changes in order."""
        for change in self.changes:
            fragments = change.stream(fragments, counts)
        yield from fragments

    def state(self) -> dict[str, object]:
        """Return the content of the changes."""
        return {"changes": [{"kind": change.kind, "state": change.state()} for change in self.changes]}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return the chain of the changes."""
        return cls(tuple(_kind(part["kind"]).from_state(part["state"]) for part in state["changes"]))


def _kind(name: str) -> type[TextChange]:
    """Return the class of a kind; those of another package are known once their module is imported."""
    import evenhand.mitigations.text.cda  # noqa: F401 (defines a kind)

    kinds = {each.kind: each for each in TextChange.__subclasses__()}
    if name not in kinds:
        raise FormatError(f"unknown kind of text change {name!r}", hint="update evenhand")
    return kinds[name]


def _build(about: Mapping[str, Any]) -> TextChange:
    change = _kind(about["kind"]).from_state(about["state"])
    return change.with_report(**about["report"]) if about["report"] else change
