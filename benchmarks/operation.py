"""What an operation of the benchmark is. Imports the standard library only: it also runs where the other tools live."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

Call = Callable[[], object]
Setup = Callable[[Path], Call]
Sizes = Mapping[str, int]


class DataMissingError(Exception):
    """An operation needs data that are not on this disk; it is skipped with this message."""


@dataclass(frozen=True)
class Work:
    """The least that a machine must do for an operation.

    Args:
        flop: floating point operations of matrix products in single precision.
        copied: bytes read from and written to memory.
        read: bytes read from a file in the page cache.
        lookups: random reads from a table of 8 MB.
        starts: starts of a process that imports numpy.
        bare_starts: starts of a process that imports nothing.
        why: what is counted, in words.
    """

    flop: float = 0.0
    copied: float = 0.0
    read: float = 0.0
    lookups: float = 0.0
    starts: float = 0.0
    bare_starts: float = 0.0
    why: str = ""


@dataclass(frozen=True)
class Operation:
    """Something that a user waits for, done by evenhand and by another tool.

    A side is a function of the folder with the inputs. It sets everything up, imports included, and returns a call,
    which is timed alone; the process as a whole, from its start to the result, is timed too.

    Args:
        title: the row of the table; "{words}" and other sizes are filled in.
        ours: our side.
        theirs: the other side, or None.
        peer: the environment of the other side; "evenhand" is our own.
        peer_name: what the other side is.
        share: the part of the work that the other side does; its time is divided by it.
        extrapolated: what the share is, in words.
        tolerance: largest absolute or relative difference of the two results; None where they are not comparable.
        bar: the ratio that was promised.
        bar_of: what the bar is about: the operation alone or the whole process.
        work: the least work, given the sizes.
        growth: the sizes that are doubled in the table of growth.
        warm: time the second call of a process; the first one is part of the whole process only.
        sizes: sizes that differ from those of the module.
        repeats: most repeats, for an operation that takes minutes.
    """

    title: str
    ours: Setup
    theirs: Setup | None = None
    peer: str = "evenhand"
    peer_name: str = ""
    share: Callable[[Sizes], float] = lambda _: 1.0
    extrapolated: str = ""
    tolerance: float | None = None
    bar: float | None = None
    bar_of: str = "operation"
    work: Callable[[Sizes], Work] | None = None
    growth: tuple[str, ...] = ()
    warm: bool = False
    sizes: Sizes = field(default_factory=dict)
    repeats: int | None = None
