"""The record of a corpus's bias: scores, and everything that determines them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from evenhand.arrays import Matrix64, Vector64
from evenhand.corpus.beta import ENOUGH, Beta, shared_scores, too_few_words
from evenhand.errors import DegenerateError, UsageError, counted, escape_html, printable
from evenhand.words.wordset import FrozenMap

if TYPE_CHECKING:
    import polars as pl
    from rich.console import RenderableType
    from rich.table import Table


Order = Literal["evidence", "ratio"]


@dataclass(frozen=True)
class Baseline:
    """Mean |bias| with group labels permuted between documents: what noise alone gives.

    `mu` is the mean over all labellings drawn (`permutations`), `interval` their 2.5 and 97.5 % quantiles. The p-value
    was decided after the first `decided_after` of them, of which `reached` have at least the observed mu; `rule` says
    how. It is None for a text of a single document, whose labels can only be rotated: if it consists of many articles,
    such a p-value is far too small.
    """

    mu: float
    interval: tuple[float, float]
    p_value: float | None
    permutations: int
    decided_after: int | None = None
    reached: int | None = None
    rule: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class CorpusBias:
    """Scores of the words of a text by the group they co-occur with (Bordia & Bowman 2019).

    `values` are natural-log ratios for `words`: above 0 with the group `positive`, below 0 with the other group, or
    with all others together if there are more than two. `cooccurrence` holds, for each group, the (weighted) count of
    each word near it; `evidence` the z-score of each word's log-odds under an informative prior.

    What the scores do not tell is why. A score describes co-occurrence in this text, not a property of the word. It is
    noisy for rare words, and `mu` grows with that noise: look at `evidence`, the intervals and the baseline.
    """

    words: tuple[str, ...]
    values: Vector64
    positive: str
    groups: Mapping[str, tuple[str, ...]]
    cooccurrence: Matrix64
    evidence: Vector64
    occurrences: Vector64
    hits: Mapping[str, int]
    missing: Mapping[str, tuple[str, ...]]
    lost: Mapping[str, int]
    tokens: int
    documents: int
    empty_documents: int
    vocabulary: int
    params: Mapping[str, object] = field(default_factory=dict)
    read_log: Mapping[str, object] = field(default_factory=dict)
    intervals: Matrix64 | None = None
    baseline: Baseline | None = None
    against: Mapping[str, CorpusBias] = field(default_factory=dict)
    seed: int = 0
    name: str = ""
    notes: tuple[str, ...] = ()
    """What a reader of the numbers should know, such as that the text is too small."""

    @cached_property
    def scores(self) -> Mapping[str, float]:
        """Word to score, in the order of first appearance."""
        return FrozenMap(dict(zip(self.words, self.values.tolist(), strict=True)))

    @property
    def mu(self) -> float:
        """Mean |bias| over the scored words."""
        return float(np.abs(self._require_words(1)).mean())

    @property
    def sigma(self) -> float:
        """Standard deviation (n - 1) of the scores."""
        return float(self._require_words(2).std(ddof=1))

    @property
    def n(self) -> int:
        """Number of scored words."""
        return len(self.words)

    @property
    def other(self) -> str:
        """The group below 0, or `the other groups`."""
        others = [name for name in self.groups if name != self.positive]
        return others[0] if len(others) == 1 else "the other groups"

    def beta(self, other: CorpusBias, *, seed: int = 0) -> Beta:
        """Return the slope of this corpus's scores on those of `other`, over the words scored in both."""
        if set(self.groups) != set(other.groups) or self.positive != other.positive:
            raise UsageError(
                f"the corpora are scored for different groups: {self.positive} of {list(self.groups)} and "
                f"{other.positive} of {list(other.groups)}",
                hint="score both with the same groups",
            )
        words, y, x = shared_scores(self.scores, other.scores)
        if len(words) < ENOUGH:
            counts = [text.params.get("min_count", 1) for text in (self, other)]
            raise too_few_words(len(words), max(count for count in counts if isinstance(count, int)))
        return Beta(x, y, seed=seed)

    def for_group(self, group: str) -> CorpusBias:
        """Return the scores of another group against the rest, from the same counts."""
        if group == self.positive:
            return self
        if group not in self.against:
            raise UsageError(f"unknown group {group!r}", hint=f"groups: {', '.join(self.groups)}")
        return self.against[group]

    def with_cooccurrence(self, minimum: float) -> CorpusBias:
        """Return only the words whose count with every group is at least `minimum`; the others count as lost.

        With decay almost every word has some weight near every group, so that mu and sigma depend on the minimum
        weight accepted.
        """
        enough = np.asarray((self.cooccurrence >= minimum).all(axis=0))
        return replace(
            self,
            words=tuple(word for word, stays in zip(self.words, enough, strict=True) if stays),
            values=self.values[enough],
            cooccurrence=self.cooccurrence[:, enough],
            evidence=self.evidence[enough],
            occurrences=self.occurrences[enough],
            intervals=None if self.intervals is None else self.intervals[:, enough],
            lost=FrozenMap({**self.lost, "below_min_cooccurrence": int((~enough).sum())}),
            params=FrozenMap({**self.params, "min_cooccurrence": minimum}),
            baseline=None,
            against=FrozenMap({name: other.with_cooccurrence(minimum) for name, other in self.against.items()}),
        )

    def top(self, k: int = 10, *, min_occurrences: int = 1, order: Order = "evidence") -> tuple[tuple[str, float], ...]:
        """Return the k words that lean most to the positive group (k < 0: away from it), with their scores.

        Args:
            k: number of words. Words that lean to the other side are never included.
            min_occurrences: consider only words that occur at least this often in the text.
            order: `evidence` (largest |z| first) or `ratio` (largest |score| first, which favours rare words).
        """
        if order not in ("evidence", "ratio"):
            raise UsageError(f"unknown order {order!r}", hint="use evidence or ratio")
        side = self.values > 0 if k > 0 else self.values < 0
        rows = np.flatnonzero(side & (self.occurrences >= min_occurrences))
        keys = np.abs((self.evidence if order == "evidence" else self.values)[rows])
        best = rows[np.argsort(-keys, kind="stable")][: abs(k)]
        return tuple((self.words[row], float(self.values[row])) for row in best)

    def interval(self, word: str) -> tuple[float, float] | None:
        """Return the 95 % bootstrap interval of a word's score, where there is one."""
        if self.intervals is None or word not in self.scores:
            return None
        low, high = self.intervals[:, self.row(word)]
        return (float(low), float(high)) if np.isfinite([low, high]).all() else None

    def row(self, word: str) -> int:
        """Return the position of a scored word in `words`."""
        return self._rows[word]

    def to_dict(self) -> dict[str, object]:
        """Return plain data for JSON."""
        return {
            "measure": "corpus-bias",
            "name": self.name,
            "mu": self.mu if self.n else None,
            "sigma": self.sigma if self.n > 1 else None,
            "n": self.n,
            "positive": self.positive,
            "reading": f"above 0: with {self.positive}; below 0: with {self.other}",
            "tokens": self.tokens,
            "documents": self.documents,
            "empty_documents": self.empty_documents,
            "vocabulary": self.vocabulary,
            "groups": {name: list(words) for name, words in self.groups.items()},
            "hits": dict(self.hits),
            "missing": {name: list(words) for name, words in self.missing.items()},
            "lost": dict(self.lost),
            "baseline": vars(self.baseline) if self.baseline else None,
            "notes": list(self.notes),
            "params": dict(self.params),
            "seed": self.seed,
            **self.read_log,
            "items": [self._item(row) for row in range(self.n)],
        }

    def to_frame(self, library: str = "") -> pl.DataFrame:
        """Return one row per scored word as a data frame: polars if installed, otherwise pandas."""
        from evenhand.arrays import frame

        low, high = self.intervals if self.intervals is not None else np.full((2, self.n), np.nan)
        rows = [
            {
                "word": word,
                "bias": float(self.values[row]),
                "evidence": float(self.evidence[row]),
                "low": float(low[row]),
                "high": float(high[row]),
                "count": int(self.occurrences[row]),
                **{f"near_{name}": float(self.cooccurrence[index, row]) for index, name in enumerate(self.groups)},
            }
            for row, word in enumerate(self.words)
        ]
        table: pl.DataFrame = frame(rows, library)
        return table

    def __repr__(self) -> str:
        mu = f"{self.mu:z.3f}" if self.n else "undefined"
        sigma = f"{self.sigma:z.3f}" if self.n > 1 else "undefined"
        size = f"{counted(self.tokens, 'token')}, {counted(self.n, 'word')} scored"
        return f"CorpusBias({self.name!r}, {size}, mu {mu}, sigma {sigma})"

    def __rich__(self) -> RenderableType:
        from rich.console import Group

        return Group(repr(self), *bias_tables(self, 5))

    def _repr_html_(self) -> str:

        return bias_html(self, 10)

    def _item(self, row: int) -> dict[str, object]:
        word = self.words[row]
        item: dict[str, object] = {
            "word": word,
            "bias": float(self.values[row]),
            "count": int(self.occurrences[row]),
            "cooccurrence": {name: float(self.cooccurrence[index, row]) for index, name in enumerate(self.groups)},
            "evidence": float(self.evidence[row]),
        }
        return item | ({"interval": self.interval(word)} if self.intervals is not None else {})

    def _require_words(self, least: int) -> Vector64:
        if self.n < least:
            raise DegenerateError(
                f"{counted(self.n, 'word')} {'is' if self.n == 1 else 'are'} scored, too few for this statistic",
                hint="use more text, a lower min_count or smoothing; `lost` counts the unscored words by reason",
            )
        return self.values

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {word: row for row, word in enumerate(self.words)}


def leading_words(
    result: CorpusBias, top: int, *, min_occurrences: int = 1, order: Order = "evidence"
) -> Iterator[tuple[str, CorpusBias, list[str]]]:
    """Yield for each group its name, the record with its scores, and the words that lean most to it.

    With two groups both sides come from one record, so that the signs stay those of the scores.
    """
    if len(result.groups) == 2:
        sides = [(result.positive, result, top), (result.other, result, -top)]
    else:
        sides = [(name, result.for_group(name), top) for name in result.groups]
    for name, record, k in sides:
        yield name, record, [word for word, _ in record.top(k, min_occurrences=min_occurrences, order=order)]


def word_cells(record: CorpusBias, word: str) -> tuple[str, ...]:
    """Return the cells of a word: word, score, interval, evidence, count near each group, occurrences."""
    row, bounds = record.row(word), record.interval(word)
    near = (_count(record.cooccurrence[group, row]) for group in range(len(record.groups)))
    return (
        printable(word),
        signed(record.values[row]),
        f"{signed(bounds[0])} to {signed(bounds[1])}" if bounds else "",
        f"{record.evidence[row]:+z.1f}",
        *near,
        f"{int(record.occurrences[row]):,}",
    )


def columns(record: CorpusBias) -> tuple[str, ...]:
    """Return the headings of `word_cells`."""
    return ("word", "bias", "95 % interval", "z", *(f"near {printable(name)}" for name in record.groups), "count")


def bias_tables(
    result: CorpusBias, top: int, *, min_occurrences: int = 1, order: Order = "evidence"
) -> Iterator[Table]:
    """Yield a rich table of the leading words of each group."""
    from rich.table import Table
    from rich.text import Text

    for name, record, words in leading_words(result, top, min_occurrences=min_occurrences, order=order):
        table = Table(
            title=Text(f"leaning {printable(name)}"), title_justify="left", box=None, header_style="dim", pad_edge=False
        )
        for heading in columns(record):
            table.add_column(
                Text(heading), justify="left" if heading == "word" else "right", overflow="fold", no_wrap=False
            )
        for word in words:
            table.add_row(*map(Text, word_cells(record, word)))
        yield table


def bias_html(result: CorpusBias, top: int) -> str:
    """Return the leading words of each group as HTML tables."""
    parts = [f"<p><code>{escape_html(repr(result))}</code></p>"]
    for name, record, words in leading_words(result, top):
        head = "".join(f"<th>{escape_html(heading)}</th>" for heading in columns(record))
        rows = (
            "<tr>" + "".join(f"<td>{escape_html(cell)}</td>" for cell in word_cells(record, word)) + "</tr>"
            for word in words
        )
        caption = f"<caption>leaning {escape_html(name)}</caption>"
        parts.append(f"<table>{caption}<tr>{head}</tr>{''.join(rows)}</table>")
    return "".join(parts)


def _count(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.3g}"


def signed(value: float) -> str:
    """Format a score with its sign and two decimals; a rounded zero has no sign."""
    text = f"{value:+.2f}"
    return "0.00" if float(text) == 0 else text
