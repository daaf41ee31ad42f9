from __future__ import annotations

from pathlib import Path

import pytest

from evenhand import data
from evenhand.data import local_copies as places
from evenhand.data.catalog import KINDS, read
from evenhand.data.local_copies import is_intact
from evenhand.errors import FormatError, UnknownNameError

ENTRIES = list(data.catalog().values())
FORMATS = {"glove", "word2vec-bin", "wink", "parquet-npy", "gensim-kv", "spacy-vocab", "navec"}
GOOD = '[x]\ntitle = "t"\nkind = "corpus"\nlicence = "l"\ncitation = "c"\n'
SHA = "0" * 64


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.id)
def test_every_entry_says_what_it_is_and_where_it_comes_from(entry: data.Entry) -> None:
    assert entry.title
    assert entry.licence
    assert entry.citation
    assert entry.kind in KINDS
    assert (entry.format in FORMATS) == (entry.kind == "vectors")
    assert all(source.where.startswith("https://") for source in entry.sources if source.kind == "web")
    assert all(file.sha256 and file.size for file in entry.files) or entry.unverified


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.id)
def test_several_files_need_a_name_in_the_source(entry: data.Entry) -> None:
    if len(entry.files) > 1:
        assert all("{name}" in str(source) for source in entry.sources)
    else:
        assert not any("{name}" in str(source) for source in entry.sources)


def test_origin_comes_before_mirrors() -> None:
    for entry in ENTRIES:
        kinds = [source.kind != "web" for source in entry.sources]
        assert kinds == sorted(kinds), entry.id


def test_the_sets_of_the_design_are_there() -> None:
    wanted = {"glove-6b-100d", "glove-6b-100d-wink", "glove-6b-50d-kumo", "googlenews-small", "googlenews-wefe"}
    wanted |= {"snli", "enwik8", "us-baby-names", "all-minilm-l6-v2", "smollm2-135m", "google-analogies", "rg-65"}
    assert wanted <= set(data.catalog())


def test_an_unknown_id_suggests_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="glove-6b-10d") as caught:
        data.get("glove-6b-10d")
    assert "glove-6b-100d" in caught.value.hint


def test_the_catalog_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        data.catalog()["x"] = ENTRIES[0]  # type: ignore[index]


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        ('sources = ["pypi:a==1!b"]', "names no file"),
        ("", "neither a source nor a data_path"),
        ('data_path = "../up"', "relative path"),
        (f'data_path = "d"\nfiles = [{{name = "/etc/x", sha256 = "{SHA}"}}]', "relative path"),
        (f'data_path = "d"\nfiles = [{{name = ".hidden", sha256 = "{SHA}"}}]', "relative path"),
        (f'data_path = "d"\nfiles = [{{name = "x", path = "../x", sha256 = "{SHA}"}}]', "relative path"),
        ('data_path = "d"\nfiles = [{name = "x", sha256 = "abc"}]', "64 hexadecimal"),
        ('data_path = "d"\nfiles = [{name = "x"}]', "unverified"),
        (f'data_path = "d"\nunverified = true\nfiles = [{{name = "x", sha256 = "{SHA}"}}]', "unverified"),
        (f'data_path = "d"\nmain = "y"\nfiles = [{{name = "x", sha256 = "{SHA}"}}]', "main 'y'"),
        ('data_path = "d"\ncolour = "red"', "unknown key 'colour'"),
        ('data_path = "d"\nfiles = [{nome = "x"}]', "nome"),
        ('data_path = "d"\nsources = ["gopher://a"]', "gopher"),
        ("data_path = ", "Invalid value"),
    ],
)
def test_a_faulty_catalog_is_refused(lines: str, complaint: str) -> None:
    with pytest.raises(FormatError, match=complaint):
        read(GOOD + lines)


def test_a_missing_key_is_named() -> None:
    with pytest.raises(FormatError, match="licence"):
        read('[x]\ntitle = "t"\nkind = "corpus"\ncitation = "c"\ndata_path = "d"')


def test_an_unknown_kind_is_named() -> None:
    with pytest.raises(FormatError, match="kind 'song'"):
        read(GOOD.replace("corpus", "song") + 'data_path = "d"')


@pytest.mark.data
def test_the_sha256_of_every_set_in_the_data_folder_is_right(
    data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENHAND_DATA", str(data_folder))
    checked = 0
    for entry in ENTRIES:
        place = places.in_data_folder(entry)
        if place is not None:
            checked += 1
            assert all(map(is_intact, place.files, entry.files)), entry.id
    assert checked
