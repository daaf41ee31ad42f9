"""Which files a path means, and how large they are."""

import gzip
import os

import pytest

from evenhand.corpus.readers.paths import IN_FOLDERS, Size, expand, open_stream, size_of, suffix
from evenhand.errors import FormatError, InputMissingError, UsageError

pytest.importorskip("fsspec")


def made(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    return folder


def names(found, folder):
    return [os.path.relpath(name, folder) for name in found]


def test_a_folder_means_its_text_files_in_order(tmp_path):
    every = [f"f{kind}" for kind in IN_FOLDERS]
    others = ["b.TXT", "sub/a.txt.gz", "c.warc.wet.gz"]
    left = ["x.pdf", ".hidden.txt", "dataset_info.json", "state.json", "dataset_dict.json", "noname", "y.gz"]
    made(tmp_path, *every, *others, *left)
    assert names(expand(tmp_path), tmp_path) == sorted([*every, *others])
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputMissingError, match="no text file in this folder"):
        expand(tmp_path / "empty")


def test_files_come_once_and_in_the_order_given(tmp_path):
    made(tmp_path, "b.txt", "a.txt", "c[1].txt", "d/e.txt", "d/f.md")
    a, b = str(tmp_path / "a.txt"), str(tmp_path / "b.txt")
    assert expand([b, a, b, tmp_path / "a.txt"]) == (b, a)
    assert names(expand(str(tmp_path / "[ab].txt")), tmp_path) == ["a.txt", "b.txt"]
    assert names(expand(str(tmp_path / "c[1].txt")), tmp_path) == ["c[1].txt"]
    assert names(expand(str(tmp_path / "**" / "*.md")), tmp_path) == ["d/f.md"]
    assert names(expand(str(tmp_path / "*")), tmp_path) == ["a.txt", "b.txt", "c[1].txt"]
    assert expand("https://x.org/a.txt") == ("https://x.org/a.txt",)
    found = expand(f"file://{tmp_path}/*.txt")
    assert [address.rpartition("/")[2] for address in found] == ["a.txt", "b.txt", "c[1].txt"]
    for wrong, kind, message in (
        ([], UsageError, "no file to read"),
        ([3], UsageError, "a int is not a path"),
        (str(tmp_path / "*.pdf"), InputMissingError, "no file matches"),
        (str(tmp_path / "gone.txt"), InputMissingError, "does not exist"),
    ):
        with pytest.raises(kind, match=message):
            expand(wrong)


def test_a_pipe_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="is not a regular file"):
        expand(tmp_path / "pipe")


def test_the_suffix_is_that_of_the_content():
    assert [suffix(name) for name in ("a.TXT", "a.jsonl.gz", "a.warc.wet", "a.gz", "a", "b/a.csv.zst")] == [
        *(".txt", ".jsonl", ".wet"),
        *("", "", ".csv"),
    ]


def test_sizes_of_files_and_addresses(tmp_path):
    plain, packed = tmp_path / "a.txt", tmp_path / "a.txt.gz"
    plain.write_text("abc")
    packed.write_bytes(gzip.compress(b"abc"))
    stored = packed.stat().st_size
    assert size_of(str(plain)) == size_of(f"file://{plain}") == Size(3, True)
    assert size_of(str(packed)) == size_of(f"file://{packed}") == Size(stored, False)
    for gone in (str(tmp_path / "gone"), f"file://{tmp_path}/gone", "nokind://x"):
        assert size_of(gone) == Size(None, False)
    for path in (plain, packed):
        for address in (str(path), f"file://{path}"):
            with open_stream(address) as stream:
                assert stream.read() == b"abc"
    with pytest.raises(FormatError, match="could not be read"), open_stream(f"file://{tmp_path}/gone"):
        pass


@pytest.mark.parametrize(
    ("info", "size"),
    [
        ({"size": 5}, Size(5, True)),
        ({"size": 5, "partial": True}, Size(5, True)),
        ({"size": 5, "partial": False}, Size(5, False)),
        ({"size": None}, Size(None, False)),
        ({}, Size(None, False)),
    ],
)
def test_a_server_may_send_whole_files_only(monkeypatch, info, size):
    class Files:
        def info(self, path):
            return info

    monkeypatch.setattr("fsspec.core.url_to_fs", lambda address: (Files(), address))
    assert size_of("https://x.org/a.txt") == size
    packed = size_of("https://x.org/a.txt.gz")
    assert packed == Size(size.stored, False)
