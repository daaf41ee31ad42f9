"""Dawkins 2021 from models and vectors: answers about marked attributes (tables 1, 2, 4), quality of vectors (3)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from evenhand import measures, mitigations
from evenhand.data import locate
from evenhand.errors import EvenhandError
from evenhand.measures.inference import ProbeResult, error, gender_gap
from evenhand.measures.registry import as_measurements
from evenhand.models.vectors import Vectors
from evenhand.reproduce.comparison import Estimate, Key, Series
from evenhand.reproduce.inputs import PaperInputs
from evenhand.reproduce.published import PaperItem, change_row

PROBES = {"table-1": "mab-explicit", "table-2": "mab-occupations", "table-4": "mab-names"}
LABELS = ("neutral", "entailment", "contradiction")
GROUPS = {"M": "male", "F": "female"}
SETS = {
    "Google": ("analogy", "google-analogies"),
    "MSR": ("analogy", "msr-analogies"),
    "RG": ("similarity", "rg-65"),
    "MTurk": ("similarity", "mturk-287"),
    "MEN": ("similarity", "men"),
    "SL999": ("similarity", "simlex-999"),
}
PROJECTED = "The embedded models without he-she have no counterpart in this table: see `evenhand probe --compare`."


def answers(item: PaperItem, inputs: PaperInputs) -> list[Series]:
    """Return tables 1, 2 and 4: mean answers for both groups, their distance and error."""
    models = inputs.addresses(item, default="GloVe", embedded={"GloVe": "embedded"})
    values: dict[Key, Estimate] = {}
    for row, addresses in models.items():
        results = inputs.answers(addresses, PROBES[item.name]).results
        cells = [dict(_cells(result, explicit=item.name == "table-1")) for result in results]
        values |= {(row, column): Estimate.of(one[column] for one in cells) for column in cells[0]}
    name = "the given models" if inputs.models else "the embedded models"
    notes = () if inputs.models else ("Decomposable attention over GloVe 6B, 100 dimensions: three seeds.", PROJECTED)
    return [Series(name, values, notes=notes)]


def _cells(result: ProbeResult, *, explicit: bool) -> Iterator[tuple[str, float]]:
    for short, group in GROUPS.items():
        for label in LABELS:
            yield f"{short} {label}", getattr(result.groups[group].triple, label)
    if result.marked:
        yield "d", result.marked.distance.value
        if not explicit and result.marked.p_value is not None:
            yield "p", result.marked.p_value
        if explicit:
            yield "E", result.marked.error.value
    if explicit:
        yield "M - F entailment", _triple(result, "male")[0] - _triple(result, "female")[0]
        for word in ("he", "she"):
            for label in LABELS:
                yield f"{word} {label}", getattr(result.groups[word].triple, label)
        pronouns = [np.array(_triple(result, word)) for word in ("he", "she")]
        yield "pronouns d", float(gender_gap(*pronouns))
        yield "pronouns E", float(error(*pronouns))


def _triple(result: ProbeResult, group: str) -> tuple[float, float, float]:
    triple = result.groups[group].triple
    return triple.entailment, triple.neutral, triple.contradiction


def quality(item: PaperItem, inputs: PaperInputs) -> list[Series]:
    """Return table 3: analogies and similarities before and after MISP, on the sets that are on this disk."""
    vectors = inputs.only_vectors(item)
    after = mitigations.get_vector_method("misp").with_params({}).fit(vectors, "gender", seed=inputs.seed)(vectors)
    values: dict[Key, Estimate] = {}
    missing = [name for _, name in SETS.values() if locate(name) is None]
    for column, (measure, name) in SETS.items():
        if name in missing:
            continue
        for row, subject in (("GloVe", vectors), ("GloVe.MISP", after)):
            if (estimate := _rated(subject, measure, name, inputs.seed)) is not None:
                values[row, column] = estimate
        if ("GloVe", column) in values and ("GloVe.MISP", column) in values:
            difference = values["GloVe.MISP", column].value - values["GloVe", column].value
            values[change_row("GloVe.MISP", "GloVe"), column] = Estimate(difference)
    notes = [f"Not on this disk: {', '.join(missing)}; `evenhand fetch ID` fetches one."] if missing else []
    return [Series(vectors.name, values, notes=tuple(notes))]


def _rated(vectors: Vectors, measure: str, name: str, seed: int) -> Estimate | None:
    try:
        (found,) = as_measurements(measures.get(measure)(vectors, name, seed=seed))
    except EvenhandError:
        return None
    if found.value is None:
        return None
    interval = (100 * found.interval[0], 100 * found.interval[1]) if found.interval else None
    return Estimate(100 * found.value, given=interval)
