"""Simulated audits of chat models: the committed numbers are those of the page, and a gap is found where there is one."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from chat_nulls import one_audit, tables  # noqa: E402


def test_the_page_has_the_numbers_of_the_record() -> None:
    record = json.loads((ROOT / "reproductions" / "chat-nulls.json").read_text())
    page = (ROOT / "reproductions" / "null-audits.md").read_text()
    assert f"<!-- table chat -->\n{tables(record['kinds'])}\n<!-- end -->" in page


def test_both_nulls_claim_bias_in_at_most_five_per_cent() -> None:
    kinds = json.loads((ROOT / "reproductions" / "chat-nulls.json").read_text())["kinds"]
    for kind in ("ignores", "names"):
        assert kinds[kind]["audits"] >= 500
        assert kinds[kind]["share"] <= 0.05
    assert kinds["gap"]["share"] > 0.9


@pytest.mark.parametrize("concept", ["gender", "race"])
def test_a_gap_is_found_and_a_model_that_ignores_the_person_is_not_blamed(concept: str) -> None:
    assert one_audit("gap", concept, 0)["claims"]
    assert not one_audit("ignores", concept, 1)["claims"]
