"""Probes: counts of the papers, surface forms, the index space, user files, bad input."""

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.errors import FormatError, UnknownNameError, UsageError
from evenhand.words import probes
from evenhand.words.probes import RELEASED, Filler, Probe, Surface, probe, stratified
from evenhand.words.template import Template

COUNTS = {
    "gender-occupation": 164 * 6 * 1968,
    "gender-occupation+162": 162 * 6 * 1968,
    "nationality-polarity": 25 * 32 * 1968,
    "nationality-polarity+cross+printed": 26 * 27 * 95 * 32,
    "religion-polarity": 25 * 17 * 1968,
    "religion-polarity+cross+printed": 26 * 27 * 95 * 17,
    "mab-explicit": 15_744,
    "mab-names": 125_952,
    "mab-occupations": 62_976,
    "control-entailment": 170 * 1968,
    "control-contradiction": 170 * 1968,
}
PUBLISHED = {
    "gender-occupation": 1_936_512,
    "nationality-polarity+cross+printed": 2_134_080,
    "religion-polarity+cross+printed": 1_133_730,
}
TOML = """
[wordset.pets]
words = ["cat", "owl"]

[template.mine]
text = "A/An {subject} fed the {pet}."
fillers = { pet = ["@pets"] }

[probe.my-probe]
templates = ["@mine", "Yesterday the {subject} slept."]
differs = "subject"
expected = "neutral"
premise = ["nurse", "engineer"]
hypothesis = [
  { group = "f", words = ["woman"] },
  { group = "m", words = ["man", "uncle"] },
  { words = ["Kim"], bare = true },
]
"""


@pytest.mark.parametrize("name", COUNTS)
def test_counts(name):
    assert probe(name).n_pairs == COUNTS[name]
    assert PUBLISHED.get(name, COUNTS[name]) == COUNTS[name]


def test_the_phrases_are_those_of_the_pairing_rules():
    assert [template.size for template in probe("gender-occupation").templates] == [950, 890, 18, 110]
    assert len(probe("religion-polarity+cross").phrases) == 27 * 95


def test_every_shipped_id_is_listed_with_its_size():
    listed = {line.id: line.pairs for line in probes.listing()}
    assert set(listed) == set(probes.ids())
    assert listed["mab-names"] == 125_952


def test_mab_groups_have_the_sizes_of_the_paper():
    assert {name: len(places) for name, places in probe("mab-names").groups.items()} == {"female": 32, "male": 32}
    assert {n: len(p) for n, p in probe("mab-explicit").groups.items()} == {"female": 3, "male": 3, "she": 1, "he": 1}


SURFACES = [
    (Surface(), "The accountant bought an apron.", "The woman bought an apron."),
    (Surface("A/An"), "An accountant bought an apron.", "A woman bought an apron."),
    (RELEASED, "An accountant bought an apron .", "A woman bought an apron ."),
    (Surface(case="lower"), "the accountant bought an apron.", "the woman bought an apron."),
]


@pytest.mark.parametrize(("surface", "premise", "hypothesis"), SURFACES)
def test_surface_forms(surface, premise, hypothesis):
    pair = probe("gender-occupation").with_surface(surface).pair(0)
    assert (pair.premise, pair.hypothesis) == (premise, hypothesis)


@pytest.mark.parametrize(
    ("articles", "verb", "thing", "sentence"),
    [
        ("phonetic", "bought", "SUV", "An honest person bought an SUV."),
        ("letter", "bought", "SUV", "A honest person bought a SUV."),
        ("phonetic", "bought", "headphones", "An honest person bought headphones."),
        ("letter", "bought", "headphones", "A honest person bought a headphones."),
        ("phonetic", "met", "urchin", "An honest person met an urchin."),
    ],
)
def test_articles_by_letter_and_by_sound(articles, verb, thing, sentence):
    asked = probe("nationality-polarity").restrict("honest", "ukrainian", verb=verb, object=thing)
    pair = asked.with_surface(determiner="A/An", articles=articles).pair(0)
    assert pair.premise == sentence
    assert pair.hypothesis.startswith("An Ukrainian" if articles == "letter" else "A Ukrainian")


def test_natural_case_writes_demonyms_with_a_capital():
    asked = probe("nationality-polarity").restrict("rude", "iraqi")
    assert asked.pair(0).hypothesis == "The Iraqi person bought an apron."
    assert asked.with_surface(case="lower").pair(0).hypothesis == "the iraqi person bought an apron."
    assert asked.pair(0).hypothesis_word == "iraqi"


def test_names_and_pronouns_take_no_article():
    explicit = probe("mab-explicit")
    assert [explicit.pair(i).hypothesis for i in (0, 6, 7)] == [
        "A woman bought an apron.",
        "She bought an apron.",
        "He bought an apron.",
    ]
    assert explicit.pair(0).premise == "A person bought an apron."
    assert probe("mab-names").pair(0).hypothesis == "Emma bought an apron."


def test_controls_have_other_labels():
    assert probe("control-entailment").pair(0).expected == "entailment"
    assert probe("control-contradiction").pair(0).hypothesis == "Nobody bought an apron."
    assert set(probe("mab-names").controls) == {"control-entailment", "control-contradiction"}


def test_a_probe_of_a_user_in_a_toml_file(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(TOML, encoding="utf-8")
    mine = probe(path)
    assert mine.shape == (3, 2, 4)
    assert mine.groups == {"f": (0,), "m": (1, 2)}
    assert mine.pair(4 + 2).premise == "An engineer fed the cat."
    assert mine.pair(4 + 2).hypothesis == "An uncle fed the cat."
    assert mine.pair(mine.n_pairs - 1).hypothesis == "Yesterday Kim slept."
    assert probe(f"{path}#my-probe") == mine
    assert pickle.loads(pickle.dumps(mine)) == mine


@pytest.mark.parametrize(
    ("old", "new", "error", "match"),
    [
        ('"@mine"', '"@yours"', FormatError, "yours"),
        ('differs = "subject"', 'differs = "pet"', FormatError, "pet"),
        ('expected = "neutral"', 'expected = "maybe"', FormatError, "maybe"),
        ('group = "f"', 'grup = "f"', FormatError, "did you mean 'group'"),
        ('["nurse", "engineer"]', "[]", FormatError, "empty"),
        ('["nurse", "engineer"]', "[{ words = ['x'], frame = 'a' }]", FormatError, "{word}"),
        ("[probe.my-probe]", "[prob.my-probe]", FormatError, "unknown key"),
        ('["nurse", "engineer"]', '["nurse", "engineer"]\ncontrast = ["f", "x"]', FormatError, "x"),
        ('["nurse", "engineer"]', '["nurse", "engineer"]\nsurface = { case = "upper" }', FormatError, "upper"),
    ],
)
def test_a_mistake_in_a_probe_file_is_told_with_its_place(tmp_path, old, new, error, match):
    path = tmp_path / "mine.toml"
    assert old in TOML
    path.write_text(TOML.replace(old, new), encoding="utf-8")
    with pytest.raises(error, match=match) as caught:
        probe(path)
    assert "mine.toml" in str(caught.value)
    assert ("expected:" in str(caught.value)) == (match == "maybe")  # the key at fault, no other


def test_unknown_probes_variants_and_fillers_suggest_near_ones():
    with pytest.raises(UnknownNameError, match="gender-occupation"):
        probe("gender-occupations")
    with pytest.raises(UnknownNameError, match="162"):
        probe("gender-occupation+163")
    with pytest.raises(UnknownNameError, match="nurse"):
        probe("gender-occupation").restrict("nurs")
    with pytest.raises(UnknownNameError, match="verb"):
        probe("gender-occupation").restrict(verbs="met")
    with pytest.raises(UsageError, match="no pair 8"):
        small().pair(8)


def test_restricting_any_slot():
    asked = probe("nationality-polarity").restrict("rude", ["iraqi", "thai"], verb=["loved", "met"])
    assert asked.shape == (2 * 89, 1, 2)
    assert {asked.pair(i).words["verb"] for i in range(asked.n_pairs)} == {"loved", "met"}


def small(premises=("nurse", "actor"), hypotheses=("man", "woman"), objects=("apple", "meal")):
    template = Template("t", "The {subject} ate a/an {food}.", {"food": list(objects)})
    return Probe("small", (template,), tuple(map(Filler, premises)), tuple(map(Filler, hypotheses)))


names = st.lists(st.sampled_from("abcdefghij"), min_size=1, max_size=4, unique=True)


@given(names, names, names, st.integers(1, 7))
def test_random_access_blocks_and_expansion_agree(premises, hypotheses, objects, size):
    asked = small(premises, hypotheses, objects)
    template = asked.templates[0]
    expanded = [
        (template.fill(subject=p, food=o), template.fill(subject=h, food=o))
        for o, p, h in itertools.product(objects, premises, hypotheses)
    ]
    assert [(asked.pair(i).premise, asked.pair(i).hypothesis) for i in range(asked.n_pairs)] == expanded
    texts = [list(zip(*asked.texts(block), strict=True)) for block in asked.blocks(size)]
    assert [pair for block in texts for pair in block] == expanded


def test_a_sample_has_the_same_number_from_every_pair_of_words():
    asked = probe("gender-occupation")
    drawn = stratified(asked, 20_000, seed=3)
    assert (drawn.by, drawn.per_stratum, len(drawn)) == ("word pair", 20, 19_680)
    cells = np.ravel_multi_index(drawn.points[1:], asked.shape[1:])
    assert (np.bincount(cells) == 20).all()
    index = np.ravel_multi_index(drawn.points, asked.shape)
    assert len(np.unique(index)) == len(index)
    assert (np.diff(index) > 0).all()
    again = stratified(asked, 20_000, seed=3)
    assert all(np.array_equal(a, b) for a, b in zip(drawn.points, again.points, strict=True))


@pytest.mark.parametrize(("size", "by"), [(1_968, "word pair"), (1_967, "hypothesis"), (11, "probe")])
def test_small_samples_have_coarser_strata(size, by):
    assert stratified(probe("gender-occupation"), size).by == by


@pytest.mark.parametrize("size", [1, 8, 9])
def test_samples_that_make_no_sense(size):
    with pytest.raises(UsageError, match="pairs"):
        stratified(small(), size)


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".jsonl.gz", ".parquet"])
def test_export_and_back(tmp_path, suffix):
    import polars as pl

    path = tmp_path / f"pairs{suffix}"
    asked = small()
    assert probes.export(asked, path, rows=3) == asked.n_pairs
    read = {".csv": pl.read_csv, ".parquet": pl.read_parquet}.get(suffix, pl.read_ndjson)
    frame = read(path.read_bytes() if not suffix.endswith("gz") else __import__("gzip").decompress(path.read_bytes()))
    assert frame["index"].to_list() == list(range(8))
    assert frame["premise"].to_list() == [asked.pair(i).premise for i in range(8)]
    assert frame["food"].to_list() == ["apple"] * 4 + ["meal"] * 4


def test_export_of_a_sample_and_to_an_unknown_format(tmp_path):
    asked = probe("mab-explicit")
    assert probes.export(asked, tmp_path / "x.jsonl", sample=100) == 96
    with pytest.raises(UsageError, match=r"\.jsonl"):
        probes.export(asked, tmp_path / "x.xlsx")
