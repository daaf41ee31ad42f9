"""Skip-gram with negative sampling, trained by gensim on a corpus of ours, with word and context vectors kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from evenhand.arrays import Matrix
from evenhand.corpus.counting.count import Progress
from evenhand.corpus.counting.token_file import Spool, spooled
from evenhand.corpus.counting.tokenise import Tokenizer, tokeniser
from evenhand.corpus.readers.paths import Paths
from evenhand.corpus.readers.source import Source, as_source
from evenhand.errors import DegenerateError, FormatError, UsageError, require
from evenhand.models.vectors import Vectors

LONGEST = 10_000  # words that gensim takes at once; it drops the rest of a longer sentence without a word
WORDS, CONTEXTS = "words.safetensors", "contexts.safetensors"
RATE, LAST_RATE = 0.025, 1e-4  # word2vec's learning rate, falling linearly


@dataclass(frozen=True, eq=False)
class SGNS:
    """Word vectors W and context vectors C under the same words, most frequent first: W C^T is about PMI - log k."""

    words: Vectors
    contexts: Vectors
    params: Mapping[str, Any] = field(default_factory=dict)
    """Everything that was chosen."""
    manifest: Mapping[str, Any] = field(default_factory=dict)
    """What was read, and with which versions; nothing that changes from one run to the next."""

    def __post_init__(self) -> None:
        if self.words.words != self.contexts.words or self.words.dim != self.contexts.dim:
            raise FormatError(
                "word and context vectors are not of one model", hint="keep the two files of one training"
            )

    def save(self, folder: str | Path) -> Path:
        """Write words.safetensors and contexts.safetensors, each of which says how both were made."""
        place = Path(folder)
        self.contexts.save(place / CONTEXTS)
        self.words.save(place / WORDS)
        return place

    @classmethod
    def load(cls, folder: str | Path) -> SGNS:
        """Read what `save` wrote."""
        words, contexts = (Vectors.load(Path(folder) / name) for name in (WORDS, CONTEXTS))
        about = [vectors.source.get("sgns") for vectors in (words, contexts)]
        if not isinstance(about[0], dict) or about[0] != about[1]:
            raise FormatError(f"{folder}: words and contexts do not come from one training", hint="train again")
        return cls(words, contexts, about[0]["params"], about[0]["manifest"])


def train_sgns(
    paths: Paths | Source,
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
    progress: Progress = None,
    **reading: Any,
) -> SGNS:
    """Train SGNS (Mikolov et al. 2013) on a corpus; needs the extra `gensim`.

    The text is tokenised once into a temporary file (four bytes a word) and streamed from it in every epoch. Windows
    never cross the end of a document; a document of more than 10,000 words is cut there. The reach of each window is
    drawn from 1 ... `window`, so that `cooccurrence(..., weighting="dynamic")` with the same `window` and `min_count`
    counts what the training sees on average. Only with `sample=0`, though: word2vec's subsampling (1e-3 to 1e-5) takes
    frequent words out before the windows are laid, and the counts know nothing of it.

    With one worker the same seed gives the same bytes; with more, threads race and every run differs a little.
    `ns_exponent` flattens the distribution of negatives as word2vec does; then W C^T approximates the PMI plus
    (1 - ns_exponent) log p(c), and only with 1 the PMI itself.
    """
    _refuse_nonsense(dim=dim, window=window, negative=negative, epochs=epochs, workers=workers, sample=sample)
    word2vec = require("gensim.models", extra="gensim").Word2Vec
    source, cut = as_source(paths, **reading), tokeniser(tokenizer, lower=lower)
    params = {
        "dim": dim, "window": window, "negative": negative, "epochs": epochs, "min_count": min_count,
        "sample": sample, "ns_exponent": ns_exponent, "seed": seed, "workers": workers,
        "tokenizer": cut.name, "lower": cut.lower, "rate": [RATE, LAST_RATE], **source.to_dict(),
    }  # fmt: skip
    with spooled(source, cut, min_count=min_count, progress=progress) as spool:
        model = word2vec(
            vector_size=dim, window=window, negative=negative, sample=sample, ns_exponent=ns_exponent, seed=seed,
            workers=workers, sg=1, hs=0, min_count=1, alpha=RATE, min_alpha=LAST_RATE, epochs=epochs,
            sorted_vocab=0, shrink_windows=True,
        )  # fmt: skip
        model.build_vocab_from_freq(dict(zip(spool.words, spool.occurrences.tolist(), strict=True)))
        text = _Text(spool, epochs, progress)
        model.train(text, total_words=spool.kept, epochs=epochs)
        text.raise_failure()
        manifest = _manifest(spool)
        return _kept(spool.words, model, {"params": params, "manifest": manifest}, name)


class _Text:
    """The text as gensim wants it: lists of words, from the start whenever it is asked again.

    gensim reads in a thread of its own, where an exception would leave it waiting for ever: it is kept for later.
    """

    def __init__(self, spool: Spool, epochs: int, progress: Progress) -> None:
        self._spool, self._epochs, self._progress = spool, epochs, progress
        self._words = np.array(spool.words, dtype=object)
        self._begun = 0
        self._failure: BaseException | None = None

    def __iter__(self) -> Iterator[list[str]]:
        try:
            if self._progress:
                self._progress(self._begun, self._epochs, "training")
            self._begun += 1
            for numbers in self._spool.stretches(LONGEST):
                yield self._words[numbers].tolist()
        except Exception as error:
            self._failure = error

    def raise_failure(self) -> None:
        """Raise what went wrong while reading."""
        if self._failure is not None:
            raise self._failure


def _kept(words: tuple[str, ...], model: Any, about: dict[str, Any], name: str) -> SGNS:
    if tuple(model.wv.index_to_key) != words:
        raise FormatError("gensim has put the words into another order", hint="use gensim 4.3 or later")
    sides = []
    for side, matrix in (("words", model.wv.vectors), ("contexts", model.syn1neg)):
        values: Matrix = np.array(matrix, dtype=np.float32)
        if not np.isfinite(values).all():
            raise DegenerateError("training ran away: the vectors are no longer finite", hint="use fewer epochs")
        sides.append(Vectors(words, values, name=name, source={"side": side, "sgns": about}))
    return SGNS(sides[0], sides[1], about["params"], about["manifest"])


def _manifest(spool: Spool) -> dict[str, Any]:
    return {
        "tokens": spool.tokens,
        "tokens_kept": spool.kept,
        "documents": spool.documents,
        "vocabulary": len(spool.words),
        "gensim": version("gensim"),
        "numpy": version("numpy"),
        **spool.account.to_dict(),
    }


def _refuse_nonsense(*, sample: float, **numbers: int) -> None:
    for what, value in numbers.items():
        if value < 1:
            raise UsageError(f"{what} must be at least 1, got {value}")
    if not 0 <= sample < 1:
        raise UsageError(f"sample is the frequency above which words are thinned out, got {sample}", hint="0 keeps all")
