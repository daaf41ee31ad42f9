"""A classifier and its tokenizer from a folder on this disk; nothing is downloaded and nothing is unpickled."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evenhand.errors import EvenhandError, FormatError, InputMissingError, require

SAFE = ("*.safetensors", "*.safetensors.index.json")
PICKLED = ("*.bin", "*.pt", "*.pth", "*.ckpt")


def loaded(source: str | os.PathLike[str]) -> tuple[Any, Any]:
    """Model and tokenizer, from a folder that `save_pretrained` wrote or an id that is in the local cache."""
    name = os.fspath(source)
    place = Path(os.path.expanduser(name))  # noqa: PTH111  leaves a home that nobody has as it is
    if place.exists():
        _refuse_unfit(place)
        name = str(place)
    elif name.startswith((".", "/", "~")) or name.count("/") > 1 or not name.strip():
        raise InputMissingError(f"there is no folder {name!r}", hint="check the spelling of the path")
    transformers: Any = require("transformers", extra="models")
    with _quietly(transformers), _told(source):
        model, account = transformers.AutoModelForSequenceClassification.from_pretrained(
            name, local_files_only=True, use_safetensors=True, trust_remote_code=False, output_loading_info=True
        )
        tokenizer = transformers.AutoTokenizer.from_pretrained(name, local_files_only=True, trust_remote_code=False)
    _refuse_untrained(account, name)
    return model, tokenizer


def _refuse_unfit(place: Path) -> None:
    """An error for a folder that holds no model, or one that only unpickling would open."""
    if not place.is_dir():
        raise InputMissingError(f"{place} is a file, not the folder of a model", hint="name the folder it lies in")
    if not (place / "config.json").exists():
        raise InputMissingError(
            f"{place}: no config.json, hence no model", hint="name a folder that save_pretrained wrote"
        )
    if any(next(place.glob(pattern), None) for pattern in SAFE):
        return
    pickled = [file.name for pattern in PICKLED for file in place.glob(pattern)]
    if pickled:
        raise FormatError(
            f"{place}: the weights are a pickle ({pickled[0]}), which can run any code when it is opened",
            hint="where you trust it, load it with transformers and write it again with save_pretrained(folder)",
        )
    raise InputMissingError(f"{place}: no weights (*.safetensors)", hint="fetch the whole folder of the model")


def _refuse_untrained(account: Any, name: str) -> None:
    """An error where `transformers` made up weights, as it does for an encoder without a classifier."""
    made_up = sorted(account["missing_keys"]) + sorted(str(key) for key in account["mismatched_keys"])
    if made_up:
        raise FormatError(
            f"{name}: no weights for {', '.join(made_up[:4])}: it is no trained classifier of sentence pairs",
            hint="take a model that was fine-tuned on natural language inference",
        )


@contextlib.contextmanager
def _told(source: str | os.PathLike[str]) -> Iterator[None]:
    """What `transformers` raises, as an error that says how to get the model."""
    name = os.fspath(source)
    try:
        yield
    except EvenhandError:
        raise
    except OSError as error:
        raise InputMissingError(
            f"transformers finds no model {name!r} with safetensors weights on this disk ({_first_line(error)})",
            hint=f"name a folder, or fetch it first: hf download {name}",
        ) from error
    except Exception as error:  # of any kind: safetensors and tokenizers raise their own on damaged files
        raise FormatError(
            f"transformers cannot load a sequence classifier from {name!r} ({_first_line(error)})",
            hint="it needs a model for sequence classification, its config.json and its tokenizer in one folder",
        ) from error


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


@contextlib.contextmanager
def _quietly(transformers: Any) -> Iterator[None]:
    """Without the bars and reports of loading, which the errors here replace."""
    logging = transformers.utils.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
