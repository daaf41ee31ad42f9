"""Bias left against quality kept, by hand; methods that fail are noted and left out."""

import numpy as np
import pytest

import evenhand as eh
from evenhand.audit import Question, Result, Stage, rank, tradeoffs
from evenhand.audit.tradeoff import Ranking, Tradeoff, cost_note
from evenhand.errors import UsageError
from evenhand.report import charts
from evenhand.report.charts.scores import tradeoff
from made_audits import audit_of, measured, result


def cell(stage: str, measure: str, value: float | None, query: str = "vocabulary", variant: str = "") -> Result:
    status = "ok" if value is not None else "undefined"
    measurement = eh.Measurement(measure, value, 1, eh.Coverage(()), status=status, query=query)
    return Result("v", stage, Question(measure, query, {}, variant), measurement)


@pytest.fixture
def audit() -> eh.Audit:
    values = {
        "original": {"clustering": 1.0, "neighbours": 0.8, "retention": 1.0, "direct-bias": 0.1},
        "mild": {"clustering": 0.9, "neighbours": 0.6, "retention": 0.9, "direct-bias": 0.0},
        "harsh": {"clustering": 0.5, "neighbours": 0.2, "retention": 0.4, "direct-bias": 0.0},
        "poor": {"clustering": 0.95, "neighbours": 0.7, "retention": 0.5, "direct-bias": None},
    }
    variant = {"direct-bias": "old-direction"}
    results = [
        cell(stage, measure, value, variant=variant.get(measure, ""))
        for stage, row in values.items()
        for measure, value in row.items()
    ]
    manifest = {"concept": {"name": "gender"}}
    return eh.Audit(manifest, tuple(Stage(name, "v") for name in values), tuple(results))


def test_shares_by_hand(audit: eh.Audit) -> None:
    found = {place.method: place for place in tradeoffs(audit)}
    # Clustering counts from chance (.5): .9 is 80 % of the way from .5 to 1; .6 of .8 is 75 %. Direct bias along the
    # removed direction does not count.
    assert found["mild"].bias_left == pytest.approx((0.8 + 0.75) / 2)
    assert found["mild"].quality_kept == pytest.approx(0.9)
    assert found["harsh"].bias_left == pytest.approx((0.0 + 0.25) / 2)
    assert found["original"].bias_left == found["original"].quality_kept == 1.0


def test_fifty_is_ideal_and_a_lower_perplexity_is_kept_quality() -> None:
    values = {
        "original": {"crows-pairs": 60.0, "perplexity": 20.0},
        "better": {"crows-pairs": 48.0, "perplexity": 40.0},
    }
    results = [cell(stage, name, value, name) for stage, row in values.items() for name, value in row.items()]
    stages = tuple(Stage(name, "v") for name in values)
    found = tradeoffs(eh.Audit({"concept": {"name": "gender"}}, stages, tuple(results)))
    assert [(place.method, place.bias_left, place.quality_kept) for place in found] == [
        ("better", pytest.approx(0.2), pytest.approx(0.5)),
        ("original", 1.0, 1.0),
    ]


def test_the_front_holds_what_nothing_beats(audit: eh.Audit) -> None:
    assert {place.method: place.on_the_front for place in tradeoffs(audit)} == {
        "harsh": True,
        "mild": True,
        "poor": False,
        "original": True,
    }


def test_order_is_by_bias_left(audit: eh.Audit) -> None:
    assert [place.method for place in tradeoffs(audit)] == ["harsh", "mild", "poor", "original"]


def test_the_chart_shows_every_method(audit: eh.Audit) -> None:
    drawn = charts.svg(tradeoff(tradeoffs(audit)))
    assert all(name in drawn for name in ("harsh", "mild", "poor", "original"))


def test_a_method_that_cannot_do_the_concept_is_noted(glove: eh.Vectors) -> None:
    found = eh.Audit.run(
        glove.head(6000), methods=["linear", "hard"], measures=["retention"], concept="nationality", skip_failing=True
    )
    names = {stage.name for stage in found.stages}
    assert names | set(found.manifest["skipped"]) == {"original", "linear", "hard"}
    assert "linear" in names


def test_an_audit_says_when_the_cost_was_not_measured(glove: eh.Vectors) -> None:
    audit = eh.Audit.run(glove, methods=["linear"], measures=["direct-bias"])
    assert audit.manifest["warnings"] == [
        "cost not measured: no similarity or analogy was measured; measure similarity too"
    ]
    assert eh.Audit.run(glove, methods=[], measures=["direct-bias"]).manifest["warnings"] == []


def test_the_packaged_sets_measure_the_cost(glove: eh.Vectors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EVENHAND_DATA", raising=False)
    audit = eh.Audit.run(glove, methods=["linear"], measures=["direct-bias", "similarity"])
    assert audit.manifest["warnings"] == []
    assert audit.get("similarity:rg-65").value == pytest.approx(0.7336, abs=1e-4)
    assert audit.get("similarity:rg-65", "linear").status == audit.get("similarity:mc-30", "linear").status == "ok"


def test_sets_without_enough_words_leave_the_cost_unmeasured(
    glove: eh.Vectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EVENHAND_DATA", raising=False)
    audit = eh.Audit.run(glove.head(600), methods=["linear"], measures=["similarity"])
    (note,) = [text for text in audit.manifest["warnings"] if text.startswith("cost")]
    assert "no complete pair of rg-65 is in the vocabulary" in note
    assert "evenhand fetch ws-353" in note


def test_mean_ranks_are_over_the_rows() -> None:
    rows = {"weat": (1.0, 2.0, 3.0), "similarity": (2.5, 2.5, 1.0)}
    ranking = Ranking(("a", "b", "c"), "original", rows, (), {})
    assert ranking.mean_ranks == {"a": 1.75, "b": 2.25, "c": 2.0}
    assert np.isnan(list(Ranking(("a", "b"), "original", {}, ("weat",), {}).mean_ranks.values())).all()


def test_every_field_of_a_trade_off_by_hand(audit: eh.Audit) -> None:
    by_method = {place.method: place for place in tradeoffs(audit, "v")}
    assert by_method["poor"] == Tradeoff("poor", pytest.approx((0.9 + 0.875) / 2), 0.5, 3, ())
    assert by_method["original"] == Tradeoff("original", 1.0, 1.0, 3, (), on_the_front=True)


def test_controls_and_undefined_rows_do_not_count() -> None:
    rows = {
        "original": [
            ("weat", "weat-6", 1.0),
            ("weat", "weat-1", 1.0),
            ("weat", "weat-7", None),
            ("weat", "weat-8", 0.0),
        ],
        "linear": [
            ("weat", "weat-6", -0.25),
            ("weat", "weat-1", 0.9),
            ("weat", "weat-7", 0.5),
            ("weat", "weat-8", 0.5),
        ],
    }
    results = [
        result(stage, measured(name, value, query=query)) for stage, row in rows.items() for name, query, value in row
    ]
    first, second = tradeoffs(audit_of(results))
    assert first == Tradeoff("linear", 0.25, 1.0, 1, ("weat-7", "weat-8"), on_the_front=True)
    assert (second.method, second.bias_left, second.undefined) == ("original", 1.0, ("weat-7", "weat-8"))
    nothing = [result(stage, measured("weat", 1.0, query="weat-1")) for stage in ("original", "linear")]
    assert tradeoffs(audit_of(nothing)) == [Tradeoff(name, 1.0, 1.0, 0, (), True) for name in ("original", "linear")]


def test_a_method_that_is_as_good_on_one_and_better_on_the_other_beats() -> None:
    values = {"original": (1.0, 1.0), "same": (1.0, 1.0), "less": (0.5, 1.0), "worse": (0.5, 0.9)}
    results = [
        result(stage, measured(name, value, query=query))
        for stage, row in values.items()
        for (name, query), value in zip((("weat", "weat-6"), ("similarity", "rg-65")), row, strict=True)
    ]
    found = tradeoffs(audit_of(results))
    assert [(place.method, place.on_the_front) for place in found] == [
        ("less", True), ("worse", False), ("original", False), ("same", False)
    ]  # fmt: skip


def test_what_is_said_of_a_cost_that_was_not_measured() -> None:
    changed = result("linear", measured("weat", 1.0, query="weat-6"))
    lost = [result("linear", measured("similarity", None, query=id, reason=f"no words of {id}")) for id in ("a", "b")]
    assert cost_note([]) == cost_note([result("original", measured("weat", 1.0))]) == ""
    assert cost_note([result("linear", measured("seat", 1.0))]) == ""
    assert cost_note([changed]) == "cost not measured: no similarity or analogy was measured; measure similarity too"
    assert cost_note([changed, *lost, lost[0]]) == (
        "cost not measured: no words of a; no words of b. Get larger sets with `evenhand fetch ws-353 men "
        "google-analogies`, or measure similarity with a file of your own"
    )
    assert cost_note([changed, *lost, result("linear", measured("analogy", 0.5))]) == ""
    assert cost_note([changed, result("linear", measured("perplexity", 0.5))]).startswith("cost not measured: no sim")


def ranked(values: dict[str, list[float | None]]) -> eh.Audit:
    """Rows of several subjects, with their WEAT values."""
    return audit_of(
        result("original", measured("weat", value, query=query), subject=subject)
        for query, row in values.items()
        for subject, value in zip("abcd", row, strict=False)
    )


def test_ranks_of_subjects_in_full() -> None:
    audit = ranked(
        {"weat-6": [0.5, -0.1, 0.9], "weat-7": [1.0, -1.0, 0.2], "weat-8": [None, 1.0, 2.0], "same": [1.0] * 3}
    )
    extra = [result("original", measured("weat", 1.0, query="alone"), subject="a")]
    found = rank(audit_of([*audit.results, *extra]))
    rho = float(np.corrcoef([2, 1, 3], [2.5, 2.5, 1])[0, 1])
    assert found.to_dict() == {
        "subjects": ["a", "b", "c"], "stage": "original",
        "ranks": {"weat-6": [2.0, 1.0, 3.0], "weat-7": [2.5, 2.5, 1.0], "weat:same": [2.0, 2.0, 2.0]},
        "mean_ranks": pytest.approx({"a": 6.5 / 3, "b": 5.5 / 3, "c": 2.0}), "undefined": ["weat-8"],
        "agreement": [{"rows": ["weat-6", "weat-7"], "spearman": pytest.approx(rho)}],
    }  # fmt: skip
    two = rank(ranked({"weat-6": [0.5, -0.1], "weat-7": [1.0, 0.2]}))
    assert (two.agreement, two.ranks) == ({}, {"weat-6": (2.0, 1.0), "weat-7": (2.0, 1.0)})
    assert rank(audit, "linear").ranks == {}
    with pytest.raises(UsageError, match="two subjects or more"):
        rank(ranked({"weat-6": [0.5]}))
