"""Word vectors as a subject: a file, a catalog id, or `Vectors` in memory."""

from __future__ import annotations

import hashlib
import os
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Protocol, cast, overload

import numpy as np

from evenhand.errors import FormatError
from evenhand.models.encoders.sentences import AveragedVectors
from evenhand.models.nli import NLIEnsemble
from evenhand.models.vectors import Vectors
from evenhand.models.vectors.formats import FORMATS, format_for_writing
from evenhand.subjects.embedded_nli import EmbeddedModels, find_models
from evenhand.subjects.subject import SUBJECTS, Address, AnySubject, Change, Subject, ViewName

DEFAULT = "glove-embedded"
BLOCK = 50_000  # rows hashed at a time


class VectorChange(Change, Protocol):
    """A fitted change of vectors: a `VectorMap`."""

    @overload
    def __call__(self, x: Vectors, /) -> Vectors: ...
    @overload
    def __call__(self, x: AnySubject, /) -> AnySubject: ...

    @property
    def in_dim(self) -> int | None:
        """The number of coordinates it takes; None for any number."""

    def out_dim_of(self, dim: int) -> int | None:
        """Return the number of coordinates of the result for an input of `dim`."""

    def write(self, vectors: Vectors, path: Path) -> Path:
        """Write the changed vectors block by block; the result is never held in memory."""


@dataclass(frozen=True)
class WrittenVectors:
    """The vectors that were written."""

    words: int
    dimensions: int

    def to_dict(self) -> dict[str, object]:
        """Return plain data for JSON."""
        return asdict(self)


@SUBJECTS.register("vectors")
class VectorsSubject(Subject):
    """Word vectors, and the sentence vectors that their averages are.

    The embedded vectors, and what a method makes of them, also offer the embedded NLI models.
    """

    kind = "vectors"
    title = "word vectors"
    opens = "a vector file or catalog id"
    changed_by_default = True
    changeable = ("vectors",)
    options: ClassVar[tuple[str, ...]] = ("case", "format", "encoding_errors", "vocabulary", "allow_pickle")

    def __init__(self, vectors: Vectors, address: str = "") -> None:
        super().__init__(vectors.name, address)
        self._stored = vectors

    @classmethod
    def from_object(cls, source: object, **options: object) -> VectorsSubject | None:
        """Wrap `Vectors`."""
        return cls(source) if isinstance(source, Vectors) else None

    @cached_property
    def vectors(self) -> Vectors:
        """The vectors after all changes."""
        return self._last_change(self._before.vectors) if self._before else self._stored

    @property
    def _last_change(self) -> VectorChange:
        return cast(VectorChange, self.changes[-1])

    @cached_property
    def _models(self) -> EmbeddedModels | None:
        return find_models(self.vectors)

    @property
    def offers(self) -> tuple[ViewName, ...]:
        """Vectors, sentences by averaging, and inference where the embedded models can read them."""
        return ("vectors", "inference", "sentences") if self._models else ("vectors", "sentences")

    @property
    def asked_by_default(self) -> tuple[ViewName, ...]:
        """All views but sentences: an average of word vectors adds little to what the word measures say.

        A measure of sentences is asked where it is named, or where another subject of the same audit is asked it.
        """
        return tuple(view for view in self.offers if view != "sentences")

    def _open_view(self, name: ViewName) -> Vectors | NLIEnsemble | AveragedVectors:
        if name == "inference" and self._models:
            return self._models.ensemble(self.vectors)
        return AveragedVectors(self.vectors) if name == "sentences" else self.vectors

    @property
    def opening(self) -> dict[str, object]:
        """How words are looked up. Format, encoding and vocabulary show in the words and the matrix."""
        return {"case": self.vectors.case, "language": self.vectors.language}

    @cached_property
    def digest(self) -> str:
        """Hash of words and numbers, after all changes."""
        return self._content_digest()

    def _content_digest(self) -> str:
        hasher = hashlib.sha256("\n".join(self.vectors.words).encode(errors="surrogatepass"))
        for start in range(0, len(self.vectors), BLOCK):
            hasher.update(np.ascontiguousarray(self.vectors.matrix[start : start + BLOCK]).data)
        return hasher.hexdigest()

    def describe(self) -> dict[str, object]:
        """Name, size, hash, source and history."""
        return super().describe() | {
            "words": len(self.vectors),
            "dimensions": self.vectors.dim,
            "case": self.vectors.case,
            "source": dict(self.vectors.source),
            "history": [dict(step) for step in self.vectors.history],
        }

    def _apply(self, change: Change) -> None:
        self.address = ""  # it opens the original
        before, fitted = (self._before or self).vectors, self._last_change
        if fitted.in_dim not in (None, before.dim):
            fitted(before)  # raises an error that says what it takes

    def _opened_by(self) -> dict[str, object]:
        read = {"format": self.vectors.source.get("format"), "encoding_errors": "strict"} if self.address else {}
        return read | super()._opened_by()

    def check_output(self, out: Path, **options: object) -> None:
        """Raise if the suffix names no format that can be written."""
        format_for_writing(out)

    def save(self, out: str | os.PathLike[str], **options: object) -> WrittenVectors:
        """Write the vectors in the format of the suffix, with their history; into .safetensors block by block."""
        path = Path(out)
        if self._before and "vectors" not in vars(self) and format_for_writing(path).id == "safetensors":
            before = self._before.vectors
            self._last_change.write(before, path)  # the result need not fit into memory
            return WrittenVectors(len(before), self._last_change.out_dim_of(before.dim) or 0)
        self.vectors.save(path)
        return WrittenVectors(len(self.vectors), self.vectors.dim)

    @classmethod
    def recognise(cls, address: Address) -> str:
        """A vector file by its suffix, or a catalog id of vectors."""
        if address.entry_kind == cls.kind or address.rest == DEFAULT:
            return "it is the catalog id of vectors"
        suffixes = {suffix for format in FORMATS.values() for suffix in format.suffixes} - {".safetensors"} | {".kv"}
        if suffix := address.named(*suffixes):
            return f"its name ends in {suffix}"
        return "it holds word vectors" if _is_vector_tensors(address) else ""

    @classmethod
    def from_address(cls, address: Address, **options: Any) -> VectorsSubject:
        """Load the vectors."""
        given = {name: value for name, value in options.items() if value is not None}
        try:
            return cls(Vectors.load(address.rest, **given), address.text)
        except FormatError as error:
            if address.scheme or not address.named(".txt"):
                raise
            raise FormatError(
                f"{error.message}; {address.rest} was read as word vectors, because its name ends in .txt",
                hint=f"if it is text, name it corpus:{address.rest}; if it holds vectors: {error.hint}",
            ) from error


def _is_vector_tensors(address: Address) -> bool:
    """Whether a .safetensors file has no metadata of an NLI model or a map."""
    from evenhand.models.nli.over_vectors import is_model_file

    return bool(address.named(".safetensors")) and address.path.is_file() and not is_model_file(address.path)
