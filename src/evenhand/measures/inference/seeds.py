"""One probe on models that differ in their training seed, and the comparison of two such sets of models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import numpy as np
from scipy.special import stdtrit

from evenhand.arrays import Matrix64, Vector64, frame
from evenhand.engines import Engine
from evenhand.errors import UsageError
from evenhand.measures.inference.accumulator import PairProgress
from evenhand.measures.inference.run_probe import ProbeResult, ends, html_table, rich_table, summary_line
from evenhand.measures.inference.run_probe import probe as run_probe
from evenhand.measures.inference.scores import JSON, Interval
from evenhand.models.nli import NLIModel
from evenhand.models.nli.protocol import RecordedModel
from evenhand.models.vectors import Coverage
from evenhand.stats import interval
from evenhand.stats.bootstrap import LEVEL
from evenhand.words.probes import Probe
from evenhand.words.probes import probe as find_probe

if TYPE_CHECKING:
    from rich.table import Table

BETWEEN_GROUPS = ("gap_entailment", "gap_neutral", "gap_contradiction", "d", "E")  # scores that need two groups


@dataclass(frozen=True, repr=False)
class SeedsResult:
    """One probe on several models of one condition; a single training run says little about a method."""

    condition: str
    results: tuple[ProbeResult, ...]
    scores: Mapping[str, Spread]

    @property
    def first(self) -> ProbeResult:
        """The first result; probe, pairs and coverage are the same in all of them."""
        return self.results[0]

    @property
    def coverage(self) -> Coverage:
        """The fillers in and out of vocabulary."""
        return self.first.coverage

    @property
    def groups(self) -> tuple[str, str] | None:
        """The two groups of the gap, if they are the same for all models."""
        pairs = {(result.gap.first, result.gap.second) if result.gap else None for result in self.results}
        return pairs.pop() if len(pairs) == 1 else None

    @property
    def accuracy(self) -> float:
        """Mean over the models of the share of pairs with the expected label."""
        return float(np.mean([result.accuracy for result in self.results]))

    @property
    def controls(self) -> dict[str, float]:
        """Mean accuracy over the models on each control."""
        names = self.first.controls
        return {name: float(np.mean([result.controls[name] for result in self.results])) for name in names}

    @property
    def warning(self) -> str:
        """Why the neutrality scores cannot be interpreted, for each model that fails a control; empty if none does."""
        warnings = {result.model: result.warning for result in self.results if result.warning}
        if len(self.results) == 1:
            return self.first.warning
        return "; ".join(f"{model}: {warning}" for model, warning in warnings.items())

    @property
    def interpretable(self) -> bool:
        """False if any of the models fails a control."""
        return all(result.interpretable for result in self.results)

    @property
    def interval_over(self) -> tuple[str, ...]:
        """What the intervals are over."""
        return (*self.first.interval_over, *(("seeds",) if len(self.results) > 1 else ()))

    @property
    def means(self) -> dict[str, float]:
        """The mean of every score over the models."""
        return {name: spread.mean for name, spread in self.scores.items()}

    def __repr__(self) -> str:
        models = f"{len(self.results)} model{'' if len(self.results) == 1 else 's'}"
        line = summary_line(self.means, self.first.n_pairs, self.warning)
        return f"SeedsResult({self.first.probe!r}, {self.condition or models!r}, {line})"

    def __rich__(self) -> Table:
        return rich_table(self._title, self._rows(), self.warning)

    def _repr_html_(self) -> str:
        return html_table(self._title, self._rows(), self.warning)

    @property
    def _title(self) -> str:
        models = ", ".join(result.model for result in self.results)
        return f"{self.first.probe}, {self.condition or models}"

    def _rows(self) -> list[JSON]:
        return [
            {
                "score": name,
                "value": spread.mean,
                "sd": spread.sd,
                **ends("", spread.interval),
                **ends("sampling_", spread.sampling),
            }
            for name, spread in self.scores.items()
        ]

    def to_frame(self) -> Any:
        """Return a data frame with one row per score: mean, standard deviation and intervals over the models."""
        asked = {"probe": self.first.probe, "condition": self.condition}
        return frame([{**asked, **row} for row in self._rows()])

    def to_dict(self) -> JSON:
        """Return plain data for JSON: means over the models, the spread of every score, the record of each model."""
        means = self.means
        return {
            "probe": self.first.probe,
            "condition": self.condition,
            "n_pairs": self.first.n_pairs,
            "interpretable": self.interpretable,
            "warning": self.warning,
            "expected": self.first.asked.expected,
            "accuracy": self.accuracy,
            "net_neutral": means["net_neutral"],
            "fraction_neutral": means["fraction_neutral"],
            "threshold": {name[2:]: mean for name, mean in means.items() if name.startswith("T:")},
            "groups": list(self.groups) if self.groups else None,
            "scores": {name: spread.to_dict() for name, spread in self.scores.items()},
            "controls": self.controls,
            "coverage": self.coverage.to_dict(),
            "interval_over": list(self.interval_over),
            "seed": self.first.seed,
            "models": [result.to_dict() for result in self.results],
        }


class ProbeOptions(TypedDict, total=False):
    """Further options of `probe`."""

    sample: int | None
    thresholds: Iterable[float]
    controls: bool
    draws: int
    force: bool
    engine: str | Engine


def probe_seeds(
    models: Iterable[NLIModel | RecordedModel],
    probe: str | Path | Probe = "gender-occupation",
    *,
    condition: str = "",
    seed: int = 0,
    progress: PairProgress | None = None,
    **options: Unpack[ProbeOptions],
) -> SeedsResult:
    """Run a probe on every model and combine the results; `options` are those of `probe`.

    All models are evaluated on the same pairs, and the bootstrap draws the same words for each.
    """
    definition, members = find_probe(probe), tuple(models)
    results = [
        run_probe(model, definition, seed=seed, progress=_part_of(progress, number, len(members)), **options)
        for number, model in enumerate(members)
    ]
    return combine_seeds(results, condition=condition)


def combine_seeds(results: Sequence[ProbeResult], *, condition: str = "") -> SeedsResult:
    """Combine the results of one condition."""
    if not results:
        raise UsageError("there are no results to combine", hint="give at least one model")
    if len({result.probe for result in results}) > 1:
        raise UsageError(f"results of different probes: {sorted({result.probe for result in results})}")
    if any(result.asked != results[0].asked for result in results):
        raise UsageError(
            "the models have different vocabularies, so they were evaluated on different pairs",
            hint="give models over the same vectors, or probe each on its own",
        )
    combined = SeedsResult(condition, tuple(results), {})
    names = [name for name in results[0].headline if all(name in result.headline for result in results)]
    # Gaps are comparable only if they are between the same two groups in every model.
    names = [name for name in names if combined.groups or name not in BETWEEN_GROUPS]
    return replace(combined, scores={name: _over_models(results, name) for name in names})


def _over_models(results: Sequence[ProbeResult], name: str) -> Spread:
    scores = [result.headline_scores[name] for result in results]
    spread = spread_of([score.value for score in scores], _draws(results, name), bounds(name))
    if any(score.sampling is None for score in scores):
        return spread
    # All models were evaluated on the same pairs, so their errors may add up; this bounds the error of the mean.
    low, high = np.mean([score.sampling for score in scores if score.sampling], axis=0).tolist()
    return replace(spread, sampling=(low, high))


def over_seeds(results: Sequence[ProbeResult]) -> Mapping[str, Spread]:
    """Return the spread of every headline score over the seeds."""
    if len(results) < 2:
        raise UsageError(f"a spread over seeds needs at least 2 results, got {len(results)}")
    return combine_seeds(results).scores


def _draws(results: Sequence[ProbeResult], name: str) -> Matrix64 | None:
    rows = [result.drawn[name] for result in results if name in result.drawn]
    return np.stack(rows) if len(rows) == len(results) else None


def _part_of(progress: PairProgress | None, number: int, count: int) -> PairProgress | None:
    """Return a progress function for one of several models."""
    if progress is None or count == 1:
        return progress
    return lambda done, total, what: progress(number * total + done, count * total, f"{what}, {number + 1} of {count}")


@dataclass(frozen=True)
class Spread:
    """A score over models that differ in their seed.

    `interval` is that of the mean, over words and seeds: each bootstrap draw of the words gives a mean over the models,
    to which a draw of Student's error of a mean over seeds is added. The interaction of words and seeds is in both
    parts, so the interval tends to be too wide. Without bootstrap draws it is Student's interval over the seeds alone,
    with a single model the interval over words alone.

    Attributes:
        mean: Mean over the models.
        sd: Standard deviation (ddof 1); None for a single model.
        interval: 95 % interval of the mean.
        values: The score of each model.
        sampling: If a sample of the pairs was evaluated, the 95 % interval for the mean over all pairs.
    """

    mean: float
    sd: float | None
    interval: Interval
    values: tuple[float, ...]
    sampling: Interval = None

    def to_dict(self) -> JSON:
        """Return plain data for JSON."""
        record: JSON = {"mean": self.mean, "sd": self.sd, "min": min(self.values), "max": max(self.values)}
        record |= {"values": list(self.values), "interval": list(self.interval) if self.interval else None}
        return record | ({"sampling": list(self.sampling)} if self.sampling else {})


def spread_of(values: Sequence[float], draws: Matrix64 | None, limits: tuple[float, float]) -> Spread:
    """Return mean, standard deviation and interval of one score.

    Args:
        values: The score of each model.
        draws: Bootstrap draws, one row per model.
        limits: The smallest and largest possible value; the interval is clipped to them.
    """
    count, mean = len(values), float(np.mean(values))
    sd = float(np.std(values, ddof=1)) if count > 1 else None
    low_high: Interval = None
    if draws is not None:
        low_high = interval(draws.mean(axis=0) + _seed_error(draws))
    elif sd is not None:
        half = float(stdtrit(count - 1, (1 + LEVEL) / 2)) * sd / count**0.5
        low_high = mean - half, mean + half
    clipped = (max(low_high[0], limits[0]), min(low_high[1], limits[1])) if low_high else None
    return Spread(mean, sd, clipped, tuple(values))


def bounds(name: str) -> tuple[float, float]:
    """Return the smallest and largest possible value of a score."""
    largest = 2**0.5 if name in ("d", "E") else 1.0
    return (-largest if name.startswith("gap") else 0.0), largest


def _seed_error(draws: Matrix64) -> Vector64:
    """Return Student's error of the mean over seeds for each draw: evenly spaced quantiles in shuffled order."""
    count, size = draws.shape
    if count < 2:
        return np.zeros(size)
    quantiles = stdtrit(count - 1, (np.arange(size) + 0.5) / size)
    shuffled = np.random.default_rng(0).permutation(quantiles)
    return np.asarray(shuffled * draws.std(axis=0, ddof=1) / count**0.5)


@dataclass(frozen=True)
class ProbeComparison:
    """Two conditions, such as before and after a mitigation, and their `differences`, after minus before.

    Both conditions are evaluated on the same pairs, so that words cancel, and seeds are paired in order. An interval
    without 0 distinguishes the conditions.
    """

    before: SeedsResult
    after: SeedsResult
    differences: Mapping[str, Spread]

    def to_dict(self) -> JSON:
        """Return plain data for JSON."""
        differences = {name: spread.to_dict() for name, spread in self.differences.items()}
        return {"before": self.before.to_dict(), "after": self.after.to_dict(), "differences": differences}


def compare(before: SeedsResult, after: SeedsResult) -> ProbeComparison:
    """Return the paired difference of every score that both conditions have."""
    if len(before.results) != len(after.results):
        raise UsageError(
            f"{len(before.results)} models before and {len(after.results)} after: they are compared seed by seed",
            hint="give the same number of models for both",
        )
    _require_same_pairs(before.first, after.first)
    names = [name for name in before.scores if name in after.scores]
    return ProbeComparison(before, after, {name: _difference(before, after, name) for name in names})


def _require_same_pairs(one: ProbeResult, other: ProbeResult) -> None:
    same = one.asked == other.asked and one.seed == other.seed and one.params["sample"] == other.params["sample"]
    if not same:
        raise UsageError(
            f"{one.probe} and {other.probe} were not evaluated on the same pairs",
            hint="use the same probe, vocabulary, sample and seed for both",
        )


def _difference(before: SeedsResult, after: SeedsResult, name: str) -> Spread:
    values = [a - b for b, a in zip(before.scores[name].values, after.scores[name].values, strict=True)]
    draws = [_draws(condition.results, name) for condition in (before, after)]
    change = draws[1] - draws[0] if draws[0] is not None and draws[1] is not None else None
    low, high = bounds(name)
    return spread_of(values, change, (low - high, high - low))
