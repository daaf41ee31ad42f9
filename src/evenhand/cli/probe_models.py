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
AT_TEST_TIME = "the map is applied at test time only: the models were trained without it"
PERHAPS_AT_TEST_TIME = "the map is applied at test time only, unless the models were trained with it"
OTHER_VECTORS = "the embedded models read vectors that they were not trained on"


@dataclass(frozen=True)
class Chosen:
    """The models of one condition, and what a reader must know of what they read."""

    condition: str
    models: tuple[Any, ...]
    reading: str = ""


def chosen(texts: list[str], *, vectors: str, map_file: Path | None, device: str, labels: str | None) -> Chosen:
    """The models that the arguments name, in their order; vectors are loaded where a model reads some."""
    read = _Reading(vectors, map_file)
    models = [model for text in texts for model in _models(text, read, device, labels)]
    ours = any(text in EMBEDDED for text in texts)
    notes = [AT_TEST_TIME if ours else PERHAPS_AT_TEST_TIME] if map_file and read.used else []
    if ours and vectors != "glove-embedded":
        notes.append(OTHER_VECTORS)
    named = ", ".join(f"embedded:{EMBEDDED[text]}" if text in EMBEDDED else Path(text).name for text in texts)
    return Chosen(named, tuple(models), "; ".join(notes))


def refuse_compare(compare: bool, given: list[str] | None) -> None:
    """An error where there is nothing to compare with: only the embedded models come in two kinds."""
    if compare and (given or ["embedded"]) not in (["embedded"], ["embedded:original"]):
        raise UsageError(
            f"--compare is for the embedded models, not for {', '.join(given or [])}",
            hint="probe your own models before and after, with --json, and compare the scores",
        )


class _Reading:
    """The vectors to read, loaded when the first model asks for them."""

    def __init__(self, source: str, map_file: Path | None) -> None:
        self.source, self.map_file, self.used = source, map_file, False
        self._mapped: Vectors | None = None

    def vectors(self) -> Vectors:
        if self._mapped is None:
            self._mapped, self.used = self._loaded(), True
        return self._mapped

    def _loaded(self) -> Vectors:
        found = load(self.source)
        if self.map_file is None:
            return found
        from evenhand.mitigations import VectorMap

        return VectorMap.load(self.map_file)(found)


def _models(text: str, read: _Reading, device: str, labels: str | None) -> tuple[Any, ...]:
    from evenhand.models.nli import PredictionsFile

    if text in EMBEDDED:
        from evenhand.measures.inference import embedded

        return embedded(EMBEDDED[text], vectors=read.vectors(), device=device)  # type: ignore[arg-type]
    if text.startswith(HUGGING_FACE) or (Path(text) / "config.json").is_file():
        from evenhand.models.nli.transformer import from_text

        return (from_text(text, device=device, labels=_order(labels) if labels else None),)
    if text.lower().endswith(PREDICTIONS):
        return (PredictionsFile(Path(text)),)
    if text.lower().endswith(".safetensors"):
        from evenhand.models.nli.loading import load as load_model

        return (load_model(Path(text), read.vectors(), device=device),)
    raise UsageError(
        f"{text!r} is no model file",
        hint="give a .safetensors model, hf:FOLDER, predictions as .jsonl or .csv, or embedded",
    )


def _order(text: str) -> tuple[str, ...]:
    """`c,n,e` or the three names, in the order of the model's outputs."""
    names = [part.strip().lower() for part in text.split(",")]
    order = tuple(LETTERS.get(name, name) for name in names)
    if sorted(order) != sorted(LETTERS.values()):
        raise UsageError(f"{text!r} is no order of labels", hint="name each once, such as --labels c,n,e")
    return order
