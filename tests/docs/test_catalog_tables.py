"""The models of the catalog before and after methods: changes, their noise, and the tables."""

import gzip
import io
import json
import math
import tarfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest


@pytest.fixture(scope="module")
def tables(load_script: Callable[[str], ModuleType]) -> ModuleType:
    return load_script("catalog_tables")


def measured(value: float | None, interval: list[float] | None = None, items: list[dict] | None = None) -> dict:
    about = {"measure": "crows-pairs", "score": "", "reason": "", "p_value": None, "n": 100, "details": {}}
    return {"value": value, "interval": interval, "items": items or [], "coverage": {"missing": []}, **about}


def pairs(wins: int, count: int = 100) -> dict:
    items = [{"pair": str(row), "more": float(row < wins), "less": 0.5} for row in range(count)]
    return measured(100 * wins / count, [0.0, 100.0], items)


def test_pairs_are_compared_one_by_one(tables: ModuleType) -> None:
    change = tables.compare("crows-pairs-gender", pairs(60), pairs(50))
    assert change.paired
    assert change.value == -10
    # Ten of 100 pairs turn: the standard error is 100 sqrt(.1 x .9 / 100) = 3.
    assert change.p == pytest.approx(math.erfc(10 / 3 / math.sqrt(2)), rel=0.3)
    low, high = change.interval
    assert low == pytest.approx(-16, abs=1.5)
    assert high == pytest.approx(-4.5, abs=1.5)


def test_the_same_items_are_no_change(tables: ModuleType) -> None:
    assert tables.compare("crows-pairs-gender", pairs(60), pairs(60)).p == 1.0


def test_effect_sizes_and_correlations_by_hand(tables: ModuleType) -> None:
    words = (("a", "X", 1.0), ("b", "X", 2.0), ("c", "Y", -1.0), ("d", "Y", -2.0))
    items = [{"word": word, "set": name, "value": value} for word, name, value in words]
    once = np.ones((1, 4))
    assert tables.effect_size(items, once)[0] == pytest.approx(3 / math.sqrt(2.5))
    shares = [{"word": str(n), "value": n, "share": 10 - 2 * n} for n in range(4)]
    assert tables.correlation(shares, once)[0] == pytest.approx(-1)
    signs = [{"value": value} for value in (-1, 0, 2, 3)]
    assert tables.positive(signs, once)[0] == 62.5
    assert tables.positive(signs, np.array([[2.0, 0, 1, 1]]))[0] == 50


def test_clusters_are_drawn_together(tables: ModuleType) -> None:
    items = [{"cluster": name} for name in "aabbcc"]
    weights = tables.resampled_weights(items)
    np.testing.assert_array_equal(weights[:, ::2], weights[:, 1::2])
    assert set(weights.sum(axis=1)) == {6.0}
    sets = tables.resampled_weights([{"set": name} for name in "xxy"])
    assert set(sets[:, 2]) == {1.0}


def test_without_items_the_intervals_count(tables: ModuleType) -> None:
    before, after = measured(1.0, [0.0, 2.0]), measured(4.0, [3.0, 5.0])
    change = tables.compare("honest:hurtful", before, after)
    error = math.hypot(2, 2) / (2 * 1.96)
    assert not change.paired
    assert change.p == pytest.approx(math.erfc(3 / error / math.sqrt(2)), rel=0.01)
    logarithmic = tables.compare("perplexity", measured(10.0, [5.0, 20.0]), measured(20.0, [10.0, 40.0]))
    assert logarithmic.value == pytest.approx(math.log(2))
    assert tables.compare("honest:hurtful", before, measured(None)) is None
    assert tables.compare("honest:hurtful", before, measured(3.0)) is None


def write_records(folder: Path, *, packed: bool) -> Path:
    stages = {"random": pairs(69), "original": pairs(70), "linear": pairs(40)}
    contents = {}
    for stage, one in stages.items():
        asked = {"crows-pairs-gender": one, "perplexity": measured(9.0, [8.0, 10.0])}
        answers = {label: {"family": "likelihood", "measurements": [found]} for label, found in asked.items()}
        contents[stage] = gzip.compress(json.dumps({"stage": stage, "answers": answers}).encode())
    if packed:
        with tarfile.open(folder / "m-stages.tar", "w") as archive:
            for stage, content in contents.items():
                entry = tarfile.TarInfo(f"m/{stage}.json.gz")
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
    else:
        (folder / "m").mkdir()
        for stage, content in contents.items():
            (folder / "m" / f"{stage}.json.gz").write_bytes(content)
    (folder / "m.json").write_text(json.dumps({"model": "m", "seed": 0, "stages": {}}))
    return folder / "m.json"


@pytest.mark.parametrize("packed", [True, False])
def test_significant_changes_are_bold_after_holm(tables: ModuleType, tmp_path: Path, packed: bool) -> None:
    found = tables.catalog_results([write_records(tmp_path, packed=packed)])
    assert found["m"]["causal"]
    assert found["m"]["tests"] == 4
    kept = {"catalog": found}
    line = next(text for text in tables.catalog_table(kept, "m").splitlines() if text.startswith("| crows"))
    assert line == "| crows-pairs-gender | fifty | 70 [0, 100] | **40** [0, 100] | 69 [0, 100] |"
    changes = tables.catalog_changes(kept, "m").splitlines()
    assert len(changes) == 3
    assert changes[2].startswith("| linear | crows-pairs-gender | 70 | 40 | -30 |")
    assert found["m"]["stages"]["linear"]["control"] == "random"
    assert changes[2].endswith(" 69 | < 1e-06 |")


def test_controls(tables: ModuleType) -> None:
    stages = dict.fromkeys(("random@layer:3", "fine-tuning", "linear"))
    assert tables.control_of("leace@layer:3", stages) == "random@layer:3"
    assert tables.control_of("cda-tuning", stages) == "fine-tuning"
    assert tables.control_of("linear", stages) == ""
    assert tables.control_of("self-debias", stages) == ""


def test_a_model_without_significant_changes_says_so(tables: ModuleType) -> None:
    row = {"value": 1.0, "change": 0.1, "change_p_holm": 0.6}
    stages = {name: {"control": "", "shown": {"a": row}} for name in ("original", "x")}
    kept = {"catalog": {"m": {"stages": stages}}}
    assert "No change is significant" in tables.catalog_changes(kept, "m")
