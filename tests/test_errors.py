"""Errors name the value and the remedy; words and file names in them reach the terminal without control sequences."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from evenhand import Vectors, errors
from evenhand.errors import (
    EvenhandError,
    FormatError,
    MissingExtraError,
    VocabularyError,
    escape_markup,
    printable,
    require,
    unknown_name,
)

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, EvenhandError)]
EXIT_CODES = {
    "EvenhandError": 1,
    "DegenerateError": 1,
    "TextTooLongError": 2,
    "MissingExtraError": 1,
    "OutputError": 1,
    "UsageError": 2,
    "UnknownNameError": 2,
    "WorkerError": 1,
    "FormatError": 4,
    "InputMissingError": 4,
    "FetchError": 4,
    "VocabularyError": 4,
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_error_shows_its_message_and_hint_and_crosses_a_process_border(kind: type[EvenhandError]) -> None:
    error = kind("the file is odd", hint="mend it")
    again = pickle.loads(pickle.dumps(error))
    for each in (error, again):
        assert type(each) is kind
        assert str(each) == "the file is odd\n  hint: mend it"
        assert (each.message, each.hint) == ("the file is odd", "mend it")
    assert str(kind("bare")) == "bare"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_error_has_the_exit_code_of_the_command_line(kind: type[EvenhandError]) -> None:
    assert kind.exit_code == EXIT_CODES[kind.__name__]


def test_each_child_is_the_builtin_error_one_would_expect() -> None:
    expected = {
        "FormatError": ValueError,
        "InputMissingError": FileNotFoundError,
        "OutputError": OSError,
        "VocabularyError": KeyError,
        "UsageError": ValueError,
        "MissingExtraError": ImportError,
    }
    for name, builtin in expected.items():
        assert issubclass(getattr(errors, name), builtin)


def test_an_unknown_name_suggests_the_nearest_and_otherwise_lists_some() -> None:
    assert "did you mean: weat" in str(unknown_name("measure", "waet", ["weat", "ripa"]))
    assert "known: ripa, weat" in str(unknown_name("measure", "zzzzzz", ["weat", "ripa"]))


def test_a_missing_package_is_named_with_the_line_that_installs_it() -> None:
    assert require("json", extra="none") is __import__("json")
    with pytest.raises(MissingExtraError, match=r"'no_such_package'.*not installed\n.*evenhand\[gensim\]"):
        require("no_such_package.inside", extra="gensim")


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
