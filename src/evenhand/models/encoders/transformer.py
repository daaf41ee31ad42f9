"""`Transformer`: a Hugging Face model with its tokenizer on a device, which every view of a model folder shares."""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand.arrays import Rows
from evenhand.errors import FormatError, TextTooLongError, require
from evenhand.models.device import resolve_device, resolve_precision, torch_dtype, use_onednn
from evenhand.models.encoders.hooks import restore_maps
from evenhand.models.gguf import find_gguf, read_gguf
from evenhand.models.huggingface import LoadedModel, load_tokenizer, read_model
from evenhand.models.huggingface_folder import ModelKind, model_kind, resolve_folder

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


UNLIMITED = 1 << 20  # tokenizers without a limit state a huge number
WINDOW_NAMES = ("max_position_embeddings", "n_positions", "max_sequence_length")


@dataclass(frozen=True, eq=False)
class Transformer:
    """A model in evaluation mode with its tokenizer.

    Attributes:
        name: for reports.
        kind: what the folder holds.
        notes: weights that were left out.
        source: the folder or GGUF file it was loaded from.
        reserved: tokens that a change of the predictions puts in front of each text.
        unused: names of stored weights that belong to no part of the model.
    """

    name: str
    kind: ModelKind
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    device: str
    precision: str
    notes: tuple[str, ...] = ()
    source: Path | None = None
    reserved: int = 0
    unused: tuple[str, ...] = ()

    @classmethod
    def load(
        cls, source: str | Path, kind: ModelKind | None = None, *, device: str = "auto", precision: str = "float32"
    ) -> Transformer:
        """Load model and tokenizer of a folder, of a Hub id in the local cache, or of a GGUF file.

        Args:
            source: the folder or file; or a folder that holds a GGUF file.
            kind: what to load; what the folder holds by default.
            device: auto, cpu, cuda or cuda:N.
            precision: float32, bfloat16 or float16; `auto` is bfloat16 on a GPU and float32 elsewhere.
        """
        where = resolve_device(device)
        precision = resolve_precision(precision, where)
        packed = find_gguf(Path(source))
        if packed is not None:
            model, tokenizer, notes = read_gguf(packed, torch_dtype(precision))
            model.to(where).eval()
            use_onednn(model)
            name = packed.stem if Path(source).is_file() else Path(source).name
            return cls(name, "causal-lm", model, tokenizer, where, precision, notes, packed)
        folder = resolve_folder(source)
        kind = kind or model_kind(folder)
        model, notes, unused = load_model(folder, kind, precision=precision, device=where)
        use_onednn(model)
        tokenizer, name = load_tokenizer(folder), Path(source).name
        return cls(name, kind, model, tokenizer, where, precision, notes, folder, unused=unused)

    @property
    def window(self) -> int:
        """The largest number of tokens that the model can read, special tokens included."""
        config = self.model.config
        text_config = config.get_text_config() if hasattr(config, "get_text_config") else config
        sizes = [getattr(text_config, name, None) for name in WINDOW_NAMES]
        sizes.append(getattr(self.tokenizer, "model_max_length", None))
        limits = [int(size) for size in sizes if isinstance(size, int) and 0 < size < UNLIMITED]
        padding = getattr(self.model.config, "pad_token_id", None) or 0
        # RoBERTa and its kin number positions from the padding index on, so the table has rows that no text uses.
        offset = padding + 1 if self.model.config.model_type in ("roberta", "xlm-roberta", "camembert", "mpnet") else 0
        return min(limits, default=UNLIMITED) - offset - self.reserved if limits else UNLIMITED

    def share_weights(self) -> Transformer:
        """Return a copy whose modules are new and whose weights are the same tensors, so that hooks stay apart."""
        memo: dict[int, Any] = {id(tensor): tensor for tensor in self.model.parameters()}
        memo |= {id(tensor): tensor for tensor in self.model.buffers()}
        return replace(self, model=copy.deepcopy(self.model, memo))

    def describe(self) -> dict[str, object]:
        """Return class, size, precision and device for records."""
        count = sum(parameter.numel() for parameter in self.model.parameters())
        return {
            "class": type(self.model).__name__,
            "parameters": count,
            "precision": self.precision,
            "device": self.device,
            "notes": list(self.notes),
        }

    def padded(self, ids: Sequence[Sequence[int] | Rows]) -> dict[str, Tensor]:
        """Return the inputs of the model for texts, padded on the right, so that every token has its own position."""
        torch = require("torch", extra="models")
        # RoBERTa and its kin number positions by the tokens that are not padding.
        rows = np.full((len(ids), max(1, *map(len, ids))), self.tokenizer.pad_token_id or 0, dtype=np.int64)
        mask = np.zeros_like(rows)
        for row, sequence in enumerate(ids):
            rows[row, : len(sequence)] = sequence
            mask[row, : len(sequence)] = 1
        self.check_ids(rows)
        both = {"input_ids": rows, "attention_mask": mask}
        return {name: torch.from_numpy(array).to(self.device) for name, array in both.items()}

    def check_lengths(self, lengths: Sequence[int], limit: int) -> None:
        """Raise `TextTooLongError` for a text of more tokens than a limit."""
        longest = int(np.argmax(lengths)) if lengths else 0
        if lengths and lengths[longest] > limit:
            raise TextTooLongError(
                f"text {longest} has {lengths[longest]:,} tokens, and the model reads {limit:,}",
                hint="split the text, or shorten it",
            )

    def check_ids(self, ids: Rows) -> None:
        """Raise `FormatError` for ids beyond the embedding table; on a GPU they would make the device unusable."""
        rows = int(self.model.get_input_embeddings().weight.shape[0])
        largest = int(np.max(ids, initial=0))
        if largest >= rows:
            raise FormatError(
                f"the tokenizer gives the id {largest:,}, but {type(self.model).__name__} has {rows:,} embeddings",
                hint="use the model's own tokenizer",
            )


def load_model(
    source: str | os.PathLike[str], kind: ModelKind | None = None, *, precision: str = "float32", device: str = "cpu"
) -> LoadedModel:
    """Load the model of a folder, and apply the maps that were saved beside its weights by hooks.

    Args:
        source: a folder, or a Hub id in the local cache.
        kind: what to load; the kind that `model_kind` returns by default.
        precision: the number format of the weights.
        device: a resolved device.

    Raises:
        InputMissingError: If the folder, its configuration or its weights are missing.
        FormatError: If the files are damaged or unsafe, or do not hold every weight of the model.
    """
    folder = resolve_folder(source)
    loaded = read_model(folder, kind, precision=precision, device=device)
    return loaded._replace(notes=(*loaded.notes, *restore_maps(loaded.model, folder)))
