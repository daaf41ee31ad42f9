"""What ran: versions, hashes, seeds, arguments given and effective, so that a number can be made again."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

import evenhand
from evenhand.models.vectors import Vectors

SCHEMA = 1
PACKAGES = ("numpy", "scipy", "scikit-learn", "polars", "safetensors", "torch", "transformers", "gensim")


def manifest(vectors: Vectors, given: Mapping[str, Any], effective: Mapping[str, Any]) -> dict[str, Any]:
    """Everything about a run that is known before it starts."""
    created = datetime.now(UTC).isoformat(timespec="seconds")
    return {
        "schema": SCHEMA,
        "run": hashlib.sha256(f"{created}{os.getpid()}{os.urandom(8).hex()}".encode()).hexdigest()[:12],
        "created": created,
        "evenhand": evenhand.__version__,
        "arguments": {"given": dict(given), "effective": dict(effective)},
        "vectors": describe(vectors),
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "threads": os.environ.get("OMP_NUM_THREADS", str(os.cpu_count())),
        "packages": _versions(),
    }


def describe(vectors: Vectors) -> dict[str, Any]:
    """The vectors of a run: where from, how large, and the hash of their content."""
    return {
        "name": vectors.name,
        "words": len(vectors),
        "dimensions": vectors.dim,
        "case": vectors.case,
        "sha256": digest(vectors),
        "source": dict(vectors.source),
        "history": [dict(step) for step in vectors.history],
    }


def digest(vectors: Vectors) -> str:
    """Hash of vocabulary and numbers, whatever file they came from."""
    hasher = hashlib.sha256("\n".join(vectors.words).encode(errors="surrogatepass"))
    for start in range(0, len(vectors), 50_000):
        hasher.update(np.ascontiguousarray(vectors.matrix[start : start + 50_000]).data)
    return hasher.hexdigest()


def _versions() -> dict[str, str]:
    found: dict[str, str] = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
