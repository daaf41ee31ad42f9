"""Text to tokens and to ids on one core: ours beside public tokenizers in compiled languages, on the same text.

    EVENHAND_DATA=folder [EVENHAND_BLINGFIRE_PYTHON=python] python benchmarks/tokenizer_floor.py [FILE]

FILE is text with words between blanks; unless given, that of `benchmarks/corpus.py`. Every tokenizer divides it at
blanks. Those that end with "ids" also number the words, which is what counting needs; "and ends" also keeps where
documents end. Prints one JSON line: million tokens a second of processor time, the best of five runs after one to warm
up, in turn. Of the tokenizers that take a microsecond a token an eighth of the lines is timed. Blingfire, which is no
dependency, is timed by the interpreter of an environment that has it.
"""

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from typing import Any

ONE_THREAD = ("POLARS_MAX_THREADS", "OMP_NUM_THREADS", "RAYON_NUM_THREADS", "ARROW_NUM_THREADS")
for name in ONE_THREAD:
    os.environ[name] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import polars as pl  # noqa: E402
import pyarrow as pa  # noqa: E402
import pyarrow.compute as pc  # noqa: E402
from tokenizers import Tokenizer, models, pre_tokenizers  # noqa: E402

from corpus import sample  # noqa: E402
from evenhand.corpus.counting.token_reader import TokenReader  # noqa: E402
from evenhand.corpus.counting.tokens import Vocabulary, make_tokeniser  # noqa: E402
from evenhand.corpus.readers.stream import END, PIECE, cut  # noqa: E402

REPEATS, SLOW_SHARE = 5, 8
BLINGFIRE = """
import sys, time, blingfire
lines = open(sys.argv[1], encoding="utf-8").read().split("\\n")
best = float("inf")
for _ in range(6):
    start = time.process_time()
    for line in lines:
        blingfire.text_to_words(line)
    best = min(best, time.process_time() - start)
print(best)
"""


def ours(text: str, *, by_bytes: bool) -> None:
    """Read ids in pieces, with the end of each line; words by their bytes, or all of them by polars."""
    tokeniser = make_tokeniser("whitespace")
    reader = TokenReader(tokeniser if by_bytes else replace(tokeniser, separators=None), Vocabulary((END,)))
    for piece in cut(iter([text.replace("\n", END)]), PIECE):
        reader.ids(piece)


def public(text: str, lines: list[str]) -> dict[str, tuple[Callable[[], Any], int]]:
    """Return for each way what it computes and the share of the text that it is given, as a divisor."""
    column, arrow, few = pl.Series(lines), pa.array(lines), lines[::SLOW_SHARE]
    blanks = pre_tokenizers.WhitespaceSplit()
    word_level = Tokenizer(models.WordLevel({word: row for row, word in enumerate(dict.fromkeys(text.split()))}, "the"))
    word_level.pre_tokenizer = blanks

    def ids_of(words: pl.Series) -> pl.Series:
        return words.explode().cast(pl.Categorical(pl.Categories.random())).to_physical()

    return {
        "ours, ids and ends": (lambda: ours(text, by_bytes=True), 1),
        "polars str.split and categories in pieces, ids and ends": (lambda: ours(text, by_bytes=False), 1),
        "str.split": (lambda: text.split(), 1),
        "polars str.split": (lambda: column.str.split(" "), 1),
        "polars str.split and categories, ids": (lambda: ids_of(column.str.split(" ")), 1),
        "pyarrow ascii_split_whitespace": (lambda: pc.ascii_split_whitespace(arrow), 1),
        "pyarrow utf8_split_whitespace": (lambda: pc.utf8_split_whitespace(arrow), 1),
        "pyarrow utf8_split_whitespace and dictionary, ids": (
            lambda: pc.utf8_split_whitespace(arrow).flatten().dictionary_encode(),
            1,
        ),
        "tokenizers WhitespaceSplit": (lambda: [blanks.pre_tokenize_str(line) for line in few], SLOW_SHARE),
        "tokenizers WordLevel, ids": (lambda: word_level.encode_batch_fast(few), SLOW_SHARE),
    }


def blingfire(text: str) -> float | None:
    """Return the seconds of blingfire, where there is an environment with it."""
    python = os.environ.get("EVENHAND_BLINGFIRE_PYTHON")
    if not python:
        return None
    import tempfile

    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".txt") as file:
        file.write(text)
        file.flush()
        done = subprocess.run([python, "-c", BLINGFIRE, file.name], capture_output=True, text=True, check=True)
    return float(done.stdout)


def main(given: str | None = None) -> None:
    """Time every way in turn."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    text = sample(given)
    lines, tokens = text.split("\n"), len(text.split())
    ways = public(text, lines)
    best: dict[str, float] = {}
    for _ in range(1 + REPEATS):
        for name, (run, divisor) in ways.items():
            start = time.process_time()
            run()
            best[name] = min(best.get(name, float("inf")), (time.process_time() - start) * divisor)
    if (seconds := blingfire(text)) is not None:
        best["blingfire text_to_words"] = seconds
    speeds = {name: round(tokens / seconds / 1e6, 1) for name, seconds in best.items()}
    versions = {name: version(name) for name in ("polars", "pyarrow", "tokenizers")}
    print(json.dumps({"tokens": tokens, "Mtokens_per_cpu_s": speeds, **versions, "machine": platform.machine()}))


if __name__ == "__main__":
    main(*sys.argv[1:2])
