from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.data.catalog import DownloadSource, File, is_plain_path, parse
from evenhand.errors import FormatError

LETTERS = string.ascii_lowercase + string.digits
name = st.text(LETTERS + "-_.", min_size=1, max_size=20).filter(lambda text: text[0] in LETTERS)
version = st.text(string.digits + ".", min_size=1, max_size=8).filter(lambda text: text[0] in string.digits)
member = (
    st.lists(st.text(LETTERS + "._-{}! ", min_size=1, max_size=12), min_size=1, max_size=4)
    .map("/".join)
    .filter(is_plain_path)
)


@given(name=name, version=version, member=member)
def test_a_pypi_spec_survives_the_round_trip(name: str, version: str, member: str) -> None:
    spec = f"pypi:{name}=={version}!{member}"
    assert parse(spec) == DownloadSource("pypi", name, version, member)
    assert str(parse(spec)) == spec


@given(scope=st.sampled_from(["", "@org/"]), name=name, version=version, member=member)
def test_an_npm_spec_survives_the_round_trip(scope: str, name: str, version: str, member: str) -> None:
    spec = f"npm:{scope}{name}@{version}!{member}"
    assert parse(spec) == DownloadSource("npm", scope + name, version, member)
    assert str(parse(spec)) == spec


@given(before=st.lists(name, max_size=2), after=st.lists(name, max_size=2))
def test_a_path_that_climbs_is_refused_wherever_it_climbs(before: list[str], after: list[str]) -> None:
    path = "/".join([*before, "..", *after])
    with pytest.raises(FormatError, match="outside its archive"):
        parse(f"pypi:a==1!{path}")


@given(st.text(max_size=60))
def test_any_text_is_a_source_or_a_format_error(text: str) -> None:
    try:
        source = parse(text)
    except FormatError:
        return
    assert str(source) == text


@given(st.text(alphabet=string.printable, max_size=30))
def test_a_package_name_never_becomes_an_option(text: str) -> None:
    try:
        source = parse(f"pypi:{text}==1.0!x")
    except FormatError:
        return
    assert not source.where.startswith("-")
    assert not set(source.where) & set(" \t\n=;[]@/")


def test_joined_parts_survive_the_round_trip() -> None:
    spec = "npm:a@1!x.part + pypi:b==2!b/y.part"
    source = parse(spec)
    assert str(source) == spec
    assert [part.where for part in source.continued] == ["b"]
    with pytest.raises(FormatError, match="joins something else"):
        parse("https://example.org/a + npm:a@1!x")


@pytest.mark.parametrize(
    "spec", ["pypi:a==1!x.0 + pypi:b==1!x.1 | unzip in/{name}", "pypi:a==1!in/{name} | unix-lines"]
)
def test_what_is_done_with_a_download_survives_the_round_trip(spec: str) -> None:
    source = parse(spec)
    assert str(source) == spec
    assert (source.inner_of(File("x.txt")), source.unix_lines) in {("in/x.txt", False), ("", True)}


@pytest.mark.parametrize(
    "spec",
    [
        "pypi:a==1!x | unzip in/x",
        "pypi:a==1!x.0 + pypi:b==1!x.1 | unzip ../x",
        "pypi:a==1!x.0 + pypi:b==1!x.1 | unzip a | unzip b",
        "pypi:a==1!x.0 + pypi:b==1!x.1 | unix-lines",
        "https://host/a.txt | unix-lines",
        "pypi:a==1!x | unix-lines | unix-lines",
    ],
)
def test_what_cannot_be_done_with_a_download_is_refused(spec: str) -> None:
    with pytest.raises(FormatError):
        parse(spec)


def test_web_addresses_with_and_without_a_member() -> None:
    assert parse("https://host/a.txt") == DownloadSource("web", "https://host/a.txt")
    assert parse("https://host/a.zip!in/b.txt") == DownloadSource("web", "https://host/a.zip", "", "in/b.txt")


@pytest.mark.parametrize(
    "spec", ["", "ftp://host/a", "pypi:name!x", "pypi:name==1", "npm:name==1!x", "npm:Name@1!x", "file:///etc/passwd"]
)
def test_what_is_not_a_source_gets_the_forms_as_hint(spec: str) -> None:
    with pytest.raises(FormatError) as caught:
        parse(spec)
    assert "pypi:NAME==VERSION!path" in caught.value.hint


@pytest.mark.parametrize("path", ["/etc/passwd", "a//b", "a/../b", "..", "C:/x", "a\\b", "./a", "a/", ""])
def test_paths_that_are_not_plain(path: str) -> None:
    assert not is_plain_path(path)


def test_the_name_of_the_file_fills_its_place() -> None:
    source = parse("pypi:a==1!data/{name}")
    assert source.member_of(File("x.txt")) == "data/x.txt"
    assert parse("https://host/{name}").address_of(File("x.txt")) == "https://host/x.txt"


def test_a_path_in_the_source_comes_before_the_name() -> None:
    file = File("x.txt", path="en/1.2/x.txt")
    assert parse("pypi:a==1!data/{name}").member_of(file) == "data/en/1.2/x.txt"
    assert parse("https://host/{name}").address_of(file) == "https://host/en/1.2/x.txt"
