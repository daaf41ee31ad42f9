"""The tables of the page on encoders are those that the kept results give."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "reproductions" / "encoders.md"
GENDER = "gender-occupation"


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
    about = {"body": {"name": "all-minilm-l6-v2"}}
    new = {"about": about, "runs": [{**run("none", 0, 0.5), "data": "all"}]}
    (tmp_path / "nli.json").write_text(json.dumps(new))
    kept = encoders_page.merged(results(), encoders_page.arguments(["--bert", str(tmp_path / "nli.json")]))
    assert set(kept["bert"]) == {"snli", "all"}
    assert encoders_page.filled(encoders_page.skeleton(kept), kept).count("| ours |") == 3


def elmo_run(trained: str, tested: str, seed: int, neutral: float) -> dict:
    probe = run("none", seed, neutral)["gender-occupation"]
    accuracy = {"accuracy": 0.7 + seed / 100}
    return {"trained": trained, "tested": tested, "seed": seed, "probes": {GENDER: probe}, "test": accuracy}


def test_elmo_stands_beside_the_paper(encoders_page: ModuleType) -> None:
    runs = [elmo_run("none", "none", seed, 0.4 + seed / 100) for seed in range(2)]
    runs += [elmo_run("he-she layers", "he-she layers", seed, 0.5 + seed / 50) for seed in range(2)]
    runs += [elmo_run("none", "he-she layers", seed, 0.4) for seed in range(2)]
    one = {"ratios": [0.9, 0.7, 0.6], "cosine": 0.07, "he_she_cosine": 0.76, "pairs": 9}
    training = {"members": [{"trained": "none", "seed": seed, "dev": 0.8} for seed in range(2)]}
    kept = {"elmo": {"rows": runs, "directions": {"stability": {"embeddings": one}}, "training": training}}
    scores = encoders_page.elmo_scores(kept, GENDER).splitlines()
    assert "| he-she layers | published | 0.423 | 0.419 | 0.363 | 0.079 | 1 |" in scores
    assert any(line.startswith("| he-she layers | ours | 0.510 ± 0.014 |") for line in scores)
    assert any(line.startswith("| he-she layers, at test only | ours | 0.400 ± 0.000 |") for line in scores)
    differences = encoders_page.elmo_differences(kept, GENDER).splitlines()
    (line,) = [line for line in differences if line.startswith("| he-she layers − none | NN |")]
    assert "| +0.105 | +0.041 to +0.169 |" in line  # .10 and .11: t = 12.706 at one degree of freedom
    assert line.endswith("| 2 | +0.006 |")  # published: .417 and .423
    (line,) = [line for line in differences if line.startswith("| he-she layers, at test only − none | NN |")]
    assert line.endswith("| 2 |  |")
    directions = encoders_page.elmo_directions(kept, "")
    assert "| gendered pairs, token vectors | ours | 0.90 | 0.70 | 0.60 | 0.07 |" in directions
    assert "| none | 0.200 ± 0.000 | 0.200 ± 0.000 | -0.100 ± 0.000 |" in encoders_page.elmo_gaps(kept, "")
    accuracy = encoders_page.elmo_accuracy(kept, "")
    assert "| none | 0.800 ± 0.000 | 0.890 | 0.705 ± 0.007 | 0.884 | 2 |" in accuracy


def test_groups_of_a_probe_are_compared_by_their_spread(encoders_page: ModuleType) -> None:
    groups = {name: {"entailment": value, "contradiction": 0.1} for name, value in (("thai", 0.2), ("greek", 0.6))}
    run_ = elmo_run("none", "none", 0, 0.4)
    run_["probes"] = {"nationality-polarity": {**run_["probes"][GENDER], "groups": groups}}
    lines = encoders_page.elmo_groups({"elmo": {"rows": [run_]}}, "nationality-polarity").splitlines()
    assert lines[-1] == "| none | 0.400 | 0.100 | 0.200 | thai 0.20 | greek 0.60 | 1 |"


@pytest.mark.skipif(not PAGE.exists(), reason="the results are not there yet")
def test_tables_come_from_the_kept_results(encoders_page: ModuleType) -> None:
    page = PAGE.read_text()
    assert encoders_page.filled(page, encoders_page.kept_results()) == page
