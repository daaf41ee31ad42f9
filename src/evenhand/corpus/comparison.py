"""Compare two texts scored with the same options: regress the scores of the second on those of the first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict, Unpack

import numpy as np

from evenhand.arrays import Vector64
from evenhand.corpus.bias import score_corpus
from evenhand.corpus.counting.tokenise import Tokenizer
from evenhand.corpus.options import CorpusOptions, Groups
from evenhand.corpus.readers.paths import Paths
from evenhand.corpus.readers.source import ReadArguments, TextSource, as_source
from evenhand.corpus.result import CorpusBias
from evenhand.corpus.scores.beta import Beta
from evenhand.corpus.scores.jackknife import QUANTILE, LeaveOneOut, leave_one_out, slope_error
from evenhand.corpus.scores.noise_corrected import NoiseCorrected, corrected_deviation, corrected_slope
from evenhand.engines import Engine, open_engine
from evenhand.progress import Progress

STATISTICS = ("mu", "sigma", "beta")


class Point(TypedDict):
    """A word scored in both texts."""

    word: str
    first: float
    second: float


@dataclass(frozen=True, eq=False)
class Comparison:
    """Scores of a second text beside those of a first, such as training text and generated text.

    `errors` are standard errors over documents (jackknife) of `mu`, `sigma` and `beta` of the second text, and of
    `first_mu` and `first_sigma`; None where a text has fewer than two documents.

    The comparison does not tell whether one text took its bias from the other. Compare texts of equal size only
    (`same_shape`), and look at the baselines before trusting a mean.
    """

    first: CorpusBias
    second: CorpusBias
    beta: Beta
    errors: Mapping[str, float | None] = field(default_factory=dict)
    corrected: Mapping[str, NoiseCorrected] = field(default_factory=dict)
    """`beta`, `sigma` and `first_sigma` of an unlimited text, corrected for noise; empty for a decay and for texts
    without documents to halve."""

    def value(self, name: str) -> float:
        """Return a statistic by name: mu, sigma and beta of the second text, first_mu and first_sigma."""
        if name == "beta":
            return self.beta.trimmed
        source = self.first if name.startswith("first_") else self.second
        return float(getattr(source, name.removeprefix("first_")))

    def interval(self, name: str) -> tuple[float, float] | None:
        """Return the 95 % interval of a statistic over documents, at this corpus size.

        It covers the value that other texts of the same size give, not that of an unlimited text, because mu, sigma and
        beta all depend on the size.
        """
        error = self.errors.get(name)
        return None if error is None else (self.value(name) - QUANTILE * error, self.value(name) + QUANTILE * error)

    def text(self, name: str, digits: int = 3) -> str:
        """Return a statistic as text, followed by its interval in brackets where there is one."""
        bounds = self.interval(name)
        ends = f" [{bounds[0]:z.{digits}f}, {bounds[1]:z.{digits}f}]" if bounds else ""
        return f"{self.value(name):z.3f}{ends}"

    def corrected_text(self, name: str) -> str:
        """Return a value corrected for noise as text; empty where there is none to compute."""
        return self.corrected[name].text() if name in self.corrected else ""

    def points(self) -> list[Point]:
        """Return the words scored in both texts, with both scores."""
        shared = [word for word in self.first.scores if word in self.second.scores]
        return [Point(word=w, first=self.first.scores[w], second=self.second.scores[w]) for w in shared]

    def moved(self, count: int, *, min_occurrences: int = 1) -> list[Point]:
        """Return the points that differ most, among words that occur at least so often in both texts."""
        texts = (self.first, self.second)
        rare = {word for b in texts for word, n in zip(b.words, b.occurrences, strict=True) if n < min_occurrences}
        common = [point for point in self.points() if point["word"] not in rare]
        return sorted(common, key=lambda point: -abs(point["second"] - point["first"]))[:count]

    def to_dict(self, *, points: bool = True) -> dict[str, object]:
        """Return plain data for JSON."""
        texts = [{k: v for k, v in one.to_dict().items() if k != "items"} for one in (self.first, self.second)]
        statistics = {name: {"value": self.value(name), "interval": self.interval(name)} for name in STATISTICS}
        return {
            **statistics,
            "beta": {**statistics["beta"], **self.beta.to_dict()},
            "first": texts[0],
            "second": texts[1],
            "errors": dict(self.errors),
            "noise_corrected": {name: found.to_dict() for name, found in self.corrected.items()},
            **({"points": self.points()} if points else {}),
        }


def compare(
    first: Paths | TextSource,
    second: Paths | TextSource,
    groups: Groups = None,
    *,
    lists: str | Path | None = None,
    window: int | None = None,
    decay: float | None = None,
    tokenizer: Tokenizer = "words",
    lower: bool | None = None,
    stop_words: str | Path | Iterable[str] = (),
    special_tokens: str | None = None,
    min_count: int = 1,
    permutations: int | None = 0,
    seed: int = 0,
    engine: str | Engine = "local",
    progress: Progress | None = None,
    **reading: Unpack[ReadArguments],
) -> Comparison:
    """Score two texts with the same options (those of `corpus.bias`), and regress the second on the first.

    The standard errors take a second pass over each text that has two documents or more.
    """
    options = CorpusOptions(
        groups=groups, lists=lists, window=window, decay=decay, tokenizer=tokenizer, lower=lower,
        stop_words=stop_words, special_tokens=special_tokens, min_count=min_count, permutations=permutations, seed=seed,
    )  # fmt: skip
    sources = (as_source(first, **reading), as_source(second, **reading))
    return compare_corpora(*sources, options, engine=engine, progress=progress)


def compare_corpora(
    first: TextSource,
    second: TextSource,
    options: CorpusOptions,
    *,
    engine: str | Engine = "local",
    progress: Progress | None = None,
) -> Comparison:
    """Score two corpora under the given options, and regress the second on the first."""
    sources = (first, second)
    with open_engine(engine) as workers:
        results = [score_corpus(source, options, engine=workers, progress=progress) for source in sources]
        beta = results[1].beta(results[0], seed=options.seed)
        without = [
            leave_one_out(source, options, engine=workers, progress=progress) if result.documents > 1 else None
            for source, result in zip(sources, results, strict=True)
        ]
    errors = _errors(without[0], without[1])
    return Comparison(results[0], results[1], beta, errors, _corrected(without[0], without[1], options.seed))


def _corrected(first: LeaveOneOut | None, second: LeaveOneOut | None, seed: int) -> dict[str, NoiseCorrected]:
    """Return slope and deviations without the noise of the texts."""
    if not first or not second or not (both := first.fold_tables(second)):
        return {}
    return {
        "beta": corrected_slope(*both, seed=seed),
        "sigma": corrected_deviation(*second.fold_tables(), seed=seed),
        "first_sigma": corrected_deviation(*first.fold_tables(), seed=seed),
    }


def _errors(first: LeaveOneOut | None, second: LeaveOneOut | None) -> dict[str, float | None]:
    """Return the standard error of each statistic whose texts have documents to leave out."""
    return {
        "mu": second.spread(_mu) if second else None,
        "sigma": second.spread(_sigma) if second else None,
        "beta": slope_error(first, second) if first and second else None,
        "first_mu": first.spread(_mu) if first else None,
        "first_sigma": first.spread(_sigma) if first else None,
    }


def _mu(values: Vector64) -> float:
    return float(np.abs(values).mean()) if len(values) else float("nan")


def _sigma(values: Vector64) -> float:
    return float(values.std(ddof=1)) if len(values) > 1 else float("nan")
