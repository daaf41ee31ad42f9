"""Bias scores of a text, and co-occurrence counts."""

import os
from pathlib import Path

from operation import Call, Operation, Sizes, Work

ABOUT = (
    "WikiText-2 twice over where EVENHAND_DATA has it, else SYNTHETIC words with Zipf's frequencies; growth: the latter"
)
SIZES = {"tokens": 4_000_000, "distinct_words": 0}
GROWTH = {"tokens": 250_000, "distinct_words": 5_000}
TINY = {"tokens": 40_000, "distinct_words": 1_000}
BYTES_A_TOKEN = 5.3
WINDOW = 5
COUNTED = {"tokens": 400_000, "distinct_words": 0}


def prepare(folder: Path, sizes: Sizes) -> None:
    """Write the text: so many words, 20 a line where they are made up."""
    from corpus import made_up

    known = Path(os.environ.get("EVENHAND_DATA", "")) / "wikitext-2" / "train.txt"
    kinds = sizes["distinct_words"]
    with (folder / "text.txt").open("w", encoding="utf-8") as out:
        if kinds or not known.exists():
            out.write(made_up(sizes["tokens"] // 20 * 20, kinds or 50_000) + "\n")
            return
        left = sizes["tokens"]
        while left > 0:
            for line in known.open(encoding="utf-8"):
                out.write(line)
                left -= len(line.split())
                if left <= 0:
                    break


def _bias(**options):  # type: ignore[no-untyped-def]
    def setup(folder: Path) -> Call:
        os.environ.setdefault("POLARS_MAX_THREADS", "1")
        import polars  # noqa: F401

        from evenhand import corpus

        path = folder / "text.txt"
        return lambda: corpus.bias(path, lists="bordia2019-wt2", documents="line", **options).tokens

    return setup


def _genbit(folder: Path) -> Call:
    import sys
    import types

    sys.modules["stanza"] = types.ModuleType("stanza")
    from genbit import lemmatizer

    lemmatizer.Lemmatizer.initialize_lemmatizer = lambda self: None
    lemmatizer.Lemmatizer.lemmatize_token = lambda self, token: token
    from genbit.genbit_metrics import GenBitMetrics

    with (folder / "text.txt").open(encoding="utf-8") as text:
        lines = [line.split() for line in text]
    metrics = GenBitMetrics("en")

    def call() -> int:
        metrics.add_data(lines, tokenized=True)
        metrics.get_metrics()
        return sum(map(len, lines))

    return call


def _cooccurrence(folder: Path) -> Call:
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    import polars  # noqa: F401
    import scipy.sparse  # noqa: F401

    from evenhand import corpus

    path = folder / "text.txt"

    def call() -> list[float]:
        found = corpus.cooccurrence(path, window=WINDOW, tokenizer="whitespace", lower=False, documents="line")
        return [float(found.matrix.nnz), float(found.matrix.sum())]

    return call


def _counter(folder: Path) -> Call:
    from collections import Counter

    def call() -> list[float]:
        counts: Counter[tuple[str, str]] = Counter()
        with (folder / "text.txt").open(encoding="utf-8") as text:
            for line in text:
                words = line.split()
                for place, word in enumerate(words):
                    for other in words[max(0, place - WINDOW) : place]:
                        counts[word, other] += 1
                        counts[other, word] += 1
        return [float(len(counts)), float(sum(counts.values()))]

    return call


def _read_once(sizes: Sizes) -> Work:
    return Work(
        read=BYTES_A_TOKEN * sizes["tokens"], lookups=sizes["tokens"], why="read the text, one look-up for each token"
    )


def _pairs(sizes: Sizes) -> Work:
    return Work(lookups=2.0 * WINDOW * sizes["tokens"], why="one look-up for each pair of neighbours")


_GENBIT = {"theirs": _genbit, "peer": "genbit", "peer_name": "genbit 2.2.0 on tokenised lines, without lemmatiser"}
_GROWTH = ("tokens", "distinct_words")
OPERATIONS = {
    "corpus-window": Operation(
        "corpus scores, window of 10, {tokens} tokens, one core",
        _bias(window=10, tokenizer="whitespace"),
        **_GENBIT,
        work=_read_once,
        growth=_GROWTH,
        warm=False,
    ),
    "corpus-decay": Operation(
        "corpus scores, decay 0.95, one core", _bias(decay=0.95, tokenizer="whitespace"), **_GENBIT, work=_read_once
    ),
    "corpus-words": Operation(
        "corpus scores, Unicode words, one core (genbit: tokens given)",
        _bias(window=10, tokenizer="words"),
        **_GENBIT,
        work=_read_once,
    ),
    "cooccurrence": Operation(
        "co-occurrence of all words, window of 5, {tokens} tokens",
        _cooccurrence,
        _counter,
        peer_name="a Counter loop",
        tolerance=1e-9,
        work=_pairs,
        growth=_GROWTH,
        sizes=COUNTED,
    ),
}
