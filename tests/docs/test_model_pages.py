"""The pages on chat models and steering: their tables are those of the records, and what they claim is in them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import model_pages  # noqa: E402
from chat_audits import rounded  # noqa: E402
from steering_experiment import methods  # noqa: E402


@pytest.mark.parametrize("page", ["steering.md", "chat.md"])
def test_the_tables_are_those_of_the_record(page: str) -> None:
    text = (ROOT / "reproductions" / page).read_text(encoding="utf-8")
    for name, table in model_pages.tables()[page].items():
        assert f"<!-- table {name} -->\n{table}\n<!-- end -->" in text


def test_what_the_page_on_steering_claims() -> None:
    kept = json.loads((ROOT / "reproductions" / "steering.json").read_text(encoding="utf-8"))
    turned = 0
    for row in kept.values():
        p_values = model_pages.corrected(row["stages"], list(model_pages.STEERING))
        assert all(p >= 0.05 for (_, label), p in p_values.items() if label.startswith("crows"))
        for stage, cells in row["stages"].items():
            strength = abs(int(stage.partition("strength=")[2].partition(")")[0])) if stage.startswith("steering(") and (
                "random" not in stage
            ) else 0  # fmt: skip
            turned += strength >= 4 and cells["pronoun-share:slope"]["value"] < 0
            if strength in (1, 2):
                assert cells["perplexity"]["change"]["size"] < 10
            if stage.startswith("directional-ablation@"):
                assert p_values[stage, "pronoun-share:slope"] < 0.05
    assert turned == 15


def test_weights_are_rounded_to_as_many_values_as_the_bits_give() -> None:
    weights = np.random.default_rng(0).normal(size=(2, 64)).astype(np.float32)
    for bits in (2, 3):
        blocks = rounded(weights, bits).reshape(-1, 32)
        assert all(len(np.unique(block)) <= 2**bits for block in blocks)
        assert np.abs(blocks - weights.reshape(-1, 32)).max() <= np.ptp(weights.reshape(-1, 32), axis=1).max() / (
            2 * (2**bits - 1)
        ) * (1 + 1e-5)
    assert np.abs(rounded(weights, 12) - weights).max() < 1e-3


def test_every_strength_has_controls_of_several_seeds() -> None:
    found = methods(("layer:1",), (-2, 2), 2)
    assert model_pages.controls("steering(strength=-2)@layer:1", found) == [
        f"steering(strength=2;direction=random;seed={seed})@layer:1" for seed in (0, 1)
    ]
    assert len(model_pages.controls("directional-ablation@layer:1", found)) == 2
