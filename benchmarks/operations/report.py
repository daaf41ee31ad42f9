"""The page of an audit."""

from pathlib import Path

from operation import Call, Operation, Sizes

ABOUT = "an audit of the embedded GloVe vectors with WEAT, made for the run"
SIZES = {"queries": 8}
GROWTH = {"queries": 1}
TINY = {"queries": 1}


def prepare(folder: Path, sizes: Sizes) -> None:
    """Audit the embedded vectors: one cell for each of three stages, and each query."""
    import subprocess
    import sys

    queries = [part for number in range(1, sizes["queries"] + 1) for part in ("--query", f"weat-{number}")]
    command = [sys.executable, "-m", "evenhand", "audit", "--measure", "weat", *queries, "--out", str(folder / "run")]
    subprocess.run(command, check=True, capture_output=True)


def _page(folder: Path) -> Call:
    from evenhand.audit import Audit
    from evenhand.report.html import page

    audit = Audit.load(folder / "run")
    return lambda: len(page(audit))


OPERATIONS = {
    "report": Operation(
        "the HTML page of an audit, {queries} queries before and after two methods",
        _page,
        growth=("queries",),
        warm=True,
    ),
}
