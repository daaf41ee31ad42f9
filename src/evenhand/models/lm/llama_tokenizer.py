"""The tokenizer of Llama models: SentencePiece BPE, rebuilt from its pieces and their scores.

Files such as GGUF and those of llama2.c store the vocabulary with a score for each piece, and no merges. A piece is the
merge of every two pieces of the vocabulary that it consists of, and merges with higher scores are applied first.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand.errors import FormatError, require

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

SPACE = "▁"  # stands for a blank in pieces
BYTES = 256
LONGEST_PIECE = 1_000  # characters; the search for merges takes time quadratic in it


def llama_tokenizer(
    pieces: Sequence[str],
    scores: Sequence[float],
    *,
    where: Path,
    bos: int,
    eos: int,
    unknown: int = 0,
    special: Collection[int] = (),
) -> PreTrainedTokenizerBase:
    """Return the tokenizer of a vocabulary.

    Args:
        pieces: the pieces in the order of their ids, with "▁" for blanks and `<0x0A>` for bytes.
        scores: the score of each piece; the piece with the highest score is merged first.
        where: the file, for messages.
        bos: id of the token for the beginning of a text.
        eos: id of the token for its end.
        unknown: id of the unknown token.
        special: ids of further tokens that text never becomes.

    Raises:
        FormatError: If pieces repeat, a piece is too long, or an id is outside the vocabulary.
    """
    tokenizers: Any = require("tokenizers", extra="models")
    transformers: Any = require("transformers", extra="models")
    rows = {piece: row for row, piece in enumerate(pieces)}
    control = sorted({bos, eos, unknown, *special})
    longest = max(map(len, pieces), default=0)
    if len(rows) != len(pieces) or len(scores) != len(pieces) or longest > LONGEST_PIECE:
        raise FormatError(
            f"{where}: a vocabulary of {len(pieces):,} pieces, {len(rows):,} of them different, with {len(scores):,} "
            f"scores and pieces of up to {longest:,} characters is not one of SentencePiece",
            hint="fetch the file again",
        )
    if not 0 <= control[0] <= control[-1] < len(pieces):
        raise FormatError(f"{where}: special tokens {control} are outside the vocabulary of {len(pieces):,} pieces")
    model = tokenizers.models.BPE(
        rows, merges_of(pieces, scores, control), unk_token=pieces[unknown], fuse_unk=True, byte_fallback=True
    )
    core = tokenizers.Tokenizer(model)
    normalizers, decoders = tokenizers.normalizers, tokenizers.decoders
    core.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)])
    core.decoder = decoders.Sequence(
        [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    core.add_special_tokens([tokenizers.AddedToken(pieces[row], normalized=False) for row in control])
    names = {"bos_token": pieces[bos], "eos_token": pieces[eos], "unk_token": pieces[unknown]}
    tokenizer: PreTrainedTokenizerBase = transformers.PreTrainedTokenizerFast(tokenizer_object=core, **names)
    return tokenizer


def merges_of(pieces: Sequence[str], scores: Sequence[float], special: Collection[int] = ()) -> list[tuple[str, str]]:
    """Return the merges of a vocabulary, highest score first; ties by the ids of piece and parts.

    >>> merges_of(["a", "b", "c", "ab", "abc"], [0, 0, 0, -1, -2])
    [('a', 'b'), ('ab', 'c')]
    """
    rows = {piece: row for row, piece in enumerate(pieces)}
    kept = [row for row in range(len(pieces)) if row not in set(special) and not is_byte(pieces[row])]
    found = [
        (-scores[row], row, rows[left], rows[right])
        for row in kept
        for cut in range(1, len(pieces[row]))
        if (left := pieces[row][:cut]) in rows and (right := pieces[row][cut:]) in rows
    ]
    return [(pieces[left], pieces[right]) for _, _, left, right in sorted(found)]


def is_byte(piece: str) -> bool:
    """Return whether a piece stands for a byte: <0x0A>."""
    return len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">")


def byte_piece(number: int) -> str:
    """Return the piece of a byte.

    >>> byte_piece(10)
    '<0x0A>'
    """
    return f"<0x{number:02X}>"
