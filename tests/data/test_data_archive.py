from __future__ import annotations

import gzip
import io
import random
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from evenhand.data import File
from evenhand.data.packages import Wanted, extract
from evenhand.errors import FetchError

TEXT = b"the cat sat\n" * 100
MakeFile = Callable[[str, bytes], File]


def make_tar(path: Path, members: dict[str, bytes], *, links: dict[str, str] | None = None) -> Path:
    with tarfile.open(path, "w:gz") as tarred:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tarred.addfile(info, io.BytesIO(content))
        for name, to in (links or {}).items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, to
            tarred.addfile(info)
    return path


def make_zip(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as zipped:
        for name, content in members.items():
            zipped.writestr(name, content)
    return path


@pytest.mark.parametrize("make", [make_tar, make_zip])
def test_only_the_wanted_members_come_out(tmp_path: Path, make: Callable[..., Path], make_file: MakeFile) -> None:
    packed = make(tmp_path / "p", {"d/a.txt": TEXT, "d/b.txt": b"b", "../evil.txt": b"evil", "c.txt": b"c"})
    out = tmp_path / "out"
    extract(
        packed,
        {
            "d/a.txt": Wanted(out / "a.txt", make_file("a.txt", TEXT)),
            "d/b.txt": Wanted(out / "sub" / "b.txt", make_file("b.txt", b"b")),
        },
    )
    assert (out / "a.txt").read_bytes() == TEXT
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == ["a.txt", "b.txt", "p"]


@pytest.mark.parametrize("make", [make_tar, make_zip])
def test_a_member_that_climbs_out_is_refused(tmp_path: Path, make: Callable[..., Path]) -> None:
    (tmp_path / "in").mkdir()
    packed = make(tmp_path / "in" / "p", {"../evil.txt": b"evil"})
    with pytest.raises(FetchError, match="outside its archive"):
        extract(packed, {"../evil.txt": Wanted(tmp_path / "out.txt", File("out.txt"))})
    assert not (tmp_path / "evil.txt").exists()
    assert not (tmp_path / "out.txt").exists()


def test_a_link_in_a_tar_is_refused(tmp_path: Path) -> None:
    packed = make_tar(tmp_path / "p", {}, links={"a.txt": "/etc/passwd"})
    with pytest.raises(FetchError, match="link or a folder"):
        extract(packed, {"a.txt": Wanted(tmp_path / "a.txt", File("a.txt"))})
    assert not (tmp_path / "a.txt").exists()


def test_a_link_in_a_zip_is_refused(tmp_path: Path) -> None:
    info = zipfile.ZipInfo("a.txt")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "p", "w") as zipped:
        zipped.writestr(info, "/etc/passwd")
    with pytest.raises(FetchError, match="link or a folder"):
        extract(tmp_path / "p", {"a.txt": Wanted(tmp_path / "a.txt", File("a.txt"))})


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "p", "w") as zipped:
        zipped.mkdir("a.txt")
    with pytest.raises(FetchError, match="link or a folder"):
        extract(tmp_path / "p", {"a.txt": Wanted(tmp_path / "a.txt", File("a.txt"))})


@pytest.mark.parametrize("make", [make_tar, make_zip])
def test_a_missing_member_is_named(tmp_path: Path, make: Callable[..., Path]) -> None:
    packed = make(tmp_path / "p", {"a.txt": TEXT})
    with pytest.raises(FetchError, match=r"does not contain 'b\.txt'"):
        extract(packed, {"b.txt": Wanted(tmp_path / "b.txt", File("b.txt"))})


def test_a_gz_member_is_unpacked_for_a_plain_target(tmp_path: Path, make_file: MakeFile) -> None:
    packed = make_tar(tmp_path / "p", {"d/a.gz": gzip.compress(TEXT)})
    extract(packed, {"d/a.gz": Wanted(tmp_path / "a", make_file("a", TEXT))})
    assert (tmp_path / "a").read_bytes() == TEXT


def test_a_gz_member_stays_packed_for_a_gz_target(tmp_path: Path) -> None:
    content = gzip.compress(TEXT)
    packed = make_tar(tmp_path / "p", {"d/a.gz": content})
    extract(packed, {"d/a.gz": Wanted(tmp_path / "a.gz", File("a.gz"))})
    assert (tmp_path / "a.gz").read_bytes() == content


def test_other_content_than_expected_leaves_nothing(tmp_path: Path, make_file: MakeFile) -> None:
    packed = make_zip(tmp_path / "p", {"a.txt": TEXT})
    with pytest.raises(FetchError, match="sha256"):
        extract(packed, {"a.txt": Wanted(tmp_path / "a.txt", make_file("a.txt", TEXT[::-1]))})
    assert [path.name for path in tmp_path.iterdir()] == ["p"]


def test_a_member_far_larger_than_expected_is_cut_short(
    tmp_path: Path, make_file: MakeFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = []
    monkeypatch.setattr("evenhand.data.packages.check", lambda path, expected: sizes.append(path.stat().st_size))
    packed = make_zip(tmp_path / "p", {"a.txt": bytes(20 << 20)})
    extract(packed, {"a.txt": Wanted(tmp_path / "a.txt", make_file("a.txt", b"small"))})
    assert sizes == [1 << 20]


def test_a_member_of_unknown_size_expands_by_a_factor_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenhand.data.packages.LEAST_EXPANSION", 1000)
    with zipfile.ZipFile(tmp_path / "p", "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("a.txt", bytes(8 << 20))
    with pytest.raises(FetchError, match=r"'a\.txt' in the archive expands to more than"):
        extract(tmp_path / "p", {"a.txt": Wanted(tmp_path / "a.txt", File("a.txt"))})
    assert [path.name for path in tmp_path.iterdir()] == ["p"]


@pytest.mark.parametrize("content", [b"", b"not an archive", b"PK\x03\x04 broken", gzip.compress(b"no tar", mtime=0)])
def test_an_invalid_archive_is_reported(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "p.whl").write_bytes(content)
    with pytest.raises(FetchError, match=r"p\.whl"):
        extract(tmp_path / "p.whl", {"a": Wanted(tmp_path / "a", File("a"))})


@pytest.mark.parametrize("make", [make_tar, make_zip])
def test_a_cut_archive_is_reported_and_leaves_nothing(tmp_path: Path, make: Callable[..., Path]) -> None:
    packed = make(tmp_path / "p", {"a.txt": random.Random(0).randbytes(50_000)})
    packed.write_bytes(packed.read_bytes()[:20_000])
    with pytest.raises(FetchError, match="could not be unpacked"):
        extract(packed, {"a.txt": Wanted(tmp_path / "a.txt", File("a.txt"))})
    assert [path.name for path in tmp_path.iterdir()] == ["p"]
