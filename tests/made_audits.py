"""Audits that are made up of given numbers, to test what is derived from a record."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

import evenhand as eh
from evenhand.audit import Question, Result, Stage
from evenhand.stats.units import Units

NOTHING = eh.Coverage(())


def measured(measure: str, value: float | None, half: float | None = None, **more: Any) -> eh.Measurement:
    """Return a measurement with a value, undefined for None, and an interval of a half-width around it."""
    interval = None if half is None or value is None else (value - half, value + half)
    state = {"status": "ok"} if value is not None else {"status": "undefined", "reason": "no words"}
    return eh.Measurement(measure, value, 8, **{"coverage": NOTHING, "interval": interval, **state, **more})


def result(stage: str, m: eh.Measurement, *, variant: str = "", subject: str = "v", **options: object) -> Result:
    """Return a measurement on a stage."""
    return Result(subject, stage, Question(m.measure, m.query, options, variant), m)


def audit_of(results: Iterable[Result], concept: str = "gender", **concepts: object) -> eh.Audit:
    """Return the record of results, with the stages in the order in which they occur."""
    every = tuple(results)
    stages = dict.fromkeys((one.subject, one.stage) for one in every)
    manifest = {
        "concept": {"name": concept, **concepts},
        "arguments": {"effective": {"seed": 7}},
        "subjects": [],
        "warnings": [],
    }
    return eh.Audit(manifest, tuple(Stage(stage, subject) for subject, stage in stages), every)


def units(values: Sequence[float], names: Sequence[str] | None = None, unit: str = "word") -> Units:
    """Return units whose mean is the estimate."""
    known = tuple(names) if names is not None else tuple(f"{unit} {number}" for number in range(len(values)))
    rows = np.stack([np.ones(len(values)), np.asarray(values, dtype=np.float64)], axis=1)
    return Units("ratios", unit, known, rows, len(values))
