"""Read GGUF files (versions 2 and 3), the one-file format of quantised language models.

`transformers` builds the model and the tokenizer, and the package `gguf` decodes the numbers. Neither checks what a
file declares, so the index is read and checked here first: every array lies inside the file, none shares bytes with
another, and no size is larger than what is stored.

Layout, little-endian: magic number, version, numbers of arrays and of metadata entries; the metadata (name, type,
value); the name, sizes (innermost first), type and offset of each array; then, aligned, the data.
"""

from __future__ import annotations

import contextlib
import functools
import math
import re
import struct
import tempfile
import threading
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import FormatError, OutputError, few, foreign_errors, require, shown
from evenhand.files import existing
from evenhand.models.huggingface import LARGEST_SIZE, MOST_LAYERS, MOST_UNSTORED, dtype_option, offline, quiet
from evenhand.models.tokenizing import save_tokenizer, settle, tokenizer_errors
from evenhand.outputs import replacing_folder

if TYPE_CHECKING:
    import torch
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

MAGIC = b"GGUF"
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
TEXT, LIST = 8, 9
ARCHITECTURE, ALIGNMENT = "general.architecture", "general.alignment"
LARGEST_ALIGNMENT = 1 << 20
TABLE = "token_embd.weight"
NORMAL, USER_DEFINED = 1, 4  # types of tokens
LONGEST_PIECE = 1_000  # characters; the search for the merges of SentencePiece takes time quadratic in it
SPACE = "▁"  # stands for a blank in pieces of SentencePiece
# Splits before byte-level BPE that transformers does not set itself: GPT-2's, and GPT-2's after single digits.
PLAIN_SPLITS = ("gpt-2", "default", "mpt", "olmo", "jais", "trillion")
DIGIT_SPLITS = ("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b")
BEGINNING_SPLITS = ("llama3", "llama-v3", "llama-bpe", "falcon3", "pixtral", "tekken", "chameleon")  # add one
LONG_LIST = 4096  # values; longer lists are vocabularies, of which transformers' configuration needs the length alone
ORIGIN = "use the Hugging Face folder that the file was made from"
AGAIN = "fetch the file again"


class ArrayInfo(NamedTuple):
    """The shape, number type, offset and number of bytes of an array."""

    shape: tuple[int, ...]
    kind: int
    offset: int
    bytes: int


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
            FormatError: If the file has no such array, or its type cannot be decoded.
        """
        if name not in self.arrays:
            raise FormatError(f"{self.path}: no array {name!r}", hint="the file holds another kind of model")
        gguf = require("gguf", extra="models")
        shape, number, offset, length = self.arrays[name]
        kind = gguf.GGMLQuantizationType(number)
        raw = np.ascontiguousarray(self.data[offset : offset + length]).reshape(*shape[:-1], -1)
        try:
            return np.array(gguf.dequantize(raw, kind), dtype=np.float32).reshape(shape)
        except NotImplementedError as error:
            raise FormatError(
                f"{self.path}: array {name!r} has the number type {kind.name}, which is not supported", hint=ORIGIN
            ) from error

    def text(self, name: str) -> str:
        """Return a metadata entry that is a text."""
        value = self.metadata.get(name)
        if not isinstance(value, str):
            raise self._wrong(name, "a text")
        return value

    def tokens(self) -> list[str]:
        """Return the pieces of the vocabulary in the order of their rows."""
        value = self.metadata.get("tokenizer.ggml.tokens")
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self._wrong("tokenizer.ggml.tokens", "a list of texts")
        return value

    def numbers(self, name: str) -> list[float]:
        """Return a metadata entry that is a list of numbers; empty where the file has none."""
        value = self.metadata.get(name, [])
        if not isinstance(value, list) or not all(isinstance(item, int | float) for item in value):
            raise self._wrong(name, "a list of numbers")
        return value

    def token_types(self) -> list[float]:
        """Return the type of each token; empty where the file has none."""
        return self.numbers("tokenizer.ggml.token_type")

    def token_id(self, name: str) -> int | None:
        """Return a metadata entry that is the number of a token, or None."""
        value = self.metadata.get(name)
        if value is not None and (type(value) is not int or not 0 <= value < len(self.tokens())):
            raise self._wrong(name, "the number of a token")
        return value

    def _wrong(self, name: str, expected: str) -> FormatError:
        if name not in self.metadata:
            return FormatError(f"{self.path}: the metadata lack {name!r}", hint=ORIGIN)
        return FormatError(
            f"{self.path}: the metadata entry {name!r} is {shown(self.metadata[name])}, expected {expected}", hint=AGAIN
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


def find_gguf(path: Path) -> Path | None:
    """Return a GGUF file: the path itself, or the first one of a folder that is not a Hugging Face folder."""
    if path.is_file():
        return path
    files = [] if (path / "config.json").is_file() or not path.is_dir() else sorted(path.glob("*.gguf"))
    return files[0] if files else None


def open_gguf(path: Path) -> GGUF:
    """Read and check the metadata and the index of the arrays; the data are memory-mapped.

    Raises:
        FormatError: If the file is damaged, or declares arrays that it does not hold.
    """
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
        shape = tuple(reversed([reader.scalar("Q") for _ in range(dimensions)]))
        kind, offset = reader.scalar("I"), reader.scalar("Q")
        arrays[name] = ArrayInfo(shape, kind, offset, _bytes_of(path, name, shape, kind))
    alignment = metadata.get(ALIGNMENT, 32)
    if type(alignment) is not int or not 0 < alignment <= LARGEST_ALIGNMENT:
        raise FormatError(f"{path}: an alignment of {shown(alignment)} bytes", hint="fetch it again")
    data = mapped[-(-reader.position // alignment) * alignment :]
    _check_places(path, arrays, len(data))
    return GGUF(path, metadata, arrays, data)


def _bytes_of(path: Path, name: str, shape: tuple[int, ...], number: int) -> int:
    """Return how many bytes an array takes."""
    gguf = require("gguf", extra="models")
    try:
        kind = gguf.GGMLQuantizationType(number)
        numbers, size = gguf.GGML_QUANT_SIZES[kind]
    except (ValueError, KeyError) as error:
        raise FormatError(
            f"{path}: array {name!r} has number type {number}, which is not supported", hint=ORIGIN
        ) from error
    count = math.prod(shape)
    if not shape or not count or shape[-1] % numbers:
        raise FormatError(f"{path}: array {name!r} of shape {shape} does not fit the type {kind.name}", hint=AGAIN)
    return int(count // numbers * size)


def _check_places(path: Path, arrays: Mapping[str, ArrayInfo], size: int) -> None:
    """Raise `FormatError` for arrays beyond the end, or that share bytes: a small file could then fill the memory."""
    end, before = 0, ""
    for name, info in sorted(arrays.items(), key=lambda item: item[1].offset):
        if info.offset < end:
            raise FormatError(f"{path}: the arrays {before!r} and {name!r} overlap", hint="fetch it again")
        end, before = info.offset + info.bytes, name
        if end > size:
            raise FormatError(f"{path}: the file ends inside the array {name!r}", hint="fetch it again")


class PackedModel(NamedTuple):
    """Model and tokenizer of a GGUF file, and notes on arrays left out."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    notes: tuple[str, ...]


def read_gguf(path: Path, dtype: torch.dtype) -> PackedModel:
    """Return the language model of a file, with its weights unpacked, and its tokenizer.

    Every architecture that the installed `transformers` reads from GGUF files is supported. The tokenizer has the chat
    template of the file, if there is one.

    Raises:
        FormatError: If the file is damaged or incomplete, or holds a model or tokenizer that is not supported.
    """
    transformers = require("transformers", extra="models")
    file = open_gguf(path)
    architecture = file.text(ARCHITECTURE)
    _check_metadata(file, architecture)
    _check_tokenizer(file)
    with quiet(transformers), offline():
        with (
            foreign_errors(f"{path}: transformers cannot build a model of the kind {architecture!r}", hint=ORIGIN),
            _short_lists(),
        ):
            model, info = _load_model(file, transformers, dtype)
        kind = file.text("tokenizer.ggml.model")
        with foreign_errors(f"{path}: transformers cannot build a tokenizer of the kind {kind!r}", hint=ORIGIN):
            tokenizer = transformers.PreTrainedTokenizerFast(gguf_file=path.name, name_or_path=str(path.parent))
    for problem in ("missing", "mismatched", "unexpected"):
        if names := sorted(map(str, info[f"{problem}_keys"])):
            raise FormatError(f"{path}: {problem} weights {few(names, most=4)}", hint="fetch it again")
    _settle_tokenizer(file, tokenizer)
    stored = sum(math.prod(array.shape) for array in file.arrays.values())
    used = sum(parameter.numel() for parameter in model.parameters())
    notes = [f"{stored - used:,} stored numbers do not belong to {type(model).__name__}"] if stored > used else []
    return PackedModel(model, tokenizer, tuple(notes))


def convert_gguf(path: str | Path, out: str | Path) -> Path:
    """Write the Hugging Face folder of a GGUF file, with its weights in single precision.

    Args:
        path: the file.
        out: the folder to write; it must not exist, or be empty.
    """
    target = Path(out)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise OutputError(f"{target} exists and is not empty", hint="name another folder")
    torch = require("torch", extra="models")
    model, tokenizer, _ = read_gguf(Path(path), torch.float32)
    with quiet(require("transformers", extra="models")), replacing_folder(target) as partial:
        model.save_pretrained(partial)
        save_tokenizer(tokenizer, partial)
    return target


def _check_metadata(file: GGUF, architecture: str) -> None:
    """Raise `FormatError` for sizes that the stored arrays rule out, and for numbers that are not finite."""
    for name, value in file.metadata.items():
        if not name.startswith(f"{architecture}.") or isinstance(value, bool) or not isinstance(value, int | float):
            continue
        counts = name.endswith(("block_count", "expert_count", "_layers"))
        most = max(MOST_LAYERS, len(file.arrays)) if counts else LARGEST_SIZE
        if not math.isfinite(value) or (isinstance(value, int) and value > most):
            raise FormatError(
                f"{file.path}: {name} is {value:,}, with {len(file.arrays)} arrays in the file", hint=AGAIN
            )
    layers = {int(found[1]) for name in file.arrays if (found := re.match(r"blk\.(\d{1,6})\.", name))}
    declared = file.metadata.get(f"{architecture}.block_count")
    if not isinstance(declared, int) or isinstance(declared, bool) or layers != set(range(declared)):
        raise FormatError(
            f"{file.path}: {shown(declared)} layers are declared, and arrays of {len(layers)} are stored", hint=AGAIN
        )
    if scaled := [name for name in file.arrays if name.startswith("rope_")]:
        # transformers leaves these factors of the positions out without a word, and the scores would be wrong
        raise FormatError(f"{file.path}: scales its positions by {few(scaled)}, which is not supported", hint=ORIGIN)


def _check_tokenizer(file: GGUF) -> None:
    """Raise `FormatError` for a vocabulary that transformers would read wrongly, or in time quadratic in its size."""
    kind, tokens = file.text("tokenizer.ggml.model"), file.tokens()
    file.token_types()
    for role in ("bos", "eos", "unknown", "padding"):
        file.token_id(f"tokenizer.ggml.{role}_token_id")
    if kind == "gpt2":
        split = file.metadata.get("tokenizer.ggml.pre", "default")
        if split not in (*PLAIN_SPLITS, *DIGIT_SPLITS, *_splits_of_transformers()):
            raise FormatError(f"{file.path}: splits texts as {shown(split)}, which is not supported", hint=ORIGIN)
    elif "tokenizer.ggml.merges" not in file.metadata:
        scores, longest = file.numbers("tokenizer.ggml.scores"), max(map(len, tokens), default=0)
        if len(set(tokens)) != len(tokens) or len(scores) != len(tokens) or longest > LONGEST_PIECE:
            raise FormatError(
                f"{file.path}: a vocabulary of {len(tokens):,} pieces, {len(set(tokens)):,} of them different, with "
                f"{len(scores):,} scores and pieces of up to {longest:,} characters is not one of SentencePiece",
                hint=AGAIN,
            )


def _splits_of_transformers() -> Collection[str]:
    """Return the names of the splits that transformers sets; a version that sets none has no such table."""
    try:
        table = import_module("transformers.integrations.gguf.gguf_tokenizer_mapping")
    except ImportError:
        return ()
    names: Collection[str] = getattr(table, "GGUF_PRE_TOKENIZER_SPLITS", ())
    return names


def _load_model(
    file: GGUF, transformers: ModuleType, dtype: torch.dtype
) -> tuple[PreTrainedModel, Mapping[str, list[object]]]:
    """Return the model and what transformers says of its weights; nothing that is not stored is allocated."""
    torch = require("torch", extra="models")
    place = str(file.path.resolve())
    config: PretrainedConfig = transformers.AutoConfig.from_pretrained(place, gguf_file=place, local_files_only=True)
    with torch.device("meta"):
        empty = transformers.AutoModelForCausalLM.from_config(config)
    described = sum(part.numel() for part in (*empty.parameters(), *empty.buffers()))
    stored = sum(math.prod(array.shape) for array in file.arrays.values())
    if described > stored + MOST_UNSTORED:
        raise FormatError(
            f"{file.path}: describes a model of {described:,} numbers and stores {stored:,}", hint="fetch it again"
        )
    options: dict[str, object] = dtype_option(transformers, dtype)
    if hasattr(transformers, "GgufConfig"):  # otherwise blocks may stay packed, for kernels fetched from the Hub
        options["quantization_config"] = transformers.GgufConfig(dequantize=True)
    with tempfile.TemporaryDirectory() as nothing:  # transformers reads other files beside the one that it is given
        model, info = type(empty).from_pretrained(
            nothing,
            gguf_file=place,
            config=config,
            local_files_only=True,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # refused afterwards, with their names
            **options,
        )
    model.config.name_or_path = str(file.path)
    for name in ("hf_quantizer", "is_quantized", "quantization_method"):  # the weights are plain now
        model.__dict__.pop(name, None)
    model.config.__dict__.pop("quantization_config", None)
    return model, info


def _settle_tokenizer(file: GGUF, tokenizer: PreTrainedTokenizerBase) -> None:
    """Finish what transformers leaves out of a tokenizer, and check that it reads texts as the file says."""
    backend: Any = tokenizer.backend_tokenizer
    if file.metadata.get("tokenizer.ggml.pre") in DIGIT_SPLITS and file.text("tokenizer.ggml.model") == "gpt2":
        splits = require("tokenizers.pre_tokenizers", extra="models")
        backend.pre_tokenizer = splits.Sequence([splits.Digits(individual_digits=True), backend.pre_tokenizer])
    unknown = file.token_id("tokenizer.ggml.unknown_token_id")
    if unknown is not None and getattr(backend.model, "unk_token", unknown) is None:
        backend.model.unk_token = file.tokens()[unknown]  # otherwise characters without a piece vanish
    settle(tokenizer, file.path)
    tokenizer.init_kwargs["add_bos_token"] = adds_beginning(file)
    if not file.metadata.get("tokenizer.ggml.add_space_prefix", True):
        with tokenizer_errors(tokenizer):
            blank = tokenizer.tokenize("a")[0].startswith(SPACE)
        if blank:
            raise FormatError(
                f"{file.path}: its tokenizer puts no blank before a text, which is not supported", hint=ORIGIN
            )


def adds_beginning(file: GGUF) -> bool:
    """Return whether a text begins with a token of its own, by what the file says or by llama.cpp's defaults."""
    stated = file.metadata.get("tokenizer.ggml.add_bos_token")
    if isinstance(stated, bool):
        return stated
    by_bytes = file.text("tokenizer.ggml.model") == "gpt2"
    return not by_bytes or file.metadata.get("tokenizer.ggml.pre") in BEGINNING_SPLITS


_PATCHING = threading.Lock()


@contextlib.contextmanager
def _short_lists() -> Iterator[None]:
    """Let the reader of the package `gguf` pass over vocabularies, and transformers show no progress bar of its own.

    The reader makes an array of each value, which takes 15 seconds for 260,000 pieces, and transformers asks it twice.
    It also builds the table of the names of weights anew for every module, which is half the time of a load.
    """
    package: Any = require("gguf", extra="models")
    loader: Any = require("transformers.modeling_gguf_pytorch_utils", extra="models")
    reader: type = package.GGUFReader
    bar, names = loader.tqdm, package.get_tensor_name_map

    class ShortListReader(reader):  # type: ignore[misc]
        def _get_field_parts(self, place: int, kind: int) -> Any:
            if int(kind) != LIST:
                return super()._get_field_parts(place, kind)
            inner, count = int(self._get(place, np.uint32)[0]), int(self._get(place + 4, np.uint64)[0])
            if count <= LONG_LIST or inner == LIST:
                return super()._get_field_parts(place, kind)
            types = [package.GGUFValueType.ARRAY, package.GGUFValueType(inner)]
            empty = self._get(place, np.uint8, 1 if inner != TEXT else 0)
            return _list_end(self.data, place, inner, count) - place, [empty], [0] * count, types

    with _PATCHING:
        package.GGUFReader, loader.tqdm = ShortListReader, lambda items, **_: items
        package.get_tensor_name_map = functools.cache(names)
        try:
            yield
        finally:
            package.GGUFReader, loader.tqdm, package.get_tensor_name_map = reader, bar, names


def _list_end(data: NDArray[np.uint8], place: int, inner: int, count: int) -> int:
    """Return where a list ends that begins at a place with its type and its length."""
    place += 12
    if inner != TEXT:
        return place + count * struct.calcsize(f"<{SCALARS[inner]}")
    view = memoryview(data.data)
    for _ in range(count):
        place += 8 + struct.unpack_from("<Q", view, place)[0]
    return place
