from __future__ import annotations

import errno
import io
import os
import stat
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard
from safetensors.numpy import save_file

from evenhand import Vectors, files
from evenhand.errors import FormatError, InputMissingError, OutputError, UsageError
from evenhand.files import (
    bare_name,
    cache_folder,
    compression_of,
    existing,
    open_bytes,
    output_errors,
    replacing,
    write_text,
    writing,
)

SUFFIXES = ["", ".gz", ".zst", ".xz", ".bz2"]
PACKED = SUFFIXES[1:]
CONTENT = bytes(range(256)) * 20 + b"end"


def write(path: Path, content: bytes) -> Path:
    with writing(path) as out:
        out.write(content)
    return path


def write_half(path: Path, then: BaseException) -> None:
    with writing(path) as out:
        out.write(b"half of the new")
        raise then


def read(path: Path) -> bytes:
    with open_bytes(path) as stream:
        return stream.read()


def leftovers(folder: Path) -> list[str]:
    return [entry.name for entry in folder.iterdir() if entry.name.endswith(".partial")]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_is_written_is_read_back_whole_and_in_pieces(suffix: str, tmp_path: Path) -> None:
    path = write(tmp_path / f"x.txt{suffix}", CONTENT)
    assert read(path) == CONTENT
    assert (path.read_bytes() == CONTENT) == (not suffix)
    with open_bytes(path) as stream:
        assert b"".join(iter(lambda: stream.read(7), b"")) == CONTENT


def test_compression_goes_by_the_last_suffix_in_any_case() -> None:
    assert compression_of(Path("a/b.TXT.GZ")) == ".gz"
    assert bare_name(Path("a/B.Txt.GZ")) == "b.txt"
    assert compression_of(Path("a.gz/b.txt")) == ""
    assert bare_name(Path("b.vec")) == "b.vec"


@pytest.mark.parametrize("suffix", PACKED)
def test_a_compressed_stream_cut_at_any_byte_is_refused_by_name(suffix: str, tmp_path: Path) -> None:
    whole = write(tmp_path / f"x{suffix}", b"a small stream, but with a few different words in it").read_bytes()
    for size in range(len(whole)):
        (tmp_path / f"x{suffix}").write_bytes(whole[:size])
        with pytest.raises(FormatError, match=rf"x\{suffix}.*\n.*fetch"):
            read(tmp_path / f"x{suffix}")


@pytest.mark.parametrize("suffix", PACKED)
def test_a_foreign_stream_is_refused_by_name(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"x{suffix}"
    path.write_bytes(b"plainly not compressed, whatever the name may say")
    with pytest.raises(FormatError, match=rf"x\{suffix}: not a complete .*\n.*rename it"):
        read(path)


@pytest.mark.parametrize("suffix", PACKED)
def test_only_the_stream_is_blamed_for_what_the_stream_does(suffix: str, tmp_path: Path) -> None:
    path = write(tmp_path / f"x{suffix}", CONTENT)
    with pytest.raises(UsageError, match="mine"), open_bytes(path):
        raise UsageError("mine")
    with pytest.raises(ValueError, match=r"^also mine$"), open_bytes(path):
        raise ValueError("also mine")


@pytest.mark.parametrize("suffix", [".gz", ".zst", ".xz", ".bz2"])
def test_several_streams_one_after_the_other_are_one(suffix: str, tmp_path: Path) -> None:
    part = write(tmp_path / f"x{suffix}", b"one two\n").read_bytes()
    (tmp_path / f"x{suffix}").write_bytes(part * 3)
    assert read(tmp_path / f"x{suffix}") == b"one two\n" * 3


def test_a_zstd_stream_is_unpacked_in_bounded_pieces(tmp_path: Path) -> None:
    path = tmp_path / "zeros.zst"
    path.write_bytes(zstandard.ZstdCompressor(level=3).compress(bytes(1 << 24)))
    with open_bytes(path) as stream:
        assert stream.read(10) == bytes(10)


@pytest.mark.parametrize("bad", ["missing.txt", ".", "x" * 300, "a\0b"])
def test_what_is_not_there_is_named(bad: str, tmp_path: Path) -> None:
    with pytest.raises(InputMissingError, match=r"vector file|folder"):
        existing(tmp_path / bad, what="vector file")
    assert InputMissingError.exit_code == 4


def test_a_disk_that_fails_while_reading_is_reported(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"x")
    with (
        pytest.raises(InputMissingError, match=r"x: could not be read \(Input/output error\)"),
        open_bytes(tmp_path / "x"),
    ):
        raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_an_unreadable_file_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x").write_bytes(b"x")
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(InputMissingError, match="is not readable"):
        existing(tmp_path / "x")


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("raised", [ValueError, KeyboardInterrupt, OutputError])
def test_an_exception_inside_leaves_the_old_file_and_nothing_else(
    suffix: str, raised: type[BaseException], tmp_path: Path
) -> None:
    path = tmp_path / f"x{suffix}"
    path.write_bytes(b"old")
    with pytest.raises(raised):
        write_half(path, raised("stop"))
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_full_disk_is_reported_and_leaves_the_old_file(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"x{suffix}"
    path.write_bytes(b"old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match=r"could not be written \(No space left on device\)\n.*space") as caught:
        write(path, b"new")
    assert str(path) in str(caught.value)
    assert path.read_bytes() == b"old"
    assert not leftovers(tmp_path)


def test_dev_full_is_a_real_full_disk() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    with pytest.raises(OutputError), files.output_errors(Path("x")), Path("/dev/full").open("wb", buffering=0) as out:
        out.write(b"x")


def test_a_new_file_has_the_usual_mode_and_a_replaced_one_keeps_its_own(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        fresh = write(tmp_path / "fresh", b"x")
        kept = tmp_path / "kept"
        kept.write_bytes(b"old")
        kept.chmod(0o604)
        write(kept, b"new")
    finally:
        os.umask(old)
    assert stat.S_IMODE(fresh.stat().st_mode) == 0o640
    assert stat.S_IMODE(kept.stat().st_mode) == 0o604


def test_a_link_stays_a_link_and_what_it_points_to_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    real, link = tmp_path / "elsewhere" / "real", tmp_path / "link"
    real.write_bytes(b"old")
    link.symlink_to(real)
    write(link, b"new")
    assert link.is_symlink()
    assert real.read_bytes() == b"new"
    dangling = tmp_path / "dangling"
    dangling.symlink_to(tmp_path / "not yet")
    write(dangling, b"x")
    assert (tmp_path / "not yet").read_bytes() == b"x"


def test_folders_on_the_way_are_made(tmp_path: Path) -> None:
    assert write(tmp_path / "a" / "b" / "c.txt", b"x").read_bytes() == b"x"


def test_a_place_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for bad in (tmp_path / "file" / "below", tmp_path, tmp_path / ("x" * 300)):
        with pytest.raises(OutputError, match="could not be written"):
            write(bad, b"x")
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_long_name_leaves_room_for_the_name_of_the_unfinished_file(tmp_path: Path) -> None:
    name = "ä" * 120  # 240 bytes
    assert write(tmp_path / name, b"x").exists()


def test_two_writers_at_once_do_not_meet(tmp_path: Path) -> None:
    path = tmp_path / "x"
    with replacing(path) as one, replacing(path) as two:
        one.write_bytes(b"one")
        two.write_bytes(b"two")
    assert path.read_bytes() == b"one"  # the block that ends last
    assert not leftovers(tmp_path)


def test_text_is_written_as_utf8(tmp_path: Path) -> None:
    write_text(tmp_path / "x", "ä\n")
    assert (tmp_path / "x").read_bytes() == "ä\n".encode()


def test_the_cache_folder_goes_by_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EVENHAND_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.setenv("EVENHAND_CACHE", "~nobody-of-that-name/x")
    assert str(cache_folder()) == "~nobody-of-that-name/x"
    monkeypatch.delenv("EVENHAND_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "evenhand"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "evenhand"


@pytest.mark.parametrize("opener", files.DECOMPRESSORS.values(), ids=files.DECOMPRESSORS)
def test_no_decompressor_reads_before_it_is_asked_to(opener: Callable[[io.BytesIO], Any]) -> None:
    raw = io.BytesIO(b"not compressed at all")
    opener(raw).close()
    assert raw.tell() == 0


def test_a_pipe_or_device_is_not_replaced_by_a_plain_file(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(OutputError, match=r"pipe: could not be written \(it is not a regular file\)"):
        write(path, b"new")
    assert path.is_fifo()
    assert [entry.name for entry in tmp_path.iterdir()] == ["pipe"]


@pytest.mark.parametrize("level", [1, 19])
@pytest.mark.parametrize("options", [{}, {"write_checksum": True}, {"write_content_size": False}])
def test_every_kind_of_zstd_frame_is_followed(level: int, options: dict[str, bool], tmp_path: Path) -> None:
    frame = zstandard.ZstdCompressor(level=level, **options).compress
    skippable = (0x184D2A53).to_bytes(4, "little") + (5).to_bytes(4, "little") + b"12345"
    raw = frame(CONTENT) + skippable + frame(b"") + frame(bytes(300_000)) + frame(os.urandom(400_000))
    path = tmp_path / "x.zst"
    path.write_bytes(raw)
    assert len(read(path)) == len(CONTENT) + 700_000
    for cut in {*range(1, 40), len(raw) - 1, len(raw) - 5, len(raw) // 2}:
        path.write_bytes(raw[:-cut])
        with pytest.raises(FormatError, match="inside a frame"):
            read(path)


def test_a_zstd_bomb_is_read_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "x.zst"
    path.write_bytes(zstandard.ZstdCompressor().compress(bytes(256 << 20)))
    assert path.stat().st_size < 32_768
    tracemalloc.start()
    try:
        with open_bytes(path) as stream:
            assert sum(len(piece) for piece in iter(lambda: stream.read(1 << 16), b"")) == 256 << 20
        assert tracemalloc.get_traced_memory()[1] < 96 << 20
    finally:
        tracemalloc.stop()


def test_a_named_pipe_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.txt")
    with pytest.raises(InputMissingError, match=r"x\.txt' is a pipe or a device, not a list\n.*/dev/stdin"):
        existing(tmp_path / "x.txt", what="list")


def test_standard_input_may_be_a_pipe() -> None:
    reader, writer = os.pipe()
    os.write(writer, b"abc")
    os.close(writer)
    assert read(Path(f"/dev/fd/{reader}")) == b"abc"
    os.close(reader)


def test_an_interruption_while_the_temporary_file_is_created_leaves_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    created: list[object] = []

    def create(path: Any, *more: int) -> int:
        created.append(path)
        Path(path).write_bytes(b"")
        raise KeyboardInterrupt

    monkeypatch.setattr(files.os, "open", create)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "x.txt", b"new")
    assert created
    assert leftovers(tmp_path) == []


def test_a_file_that_is_written_removes_what_killed_processes_left_a_day_ago(tmp_path: Path) -> None:
    old, recent, other = (tmp_path / f".{name}.partial" for name in ("a.0123456789ab", "b.0123456789ab", "a"))
    for path in (old, recent, other):
        path.write_text("half")
    for path in (old, other):
        os.utime(path, (1_600_000_000, 1_600_000_000))
    write(tmp_path / "x.txt", b"new")
    assert not old.exists()
    assert recent.exists()
    assert other.exists()  # the name is not one of ours


@pytest.mark.parametrize("suffix", [".gz", ".zst", ".bz2", ".xz"])
def test_a_compressed_file_that_is_kept_in_memory_expands_by_a_factor_only(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "LEAST_EXPANSION", 1000)
    path = tmp_path / f"x.txt{suffix}"
    write(path, b"a 1 2\n" * 500_000)
    allowed = files.MAX_EXPANSION * path.stat().st_size
    assert allowed < 3_000_000
    for read_whole in (files.read_utf8, lambda path: Vectors.load(path, cache=False)):
        with pytest.raises(FormatError, match=f"expands to more than {allowed:,} bytes"):
            read_whole(path)
    assert len(read(path)) == 3_000_000  # a stream is not kept


def test_a_full_disk_that_safetensors_reports_is_reported_like_any_other(tmp_path: Path) -> None:
    target = tmp_path / "none" / "x.safetensors"
    said = r"x\.safetensors: could not be written \(Error while serializing: (I/O error|IoError)"
    with pytest.raises(OutputError, match=said), output_errors(target):
        save_file({"a": np.zeros(3)}, target)  # the folder is missing, which it reports in the same way
