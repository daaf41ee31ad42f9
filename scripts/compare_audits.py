"""Compare two audits score by score: the largest relative differences, and what exceeds the documented tolerance.

    python scripts/compare_audits.py runs/one runs/two      # exit status 1 if a number exceeds the tolerance

A score has four numbers: value, lower and upper bound of the interval, and p-value. docs/explanation/reproducibility.md
says what the tolerance is and what was compared.
"""

import math
import sys
from collections.abc import Mapping
from typing import TypeAlias

import evenhand as eh

Numbers: TypeAlias = Mapping[str, list[float | None]]

RELATIVE, ABSOLUTE = 1e-5, 1e-6  # whichever is larger
ITERATED = ("clustering", "recoverability", "nli", "mab", "rnsb")  # rest on an iteration: 100 times as much
FIELDS = ("value", "lower", "upper", "p-value")


def numbers(audit: eh.Audit) -> dict[str, list[float | None]]:
    """Return the numbers of each row of an audit, by label and stage."""
    return {
        f"{result.label} @ {result.stage}": [
            result.measurement.value, *(result.measurement.interval or (None, None)), result.measurement.p_value,
        ]
        for result in audit.results
    }  # fmt: skip


def close(one: float | None, other: float | None, row: str) -> bool:
    """Return whether two numbers of a row agree within the tolerance."""
    if one is None or other is None:
        return one is other
    factor = 100 if row.startswith(ITERATED) else 1
    return math.isclose(one, other, rel_tol=factor * RELATIVE, abs_tol=factor * ABSOLUTE)


def relative(one: float | None, other: float | None) -> float:
    """Return the difference over the larger of both; infinite where only one of them exists."""
    if one is None or other is None:
        return 0.0 if one is other else math.inf
    return abs(one - other) / max(abs(one), abs(other)) if one != other else 0.0


def exceeding(found: Numbers, recorded: Numbers) -> list[str]:
    """Return the rows of `found` that are not as recorded, or not recorded."""
    return [
        f"{row}: {values}, recorded {recorded.get(row)}"
        for row, values in found.items()
        if row not in recorded or not all(close(a, b, row) for a, b in zip(values, recorded[row], strict=True))
    ]


def main(first: str, second: str) -> int:
    """Print the comparison; return the exit status."""
    one, two = (numbers(eh.Audit.load(path)) for path in (first, second))
    shared = [row for row in one if row in two]
    differences = sorted(
        (
            (relative(a, b), row, field)
            for row in shared
            for a, b, field in zip(one[row], two[row], FIELDS, strict=True)
        ),
        reverse=True,
    )
    equal = sum(one[row] == two[row] for row in shared)
    print(f"{len(shared)} scores in both, {equal} identical in every digit")
    for row in sorted(one.keys() ^ two.keys()):
        print(f"only in one of them: {row}")
    for difference, row, field in differences[:10]:
        if difference:
            print(f"{difference:.1e}  {field} of {row}")
    failed = exceeding(one, two) + [row for row in two if row not in one]
    print(f"{len(failed)} scores differ by more than the tolerance", *failed, sep="\n  ")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
