"""Word vectors as a subject: a file, a catalog id, or `Vectors` in memory."""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from evenhand.errors import FormatError
from evenhand.models.encoders.sentences import AveragedVectors
from evenhand.models.nli import NLIEnsemble
from evenhand.models.vectors import Vectors
from evenhand.models.vectors.formats import FORMATS
from evenhand.subjects.embedded_nli import EmbeddedModels, find_models
from evenhand.subjects.subject import SUBJECTS, Address, Subject, VectorChange, ViewName

DEFAULT = "glove-embedded"
BLOCK = 50_000  # rows hashed at a time


@SUBJECTS.register("vectors")
class VectorsSubject(Subject):
    """Word vectors, and the sentence vectors that their averages are.

    The embedded vectors, and what a method makes of them, also offer the embedded NLI models.
    """

    kind = "vectors"
    title = "word vectors"
    changed_by_default = True
    options: ClassVar[tuple[str, ...]] = ("case", "format", "encoding_errors", "vocabulary", "allow_pickle")

    def __init__(self, vectors: Vectors, address: str = "") -> None:
        super().__init__(vectors.name, address)
        self.vectors = vectors

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
    def opening(self) -> dict[str, Any]:
        """How words are looked up. Format, encoding and vocabulary show in the words and the matrix."""
        return {"case": self.vectors.case, "language": self.vectors.language}

    def _content_digest(self) -> str:
        hasher = hashlib.sha256("\n".join(self.vectors.words).encode(errors="surrogatepass"))
        for start in range(0, len(self.vectors), BLOCK):
            hasher.update(np.ascontiguousarray(self.vectors.matrix[start : start + BLOCK]).data)
        return hasher.hexdigest()

    def describe(self) -> dict[str, Any]:
        """Name, size, hash, source and history."""
        plain = super().describe()
        read = {"format": self.vectors.source.get("format"), "encoding_errors": "strict"} if self.address else {}
        return plain | {
            "opening": read | plain["opening"],
            "words": len(self.vectors),
            "dimensions": self.vectors.dim,
            "case": self.vectors.case,
            "source": dict(self.vectors.source),
            "history": [dict(step) for step in self.vectors.history],
        }

    def changed(self, change: VectorChange) -> VectorsSubject:
        """Return the subject whose vectors the change was applied to."""
        return VectorsSubject(change(self.vectors))  # without the address, which opens the original

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
