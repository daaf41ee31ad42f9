"""Put a probe to a model: the run, and its result."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from evenhand.arrays import Matrix64, Vector64, frame
from evenhand.engines import Engine, open_engine
from evenhand.errors import EvenhandWarning, UsageError, VocabularyError, escape_html, escape_markup, unknown_name
from evenhand.measures.inference import scores
from evenhand.measures.inference.accumulator import Accumulator, PairProgress, evaluate_all, evaluate_sample
from evenhand.measures.inference.pair_statistics import SAYS, PairColumns, Tables, divided, threshold_name
from evenhand.measures.inference.scores import (
    JSON,
    Gap,
    GroupScores,
    Interval,
    MarkedBias,
    Neutrality,
    ProbeScore,
    ScoreUnit,
    Triple,
    control_warning,
)
from evenhand.models.nli import LABELS, NLIModel
from evenhand.models.nli.protocol import FixedVocabulary, NLIEnsemble, RecordedModel
from evenhand.models.vectors import Coverage
from evenhand.stats.bootstrap import RESAMPLES
from evenhand.words.grammar import agree, genders_of
from evenhand.words.probes import Probe, stratified
from evenhand.words.probes import probe as find_probe
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
    columns: PairColumns
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
    def headline_scores(self) -> dict[str, ProbeScore]:
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

    def top(
        self, label: LabelName = "entailment", k: int = LISTED, *, unit: ScoreUnit = "sentence"
    ) -> tuple[JSON, ...]:
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


def score_rows(scores: Mapping[str, ProbeScore]) -> list[JSON]:
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


CONTROL_PAIRS = 2_000
MAX_MISSING = 0.2  # share of the fillers of a slot; beyond it the probe is another one under the same name


def probe(
    model: NLIModel | RecordedModel | NLIEnsemble,
    probe: str | Path | Probe = "gender-occupation",
    *,
    sample: int | None = None,
    seed: int = 0,
    thresholds: Iterable[float] = (0.5, 0.7),
    controls: bool = True,
    draws: int = RESAMPLES,
    force: bool = False,
    engine: str | Engine = "local",
    progress: PairProgress | None = None,
) -> ProbeResult:
    """Evaluate a model on the pairs of a probe and score its answers.

    Net neutral, fraction neutral and T:tau (Dev et al. 2020) are 1 for a model that never concludes anything from the
    subject. The gap between groups shows which way the model leans. E and d are those of Dawkins 2021.

    What it does not tell you: anything about people outside the word lists (binary gender, English, US names), nor
    whether the model is unbiased elsewhere. Templates share words, so two million pairs are far fewer observations.

    Args:
        model: The model, or predictions made elsewhere.
        probe: Id, file or object of the probe.
        sample: Evaluate a stratified sample of about this many pairs instead of all.
        seed: Seed of the sample, the bootstrap and the permutation tests.
        thresholds: The values of tau.
        controls: Also evaluate pairs whose label is not neutral.
        draws: Bootstrap resamples over words, including those of the templates; 0 for no intervals.
        force: Continue if more than a fifth of a slot's fillers are out of vocabulary.
        engine: Where the parts are evaluated: `local`, `ray` or an engine of `evenhand.engines`.
        progress: Called with the number of phrases done, their total and the name of the probe.

    Raises:
        VocabularyError: If too many fillers are out of vocabulary. Otherwise they are left out and counted.
    """
    model = require_model(model)
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise UsageError(f"the seed must be a non-negative integer, got {seed!r}")
    columns = PairColumns(tuple(thresholds))
    known, coverage = restrict_to_vocabulary(find_probe(probe), model, force=force)
    known = _known_probe(known, known.shape)
    with open_engine(engine) as workers:
        sums = _evaluate(
            model, known, columns, sample=sample, draws=draws, seed=seed, engine=workers, progress=progress
        )
        control_accuracy = _controls(model, known, force=force, seed=seed, engine=workers) if controls else {}
    params = {"sample": sample, "draws": draws, "thresholds": list(columns.thresholds), "force": force}
    return ProbeResult(
        known,
        model.name,
        sums.tables.count,
        scores.neutrality(sums),
        scores.word_pair_neutrality(sums),
        scores.groups(sums),
        scores.gap(sums, seed=seed),
        scores.marked_bias(sums, seed=seed),
        accuracy(sums),
        control_accuracy,
        coverage,
        sums.resamples.over if sums.resamples else (),
        {**params, "surface": asdict(known.surface), "all_pairs": known.n_pairs, **_strata(sums)},
        seed,
        columns,
        sums.tables,
        {label: sums.top_pairs.ranking(column) for column, label in enumerate(LABELS)},
        scores.headline_draws(sums),
    )


@lru_cache(maxsize=8)
def _known_probe(probe: Probe, shape: tuple[int, int, int]) -> Probe:
    """Return the probe, or one asked before that equals it and has its sentences already.

    The shape tells a part of a probe, which equals it otherwise, from the whole.
    """
    return probe


def accuracy(sums: Accumulator) -> float:
    """Return the share of pairs whose most probable label is the expected one."""
    column = sums.columns.index(SAYS[LABELS.index(sums.probe.expected)])
    return float(sums.tables.means[column])


def require_model(model: object) -> NLIModel | RecordedModel:
    """Return the model, or the only member of an ensemble.

    Raises:
        UsageError: For several training seeds, and for a bare function, whose label order is unknown.
    """
    if isinstance(model, NLIEnsemble):
        if len(model) > 1:
            hint = "use measures.inference.probe_seeds(view.members)"
            raise UsageError(f"{model.name}: {len(model)} training seeds, expected one model", hint=hint)
        return model.members[0]
    if isinstance(model, (NLIModel, RecordedModel)):
        return model
    hint = "a model has a name and predict(premises, hypotheses); load one with models.nli"
    if callable(model):
        hint = 'name its columns: CallableModel(function, ("entailment", "neutral", "contradiction"))'
    raise UsageError(f"{type(model).__name__} is not an NLI model", hint=hint)


def restrict_to_vocabulary(probe: Probe, model: object, *, force: bool = False) -> tuple[Probe, Coverage]:
    """Return the probe without fillers that are out of the model's vocabulary, and the coverage.

    Raises:
        VocabularyError: If a slot loses all its fillers, or more than a fifth of them without `force`.
    """
    slots = slot_words(probe)
    words = tuple(dict.fromkeys(word for fillers in slots.values() for word in fillers))
    if not isinstance(model, FixedVocabulary):
        return probe, Coverage(words)
    missing = {slot: _missing(model, fillers, probe.surface.articles) for slot, fillers in slots.items()}
    for slot, fillers in slots.items():
        share = len(missing[slot]) / len(fillers)
        if share == 1 or (share > MAX_MISSING and not force):
            listing = ", ".join(sorted(missing[slot])[:8])
            raise VocabularyError(
                f"{probe.name}: {len(missing[slot])} of {len(fillers)} {slot} fillers are out of vocabulary: {listing}",
                hint="use a model or vectors that contain them" + ("" if share == 1 else ", or pass `force=True`"),
            )
    left = {slot: [word for word in fillers if word not in missing[slot]] for slot, fillers in slots.items()}
    coverage = Coverage(
        tuple(dict.fromkeys(word for fillers in left.values() for word in fillers)),
        tuple(dict.fromkeys(word for slot, fillers in slots.items() for word in fillers if word in missing[slot])),
    )
    return (probe.without(missing) if any(missing.values()) else probe), coverage


def _missing(model: FixedVocabulary, fillers: Iterable[str], rule: str) -> set[str]:
    """Return the fillers that are out of vocabulary; one that agrees with the subject needs all of its forms."""
    genders = genders_of(rule)
    forms = {filler: {agree(filler, gender, rule) for gender in genders} or {filler} for filler in fillers}
    unknown = set(model.out_of_vocabulary(dict.fromkeys(form for both in forms.values() for form in sorted(both))))
    return {filler for filler, both in forms.items() if both & unknown}


def slot_words(probe: Probe) -> dict[str, tuple[str, ...]]:
    """Return the distinct fillers of both sides and of every slot of the templates."""
    slots: dict[str, dict[str, None]] = {
        "premise": dict.fromkeys(filler.word for filler in probe.premise),
        "hypothesis": dict.fromkeys(filler.word for filler in probe.hypothesis),
    }
    for template in probe.templates:
        for slot, words in template.fillers.items():
            slots.setdefault(slot, {}).update(dict.fromkeys(words))
    return {slot: tuple(words) for slot, words in slots.items()}


def _evaluate(
    model: NLIModel | RecordedModel,
    probe: Probe,
    columns: PairColumns,
    *,
    sample: int | None,
    draws: int,
    seed: int,
    engine: Engine,
    progress: PairProgress | None = None,
) -> Accumulator:
    sums = Accumulator(probe, columns, draws=draws, seed=seed)
    if sample is None:
        evaluate_all(sums, model, progress, engine)
    else:
        evaluate_sample(sums, model, stratified(probe, sample, seed=seed), progress, engine)
    return sums


def _controls(
    model: NLIModel | RecordedModel, probe: Probe, *, force: bool, seed: int, engine: Engine
) -> dict[str, float]:
    """Return the accuracy on each control in the surface form of the probe; recorded predictions have none."""
    accuracies: dict[str, float] = {}
    for name in () if isinstance(model, RecordedModel) else probe.controls:
        try:
            control, _ = restrict_to_vocabulary(find_probe(name).with_surface(probe.surface), model, force=force)
        except VocabularyError as error:
            if not force:
                raise
            warnings.warn(f"control skipped: {error.message}", EvenhandWarning, stacklevel=4)
            continue
        control = _known_probe(control, control.shape)
        sample = CONTROL_PAIRS if control.n_pairs > CONTROL_PAIRS else None
        sums = _evaluate(model, control, PairColumns(()), sample=sample, draws=0, seed=seed, engine=engine)
        accuracies[name] = accuracy(sums)
    return accuracies


def _strata(sums: Accumulator) -> dict[str, object]:
    if sums.sample is None:
        return {}
    sample = sums.sample.sample
    return {"strata": sample.by, "per_stratum": sample.per_stratum}
