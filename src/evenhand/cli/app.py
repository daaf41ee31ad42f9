"""The `evenhand` command: its verbs, and how an error becomes a message and an exit code."""

from __future__ import annotations

import errno
import functools
import io
import os
import re
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from typer.models import OptionInfo

from evenhand import __version__
from evenhand.cli.options import warnings_as_notes
from evenhand.cli.verbs.audit import audit
from evenhand.cli.verbs.check import check
from evenhand.cli.verbs.compare import compare
from evenhand.cli.verbs.concept import sub_app as concept
from evenhand.cli.verbs.convert import convert
from evenhand.cli.verbs.corpus import sub_app as corpus
from evenhand.cli.verbs.debias import debias
from evenhand.cli.verbs.fetch import fetch
from evenhand.cli.verbs.list import listing
from evenhand.cli.verbs.lm import sub_app as lm
from evenhand.cli.verbs.measure import measure
from evenhand.cli.verbs.nli import sub_app as nli
from evenhand.cli.verbs.probe import probe
from evenhand.cli.verbs.report import report
from evenhand.cli.verbs.reproduce import reproduce
from evenhand.cli.verbs.serve import serve
from evenhand.cli.verbs.show import show
from evenhand.errors import EvenhandError, InputMissingError, shown

INTERRUPTED = 130  # 128 and the number of the signal
_is_whole_process = False  # whether `main` was called
_ended_by = 0  # the number of the signal that ended the command, other than that of Ctrl-C
# Signals that end a command in good order: SIGTERM, and SIGHUP where there is one, when the terminal is closed.
ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
QUOTED = re.compile(r"`[^`]*`")  # a command of its own
OUTPUT_FAILURES = (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG)
VERBS: dict[str, Callable[..., None]] = {
    "audit": audit,
    "measure": measure,
    "debias": debias,
    "compare": compare,
    "probe": probe,
    "report": report,
    "serve": serve,
    "check": check,
    "list": listing,
    "show": show,
    "fetch": fetch,
    "convert": convert,
    "reproduce": reproduce,
}
TOLD = (
    "Measure social bias in word vectors, inference models, language models and text; remove it; see what the removal "
    "did and what it cost."
)
app = typer.Typer(
    name="evenhand",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def _guarded(verb: Callable[..., None]) -> Callable[..., None]:
    """Turn our errors into a message on stderr and their exit code; a traceback only with EVENHAND_DEBUG=1."""

    @functools.wraps(verb)
    def run(*args: Any, **kwargs: Any) -> None:
        try:
            with warnings_as_notes():
                verb(*args, **kwargs)
            sys.stdout.flush()  # here, so that its errors are handled below
        except EvenhandError as error:
            if os.environ.get("EVENHAND_DEBUG"):
                raise
            typer.echo(f"error: {error}{_owners_of_options(error.hint, verb)}", err=True)
            raise typer.Exit(error.exit_code) from None
        except KeyboardInterrupt as stopped:  # long work says in it what was kept and how to go on
            _ignore_interrupts()
            what = "terminated" if _ended_by else "interrupted"
            typer.echo(f"{stopped}\n{what}" if str(stopped) else what, err=True)
            raise typer.Exit(_interrupted_code()) from None
        except BrokenPipeError:  # the reader of our output went away, as `| head` does
            _discard_stdout()
            raise typer.Exit(0) from None
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                typer.echo(f"error: a name is too long for a file: {shown(str(error.filename))}", err=True)
                raise typer.Exit(InputMissingError.exit_code) from None
            if error.errno not in OUTPUT_FAILURES:
                raise
            _discard_stdout()
            typer.echo(f"error: the output could not be written ({error.strerror})", err=True)
            raise typer.Exit(1) from None

    return run


def _owners_of_options(hint: str, verb: Callable[..., None]) -> str:
    """Return which verb has an option that a hint names and this verb lacks; hints come from code of many verbs."""
    named = OPTION.findall(QUOTED.sub("", hint))
    missing = [name for name in dict.fromkeys(named) if name not in option_names(verb)]
    owners = {name: [owner for owner, other in VERBS.items() if name in option_names(other)] for name in missing}
    return "".join(f"\n  {name} is an option of `evenhand {some[-1]}`" for name, some in owners.items() if some)


def option_names(verb: Callable[..., None]) -> set[str]:
    """Return the options of a verb as they are written, such as --encoding-errors."""
    names = set()
    for parameter, hint in get_type_hints(verb, include_extras=True).items():
        for item in getattr(hint, "__metadata__", ()):
            if isinstance(item, OptionInfo):
                declared = [item.default, *(item.param_decls or ())]  # in Annotated the first name is in `default`
                written = {name for name in declared if isinstance(name, str) and name.startswith("-")}
                names |= written or {f"--{parameter.replace('_', '-')}"}
    return names


def _ignore_interrupts() -> None:
    """Let the command end in peace: a second Ctrl-C while it ends would print a traceback.

    Only where this is the whole process: a program that calls the commands keeps its own handler.
    """
    if _is_whole_process and threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, *ENDING):
            signal.signal(number, signal.SIG_IGN)


def _interrupted_code() -> int:
    return 128 + _ended_by if _ended_by else INTERRUPTED


def _discard_stdout() -> None:
    """Let the interpreter flush what is left of the output without another error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


for _name, _verb in VERBS.items():
    app.command(_name)(_guarded(_verb))
app.add_typer(concept(_guarded), name="concept")
app.add_typer(corpus(_guarded), name="corpus")
app.add_typer(lm(_guarded), name="lm")
app.add_typer(nli(_guarded), name="nli")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"evenhand {__version__}")
        raise typer.Exit


@app.callback(help=TOLD)
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """The command without a verb."""


def _terminate(number: int, frame: object) -> None:
    """Stop as Ctrl-C does, so that temporary files are removed and the message says how to go on."""
    global _ended_by
    _ended_by = number
    raise KeyboardInterrupt


def main() -> None:
    """Entry point of the installed command."""
    global _is_whole_process
    _is_whole_process = True
    for number in ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as `nohup` lets a command outlive its terminal
            signal.signal(number, _terminate)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the shell, as `>&-` does
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a console without UTF-8 shows ? for an arrow
    try:
        app()
    except SystemExit as stop:  # typer takes an interruption outside of a verb for Ctrl-C
        if _ended_by and stop.code == INTERRUPTED:
            raise SystemExit(_interrupted_code()) from None
        raise
