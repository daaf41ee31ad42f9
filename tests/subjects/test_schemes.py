"""The kind in front of the colon decides, whatever the name of the file looks like."""

from pathlib import Path

import pytest

import evenhand as eh
from evenhand.errors import EvenhandError, InputMissingError

LINES = "she is a nurse\nhe is a doctor\n"


@pytest.mark.parametrize("name", ["text.txt", "text.jsonl", "text.json", "text"])
def test_a_corpus_may_have_the_suffix_of_another_kind(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(LINES)
    subject = eh.open(f"corpus:{tmp_path / name}")
    assert subject.kind == "corpus"
    assert subject.offers == ("text",)


def test_vectors_may_have_the_suffix_of_another_kind(tmp_path: Path) -> None:
    (tmp_path / "vectors.jsonl").write_text("she 1 2\nhe 3 4\n")
    assert eh.open(f"vectors:{tmp_path / 'vectors.jsonl'}").view("vectors").words == ("she", "he")


@pytest.mark.parametrize("scheme", ["corpus", "vectors", "nli", "lm", "hf"])
def test_a_scheme_before_nothing_is_an_error_of_the_package(scheme: str, tmp_path: Path) -> None:
    with pytest.raises(EvenhandError, match="nothing"):
        eh.open(f"{scheme}:{tmp_path / 'nothing.txt'}").digest  # noqa: B018


def test_a_letter_before_a_colon_is_part_of_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputMissingError, match="x:nothing"):
        eh.open("x:nothing")
