"""`TransformerSubject`: subjects whose views are all built from one `Transformer`, and how they are changed."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from evenhand.errors import UsageError
from evenhand.models.device import PRECISIONS, device_kind, resolve_device, resolve_precision
from evenhand.models.encoders.sentences import SentenceEncoder, TransformerSentences
from evenhand.models.encoders.transformer import Transformer
from evenhand.models.vectors import Vectors
from evenhand.subjects.subject import MODEL_NUMERICS, Subject, ViewName

if TYPE_CHECKING:
    from evenhand.models.encoders.folding import Decoder
    from evenhand.models.encoders.saving import SavedModel


class ModelChange(Protocol):
    """A fitted change of a transformer, such as a map at a place inside it."""

    @property
    def digest(self) -> str:
        """Hash of everything that decides what the change does."""

    def apply_to(self, transformer: Transformer) -> Transformer:
        """Return the changed transformer; the given one stays as it is."""

    def change_table(self, vectors: Vectors) -> Vectors:
        """Return the input table, as word vectors, after the change."""

    def describe(self) -> dict[str, object]:
        """Return what a record keeps of the change."""


class TransformerSubject(Subject):
    """A subject whose views are built from one `Transformer`.

    A change acts on that transformer, so every view of the changed subject shows it. A subclass implements `_load` and
    `_stored_table`, and builds each view from `self.transformer`.

    Attributes:
        changes: the changes applied so far, first to last.
    """

    on_engine: ClassVar[tuple[ViewName, ...]] = ("sentences", "likelihood", "labels", "inference")
    libraries: ClassVar[tuple[str, ...]] = MODEL_NUMERICS
    _device, _precision = "cpu", "float32"
    changes: tuple[ModelChange, ...] = ()
    _before: Self | None = None

    @property
    def opening(self) -> dict[str, Any]:
        """Where the model runs and how precisely: a GPU adds in another order than a CPU, and rounds differently."""
        return {"device": device_kind(self._device), "precision": self._precision}

    @abstractmethod
    def _load(self) -> Transformer:
        """Load the model as it is stored."""

    @abstractmethod
    def _stored_table(self) -> Vectors:
        """Return the input table as it is stored."""

    @cached_property
    def transformer(self) -> Transformer:
        """Model and tokenizer, after all changes; loaded when a view first needs them."""
        return self._load() if self._before is None else self.changes[-1].apply_to(self._before.transformer)

    def _input_table(self) -> Vectors:
        if self._before is None:
            return self._stored_table()
        return self.changes[-1].change_table(self._before.view("vectors"))

    def _sentences(self) -> SentenceEncoder:
        return TransformerSentences(self.transformer)

    def changed(self, change: ModelChange) -> Self:
        """Return a subject of the same kind whose transformer is changed; this one stays as it is."""
        after = object.__new__(type(self))  # copy.copy would open the address again, see __reduce__
        own = {name: value for name, value in vars(self).items() if name not in ("transformer", "digest")}
        vars(after).update(own, _views={}, _before=self)
        after.changes = (*self.changes, change)
        return after

    def save(self, folder: str | Path, *, decoder: Decoder = "untied", hook: bool = False) -> SavedModel:
        """Write the changed model as a folder that plain `transformers` loads.

        The maps are folded into the weights where that is exact. Others are refused, unless `hook` is true: they are
        then kept beside the weights, where `eh.open` finds them and plain transformers does not.

        Args:
            folder: where to write; the folder is complete or absent.
            decoder: `untied` separates an output layer that shares the word table first; `tied` changes it too.
            hook: keep maps beside the weights that cannot be folded.
        """
        from evenhand.models.encoders.saving import save_changed

        first = self._unchanged
        foreign = [change for change in self.changes if not hasattr(change, "maps")]
        if foreign:
            raise UsageError(f"{foreign[0]!r} is not a map at a site, so {self.name} cannot be saved with it")
        maps = [each for change in self.changes for each in getattr(change, "maps", ())]
        record = {"changes": [change.describe() for change in self.changes]}
        return save_changed(first.transformer, maps, Path(folder), decoder=decoder, hook=hook, record=record)

    @property
    def _unchanged(self) -> TransformerSubject:
        """The subject before the first change."""
        first: TransformerSubject = self
        while first._before is not None:
            first = first._before
        return first

    @cached_property
    def digest(self) -> str:
        """Hash of the stored content and of every change."""
        content = self._content_digest()
        if not self.changes:
            return content
        return hashlib.sha256(repr([content, *(change.digest for change in self.changes)]).encode()).hexdigest()

    def describe(self) -> dict[str, Any]:
        """Name, hash and changes."""
        plain = super().describe()
        return plain | {"changes": [change.describe() for change in self.changes]} if self.changes else plain

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process opens the same address, and applies the changes again."""
        return (_change_again, (self._unchanged, self.changes)) if self.changes else super().__reduce__()


def resolve(device: str | None, precision: str | None, *, supported: Sequence[str] = PRECISIONS) -> tuple[str, str]:
    """Return the device and the precision that are meant; raise `UsageError` when a subject is opened, not later."""
    where = resolve_device(device or "auto")
    return where, resolve_precision(precision or "auto", where, supported=supported)


def _change_again(subject: TransformerSubject, changes: tuple[ModelChange, ...]) -> TransformerSubject:
    for change in changes:
        subject = subject.changed(change)
    return subject
