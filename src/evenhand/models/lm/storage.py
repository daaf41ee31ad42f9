"""A language model as a folder: weights (safetensors), settings and manifest (JSON), one word a line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evenhand.errors import FormatError, InputMissingError
from evenhand.files import existing, write_text, writing
from evenhand.models.lm.awd_lstm import AWDLSTM
from evenhand.models.lm.settings import Settings
from evenhand.models.lm.vocabulary import TokenVocabulary

FORMAT = 1
KIND = "awd-lstm"
WEIGHTS, CONFIG, WORDS = "model.safetensors", "config.json", "vocabulary.txt"


def save(
    model: AWDLSTM, vocabulary: TokenVocabulary, folder: str | Path, *, manifest: Mapping[str, Any] | None = None
) -> Path:
    """Write the three files; the config comes last, so that a folder with one is whole."""
    from safetensors.torch import save as to_bytes

    place = Path(folder)
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in model.named_parameters()}
    with writing(place / WEIGHTS) as out:
        out.write(to_bytes(tensors))
    write_text(place / WORDS, "".join(f"{word}\n" for word in vocabulary.words))
    about = {"format": FORMAT, "kind": KIND, "words": len(vocabulary), "settings": model.settings.to_dict()}
    write_text(place / CONFIG, json.dumps({**about, "manifest": dict(manifest or {})}, indent=1) + "\n")
    return place


def is_saved(folder: str | Path) -> bool:
    """Whether a folder holds a model of this kind."""
    path = Path(folder) / CONFIG
    try:
        return path.is_file() and json.loads(path.read_text(encoding="utf-8")).get("kind") == KIND
    except (OSError, ValueError, AttributeError):
        return False


def load(folder: str | Path, *, device: str = "cpu") -> tuple[AWDLSTM, TokenVocabulary, dict[str, Any]]:
    """Read model, vocabulary and manifest back; anything missing or misshapen is an error that names the file."""
    place = Path(folder)
    if not place.is_dir():
        raise InputMissingError(f"folder {str(place)!r} does not exist", hint="name a folder written by `lm train`")
    about = _about(place / CONFIG)
    words = existing(place / WORDS, what="vocabulary").read_bytes().decode().split("\n")[:-1]
    vocabulary = TokenVocabulary(tuple(words))
    if len(vocabulary) != about["words"]:
        raise FormatError(f"{place / WORDS}: {len(vocabulary):,} words, expected {about['words']:,}")
    model = AWDLSTM(len(vocabulary), Settings(**about["settings"]))
    _fill(model, place / WEIGHTS)
    return model.to(device).eval(), vocabulary, dict(about["manifest"])


def _about(path: Path) -> dict[str, Any]:
    try:
        about: dict[str, Any] = json.loads(existing(path, what="config").read_bytes())
        if about["kind"] != KIND or about["format"] != FORMAT:
            raise FormatError(f"{path}: a {about['kind']!r} of format {about['format']}, expected {KIND!r} of {FORMAT}")
        Settings(**about["settings"])
        return {"words": about["words"], "settings": about["settings"], "manifest": about.get("manifest", {})}
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"{path}: not the config of a language model of ours ({error})") from error


def _fill(model: AWDLSTM, path: Path) -> None:
    import torch
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(existing(path, what="model file"), framework="pt") as file, torch.no_grad():
            for name, parameter in model.named_parameters():
                tensor = file.get_tensor(name)
                if tensor.shape != parameter.shape:
                    shapes = f"{tuple(tensor.shape)}, expected {tuple(parameter.shape)}"
                    raise FormatError(f"{path}: the array {name!r} has the shape {shapes}")
                parameter.copy_(tensor)
    except SafetensorError as error:
        raise FormatError(f"{path}: not a whole file of this model ({error})", hint="write it again") from error
