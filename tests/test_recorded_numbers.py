"""Measures of vectors, methods and scores of texts give the recorded numbers, with every detail, on small inputs.

The golden audit compares values of the embedded vectors; here are also details, items and reports. What models are asked is
compared in `measures/test_units.py`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import evenhand as eh
from evenhand.audit import Plan
from evenhand.audit.runner import ask
from evenhand.corpus.readers import Texts
from evenhand.measures.registry import as_measurements
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


OPTIONS: dict[str, tuple[dict[str, object], ...]] = {
    "bat": ({"normalise": True},),
    "direct-bias": ({"how": "pair"}, {"c": 2.0}),
    "gipe": ({"theta": 0.1}, {"unvisited": 0}, {"how": "pair"}),
    "neighbours": ({"statistic": "spearman"}, {"score": "projection"}),
    "occupation-share": ({"statistic": "spearman"}, {"score": "projection"}),
    "proximity-bias": ({"theta": 0.1}, {"k": 20}),
    "ripa": ({"relation": "mean-of-pairs"},),
    "weat": ({"ddof": 1}, {"alternative": "greater"}, {"alternative": "less"}, {"ties": "gt"}, {"samples": 300}),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("id", OPTIONS)
def test_options_of_measures(id: str) -> None:
    subject, concept = eh.open(small()), eh.concept("gender")
    plan = Plan.default((subject,), methods=[], only=(id,), concept=concept)
    found = {}
    for question in [one for one in plan.questions if one.measure == id][:8]:
        for options in OPTIONS[id]:
            asked = replace(question, options={**question.options, **options})
            for m in as_measurements(ask(asked, subject, concept, reference=subject, seed=3)):
                record = {"value": m.value, "interval": m.interval, "p": m.p_value, "details": m.details}
                found[f"{question.label()} {options} {m.score}"] = record
    assert any(value["value"] is not None for value in found.values())
    check(f"options {id}", found)


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
