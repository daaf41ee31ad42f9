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
from evenhand.errors import EvenhandWarning
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
    with _collected() as notes:
        stages, results = _stages(vectors, plan, journal, progress)
    record.update(status="done", seconds=round(time.perf_counter() - started, 3), warnings=notes)
    return Audit(record, tuple(stages), tuple(results))


def _stages(
    vectors: Vectors, plan: Plan, journal: Journal | None, progress: Progress | None
) -> tuple[list[Stage], list[Result]]:
    stages: list[Stage] = []
    results: list[Result] = []
    total = len(plan.cases) * (1 + len(plan.methods))
    for name in (ORIGINAL, *plan.methods):
        changed, report = (vectors, {}) if name == ORIGINAL else apply(name, vectors, plan.concept)
        stages.append(Stage(name, report))
        for case in plan.cases:
            if progress:
                progress(len(results), total, f"{case.label}, {name}")
            done = journal.done.get((name, case.label)) if journal else None
            result = done or Result(name, case, measured(changed, case, reference=vectors, seed=plan.seed))
            results.append(result)
            if journal and not done:
                journal.add(result)
    if progress:
        progress(total, total, "done")
    return stages, results


def apply(chain: str, vectors: Vectors, concept: str) -> tuple[Vectors, dict[str, Any]]:
    """Fit and apply methods from left to right ("hard.misp"), each on what the one before left."""
    about = words.concept(concept)
    reports: list[Any] = []
    for method in chain.split("."):
        fitted: VectorMap = mitigations.get(method)().fit(vectors, about)
        vectors = fitted(vectors)
        reports.append(dict(fitted.report))
    return vectors, reports[0] if len(reports) == 1 else {"method": chain, "steps": reports}


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
