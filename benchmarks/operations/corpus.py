"""Bias scores of a text, and co-occurrence counts."""

import os
from pathlib import Path

from operation import Call, Operation, Work

TIMES = 4  # copies of WikiText-2's training part: 43 MB, 8.2 million tokens
TOKENS, BYTES = 2_051_910 * TIMES, 10_797_148 * TIMES


def prepare(folder: Path, scale: int) -> None:
    """Write the text, from EVENHAND_DATA or the catalog."""
    from evenhand import data

    found = data.fetch("wikitext-2")
    text = (found / "train.txt" if found.is_dir() else found).read_text(encoding="utf-8")
    wanted = len(text) * TIMES * scale // 8
    with (folder / "text.txt").open("w", encoding="utf-8") as out:
        while wanted > 0:
            out.write(text[:wanted])
            wanted -= len(text)


def _bias(**options):  # type: ignore[no-untyped-def]
    def setup(folder: Path) -> Call:
        os.environ.setdefault("POLARS_MAX_THREADS", "1")
        from evenhand import corpus

        path = folder / "text.txt"
        return lambda: corpus.bias(path, lists="bordia2019-wt2", documents="line", **options).tokens

    return setup


def _cooccurrence(folder: Path) -> Call:
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    from evenhand import corpus

    return lambda: int(corpus.cooccurrence(folder / "text.txt", window=5, tokenizer="whitespace").matrix.nnz)


def _genbit(folder: Path) -> Call:
    import sys
    import types

    sys.modules["stanza"] = types.ModuleType("stanza")
    from genbit import lemmatizer

    lemmatizer.Lemmatizer.initialize_lemmatizer = lambda self: None
    lemmatizer.Lemmatizer.lemmatize_token = lambda self, token: token
    from genbit.genbit_metrics import GenBitMetrics

    lines = [line.split() for line in (folder / "text.txt").open(encoding="utf-8")]
    metrics = GenBitMetrics("en")

    def call() -> int:
        metrics.add_data(lines, tokenized=True)
        metrics.get_metrics()
        return sum(map(len, lines))

    return call


def _read_once(scale: int) -> Work:
    why = "read the bytes, one random access of 64 bytes to a table for each token"
    return Work(bytes=(BYTES + 64.0 * TOKENS) * scale / 8, why=why)


_GENBIT = ("genbit", "genbit 2.2.0, tokenised lines, no lemmatiser")
OPERATIONS = {
    "corpus-window": Operation(
        "Corpus scores, window of 10, 8.2 million tokens, one core",
        _bias(window=10, tokenizer="whitespace"),
        _genbit,
        *_GENBIT,
        work=_read_once,
        growth="tokens",
    ),
    "corpus-decay": Operation(
        "Corpus scores, decay .95, one core",
        _bias(decay=0.95, tokenizer="whitespace"),
        _genbit,
        *_GENBIT,
        growth="tokens",
    ),
    "corpus-words": Operation(
        "Corpus scores, Unicode words, one core", _bias(window=10, tokenizer="words"), growth="tokens"
    ),
    "cooccurrence": Operation("Co-occurrence of all words, window of 5", _cooccurrence, growth="tokens", repeats=3),
}
