"""The two kinds of language models that the command knows, behind one face: a folder of ours, or of `transformers`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Protocol

from evenhand.errors import UsageError
from evenhand.files import writing


class Opened(Protocol):
    """A model that draws texts and predicts one."""

    tokenised: bool  # whether its texts are words parted by blanks, as its training text is

    def texts(self, samples: int, tokens: int, *, seed: int, progress: Any, **options: Any) -> list[str]:
        """Texts drawn from the model."""

    def perplexity(self, path: str) -> dict[str, Any]:
        """How well it predicts a text file."""

    def describe(self) -> dict[str, Any]:
        """What a record keeps of it."""


class WordLevel:
    """An AWD-LSTM of `evenhand lm train`."""

    tokenised = True

    def __init__(self, folder: Path, device: str) -> None:
        from evenhand.models import lm
        from evenhand.models.device import resolve_device

        self.model, self.vocabulary, self.manifest = lm.load(folder, device=resolve_device(device))

    def texts(self, samples: int, tokens: int, *, seed: int, progress: Any, **options: Any) -> list[str]:
        """One line each, with `<eos>` where a line of the training text would end."""
        from evenhand.models import lm

        chosen = {**options, "start": options.get("start") or "uniform"}
        drawn = lm.generate(
            self.model, self.vocabulary, samples=samples, tokens=tokens, seed=seed, progress=progress, **chosen
        )
        return [" ".join(self.vocabulary.decode(row)) for row in drawn]

    def perplexity(self, path: str) -> dict[str, Any]:
        """By word, which is by token here."""
        from evenhand.models import lm
        from evenhand.models.lm.vocabulary import tokens_of

        numbers = self.vocabulary.encode(tokens_of(Path(path)))
        return {"word": lm.perplexity(self.model, numbers), "tokens": len(numbers) - 1}  # the first is not predicted

    def describe(self) -> dict[str, Any]:
        """Its settings are in its own config."""
        return {"kind": "awd-lstm", "seed": self.manifest.get("seed"), "regulariser": self.manifest.get("regulariser")}


class Causal:
    """A causal language model of `transformers`."""

    tokenised = False

    def __init__(self, folder: Path, device: str, precision: str) -> None:
        from evenhand.models.lm.causal import CausalLM

        self.model = CausalLM(folder, device=device, precision=precision)

    def texts(self, samples: int, tokens: int, *, seed: int, progress: Any, **options: Any) -> list[str]:
        """Texts as they are, line ends included."""
        if options.get("burn_in"):
            raise UsageError(
                "--burn-in is for models of words", hint="leave it out: texts begin as the model begins them"
            )
        kept = {name: options[name] for name in ("temperature", "start", "batch") if options.get(name)}
        return self.model.generate(samples, tokens, seed=seed, progress=progress, **kept)

    def perplexity(self, path: str) -> dict[str, Any]:
        """By token and by word."""
        from evenhand.files import existing

        text = existing(Path(path)).read_text(encoding="utf-8")
        return self.model.perplexity([text]).to_dict()

    def describe(self) -> dict[str, Any]:
        """Kind, size and arithmetic."""
        return self.model.describe()


def opened(model: str, *, device: str, precision: str) -> Opened:
    """The model of a folder or file, or of an id of the catalog that was fetched."""
    from evenhand import data
    from evenhand.models.lm.model_folder import is_saved

    place = Path(model)
    if not place.exists() and model in data.catalog():
        place = data.locate(model) or place
        if not place.exists():
            raise UsageError(f"{model} is not here yet", hint=f"evenhand fetch {model}")
    if place.is_file() and not is_model(model):
        raise UsageError(
            f"{model} is a file, but no model", hint="name a folder of `lm train` or of transformers, or a .gguf file"
        )
    return WordLevel(place, device) if is_saved(place) else Causal(place, device, precision)


def is_model(model: str) -> bool:
    """Whether a name means a model rather than a text."""
    from evenhand import data

    return (
        Path(model).is_dir()
        or model.lower().endswith(".gguf")
        or (not Path(model).exists() and model in data.catalog())
    )


def write_texts(path: Path, texts: list[str]) -> None:
    """One text a line, line ends as blanks; or as JSON lines, where they stay."""
    as_json = path.name.lower().removesuffix(path.suffix if path.suffix in (".gz", ".zst", ".xz", ".bz2") else "")
    with writing(path) as out:
        for text in texts:
            line = (
                json.dumps({"text": text}, ensure_ascii=False) if as_json.endswith(".jsonl") else " ".join(text.split())
            )
            out.write(f"{line}\n".encode())
