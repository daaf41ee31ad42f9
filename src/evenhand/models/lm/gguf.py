"""Reading GGUF, the one-file format of quantised models: facts, and arrays as numbers (format version 2 and 3).

Layout, little-endian: magic, version, number of arrays and of facts; the facts (name, type, value); for each array its
name, sizes (innermost first), type and offset; then, aligned, the data. Quantised types store blocks of 32 numbers.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import FormatError, require
from evenhand.files import existing

MAGIC = b"GGUF"
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
TEXT, LIST = 8, 9
BLOCK = 32


class Place(NamedTuple):
    """Where an array lies and how its numbers are stored."""

    shape: tuple[int, ...]
    kind: int
    offset: int


def _plain(dtype: str) -> Callable[[NDArray[np.uint8]], NDArray[np.float32]]:
    return lambda raw: raw.view(dtype).astype(np.float32)


def _bf16(raw: NDArray[np.uint8]) -> NDArray[np.float32]:
    return (raw.view("<u2").astype(np.uint32) << 16).view(np.float32)


def _q4_0(raw: NDArray[np.uint8]) -> NDArray[np.float32]:
    blocks = raw.reshape(-1, 18)
    return _half(blocks[:, :2]) * (_nibbles(blocks[:, 2:]) - 8)


def _q4_1(raw: NDArray[np.uint8]) -> NDArray[np.float32]:
    blocks = raw.reshape(-1, 20)
    return _half(blocks[:, :2]) * _nibbles(blocks[:, 4:]) + _half(blocks[:, 2:4])


def _q8_0(raw: NDArray[np.uint8]) -> NDArray[np.float32]:
    blocks = raw.reshape(-1, 34)
    return _half(blocks[:, :2]) * np.ascontiguousarray(blocks[:, 2:]).view(np.int8)


def _half(raw: NDArray[np.uint8]) -> NDArray[np.float32]:
    return np.ascontiguousarray(raw).view("<f2").astype(np.float32)


def _nibbles(raw: NDArray[np.uint8]) -> NDArray[np.float32]:
    """The low halves of 16 bytes are the first 16 numbers of a block, the high halves the others."""
    return np.concatenate([raw & 15, raw >> 4], axis=1).astype(np.float32)


# Type number: (name, numbers in a block, bytes of a block, decoder).
KINDS: dict[int, tuple[str, int, int, Callable[[NDArray[np.uint8]], NDArray[np.float32]]]] = {
    0: ("F32", 1, 4, _plain("<f4")),
    1: ("F16", 1, 2, _plain("<f2")),
    2: ("Q4_0", BLOCK, 18, _q4_0),
    3: ("Q4_1", BLOCK, 20, _q4_1),
    8: ("Q8_0", BLOCK, 34, _q8_0),
    30: ("BF16", 1, 2, _bf16),
}


@dataclass(frozen=True, eq=False)
class GGUF:
    """A file: its facts by name, and its arrays, decoded when asked for."""

    path: Path
    facts: dict[str, Any]
    places: dict[str, Place]
    data: NDArray[np.uint8]

    def array(self, name: str) -> NDArray[np.float32]:
        """An array in single precision."""
        if name not in self.places:
            raise FormatError(f"{self.path}: no array {name!r}", hint="the file is of another kind of model")
        shape, kind, offset = self.places[name]
        if kind not in KINDS:
            known = ", ".join(known for known, *_ in KINDS.values())
            raise FormatError(
                f"{self.path}: the array {name!r} is stored as type {kind}, which is not read here (read: {known})",
                hint="convert it: `pip install gguf`, then AutoModelForCausalLM.from_pretrained(folder, gguf_file=...)"
                ".save_pretrained(...)",
            )
        _, numbers, size, decode = KINDS[kind]
        raw = self.data[offset : offset + math.prod(shape) // numbers * size]
        if len(raw) < math.prod(shape) // numbers * size:
            raise FormatError(f"{self.path}: the file ends inside the array {name!r}", hint="fetch it again")
        return decode(np.ascontiguousarray(raw)).reshape(shape)


class _Reader:
    """Values one after the other; what goes beyond the end is told by `struct`."""

    def __init__(self, data: Any) -> None:
        self.data, self.at = data, 0

    def scalar(self, code: str) -> Any:
        (value,) = struct.unpack_from(f"<{code}", self.data, self.at)
        self.at += struct.calcsize(f"<{code}")
        return value

    def text(self) -> str:
        length = self.scalar("Q")
        if length > len(self.data) - self.at:
            raise struct.error(f"a text of {length} bytes")
        self.at += length
        return bytes(self.data[self.at - length : self.at]).decode()

    def value(self, kind: int) -> Any:
        if kind == TEXT:
            return self.text()
        if kind == LIST:
            inner, count = self.scalar("I"), self.scalar("Q")
            if count > len(self.data) - self.at:
                raise struct.error(f"a list of {count} values")
            return [self.value(inner) for _ in range(count)]
        return self.scalar(SCALARS[kind])


def open_gguf(path: Path) -> GGUF:
    """Read the facts and the places of the arrays; the data are mapped and read when they are needed."""
    if existing(path).stat().st_size < 24:
        raise FormatError(f"{path}: too short for a GGUF file", hint="fetch it again")
    mapped: Any = np.memmap(path, dtype=np.uint8, mode="r")
    reader = _Reader(memoryview(mapped))
    if bytes(mapped[:4]) != MAGIC:
        raise FormatError(f"{path}: does not begin with GGUF", hint="name a .gguf file")
    try:
        return _opened(path, mapped, reader)
    except (struct.error, KeyError, UnicodeDecodeError, RecursionError) as error:
        raise FormatError(f"{path}: not a whole GGUF file ({error})", hint="fetch it again") from error


def _opened(path: Path, mapped: Any, reader: _Reader) -> GGUF:
    reader.at = 4
    version = reader.scalar("I")
    if version not in (2, 3):
        raise FormatError(f"{path}: GGUF of version {version}, read are 2 and 3", hint="convert it with a newer tool")
    arrays, count = reader.scalar("Q"), reader.scalar("Q")
    facts: dict[str, Any] = {}
    for _ in range(count):
        name = reader.text()
        facts[name] = reader.value(reader.scalar("I"))
    places = {}
    for _ in range(arrays):
        name = reader.text()
        sizes = [reader.scalar("Q") for _ in range(reader.scalar("I"))]
        places[name] = Place(tuple(reversed(sizes)), reader.scalar("I"), reader.scalar("Q"))
    align = int(facts.get("general.alignment", 32))
    return GGUF(path, facts, places, mapped[-(-reader.at // align) * align :])


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
CONVERT = (
    "convert the file: `pip install gguf`, then AutoModelForCausalLM.from_pretrained(folder, gguf_file=...)"
    ".save_pretrained(...)"
)
DIGITS_APART = {"smollm": True, "gpt-2": False, "default": False}  # how a text is cut before its merges
CONTROL = 3  # type of tokens that stand for no text


def read_gguf(path: Path, dtype: Any) -> tuple[Any, Any]:
    """Model and tokenizer; weights are those of the quantised file, unpacked."""
    transformers = require("transformers", extra="models")
    torch: Any = require("torch", extra="models")
    file = open_gguf(path)
    if file.facts.get("general.architecture") != "llama":
        kind = file.facts.get("general.architecture")
        raise FormatError(f"{path}: a model of the kind {kind!r}, read here is 'llama'", hint=CONVERT)
    config = _config(file, transformers)
    weights = {_name(file, name): torch.from_numpy(_weight(file, name, config)).to(dtype) for name in file.places}
    # A state without a file: the library fills in what is no weight, and spends nothing on random ones.
    model = transformers.LlamaForCausalLM.from_pretrained(None, config=config, state_dict=weights, dtype=dtype)
    return model, _tokenizer(file, transformers)


def _config(file: GGUF, transformers: Any) -> Any:
    facts = file.facts
    try:
        return transformers.LlamaConfig(
            vocab_size=file.places["token_embd.weight"].shape[0],
            hidden_size=facts["llama.embedding_length"],
            intermediate_size=facts["llama.feed_forward_length"],
            num_hidden_layers=facts["llama.block_count"],
            num_attention_heads=facts["llama.attention.head_count"],
            num_key_value_heads=facts.get("llama.attention.head_count_kv", facts["llama.attention.head_count"]),
            max_position_embeddings=facts["llama.context_length"],
            rms_norm_eps=facts["llama.attention.layer_norm_rms_epsilon"],
            rope_theta=facts.get("llama.rope.freq_base", 10000.0),
            tie_word_embeddings="output.weight" not in file.places,
            bos_token_id=facts.get("tokenizer.ggml.bos_token_id"),
            eos_token_id=facts.get("tokenizer.ggml.eos_token_id"),
        )
    except KeyError as error:
        raise FormatError(f"{file.path}: the fact {error} is missing", hint=CONVERT) from error


def _name(file: GGUF, name: str) -> str:
    """What `transformers` calls an array."""
    parts = name.split(".")
    stem = parts[-2] if len(parts) > 1 else ""
    if parts[0] == "blk" and len(parts) == 4 and stem in INNER:
        return f"model.layers.{parts[1]}.{INNER[stem]}.{parts[3]}"
    if len(parts) == 2 and stem in OUTER:
        return f"{OUTER[stem]}.{parts[1]}"
    raise FormatError(f"{file.path}: the array {name!r} has no place in a Llama model", hint=CONVERT)


def _weight(file: GGUF, name: str, config: Any) -> NDArray[np.float32]:
    """An array; those of queries and keys have the two halves of each head interleaved, and are put back."""
    array = file.array(name)
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}.get(name.split(".")[-2])
    if heads is None:
        return array
    apart = array.reshape(heads, len(array) // heads // 2, 2, -1).swapaxes(1, 2)
    return np.ascontiguousarray(apart.reshape(array.shape))


def _tokenizer(file: GGUF, transformers: Any) -> Any:
    """Byte-level pairs with their merges; the other kinds of tokenizer are not read here."""
    tokenizers = require("tokenizers", extra="models")
    facts = file.facts
    kind, cutting = facts.get("tokenizer.ggml.model"), facts.get("tokenizer.ggml.pre", "default")
    if kind != "gpt2" or cutting not in DIGITS_APART:
        raise FormatError(f"{file.path}: a tokenizer of the kind {kind!r} with {cutting!r} is not read", hint=CONVERT)
    words = facts["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ", 1)) for merge in facts["tokenizer.ggml.merges"]]
    core = tokenizers.Tokenizer(tokenizers.models.BPE({word: row for row, word in enumerate(words)}, merges))
    by_bytes = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    digits = [tokenizers.pre_tokenizers.Digits(individual_digits=True)] if DIGITS_APART[cutting] else []
    core.pre_tokenizer = tokenizers.pre_tokenizers.Sequence([*digits, by_bytes])
    core.decoder = tokenizers.decoders.ByteLevel()
    types = facts.get("tokenizer.ggml.token_type", [])
    core.add_special_tokens([word for word, of in zip(words, types, strict=False) if of == CONTROL])
    named = {
        f"{role}_token": words[facts[fact]]
        for role, fact in (("bos", "tokenizer.ggml.bos_token_id"), ("eos", "tokenizer.ggml.eos_token_id"))
        if fact in facts
    }
    return transformers.PreTrainedTokenizerFast(tokenizer_object=core, **named)
