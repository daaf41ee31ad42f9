"""A dot for each word before and after a method, as numbers that a template draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LEFT, WIDTH, ROW, MARGIN = 130.0, 640.0, 19.0, 24.0


@dataclass(frozen=True)
class Dot:
    """A row of the plot in the coordinates of its view box."""

    word: str
    y: float
    before: float
    after: float | None


@dataclass(frozen=True)
class DotPlot:
    """Rows, size and the positions of zero and of the two ends."""

    dots: tuple[Dot, ...]
    height: float
    zero: float
    limit: float
    low: str
    high: str
    left: float = LEFT
    width: float = WIDTH


def dot_plot(
    words: Sequence[str], before: Sequence[float], after: Sequence[float] | None, *, poles: tuple[str, str]
) -> DotPlot:
    """Lay out words on one scale that is symmetric about 0.

    Args:
        words: the words from top to bottom.
        before: a value for each word.
        after: a value for each word after a method; None without one.
        poles: names of the positive and of the negative end.
    """
    later = list(after) if after is not None else []
    limit = max([abs(value) for value in (*before, *later)], default=0.0) or 1.0
    middle, half = (LEFT + WIDTH) / 2, (WIDTH - LEFT) / 2 - 12

    def x(value: float) -> float:
        return round(middle + half * value / limit, 1)

    dots = tuple(
        Dot(word, round(MARGIN + ROW * (row + 0.5), 1), x(before[row]), x(later[row]) if later else None)
        for row, word in enumerate(words)
    )
    return DotPlot(dots, MARGIN + ROW * len(words) + 6, middle, limit, poles[1], poles[0])
