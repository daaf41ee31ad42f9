"""What ran: versions, hashes, seeds, arguments given and effective, so that a number can be computed again."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import evenhand
from evenhand.subjects import Subject
from evenhand.subjects.subject import installed_versions
from evenhand.words import Concept

PACKAGES = ("numpy", "scipy", "scikit-learn", "polars", "safetensors", "torch", "transformers", "gensim")


def manifest(
    subjects: Sequence[Subject],
    concept: Concept,
    plan: Mapping[str, Any],
    *,
    given: Mapping[str, Any] | None = None,
    seconds: float = 0.0,
    warnings: Sequence[str] = (),
    skipped: Mapping[str, str] | None = None,
    cells_computed: int = 0,
) -> dict[str, Any]:
    """Return everything about a finished run but its results. The concept's words are part of it."""
    created = datetime.now(UTC).isoformat(timespec="seconds")
    return {
        "run": hashlib.sha256(f"{created}{os.getpid()}{os.urandom(8).hex()}".encode()).hexdigest()[:12],
        "created": created,
        "evenhand": evenhand.__version__,
        "arguments": {"given": dict(given or {}), "effective": dict(plan)},
        "subjects": [subject.describe() for subject in subjects],
        "concept": {**concept.to_dict(), "digest": concept.digest},
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "threads": os.environ.get("OMP_NUM_THREADS", str(os.cpu_count())),
        "packages": dict(installed_versions(PACKAGES)),
        "status": "done",
        "seconds": round(seconds, 3),
        "warnings": list(warnings),
        "skipped": dict(skipped or {}),
        "cells_computed": cells_computed,
    }
