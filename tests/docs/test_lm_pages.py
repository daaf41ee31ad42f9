"""The tables of the language-model page are those that the kept results give."""

import json
import statistics
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from types import ModuleType

import pytest

from evenhand.reproduce.bordia2019 import PUBLISHED

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "reproductions"
KEPT = json.loads((PAGES / "bordia2019.json").read_text())
PAGE = (PAGES / "bordia2019.md").read_text()


@pytest.fixture(scope="module")
def lm_pages(load_script: Callable[[str], ModuleType]) -> ModuleType:
    return load_script("lm_pages")


def test_tables_come_from_the_kept_results(lm_pages: ModuleType) -> None:
    assert lm_pages.filled(PAGE, KEPT) == PAGE
    assert PAGE.count("<!-- table") == PAGE.count("<!-- end -->") >= 10


@pytest.mark.parametrize("corpus", PUBLISHED)
def test_at_least_four_strengths_and_every_published_one_are_shown(corpus: str, lm_pages: ModuleType) -> None:
    ours = list(lm_pages.groups(KEPT, corpus))
    assert len({group.strength for group in ours}) >= 4
    table = lm_pages.results(KEPT, corpus)
    assert table.count("published") == len(PUBLISHED[corpus])
    assert table.count("\n") == 1 + 1 + len(PUBLISHED[corpus]) + len(ours)
    assert len({line.count("|") for line in table.splitlines()}) == 1


def test_the_smaller_corpus_has_three_seeds_of_four_strengths_in_both_definitions(lm_pages: ModuleType) -> None:
    three = {(group.definition, group.strength) for group in lm_pages.groups(KEPT, "ptb") if len(group.runs) == 3}
    strengths = (0.01, 0.1, 1.0)
    assert three == {("none", 0.0), *((d, s) for d in ("printed", "released") for s in strengths)}


def test_another_experiment_adds_its_rows(lm_pages: ModuleType) -> None:
    more = deepcopy(KEPT)
    more["experiments"]["longer"] = KEPT["experiments"]["first"]
    again = [{**run, "experiment": "longer", "epochs": 99} for run in KEPT["runs"] if run["experiment"] == "first"]
    more["runs"] += [{**run, "definition": "released"} if run["strength"] else run for run in again]
    filled = lm_pages.filled(PAGE, more)
    assert filled.count("| as released | 99 |") > PAGE.count("| as released | 99 |") == 0
    assert filled.count("| as printed |") == PAGE.count("| as printed |")


def test_differences_are_taken_within_a_seed(lm_pages: ModuleType) -> None:
    base = {"experiment": "e", "corpus": "ptb", "epochs": 1}
    cell = {name: {"value": 1.0} for name in ("mu", "sigma", "beta")}
    runs = []
    for seed, level in ((1, 0.0), (2, 5.0)):
        for strength, shift in ((0.0, 0.0), (0.1, 0.25)):
            at = {name: {"value": part["value"] + level + shift} for name, part in cell.items()}
            named = {"definition": "printed" if strength else "none", "strength": strength, "seed": seed}
            runs.append({**base, **named, "fixed": at, "infinite": at})
    table = lm_pages.effects({"experiments": {"e": {}}, "runs": runs}, "ptb")
    assert table.splitlines()[-1] == (
        "| 0.1 | as printed | 1 | 2 | +0.25 ± 0.00 (-0.10) | +0.25 ± 0.00 (-0.09) | +0.25 ± 0.00 (-0.07) "
        "| +0.25 ± 0.00 (+0.07) | +0.25 ± 0.00 (+0.19) | +0.25 ± 0.00 (-0.14) |"
    )


def test_what_the_page_says_of_chance() -> None:
    runs = [run["fixed"] for run in KEPT["runs"] if run["corpus"] == "ptb"]
    found = statistics.correlation(
        [run["mu"]["value"] for run in runs], [run["second"]["baseline"]["mu"] for run in runs]
    )
    assert f"over the {len(runs)} PTB runs" in PAGE
    assert f"correlates at {found:.3f}".replace("0.", ".") in PAGE
    without = [run for run in KEPT["runs"] if not run["strength"]]
    assert all(run["fixed"]["beta"]["interval"][0] > 0 for run in without)


def test_what_the_page_says_of_female_words() -> None:
    by_seed: dict[int, list[int]] = {}
    for strength in (0.0, 0.1, 1.0):
        for run in KEPT["runs"]:
            same = run["experiment"] == "second" and run["corpus"] == "ptb" and run["strength"] == strength
            if same and run["definition"] in ("none", "released"):
                by_seed.setdefault(run["seed"], []).append(run["fixed"]["second"]["hits"]["female"])
    assert len(by_seed) == 3
    assert all(counts == sorted(counts, reverse=True) for counts in by_seed.values())
    told = ["990 words", "610", "360"]
    means = [statistics.fmean(column) for column in zip(*by_seed.values(), strict=True)]
    assert [float(part.split()[0]) for part in told] == [round(mean, -1) for mean in means]
    assert all(part in PAGE for part in told)


def test_the_term_as_printed_stays_where_the_clipped_step_leaves_it() -> None:
    strong = [run for run in KEPT["runs"] if run["definition"] == "printed" and run["strength"] >= 0.1]
    late = [run["history"]["regulariser"][-1] / run["strength"] for run in strong]
    assert len(late) >= 8
    assert all(12.5 <= energy <= 7.5**2 / 3 for energy in late)
