"""The page about table 2 holds the tables that its record gives, with the published values of the package."""

from __future__ import annotations

import json
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from evenhand.reproduce.genderedness import MEANS, PUBLISHED

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "reproductions/ethayarajh2019.md"
KEPT: dict[str, Any] = json.loads(PAGE.with_suffix(".json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def script() -> Any:
    pytest.importorskip("gensim")
    spec = spec_from_file_location("genderedness_page", ROOT / "scripts/genderedness_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("corpus", ["enwik8", "wikitext-2"])
def test_the_page_holds_the_recorded_tables(corpus: str, script: Any) -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert script._table(KEPT[corpus]["table"]) in text
    assert script._choices(KEPT[corpus]["sensitivity"]) in text


@pytest.mark.parametrize("corpus", ["enwik8", "wikitext-2"])
def test_the_record_is_of_the_catalogued_text_and_has_the_published_values(corpus: str) -> None:
    from evenhand.data import get

    found = KEPT[corpus]
    assert found["manifest"]["data"]["sha256"] in {file.sha256 for file in get(corpus).files}
    rows = {(row["group"], row["word"]): row for row in found["table"]["rows"]}
    for group, words in PUBLISHED.items():
        for word, (text, vectors, change) in words.items():
            row = rows[group, word]
            assert (row["corpus (paper)"], row["vectors (paper)"], row["change (paper)"]) == (text, vectors, change)
    for group in MEANS:
        values = found["values"]["groups"][group]
        both = values["words"].values()
        assert values["corpus"] == pytest.approx(sum(abs(text) for text, _, _ in both) / values["n"])
        assert values["change"] == pytest.approx(values["embedding"] - values["corpus"])
