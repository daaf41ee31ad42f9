"""Read vectors at a site of a transformer: of words in context, of sentences, and of the word table."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from evenhand.arrays import Matrix, Rows, Vector64
from evenhand.errors import DegenerateError, EvenhandWarning, TextTooLongError, UsageError, few, require
from evenhand.models.device import model_errors, run_in_batches, tokens_at_once
from evenhand.models.encoders.hooks import SiteReachedError, recorded
from evenhand.models.encoders.sentences import Pooling, pool
from evenhand.models.encoders.sites import Site, locate, resolve
from evenhand.models.encoders.transformer import Transformer
from evenhand.models.tokenizing import EncodedText, encode_texts
from evenhand.models.vectors import Vectors

if TYPE_CHECKING:
    from torch import Tensor

# Sentences that say nothing about a word, whatever its part of speech.
CONTEXTS = (
    "This is {word}.",
    "That was {word} again.",
    "They said {word} and left.",
    "The page says {word} at the end.",
)


@dataclass(frozen=True, eq=False)
class ContextVectors:
    """Vectors of words at a site, and what they were read from."""

    vectors: Vectors
    contexts: int
    """Sentences for each word; 0 for the word table."""
    split: tuple[str, ...]
    """Words that the tokenizer splits into pieces, which were averaged."""
    lost: tuple[str, ...]
    """Words that the tokenizer cannot spell."""

    def report(self) -> dict[str, object]:
        """Return the account for a record."""
        return {
            "words": len(self.vectors),
            "contexts": self.contexts,
            "words_averaged_over_pieces": list(self.split),
            "words_without_tokens": list(self.lost),
        }


def words_in_context(
    transformer: Transformer, site: Site | str, words: Iterable[str], contexts: Sequence[str] = CONTEXTS
) -> ContextVectors:
    """Return a vector of each word at a site: the mean over its own tokens and over several sentences.

    At `pooled`, which has one vector for a text, the vectors of the sentences are averaged.

    Args:
        transformer: the model.
        site: where to read.
        words: the words.
        contexts: sentences with `{word}`.
    """
    site = resolve(transformer.model, site)
    listed = list(dict.fromkeys(words))
    broken = [context for context in contexts if context.count("{word}") != 1]
    if broken or not contexts:
        raise UsageError(f"a context needs one {{word}}: {few(broken) or 'none was given'}")
    spelt = [word.replace("_", " ") for word in listed]  # lists made for word2vec join phrases so
    texts = [context.replace("{word}", word) for word in spelt for context in contexts]
    starts = [context.index("{word}") for _ in listed for context in contexts]
    encoded = encode_texts(transformer.tokenizer, texts)
    unknown = transformer.tokenizer.unk_token_id
    tokens: list[list[int]] = []
    for number, (text, start) in enumerate(zip(encoded, starts, strict=True)):
        own = text.covering(start, start + len(spelt[number // len(contexts)]))
        known = own and not any(text.ids[position] == unknown for position in own)
        tokens.append([len(text.before) + position for position in own] if known else [])
    rows = np.zeros((len(texts), locate(transformer.model, site).width), dtype=np.float32)

    known_rows = [row for row, own in enumerate(tokens) if own]

    def keep(batch: Rows, states: Tensor, mask: Tensor) -> None:
        for place, row in enumerate(known_rows[number] for number in batch):
            own = states[place] if states.ndim == 2 else states[place, tokens[row]].mean(dim=0)
            rows[row] = own.float().cpu().numpy()

    _read(transformer, site, [encoded[row] for row in known_rows], keep)
    per_word = [tokens[start : start + len(contexts)] for start in range(0, len(tokens), len(contexts))]
    found = [index for index, own in enumerate(per_word) if all(own)]
    if not found:
        raise DegenerateError(f"{transformer.name}: the tokenizer spells none of {few(listed)}")
    matrix = rows.reshape(len(listed), len(contexts), -1)[found].mean(axis=1)
    _check_finite(matrix, transformer, site)
    kept = tuple(listed[index] for index in found)
    vectors = Vectors(kept, matrix, name=f"{transformer.name} at {site}", source={"kind": "words in context"})
    split = tuple(listed[index] for index in found if len(per_word[index][0]) > 1)
    lost = tuple(word for word in listed if word not in set(kept))
    return ContextVectors(vectors, len(contexts), split, lost)


def words_of_table(transformer: Transformer, table: Vectors, words: Iterable[str]) -> ContextVectors:
    """Return the word table, with words that the tokenizer splits added as the mean of their pieces.

    Args:
        transformer: the model.
        table: its input table, which has a row for each word that is a single piece.
        words: words that must be there; the others are those of the table.
    """
    _, coverage = table.locate(words)
    missing = list(dict.fromkeys(coverage.missing))
    before = "the "  # a word inside a text is spelt with the marker of a beginning
    texts = [before + word.replace("_", " ") for word in missing]
    encoded = encode_texts(transformer.tokenizer, texts, special=False)
    unknown = transformer.tokenizer.unk_token_id
    pieces = {
        word: text.ids[own]
        for word, text in zip(missing, encoded, strict=True)
        if (own := text.covering(len(before), len(before) + len(word))) and unknown not in text.ids[own]
    }
    lost = tuple(word for word in missing if word not in pieces)
    if not pieces:
        return ContextVectors(table, 0, (), lost)
    torch = require("torch", extra="models")
    place = locate(transformer.model, Site("embeddings"))
    with torch.no_grad():
        means = [
            (place.modules[0](torch.as_tensor(ids, device=transformer.device)) / place.scale).float().mean(dim=0)
            for ids in pieces.values()
        ]
    added = torch.stack(means).cpu().numpy()
    warnings.warn(
        f"{len(pieces)} words are split by the tokenizer of {transformer.name}; the mean of their pieces stands for "
        f"{few(pieces)}",
        EvenhandWarning,
        stacklevel=4,
    )
    extended = Vectors(
        (*table.words, *pieces), np.vstack([table.matrix, added]), name=table.name, source=table.source,
        history=table.history, case=table.case,
    )  # fmt: skip
    return ContextVectors(extended, 0, tuple(pieces), lost)


def sentences_at(
    transformer: Transformer, site: Site | str, texts: Sequence[str], *, pooling: Pooling = "mean"
) -> Matrix:
    """Return a vector of each text at a site; `pooling` joins its tokens, special ones included."""
    site = resolve(transformer.model, site)
    vectors = np.zeros((len(texts), locate(transformer.model, site).width), dtype=np.float32)

    def keep(batch: Rows, states: Tensor, mask: Tensor) -> None:
        joined = states if states.ndim == 2 else pool(states.float(), mask, pooling)
        vectors[batch] = joined.float().cpu().numpy()

    _read(transformer, site, encode_texts(transformer.tokenizer, texts), keep)
    _check_finite(vectors, transformer, site)
    return vectors


def read_tokens(
    transformer: Transformer, site: Site | str, texts: Sequence[str], keep: Callable[[Rows, Matrix], None]
) -> None:
    """Call `keep` with the text of each token and its vector at a site, batch by batch; special tokens are included."""
    site = resolve(transformer.model, site)

    def take(batch: Rows, states: Tensor, mask: Tensor) -> None:
        chosen = mask.bool()
        vectors = states[chosen].float().cpu().numpy()
        _check_finite(vectors, transformer, site)
        keep(np.asarray(batch)[np.nonzero(chosen.cpu().numpy())[0]], vectors)

    _read(transformer, site, encode_texts(transformer.tokenizer, texts), take)


def token_lengths(transformer: Transformer, site: Site | str, texts: Sequence[str]) -> Vector64:
    """Return the length of the vector of every token at a site; special tokens are included."""
    found: list[Vector64] = []

    def keep(sentences: Rows, vectors: Matrix) -> None:
        found.append(np.linalg.norm(vectors.astype(np.float64), axis=1))

    read_tokens(transformer, site, texts, keep)
    return np.concatenate(found)


def _read(
    transformer: Transformer, site: Site, texts: Sequence[EncodedText], keep: Callable[[Rows, Tensor, Tensor], None]
) -> None:
    """Run the model on texts and pass what is at the site, with a mask of the tokens, to `keep`."""
    torch = require("torch", extra="models")
    model = transformer.model
    ids = [np.concatenate([text.before, text.ids, text.after]) for text in texts]
    lengths = [len(row) for row in ids]
    if lengths and max(lengths) > transformer.window:
        raise TextTooLongError(
            f"a text has {max(lengths):,} tokens, and the model reads {transformer.window:,}", hint="use shorter texts"
        )
    body = model if site.kind == "pooled" else model.base_model  # the head is needed for no other site

    def compute(rows: Rows) -> None:
        padded = np.zeros((len(rows), max(lengths[row] for row in rows)), dtype=np.int64)
        mask = np.zeros_like(padded)
        for place, row in enumerate(rows):
            padded[place, : lengths[row]] = ids[row]
            mask[place, : lengths[row]] = 1
        transformer.check_ids(padded)
        inputs, attention = (torch.from_numpy(part).to(transformer.device) for part in (padded, mask))
        reached = contextlib.suppress(SiteReachedError)
        with recorded(model, site) as states, torch.inference_mode(), reached, model_errors(model):
            body(input_ids=inputs, attention_mask=attention)
        keep(rows, states[0], attention.float())

    run_in_batches(lengths, compute, tokens=tokens_at_once(transformer.device))


def _check_finite(vectors: Matrix, transformer: Transformer, site: Site) -> None:
    if not np.isfinite(vectors).all():
        raise DegenerateError(f"{transformer.name}: a vector at {site} contains NaN or infinity", hint="check weights")
