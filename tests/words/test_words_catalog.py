import json
import subprocess
import sys

import pytest

from evenhand import words
from evenhand.errors import UnknownNameError, UsageError
from evenhand.words import catalog
from evenhand.words.document import read_document
from evenhand.words.library import Library, load_file


def test_only_the_files_that_are_needed_are_parsed():
    script = (
        "from evenhand.words import catalog, wordset\n"
        "assert len(catalog.ids('query')) > 10\n"
        "assert catalog._library.cache_info().currsize == 0\n"
        "wordset('dev2019-polarity')\n"
        "assert catalog._library.cache_info().currsize == 1\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_the_headers_name_exactly_the_records_of_the_files():
    parsed = {
        (kind, name)
        for path in catalog.FOLDER.glob("*.toml")
        for kind, name in Library(read_document(path), catalog.shipped_library).all()
    }
    assert parsed == set(catalog._index())


def test_an_unknown_id_suggests_the_nearest():
    with pytest.raises(UnknownNameError, match="did you mean: gender"):
        words.concept("gendr")
    with pytest.raises(UnknownNameError, match="weat-6"):
        words.query("weat6")


def test_records_pass_through_and_other_things_do_not():
    gender = words.concept("gender")
    assert words.concept(gender) is gender
    assert words.query(words.query("weat-1")).name == "weat-1"
    with pytest.raises(UsageError, match="id or file, got 7"):
        words.pairs(7)  # type: ignore[arg-type]


def test_the_listing_shows_everything():
    everything = words.listing()
    assert {line.kind for line in everything} == set(words.KINDS)
    assert {"age", "gender", "nationality", "race", "religion"} <= {line.id for line in words.listing("concept")}
    assert all(line.size > 0 and line.source for line in everything)
    with pytest.raises(UnknownNameError, match="kind of record"):
        words.listing("poem")


RECORDS = [(line.kind, line.id) for line in words.listing()]


@pytest.mark.parametrize(("kind", "name"), RECORDS, ids=[f"{kind}-{name}" for kind, name in RECORDS])
def test_every_record_survives_json_and_back(tmp_path, kind, name):
    record = getattr(catalog, kind)(name)
    path = tmp_path / "copy.json"
    path.write_text(json.dumps({kind: {name: record.to_dict()}}), encoding="utf-8")
    assert load_file(path).get(catalog.RECORDS[kind], name) == record


@pytest.mark.parametrize(
    ("record", "shown"),
    [
        (words.wordset("gp-neutral"), "WordSet('gp-neutral', 1031 words: abandonment, abate, aberrant, ...)"),
        (words.pairs("gn-glove-pairs"), "Pairs('gn-glove-pairs', 222 pairs female-male: countrywoman-countryman, "),
        (words.query("weat-6"), "Query('weat-6', Male names / Female names x Career / Family)"),
        (words.concept("gender"), "Concept('gender', groups: female, male, positive: female, 10 pairs)"),
        (words.table("sembias"), "Table('sembias', 440 rows of definition, none-1, none-2, stereotype)"),
        (words.template("dev2019-eating"), "Template('dev2019-eating', 'The {subject} {verb} a/an {object}.', 110 "),
    ],
    ids=words.KINDS,
)
def test_records_show_themselves_in_one_short_line(record, shown):
    assert repr(record).startswith(shown)
    assert len(repr(record)) < 130
