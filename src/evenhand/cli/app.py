"""The `evenhand` command: its verbs, and how an error becomes a message and an exit code."""

from __future__ import annotations

import errno
import functools
import io
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from evenhand.cli.options import Verb, flags
from evenhand.cli.terminal import flag_of, warnings_as_notes, with_flags, writing_flags
from evenhand.errors import EvenhandError, InputMissingError, arguments_in, shown
from evenhand.version import __version__

if TYPE_CHECKING:
    from typer._click.core import Command

INTERRUPTED = 130  # 128 and the number of the signal
_is_whole_process = False  # whether `main` was called
_ended_by = 0  # the number of the signal that ended the command, other than that of Ctrl-C
# Signals that end a command in good order: SIGTERM, and SIGHUP where there is one, when the terminal is closed.
ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
OUTPUT_FAILURES = (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG, errno.EBADF)
SUMMARY = (
    "Measure social bias in word vectors, inference models, language models and text; remove it; see what the removal "
    "did and what it cost."
)


class VerbPlace(NamedTuple):
    """Where a verb is defined, and its line in `evenhand --help`, for which it is not imported."""

    target: str  # module and function, or module and dictionary of the functions of its parts
    summary: str


VERBS = {
    "audit": VerbPlace(
        "audit:audit", "Measure subjects before and after each method; print the findings and write one page."
    ),
    "measure": VerbPlace("measure:measure", "Run one measure and explain its number."),
    "debias": VerbPlace(
        "debias:debias",
        "Remove a concept from vectors, a model or a corpus and write the result, or compare all methods.",
    ),
    "compare": VerbPlace(
        "runs:compare",
        "Compare two subjects, or several saved audits: what differs beyond the intervals, then every row.",
    ),
    "probe": VerbPlace("probe:probe", "Ask a model about sentences that differ in one word, and score its answers."),
    "explain": VerbPlace(
        "measure:explain", "Show which layers and tokens of a model decide that it scores two texts differently."
    ),
    "report": VerbPlace(
        "runs:report", "Write the report of a saved audit, a comparison of several, or the figures of an audit."
    ),
    "serve": VerbPlace(
        "serve:serve",
        "Serve a page on this machine: browse and compare runs, explore vectors and models, start small audits.",
    ),
    "check": VerbPlace("runs:check", "Check a saved audit against limits; exits with 3 if any is exceeded."),
    "list": VerbPlace(
        "catalog:listing", "List measures, methods, probes, models, word lists, data sets or file formats."
    ),
    "show": VerbPlace(
        "catalog:show",
        "Show details of a measure, method, probe, model, word list or data set, the findings of a run, or a server.",
    ),
    "fetch": VerbPlace("fetch:fetch", "Download data sets and vectors from the catalog."),
    "convert": VerbPlace(
        "convert:convert", "Convert vectors to another format, or a model into a Hugging Face folder."
    ),
    "import": VerbPlace("runs:IMPORTS", "Read the logs of lm-eval and inspect as audits, to check and compare them."),
    "reproduce": VerbPlace("reproduce:reproduce", "Show what the papers print beside ours, and whether it agrees."),
    "concept": VerbPlace("concept:VERBS", "Check, show and list concepts, or export them as tasks of lm-eval."),
    "corpus": VerbPlace("corpus:VERBS", "Bias in text: which words co-occur more with which group."),
    "lm": VerbPlace("lm:VERBS", "Language models: train (optionally with a bias penalty), sample and measure."),
    "nli": VerbPlace("nli:VERBS", "Train and evaluate NLI models."),
}


class _Commands(Mapping[str, "Command"]):
    """The commands by verb; the module of a verb is imported when its command is first asked for."""

    def __getitem__(self, verb: str) -> Command:
        if verb not in VERBS:
            raise KeyError(verb)
        return command_of(verb)

    def __iter__(self) -> Iterator[str]:
        return iter(VERBS)

    def __len__(self) -> int:
        return len(VERBS)


class _Verbs(TyperGroup):
    """The command without a verb: it lists the verbs by their summaries, and imports the one that is used."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _Commands()  # type: ignore[assignment]  # nothing is added to it

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        """Return the verbs in the order of the help."""
        return list(VERBS)

    def get_command(self, ctx: typer.Context, cmd_name: str) -> Command | None:  # type: ignore[override]
        """Return a command with a name and a summary, which is what a list of commands shows."""
        return TyperCommand(cmd_name, help=VERBS[cmd_name].summary) if cmd_name in VERBS else None

    def resolve_command(self, ctx: typer.Context, args: list[str]) -> tuple[str | None, Command | None, list[str]]:  # type: ignore[override]
        """Return the command to run with its arguments."""
        name, found, rest = super().resolve_command(ctx, args)
        return name, self.commands[name] if name else found, rest


def functions_of(verb: str) -> dict[str, Verb]:
    """Import a verb and return its functions by name: one, or those of its parts (`corpus bias`)."""
    module, _, name = VERBS[verb].target.partition(":")
    found = getattr(import_module(f"evenhand.cli.verbs.{module}"), name)
    return {f"{verb} {part}": one for part, one in found.items()} if isinstance(found, dict) else {verb: found}


@functools.cache
def command_of(verb: str) -> Command:
    """Return the command of a verb, with errors as messages and exit codes."""
    functions = functions_of(verb)
    several = _typer(verb, help=VERBS[verb].summary)
    for name, function in functions.items():
        several.command(name.rpartition(" ")[2])(guarded(function))
    return typer.main.get_command(several)


def guarded(verb: Verb) -> Verb:
    """Turn our errors into a message on stderr and their exit code; a traceback only with EVENHAND_DEBUG=1."""

    @functools.wraps(verb)
    def run(*args: object, **kwargs: object) -> None:
        try:
            with writing_flags(flags(verb)), warnings_as_notes():
                verb(*args, **kwargs)
            sys.stdout.flush()  # here, so that its errors are handled below
        except EvenhandError as error:
            if os.environ.get("EVENHAND_DEBUG"):
                raise
            typer.echo(message(error, verb), err=True)
            raise typer.Exit(error.exit_code) from None
        except KeyboardInterrupt as stopped:  # long work says in it what was kept and how to go on
            _ignore_interrupts()
            what = "terminated" if _ended_by else "interrupted"
            typer.echo(f"{stopped}\n{what}" if str(stopped) else what, err=True)
            raise typer.Exit(_interrupted_code()) from None
        except OSError as error:
            raise typer.Exit(_failed(error)) from None

    return run


def message(error: EvenhandError, verb: Verb) -> str:
    """Return an error with its arguments as options, and which verb has those that this one lacks.

    Errors come from code that many verbs share.
    """
    known, lines = flags(verb), []
    for argument in arguments_in(str(error)):
        if flag_of(argument, known) is None and (owners := _owners(argument)):
            name, flag = owners[-1]
            known = {**known, argument: flag}
            lines.append(f"\n  {flag} is an option of `evenhand {name}`")
    text = with_flags(str(error), known, settable="--set" in known.values())
    return f"error: {text}{''.join(lines)}"


def _owners(argument: str) -> list[tuple[str, str]]:
    """Return the verbs that have an option for an argument, with the option; parts of verbs if no verb has one."""
    found = [
        (name, flag)
        for verb in VERBS
        for name, function in functions_of(verb).items()
        if (flag := flag_of(argument, flags(function)))
    ]
    return [(name, flag) for name, flag in found if name in VERBS] or found


def _failed(error: OSError) -> int:
    """Say that the output could not be written, or no file has such a name, and return the exit code.

    Other errors are raised again.
    """
    if isinstance(error, BrokenPipeError):  # the reader of our output went away, as `| head` does
        _discard_stdout()
        return 0
    if error.errno == errno.ENAMETOOLONG:
        typer.echo(f"error: {shown(error.filename)} is too long for the name of a file", err=True)
        return InputMissingError.exit_code
    if error.errno not in OUTPUT_FAILURES:
        raise error
    _discard_stdout()
    typer.echo(f"error: the output could not be written ({error.strerror})", err=True)
    return 1


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


def _typer(name: str, *, kind: type[TyperGroup] = TyperGroup, help: str | None = None) -> typer.Typer:
    """Return a command of commands; errors of ours are no tracebacks."""
    return typer.Typer(
        name=name, cls=kind, help=help, no_args_is_help=True, add_completion=kind is _Verbs, rich_markup_mode="rich",
        pretty_exceptions_enable=False,
    )  # fmt: skip


app = _typer("evenhand", kind=_Verbs)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"evenhand {__version__}")
        raise typer.Exit


@app.callback(help=SUMMARY)
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


def _reopen_closed_streams() -> None:
    """Occupy the numbers of standard streams that are closed (`>&-`): a file would get them and be written into.

    What a verb then writes to stdout fails as on a full disk; a verb that writes none works.
    """
    while (number := os.open(os.devnull, os.O_RDONLY)) < 3:
        pass
    os.close(number)
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123


def main() -> None:
    """Entry point of the installed command."""
    global _is_whole_process
    _is_whole_process = True
    _reopen_closed_streams()
    for number in ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as `nohup` lets a command outlive its terminal
            signal.signal(number, _terminate)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a console without UTF-8 shows ? for an arrow
    try:
        try:
            app()
        finally:
            sys.stdout.flush()  # the help, which no verb writes
    except SystemExit as stop:  # typer takes an interruption outside of a verb for Ctrl-C
        if _ended_by and stop.code == INTERRUPTED:
            raise SystemExit(_interrupted_code()) from None
        raise
    except OSError as error:
        raise SystemExit(_failed(error)) from None
