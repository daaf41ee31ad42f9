"""Comparisons of runs: what differs beyond the intervals. Every audit here is made by hand."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evenhand.audit import ORIGINAL, Audit, Question, Result, Stage
from evenhand.cli import app
from evenhand.errors import UsageError
from evenhand.measures import Measurement
from evenhand.models.vectors import Coverage
from evenhand.report.html import runs_page
from evenhand.report.markdown import runs_markdown
from evenhand.report.run_comparison import compare_runs, load_runs

Scores = dict[str, float | None]


def audit(scores: Scores, *, seed: int = 0, stages: tuple[str, ...] = (ORIGINAL,), concept: str = "gender") -> Audit:
    """Return an audit whose scores have intervals of 0.1 to either side; "similarity" is quality, the rest WEAT."""
    results = []
    for label, value in scores.items():
        measure = "similarity" if label == "men" else "weat"
        interval = None if value is None else (value - 0.1, value + 0.1)
        cell = Measurement(
            measure, value, 16, Coverage(()), query=label, interval=interval, positive="Male with Career"
        )
        if value is None:
            cell = replace(cell, status="undefined", reason="too few words")
        results += [Result("v", stage, Question(measure, label), cell) for stage in stages]
    manifest = {
        "run": "run",
        "concept": {"name": concept, "digest": concept},
        "subjects": [{"name": "v", "kind": "vectors", "offers": ["vectors"], "address": "v", "sha256": "abc"}],
        "arguments": {"effective": {"seed": seed}, "given": {}},
        "evenhand": "1.0",
        "created": "2026-01-01T10:00:00",
        "python": "3.11",
        "packages": {},
        "status": "done",
        "seconds": 1.0,
        "warnings": [],
        "skipped": {},
        "cells_computed": 0,
    }
    return Audit(manifest, tuple(Stage(stage, "v") for stage in stages), tuple(results))


def sentences(kind: str, **runs: Audit) -> list[str]:
    """Return each sentence with its numbers behind it."""
    found = [finding for finding in compare_runs(runs).findings() if finding.kind == kind]
    return [f"{finding.text} {finding.evidence}".rstrip() for finding in found]


def test_a_sure_difference_is_said_with_both_values() -> None:
    found = sentences("change", old=audit({"weat-6": 1.5, "weat-7": 0.5}), new=audit({"weat-6": 0.4, "weat-7": 0.52}))
    assert found == [
        "new against old, 2 bias scores: better in 1, no significant difference in 1. "
        "Better: weat-6 0.400 [0.300, 0.500], 1.50 in old"
    ]


def test_worse_and_reversed_are_told_apart() -> None:
    (found,) = sentences("change", a=audit({"weat-6": 0.5, "weat-7": 1.0}), b=audit({"weat-6": 1.5, "weat-7": -1.0}))
    assert "worse in 1, with the other sign in 1" in found
    assert "Worse: weat-6 1.50" in found
    assert "With the other sign: weat-7 -1.00" in found


def test_no_difference_is_no_proof_of_equality() -> None:
    assert sentences("change", a=audit({"weat-6": 1.0}), b=audit({"weat-6": 1.05})) == [
        "b and a do not differ significantly in 1 bias score. They may still differ."
    ]
    assert sentences("change", a=audit({"weat-6": 1.0}), b=audit({"weat-6": 1.0})) == [
        "b and a have the same values in 1 bias score."
    ]


def test_differences_are_corrected_over_rows_and_runs() -> None:
    """A difference of 0.16 has p = .027 alone, which is none among many."""
    alone = sentences("change", a=audit({"weat-6": 1.0}), b=audit({"weat-6": 0.84}))
    assert "better in 1" in alone[0]
    many = {f"mine-{number}": 1.0 for number in range(6)}
    among = sentences("change", a=audit({"weat-6": 1.0, **many}), b=audit({"weat-6": 0.84, **many}))
    assert "do not differ" in among[0]


def test_quality_stands_apart() -> None:
    runs = {"a": audit({"weat-6": 1.0, "men": 0.7}), "b": audit({"weat-6": 1.0, "men": 0.3})}
    (found,) = sentences("cost", **runs)
    assert found.startswith("b against a, 1 quality score: worse in 1. Worse: similarity:men 0.300 [0.200, 0.400]")


def test_an_undefined_value_is_no_difference() -> None:
    assert sentences("change", a=audit({"weat-6": 1.0}), b=audit({"weat-6": None})) == []


def test_what_keeps_runs_from_comparing_is_said_first() -> None:
    runs = {"a": audit({"weat-6": 1.0, "weat-7": 1.0}), "b": audit({"weat-6": 1.0}, seed=3, concept="race")}
    found = compare_runs(runs).findings()
    assert [finding.text for finding in found[:3]] == [
        "The runs have different concepts: a gender, b race.",
        "The runs have different seeds: a 0, b 3.",
        "1 row is not in all runs and not compared: weat-7.",
    ]


def test_stages_that_runs_share_become_sections() -> None:
    both = (ORIGINAL, "linear")
    runs = {"a": audit({"weat-6": 1.0}, stages=both), "b": audit({"weat-6": 1.0}, stages=(*both, "span"))}
    comparison = compare_runs(runs)
    assert comparison.record.subjects == ("v", "v after linear")
    assert comparison.record.stage_names == ("a", "b")


def test_three_runs_are_compared_with_the_first() -> None:
    found = sentences("change", a=audit({"weat-6": 1.5}), b=audit({"weat-6": 0.5}), c=audit({"weat-6": 1.5}))
    assert found[0].startswith("b against a")
    assert found[1].startswith("c and a have the same values")


@pytest.mark.parametrize("runs", [{"a": {"weat-6": 1.0}}, {"a": {"weat-6": 1.0}, "b": {"weat-7": 1.0}}])
def test_nothing_in_common_is_refused(runs: dict[str, Scores]) -> None:
    with pytest.raises(UsageError, match=r"two runs|no row in common"):
        compare_runs({name: audit(scores) for name, scores in runs.items()})


def test_the_page_and_the_markdown_have_the_findings_first() -> None:
    runs = {"old <b>": audit({"weat-6": 1.5, "men": 0.7}), "new": audit({"weat-6": 0.4, "men": 0.7})}
    comparison = compare_runs(runs)
    text = runs_page(comparison)
    assert "old &lt;b&gt;" in text
    assert "<b>, new" not in text
    order = [text.index(part) for part in ('id="findings"', "Score card", "Bias side by side", "All numbers")]
    assert order == sorted(order)
    levels = [int(level) for level in re.findall(r"<h([1-6])", text)]
    assert all(after - before <= 1 for before, after in pairwise(levels))
    ids = re.findall(r' id="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]+)"', text)) <= set(ids)
    assert not re.findall(r'(?:src|href)="(?!#)', text)
    lines = runs_markdown(comparison).splitlines()
    assert lines.index("## Findings") < lines.index("## Runs") < lines.index("## Score card")
    assert any(line.startswith("- new against old") for line in lines)


def test_the_commands_write_the_reports(tmp_path: Path) -> None:
    for name, value in (("a", 1.5), ("b", 0.4), ("c", 1.4)):
        audit({"weat-6": value}).save(tmp_path / name)
    paths = [str(tmp_path / name) for name in "abc"]
    done = CliRunner().invoke(app, ["compare", *paths, "-o", str(tmp_path / "out"), "--json"])
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    assert answer["findings"][0]["text"].startswith("b against a")
    assert [row["run"] for row in answer["rows"]] == paths[1:]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["comparison.html", "comparison.md"]
    target = tmp_path / "two.md"
    done = CliRunner().invoke(app, ["report", *paths[:2], "-f", "markdown", "-o", str(target)])
    assert done.exit_code == 0
    assert target.read_text(encoding="utf-8").startswith("# Comparison of a, b")
    for wrong in (["report", *paths, "-f", "model-card"], ["report", *paths, "--figure", "x"], ["compare", paths[0]]):
        assert CliRunner().invoke(app, wrong).exit_code == 2


def test_runs_of_the_same_name_keep_their_paths(tmp_path: Path) -> None:
    for folder in ("x", "y"):
        audit({"weat-6": 1.0}).save(tmp_path / folder / "run")
    assert list(load_runs([tmp_path / "x" / "run", tmp_path / "y" / "run"])) == [
        str(tmp_path / "x" / "run"), str(tmp_path / "y" / "run")
    ]  # fmt: skip
    with pytest.raises(UsageError, match="named twice"):
        load_runs([tmp_path / "x" / "run", tmp_path / "x" / "run"])
