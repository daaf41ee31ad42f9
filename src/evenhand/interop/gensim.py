"""gensim: convert `KeyedVectors` to `Vectors` and back, and train skip-gram vectors (SGNS) on a corpus."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from evenhand.arrays import Matrix, Rows, Vector64
from evenhand.corpus import Cooccurrence
from evenhand.corpus.counting.count import TokenFile, tokenise_to_file
from evenhand.corpus.counting.tokens import Tokenizer, make_tokeniser
from evenhand.corpus.readers.paths import Paths
from evenhand.corpus.readers.source import ReadArguments, TextSource, as_source
from evenhand.errors import DegenerateError, FormatError, UsageError, require
from evenhand.models.vectors import Case, Vectors
from evenhand.models.vectors.formats.word2vec import gensim_content
from evenhand.outputs import replacing_folder
from evenhand.progress import Progress

if TYPE_CHECKING:
    from gensim.models import KeyedVectors, Word2Vec


def from_gensim(
    keyed_vectors: KeyedVectors, *, name: str = "gensim", copy: bool = True, case: Case = "auto"
) -> Vectors:
    """Return the vectors of a gensim `KeyedVectors`, or of a trained model with an attribute `wv`.

    fastText vectors still compose unseen words; gensim does this with the current state of the model.

    Args:
        keyed_vectors: loaded or trained by gensim.
        name: name of the vectors in reports.
        copy: copy the matrix, so that further training does not change the result; False shares gensim's memory.
        case: how words are looked up.
    """
    parsed = gensim_content(keyed_vectors, name=name)
    matrix = np.array(parsed.matrix, np.float32, copy=True if copy else None)
    return Vectors(tuple(parsed.words), matrix, name=name, source=parsed.source, case=case, compose=parsed.compose)


def to_gensim(vectors: Vectors) -> KeyedVectors:
    """Return a gensim `KeyedVectors` with a copy of words and matrix; history and subwords are not included."""
    keyed_vectors = require("gensim.models", extra="gensim").KeyedVectors(vectors.dim, dtype=np.float32)
    keyed_vectors.add_vectors(list(vectors.words), np.asarray(vectors.matrix))
    return keyed_vectors


LONGEST = 10_000  # words of a sentence; gensim silently drops the rest of a longer one
WORDS, CONTEXTS = "words.safetensors", "contexts.safetensors"
RATE, LAST_RATE = 0.025, 1e-4  # word2vec's learning rate, which falls linearly


@dataclass(frozen=True, eq=False)
class SGNS:
    """Word vectors W and context vectors C under the same words, most frequent first: W C^T is about PMI - log k."""

    words: Vectors
    contexts: Vectors
    params: Mapping[str, Any] = field(default_factory=dict)
    """The options of the training."""
    manifest: Mapping[str, Any] = field(default_factory=dict)
    """What was read, and the package versions; nothing that differs between identical runs."""

    def __post_init__(self) -> None:
        if self.words.words != self.contexts.words or self.words.dim != self.contexts.dim:
            raise FormatError(
                "word and context vectors belong to different models", hint="use the two files of one training"
            )

    def save(self, folder: str | Path) -> Path:
        """Write words.safetensors and contexts.safetensors, each with the options of the training."""
        path = Path(folder)
        with replacing_folder(path, keep_others=True) as partial:
            self.contexts.save(partial / CONTEXTS)
            self.words.save(partial / WORDS)
        return path

    @classmethod
    def load(cls, folder: str | Path) -> SGNS:
        """Read a folder written by `save`."""
        words, contexts = (Vectors.load(Path(folder) / name) for name in (WORDS, CONTEXTS))
        records = [vectors.source.get("sgns") for vectors in (words, contexts)]
        if not isinstance(records[0], dict) or records[0] != records[1]:
            raise FormatError(f"{folder}: words and contexts do not come from one training", hint="train again")
        return cls(words, contexts, records[0]["params"], records[0]["manifest"])


def train_sgns(
    paths: Paths | TextSource,
    dim: int = 300,
    *,
    window: int = 5,
    negative: int = 5,
    epochs: int = 5,
    min_count: int = 20,
    sample: float = 0.0,
    ns_exponent: float = 0.75,
    seed: int = 0,
    workers: int = 1,
    tokenizer: Tokenizer = "words",
    lower: bool | None = None,
    name: str = "sgns",
    progress: Progress | None = None,
    **reading: Unpack[ReadArguments],
) -> SGNS:
    """Train SGNS (Mikolov et al. 2013) on a corpus; needs the extra `gensim`.

    The text is tokenised once into a temporary file (four bytes per word) and streamed from it in every epoch. Windows
    never cross the end of a document; a document of more than 10,000 words is cut. The size of each window is drawn
    from 1 ... `window`, so that `cooccurrence(..., weighting="dynamic")` with the same `window` and `min_count` counts
    what the training sees on average. This holds with `sample=0` only: word2vec's subsampling (1e-3 to 1e-5) removes
    frequent words before windows are applied, which the counts do not.

    With one worker the same seed gives the same bytes; with more, threads race and runs differ slightly. `ns_exponent`
    flattens the distribution of negatives as in word2vec; then W C^T approximates the PMI plus
    (1 - ns_exponent) log p(c), and only with 1 the PMI itself.
    """
    _check_numbers(dim=dim, window=window, negative=negative, epochs=epochs, workers=workers, sample=sample)
    word2vec = require("gensim.models", extra="gensim").Word2Vec
    source, tokeniser = as_source(paths, **reading), make_tokeniser(tokenizer, lower=lower)
    params: dict[str, object] = {
        "dim": dim, "window": window, "negative": negative, "epochs": epochs, "min_count": min_count,
        "sample": sample, "ns_exponent": ns_exponent, "seed": seed, "workers": workers,
        "tokenizer": tokeniser.name, "lower": tokeniser.lower, "rate": [RATE, LAST_RATE], **source.to_dict(),
    }  # fmt: skip
    with tokenise_to_file(source, tokeniser, min_count=min_count, progress=progress) as tokens:
        model = word2vec(
            vector_size=dim, window=window, negative=negative, sample=sample, ns_exponent=ns_exponent, seed=seed,
            workers=workers, sg=1, hs=0, min_count=1, alpha=RATE, min_alpha=LAST_RATE, epochs=epochs,
            sorted_vocab=0, shrink_windows=True,
        )  # fmt: skip
        model.build_vocab_from_freq(dict(zip(tokens.words, tokens.occurrences.tolist(), strict=True)))
        text = _Sentences(tokens, epochs, progress)
        model.train(text, total_words=tokens.frequent_tokens, epochs=epochs)
        text.raise_failure()
        return _as_sgns(tokens.words, model, params, _manifest(tokens), name)


class _Sentences:
    """The text as lists of words, restartable as gensim requires.

    gensim reads in a thread of its own, where an exception would block the training for ever: it is stored instead.
    """

    def __init__(self, tokens: TokenFile, epochs: int, progress: Progress | None) -> None:
        self._tokens, self._epochs, self._progress = tokens, epochs, progress
        self._words = np.array(tokens.words, dtype=object)
        self._epoch = 0
        self._failure: BaseException | None = None

    def __iter__(self) -> Iterator[list[str]]:
        try:
            if self._progress:
                self._progress(self._epoch, self._epochs, "training")
            self._epoch += 1
            for ids in self._tokens.stretches(LONGEST):
                yield self._words[ids].tolist()
        except Exception as error:
            self._failure = error

    def raise_failure(self) -> None:
        """Raise the error of the reading thread, if any."""
        if self._failure is not None:
            raise self._failure


def _as_sgns(
    words: tuple[str, ...], model: Word2Vec, params: dict[str, object], manifest: dict[str, object], name: str
) -> SGNS:
    if tuple(model.wv.index_to_key) != words:
        raise FormatError("gensim has changed the order of the words", hint="use gensim 4.3 or later")
    sides = []
    for side, matrix in (("words", model.wv.vectors), ("contexts", model.syn1neg)):
        values: Matrix = np.array(matrix, dtype=np.float32)
        if not np.isfinite(values).all():
            raise DegenerateError("the training diverged: the vectors are not finite", hint="use fewer epochs")
        sides.append(
            Vectors(words, values, name=name, source={"side": side, "sgns": {"params": params, "manifest": manifest}})
        )
    return SGNS(sides[0], sides[1], params, manifest)


def _manifest(tokens: TokenFile) -> dict[str, object]:
    return {
        "tokens": tokens.tokens,
        "tokens_kept": tokens.frequent_tokens,
        "documents": tokens.documents,
        "vocabulary": len(tokens.words),
        "gensim": version("gensim"),
        "numpy": version("numpy"),
        **tokens.read_log.to_dict(),
    }


def _check_numbers(*, sample: float, **numbers: int) -> None:
    for name, value in numbers.items():
        if value < 1:
            raise UsageError(f"{name} must be at least 1, got {value}")
    if not 0 <= sample < 1:
        raise UsageError(f"sample must be at least 0 and below 1, got {sample}", hint="0 turns subsampling off")


PAIRS = 200_000


@dataclass(frozen=True)
class Reconstruction:
    """`slope` and `correlation` of <w, c> on the values that SGNS should reconstruct; both 1 without error.

    `lambda_` is the best factor in C = lambda W, which the theory of Ethayarajh et al. assumes, and `proportional` the
    cosine of the two matrices: 1 if the assumption holds exactly.
    """

    slope: float
    intercept: float
    correlation: float
    pairs: int
    lambda_: float
    proportional: float


def reconstruction(model: SGNS, counts: Cooccurrence, *, pairs: int = PAIRS, seed: int = 0) -> Reconstruction:
    """Compare <w, c> with PMI(w, c) + log p(c) / q(c) - log k over a random sample of co-occurring pairs.

    q, the distribution of negatives, is p^ns_exponent, normalised: with exponent 1 the middle term vanishes and the
    formula is that of Levy & Goldberg 2014.
    """
    rows, columns, expected = _expected_products(model, counts, pairs, seed)
    words, contexts = (side.matrix.astype(np.float64) for side in (model.words, model.contexts))
    dots = np.einsum("ij,ij->i", words[rows], contexts[columns])
    slope, intercept = np.polyfit(expected, dots, 1)
    product, own, other = (float((a * b).sum()) for a, b in ((words, contexts), (words, words), (contexts, contexts)))
    if not (own > 0 and other > 0):
        raise DegenerateError("the vectors are all zero", hint="train them first")
    correlation = np.corrcoef(expected, dots)[0, 1]
    return Reconstruction(
        float(slope),
        float(intercept),
        float(correlation),
        len(dots),
        product / own,
        product / float(np.sqrt(own * other)),
    )


def _expected_products(model: SGNS, counts: Cooccurrence, pairs: int, seed: int) -> tuple[Rows, Rows, Vector64]:
    """Return rows of words, rows of contexts and expected products, for words that both sides have."""
    rows = np.array([model.words.index.get(word, -1) for word in counts.words], dtype=np.intp)
    table = counts.matrix.tocoo()
    usable = np.flatnonzero((rows[table.row] >= 0) & (rows[table.col] >= 0))
    if not len(usable):
        raise DegenerateError("no pair of words of the vectors co-occurs in the counts", hint="use the same text")
    drawn = np.random.default_rng(seed).permutation(usable)[:pairs]
    word, context = table.row[drawn], table.col[drawn]
    total = counts.marginals.sum()
    pmi = np.log(table.data[drawn]) + np.log(total) - np.log(counts.marginals[word]) - np.log(counts.marginals[context])
    occurrences = counts.occurrences.astype(np.float64)
    negatives = occurrences ** float(model.params.get("ns_exponent", 1.0))
    shift = np.log(occurrences[context] / occurrences.sum()) - np.log(negatives[context] / negatives.sum())
    return rows[word], rows[context], pmi + shift - np.log(float(model.params.get("negative", 1)))
