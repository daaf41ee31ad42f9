"""What a scenario is: a command that writes, on a small input, with what an earlier command left."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

WORDS = ("she", "he", "woman", "man", "nurse", "doctor", "cook", "pilot", "her", "him", "home", "work", "art", "code")


@dataclass(frozen=True)
class Scenario:
    """A command that writes.

    Attributes:
        name: of the scenario.
        prepare: writes the inputs and an earlier result into a folder.
        run: the command; it is called in the folder and returns an exit code.
        read: what a reader gets from the result, as plain data; an error if there is none.
        kept: whether `prepare` left an earlier result, which must stay readable until the new one replaces it.
        repeats: whether the earlier result is the same as the new one, as that of a cache is.
        same_bytes: whether a repeated run writes the same bytes; records hold times.
        ignores_errors: whether the command succeeds although it cannot write, as a cache does.
        keeps_in_cache: whether the result itself lies in the cache.
        shares: whether several processes may run the command at once and all succeed.
        catches_signals: whether SIGINT and SIGTERM end it with an exit code.
        lost: what the command says when a process that it has started is killed, where that one is the victim.
        refuses_again: whether the command refuses to replace its complete result.
        warm: computes what does not touch files and is kept by the process.
        modules: imported before the trials, so that each trial does not import them.
        needs: packages without which the scenario is left out.
    """

    name: str
    prepare: Callable[[Path], None]
    run: Callable[[Path], int]
    read: Callable[[Path], object]
    kept: bool = True
    repeats: bool = False
    same_bytes: bool = True
    ignores_errors: bool = False
    keeps_in_cache: bool = False
    shares: bool = False
    catches_signals: bool = True
    lost: str = ""
    refuses_again: bool = False
    warm: Callable[[], object] | None = None
    modules: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()

    @property
    def arguments(self) -> tuple[str, ...]:
        """The arguments of the command line; none for a call of the library."""
        return tuple(getattr(self.run, "arguments", ()))


SCENARIOS: dict[str, Scenario] = {}


def command(*arguments: str) -> Callable[[Path], int]:
    """Return a call of the command line in the folder of the trial."""

    def run(folder: Path) -> int:
        from evenhand.cli import main

        sys.argv = ["evenhand", *arguments]
        code: object = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code
        for thread in threading.enumerate():  # as the interpreter does at its end
            if thread is not threading.current_thread() and not thread.daemon and thread.is_alive():
                thread.join()
        return int(code or 0)  # type: ignore[call-overload, no-any-return]

    run.arguments = arguments  # type: ignore[attr-defined]
    return run


def add(
    name: str,
    prepare: Callable[[Path], None],
    run: Callable[[Path], int],
    read: Callable[[Path], object],
    **more: object,
) -> None:
    """Register a scenario."""
    SCENARIOS[name] = Scenario(name, prepare, run, read, **more)  # type: ignore[arg-type]


def done(folder: Path, *arguments: str) -> None:
    """Run a command that prepares something."""
    if code := command(*arguments)(folder):
        raise RuntimeError(f"{arguments}: exit {code}")


def write_vectors(path: Path, seed: int, words: tuple[str, ...] = WORDS) -> None:
    """Write vectors as plain text, without evenhand."""
    rows = np.random.default_rng(seed).standard_normal((len(words), 20))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "".join(f"{word} {' '.join(f'{x:.5f}' for x in row)}\n" for word, row in zip(words, rows, strict=True))
    )


def write_corpus(folder: Path, seed: int) -> None:
    """Write three files of text."""
    rng = np.random.default_rng(seed)
    (folder / "texts").mkdir(exist_ok=True)
    for number in range(3):
        lines = [" ".join(rng.choice(WORDS, 12)) for _ in range(100)]
        (folder / "texts" / f"{number}.txt").write_text("\n".join(lines) + "\n")
