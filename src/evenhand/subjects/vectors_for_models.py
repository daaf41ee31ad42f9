"""The vectors, and the ELMo, that stored NLI models read: those they were trained on, or others that are named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from evenhand import data
from evenhand.errors import InputMissingError, UsageError
from evenhand.models.encoders.elmo.files import locate_files
from evenhand.models.nli.over_vectors import ModelFile
from evenhand.models.vectors import Vectors
from evenhand.subjects.subject import VectorChange

if TYPE_CHECKING:
    from evenhand.models.encoders.elmo.encoder import Elmo, RowMap
    from evenhand.models.nli.elmo import ElmoNLI

DEFAULT_VECTORS = "glove-embedded"
AT_TEST_TIME = "the vectors are mapped at test time only: the models were not trained on vectors mapped this way"
PERHAPS_AT_TEST_TIME = "the vectors are mapped at test time only, unless the models were trained so: no file says"
TRAINED_SO = "the models were trained on vectors mapped by the same map"
OTHER_VECTORS = "the embedded models read vectors that they were not trained on"


class VectorsForModels:
    """The vectors or the ELMo model that models read, loaded when the first needs them, with notes on how they fit."""

    def __init__(self, source: str, change: VectorChange | None) -> None:
        self.source, self.change = source, change
        self.notes: list[str] = []
        self._vectors: Vectors | None = None
        self._elmo: Elmo | None = None

    @property
    def digest(self) -> str:
        """Hash of what was read; empty when no model reads any vectors."""
        if self._elmo is not None:
            return self._elmo.digest
        if self._vectors is None:
            return ""
        from evenhand.subjects.vectors import VectorsSubject

        read = VectorsSubject(self._vectors)
        return f"{read.digest} {read.opening}"

    def load(self) -> Vectors:
        """Return the vectors, mapped where a map was given."""
        if self._vectors is None:
            loaded = Vectors.load(self.source)
            self._vectors = self.change(loaded) if self.change else loaded
        return self._vectors

    def for_embedded(self) -> Vectors:
        """Return the vectors for the embedded models, which were trained on the embedded vectors."""
        self.notes += [AT_TEST_TIME] if self.change else []
        self.notes += [OTHER_VECTORS] if self.source != DEFAULT_VECTORS else []
        return self.load()

    def for_model(self, config: dict[str, Any]) -> Vectors:
        """Return the vectors for a model whose file may name the methods its training vectors had gone through."""
        vectors, trained = self.load(), config.get("words")
        if not isinstance(trained, dict) or "history" not in trained:
            self.notes += [PERHAPS_AT_TEST_TIME] if self.change else []
            return vectors
        steps = _plain(vectors.history)
        if _plain(trained["history"]) == steps:
            self.notes += [TRAINED_SO] if self.change else []
            if trained.get("name", vectors.name) != vectors.name:
                self.notes.append(f"a model was trained on the vectors {trained['name']} and reads {vectors.name}")
        elif steps:
            self.notes.append(AT_TEST_TIME)
        else:
            methods = ", ".join(str(step.get("method", "a map")) for step in trained["history"])
            self.notes.append(
                f"a model was trained on vectors after {methods} and reads others: give the same `change=`"
            )
        return vectors

    def model_over_elmo(self, file: ModelFile, path: Path, device: str) -> ElmoNLI:
        """Build a model over the ELMo model that is named, or that lies beside the file or one folder above.

        A map acts on the token vectors, before the language model.
        """
        from evenhand.models.encoders.elmo.encoder import EMBEDDINGS, Elmo
        from evenhand.models.nli.elmo import ElmoNLI

        if self._elmo is None:
            where = "cpu" if device in ("numpy", "torch") else device.removeprefix("torch:")
            self._elmo = Elmo.load(self._elmo_folder(file, path), device=where)
            if self.change is not None:
                self._elmo = self._elmo.with_maps({EMBEDDINGS: cast("RowMap", self.change)})
        elmo, trained = self._elmo, file.config.get("elmo_maps")
        if file.config.get("elmo_sha256", elmo.weights_digest) != elmo.weights_digest:
            self.notes.append(f"a model was trained over another ELMo model than {elmo.name}")
        if trained == elmo.map_digests:
            self.notes += [TRAINED_SO] if self.change else []
        elif self.change:
            self.notes.append(AT_TEST_TIME if isinstance(trained, dict) else PERHAPS_AT_TEST_TIME)
        elif trained:
            sites = ", ".join(trained) if isinstance(trained, dict) else "a site"
            self.notes.append(
                f"a model was trained over ELMo with maps at {sites} and reads it without: give `change=`"
            )
        return ElmoNLI.build(file, elmo, path=path)

    def _elmo_folder(self, file: ModelFile, path: Path) -> Path:
        from evenhand.subjects.opening import parse_address

        if self.source != DEFAULT_VECTORS:
            return parse_address(self.source).path
        name = str(file.config.get("elmo") or "elmo")
        candidates = [folder / name for folder in (path.absolute().parent, path.absolute().parent.parent)]
        found = next((folder for folder in candidates if locate_files(folder) is not None), None)
        if found is None and name in data.catalog():
            found = data.locate(name)
        if found is None:
            raise InputMissingError(
                f"{path} reads the ELMo model {name!r}, and neither {candidates[0]} nor {candidates[1]} holds one",
                hint="name its folder: `vectors=FOLDER`",
            )
        return found

    def require_used(self) -> None:
        """Raise if vectors or a map were given that no model reads."""
        given = [
            name
            for name, present in (("`change=`", self.change), ("`vectors=`", self.source != DEFAULT_VECTORS))
            if present
        ]
        if given and self._vectors is None and self._elmo is None:
            raise UsageError(
                f"{' and '.join(given)} has no effect: none of the models reads word vectors",
                hint="leave it out; .safetensors models and the embedded models read vectors",
            )


def _plain(history: Any) -> Any:
    """Return a history as JSON gives it back, where tuples and numpy numbers have become plain data."""
    from evenhand.models.vectors.formats.format import as_json

    return json.loads(as_json(list(history)))
