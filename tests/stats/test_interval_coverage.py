"""Every kind of interval covers its true value, and the page has the table of the recorded simulation."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
from interval_coverage import BEGIN, END, HIGH, KINDS, LOW, PAGE, RESULTS, coverage, simulate, table

TINY = {"mean": ("absolute values", "8"), "share": ("80 %", "20"), "divergence": ("P from Beta(2, 5)", "16")}


@pytest.mark.parametrize(("kind", "cell"), TINY.items(), ids=TINY)
def test_the_interval_covers(kind: str, cell: tuple[str, str]) -> None:
    (chosen,) = [one for one in KINDS[kind][1]() if one[:2] == cell]
    covered, none = coverage(chosen, samples=400, seed=1)  # standard error .011
    assert none == 0
    assert 0.915 <= covered <= 0.985


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_covers(kind: str) -> None:
    rows = simulate([kind], samples=300, seed=2)  # standard error .013
    outside = [row for row in rows if not row["fails"] and not 0.88 <= float(str(row["coverage"])) <= 0.997]
    assert outside == []


def test_the_page_has_the_recorded_table() -> None:
    record = json.loads(RESULTS.read_text(encoding="utf-8"))
    assert {row["kind"] for row in record["rows"]} == KINDS.keys()
    assert min(row["samples"] for row in record["rows"]) >= 1_000
    shown = PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0].strip()
    assert shown == table(record["rows"])
    inside = sum(LOW <= row["coverage"] <= HIGH for row in record["rows"])
    assert f"{inside} of {len(record['rows'])} rows" in PAGE.read_text(encoding="utf-8")


def test_what_covers_less_or_more_than_promised_is_said_to_fail() -> None:
    """Two standard errors of .007 on either side of 93 to 97 % are allowed for."""
    rows = json.loads(RESULTS.read_text(encoding="utf-8"))["rows"]
    outside = [row for row in rows if not row["fails"] and not LOW - 0.014 <= row["coverage"] <= HIGH + 0.014]
    assert outside == []
