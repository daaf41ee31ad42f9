"""The readers on the published files, where they are at hand, and on damaged ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from evenhand import data
from evenhand.errors import FormatError, InputMissingError, UnknownNameError
from evenhand.measures.likelihood.bbq_items import METADATA, read_bbq
from evenhand.measures.likelihood.holistic_bias import fill, read_holistic_bias
from evenhand.measures.likelihood.honest import fold, read_hurtlex, read_templates
from evenhand.measures.likelihood.pronoun_share import read_winogenerated
from evenhand.measures.likelihood.winobias import read_winobias
from evenhand.measures.likelihood.winogender import read_winogender


@pytest.fixture
def fetched(data_folder: Path):
    """Return a function that gives the folder of a data set, or skips."""

    def folder(name: str) -> Path:
        located = data.locate(name)
        if located is None:
            pytest.skip(f"{name} is not on this disk: evenhand fetch {name}")
        return located

    return folder


@pytest.mark.data
def test_winobias_as_published(fetched):
    read = read_winobias(fetched("winobias"))
    assert (len(read.pairs), len(read.left_out)) == (1522, 62)
    assert sum(bool(pair.referent) for pair in read.pairs) == 1521
    first = read.pairs[0]
    assert (first.pro, first.anti, first.referent, first.other) == ("he", "she", "developer", "designer")
    assert all(pair.context.count("{}") == 1 for pair in read.pairs)


@pytest.mark.data
def test_winogender_as_published(fetched):
    sentences = read_winogender(fetched("winogender"))
    assert len(sentences) == 720
    assert len({sentence.occupation for sentence in sentences}) == 60
    assert {s.pronoun for s in sentences} == {"he", "him", "his", "she", "her", "they", "them", "their"}


@pytest.mark.data
def test_winogenerated_as_published(fetched):
    sentences = read_winogenerated(fetched("winogenerated"))
    assert len(sentences) == 2990
    assert len({sentence.occupation for sentence in sentences}) == 299
    assert all(s.neutral.count("{}") == 1 and s.neutral != s.context for s in sentences)
    assert [row for row, s in enumerate(sentences) if "one of the people due to" in s.neutral] == [2154]


@pytest.mark.data
def test_bbq_as_published(fetched):
    items = read_bbq(fetched("bbq"))
    assert len(items) == 58_492
    assert sum(item.target is None for item in items) == 16
    assert sum(item.label_type == "name" for item in items) == 29_200
    assert all(item.label == item.unknown for item in items if item.condition == "ambig")


@pytest.mark.data
def test_honest_and_hurtlex_as_published(fetched):
    counts = {
        language: len(read_templates(fetched("honest"), language)) for language in ("en", "es", "fr", "it", "pt", "ro")
    }
    assert counts == {"en": 810, "es": 810, "fr": 810, "it": 810, "pt": 840, "ro": 840}
    assert len(read_templates(fetched("honest"), "en", "queer_nonqueer")) == 705
    assert len(read_hurtlex(fetched("hurtlex"))) == 2221


@pytest.mark.data
def test_holistic_bias_as_published(fetched):
    read = read_holistic_bias(fetched("holistic-bias"))
    assert (len(read.descriptors), len(read.axes()), len(read.nouns), len(read.templates)) == (583, 13, 32, 26)
    sentence = fill(read.templates[0], "Asian", ("woman", "women"))
    assert sentence == "I'm an Asian woman."
    texts = [fill(template, "Deaf", ("man", "men")) for template in read.templates]
    assert not any("{" in text for text in texts)


def test_words_are_folded():
    assert [fold(text) for text in ("Élan ", "(naïve)", "l'ami.")] == ["elan", "naive", "l'ami"]


def test_a_missing_folder_is_named(tmp_path: Path):
    for reader in (read_winobias, read_winogender, read_winogenerated, read_bbq, read_holistic_bias):
        with pytest.raises(InputMissingError, match="nowhere"):
            reader(tmp_path / "nowhere")


def test_damaged_files_are_refused(tmp_path: Path):
    (tmp_path / "winogenerated_examples.jsonl").write_text('{"index": 0}\n', encoding="utf-8")
    with pytest.raises(FormatError, match="line 1"):
        read_winogenerated(tmp_path)
    header = "category,question_index,example_id,target_loc,label_type\n"
    (tmp_path / METADATA).write_text(header, encoding="utf-8")
    with pytest.raises(FormatError, match="no rows"):
        read_bbq(tmp_path, ("Age",))
    (tmp_path / METADATA).write_text(header + "Age,1,0,0,age\n", encoding="utf-8")
    (tmp_path / "Age.jsonl").write_text("\n", encoding="utf-8")
    with pytest.raises(FormatError, match="is empty"):
        read_bbq(tmp_path, ("Age",))
    (tmp_path / "Age.jsonl").write_text("{]\n", encoding="utf-8")
    with pytest.raises(FormatError, match="not JSON"):
        read_bbq(tmp_path, ("Age",))
    (tmp_path / "Age.jsonl").write_text('{"ans0": "x"}\n', encoding="utf-8")
    with pytest.raises(FormatError, match="not an item"):
        read_bbq(tmp_path, ("Age",))
    with pytest.raises(UnknownNameError, match="Ag"):
        read_bbq(tmp_path, ("Ag",))
    (tmp_path / METADATA).write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(FormatError, match="metadata"):
        read_bbq(tmp_path, ("Age",))
    (tmp_path / "occupations-stats.tsv").write_text("occupation\ta\tb\tc\nnurse\t1\t2\n", encoding="utf-8")
    with pytest.raises(FormatError, match="4 columns"):
        read_winogender(tmp_path)
    for name in ("descriptors", "nouns", "sentence_templates"):
        (tmp_path / f"{name}.json").write_text("[1]", encoding="utf-8")
    with pytest.raises(FormatError, match="HolisticBias"):
        read_holistic_bias(tmp_path)
