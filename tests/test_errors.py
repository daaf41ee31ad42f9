from __future__ import annotations

import pickle

import pytest

from evenhand import errors
from evenhand.errors import EvenhandError, MissingExtraError, require, unknown_name

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
