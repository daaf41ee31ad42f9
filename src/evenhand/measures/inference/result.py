"""`ProbeResult`: what a probe found, with everything needed to read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

from evenhand.arrays import Vector64
from evenhand.errors import UsageError, unknown_name
from evenhand.measures.inference.pair_statistics import Columns, Tables, divided, threshold_name
from evenhand.measures.inference.scores import Gap, Group, Marked, Neutrality, Score, Triple
from evenhand.models.nli import LABELS
from evenhand.models.vectors import Coverage
from evenhand.words.probes import Probe
from evenhand.words.probes.fillers import places_of
from evenhand.words.wordset import Words

LISTED = 10


@dataclass(frozen=True)
class ProbeResult:
    """The scores of one model on one probe.

    `neutrality` is over sentences (Dev et al. 2020), `word_pair` over pairs of fillers as their released code has it.
    `gap` tells which way the model leans, which neutrality cannot. `controls` are accuracies on pairs whose label is
    entailment or contradiction: without them a model that always answers neutral looks perfect.
    """

    asked: Probe
    model: str
    n_pairs: int
    neutrality: Neutrality
    word_pair: Neutrality
    groups: Mapping[str, Group]
    gap: Gap | None
    marked: Marked | None
    accuracy: float
    controls: Mapping[str, float]
    coverage: Coverage
    interval_over: tuple[str, ...]
    params: Mapping[str, Any]
    seed: int
    columns: Columns = field(repr=False)
    tables: Tables = field(repr=False)
    extremes: Mapping[str, tuple[tuple[int, float], ...]] = field(repr=False)
    drawn: Mapping[str, Vector64] = field(default_factory=dict, repr=False)  # the headline in each bootstrap draw

    @property
    def probe(self) -> str:
        """The id of the probe."""
        return self.asked.name

    @property
    def headline(self) -> dict[str, float]:
        """The numbers that are compared between models."""
        return {name: score.value for name, score in self.headline_scores.items()}

    @property
    def headline_scores(self) -> dict[str, Score]:
        """The same numbers with their uncertainties."""
        whole = self.neutrality
        found = {"net_neutral": whole.net_neutral, "fraction_neutral": whole.fraction_neutral}
        found |= {threshold_name(tau): score for tau, score in whole.threshold.items()}
        if self.gap:
            found |= {f"gap_{label}": getattr(self.gap, label) for label in LABELS}
        if self.marked:
            found |= {"d": self.marked.distance, "E": self.marked.error}
        return found

    @cached_property
    def by_word(self) -> tuple[dict[str, Any], ...]:
        """A row for every filler of every slot: its mean triple, its share of neutral labels, its number of pairs."""
        sums, counts = self.tables.words, self.tables.word_counts
        rows = self._rows("premise", [f.word for f in self.asked.premise], sums.sum(axis=1), counts.sum(axis=1))
        rows += self._rows("hypothesis", [f.word for f in self.asked.hypothesis], sums.sum(axis=0), counts.sum(axis=0))
        for slot in self.asked.phrases.slots:
            rows += self._slot_rows(slot)
        return tuple(rows)

    def _slot_rows(self, slot: str) -> list[dict[str, Any]]:
        places, words = self.asked.phrases.fillers(slot)
        used = places >= 0
        sums, counts = np.zeros((len(words), len(self.columns.names))), np.zeros(len(words))
        np.add.at(sums, places[used], self.tables.phrases[used])
        np.add.at(counts, places[used], self.tables.phrase_counts[used])
        return self._rows(slot, list(words), sums, counts)

    def _rows(self, slot: str, words: list[str], sums: Any, counts: Any) -> list[dict[str, Any]]:
        means = divided(sums, counts)
        neutral = self.columns.at("says_neutral")
        return [
            {
                "slot": slot,
                "word": word,
                **{label: float(mean[place]) for place, label in enumerate(LABELS)},
                "fraction_neutral": float(mean[neutral]),
                "n": int(count),
            }
            for word, mean, count in zip(words, means, counts, strict=True)
            if count
        ]

    def top(
        self,
        label: Literal["entailment", "neutral", "contradiction"] = "entailment",
        k: int = LISTED,
        *,
        unit: Literal["sentence", "word_pair"] = "sentence",
    ) -> tuple[dict[str, Any], ...]:
        """The fillers with the highest probability of a label: single pairs, or means over the phrases of two words."""
        if label not in LABELS:
            raise unknown_name("label", label, LABELS)
        if unit == "word_pair":
            return self._top_words(LABELS.index(label), k)
        kept = self.extremes[label]
        if k > len(kept) and len(kept) < self.n_pairs:
            raise UsageError(f"the {len(kept)} highest pairs were kept, {k} asked for")
        return tuple(self._described(index, label, value) for index, value in kept[:k])

    def _described(self, index: int, label: str, value: float) -> dict[str, Any]:
        pair = self.asked.pair(index)
        words = {"premise_word": pair.premise_word, "hypothesis_word": pair.hypothesis_word, **pair.words}
        return {label: value, **words, "premise": pair.premise, "hypothesis": pair.hypothesis}

    def _top_words(self, label: int, k: int) -> tuple[dict[str, Any], ...]:
        means = self.tables.word_means()[..., label]
        order = np.argsort(-np.nan_to_num(means.ravel(), nan=-1.0), kind="stable")[:k]
        places = [np.unravel_index(place, means.shape) for place in order]
        return tuple(
            {
                LABELS[label]: float(means[p, h]),
                "premise_word": self.asked.premise[int(p)].word,
                "hypothesis_word": self.asked.hypothesis[int(h)].word,
            }
            for p, h in places
        )

    def restrict(self, premise: str | Words | None = None, hypothesis: str | Words | None = None) -> Triple:
        """The mean triple over some fillers only: `restrict("rude", "iraqi")`; other slots need a restricted probe."""
        rows = [
            places_of(fillers, words, what=side) if words is not None else list(range(len(fillers)))
            for side, fillers, words in (
                ("premise", self.asked.premise, premise),
                ("hypothesis", self.asked.hypothesis, hypothesis),
            )
        ]
        chosen = np.ix_(*rows)
        count = self.tables.word_counts[chosen].sum()
        if not count:
            raise UsageError("the sample has no pair with these fillers", hint="take a larger sample, or all pairs")
        means = self.tables.words[chosen].sum(axis=(0, 1))[: len(LABELS)] / count
        return Triple(*map(float, means))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, the headline first."""
        return {
            "probe": self.probe,
            "model": self.model,
            "n_pairs": self.n_pairs,
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
            "top": {label: list(self.top(label, LISTED)) for label in ("entailment", "contradiction")},
            "by_word": list(self.by_word),
            "params": dict(self.params),
            "seed": self.seed,
        }
