"""Words and file names reach the terminal without control sequences, bidirectional controls or markup."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from evenhand import Vectors
from evenhand.errors import EvenhandError, FormatError, VocabularyError
from evenhand.printable import escape_markup, printable

HOSTILE = ["\x1b[31m", "a\rb", "\x9b2J", "\u202eevil", "\u2066x", "\x07", "\x00", "\ud800", "\u2028", "\x7f"]


@pytest.mark.parametrize("text", HOSTILE)
def test_unsafe_characters_become_visible(text: str) -> None:
    result = printable(text)
    assert result.isprintable()
    assert "\\" in result


@pytest.mark.parametrize(
    "text", ["nurse", "Krankenschwester\n\tzwei", "看護師", "[0.1, 0.2]", "a\\b", "e\u0301", "👩\u200d⚕️"]
)
def test_ordinary_text_is_unchanged(text: str) -> None:
    assert printable(text) == text


@pytest.mark.parametrize("word", HOSTILE)
def test_errors_that_quote_words_are_printable(word: str) -> None:
    error = VocabularyError(f"{word} is missing", hint=f"try {word}")
    assert str(error).replace("\n", "").isprintable()
    assert error.message.isprintable()
    assert error.hint.isprintable()


def test_errors_that_quote_file_names_are_printable(tmp_path: Path) -> None:
    path = tmp_path / "\x1b[2J\u202e.txt"
    path.write_bytes(b"a 1 x\n")
    with pytest.raises(FormatError) as caught:
        Vectors.load(path)
    assert str(caught.value).replace("\n", "").isprintable()
    assert r"\x1b[2J\u202e.txt" in str(caught.value)


def test_a_failed_save_names_the_requested_file(tmp_path: Path) -> None:
    with pytest.raises(EvenhandError) as caught:
        Vectors(["a b\n"], [[1.0]]).save(tmp_path / "\x1b.txt")
    assert ".partial" not in caught.value.message


@pytest.mark.parametrize(
    "text", [r"\[/foo]", "[/foo]", r"\\[/foo]", "[bold]", "[link=file:///x]y", "\\", "\\\\\\", "[", "]["]
)
def test_markup_is_printed_literally(text: str) -> None:
    shown = Text.from_markup(f"[dim]{escape_markup(text)}[/]")
    assert shown.plain.rstrip("\\") == text.rstrip("\\")
    assert [span.style for span in shown.spans] in (["dim"], [])


@given(st.text(alphabet="[]\\/abz@#=,1 ", max_size=12))
def test_no_text_breaks_the_markup_around_it(text: str) -> None:
    shown = Text.from_markup(f"[dim]{escape_markup(text)}[/]|")
    assert shown.plain.endswith("|")
    assert all(span.style == "dim" for span in shown.spans)
