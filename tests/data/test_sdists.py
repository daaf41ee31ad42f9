"""An sdist comes from the user's indexes as a file: its setup.py would leave a mark, and never runs."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evenhand.data import CatalogEntry, File, packages
from evenhand.data.catalog import parse
from evenhand.data.fetch import obtain
from evenhand.errors import FetchError

TEXT = b"word\t1\n" * 500
NAME = "some_set-1.2.tar.gz"
SOURCE = "pypi:Some.Set==1.2!some_set-1.2/data/a.txt"
MakeFile = Callable[[str, bytes], File]
MakeEntry = Callable[..., CatalogEntry]


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    return tmp_path / "the code ran"


@pytest.fixture
def packed(mark: Path) -> bytes:
    """An sdist with a build that leaves a mark, both by setup.py and by a backend in its own folder."""
    code = f"open({str(mark)!r}, 'w').write('ran')\n"
    members = {
        "setup.py": code + "from setuptools import setup\nsetup(name='some-set', version='1.2')\n",
        "pyproject.toml": "[build-system]\nrequires = []\nbuild-backend = 'backend'\nbackend-path = ['.']\n",
        "backend.py": code,
        "PKG-INFO": "Metadata-Version: 2.1\nName: some-set\nVersion: 1.2\n",
    }
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tarred:
        for name, content in [*((name, text.encode()) for name, text in members.items()), ("data/a.txt", TEXT)]:
            info = tarfile.TarInfo(f"some_set-1.2/{name}")
            info.size = len(content)
            tarred.addfile(info, io.BytesIO(content))
    return out.getvalue()


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No index but what a test names: pip reads its configuration from an empty file."""
    for name in ("INDEX_URL", "EXTRA_INDEX_URL", "FIND_LINKS", "NO_INDEX", "PROXY", "CERT"):
        monkeypatch.delenv(f"PIP_{name}", raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")


@pytest.fixture
def entry(make_entry: MakeEntry, make_file: MakeFile) -> CatalogEntry:
    return make_entry(make_file("a.txt", TEXT), sources=(SOURCE,))


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def html_page(packed: bytes, address: str = f"../../files/{NAME}") -> bytes:
    links = f'<a href="{address}#sha256={sha256(packed)}">{NAME}</a><a href="some_set-1.2-py3-none-any.whl">wheel</a>'
    return f"<!DOCTYPE html><html><body>{links}</body></html>".encode()


def json_page(packed: bytes) -> bytes:
    file = {"filename": NAME, "url": f"/files/{NAME}", "hashes": {"sha256": sha256(packed)}}
    return json.dumps({"meta": {"api-version": "1.0"}, "files": [file]}).encode()


@pytest.mark.parametrize("kind", ["text/html; charset=utf-8", packages.JSON_PAGE])
def test_an_index_of_the_web(
    kind: str, web: Any, packed: bytes, mark: Path, entry: CatalogEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = html_page(packed) if kind.startswith("text/html") else json_page(packed)
    web.serve("/simple/some-set/", page, Content_Type=kind)
    web.serve(f"/files/{NAME}", packed)
    monkeypatch.setenv("PIP_INDEX_URL", web.url("/simple"))
    assert obtain(entry).copy.path.read_bytes() == TEXT
    assert not mark.exists()
    assert [path for path, _ in web.seen] == ["/simple/some-set/", f"/files/{NAME}"]


@pytest.mark.parametrize("layout", ["index", "folder", "page"])
def test_a_local_index(
    layout: str, tmp_path: Path, packed: bytes, mark: Path, entry: CatalogEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "simple" / "some-set"
    project.mkdir(parents=True)
    (project / NAME).write_bytes(packed)
    if layout != "folder":
        (project / "index.html").write_bytes(html_page(packed, NAME))
    if layout == "index":
        monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "simple").as_uri())
    else:
        monkeypatch.setenv("PIP_NO_INDEX", "1")
        monkeypatch.setenv("PIP_FIND_LINKS", str(project if layout == "folder" else project / "index.html"))
    assert obtain(entry).copy.path.read_bytes() == TEXT
    assert not mark.exists()


def test_a_file_with_another_hash_is_refused_and_nothing_of_it_runs(
    web: Any, packed: bytes, mark: Path, entry: CatalogEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    web.serve("/simple/some-set/", html_page(b"another file"), Content_Type="text/html")
    web.serve(f"/files/{NAME}", packed)
    monkeypatch.setenv("PIP_INDEX_URL", web.url("/simple"))
    with pytest.raises(FetchError, match="sha256"):
        obtain(entry)
    assert not mark.exists()


def test_the_next_index_is_asked_where_the_first_has_no_such_file(
    web: Any, packed: bytes, entry: CatalogEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    web.serve("/more/some-set/", html_page(packed), Content_Type="text/html")
    web.serve(f"/files/{NAME}", packed)
    monkeypatch.setenv("PIP_INDEX_URL", web.url("/simple"))
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", f"{web.url('/other')} {web.url('/more')}")
    assert obtain(entry).copy.path.read_bytes() == TEXT


def test_credentials_go_to_the_index_and_never_into_a_message(
    web: Any, packed: bytes, entry: CatalogEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = web.url("/simple").replace("//", "//user:se%40cret@")
    monkeypatch.setenv("PIP_INDEX_URL", secret)
    with pytest.raises(FetchError) as caught:
        obtain(entry)
    assert "404" in caught.value.message
    assert "cret" not in caught.value.message
    web.serve("/simple/some-set/", html_page(packed, NAME), Content_Type="text/html")
    web.serve(f"/simple/some-set/{NAME}", packed)
    obtain(entry)
    wanted = "Basic " + base64.b64encode(b"user:se@cret").decode()
    assert {headers.get("Authorization") for _, headers in web.seen} == {wanted}


@pytest.mark.parametrize(
    ("page", "link", "allowed"),
    [
        ("https://index/simple/a/", "file:///etc/a-1.tar.gz", False),
        ("http://index/simple/a/", "file:///etc/a-1.tar.gz", False),
        ("https://index/simple/a/", "http://index/a-1.tar.gz", False),
        ("https://index/simple/a/", "ftp://index/a-1.tar.gz", False),
        ("https://index/simple/a/", "https://other/a-1.tar.gz", True),
        ("file:///srv/a/", "file:///srv/files/a-1.tar.gz", True),
    ],
)
def test_a_page_names_no_local_file_and_nothing_less_safe(page: str, link: str, allowed: bool) -> None:
    assert [found.address for found in packages._allowed(page, [packages.Link("a-1.tar.gz", link)])] == [link] * allowed


@pytest.mark.parametrize("name", ["..%2F..%2Fsome_set-1.2.tar.gz", "..\\some_set-1.2.tar.gz", ".some_set-1.2.tar.gz"])
def test_a_name_never_becomes_a_path_elsewhere(name: str) -> None:
    (link,) = packages.parse_page(f'<a href="{name}">x</a>'.encode(), "text/html", "https://index/simple/some-set/")
    assert "/" not in link.name
    assert link.name in ("", NAME)


@pytest.mark.parametrize("body", [b"", b"[", b"{}", b'{"files": 3}', b'{"files": [{}]}', b"[" * 100_000])
def test_a_damaged_page_is_named(body: bytes) -> None:
    with pytest.raises(FetchError, match="not a page of a package index"):
        packages.parse_page(body, packages.JSON_PAGE, "https://index/simple/some-set/")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (NAME, True),
        ("Some.Set-1.2.zip", True),
        ("some_set-1.20.tar.gz", False),
        ("some_set-1.2-py3-none-any.whl", False),
    ],
)
def test_which_file_is_the_sdist(name: str, expected: bool) -> None:
    assert packages.is_sdist_of(parse(SOURCE), name) is expected


def test_the_settings_of_the_environment_count_more_than_those_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pip.conf").write_text(
        "[global]\nindex-url = https://one.invalid/s\nproxy = http://p.invalid\n"
        "[download]\nindex-url = https://two.invalid/s\nextra-index-url = https://a.invalid/s\n  https://b.invalid/s\n"
        "[install]\nindex-url = https://three.invalid/s\n"
    )
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    extra = ("https://a.invalid/s", "https://b.invalid/s")
    settings = packages.pip_settings()
    assert settings.indexes == ("https://two.invalid/s", *extra)
    assert settings.proxy == "http://p.invalid"
    monkeypatch.setenv("PIP_INDEX_URL", "https://four.invalid/s")
    assert packages.pip_settings().indexes == ("https://four.invalid/s", *extra)


def test_without_a_setting_pip_says_which_index_it_uses() -> None:
    (index,) = packages.pip_settings().indexes
    assert index.startswith("https://")
