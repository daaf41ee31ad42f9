"""What an operation of the benchmark is. Imports the standard library only: it also runs where the other tools live."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

Call = Callable[[], object]
Setup = Callable[[Path], Call]


@dataclass(frozen=True)
class Work:
    """The least that a machine must do for an operation: arithmetic of matrix products, and bytes of memory moved."""

    flop: float = 0.0
    bytes: float = 0.0
    why: str = ""


@dataclass(frozen=True)
class Operation:
    """Something that a user waits for, done by evenhand and by another tool.

    A side is a function of the folder with the inputs. It sets everything up and returns a call, which is timed alone;
    the process as a whole is timed too. The values of the two calls must agree within `tolerance`, unless it is None.
    """

    title: str
    ours: Setup
    theirs: Setup | None = None
    peer: str = "evenhand"
    """The environment in which the other side runs; the naive way to do the same runs in our own."""
    peer_name: str = ""
    theirs_share: float = 1.0
    """The part of the work that the other side does; its time is divided by it, and the table says so."""
    tolerance: float | None = None
    bar: float | None = None
    """The ratio that was promised."""
    work: Callable[[int], Work] | None = None
    growth: str = ""
    """What is doubled in the table of growth."""
    repeats: int = 5
