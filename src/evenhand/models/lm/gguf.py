"""Read GGUF files (versions 2 and 3), the one-file format of quantised models.

Layout, little-endian: magic number, version, numbers of arrays and of metadata entries; the metadata (name, type,
value); the name, sizes (innermost first), type and offset of each array; then, aligned, the data. `gguf_blocks` decodes
the numbers.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import EvenhandError, FormatError, OutputError, few, require, shown
from evenhand.files import existing
from evenhand.folders import replacing_folder
from evenhand.models.huggingface import dtype_option, offline, quiet
from evenhand.models.lm.gguf_blocks import NUMBER_TYPES
from evenhand.models.lm.llama2c import split_halves
from evenhand.models.lm.llama_tokenizer import llama_tokenizer

if TYPE_CHECKING:
    import torch
    from transformers import LlamaConfig, PreTrainedModel, PreTrainedTokenizerBase

MAGIC = b"GGUF"
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
TEXT, LIST = 8, 9
ALIGNMENT = "general.alignment"
LARGEST_ALIGNMENT = 1 << 20
TABLE = "token_embd.weight"
CONVERT = (
    "convert the file: `pip install gguf`, then AutoModelForCausalLM.from_pretrained(folder, gguf_file=...)"
    ".save_pretrained(...)"
)


class ArrayInfo(NamedTuple):
    """The shape, number type and offset of an array."""

    shape: tuple[int, ...]
    kind: int
    offset: int


@dataclass(frozen=True, eq=False)
class GGUF:
    """A GGUF file: its metadata by name, and its arrays, which are decoded on request."""

    path: Path
    metadata: dict[str, object]
    arrays: dict[str, ArrayInfo]
    data: NDArray[np.uint8]

    def array(self, name: str) -> NDArray[np.float32]:
        """Return an array in single precision.

        Raises:
            FormatError: If the file has no such array, or its type or size is not supported.
        """
        if name not in self.arrays:
            raise FormatError(f"{self.path}: no array {name!r}", hint="the file holds another kind of model")
        shape, kind, offset = self.arrays[name]
        if kind not in NUMBER_TYPES:
            supported = ", ".join(known.name for known in NUMBER_TYPES.values())
            raise FormatError(
                f"{self.path}: array {name!r} has number type {kind}, which is not supported (supported: {supported})",
                hint=CONVERT,
            )
        title, numbers, size, decode = NUMBER_TYPES[kind]
        count = math.prod(shape)
        if not shape or not count or shape[-1] % numbers:
            raise FormatError(f"{self.path}: array {name!r} of shape {shape} does not fit the type {title}")
        raw = self.data[offset : offset + count // numbers * size]
        if len(raw) < count // numbers * size:
            raise FormatError(f"{self.path}: the file ends inside the array {name!r}", hint="fetch it again")
        return decode(np.ascontiguousarray(raw)).reshape(shape)

    def text(self, name: str, default: str = "") -> str:
        """Return a metadata entry that is a text; the default where there is none."""
        value = self.metadata.get(name, default)
        if not isinstance(value, str):
            raise self._wrong(name, "a text")
        return value

    def count(self, name: str, default: int | None = None) -> int:
        """Return a metadata entry that is a positive integer; an error where there is none and no default."""
        value = self.metadata.get(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 1 << 31:
            raise self._wrong(name, "a positive number")
        return value

    def number(self, name: str, default: float | None = None) -> float:
        """Return a metadata entry that is a positive, finite number."""
        value = self.metadata.get(name, default)
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < math.inf:
            raise self._wrong(name, "a positive number")
        return value

    def token_id(self, name: str) -> int | None:
        """Return a metadata entry that is the number of a token, or None."""
        value = self.metadata.get(name)
        if value is not None and (type(value) is not int or not 0 <= value < len(self.tokens())):
            raise self._wrong(name, "the number of a token")
        return value

    def tokens(self) -> list[str]:
        """Return the pieces of the vocabulary in the order of their rows."""
        return self.texts("tokenizer.ggml.tokens")

    def texts(self, name: str) -> list[str]:
        """Return a metadata entry that is a list of texts."""
        value = self.metadata.get(name)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self._wrong(name, "a list of texts")
        return value

    def token_types(self) -> list[int]:
        """Return the type of each token; empty where the file has none."""
        value = self.metadata.get("tokenizer.ggml.token_type", [])
        if not isinstance(value, list) or not all(isinstance(item, int) for item in value):
            raise self._wrong("tokenizer.ggml.token_type", "a list of numbers")
        return value

    def _wrong(self, name: str, expected: str) -> FormatError:
        if name not in self.metadata:
            return FormatError(f"{self.path}: the metadata lack {name!r}", hint=CONVERT)
        return FormatError(
            f"{self.path}: the metadata entry {name!r} is {shown(self.metadata[name])}, expected {expected}",
            hint="fetch the file again",
        )


class _Reader:
    """Read values one after another; reading beyond the end raises `struct.error`."""

    def __init__(self, data: memoryview) -> None:
        self.data, self.position = data, 0

    def scalar(self, kind: str) -> Any:
        (value,) = struct.unpack_from(f"<{kind}", self.data, self.position)
        self.position += struct.calcsize(f"<{kind}")
        return value

    def text(self) -> str:
        length = self.scalar("Q")
        if length > len(self.data) - self.position:
            raise struct.error(f"a text of {length} bytes")
        self.position += length
        return bytes(self.data[self.position - length : self.position]).decode()

    def value(self, kind: int) -> object:
        if kind == TEXT:
            return self.text()
        if kind == LIST:
            inner, count = self.scalar("I"), self.scalar("Q")
            if count > len(self.data) - self.position:
                raise struct.error(f"a list of {count} values")
            return [self.value(inner) for _ in range(count)]
        return self.scalar(SCALARS[kind])


def open_gguf(path: Path) -> GGUF:
    """Read the metadata and the index of the arrays; the data are memory-mapped."""
    if not existing(path).is_file() or path.stat().st_size < 24:
        raise FormatError(f"{path}: too short for a GGUF file", hint="fetch it again")
    mapped = np.memmap(path, dtype=np.uint8, mode="r")
    reader = _Reader(memoryview(mapped.data))
    if bytes(mapped[:4]) != MAGIC:
        raise FormatError(f"{path}: does not begin with GGUF", hint="name a .gguf file")
    try:
        return _read_index(path, mapped, reader)
    except (struct.error, KeyError, UnicodeDecodeError, RecursionError) as error:
        raise FormatError(f"{path}: not a complete GGUF file ({error})", hint="fetch it again") from error


def _read_index(path: Path, mapped: NDArray[np.uint8], reader: _Reader) -> GGUF:
    reader.position = 4
    version = reader.scalar("I")
    if version not in (2, 3):
        raise FormatError(f"{path}: GGUF version {version}; supported are 2 and 3", hint="convert it with a newer tool")
    array_count, metadata_count = reader.scalar("Q"), reader.scalar("Q")
    metadata: dict[str, object] = {}
    for _ in range(metadata_count):
        name = reader.text()
        metadata[name] = reader.value(reader.scalar("I"))
    arrays = {}
    for _ in range(array_count):
        name = reader.text()
        dimensions = reader.scalar("I")
        if dimensions > 8:
            raise struct.error(f"an array of {dimensions} dimensions")
        sizes = [reader.scalar("Q") for _ in range(dimensions)]
        arrays[name] = ArrayInfo(tuple(reversed(sizes)), reader.scalar("I"), reader.scalar("Q"))
    alignment = GGUF(path, metadata, {}, mapped).count(ALIGNMENT, 32)
    if alignment > LARGEST_ALIGNMENT:
        raise FormatError(f"{path}: an alignment of {alignment:,} bytes", hint="fetch it again")
    _refuse_overlap(path, arrays)
    return GGUF(path, metadata, arrays, mapped[-(-reader.position // alignment) * alignment :])


def _refuse_overlap(path: Path, arrays: Mapping[str, ArrayInfo]) -> None:
    """Raise `FormatError` for arrays that share bytes: a small file could then fill the memory."""
    end, before = 0, ""
    for name, (shape, kind, offset) in sorted(arrays.items(), key=lambda item: item[1].offset):
        if offset < end:
            raise FormatError(f"{path}: the arrays {before!r} and {name!r} overlap", hint="fetch it again")
        known = NUMBER_TYPES.get(kind)  # `array` refuses others
        end, before = offset + (math.prod(shape) // known.numbers * known.bytes if known else 0), name


OUTER = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
INNER = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_norm": "input_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "ffn_norm": "post_attention_layernorm",
}
SEPARATE_DIGITS = {"smollm": True, "gpt-2": False, "default": False}  # pre-tokenizers that are supported
NORMAL, CONTROL, USER_DEFINED = 1, 3, 4  # types of tokens
SENTENCEPIECE = {"bos": 1, "eos": 2}  # where the file does not say


def read_gguf(path: Path, dtype: torch.dtype) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Return model and tokenizer of a Llama model, with the quantised weights unpacked.

    Raises:
        FormatError: If the file is damaged or incomplete, or holds a model or tokenizer that is not supported.
    """
    transformers: Any = require("transformers", extra="models")
    torch: Any = require("torch", extra="models")
    file = open_gguf(path)
    architecture = file.text("general.architecture")
    if architecture != "llama":
        raise FormatError(f"{path}: a model of the kind {architecture!r}; supported is 'llama'", hint=CONVERT)
    config = _config(file, transformers)
    try:
        weights = {_rename(file, name): torch.from_numpy(_weight(file, name, config)).to(dtype) for name in file.arrays}
        # Without a file name, the library takes the weights from the state and spends no time on random ones.
        with offline():
            model, info = transformers.LlamaForCausalLM.from_pretrained(
                None, config=config, state_dict=weights, output_loading_info=True, **dtype_option(transformers, dtype)
            )
        tokenizer = _tokenizer(file, transformers)
    except EvenhandError:
        raise
    except Exception as error:  # torch, transformers and tokenizers raise errors of many types
        raise FormatError(f"{path}: transformers cannot build the model ({error})", hint="fetch it again") from error
    for problem in ("missing", "mismatched", "unexpected"):
        if names := sorted(map(str, info[f"{problem}_keys"])):
            raise FormatError(f"{path}: {problem} weights {few(names, most=4)}", hint="fetch it again")
    return model, tokenizer


def convert_gguf(path: str | Path, out: str | Path) -> Path:
    """Write the Hugging Face folder of a GGUF file, with its weights in single precision.

    Args:
        path: the file.
        out: the folder to write; it must not exist, or be empty.
    """
    target = Path(out)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise OutputError(f"{target} exists and is not empty", hint="name another folder")
    torch: Any = require("torch", extra="models")
    with quiet(require("transformers", extra="models")):
        model, tokenizer = read_gguf(Path(path), torch.float32)
        with replacing_folder(target) as partial:
            model.save_pretrained(partial)
            tokenizer.save_pretrained(partial)
    return target


def _config(file: GGUF, transformers: Any) -> LlamaConfig:
    heads, layers = file.count("llama.attention.head_count"), file.count("llama.block_count")
    shape = file.arrays[TABLE].shape if TABLE in file.arrays else ()
    if len(shape) != 2 or layers > len(file.arrays):
        raise FormatError(
            f"{file.path}: {layers:,} layers and a word table of shape {shape}, with {len(file.arrays)} arrays in all",
            hint="fetch it again",
        )
    try:
        return transformers.LlamaConfig(
            vocab_size=shape[0],
            hidden_size=file.count("llama.embedding_length"),
            intermediate_size=file.count("llama.feed_forward_length"),
            num_hidden_layers=layers,
            num_attention_heads=heads,
            num_key_value_heads=file.count("llama.attention.head_count_kv", heads),
            max_position_embeddings=file.count("llama.context_length"),
            rms_norm_eps=file.number("llama.attention.layer_norm_rms_epsilon"),
            rope_theta=file.number("llama.rope.freq_base", 10000.0),
            tie_word_embeddings="output.weight" not in file.arrays,
            bos_token_id=file.token_id("tokenizer.ggml.bos_token_id"),
            eos_token_id=file.token_id("tokenizer.ggml.eos_token_id"),
        )
    except EvenhandError:
        raise
    except Exception as error:  # the library checks sizes against each other
        raise FormatError(f"{file.path}: not the sizes of a Llama model ({error})", hint="fetch it again") from error


def _rename(file: GGUF, name: str) -> str:
    """Return the name of an array in `transformers`."""
    parts = name.split(".")
    stem = parts[-2] if len(parts) > 1 else ""
    if parts[0] == "blk" and len(parts) == 4 and stem in INNER:
        return f"model.layers.{parts[1]}.{INNER[stem]}.{parts[3]}"
    if len(parts) == 2 and stem in OUTER:
        return f"{OUTER[stem]}.{parts[1]}"
    raise FormatError(f"{file.path}: array {name!r} does not belong to a Llama model", hint=CONVERT)


def _weight(file: GGUF, name: str, config: LlamaConfig) -> NDArray[np.float32]:
    """Return an array; in those of queries and keys, the interleaved halves of each head are separated."""
    array = file.array(name)
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}.get(name.split(".")[-2])
    if heads is None:
        return array
    if array.ndim != 2 or len(array) % (2 * heads):
        raise FormatError(f"{file.path}: array {name!r} of shape {array.shape} does not divide into {heads} heads")
    return split_halves(array, heads)


def _tokenizer(file: GGUF, transformers: Any) -> PreTrainedTokenizerBase:
    """Return a byte-level BPE tokenizer or one of SentencePiece; other kinds are not supported."""
    tokenizers: Any = require("tokenizers", extra="models")
    kind, splitting = file.text("tokenizer.ggml.model"), file.text("tokenizer.ggml.pre", "default")
    if kind == "llama" and splitting == "default":
        return _sentencepiece(file)
    if kind != "gpt2" or splitting not in SEPARATE_DIGITS:
        raise FormatError(
            f"{file.path}: a tokenizer of the kind {kind!r} with {splitting!r} is not supported", hint=CONVERT
        )
    words = file.tokens()
    merges = [tuple(merge.split(" ", 1)) for merge in file.texts("tokenizer.ggml.merges")]
    core = tokenizers.Tokenizer(tokenizers.models.BPE({word: row for row, word in enumerate(words)}, merges))
    byte_level = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    digits = [tokenizers.pre_tokenizers.Digits(individual_digits=True)] if SEPARATE_DIGITS[splitting] else []
    core.pre_tokenizer = tokenizers.pre_tokenizers.Sequence([*digits, byte_level])
    core.decoder = tokenizers.decoders.ByteLevel()
    types = file.token_types()
    core.add_special_tokens([word for word, kind in zip(words, types, strict=False) if kind == CONTROL])
    ids = {role: file.token_id(f"tokenizer.ggml.{role}_token_id") for role in ("bos", "eos")}
    names = {f"{role}_token": words[number] for role, number in ids.items() if number is not None}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=core, **names)


def _sentencepiece(file: GGUF) -> PreTrainedTokenizerBase:
    """Return the tokenizer of the first Llama models."""
    scores = file.metadata.get("tokenizer.ggml.scores")
    if not isinstance(scores, list) or not all(isinstance(score, float) for score in scores):
        raise file._wrong("tokenizer.ggml.scores", "a list of numbers")
    if not file.metadata.get("tokenizer.ggml.add_space_prefix", True):
        raise FormatError(f"{file.path}: a tokenizer that puts no blank before a text is not supported", hint=CONVERT)
    ids = {role: file.token_id(f"tokenizer.ggml.{role}_token_id") for role in ("bos", "eos", "unknown")}
    control = {row for row, kind in enumerate(file.token_types()) if kind == CONTROL}
    bos, eos = (SENTENCEPIECE[role] if (id := ids[role]) is None else id for role in ("bos", "eos"))
    return llama_tokenizer(
        file.tokens(), scores, where=file.path, bos=bos, eos=eos, unknown=ids["unknown"] or 0, special=control
    )
