"""Carry out a plan: measure, apply each method, measure again; keep what is finished."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from evenhand import measures, mitigations, words
from evenhand.audit.manifest import manifest
from evenhand.audit.plan import Case, Plan
from evenhand.audit.record import ORIGINAL, Audit, Progress, Result, Stage
from evenhand.audit.store import Journal
from evenhand.errors import EvenhandError, EvenhandWarning
from evenhand.measures import Measurement
from evenhand.mitigations import VectorMap
from evenhand.models.vectors import Vectors


def run(
    vectors: Vectors,
    plan: Plan,
    *,
    given: Mapping[str, Any] | None = None,
    folder: Path | None = None,
    progress: Progress | None = None,
) -> Audit:
    """Run every case on the original vectors and on each debiased stage."""
    started = time.perf_counter()
    record = manifest(vectors, given or {}, plan.to_dict())
    journal = Journal(folder, f"{plan.digest} {record['vectors']['sha256']}") if folder else None
    skipped: dict[str, str] = {}
    with _collected() as notes:
        stages, results = _stages(vectors, plan, journal, progress, skipped)
    seconds = round(time.perf_counter() - started, 3)
    record.update(status="done", seconds=seconds, warnings=notes, skipped=skipped)
    return Audit(record, tuple(stages), tuple(results))


def _stages(
    vectors: Vectors, plan: Plan, journal: Journal | None, progress: Progress | None, skipped: dict[str, str]
) -> tuple[list[Stage], list[Result]]:
    stages: list[Stage] = []
    results: list[Result] = []
    total = len(plan.cases) * (1 + len(plan.methods))
    tell = progress or (lambda done, total, what: None)
    for place, name in enumerate((ORIGINAL, *plan.methods)):
        done = place * len(plan.cases)
        tell(done, total, f"fitting {name}")
        try:
            changed, report = (vectors, {}) if name == ORIGINAL else apply(name, vectors, plan.concept)
        except EvenhandError as error:
            if not plan.skip_failing:
                raise
            skipped[name] = error.message
            continue
        stages.append(Stage(name, report))
        for case in plan.cases:
            tell(done, total, f"{case.label}, {name}")
            results.append(_result(changed, case, name, vectors, plan.seed, journal))
            done += 1
    tell(total, total, "done")
    return stages, results


def _result(changed: Vectors, case: Case, stage: str, original: Vectors, seed: int, journal: Journal | None) -> Result:
    """The measurement of one cell, taken from the journal where an interrupted run left it."""
    if journal and (stage, case.label) in journal.done:
        return journal.done[stage, case.label]
    result = Result(stage, case, measured(changed, case, reference=original, seed=seed))
    if journal:
        journal.add(result)
    return result


def apply(chain: str, vectors: Vectors, concept: str) -> tuple[Vectors, dict[str, Any]]:
    """Fit and apply methods from left to right ("hard.misp"), each on what the one before left."""
    about = words.concept(concept)
    reports: list[Any] = []
    for method in chain.split("."):
        fitted: VectorMap = mitigations.get(method)().fit(vectors, about)
        vectors = fitted(vectors)
        reports.append(dict(fitted.report))
    return vectors, reports[0] if len(reports) == 1 else {"method": chain, "chain": reports}


def measured(vectors: Vectors, case: Case, *, reference: Vectors | None = None, seed: int = 0) -> Measurement:
    """One measure on one set of vectors."""
    return measures.get(case.measure)(vectors, case.query, reference=reference, seed=seed, **case.options)


@contextmanager
def _collected() -> Iterator[list[str]]:
    """Our own warnings go into the record; anybody else's go where they would have gone."""
    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", EvenhandWarning)
        yield notes
    for warning in caught:
        if issubclass(warning.category, EvenhandWarning):
            notes.append(str(warning.message))
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
