"""Scores whose controls fail: `check` does not pass them, and every table marks them."""

import io
import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

import evenhand as eh
from evenhand.audit import Audit, check, compare
from evenhand.cli import app
from evenhand.models.nli import CallableModel
from evenhand.report.html import page
from evenhand.report.tables import html_table
from evenhand.report.terminal import audit_group, comparison_table

ROW = "nli-neutrality"


def guess(premises: Sequence[str], hypotheses: Sequence[str]) -> list[list[float]]:
    """Answer at random, the same way for the same sentence pair."""
    return [
        np.random.default_rng(zlib.crc32(f"{premise}|{hypothesis}".encode())).dirichlet([1, 1, 1]).tolist()
        for premise, hypothesis in zip(premises, hypotheses, strict=True)
    ]


@pytest.fixture(scope="module")
def audit() -> Audit:
    model = CallableModel(guess, ("entailment", "neutral", "contradiction"), name="random")
    return eh.Audit.run(eh.open(model, digest="random"), methods=[], measures=[ROW], queries=["mab-explicit"])


@pytest.fixture(scope="module")
def readable(audit: Audit) -> Audit:
    """The same numbers without the mark, as if the controls had passed."""
    results = tuple(replace(r, measurement=replace(r.measurement, details={}, note="")) for r in audit.results)
    return replace(audit, results=results)


def test_the_controls_of_a_random_classifier_are_at_chance(audit: Audit) -> None:
    measurement = audit.get(audit.labels[0])
    assert all(accuracy < 0.6 for accuracy in measurement.details["controls"].values())
    assert "not interpretable: accuracy on control" in measurement.not_interpretable
    assert "not interpretable" in repr(measurement)


@pytest.mark.parametrize("kind", ["maximum", "minimum"])
def test_no_limit_holds_on_a_score_whose_controls_fail(audit: Audit, readable: Audit, kind: str) -> None:
    limit = f"{audit.labels[0]}={1 if kind == 'maximum' else 0}"
    assert all(made.holds for made in check(readable, **{kind: [limit]}))
    marked = check(audit, **{kind: [limit]})
    assert not any(made.holds for made in marked)
    assert all(made.reason.startswith("not interpretable: accuracy") for made in marked)


def test_a_row_that_lost_its_controls_fails_against_the_baseline(audit: Audit, readable: Audit) -> None:
    assert not any(made.holds for made in check(audit, baseline=readable))
    assert all(made.holds for made in check(audit, baseline=audit))
    assert all(made.holds for made in check(readable, baseline=audit))


def test_a_change_of_a_score_whose_controls_fail_is_not_judged(audit: Audit) -> None:
    lower = replace(
        audit,
        results=tuple(
            replace(r, measurement=replace(r.measurement, value=0.0, interval=(0.0, 0.0))) for r in audit.results
        ),
    )
    assert {change.verdict for change in compare(audit, lower)} == {"not interpretable"}


def test_the_command_exits_with_3(audit: Audit, tmp_path: Path) -> None:
    audit.save(tmp_path)
    result = CliRunner().invoke(app, ["check", str(tmp_path), "--min", f"{audit.labels[0]}=0"])
    assert result.exit_code == 3
    assert "FAIL" in result.stdout
    assert "not interpretable: accuracy on control" in " ".join(result.stdout.split())


def test_every_table_marks_the_score(audit: Audit, readable: Audit) -> None:
    def printed(*renderables: object) -> str:
        console = Console(width=80, file=io.StringIO())
        console.print(*renderables)
        return " ".join(console.file.getvalue().split())  # type: ignore[attr-defined]

    tables = (
        lambda a: printed(audit_group(a)),
        lambda a: printed(*comparison_table(compare(a, a), "before", "after")),
        page,
        html_table,
    )
    for table in tables:
        assert "not interpretable" in table(audit)
        assert "not interpretable" not in table(readable)
