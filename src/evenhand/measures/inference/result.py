"""`ProbeResult`: the scores of one model on one probe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from evenhand.arrays import Matrix64, Vector64
from evenhand.errors import UsageError, unknown_name
from evenhand.frames import frame
from evenhand.measures.inference.pair_statistics import Columns, Tables, divided, threshold_name
from evenhand.measures.inference.scores import (
    JSON,
    Gap,
    GroupScores,
    Interval,
    MarkedBias,
    Neutrality,
    Score,
    Triple,
    Unit,
    control_warning,
)
from evenhand.models.nli import LABELS
from evenhand.models.vectors import Coverage
from evenhand.printable import escape_html, escape_markup
from evenhand.words.probes import Probe
from evenhand.words.probes.probe import indices_of
from evenhand.words.wordset import Words

if TYPE_CHECKING:
    from rich.table import Table

LISTED = 10
NAMES = {"net_neutral": "net neutral", "fraction_neutral": "fraction neutral"}
LabelName: TypeAlias = Literal["entailment", "neutral", "contradiction"]


@dataclass(frozen=True, repr=False)
class ProbeResult:
    """The scores of one model on one probe.

    `neutrality` is over sentences (Dev et al. 2020), `word_pair` over pairs of fillers as in their released code. `gap`
    shows which way the model leans, which neutrality cannot. `controls` are accuracies on pairs whose label is
    entailment or contradiction: without them, a model that always answers neutral looks perfect. If one of them is
    below `scores.MIN_CONTROL_ACCURACY`, the scores are not `interpretable`, and `warning` says why.

    `asked` is the probe without the fillers that are out of the model's vocabulary; `drawn` holds every headline score
    in each bootstrap draw.
    """

    asked: Probe
    model: str
    n_pairs: int
    neutrality: Neutrality
    word_pair: Neutrality
    groups: Mapping[str, GroupScores]
    gap: Gap | None
    marked: MarkedBias | None
    accuracy: float
    controls: Mapping[str, float]
    coverage: Coverage
    interval_over: tuple[str, ...]
    params: Mapping[str, object]
    seed: int
    columns: Columns
    tables: Tables
    extremes: Mapping[str, tuple[tuple[int, float], ...]]
    drawn: Mapping[str, Vector64] = field(default_factory=dict)

    @property
    def probe(self) -> str:
        """The id of the probe."""
        return self.asked.name

    @property
    def warning(self) -> str:
        """Why the neutrality scores cannot be interpreted; empty if they can."""
        return control_warning(self.controls)

    @property
    def interpretable(self) -> bool:
        """False if the model fails a control."""
        return not self.warning

    @property
    def headline(self) -> dict[str, float]:
        """The scores to compare between models."""
        return {name: score.value for name, score in self.headline_scores.items()}

    @property
    def headline_scores(self) -> dict[str, Score]:
        """The headline scores with their uncertainties."""
        whole = self.neutrality
        scores = {"net_neutral": whole.net_neutral, "fraction_neutral": whole.fraction_neutral}
        scores |= {threshold_name(tau): score for tau, score in whole.threshold.items()}
        if self.gap:
            scores |= {f"gap_{label}": getattr(self.gap, label) for label in LABELS}
        if self.marked:
            scores |= {"d": self.marked.distance, "E": self.marked.error}
        return scores

    def __repr__(self) -> str:
        name = f"{self.probe!r}, {self.model!r}"
        return f"ProbeResult({name}, {summary_line(self.headline, self.n_pairs, self.warning)})"

    def __rich__(self) -> Table:
        return rich_table(f"{self.probe}, {self.model}", score_rows(self.headline_scores), self.warning)

    def _repr_html_(self) -> str:
        return html_table(f"{self.probe}, {self.model}", score_rows(self.headline_scores), self.warning)

    def to_frame(self, table: Literal["scores", "by_word"] = "scores") -> Any:
        """Return a data frame: one row per headline score, or one per filler with `table="by_word"`."""
        if table not in ("scores", "by_word"):
            raise UsageError(f"{table!r} is not a table of a probe result", hint="use scores or by_word")
        rows = score_rows(self.headline_scores) if table == "scores" else list(self.by_word)
        return frame([{"probe": self.probe, "model": self.model, **row} for row in rows])

    @cached_property
    def by_word(self) -> tuple[JSON, ...]:
        """One row per filler of every slot: mean triple, share of neutral labels, number of pairs."""
        sums, counts = self.tables.words, self.tables.word_counts
        rows = self._rows("premise", [f.word for f in self.asked.premise], sums.sum(axis=1), counts.sum(axis=1))
        rows += self._rows("hypothesis", [f.word for f in self.asked.hypothesis], sums.sum(axis=0), counts.sum(axis=0))
        for slot in self.asked.phrases.slots:
            rows += self._slot_rows(slot)
        return tuple(rows)

    def _slot_rows(self, slot: str) -> list[JSON]:
        codes, words = self.asked.phrases.fillers(slot)
        used = codes >= 0
        sums, counts = np.zeros((len(words), len(self.columns.names))), np.zeros(len(words))
        np.add.at(sums, codes[used], self.tables.phrases[used])
        np.add.at(counts, codes[used], self.tables.phrase_counts[used])
        return self._rows(slot, list(words), sums, counts)

    def _rows(self, slot: str, words: list[str], sums: Matrix64, counts: Vector64) -> list[JSON]:
        means = divided(sums, counts)
        neutral = self.columns.index("says_neutral")
        return [
            {
                "slot": slot,
                "word": word,
                **{label: float(mean[column]) for column, label in enumerate(LABELS)},
                "fraction_neutral": float(mean[neutral]),
                "n": int(count),
            }
            for word, mean, count in zip(words, means, counts, strict=True)
            if count
        ]

    def top(self, label: LabelName = "entailment", k: int = LISTED, *, unit: Unit = "sentence") -> tuple[JSON, ...]:
        """Return the k pairs with the highest probability of a label.

        Args:
            label: The label.
            k: How many.
            unit: Rank single sentence pairs, or `word_pair` means over the phrases of two fillers.
        """
        if label not in LABELS:
            raise unknown_name("label", label, LABELS)
        if unit == "word_pair":
            return self._top_words(LABELS.index(label), k)
        ranking = self.extremes[label]
        if k > len(ranking) and len(ranking) < self.n_pairs:
            raise UsageError(f"a result keeps the {len(ranking)} highest pairs of a label, got k = {k}")
        return tuple(self._describe(index, label, value) for index, value in ranking[:k])

    def _describe(self, index: int, label: str, value: float) -> JSON:
        pair = self.asked.pair(index)
        words = {"premise_word": pair.premise_word, "hypothesis_word": pair.hypothesis_word, **pair.words}
        return {label: value, **words, "premise": pair.premise, "hypothesis": pair.hypothesis}

    def _top_words(self, label: int, k: int) -> tuple[JSON, ...]:
        means = self.tables.word_means()[..., label]
        order = np.argsort(-np.nan_to_num(means.ravel(), nan=-1.0), kind="stable")[:k]
        return tuple(
            {
                LABELS[label]: float(means[p, h]),
                "premise_word": self.asked.premise[int(p)].word,
                "hypothesis_word": self.asked.hypothesis[int(h)].word,
            }
            for p, h in (np.unravel_index(index, means.shape) for index in order)
        )

    def restrict(self, premise: str | Words | None = None, hypothesis: str | Words | None = None) -> Triple:
        """Return the mean triple over some fillers, as in `restrict("rude", "iraqi")`.

        To restrict other slots, restrict the probe before running it.
        """
        rows = [
            indices_of(fillers, words, what=side) if words is not None else list(range(len(fillers)))
            for side, fillers, words in (
                ("premise", self.asked.premise, premise),
                ("hypothesis", self.asked.hypothesis, hypothesis),
            )
        ]
        cells = np.ix_(*rows)
        count = self.tables.word_counts[cells].sum()
        if not count:
            raise UsageError("the sample has no pair with these fillers", hint="use a larger sample, or all pairs")
        means = self.tables.words[cells].sum(axis=(0, 1))[: len(LABELS)] / count
        return Triple(*map(float, means))

    def to_dict(self) -> JSON:
        """Return plain data for JSON, the headline first."""
        return {
            "probe": self.probe,
            "model": self.model,
            "n_pairs": self.n_pairs,
            "interpretable": self.interpretable,
            "warning": self.warning,
            "net_neutral": self.neutrality.net_neutral.value,
            "fraction_neutral": self.neutrality.fraction_neutral.value,
            "threshold": {f"{tau:g}": score.value for tau, score in self.neutrality.threshold.items()},
            "neutrality": self.neutrality.to_dict(),
            "word_pair": self.word_pair.to_dict(),
            "groups": {name: group.to_dict() for name, group in self.groups.items()},
            "gap": self.gap.to_dict() if self.gap else None,
            "marked": self.marked.to_dict() if self.marked else None,
            "expected": self.asked.expected,
            "accuracy": self.accuracy,
            "controls": dict(self.controls),
            "coverage": self.coverage.to_dict(),
            "interval_over": list(self.interval_over),
            "top": {"entailment": list(self.top("entailment")), "contradiction": list(self.top("contradiction"))},
            "by_word": list(self.by_word),
            "params": dict(self.params),
            "seed": self.seed,
        }


def score_label(name: str) -> str:
    """Return a score's name as people write it."""
    return NAMES.get(name, name.replace("_", " "))


def score_rows(scores: Mapping[str, Score]) -> list[JSON]:
    """Return one row per score: name, value and the ends of both intervals."""
    return [
        {"score": name, "value": score.value, **ends("", score.interval), **ends("sampling_", score.sampling)}
        for name, score in scores.items()
    ]


def ends(prefix: str, interval: Interval) -> JSON:
    """Return the two ends of an interval as columns `low` and `high`; None without an interval."""
    low, high = interval or (None, None)
    return {f"{prefix}low": low, f"{prefix}high": high}


def summary_line(scores: Mapping[str, float], n_pairs: int, warning: str) -> str:
    """Return the main scores as one line."""
    names = ("net_neutral", "fraction_neutral", "gap_entailment", "d", "E")
    values = ", ".join(f"{score_label(name)} {scores[name]:z.3f}" for name in names if name in scores)
    return f"{values}, n = {n_pairs:,}" + (f", {warning}" if warning else "")


def _cells(row: JSON) -> tuple[str, ...]:
    """Return the cells of a row, the interval rounded like the value."""
    low, high = row["low"], row["high"]
    interval = "" if low is None else f"[{low:z.3f}, {high:z.3f}]"
    return score_label(str(row["score"])), f"{row['value']:z.3f}", interval


COLUMNS = ("score", "value", "95 % interval")


def rich_table(title: str, rows: Sequence[JSON], warning: str) -> Table:
    """Return the rows as a table for the terminal."""
    from rich.table import Table

    table = Table(
        box=None,
        title=escape_markup(title),
        caption=escape_markup(warning) or None,
        title_justify="left",
        header_style="dim",
    )
    for column in COLUMNS:
        table.add_column(column, justify="left" if column == "score" else "right", no_wrap=True)
    for row in rows:
        table.add_row(*map(escape_markup, _cells(row)))
    return table


def html_table(title: str, rows: Sequence[JSON], warning: str) -> str:
    """Return the rows as an HTML table."""
    head = "".join(f"<th>{column}</th>" for column in COLUMNS)
    body = "".join(f"<tr>{''.join(f'<td>{escape_html(cell)}</td>' for cell in _cells(row))}</tr>" for row in rows)
    alarm = f"<p><b>{escape_html(warning)}</b></p>" if warning else ""
    head = f"<caption>{escape_html(title)}</caption><thead><tr>{head}</tr></thead>"
    return f"<table>{head}<tbody>{body}</tbody></table>{alarm}"
