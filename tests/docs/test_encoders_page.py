"""The tables of the page on encoders are those that the kept results give."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
PAGE, KEPT = ROOT / "reproductions" / "encoders.md", ROOT / "reproductions" / "encoders.json"


@pytest.fixture(scope="module")
def encoders_page(load_script: Callable[[str], ModuleType]) -> ModuleType:
    return load_script("encoders_page")


def run(condition: str, seed: int, neutral: float) -> dict:
    scores = {"net_neutral": neutral, "fraction_neutral": neutral, "threshold": {"0.5": neutral, "0.7": 0.1}}
    groups = {group: {"entailment": 0.2, "contradiction": 0.1} for group in ("male", "female")}
    gap = {"entailment": -0.1, "contradiction": 0.0}
    controls = {"control-entailment": 0.9, "control-contradiction": 0.8}
    probe = {**scores, "groups": groups, "gap": gap, "controls": controls}
    trained = {"training": {"dev_accuracy": 0.8}} if "@" not in condition else {}
    return {"condition": condition, "seed": seed, "data": "snli", "test": 0.8, "hans": 0.5, "gender-occupation": probe,
            **trained}  # fmt: skip


def results() -> dict:
    runs = [run("none", seed, 0.40 + seed / 100) for seed in range(3)]
    runs += [run("he-she", seed, 0.50 + seed / 100 + seed / 1000) for seed in range(3)]
    return {"bert": {"snli": {"about": {}, "runs": runs}}}


def test_published_numbers_stand_beside_ours(encoders_page: ModuleType) -> None:
    lines = encoders_page.bert_scores(results(), "snli").splitlines()
    assert "| no projection | published | 0.421 | 0.397 | 0.374 | 0.209 | 1 |" in lines
    assert "| no projection | ours | 0.410 ± 0.010 | 0.410 ± 0.010 | 0.410 ± 0.010 | 0.100 ± 0.000 | 3 |" in lines


def test_differences_are_paired_by_seed(encoders_page: ModuleType) -> None:
    lines = encoders_page.bert_differences(results(), "snli").splitlines()
    (line,) = [line for line in lines if "| NN |" in line]
    # Differences .100, .101, .102: mean .101, standard error .001 / sqrt(3), t = 4.303 at two degrees of freedom.
    assert "+0.101 | +0.099 to +0.103 | 0.000" in line
    (gap,) = [line for line in lines if "gap of entailment" in line]
    assert "+0.000" in gap
    assert gap.split(" | ")[-3:-1] == ["1.000", "1.000"]


def test_holm_by_hand(encoders_page: ModuleType) -> None:
    assert encoders_page.holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])


def test_results_are_merged_by_what_they_were_trained_on(encoders_page: ModuleType, tmp_path: Path) -> None:
    new = {"about": {}, "runs": [{**run("none", 0, 0.5), "data": "all"}]}
    (tmp_path / "nli.json").write_text(json.dumps(new))
    kept = encoders_page.merged(results(), encoders_page.arguments(["--bert", str(tmp_path / "nli.json")]))
    assert set(kept["bert"]) == {"snli", "all"}
    assert encoders_page.filled(encoders_page.skeleton(kept), kept).count("| ours |") == 3


@pytest.mark.skipif(not KEPT.exists(), reason="the results are not there yet")
def test_tables_come_from_the_kept_results(encoders_page: ModuleType) -> None:
    page = PAGE.read_text()
    assert encoders_page.filled(page, json.loads(KEPT.read_text())) == page
