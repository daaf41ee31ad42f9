"""Convert model files of llama2.c into Hugging Face folders.

Layout, little-endian: seven 32-bit integers (width, inner width, layers, heads, key-value heads, pieces, window), then
the weights as 32-bit numbers, matrices of all layers one after another, then the rotation tables, which are computed
anew. A negative number of pieces says that the output layer does not share the word table and comes last. The tokenizer
is the length of its longest piece, then score, length and bytes of each piece. It lies in tokenizer.bin beside the
model, or follows the weights in the same file.
"""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import FormatError, InputMissingError, OutputError
from evenhand.files import existing
from evenhand.folders import replacing_folder
from evenhand.models.lm.llama_tokenizer import BYTES, SPACE, byte_piece, llama_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

HEADER = struct.Struct("<7i")
ENTRY = struct.Struct("<fi")  # score and length of a piece
TOKENIZER = "tokenizer.bin"
LARGEST, MOST_LAYERS, LONGEST_PIECE = 1 << 20, 1_000, 1_000
BOS, EOS, FIRST_BYTE = 1, 2, 3
SPECIAL = ("<unk>", "<s>", "</s>")
HINT = "name a .bin file of llama2.c in the layout of its first version, or a .data file that holds one"


class Llama2cSizes(NamedTuple):
    """The header of a file."""

    width: int
    inner: int
    layers: int
    heads: int
    key_heads: int
    pieces: int
    window: int
    shared: bool
    """Whether the output layer is the word table."""

    @property
    def arrays(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the weights in the order of the file, under names of this module."""
        head = self.width // self.heads
        keys, layers = head * self.key_heads, self.layers
        rotation = (self.window, head // 2)
        shapes: dict[str, tuple[int, ...]] = {
            "table": (self.pieces, self.width),
            "input_layernorm": (layers, self.width),
            "self_attn.q_proj": (layers, self.width, self.width),
            "self_attn.k_proj": (layers, keys, self.width),
            "self_attn.v_proj": (layers, keys, self.width),
            "self_attn.o_proj": (layers, self.width, self.width),
            "post_attention_layernorm": (layers, self.width),
            "mlp.gate_proj": (layers, self.inner, self.width),
            "mlp.down_proj": (layers, self.width, self.inner),
            "mlp.up_proj": (layers, self.inner, self.width),
            "norm": (self.width,),
            "cosines": rotation,
            "sines": rotation,
        }
        return shapes if self.shared else shapes | {"output": (self.pieces, self.width)}

    @property
    def bytes(self) -> int:
        """Header and weights."""
        return HEADER.size + 4 * sum(map(math.prod, self.arrays.values()))


def is_llama2c(path: Path) -> bool:
    """Return whether the first bytes of a file are a plausible header, and the file is as long as it says."""
    try:
        read_sizes(path)
    except (FormatError, OSError):
        return False
    return True


def convert_llama2c(source: str | Path, out: str | Path) -> Path:
    """Write the Hugging Face folder of a model file of llama2.c.

    Args:
        source: the file, with its tokenizer behind the weights or in tokenizer.bin beside it.
        out: the folder to write; it must not exist, or be empty.

    Raises:
        FormatError: If the file is damaged or has another layout.
        InputMissingError: If there is no tokenizer.
    """
    from safetensors.numpy import save_file

    path, target = existing(Path(source), what="model file"), Path(out)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise OutputError(f"{target} exists and is not empty", hint="name another folder")
    sizes = read_sizes(path)
    tokenizer = read_tokenizer(path, sizes)
    weights = read_weights(path, sizes)
    with replacing_folder(target) as partial:
        tokenizer.save_pretrained(partial)
        (partial / "config.json").write_text(json.dumps(config_of(sizes), indent=2) + "\n", encoding="utf-8")
        save_file(weights, partial / "model.safetensors", metadata={"format": "pt"})
    return target


def read_sizes(path: Path) -> Llama2cSizes:
    """Read the header, and compare it with the size of the file."""
    with path.open("rb") as file:
        header = file.read(HEADER.size)
    if len(header) < HEADER.size:
        raise FormatError(f"{path}: too short for a model of llama2.c", hint=HINT)
    width, inner, layers, heads, key_heads, pieces, window = HEADER.unpack(header)
    sizes = Llama2cSizes(width, inner, layers, heads, key_heads, abs(pieces), window, pieces > 0)
    plausible = (
        all(0 < size <= LARGEST for size in sizes[:7])
        and layers <= MOST_LAYERS
        and not (width % heads or width // heads % 2 or heads % key_heads)
    )
    if not plausible:
        raise FormatError(f"{path}: {HEADER.unpack(header)} are not the sizes of a Llama model", hint=HINT)
    if path.stat().st_size < sizes.bytes:
        raise FormatError(
            f"{path}: {path.stat().st_size:,} bytes, and a model of these sizes has {sizes.bytes:,}",
            hint="fetch the file again",
        )
    return sizes


def read_weights(path: Path, sizes: Llama2cSizes) -> dict[str, NDArray[np.float32]]:
    """Return the weights under the names of `transformers`."""
    data = np.memmap(path, dtype="<f4", mode="r", offset=HEADER.size, shape=((sizes.bytes - HEADER.size) // 4,))
    weights: dict[str, NDArray[np.float32]] = {}
    start = 0
    for name, shape in sizes.arrays.items():
        array = data[start : start + math.prod(shape)].reshape(shape)
        start += math.prod(shape)
        if name in ("cosines", "sines"):
            continue
        if not np.isfinite(array).all():
            raise FormatError(f"{path}: the weights {name} have values that are not numbers", hint="fetch it again")
        if name in ("table", "norm", "output"):
            full = {"table": "model.embed_tokens", "norm": "model.norm", "output": "lm_head"}[name]
            weights[f"{full}.weight"] = np.array(array, dtype=np.float32)
            continue
        heads = {"self_attn.q_proj": sizes.heads, "self_attn.k_proj": sizes.key_heads}.get(name)
        for layer in range(sizes.layers):
            rows = split_halves(array[layer], heads) if heads else array[layer]
            weights[f"model.layers.{layer}.{name}.weight"] = np.array(rows, dtype=np.float32)
    return weights


def split_halves(array: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Return a query or key matrix with the two numbers of each rotation in separate halves of a head.

    llama2.c and GGUF rotate neighbours, `transformers` rotates the first half of a head with the second.
    """
    halves = array.reshape(heads, len(array) // heads // 2, 2, -1).swapaxes(1, 2)
    return np.ascontiguousarray(halves.reshape(array.shape))


def config_of(sizes: Llama2cSizes) -> dict[str, object]:
    """Return the configuration of `transformers`; what the header does not say is fixed in llama2.c."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": sizes.pieces,
        "hidden_size": sizes.width,
        "intermediate_size": sizes.inner,
        "num_hidden_layers": sizes.layers,
        "num_attention_heads": sizes.heads,
        "num_key_value_heads": sizes.key_heads,
        "max_position_embeddings": sizes.window,
        "hidden_act": "silu",
        "attention_dropout": 0.0,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "tie_word_embeddings": sizes.shared,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
    }


def read_tokenizer(path: Path, sizes: Llama2cSizes) -> PreTrainedTokenizerBase:
    """Return the tokenizer that follows the weights, or lies beside the file."""
    with path.open("rb") as file:
        file.seek(sizes.bytes)
        content = file.read()
    source = path
    if not content:
        source = path.with_name(TOKENIZER)
        if not source.is_file():
            raise InputMissingError(f"{path} holds no tokenizer, and there is no {source}", hint="put it there")
        content = source.read_bytes()
    names, scores = read_pieces(content, sizes.pieces, source)
    return llama_tokenizer(names, scores, where=source, bos=BOS, eos=EOS)


def read_pieces(content: bytes, count: int, source: Path) -> tuple[list[str], list[float]]:
    """Return the names of the pieces of a tokenizer, as SentencePiece has them, and their scores."""
    pieces: list[bytes] = []
    scores: list[float] = []
    start = 4
    for _ in range(count):
        if start + ENTRY.size > len(content):
            raise FormatError(f"{source}: {len(pieces):,} pieces, and the model has {count:,}", hint="fetch it again")
        score, length = ENTRY.unpack_from(content, start)
        start += ENTRY.size
        if not 0 <= length <= LONGEST_PIECE or start + length > len(content) or not math.isfinite(score):
            raise FormatError(f"{source}: piece {len(pieces):,} is damaged", hint="fetch it again")
        pieces.append(content[start : start + length])
        scores.append(float(score))
        start += length
    if count < FIRST_BYTE + BYTES:
        raise FormatError(f"{source}: {count} pieces, fewer than the special ones and the bytes of SentencePiece")
    return _piece_names(pieces), scores


def _piece_names(pieces: list[bytes]) -> list[str]:
    """Return the pieces as SentencePiece names them; the file has blanks, and special and byte pieces as text."""
    special = [*SPECIAL, *(byte_piece(number) for number in range(BYTES))]
    return special + [piece.decode("utf-8", "replace").replace(" ", SPACE) for piece in pieces[len(special) :]]
