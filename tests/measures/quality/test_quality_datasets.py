from __future__ import annotations

from pathlib import Path

import pytest

from evenhand import measures
from evenhand.errors import FormatError, InputMissingError, UnknownNameError, UsageError
from evenhand.measures.quality.rated_sets import local_ids, questions, rated_pairs


def written(folder: Path, text: str, name: str = "mine.tsv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "text",
    [
        "car\tautomobile\t3.9\nice cream\tdog\t1\n",
        "# a comment\nword1\tword2\tscore\ncar\tautomobile\t3.9\n\nice cream\tdog\t1.0\tnotes\n",
    ],
)
def test_pairs_are_read_with_headings_comments_and_phrases(tmp_path: Path, text: str) -> None:
    read = rated_pairs(written(tmp_path, text))
    assert read.name == "mine"
    assert read.pairs == (("car", "automobile"), ("ice cream", "dog"))
    assert read.ratings.tolist() == [3.9, 1.0]
    assert rated_pairs(read) is read


@pytest.mark.parametrize("text", ["car automobile 3.9", "car,automobile, 3.9", "\ufeffcar automobile 3.9\r\n"])
def test_blanks_and_commas_separate_too(tmp_path: Path, text: str) -> None:
    assert rated_pairs(written(tmp_path, text)).pairs == (("car", "automobile"),)


def test_a_line_that_is_not_a_pair_is_named(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"mine\.tsv, line 2.*'car dog'"):
        rated_pairs(written(tmp_path, "a b 1\ncar dog\n"))
    with pytest.raises(FormatError, match="line 2"):
        rated_pairs(written(tmp_path, "a b 1\nc d nan\n"))
    with pytest.raises(FormatError, match="has no pairs"):
        rated_pairs(written(tmp_path, "# nothing\n"))
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9 bar 1\n")
    with pytest.raises(FormatError, match=r"latin\.txt is not UTF-8"):
        rated_pairs(tmp_path / "latin.txt")


def test_questions_have_sections(tmp_path: Path) -> None:
    read = questions(written(tmp_path, "a b c d\n: gram1 x\ne f g h\n"))
    assert read.questions == (("a", "b", "c", "d"), ("e", "f", "g", "h"))
    assert read.sections == ("all", "gram1 x")
    with pytest.raises(FormatError, match="line 1: 3 words"):
        questions(written(tmp_path, "a b c\n"))
    with pytest.raises(FormatError, match="has no questions"):
        questions(written(tmp_path, ": empty\n"))


def test_missing_sets_are_named(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="no similarity set 'rg-66'") as caught:
        rated_pairs("rg-66")
    assert "rg-65" in caught.value.hint
    with pytest.raises(UnknownNameError, match="no analogy set 'rg-65'"):
        questions("rg-65")
    with pytest.raises(InputMissingError, match=r"gone\.tsv"):
        rated_pairs(tmp_path / "gone.tsv")
    written(tmp_path, "a b 1")
    with pytest.raises(UsageError, match="folder of several sets") as folder:
        rated_pairs(tmp_path)
    assert "mine.tsv" in folder.value.hint


def test_a_set_is_offered_only_when_it_is_on_this_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVENHAND_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("EVENHAND_DATA", str(tmp_path))
    assert local_ids("similarity", ("yp-130",)) == ()
    (tmp_path / "similarity").mkdir()
    lines = "".join(f"a{i}\tb{i}\t{i}.00000\n" for i in range(200))
    written(tmp_path / "similarity", lines[:2614], "EN-YP-130.txt")
    assert local_ids("similarity", ("yp-130", "ws-353")) == ("yp-130",)
    assert local_ids("analogy", ("yp-130",)) == ()


def test_two_sets_are_part_of_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EVENHAND_DATA", raising=False)
    assert local_ids("similarity", ("rg-65", "mc-30", "ws-353")) == ("rg-65", "mc-30")
    assert rated_pairs("rg-65").pairs[2] == ("automobile", "car")
    assert (len(rated_pairs("rg-65").pairs), len(rated_pairs("mc-30").pairs)) == (65, 30)
    assert rated_pairs("mc-30").ratings.max() == 3.92
    assert measures.info("similarity").default_queries() == ("rg-65", "mc-30")
    assert measures.info("analogy").default_queries() == ()


@pytest.mark.data
@pytest.mark.parametrize(("id", "file"), [("rg-65", "EN-RG-65.txt"), ("mc-30", "EN-MC-30.txt")])
def test_the_rows_of_the_package_are_those_of_the_collection(
    id: str, file: str, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin = rated_pairs(data_folder / "similarity" / file)
    monkeypatch.delenv("EVENHAND_DATA")
    monkeypatch.setenv("EVENHAND_CACHE", "/nonexistent")
    packaged = rated_pairs(id)
    assert packaged.pairs == origin.pairs
    assert packaged.ratings.tolist() == origin.ratings.tolist()
