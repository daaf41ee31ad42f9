"""An ELMo model as a subject."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self, cast

from evenhand.errors import EvenhandError, FormatError, InputMissingError, UsageError
from evenhand.files import existing
from evenhand.models.device import device_kind
from evenhand.models.encoders.elmo.encoder import EMBEDDINGS, Elmo, ElmoSentences, RowMap, word_vectors
from evenhand.models.encoders.elmo.files import PUBLISHED, ElmoFiles, locate_files
from evenhand.models.model_files import read_json
from evenhand.models.vectors import Vectors
from evenhand.models.vectors.formats import format_for_writing
from evenhand.subjects.subject import MODEL_NUMERICS, SUBJECTS, Address, Change, Subject, ViewName, files_digest
from evenhand.subjects.transformer_subjects import resolve
from evenhand.subjects.vectors import WrittenVectors


@SUBJECTS.register("elmo")
class ElmoSubject(Subject):
    """An ELMo model. It offers `sentences`, by layer and as a mix, and token vectors of words as `vectors`.

    Layers 0 to N of the sentences are those of the model; the next and last one is their mean, which is the scalar mix
    with equal scores. A model reads any word, so the vocabulary of `vectors` is a list: that of the embedded vectors,
    or a file with one word per line.

    Attributes:
        maps: maps by site, see `Elmo`.
    """

    kind = "elmo"
    title = "an ELMo model"
    opens = "elmo:FOLDER"
    changeable = ("vectors",)
    options: ClassVar[tuple[str, ...]] = ("device", "precision", "vocabulary")
    on_engine: ClassVar[tuple[ViewName, ...]] = ("sentences",)
    libraries: ClassVar[tuple[str, ...]] = MODEL_NUMERICS

    def __init__(
        self,
        files: ElmoFiles,
        address: str = "",
        *,
        device: str | None = None,
        precision: str | None = None,
        vocabulary: str | Path | None = None,
        maps: Mapping[str, RowMap] | None = None,
    ) -> None:
        super().__init__(files.options.resolve().parent.name, address)
        self.files, self.maps = files, dict(maps or {})
        self._device, self._precision = resolve(device, precision or "float32", supported=("float32", "bfloat16"))
        self._vocabulary = None if vocabulary is None else existing(Path(vocabulary), what="vocabulary")

    @cached_property
    def elmo(self) -> Elmo:
        """The model with its maps, loaded when a view first needs it."""
        return Elmo.load(self.files.weights, device=self._device, precision=self._precision).with_maps(self.maps)

    @property
    def offers(self) -> tuple[ViewName, ...]:
        """Token vectors of words, and sentence vectors."""
        return ("vectors", "sentences")

    def _open_view(self, name: ViewName) -> Vectors | ElmoSentences:
        if name == "sentences":
            return ElmoSentences(self.elmo, mix=[0.0] * (self.elmo.layers + 1))
        return word_vectors(self.elmo, self._words())

    def _words(self) -> Sequence[str]:
        if self._vocabulary is None:
            return Vectors.default().words
        text = self._vocabulary.read_text(encoding="utf-8")
        words = [word for line in text.splitlines() if (word := line.strip())]
        if not words:
            raise FormatError(f"{self._vocabulary}: no words", hint="write one word per line")
        return words

    def changed(self, change: Change | RowMap | Mapping[str, RowMap]) -> Self:
        """Return the model with a further map, or with maps by site; this one stays as it is.

        A map alone acts on the token vectors before the biLSTM, those that the view `vectors` shows: all layers feel
        it. Maps at `layer:0`, `layer:1` ... act on the layers after the whole pass. A map at a site that has one
        already follows it.
        """
        added = dict(change) if isinstance(change, Mapping) else {EMBEDDINGS: change}
        for site, new in added.items():
            if site in self.maps:
                added[site] = _chain(new, self.maps[site], site)
        after = self._copy()
        after.maps = self.maps | added
        vars(after)["elmo"] = self.elmo.with_maps(after.maps)  # refuses unknown sites; the weights are shared
        return after

    def check_output(self, out: Path, **options: object) -> None:
        """Raise if the suffix names no format of word vectors."""
        format_for_writing(out)

    def save(self, out: str | os.PathLike[str], **options: object) -> WrittenVectors:
        """Write the token vectors of the vocabulary, after the maps, as word vectors."""
        vectors: Vectors = self.view("vectors")
        vectors.save(Path(out))
        return WrittenVectors(len(vectors), vectors.dim)

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process opens the same address, and puts the maps in again."""
        reopen, arguments = super().__reduce__()
        return (_change_again, (arguments, self.maps)) if self.maps else (reopen, arguments)

    @property
    def opening(self) -> dict[str, object]:
        """Where the model runs and how precisely; the vocabulary is part of the content."""
        return {"device": device_kind(self._device), "precision": self._precision}

    def _content_digest(self) -> str:
        paths = [*self.files, *([self._vocabulary] if self._vocabulary else [])]
        parts = [files_digest(iter(paths)), *(f"{site} {_digest(self.maps[site], site)}" for site in sorted(self.maps))]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest() if self.maps else parts[0]

    def describe(self) -> dict[str, object]:
        """Name, hash, source of the vocabulary and maps."""
        vocabulary = str(self._vocabulary) if self._vocabulary else "words of the embedded vectors"
        plain = super().describe() | {"vocabulary": vocabulary}
        return plain | {"maps": {site: _digest(self.maps[site], site) for site in self.maps}} if self.maps else plain

    @classmethod
    def recognise(cls, address: Address) -> str:
        """A folder with options and weights, or a published weights file."""
        if address.scheme or not (address.path.is_dir() or address.path.name.endswith("weights.hdf5")):
            return ""
        files = locate_files(address.path) if address.path.exists() else None
        try:
            content = read_json(files.options) if files else {}
        except EvenhandError:
            content = {}
        return "its options name a character CNN and LSTM layers" if {"lstm", "char_cnn"} <= content.keys() else ""

    @classmethod
    def from_address(cls, address: Address, **options: Any) -> ElmoSubject:
        """Open the model; weights are read when a view needs them."""
        files = locate_files(address.path) if address.path.exists() else None
        if files is None:
            raise InputMissingError(
                f"{address.path}: no ELMo model there",
                hint=f"a folder holds options.json and weights, or NAME{PUBLISHED[0]} and NAME{PUBLISHED[1]}",
            )
        return cls(files, address.text, **options)


def _change_again(arguments: tuple[object, ...], maps: Mapping[str, RowMap]) -> Subject:
    from evenhand.subjects.opening import reopen

    return cast(ElmoSubject, reopen(*arguments)).changed(maps)


def _digest(change: RowMap, site: str) -> str:
    digest = getattr(change, "digest", None)
    if not isinstance(digest, str):
        raise UsageError(f"the map at {site} has no digest", hint="use a VectorMap")
    return digest


def _chain(second: RowMap, first: RowMap, site: str) -> RowMap:
    """Return the map that applies the first, then the second."""
    chain: RowMap = getattr(second, "__matmul__", lambda other: NotImplemented)(first)
    if chain is NotImplemented:
        raise UsageError(f"the maps at {site} cannot be chained", hint="use a VectorMap")
    return chain
