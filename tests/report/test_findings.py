"""Findings: which sentences an audit earns. Every audit here is made by hand."""

from __future__ import annotations

import re
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from evenhand.audit import ORIGINAL, Audit, Question, Result, Stage
from evenhand.measures import Measurement
from evenhand.models.vectors import Coverage
from evenhand.report.findings import Finding, findings, headline, unmeasured_reasons
from evenhand.report.scorecard import score_card, side_by_side
from evenhand.report.tables import by_family
from evenhand.report.terminal import audit_summary, fold_label
from evenhand.stats.multiplicity import holm, two_sided_p

READINGS = {"weat": "Male names nearer to Career", "similarity": "rho"}


def score(measure: str, value: float | None, half: float = 0.1, **fields) -> Measurement:
    """Return a measurement with a symmetric interval, or an undefined one."""
    interval = None if value is None else (value - half, value + half)
    status = "undefined" if value is None else "ok"
    reading = READINGS.get(measure, "a reading")
    made = Measurement(measure, value, 10, Coverage(()), status=status, interval=interval, reading=reading)
    return replace(made, **fields)


def audit(
    rows: dict[str, tuple[Measurement, ...]], stages: tuple[str, ...] = (ORIGINAL, "linear"), kind: str = "vectors"
) -> Audit:
    """Return an audit of one subject, with the measurements of each row by stage."""
    results = [
        Result("v", stage, Question(cell.measure, label), replace(cell, query=label))
        for label, cells in rows.items()
        for stage, cell in zip(stages, cells, strict=True)
    ]
    manifest = {
        "concept": {"name": "gender"},
        "subjects": [{"name": "v", "kind": kind}],
        "arguments": {"effective": {"seed": 0}},
    }
    return Audit(manifest, tuple(Stage(stage, "v") for stage in stages), tuple(results))


def sentences(record: Audit, kind: str) -> list[str]:
    return [finding.text for finding in findings(record) if finding.kind == kind]


def evidence(record: Audit, kind: str) -> list[str]:
    return [finding.evidence for finding in findings(record) if finding.kind == kind]


def test_bias_is_found_with_its_number_interval_and_direction() -> None:
    record = audit({"weat-6": (score("weat", 1.5, 0.2, p_value=0.001),)}, (ORIGINAL,))
    (finding,) = findings(record)
    assert finding.text == "Male names nearer to Career."
    assert finding.evidence == "weat-6 1.50 [1.30, 1.70], p = .001"
    assert (finding.kind, finding.label, finding.value, finding.stage) == ("bias", "weat-6", 1.5, ORIGINAL)
    assert finding.reading


def test_no_bias_beyond_chance_is_said_and_is_no_proof() -> None:
    record = audit({"weat-6": (score("weat", 0.4, 1.0, p_value=0.4),)}, (ORIGINAL,))
    (finding,) = findings(record)
    assert finding.text == ("No score is significantly different from no bias. This does not show that there is none.")
    assert finding.evidence == "1 test: weat"


def test_p_values_are_corrected_over_the_family() -> None:
    """p = .02 is a finding alone, and none among five tests."""
    alone = audit({"weat-6": (score("weat", 1.0, 0.5, p_value=0.02),)}, (ORIGINAL,))
    assert "nearer to Career" in sentences(alone, "bias")[0]
    labels = ("weat-6", "weat-7", "weat-8", "weat-6b", "weat-6c")
    among = audit({label: (score("weat", 1.0, 0.5, p_value=0.02),) for label in labels}, (ORIGINAL,))
    assert "No score is significantly different" in sentences(among, "bias")[0]


def test_no_difference_is_said() -> None:
    record = audit({"weat-6": (score("weat", 1.0, 0.5, p_value=0.01), score("weat", 0.8, 0.5, p_value=0.03))})
    assert sentences(record, "change") == ["linear changes none of 1 bias score significantly."]


def test_an_improvement_is_said_with_both_values() -> None:
    record = audit({"weat-6": (score("weat", 1.5, 0.2, p_value=0.001), score("weat", 0.25, 0.2, p_value=0.3))})
    assert sentences(record, "change") == ["linear improves 1 of 1 bias score significantly."]
    assert evidence(record, "change") == ["Clearest change: weat-6 from 1.50 to 0.250 [0.050, 0.450]"]
    assert sentences(record, "left") == ["After linear, no score is significantly different from no bias."]
    assert evidence(record, "left") == ["1 test"]


def test_a_change_of_sign_inside_the_noise_is_no_reversal() -> None:
    noisy = audit({"weat-6": (score("weat", 1.5, 0.2, p_value=0.001), score("weat", -0.3, 0.6, p_value=0.5))})
    assert "the sign" not in sentences(noisy, "change")[0]
    sure = audit({"weat-6": (score("weat", 1.5, 0.2, p_value=0.001), score("weat", -1.3, 0.3, p_value=0.002))})
    assert "changes the sign of 1" in sentences(sure, "change")[0]
    assert "improves 0" in sentences(sure, "change")[0]


def test_a_changed_sign_is_explained() -> None:
    """An effect size is relative: the sentence says how much association is left."""
    before = score("weat", 1.5, 0.2, p_value=0.001, details={"statistic": 0.37})
    after = score("weat", -1.3, 0.3, p_value=0.002, details={"statistic": -0.14}, reading="Math nearer to Female terms")
    (text,) = sentences(audit({"weat-7": (before, after)}), "change")
    assert "With the other sign, Math nearer to Female terms (weat-7)." in text
    assert "the association itself shrinks from 0.370 to 0.140" in text
    grown = replace(after, details={"statistic": -0.5})
    assert (
        "the bias is not removed, it points the other way" in sentences(audit({"weat-7": (before, grown)}), "change")[0]
    )


def test_a_changed_sign_does_not_contradict_what_is_left() -> None:
    """The interval after the method excludes 0, and the corrected test of what is left does not find it."""
    rows = {
        "weat-6": (score("weat", 1.5, 0.2, p_value=0.001), score("weat", 0.2, 0.5, p_value=0.5)),
        "weat-7": (score("weat", 1.3, 0.4, p_value=0.004), score("weat", -1.2, 0.6, p_value=0.03)),
    }
    record = audit(rows)
    assert sentences(record, "left") == ["After linear, no score is significantly different from no bias."]
    assert sentences(record, "change") == [
        "linear improves 1 of 2 bias scores significantly; 1 shows no significant change."
    ]
    assert "without significant bias there: weat-7 from 1.30 to -1.20" in evidence(record, "change")[0]
    card = {line.row.label: line.cells["linear"].state for line in score_card(record)}
    assert card == {"weat-6": "better", "weat-7": "unclear"}


def test_the_clearest_change_is_one_with_a_plain_reading() -> None:
    rows = {
        "midb": (score("midb", -0.057, 0.001), score("midb", -0.041, 0.001)),
        "weat-6": (score("weat", 1.5, 0.3, p_value=0.001), score("weat", 0.2, 0.3, p_value=0.5)),
    }
    (finding,) = [found for found in findings(audit(rows)) if found.kind == "change"]
    assert finding.text.startswith("linear improves 2 of 2 bias scores")
    assert finding.label == "weat-6"


MIXED = {
    "weat-6": (score("weat", 1.5, 0.2, p_value=0.001),),
    "nli-gap": (score("nli-gap", -0.5, 0.01, p_value=0.001),),
    "pronoun-share": (score("pronoun-share", 0.6, 0.1, p_value=0.001),),
}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("vectors", ["weat", "nli-gap", "pronoun-share"]), ("lm", ["nli-gap", "pronoun-share", "weat"])],
)
def test_what_the_subject_itself_does_comes_first(kind: str, expected: list[str]) -> None:
    record = audit(MIXED, (ORIGINAL,), kind)
    assert [found.label.partition(":")[0].removesuffix("-6") for found in findings(record)] == expected
    families = [group[0].question.measure for group in by_family(record).values()]
    assert families == expected
    prefixed = next(found.text for found in findings(record) if found.label == "nli-gap")
    assert prefixed == ("In NLI models trained on these vectors, a reading." if kind == "vectors" else "A reading.")


def classifier(gap_p: float | None = None) -> Audit:
    """Return an audit of a text classifier whose decisions depend on the group."""
    worst = {"word": "The boy left.", "counterpart": "The girl left.", "value": 0.56, "probabilities": [0.69, 0.13]}
    cells = {
        "flip-rate": score("counterfactual", 0.05, 0.02, reading="the label changes in 5.0 % of the pairs"),
        "change": score("counterfactual", 0.047, 0.02, reading="P(toxic) differs by 0.56 at most", items=(worst,)),
        "gap": score("counterfactual", -0.033, 0.02, reading="P(toxic) is lower for female", p_value=gap_p),
    }
    results = tuple(
        Result("c", ORIGINAL, Question("counterfactual", "person-sentences"), replace(cell, score=name))
        for name, cell in cells.items()
    )
    manifest = {
        "concept": {"name": "gender"},
        "subjects": [{"name": "c", "kind": "encoder", "model": "text-classifier"}],
        "arguments": {"effective": {"seed": 0}},
    }
    return Audit(manifest, (Stage(ORIGINAL, "c"),), results)


def test_decisions_that_depend_on_the_group_are_found_without_a_test() -> None:
    facts, gap = findings(classifier())
    assert facts.text == (
        "The label changes in 5.0 % of the pairs. P(toxic) differs by 0.56 at most. "
        "The largest difference: “The boy left.” 0.69, “The girl left.” 0.13."
    )
    for number in ("flip-rate 0.050 [0.030, 0.070]", "change 0.047"):
        assert number in facts.evidence
    assert gap.text == "P(toxic) is lower for female."  # its interval leaves 0 out: p < .05, and no more is known
    assert "gap -0.033 [-0.053, -0.013], p < .05" in gap.evidence
    assert headline(classifier()).startswith(
        "c (text classifier) shows gender bias: the label changes in 5.0 % of the pairs"
    )


def test_the_direction_of_decisions_is_a_finding_of_its_own_where_it_is_tested() -> None:
    facts, gap = findings(classifier(gap_p=0.01))
    assert "lower for female" not in facts.text
    assert (gap.text, gap.p_value) == ("P(toxic) is lower for female.", 0.01)
    facts, other = findings(classifier(gap_p=0.5))
    assert other.text.startswith("No other score is significantly different from no bias.")


def test_the_headline_says_what_how_strong_how_sure_what_methods_did_and_the_cost() -> None:
    rows = {
        "weat-6": (score("weat", 1.5, 0.2, p_value=0.001), score("weat", 0.2, 0.2, p_value=0.3)),
        "recoverability": (score("recoverability", 1.0, 0.0), score("recoverability", 0.8, 0.01)),
        "men": (score("similarity", 0.7, 0.05), score("similarity", 0.5, 0.05)),
    }
    assert headline(audit(rows)) == (
        "v (word vectors) shows gender bias: male names nearer to Career (large effect, d = 1.50 [1.30, 1.70]; p = "
        ".001); linear improves 1 of 1 score, significant bias is left after linear and quality falls after linear."
    )
    nothing = {"weat-6": (score("weat", 0.1, 0.5, p_value=0.6), score("weat", 0.1, 0.5, p_value=0.6))}
    assert headline(audit(nothing)) == (
        "No significant gender bias was found in v (word vectors) (0 of 1 test significant); linear improves none of 1 "
        "score, no significant bias is left and the cost was not measured."
    )
    assert headline(audit({"ripa": (score("ripa", 0.7),)}, (ORIGINAL,))) == (
        "v (word vectors) has no score of gender bias that can be tested."
    )


def test_crossing_zero_is_no_improvement_unless_the_distance_falls_surely() -> None:
    """From 1.2 to -0.8 the value changes for sure, and its distance from 0 does not."""
    crossed = audit({"weat-6": (score("weat", 1.2, 0.4, p_value=0.001), score("weat", -0.8, 0.9, p_value=0.1))})
    assert sentences(crossed, "change") == ["linear changes none of 1 bias score significantly."]
    nearer = audit({"weat-6": (score("weat", 1.2, 0.1, p_value=0.001), score("weat", -0.1, 0.2, p_value=0.6))})
    assert "improves 1 of 1" in sentences(nearer, "change")[0]


def test_scores_that_fall_by_construction_are_no_improvement() -> None:
    rows = {
        "weat-6": (score("weat", 1.5, 0.2, p_value=0.001), score("weat", 0.2, 0.2, p_value=0.3)),
        "recoverability": (score("recoverability", 1.0, 0.0), score("recoverability", 0.8, 0.01)),
    }
    assert sentences(audit(rows), "change")[0].startswith("linear improves 1 of 1 bias score significantly.")
    card = {line.row.label: line for line in score_card(audit(rows))}
    assert [cell.state for cell in card["recoverability"].cells.values()] == ["value", "bias"]
    assert [cell.state for cell in card["weat-6"].cells.values()] == ["bias", "better"]


def test_moved_neighbours_are_no_loss_of_quality() -> None:
    rows = {
        "similarity:men": (score("similarity", 0.7, 0.05), score("similarity", 0.69, 0.05)),
        "retention": (score("retention", 1.0, 0.0), score("retention", 0.9, 0.01, reading="90 % stay")),
    }
    (cost,) = sentences(audit(rows), "cost")
    assert cost.startswith("No significant loss of quality")
    assert cost.endswith("After linear, 90 % stay.")


def test_a_control_that_changes_is_marked_as_such() -> None:
    rows = {
        "weat-6": (score("weat", 1.5, 0.2, p_value=0.001), score("weat", 0.2, 0.2, p_value=0.3)),
        "weat-1": (score("weat", 1.5, 0.1, p_value=1e-4), score("weat", 0.9, 0.1, p_value=1e-3)),
        "weat-2": (score("weat", 1.5, 0.1, p_value=1e-4), score("weat", 1.45, 0.1, p_value=1e-3)),
    }
    card = {line.row.label: line for line in score_card(audit(rows))}
    assert [line.is_control for line in card.values()] == [False, True, True]
    assert [card[label].cells["linear"].state for label in ("weat-1", "weat-2")] == ["changed", "unclear"]


def test_an_undefined_value_is_no_success() -> None:
    gone = score("weat", None, reason="she/he: both sides have the same vectors")
    record = audit({"weat-6": (score("weat", 1.5, 0.2, p_value=0.001), gone)})
    assert sentences(record, "change") == ["No bias score can be compared before and after linear."]
    assert sentences(record, "left") == []
    assert sentences(record, "unmeasured") == [
        "1 of 2 values could not be computed. Reason: she/he: both sides have the same vectors."
    ]
    assert evidence(record, "unmeasured") == ["weat-6 (linear)"]


def test_a_score_that_is_not_interpretable_is_neither_bias_nor_success() -> None:
    failed = score("nli-gap", 0.0, 0.01, details={"not_interpretable": "controls at 40 %"})
    record = audit({"nli-gap": (score("nli-gap", -0.5, 0.1), failed)})
    assert "improves" not in " ".join(sentences(record, "change"))
    assert sentences(record, "unmeasured") == ["1 of 2 values cannot be interpreted. Reason: controls at 40 %."]
    assert evidence(record, "unmeasured") == ["nli-gap (linear)"]


def test_words_chosen_by_their_bias_show_no_bias_of_the_original() -> None:
    """Clustering is 1 on the original by construction; after a method it says what is left."""
    record = audit({"clustering": (score("clustering", 1.0, 0.0), score("clustering", 0.8, 0.02))})
    assert sentences(record, "bias") == []
    assert sentences(record, "left") == ["After linear, bias is left: a reading."]
    assert evidence(record, "left")[0].endswith("1 of 1 test significant")


def test_a_measure_that_is_never_zero_is_not_tested_against_zero() -> None:
    record = audit({"ripa": (score("ripa", 0.7, 0.05),)}, (ORIGINAL,))
    assert findings(record) == []


def test_controls_about_something_else_are_not_bias_of_the_concept() -> None:
    record = audit({"weat-1": (score("weat", 1.5, 0.1, p_value=1e-4),)}, (ORIGINAL,))
    assert findings(record) == []


@pytest.mark.parametrize(
    ("after", "expected", "numbers"),
    [
        (
            0.5,
            "Quality falls significantly after linear: rho after linear.",
            "linear: similarity:men from 0.700 to 0.500 [0.450, 0.550]",
        ),
        (0.69, "No significant loss of quality; small sets can miss a small cost.", "similarity:men"),
    ],
)
def test_cost(after: float, expected: str, numbers: str) -> None:
    cells = (score("similarity", 0.7, 0.05), score("similarity", after, 0.05))
    assert sentences(audit({"men": cells}), "cost") == [expected]
    assert evidence(audit({"men": cells}), "cost") == [numbers]


def test_cost_that_was_not_measured_is_said() -> None:
    record = audit({"weat-6": (score("weat", 1.5, 0.2, p_value=0.001), score("weat", 0.2, 0.2, p_value=0.3))})
    assert sentences(record, "cost")[0].startswith("Cost not measured")


def test_many_methods_do_not_crowd_out_what_they_cost() -> None:
    stages = (ORIGINAL, *(f"method-{number}" for number in range(8)))
    weat = (score("weat", 1.5, 0.1, p_value=0.001), *(score("weat", 0.5, 0.1, p_value=0.01) for _ in stages[1:]))
    similar = (score("similarity", 0.7, 0.02), *(score("similarity", 0.4, 0.02) for _ in stages[1:]))
    gone = (score("sembias", None, reason="too few words"),) * len(stages)
    kinds = [f.kind for f in findings(audit({"weat-6": weat, "men": similar, "sembias": gone}, stages))]
    assert len(kinds) == 10
    assert {"bias", "change", "left", "cost", "unmeasured"} == set(kinds)


def test_methods_that_change_nothing_share_a_sentence() -> None:
    cells = [score("weat", 1.0, 0.5, p_value=0.01), *(score("weat", 0.9, 0.5, p_value=0.02) for _ in range(2))]
    record = audit({"weat-6": tuple(cells)}, (ORIGINAL, "soft", "random"))
    assert sentences(record, "change") == ["soft and random change none of 1 bias score significantly."]


def test_at_most_ten_sentences_and_all_kinds_in_order() -> None:
    measures = ("weat", "rnd", "nli-gap", "occupation-share")
    rows = {
        f"{name}-{number}": (score(name, 1.0, 0.1), score(name, 0.9, 0.1)) for name in measures for number in range(3)
    }
    record = audit(rows)
    kinds = [finding.kind for finding in findings(record)]
    assert len(kinds) <= 10
    assert kinds == sorted(kinds, key=("bias", "change", "left", "cost", "unmeasured").index)


def test_findings_are_part_of_the_record(tmp_path) -> None:
    record = audit({"weat-6": (score("weat", 1.5, 0.2, p_value=0.001),)}, (ORIGINAL,))
    written = record.to_dict()["findings"]
    assert [Finding(**each) for each in written] == findings(record)


def test_holm_and_the_normal_test_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]).tolist() == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]).tolist() == []
    assert two_sided_p(1.959963984540054) == pytest.approx(0.05)


def test_labels_break_after_colons_and_hyphens_only() -> None:
    assert fold_label("weat-6") == "weat-6"
    for label in ("neighbours:bolukbasi2016-professions", "analogy-generation:neutral-share"):
        folded = fold_label(label)
        assert all(len(line) <= 20 for line in folded.split("\n"))
        assert folded.replace("\n  ", "") == label


def many(stages: tuple[str, ...], count: int = 30) -> Audit:
    """Return an audit with many rows."""
    queries = [f"weat-{number}" for number in (6, 7, 8)] + [f"a-long-name-of-a-query-{n}" for n in range(count)]
    names = ("weat", "rnd", "nli-gap", "occupation-share")
    rows = {
        f"{query}-{name}": tuple(score(name, 1.0 + 0.01 * n, 0.1, p_value=0.0001) for n, _ in enumerate(stages))
        for query in queries
        for name in names
    }
    return audit(rows, stages)


@pytest.mark.parametrize("methods", [0, 8, *(pytest.param(number, marks=pytest.mark.slow) for number in (1, 2))])
def test_the_summary_fits_one_screen(methods: int, tmp_path) -> None:
    """60 lines of 80 columns, with the title and the place of the report."""
    record = many((ORIGINAL, *(f"method-{number}" for number in range(methods))))
    console = Console(width=80, file=StringIO(), color_system=None)
    for part in audit_summary(record):
        console.print(part)
    lines = console.file.getvalue().splitlines()
    assert len(lines) <= 54
    assert max(map(len, lines)) <= 80
    text = " ".join(" ".join(lines).split())
    assert headline(record) in text
    assert "Score card" in text
    assert "What was found" in text
    assert re.search(r"\d+ more rows; --tables shows every number\.$", text)
    assert len([line for line in lines if re.search("[●▲≈=]", line)]) >= 5


def beside(*subjects: str) -> Audit:
    """Return an audit of several subjects; the last has no row of sentences."""
    results = []
    for number, subject in enumerate(subjects):
        cells = {"weat-6": score("weat", 1.5 - number, 0.2, p_value=0.001), "men": score("similarity", 0.7, 0.1)}
        cells |= {"midb": score("midb", 0.1, 0.01), "clustering": score("clustering", 1.0, 0.0)}
        cells |= {"seat": score("seat", 1.0, 0.2, p_value=0.001)} if number < len(subjects) - 1 else {}
        results += [Result(subject, ORIGINAL, Question(m.measure, q), replace(m, query=q)) for q, m in cells.items()]
    manifest = {
        "concept": {"name": "gender"},
        "subjects": [{"name": subject, "kind": "vectors"} for subject in subjects],
        "arguments": {"effective": {"seed": 0}},
    }
    return Audit(manifest, tuple(Stage(ORIGINAL, subject) for subject in subjects), tuple(results))


def test_several_subjects_stand_side_by_side() -> None:
    record = beside("a", "b", "c")
    table = {line.row.label: line for line in side_by_side(record)}
    assert list(table) == ["weat-6", "seat", "similarity:men"]  # quality last; without what is 1 by construction
    assert [cell.measurement.value for cell in table["weat-6"].cells.values()] == [1.5, 0.5, -0.5]
    assert table["seat"].cells["c"] is None
    assert side_by_side(audit({"weat-6": (score("weat", 1.5),)}, (ORIGINAL,))) == []
    assert headline(record).startswith(
        "3 of 3 subjects show significant gender bias (a: 2 of 2 tests; b: 2 of 2 tests;"
    )


def test_every_reason_for_a_missing_value_is_kept() -> None:
    gone = [score("weat", None, reason=reason) for reason in ("no words.", "no spread", "no words.")]
    record = audit({f"weat-{n}": (cell, cell) for n, cell in zip((6, 7, 8), gone, strict=True)})
    assert unmeasured_reasons(record, "v") == {
        "not computed": {
            "no words": ["weat-6 (original, linear)", "weat-8 (original, linear)"],
            "no spread": ["weat-7 (original, linear)"],
        }
    }
    (text,) = sentences(record, "unmeasured")
    assert text == "6 of 6 values could not be computed. Main reason: no words."
