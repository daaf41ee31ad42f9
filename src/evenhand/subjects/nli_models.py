"""Which models the words after `evenhand probe` mean."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand.cli.options import load
from evenhand.errors import UsageError

if TYPE_CHECKING:
    from evenhand.models.vectors import Vectors


EMBEDDED = {"embedded": "original", "embedded:original": "original", "embedded:projected": "projected"}
PREDICTIONS = tuple(name + packed for name in (".jsonl", ".csv") for packed in ("", ".gz", ".zst", ".bz2", ".xz"))
HUGGING_FACE = "hf:"
LETTERS = {"e": "entailment", "n": "neutral", "c": "contradiction"}


@dataclass(frozen=True)
class Chosen:
    """The models of one condition, and what a reader must know of what they read."""

    condition: str
    models: tuple[Any, ...]
    reading: str = ""


def chosen(texts: list[str], *, vectors: str, map_file: Path | None, device: str, labels: str | None) -> Chosen:
    """The models that the arguments name, in their order; vectors are loaded where a model reads some."""
    read = Reading(vectors, map_file)
    models = [model for text in texts for model in _models(text, read, device, labels)]
    read.refuse_unused()
    if labels and not any(map(_is_hugging_face, texts)):
        raise UsageError(f"labels {labels}: the outputs of a Hugging Face model are ordered so, and none is asked")
    named = ", ".join(f"embedded:{EMBEDDED[text]}" if text in EMBEDDED else Path(text).name for text in texts)
    return Chosen(named, tuple(models), "; ".join(dict.fromkeys(read.notes)))


def refuse_compare(compare: bool, given: list[str] | None) -> None:
    """An error where there is nothing to compare with: only the embedded models come in two kinds."""
    if compare and (given or ["embedded"]) not in (["embedded"], ["embedded:original"]):
        raise UsageError(
            f"--compare is for the embedded models, not for {', '.join(given or [])}",
            hint="probe your own models before and after, with --json, and compare the scores",
        )


def _is_hugging_face(text: str) -> bool:
    return text.startswith(HUGGING_FACE) or (Path(text) / "config.json").is_file()


def _models(text: str, read: Reading, device: str, labels: str | None) -> tuple[Any, ...]:
    if text in EMBEDDED:
        from evenhand.measures.inference import embedded

        return embedded(EMBEDDED[text], vectors=read.by_embedded(), device=device)  # type: ignore[arg-type]
    if _is_hugging_face(text):
        from evenhand.models.nli.transformer.model import from_text

        return (from_text(text, device=device, labels=_order(labels) if labels else None),)
    if text.lower().endswith(PREDICTIONS):
        from evenhand.models.nli import PredictionsFile

        return (PredictionsFile(Path(text)),)
    if text.lower().endswith(".safetensors"):
        from evenhand.models.nli.loading import built
        from evenhand.models.nli.model_file import read as read_file

        found = read_file(Path(text))
        return (built(found, read.by_model_of(found.config), path=Path(text), device=device),)
    raise UsageError(
        f"{text!r} is no model file",
        hint="give a .safetensors model, hf:FOLDER, predictions as .jsonl or .csv, or embedded"
        + ("; a probe is named by --probe" if text.lower().endswith((".toml", ".json")) else ""),
    )


def _order(text: str) -> tuple[str, ...]:
    """`c,n,e` or the three names, in the order of the model's outputs."""
    names = [part.strip().lower() for part in text.split(",")]
    order = tuple(LETTERS.get(name, name) for name in names)
    if sorted(order) != sorted(LETTERS.values()):
        raise UsageError(f"{text!r} is no order of labels", hint="name each once, such as --labels c,n,e")
    return order


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
