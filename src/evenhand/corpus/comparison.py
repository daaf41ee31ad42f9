"""Two texts scored in the same way, and how the scores of the one go with those of the other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from evenhand.corpus import groups as grouping
from evenhand.corpus.bias import WINDOW, bias
from evenhand.corpus.counting.count import Progress
from evenhand.corpus.counting.tokenise import Tokenizer
from evenhand.corpus.readers.paths import Paths
from evenhand.corpus.readers.source import Source, as_source
from evenhand.corpus.result import CorpusBias
from evenhand.corpus.scores.beta import Beta
from evenhand.corpus.scores.jackknife import REACH, LeftOut, left_out, slope_error
from evenhand.engines import Engine, opened

STATISTICS = ("mu", "sigma", "beta")


@dataclass(frozen=True, eq=False)
class Comparison:
    """Scores of a second text beside those of a first: training text and what a model wrote, say.

    `errors` are standard errors over documents (jackknife) of `mu`, `sigma` and `beta` of the second text, and of
    `first_mu` and `first_sigma`; None where a text has fewer than two documents.

    What it does not tell you: whether one text took its bias from the other. Compare texts of equal size only
    (`same_shape`), and look at the shuffled baselines before you believe a mean.
    """

    first: CorpusBias
    second: CorpusBias
    beta: Beta
    errors: Mapping[str, float | None] = field(default_factory=dict)

    def value(self, name: str) -> float:
        """A statistic by name: mu, sigma and beta of the second text, first_mu and first_sigma."""
        if name == "beta":
            return self.beta.trimmed
        source = self.first if name.startswith("first_") else self.second
        return float(getattr(source, name.removeprefix("first_")))

    def interval(self, name: str) -> tuple[float, float] | None:
        """The 95 % interval of a statistic over documents."""
        error = self.errors.get(name)
        return None if error is None else (self.value(name) - REACH * error, self.value(name) + REACH * error)

    def text(self, name: str, digits: int = 3) -> str:
        """A statistic to be read, its interval behind it in brackets where there is one."""
        bounds = self.interval(name)
        ends = f" [{bounds[0]:.{digits}f}, {bounds[1]:.{digits}f}]" if bounds else ""
        return f"{self.value(name):.3f}{ends}"

    def points(self) -> list[dict[str, Any]]:
        """The words scored in both texts, with both scores."""
        shared = [word for word in self.first.scores if word in self.second.scores]
        return [{"word": w, "first": self.first.scores[w], "second": self.second.scores[w]} for w in shared]

    def moved(self, count: int, *, least: int = 1) -> list[dict[str, Any]]:
        """The points that differ most, among words that occur at least so often in both texts."""
        texts = (self.first, self.second)
        rare = {word for b in texts for word, seen in zip(b.words, b.occurrences, strict=True) if seen < least}
        common = [point for point in self.points() if point["word"] not in rare]
        return sorted(common, key=lambda point: -abs(point["second"] - point["first"]))[:count]

    def to_dict(self, *, points: bool = True) -> dict[str, Any]:
        """Plain data for JSON."""
        texts = [{k: v for k, v in one.to_dict().items() if k != "items"} for one in (self.first, self.second)]
        found = {name: {"value": self.value(name), "interval": self.interval(name)} for name in STATISTICS}
        return {
            **found,
            "beta": {**found["beta"], **self.beta.to_dict()},
            "first": texts[0],
            "second": texts[1],
            "errors": dict(self.errors),
            **({"points": self.points()} if points else {}),
        }


def compare(
    first: Paths | Source,
    second: Paths | Source,
    groups: grouping.Groups = None,
    *,
    lists: str | Path | None = None,
    window: int | None = None,
    decay: float | None = None,
    tokenizer: Tokenizer = "words",
    lower: bool | None = None,
    stop_words: str | Path | Iterable[str] = (),
    marks: str | None = None,
    min_count: int = 1,
    permutations: int = 0,
    seed: int = 0,
    engine: str | Engine = "local",
    progress: Progress = None,
    **reading: Any,
) -> Comparison:
    """Score two texts with the same choices (those of `corpus.bias`), and regress the second on the first.

    The standard errors take a second pass over each text of two documents or more.
    """
    reach = WINDOW if window is None and decay is None else window
    options: dict[str, Any] = {
        "groups": groups, "lists": lists, "window": reach, "decay": decay, "tokenizer": tokenizer, "lower": lower,
        "stop_words": stop_words, "marks": marks, "min_count": min_count,
    }  # fmt: skip
    run: dict[str, Any] = {"permutations": permutations, "seed": seed, "progress": progress}
    sources = [as_source(given, **reading) for given in (first, second)]
    with opened(engine) as workers:
        one, other = (bias(source, **options, **run, engine=workers) for source in sources)
        beta = other.beta(one, seed=seed)
        without = [
            left_out(source, options, engine=workers, progress=progress) if text.documents > 1 else None
            for source, text in zip(sources, (one, other), strict=True)
        ]
    return Comparison(one, other, beta, _errors(*without))


def _errors(first: LeftOut | None, second: LeftOut | None) -> dict[str, float | None]:
    """The standard error of each statistic, where the texts that it comes from have documents to leave out."""
    return {
        "mu": second.spread(_mu) if second else None,
        "sigma": second.spread(_sigma) if second else None,
        "beta": slope_error(first, second) if first and second else None,
        "first_mu": first.spread(_mu) if first else None,
        "first_sigma": first.spread(_sigma) if first else None,
    }


def _mu(values: Any) -> float:
    return float(np.abs(values).mean()) if len(values) else float("nan")


def _sigma(values: Any) -> float:
    return float(values.std(ddof=1)) if len(values) > 1 else float("nan")
