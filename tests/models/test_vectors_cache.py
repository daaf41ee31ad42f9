from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from vector_strategies import quiet_load

from evenhand import Vectors
from evenhand.errors import EvenhandWarning, FormatError
from evenhand.models.vectors import cache, files
from evenhand.models.vectors.formats import FORMATS, text

LONG_AGO = 1_600_000_000


def replace_reader(monkeypatch: pytest.MonkeyPatch, read: Callable[[Path, object], object]) -> None:
    """Let the text formats be read by another function."""
    for format in FORMATS.values():
        if format.read is text.read:
            monkeypatch.setitem(FORMATS._objects, format.id, replace(format, read=read))


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that were parsed, in order."""
    parsed: list[Path] = []
    plain = text.read

    def read(path: Path, options: object) -> object:
        parsed.append(path)
        return plain(path, options)

    replace_reader(monkeypatch, read)
    return parsed


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(tmp_path / "v.txt", "a 1 2\nb 3 4\n")


def write(path: Path, content: str, *, settled: bool = False) -> Path:
    path.write_text(content)
    if settled:
        os.utime(path, (LONG_AGO, LONG_AGO))
    return path


def settle(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if every change lay further back than a clock's tick."""
    monkeypatch.setattr(cache, "SETTLED_SECONDS", -1.0)


def entries(folder: Path) -> list[Path]:
    cache.settle()
    return sorted((folder / "vectors").glob("*"))


def test_a_file_is_parsed_once_whatever_its_name(path: Path, reads: list[Path], tmp_path: Path) -> None:
    first, second = Vectors.load(path), Vectors.load(path)
    assert first == second
    assert first.source == second.source
    assert second.source["format"] == "glove"
    assert len(second.source["sha256"]) == 64
    write(tmp_path / "copy.txt", path.read_text())
    assert Vectors.load(tmp_path / "copy.txt").name == "copy.txt"
    assert reads == [path]


def test_changed_content_of_the_same_size_is_parsed_anew(path: Path, reads: list[Path], own_cache: Path) -> None:
    assert Vectors.load(path)["a"][0] == 1
    write(path, "a 9 2\nb 3 4\n")
    assert Vectors.load(path)["a"][0] == 9
    assert len(reads) == len(entries(own_cache)) == 2


def test_a_remembered_hash_is_dropped_when_size_time_or_inode_change(
    path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settle(monkeypatch)
    before = cache.content_hash(path)
    hashed: list[Path] = []
    plain = cache.digest_of
    monkeypatch.setattr(cache, "digest_of", lambda path: hashed.append(path) or plain(path))
    assert cache.content_hash(path) == before
    assert not hashed
    stat = path.stat()
    write(path, "a 9 2\nb 3 4\n")
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # the time of change (ctime) cannot be set back
    assert cache.content_hash(path) != before
    replacement = write(tmp_path / "other", "a 8 2\nb 3 4\n")
    replacement.replace(path)
    assert cache.content_hash(path) == plain(path)
    assert len(hashed) == 2


def test_a_file_changed_a_moment_ago_is_hashed_again(path: Path, own_cache: Path) -> None:
    cache.content_hash(path)
    assert not list((own_cache / "hashes").glob("*"))


@pytest.mark.parametrize("note", ["", "{", "[1]", "{}", '{"identity": null}', "\udcff", "[" * 99_999])
def test_a_damaged_note_of_a_hash_is_ignored(
    note: str, path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(monkeypatch)
    expected = cache.content_hash(path)
    (kept,) = (own_cache / "hashes").glob("*")
    if note == "{}":
        note = kept.read_text().replace("sha256", "sha")
    kept.write_bytes(note.encode(errors="surrogateescape"))
    assert cache.content_hash(path) == expected


@pytest.mark.parametrize("damage", ["empty", "cut", "garbage", "words lost", "folder"])
def test_a_damaged_entry_is_made_anew(damage: str, path: Path, own_cache: Path, reads: list[Path]) -> None:
    Vectors.load(path)
    (kept,) = entries(own_cache)
    whole = kept.read_bytes()
    if damage == "folder":
        kept.unlink()
        kept.mkdir()
    else:
        bad = {
            "empty": b"",
            "cut": whole[:-3],
            "garbage": bytes(len(whole)),
            "words lost": whole.replace(b"a\nb", b"a.b"),
        }
        kept.write_bytes(bad[damage])
    assert Vectors.load(path).words == ("a", "b")
    cache.settle()
    assert Vectors.load(path).words == ("a", "b")
    assert len(reads) == (3 if damage == "folder" else 2)


def test_nothing_is_kept_when_not_wanted_or_when_only_a_part_is_read(path: Path, own_cache: Path) -> None:
    Vectors.load(path, cache=False)
    Vectors.load(path, limit=1)
    assert not list(own_cache.rglob("*"))


def test_what_is_refused_is_not_kept(tmp_path: Path, own_cache: Path) -> None:
    with pytest.raises(FormatError):
        Vectors.load(write(tmp_path / "bad.txt", "a 1 2\nb nan 2\n"))
    assert not entries(own_cache)


@pytest.mark.parametrize("place", ["a file", "below a file", "too long"])
def test_a_cache_that_cannot_be_written_costs_only_time(
    place: str, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(monkeypatch)
    (tmp_path / "file").write_text("")
    folder = {"a file": "file", "below a file": "file/below", "too long": "x" * 300}[place]
    monkeypatch.setenv("EVENHAND_CACHE", str(tmp_path / folder))
    for _ in range(2):
        assert Vectors.load(path).words == ("a", "b")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "v.txt"]


def test_notes_are_reported_again_from_the_cache(tmp_path: Path, reads: list[Path]) -> None:
    path = write(tmp_path / "v.txt", "a 1 2\na 3 4\nz 0 0\n")
    for _ in range(2):
        with pytest.warns(EvenhandWarning) as told:
            made = Vectors.load(path)
        assert [str(warning.message).split(" rows ")[0] for warning in told] == ["v.txt: 1", "v.txt: 1"]
        assert len(made.source["notes"]) == 2
    assert len(reads) == 1


def test_notes_of_an_earlier_file_are_kept_but_not_reported_again(tmp_path: Path) -> None:
    made = quiet_load(write(tmp_path / "v.txt", "a 1 2\na 3 4\nb 5 6\n"))
    again = Vectors.load(made.save(tmp_path / "v.safetensors"))
    assert len(again.source["notes"]) == 1
    assert "repeat" in again.source["notes"][0]


def test_ways_of_reading_do_not_share_an_entry(tmp_path: Path, own_cache: Path) -> None:
    path = tmp_path / "v.vec"
    path.write_bytes(b"2 1\ncaf\xe9 1\nb 2\n")
    assert Vectors.load(path, encoding_errors="replace").words[0] == "caf\ufffd"
    with pytest.raises(FormatError, match="UTF-8"):
        Vectors.load(path)
    assert Vectors.load(path, encoding_errors="replace", format="word2vec").words[0] == "caf\ufffd"
    assert len(entries(own_cache)) == 2


def test_a_file_written_to_while_it_is_parsed_is_not_kept(
    path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = text.read

    def read(path: Path, options: object) -> object:
        parsed = plain(path, options)
        write(path, "a 7 7\nb 7 7\n")
        return parsed

    replace_reader(monkeypatch, read)
    Vectors.load(path)
    assert not entries(own_cache)


def test_a_word_that_the_cache_cannot_hold_is_still_read(tmp_path: Path, own_cache: Path) -> None:
    made = Vectors(["a\nb", "c"], [[1.0], [2.0]])
    path = made.save(tmp_path / "v.bin")
    for _ in range(2):
        assert Vectors.load(path) == made
    assert not entries(own_cache)


def test_the_embedded_vectors_obey_limit_and_case() -> None:
    made = Vectors.load("glove-embedded", limit=100, case="exact")
    assert (len(made), made.case) == (100, "exact")
    assert made.words == Vectors.default().words[:100]
    assert Vectors.load("glove-embedded") is Vectors.default() is files.default()
    assert np.isfinite(made.matrix).all()


def test_a_damaged_entry_is_not_used(own_cache: Path, reads: list[Path], tmp_path: Path) -> None:
    numbers = np.random.default_rng(0).standard_normal((500, 20)).astype(np.float32)
    path = Vectors([f"w{row}" for row in range(500)], numbers).save(tmp_path / "x.txt")
    assert Vectors.load(path) == Vectors.load(path)
    assert len(reads) == 1
    (entry,) = entries(own_cache)
    with entry.open("r+b") as file:
        file.seek(8000)
        file.write(bytes(4096))
    assert np.array_equal(Vectors.load(path).matrix, numbers)
    assert len(reads) == 2
    assert len(entries(own_cache)) == 1
    assert np.array_equal(Vectors.load(path).matrix, numbers)
    assert len(reads) == 2


def test_an_entry_is_synced_before_it_gets_its_name(
    path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    plain = os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda file: (synced.append(len(list(own_cache.rglob("*-*.safetensors")))), plain(file))
    )
    Vectors.load(path)
    assert entries(own_cache)
    assert synced[:1] == [0]


def test_a_load_while_the_entry_is_being_written_does_not_parse_or_wait(
    path: Path, own_cache: Path, reads: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    written = threading.Event()
    plain = os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (written.wait(30), plain(file)))
    first = Vectors.load(path)
    again = Vectors.load(path)
    assert not list(own_cache.rglob("*-*.safetensors"))
    written.set()
    cache.settle()
    assert first == again == Vectors.load(path)
    assert len(reads) == 1


def test_old_leftovers_in_the_cache_are_removed(path: Path, own_cache: Path) -> None:
    (own_cache / "vectors").mkdir()
    old, recent = (own_cache / "vectors" / f".{name}.0123456789ab.partial" for name in ("a", "b"))
    for file in (old, recent):
        file.write_bytes(b"half")
    os.utime(old, (LONG_AGO, LONG_AGO))
    Vectors.load(path)
    cache.settle()
    assert not old.exists()
    assert recent.exists()
