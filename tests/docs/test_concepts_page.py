"""The table of docs/reference/concepts.md says what the shipped concepts hold."""

from pathlib import Path

import pytest

import evenhand as eh
from evenhand import words
from evenhand.words import probes

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "concepts.md").read_text(encoding="utf-8")
ROWS = {line.split("|")[1].strip(" `"): line for line in PAGE.splitlines() if line.startswith("| `")}
TABLE = {
    line.split("|")[1].strip(" `"): line.split("|") for line in reversed(PAGE.splitlines()) if line.count("|") == 7
}


@pytest.mark.parametrize("name", words.ids("concept"))
def test_groups_pairs_queries_and_probes(name: str) -> None:
    concept = eh.concept(name)
    _, _, groups, pairs, _, queries, asked, _ = TABLE[name]
    assert all(group in groups for group in concept.groups)
    assert {len(group) for group in concept.groups.values()} <= {int(n) for n in groups.split() if n.isdigit()}
    assert int(pairs) == len(concept.pairs)
    shipped = [id for id in words.ids("query") if words.query(id).concept == name and id.startswith("weat")]
    assert sorted(queries.replace("`", "").split()) == sorted(shipped or ["generic"])
    own = [id for id in probes.ids() if probes.probe(id).concept == name]
    assert sorted(asked.replace("`", "").split()) == sorted(own or ["none"])
    assert name in ROWS
