"""Measures of vectors, methods and scores of texts give the recorded numbers, with every detail, on small inputs.

The golden audit compares values of the embedded vectors; here are also details, items and reports. What models are asked is
compared in `measures/test_units.py`.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import evenhand as eh
from evenhand.corpus.readers import Texts
from recorded_numbers import check
from seeded_results import PARAMS, statistics, vectors

ITERATED = ("clustering", "recoverability")  # a point that changes sides moves the whole result
TRAINED = ("gn-glove", "gp", "ran", "double-hard")  # from random numbers of torch, or chosen by a clustering


@cache
def small() -> eh.Vectors:
    """A few hundred words in 24 dimensions."""
    return vectors().with_matrix(np.ascontiguousarray(vectors().matrix[:, :24], dtype=np.float32))


@pytest.mark.filterwarnings("ignore")
def test_measures_of_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EVENHAND_DATA", raising=False)  # where there are no further data sets
    ids = [id for id in eh.measures.ids() if eh.measures.info(id).view == "vectors" and id not in ITERATED]
    found = {}
    for result in eh.Audit.run(small(), methods=["linear"], measures=ids, seed=3).results:
        m = result.measurement
        name = f"{result.label} @ {result.stage}"
        found[name] = {
            "value": m.value,
            "interval": m.interval,
            "p": m.p_value,
            "n": m.n,
            "details": m.details,
            "items": m.items,
        }
    assert len({name.partition(":")[0] for name in found}) > 15
    check("vectors", found)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("id", [id for id in eh.mitigations.ids("vectors") if id not in TRAINED])
def test_methods(id: str) -> None:
    change = eh.mitigations.get(id)(**PARAMS.get(id, {})).fit(small(), "gender", seed=3)
    check(f"method {id}", {"report": change.report, "rows": change(small()).matrix[::7]})


@pytest.mark.filterwarnings("ignore")
def test_scores_of_texts() -> None:
    words = small().words
    lines = [f"she is a {a} and he is a {b} with her {b}" for a, b in zip(words[:120], words[120:240], strict=True)]
    groups = {"female": ["she", "her"], "male": ["he", "his"]}
    bias = eh.corpus.bias(Texts(lines * 3), groups=groups, bootstrap=20, permutations=5, seed=3)
    other = eh.corpus.bias(Texts(lines[20:] * 2 + lines[:60:2]), groups=groups, window=3, seed=3)
    counts = eh.corpus.cooccurrence(Texts(lines), window=4, min_count=2)
    compared = eh.corpus.compare(Texts(lines * 3), Texts(lines[20:] * 2), groups, min_count=2, permutations=5, seed=3)
    parts = {"bias": bias, "other": other, "beta": bias.beta(other), "compared": compared}
    check(
        "texts", {**{name: part.to_dict() for name, part in parts.items()}, "counts": counts.matrix.toarray()[:40, :40]}
    )


def test_statistics() -> None:
    check("statistics", statistics())
