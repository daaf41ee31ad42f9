"""Groups of options become options of a verb, and arguments in messages become options."""

from __future__ import annotations

import ast
import inspect
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from evenhand import cli
from evenhand.cli.app import functions_of, message
from evenhand.cli.options import Only, flags, given_flags, with_groups
from evenhand.cli.terminal import arguments_named, with_flags
from evenhand.errors import UsageError


@dataclass(frozen=True)
class Size:
    width: Annotated[int, typer.Option(help="How wide.")] = 3
    depth: Annotated[int | None, typer.Option("--deep", "-d", help="How deep.", show_default="all")] = None


SEEN: list[tuple[str, Size, bool]] = []


@with_groups
def both(name: str, *, size: Size, quiet: Annotated[bool, typer.Option("--quiet")] = False) -> None:
    """Take a name and a size."""
    SEEN.append((name, size, quiet))


@with_groups
def one(name: str, *, size: Annotated[Size, Only("depth")]) -> None:
    """Take a name and a part of a size."""
    SEEN.append((name, size, False))


def call(verb: object, *arguments: str) -> int:
    app = typer.Typer()
    app.command()(verb)  # type: ignore[arg-type]
    return CliRunner().invoke(app, list(arguments)).exit_code


def test_the_options_of_a_group_stand_in_its_place() -> None:
    assert list(inspect.signature(both).parameters) == ["name", "width", "depth", "quiet"]
    assert flags(both) == {"width": "--width", "depth": "--deep", "quiet": "--quiet"}
    assert call(both, "a", "--width", "5", "-d", "2", "--quiet") == 0
    assert call(both, "b") == 0
    assert SEEN[-2:] == [("a", Size(5, 2), True), ("b", Size(), False)]


def test_a_verb_may_have_some_options_of_a_group() -> None:
    assert flags(one) == {"depth": "--deep"}
    assert call(one, "a", "--deep", "2") == 0
    assert SEEN[-1] == ("a", Size(3, 2), False)
    assert call(one, "a", "--width", "5") == 2


def test_options_that_were_given_are_named() -> None:
    assert given_flags(Size()) == []
    assert given_flags(Size(width=0, depth=1)) == ["--width", "--deep"]


FLAGS = {"skip_bad": "--skip-bad", "encoding_errors": "--encoding-errors", "max_record": "--max-record",
         "labels": "--labels", "format": "--format", "map_file": "--map", "measure": "--measure"}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("`skip_bad=True` to skip it", "--skip-bad to skip it"),
        ("read it with `encoding_errors='replace'`", "read it with --encoding-errors replace"),
        ('read it with `encoding_errors="replace"`', "read it with --encoding-errors replace"),
        ("a larger `max_record=` allows it", "a larger --max-record (in MB) allows it"),
        ('`labels=("c", "n", "e")`', "--labels c,n,e"),
        ("name another `format=`", "name another --format"),
        ("give the same map, `change=`", "give the same map, --map"),
        ("corpus-bias (`measures=`)", "corpus-bias (--measure)"),
        ("`text=corpus.txt`", "`text=corpus.txt`"),
        ("run `evenhand audit --plan a=b`", "run `evenhand audit --plan a=b`"),
    ],
)
def test_arguments_in_messages_are_written_as_options(text: str, shown: str) -> None:
    assert with_flags(text, FLAGS) == shown


def test_an_argument_of_a_method_is_set() -> None:
    error = UsageError("needs a text", hint="`text=corpus.txt`")
    assert message(error, functions_of("debias")["debias"]).endswith("hint: --set text=corpus.txt")
    assert message(error, functions_of("audit")["audit"]).endswith("hint: `text=corpus.txt`")


def test_a_verb_may_name_an_argument_otherwise() -> None:
    with pytest.raises(UsageError) as caught, arguments_named(labels="outputs"):
        raise UsageError("unknown order", hint="give `labels='c,n,e'`")
    assert str(caught.value) == "unknown order\n  hint: give `outputs='c,n,e'`"
    evaluate = functions_of("nli")["nli eval"]
    assert message(caught.value, evaluate) == "error: unknown order\n  hint: give --outputs c,n,e"


def test_no_option_is_written_twice() -> None:
    texts = [
        (*map(ast.unparse, node.args), ast.unparse(keyword.value))
        for file in Path(cli.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        for keyword in getattr(node, "keywords", ())
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("typer.Option", "typer.Argument")
        if keyword.arg == "help"
    ]
    assert len(texts) > 150
    assert sorted(text for text, count in Counter(texts).items() if count > 1) == []
