"""Opening a causal language model from local files that cannot run code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from evenhand.errors import FormatError, InputMissingError, require


def read_folder(folder: Path, dtype: Any) -> tuple[Any, Any]:
    """Model and tokenizer of a folder, or of a GGUF file."""
    if not folder.exists():
        raise InputMissingError(
            f"there is no model at {str(folder)!r}", hint="name a folder that save_pretrained wrote, or a .gguf file"
        )
    transformers = require("transformers", extra="models")
    packed = [folder] if folder.is_file() else sorted(folder.glob("*.gguf"))
    if packed and not (folder / "config.json").is_file():
        from evenhand.models.lm.gguf_llama import read_gguf

        with _quiet(transformers):
            return read_gguf(packed[0], dtype)
    _check(folder)
    from safetensors import SafetensorError

    local = {"local_files_only": True, "trust_remote_code": False}
    find = transformers.AutoModelForCausalLM.from_pretrained
    try:
        with _quiet(transformers):
            model = find(folder, dtype=dtype, use_safetensors=True, **local)
        return model, transformers.AutoTokenizer.from_pretrained(folder, **local)
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise FormatError(
            f"{folder}: transformers cannot open a causal language model and its tokenizer here ({error})",
            hint="write the folder with model.save_pretrained(...) and tokenizer.save_pretrained(...)",
        ) from error


@contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """Without the bar that the library draws even where nobody watches."""
    told = transformers.utils.logging
    shown = told.is_progress_bar_enabled()
    told.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            told.enable_progress_bar()


def _check(folder: Path) -> None:
    if not (folder / "config.json").is_file():
        raise FormatError(
            f"{folder}: no config.json, so that this is no model folder",
            hint="name a folder that save_pretrained wrote",
        )
    if not any(folder.glob("*.safetensors")):
        pickled = ", ".join(sorted(path.name for path in (*folder.glob("*.bin"), *folder.glob("*.pt")))[:3])
        raise FormatError(
            f"{folder}: no weights as safetensors" + (f", only {pickled}, which may run code" if pickled else ""),
            hint="if you trust the file, load it with transformers and write it anew with save_pretrained",
        )
