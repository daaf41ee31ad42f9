"""The same probe on models that differ in their training seed only: one training run tells nothing about a method."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import stdtrit

from evenhand.arrays import Matrix64, Vector64
from evenhand.errors import UsageError
from evenhand.measures.inference.accumulator import Progress
from evenhand.measures.inference.result import ProbeResult
from evenhand.measures.inference.run_probe import probe as ask
from evenhand.measures.inference.scores import Interval
from evenhand.models.nli import NLIModel
from evenhand.models.nli.protocol import RecordedModel
from evenhand.models.vectors import Coverage
from evenhand.stats import interval
from evenhand.stats.bootstrap import LEVEL
from evenhand.words.probes import Probe
from evenhand.words.probes import probe as find_probe

GROUPED = ("gap_entailment", "gap_neutral", "gap_contradiction", "d", "E")  # scores between two groups


@dataclass(frozen=True)
class SeedsResult:
    """One probe on several models of one condition."""

    condition: str
    results: tuple[ProbeResult, ...]
    scores: Mapping[str, Spread]

    @property
    def first(self) -> ProbeResult:
        """The result that tells what all have in common: probe, pairs, lost words."""
        return self.results[0]

    @property
    def coverage(self) -> Coverage:
        """The fillers found and lost."""
        return self.first.coverage

    @property
    def groups(self) -> tuple[str, str] | None:
        """The two groups that the gap is between, where all models have the same."""
        pairs = {(found.gap.first, found.gap.second) if found.gap else None for found in self.results}
        return pairs.pop() if len(pairs) == 1 else None

    @property
    def accuracy(self) -> float:
        """Mean share over the models of pairs that were answered as expected."""
        return float(np.mean([found.accuracy for found in self.results]))

    @property
    def controls(self) -> dict[str, float]:
        """Mean accuracy over the models on each control."""
        return {name: float(np.mean([found.controls[name] for found in self.results])) for name in self.first.controls}

    @property
    def interval_over(self) -> tuple[str, ...]:
        """What the intervals are over."""
        return (*self.first.interval_over, *(("seeds",) if len(self.results) > 1 else ()))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON: means over the models first, then every score's spread, then each model's record."""
        means = {name: spread.mean for name, spread in self.scores.items()}
        return {
            "probe": self.first.probe,
            "condition": self.condition,
            "n_pairs": self.first.n_pairs,
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
            "models": [found.to_dict() for found in self.results],
        }


def probe_seeds(
    models: Iterable[NLIModel | RecordedModel],
    probe: str | Path | Probe = "gender-occupation",
    *,
    condition: str = "",
    seed: int = 0,
    progress: Progress | None = None,
    **options: Any,
) -> SeedsResult:
    """Ask every model and gather the spread; `options` are those of `probe`.

    All models are asked about the same pairs, and the bootstrap draws the same words for each.
    """
    asked, every = find_probe(probe), tuple(models)
    told = [_part(progress, place, len(every)) for place in range(len(every))]
    return gathered(
        [ask(model, asked, seed=seed, progress=tell, **options) for model, tell in zip(every, told, strict=True)],
        condition=condition,
    )


def gathered(results: Sequence[ProbeResult], *, condition: str = "") -> SeedsResult:
    """The results of one condition together."""
    if not results:
        raise UsageError("no model to ask", hint="give at least one")
    if len({result.probe for result in results}) > 1:
        raise UsageError(f"results of different probes: {sorted({result.probe for result in results})}")
    if any(result.asked != results[0].asked for result in results):
        raise UsageError(
            "the models know different fillers, so that they were asked different pairs",
            hint="give models over the same vectors, or ask each on its own",
        )
    kept = SeedsResult(condition, tuple(results), {})
    names = [name for name in results[0].headline if all(name in found.headline for found in results)]
    # Where each model chose the two groups that differ most in it, the gaps of several models are not the same thing.
    names = [name for name in names if kept.groups or name not in GROUPED]
    return SeedsResult(condition, tuple(results), {name: _over_models(results, name) for name in names})


def _over_models(results: Sequence[ProbeResult], name: str) -> Spread:
    found = spread([result.headline[name] for result in results], _draws(results, name), bounds(name))
    reaches = [result.headline_scores[name].sampling for result in results]
    if any(reach is None for reach in reaches):
        return found
    # All models were asked the same pairs, so that their errors may all add up: the error of the mean is at most this.
    low, high = np.mean([reach for reach in reaches if reach], axis=0).tolist()
    return replace(found, sampling=(low, high))


def over_seeds(results: Sequence[ProbeResult]) -> Mapping[str, Spread]:
    """Every headline score over the seeds."""
    if len(results) < 2:
        raise UsageError(f"a spread over seeds needs at least 2 results, got {len(results)}")
    return gathered(results).scores


def _draws(results: Sequence[ProbeResult], name: str) -> Matrix64 | None:
    rows = [result.drawn.get(name) for result in results]
    return None if any(row is None for row in rows) else np.stack([row for row in rows if row is not None])


def _part(progress: Progress | None, place: int, count: int) -> Progress | None:
    """The progress of one model as a part of that of all."""
    if progress is None or count == 1:
        return progress
    return lambda done, total, what: progress(place * total + done, count * total, f"{what}, {place + 1} of {count}")


@dataclass(frozen=True)
class Spread:
    """A score over models that differ in their seed: mean, standard deviation (ddof 1), and each value.

    `interval` is of the mean, over words and seeds: each bootstrap draw of the words of all slots gives a mean over
    the models, to which a draw of Student's error of a mean of so many seeds is added. What words and seeds do together
    is in both parts, so that the interval is rather too wide than too narrow. Without bootstrap draws it is Student's
    interval over the seeds alone, with a single model the interval over words alone. `sampling`: where only
    a sample of the pairs was asked, the range that holds the mean over all of them.
    """

    mean: float
    sd: float | None
    interval: Interval
    values: tuple[float, ...]
    sampling: Interval = None

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        found: dict[str, Any] = {"mean": self.mean, "sd": self.sd, "min": min(self.values), "max": max(self.values)}
        found |= {"values": list(self.values), "interval": list(self.interval) if self.interval else None}
        return found | ({"sampling": list(self.sampling)} if self.sampling else {})


def spread(values: Sequence[float], draws: Matrix64 | None, ends: tuple[float, float]) -> Spread:
    """Mean, deviation and interval of one score; `draws` has a row for each model, `ends` are what it can reach."""
    count, mean = len(values), float(np.mean(values))
    sd = float(np.std(values, ddof=1)) if count > 1 else None
    reach: Interval = None
    if draws is not None:
        reach = interval(draws.mean(axis=0) + _seed_error(draws))
    elif sd is not None:
        half = float(stdtrit(count - 1, (1 + LEVEL) / 2)) * sd / count**0.5
        reach = mean - half, mean + half
    inside = (max(reach[0], ends[0]), min(reach[1], ends[1])) if reach else None
    return Spread(mean, sd, inside, tuple(values))


def bounds(name: str) -> tuple[float, float]:
    """The smallest and largest value that a score can have."""
    most = 2**0.5 if name in ("d", "E") else 1.0
    return (-most if name.startswith("gap") else 0.0), most


def _seed_error(draws: Matrix64) -> Vector64:
    """Student's error of the mean over seeds, one for each draw: evenly spaced quantiles in a shuffled order."""
    count, size = draws.shape
    if count < 2:
        return np.zeros(size)
    quantiles = stdtrit(count - 1, (np.arange(size) + 0.5) / size)
    shuffled = np.random.default_rng(0).permutation(quantiles)
    return np.asarray(shuffled * draws.std(axis=0, ddof=1) / count**0.5)
