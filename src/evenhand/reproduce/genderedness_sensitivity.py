"""How much the means of table 2 of Ethayarajh et al. 2019 hang on what the paper leaves open."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from evenhand.corpus import Cooccurrence
from evenhand.errors import EvenhandError
from evenhand.models.vectors import Vectors
from evenhand.reproduce.genderedness import Comparison, Setting, compare
from evenhand.reproduce.genderedness_table import MEANS
from evenhand.reproduce.table import Table

ALPHAS = (0.0, -1.0, -2.0, -5.0)
COLUMNS = (
    *("choice", "alpha", "lambda"),
    *(f"{group} {value}" for group in MEANS for value in ("n", "corpus", "vectors", "change", "interval")),
)
NOTES = (
    "Means of absolute values, the mean change and its 95 % bootstrap interval over words.",
    "A dash: fewer than two words, or the choice is impossible.",
)


def variants(base: Setting, seed: int) -> Iterator[tuple[str, Setting, int]]:
    """What is varied, one choice at a time: the label, the setting and the seed."""
    yield "as in the table", base, seed
    for alpha in ALPHAS:
        yield f"alpha {alpha:g}", replace(base, alpha=alpha), seed
    yield "alpha and lambda fitted", replace(base, alpha=None, lambda_=None), seed
    for pairs in (1, 5, 8):
        yield f"at least {pairs} pair{'s' * (pairs > 1)} defined", replace(base, min_pairs=pairs), seed
    for least in (1.0, 5.0):
        yield f"company of at least {least:g}", replace(base, least=least), seed
    yield "vectors over all pairs", replace(base, same_pairs=False), seed
    yield "with the defining words", replace(base, defining=True), seed
    yield "with them, company of at least 5", replace(base, defining=True, least=5.0), seed
    for often in (20, 1000):
        yield f"neutral words from {often} occurrences", replace(base, frequent=often), seed
    yield "50 neutral words", replace(base, neutral=50), seed
    for other in (1, 2):
        yield f"neutral words drawn with seed {seed + other}", base, seed + other


def sensitivity(
    counts: Cooccurrence,
    vectors: Vectors,
    *,
    setting: Setting | None = None,
    others: Mapping[str, tuple[Cooccurrence, Vectors]] | None = None,
    seed: int = 0,
) -> Table:
    """The means of the three groups under other choices; `others` are other counts or vectors of the same text."""
    base = setting or Setting()
    rows = [_row(label, counts, vectors, given, drawn) for label, given, drawn in variants(base, seed)]
    rows += [_row(label, *sides, base, seed) for label, sides in (others or {}).items()]
    title = "Ethayarajh et al. 2019, table 2: means under other choices"
    return Table(title, COLUMNS, (_published(), *rows), NOTES)


def _published() -> tuple[Any, ...]:
    cells = [cell for n, corpus, vectors, change, _ in MEANS.values() for cell in (n, corpus, vectors, change, "")]
    return ("the paper", -1.0, 1.0, *cells)


def _row(label: str, counts: Cooccurrence, vectors: Vectors, given: Setting, seed: int) -> tuple[Any, ...]:
    try:
        found = compare(counts, vectors, setting=given, seed=seed)
    except EvenhandError as error:
        return (f"{label}: {error.message}", None, None, *([None] * (len(COLUMNS) - 3)))
    return (label, found.constants.alpha, found.constants.lambda_, *_cells(found))


def _cells(found: Comparison) -> list[Any]:
    cells: list[Any] = []
    for name in MEANS:
        group = found.groups[name]
        ours = group.summary()
        bounds = "{:.3f} to {:.3f}".format(*ours["interval"]) if ours["interval"] else ""
        cells += [len(group.words), ours["corpus"], ours["embedding"], ours["change"], bounds]
    return cells
