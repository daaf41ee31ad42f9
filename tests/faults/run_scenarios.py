"""Commands that write audit records, reports, figures and pages."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable
from pathlib import Path

from fault_scenario import add, command, done, write_vectors

AUDIT = ("audit", "in.txt", "--measure", "direct-bias", "--measure", "ripa", "-m", "linear", "-m", "hard", "-o", "run")


def prepared(*arguments: str) -> Callable[[Path], None]:
    """Return a function that runs a command on one set of vectors and leaves another for the trials."""

    def prepare(folder: Path) -> None:
        write_vectors(folder / "in.txt", 1)
        write_vectors(folder / "other.txt", 3)
        done(folder, *arguments)
        write_vectors(folder / "in.txt", 2)

    return prepare


def read_audit(folder: Path, name: str = "run") -> object:
    """Return the values of an audit."""
    from evenhand import Audit

    found = Audit.load(folder / name)
    rows = [
        [r.label, r.stage, r.measurement.value, r.measurement.interval, r.measurement.reason] for r in found.results
    ]
    return json.loads(json.dumps([[subject["sha256"] for subject in found.manifest["subjects"]], rows]))


def digest(*names: str) -> Callable[[Path], object]:
    """Return a function that reads files as they are."""

    def read(folder: Path) -> object:
        return [hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names]

    return read


add("audit", prepared(*AUDIT), command(*AUDIT), read_audit, same_bytes=False, shares=True)
PLAN = ("audit", "in.txt", "--measure", "direct-bias", "-m", "linear", "--write-plan", "plan.toml")


def _planned(folder: Path) -> None:
    write_vectors(folder / "in.txt", 1)
    (folder / "plan.toml").write_text("an earlier plan")


add("audit-plan", _planned, command(*PLAN), digest("plan.toml"), shares=True)
SWEEP = ("debias", "in.txt", "--sweep", "-o", "run")
add("debias-sweep", prepared(*SWEEP), command(*SWEEP), read_audit, same_bytes=False, shares=True)
PROBE = ("probe", "embedded", "--probe", "gender-occupation", "--sample", "20", "-o", "run")


def _two_runs(folder: Path) -> None:
    write_vectors(folder / "in.txt", 1)
    done(folder, *AUDIT)
    write_vectors(folder / "in.txt", 2)
    done(folder, *AUDIT[:-1], "run2")
    for name in ("r.html", "r.md", "card.md", "r.json", "pages/comparison.html"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("an earlier page")


for _name, _out, _more in (
    ("report-html", "r.html", ()),
    ("report-markdown", "r.md", ("--format", "markdown")),
    ("report-card", "card.md", ("--format", "model-card")),
    ("report-json", "r.json", ("--format", "json")),
    ("report-comparison", "r.html", ("run2",)),
):
    add(_name, _two_runs, command("report", "run", *_more, "--out", _out), digest(_out), shares=True)

COMPARE_RUNS = ("compare", "run", "run2", "-o", "pages")
COMPARE = ("compare", "in.txt", "other.txt", "--measure", "direct-bias", "-o", "run")
add("compare-runs", _two_runs, command(*COMPARE_RUNS), digest("pages/comparison.html"), shares=True)
add("compare-subjects", prepared(*COMPARE), command(*COMPARE), read_audit, same_bytes=False, shares=True)
DRAWN = ("audit", "in.txt", "--measure", "direct-bias", "--measure", "clustering", "-m", "linear", "-o")


def _drawn(folder: Path) -> None:
    for number, name in enumerate(("run", "run2")):
        write_vectors(folder / "in.txt", number)
        done(folder, *DRAWN, name)
    done(folder, "report", "run", "--figures", "pictures")
    done(folder, "report", "run", "--figure", "clusters", "--out", "f.json")


add(
    "figure", _drawn, command("report", "run2", "--figure", "clusters", "--out", "f.json"), digest("f.json"),
    shares=True,
)  # fmt: skip


def _read_pictures(folder: Path) -> object:
    texts = [path.read_text() for path in sorted((folder / "pictures").glob("*.svg"))]
    if not all(text.rstrip().endswith("</svg>") for text in texts):
        raise ValueError("half a picture")
    return hashlib.sha256(texts[-1].encode()).hexdigest()


add("figures", _drawn, command("report", "run2", "--figures", "pictures"), _read_pictures, shares=True)


def _probed(folder: Path) -> None:
    done(folder, *PROBE, "--seed", "1")


add("probe", _probed, command(*PROBE), read_audit, same_bytes=False, shares=True)


def _exported(name: str, folder: Path) -> None:
    done(folder, "probe", "--probe", "mab-explicit", "--sample", "100", "--export", name, "--seed", "1")


def _read_data_set(folder: Path) -> object:
    import polars as pl

    from evenhand.errors import InputMissingError

    if not (folder / "pairs" / "README.md").exists():
        raise InputMissingError("there is no data set")
    return pl.read_parquet(folder / "pairs" / "data" / "*.parquet").hash_rows().sum()


for _name in ("pairs", "pairs.jsonl", "pairs.csv", "pairs.parquet"):
    add(
        f"probe-export-{_name.partition('.')[2] or 'folder'}", functools.partial(_exported, _name),
        command("probe", "--probe", "mab-explicit", "--sample", "200", "--export", _name),
        _read_data_set if _name == "pairs" else digest(_name), shares=_name != "pairs",
    )  # fmt: skip


def _page_audit(folder: Path) -> int:
    """Run an audit as the page does, in the process that the page starts for it."""
    from multiprocessing import Pipe

    from evenhand.web.audits import AuditRequest, run_audit

    receive, send = Pipe(duplex=False)
    request = AuditRequest("in.txt", {}, "in", "gender", ("linear",), ("direct-bias", "ripa"), folder / "run")
    run_audit(send, request)
    messages = []
    while receive.poll():
        messages.append(receive.recv())
    return 0 if messages[-1][0] == "done" else 1


def _page_audited(folder: Path) -> None:
    write_vectors(folder / "in.txt", 1)
    _page_audit(folder)
    write_vectors(folder / "in.txt", 2)


add(
    "serve-audit", _page_audited, _page_audit, read_audit, same_bytes=False, shares=True, catches_signals=False,
    needs=("starlette",),
)  # fmt: skip
