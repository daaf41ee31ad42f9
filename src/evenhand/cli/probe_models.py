"""Which models the words after `evenhand probe` mean."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenhand.cli.probe_vectors import Reading
from evenhand.errors import UsageError

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
        from evenhand.models.nli.transformer import from_text

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
