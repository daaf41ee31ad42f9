"""The vectors that NLI models read, and whether they are those that the models were trained on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand.cli.options import load
from evenhand.errors import UsageError

if TYPE_CHECKING:
    from evenhand.models.vectors import Vectors

DEFAULT_VECTORS = "glove-embedded"
AT_TEST_TIME = "the vectors are mapped at test time only: the models were not trained on vectors mapped so"
PERHAPS_AT_TEST_TIME = "the vectors are mapped at test time only, unless the models were trained so: no file tells"
TRAINED_SO = "the models were trained on vectors mapped by the same map"
OTHER_VECTORS = "the embedded models read vectors that they were not trained on"


def mapped(source: str, map_file: Path | None) -> Vectors:
    """Vectors from a file or id, behind a fitted map where one is given."""
    found = load(source)
    if map_file is None:
        return found
    from evenhand.mitigations import VectorMap

    return VectorMap.load(map_file)(found)


class Reading:
    """The vectors to read, loaded when the first model asks for them, and what is to be said of reading them."""

    def __init__(self, source: str, map_file: Path | None) -> None:
        self.source, self.map_file = source, map_file
        self.notes: list[str] = []
        self._mapped: Vectors | None = None

    def vectors(self) -> Vectors:
        """The vectors, mapped where a map was given."""
        if self._mapped is None:
            self._mapped = mapped(self.source, self.map_file)
        return self._mapped

    def by_embedded(self) -> Vectors:
        """For models of ours, which were trained on the embedded vectors."""
        self.notes += [AT_TEST_TIME] if self.map_file else []
        self.notes += [OTHER_VECTORS] if self.source != DEFAULT_VECTORS else []
        return self.vectors()

    def by_model_of(self, config: dict[str, Any]) -> Vectors:
        """For a model whose file may say which methods had been applied to the vectors it was trained on."""
        found, trained = self.vectors(), config.get("words")
        if not isinstance(trained, dict) or "history" not in trained:
            self.notes += [PERHAPS_AT_TEST_TIME] if self.map_file else []
            return found
        steps = _steps(found.history)
        if _steps(trained["history"]) == steps:
            self.notes += [TRAINED_SO] if self.map_file else []
            if trained.get("name", found.name) != found.name:
                self.notes.append(f"a model was trained on the vectors {trained['name']}, and reads {found.name}")
        elif steps:
            self.notes.append(AT_TEST_TIME)
        else:
            methods = ", ".join(str(step.get("method", "a map")) for step in trained["history"])
            self.notes.append(f"a model was trained on vectors after {methods}, and reads others: give the same --map")
        return found

    def refuse_unused(self) -> None:
        """An error for vectors or a map that no model reads: the scores would not be those asked for."""
        given = [
            name for name, here in (("--map", self.map_file), ("--vectors", self.source != DEFAULT_VECTORS)) if here
        ]
        if given and self._mapped is None:
            raise UsageError(
                f"{' and '.join(given)} changes nothing: none of the models reads word vectors",
                hint="leave it out; vectors are read by .safetensors models and by embedded",
            )


def _steps(history: Any) -> Any:
    """A history as it comes back from a file, where tuples and numpy's numbers have become JSON."""
    import json

    from evenhand.models.vectors.history import as_json

    return json.loads(as_json(list(history)))
