"""More than two groups: tables of comparisons by hand, their correction, and the order of groups."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

import evenhand as eh
from evenhand import measures
from evenhand.errors import UsageError
from evenhand.measures.groups import REST, GroupTable, needs_table
from evenhand.stats import holm
from evenhand.words import Concept, Query

GROUPS = {name: [f"{name}{n}" for n in range(4)] for name in ("a", "b", "c")}
ATTRIBUTES = {"good": ["good1", "good2"], "bad": ["bad1", "bad2"]}


@pytest.fixture(scope="module")
def vectors() -> eh.Vectors:
    rng = np.random.default_rng(0)
    words = [word for group in (*GROUPS.values(), *ATTRIBUTES.values()) for word in group]
    matrix = rng.normal(size=(len(words) + 40, 6)).astype(np.float32)
    matrix[:4, 0] += 2.0  # group a is near the good words
    matrix[12:14, 0] += 3.0
    matrix[14:16, 0] -= 3.0
    return eh.Vectors([*words, *(f"word{n}" for n in range(40))], matrix)


def query(order: tuple[str, ...] = ("a", "b", "c")) -> Query:
    return Query("own", {name: GROUPS[name] for name in order}, ATTRIBUTES)


def test_every_two_groups_with_holm(vectors):
    table = measures.pairwise(vectors, "weat", query())
    assert [(row.first, row.second) for row in table.rows] == [("a", "b"), ("a", "c"), ("b", "c")]
    single = [
        measures.weat(vectors, Query("own", {x: GROUPS[x], y: GROUPS[y]}, ATTRIBUTES))
        for x, y in itertools.combinations("abc", 2)
    ]
    assert [row.measurement.value for row in table.rows] == [m.value for m in single]
    assert [row.p_adjusted for row in table.rows] == holm([m.p_value for m in single]).tolist()


def test_each_group_against_the_rest(vectors):
    table = measures.one_against_rest(vectors, "weat", query())
    direct = measures.weat(vectors, Query("own", {"b": GROUPS["b"], "o": [*GROUPS["a"], *GROUPS["c"]]}, ATTRIBUTES))
    assert table.get("b").measurement.value == pytest.approx(direct.value)
    assert {row.second for row in table.rows} == {REST}


def test_the_summary_is_the_comparison_furthest_from_the_ideal(vectors):
    table = measures.pairwise(vectors, "weat", query())
    (m,) = table.measurements()
    values = [abs(row.measurement.value) for row in table.rows]
    assert m.value == pytest.approx(max(values))
    assert m.p_value == min(row.p_adjusted for row in table.rows)
    assert m.score == "pairwise"
    assert [item["word"] for item in m.items] == ["a – b", "a – c", "b – c"]
    assert len(table.to_frame()) == 3
    assert "of 3 comparisons, a – " in m.reading


BINARY = ["weat", "rnd", "ect", "bat"]
ANY_NUMBER = ["mac", "rnsb"]
OPTIONS = {"rnsb": {"splits": 1}}


@pytest.mark.parametrize("order", list(itertools.permutations("abc")))
@pytest.mark.parametrize("name", BINARY)
def test_permuted_groups_permute_the_tables(vectors, name, order):
    for compare in (measures.pairwise, measures.one_against_rest):
        plain, turned = compare(vectors, name, query()), compare(vectors, name, query(order))
        for row in plain.rows:
            other = turned.get(row.first, row.second)
            assert (other.first, other.second) == (row.first, row.second)
            assert other.measurement.value == pytest.approx(row.measurement.value, abs=1e-9)
            assert other.p_adjusted == pytest.approx(row.p_adjusted)
        assert turned.measurements()[0].value == pytest.approx(plain.measurements()[0].value, abs=1e-9)


@pytest.mark.parametrize("name", ANY_NUMBER)
def test_measures_of_many_groups_do_not_depend_on_their_order(vectors, name):
    attributes = {"good": [f"word{n}" for n in range(10)], "bad": [f"word{n}" for n in range(10, 20)]}
    values = [
        measures.get(name)(
            vectors, Query("q", {x: GROUPS[x] for x in order}, attributes), **OPTIONS.get(name, {})
        ).value
        for order in ("abc", "cab", "bca", "cba")
    ]
    assert values == pytest.approx([values[0]] * 4)


def test_generalised_weat_and_same_do_not_depend_on_the_order(vectors):
    attributes = {x: [f"word{n}" for n in range(5 * i, 5 * i + 5)] for i, x in enumerate("abc")}
    weats, sames = [], []
    for order in itertools.permutations("abc"):
        asked = Query("q", {x: GROUPS[x] for x in order}, {x: attributes[x] for x in order})
        weats.append(measures.generalised_weat(vectors, asked, samples=10))
        concept = Concept("own", {x: GROUPS[x] for x in order})
        sames.append(measures.same(vectors, [f"word{n}" for n in range(40)], concept=concept))
    assert [m.value for m in weats] == pytest.approx([weats[0].value] * 6)
    assert all(m.details["by_set"] == pytest.approx(weats[0].details["by_set"]) for m in weats)
    assert [m.value for m in sames] == pytest.approx([sames[0].value] * 6)


def test_multi_class_subspaces_do_not_depend_on_the_order_of_groups(vectors):
    from evenhand import mitigations, subspaces

    maps, spans = [], []
    for order in itertools.permutations("abc"):
        sets = zip(*(GROUPS[x] for x in order), strict=True)
        pairs = [pair for words in sets for pair in itertools.combinations(words, 2)]
        concept = Concept("own", {x: GROUPS[x] for x in order}, pairs)
        basis = subspaces.learn(vectors, concept, "pairs", k=2).basis
        spans.append(basis.T @ basis)
        changed = mitigations.get("hard")(equalise=False).fit(vectors, concept)(vectors)
        maps.append(changed.matrix)
    assert all(np.allclose(span, spans[0], atol=1e-6) for span in spans)
    assert all(np.allclose(matrix, maps[0], atol=1e-5) for matrix in maps)


def test_measures_of_words_compare_two_groups_of_a_concept(vectors):
    pairs = list(zip(GROUPS["a"], GROUPS["b"], strict=True))
    concept = Concept("own", GROUPS, pairs)
    table = measures.pairwise(vectors, "ripa", [f"word{n}" for n in range(40)], concept=concept)
    assert table.get("a", "b").measurement.value > 0
    assert table.get("a", "c").measurement.status == "undefined"  # no pairs between them
    with pytest.raises(UsageError, match="neither target sets nor a concept"):
        measures.pairwise(vectors, "similarity", "rg-65")


def test_a_measure_of_two_groups_says_so(vectors):
    assert measures.info("weat").groups.startswith("two")
    assert measures.info("clustering").groups.startswith("the positive group against all others")
    assert measures.info("mac").groups == "any number"
    with pytest.raises(UsageError, match="needs 2 target sets") as refused:
        measures.weat(vectors, query())
    assert "pairwise" in refused.value.hint
    assert needs_table(measures.info("weat"), query())
    assert not needs_table(measures.info("mac"), query())


def test_an_audit_of_three_groups_has_the_tables(vectors, tmp_path):
    concept = Concept("own", GROUPS, queries=[query()])
    audit = eh.Audit.run(vectors, methods=[], measures=["weat", "rnd"], concept=concept)
    assert audit.get("weat:own:pairwise").value == measures.pairwise(vectors, "weat", query()).measurements()[0].value
    assert audit.get("rnd:one-against-rest").status == "ok"
    audit.save(tmp_path)
    assert eh.Audit.load(tmp_path).get("weat:own:pairwise").items[0]["p_holm"] > 0


def test_a_restricted_concept_keeps_the_pairs_between_its_groups():
    concept = eh.concept("religion").restricted("islam", ["judaism"])
    assert list(concept.groups) == ["islam", "judaism"]
    assert concept.pairs.pairs[:2] == (("islam", "judaism"), ("muslim", "jew"))
    rest = eh.concept("religion").restricted("islam", ["judaism", "christianity"], "others")
    assert len(rest.groups["others"]) == 10
    with pytest.raises(UsageError, match="needs other groups"):
        concept.restricted("islam", ["islam"])


def test_a_comparison_at_five_per_cent_is_significant_and_one_without_a_test_is_not(vectors):
    (row, *_) = measures.pairwise(vectors, "weat", query()).rows
    ps = (0.05, 0.051, None, 0.001)
    table = GroupTable("weat", "pairwise", ("a", "b", "c"), tuple(replace(row, p_adjusted=p) for p in ps), "own")
    assert [one.p_adjusted for one in table.significant] == [0.05, 0.001]
    assert "2 of 4 differ (Holm, 5%)" in repr(table)
