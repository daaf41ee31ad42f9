"""A measure appears in charts, findings and the comparison of methods by what its declaration says."""

from __future__ import annotations

import pytest

import evenhand as eh
from evenhand.audit.significance import role
from evenhand.audit.tradeoff import tradeoffs
from evenhand.measures.call import Call, measure
from evenhand.measures.registry import MEASURES, Info
from evenhand.report.charts.figure import drawn_measures, figures

DECLARED = Info(
    "toy-share", "Toy share", "words", "fifty", "f", "r", "l", (), ("bolukbasi2016-professions",), null=50.0,
    in_tradeoff=True, plain=1, charts=("pair-preferences",),
)  # fmt: skip


@pytest.fixture
def audit(monkeypatch: pytest.MonkeyPatch) -> eh.Audit:
    monkeypatch.setattr(MEASURES, "_objects", dict(MEASURES._objects))

    @measure(DECLARED)
    def toy_share(call: Call, vectors: eh.Vectors, words: str, *, seed: int = 0) -> eh.Measurement:
        call.describe(words)
        left = 100 * abs(float(vectors["she"] @ vectors["he"])) % 50
        return call.measurement(50 + left, 10, reading="a share", interval=(50 + left - 1, 50 + left + 1))

    return eh.Audit.run(eh.Vectors.default(), measures=["toy-share"], methods=["linear"])


def test_charts_and_tradeoffs_show_a_new_measure(audit: eh.Audit) -> None:
    assert "toy-share" in drawn_measures("pair-preferences")
    (figure,) = figures(audit, audit.subjects[0], ["pair-preferences"])
    assert figure.table[0][0].startswith("toy-share")
    assert all(place.measures_used == 1 for place in tradeoffs(audit))
    assert role(audit.results[0].question, "gender") == "bias"
