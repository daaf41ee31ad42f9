"""Simulated audits of tables and judged texts: the committed numbers are those of the page, and below 5 %."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from outcome_nulls import RESULTS, coverage, coverage_given_labels, false_findings, tables, true_values  # noqa: E402


def test_the_page_has_the_numbers_of_the_record() -> None:
    record = json.loads(RESULTS.read_text(encoding="utf-8"))
    page = (ROOT / "reproductions" / "null-audits.md").read_text(encoding="utf-8")
    assert f"<!-- table outcomes -->\n{tables(record)}\n<!-- end -->" in page
    for entry in (*record["tables"].values(), *record["judged"].values()):
        assert entry["audits"] >= 500
        assert entry["found"] <= 0.05 * entry["audits"]
    assert all(min(entry["difference"], entry["ratio"]) >= 0.95 for entry in record["coverage"])


def test_a_few_simulations_run() -> None:
    assert false_findings(3, 100, (0.5, 0.5))["found"] <= 3
    assert coverage(3, 100, (0.2, 0.6), (0.5, 0.5))["difference"] > 0
    found = coverage_given_labels(3, 200, "2 groups")
    assert set(found["covered"]) == set(found["true"])
    assert min(found["defined"].values()) == 3


def test_true_values_by_hand() -> None:
    found = true_values(np.array([0.5, 0.5]), np.array([0.8, 0.4]), np.array([0.2, 0.2]))
    assert found["equal-opportunity-difference"] == pytest.approx(0.4)
    assert found["equalised-odds-ratio"] == pytest.approx(0.5)
    assert found["predictive-parity-difference"] == pytest.approx(0.8 - 2 / 3)
    assert found["worst-group-accuracy"] == pytest.approx(0.6)
