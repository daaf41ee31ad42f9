"""Records, cells and stages whose digest fits whatever they say, and how every command shows them.

Whoever edits a record can also sign it, so a digest proves nothing about types. The bytes of the fuzzer are the content;
the digest is added here.
"""

from __future__ import annotations

import functools
import io
import json
from collections.abc import Callable
from pathlib import Path

import fuzz_seeds as seeds
from fuzz_targets import JSON_TOKENS, target

STAGES = ("original", "linear")
WORDS = ("nurse", "cook", "pilot")
MANIFEST = {
    "run": "run", "concept": {"name": "gender", "digest": "0"}, "evenhand": "0", "created": "2026-01-01", "python": "3",
    "subjects": [{"name": "s", "kind": "vectors", "offers": ["vectors"], "address": "s", "sha256": "0"}],
    "arguments": {"effective": {"seed": 7, "methods": ["linear"]}, "given": {}}, "packages": {}, "status": "done",
    "seconds": 1.0, "warnings": [], "skipped": {}, "cells_computed": 0,
}  # fmt: skip


def _values(**columns: float) -> list[dict[str, object]]:
    return [
        {"word": word, "value": (row - 1) / 20} | {name: start + row / 50 for name, start in columns.items()}
        for row, word in enumerate(WORDS)
    ]


SCREE = {"shares": [0.6, 0.4], "random": [0.5, 0.5], "random_low": [0.5, 0.4], "random_high": [0.6, 0.5], "pairs": 2}
MEAN = {"mean": 0.4, "interval": [0.3, 0.5]}
COLUMNS = [[1.0, 0.2, 0.04, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0, 0.1, 0.01], [1.0, 0.3, 0.09, 0.0, 0.0, 0.0]]
UNITS = [
    {"statistic": "effect-size", "unit": "word", "count": 3, "factor": 1.0, "names": list(WORDS), "columns": COLUMNS},
    {
        "statistic": "ratios",
        "unit": "pair",
        "count": 2,
        "factor": 100.0,
        "names": ["a", "b"],
        "columns": [[1, 0], [1, 1]],
    },
]
# For each chart a question that fills it: measure, query, and what the cell has beside a value.
QUESTIONS: tuple[tuple[str, str, dict[str, object]], ...] = (
    ("weat", "weat-6", {"positive": "Male names with Career", "units": UNITS, "details": {"statistic": 0.2}}),
    ("direct-bias", "professions", {"items": _values(across=0.1), "details": {
        "groups": {"female": [0.2, 0.3], "male": [-0.2, -0.3]}, "scree": SCREE | {"draws": 10}}}),
    ("ripa", "professions", {"items": _values()}),
    ("clustering", "vocabulary", {"items": _values(cluster=0, x=-0.5, y=-0.2), "params": {"pair": ["she", "he"]}}),
    ("neighbours", "professions", {"items": _values(neighbours=0.1), "details": {"k": 10}}),
    ("occupation-share", "occupations", {"items": _values(share=5.0)}),
    ("nli-neutrality", "gender-occupation", {"details": {"scores": {"net_neutral": MEAN, "T:0.5": MEAN}}}),
    ("nli-gap", "gender-occupation", {
        "score": "entailment", "items": _values(first=0.1, second=0.3), "details": {"groups": ["female", "male"]}}),
    ("seat", "sent-weat6", {"positive": "x"}),
    ("layer-bias", "weat-6", {"items": _values()}),
    ("crows-pairs", "crows-pairs", {"value": 60.0, "interval": [50.0, 70.0]}),
    ("pronoun-share", "occupations", {"score": "pearson", "items": _values(share=0.1)}),
    ("winogender", "winogender", {"score": "share-correlation", "items": _values(share=5.0)}),
    ("counterfactual", "texts", {"score": "gap", "items": [{"text": "a she", "other": "a he", "value": 0.2}]}),
    ("corpus-bias", "words", {"score": "beta", "items": _values(first=-0.2), "details": {"intercept": 0.0}}),
    ("similarity", "men", {}),
)  # fmt: skip


def _result(measure: str, query: str, more: dict[str, object], stage: str) -> dict[str, object]:
    from evenhand.audit import Question
    from evenhand.audit.record import Result
    from evenhand.measures import Measurement
    from evenhand.models.vectors import Coverage

    plain = Measurement(measure, 0.4, 24, Coverage(()), query=query, interval=(0.2, 0.6), positive="female")
    question = Question(measure, query, {})
    row = Result("s", stage, question, plain).to_dict() | {"p_value": 0.01, **more}
    return row | {"label": question.label(str(row["score"]))}


@functools.cache
def records() -> list[bytes]:
    """Return records of two questions each, on two stages, without digests."""
    made = []
    for first, second in zip(QUESTIONS[::2], QUESTIONS[1::2], strict=True):
        results = [_result(*question, stage) for question in (first, second) for stage in STAGES]
        stages = [
            {"name": name, "subject": "s", "report": {"rank": 1} if name != "original" else {}} for name in STAGES
        ]
        made.append(json.dumps({"schema": 3, "manifest": MANIFEST, "stages": stages, "results": results}).encode())
    return made


def signed_record(data: bytes) -> bytes:
    """Return a record with the digest that fits it."""
    from evenhand.audit.record import signed

    try:
        content = json.loads(data)
        return json.dumps(signed(content)).encode()
    except (ValueError, RecursionError, AttributeError, TypeError):
        return data


FREE = ("details", "items", "params", "options", "units", "value", "interval", "p_value", "n", "positive", "note")


@functools.cache
def free_parts() -> list[bytes]:
    """Return for each question what its cells hold of no fixed type, and numbers; the frame around it stays valid."""
    made = []
    for number, question in enumerate(QUESTIONS):
        cells = [{name: _result(*question, stage)[name] for name in FREE} for stage in STAGES]
        made.append(json.dumps({"question": number, "cells": cells, "report": {"rank": 1}, "given": {}}).encode())
    return made


def framed_record(data: bytes) -> bytes:
    """Return a signed record of these parts; what cannot be put into the frame is left out."""
    try:
        parts = json.loads(data)
        parts = parts if isinstance(parts, dict) else {"cells": parts}
        record = json.dumps(_record_of(parts))
    except (ValueError, RecursionError):
        return data
    return signed_record(record.encode())


def _record_of(parts: dict[str, object]) -> dict[str, object]:
    number, cells = parts.get("question"), parts.get("cells")
    question = QUESTIONS[number % len(QUESTIONS) if isinstance(number, int) else 1]
    free = [cell for cell in cells if isinstance(cell, dict)] if isinstance(cells, list) else []
    results = []
    for place, stage in enumerate(STAGES):
        row, cell = _result(*question, stage), free[place % len(free)] if free else {}
        for name in FREE:  # a value of another type than its frame is refused at once, which `record-load` tries
            if name in cell and (row[name] is None or isinstance(cell[name], type(row[name]))):
                row[name] = cell[name]
        results.append(row)
    given, report = ({} if not isinstance(parts.get(name), dict) else parts[name] for name in ("given", "report"))
    manifest = {**MANIFEST, "arguments": {"effective": {"seed": 7, "methods": ["linear"]}, "given": given}}
    stages = [{"name": name, "subject": "s", "report": report} for name in STAGES]
    return {"schema": 3, "manifest": manifest, "stages": stages, "results": results}


def _load(path: Path) -> object:
    from evenhand import Audit

    return Audit.load(path.parent)


def _printed(audit: object) -> object:
    """What `evenhand show RUN --tables` prints, and `evenhand audit` when it ends."""
    from rich.console import Console

    from evenhand.report.terminal import audit_summary, audit_tables

    console = Console(file=io.StringIO(), width=80)
    console.print(*audit_summary(audit))  # type: ignore[arg-type]
    console.print(*audit_tables(audit))  # type: ignore[arg-type]
    return console


def _written(audit: object) -> object:
    """What `evenhand report` writes, but for the drawing of its charts."""
    from evenhand.report import charts
    from evenhand.report.markdown import markdown, model_card

    drawn = [figure for name in audit.subjects for figure in charts.figures(audit, name)]  # type: ignore[attr-defined]
    for figure in drawn:
        json.dumps(figure.spec, allow_nan=False)
    return markdown(audit), model_card(audit), drawn  # type: ignore[arg-type]


def _compared(audit: object) -> object:
    """What `evenhand compare` and `evenhand check --baseline` make of it beside a plain record."""
    from evenhand import Audit
    from evenhand.audit import check, compare
    from evenhand.audit.record import from_dict, signed
    from evenhand.report.markdown import runs_markdown
    from evenhand.report.run_comparison import compare_runs

    assert isinstance(audit, Audit)
    plain = [from_dict(signed(json.loads(record))) for record in records()]
    known = {result.label for result in audit.results}
    other = next((one for one in plain if known & {result.label for result in one.results}), plain[0])
    both = runs_markdown(compare_runs({"a": other, "b": audit}))
    limits = check(audit, maximum=[f"{audit.labels[0]}=0.5"] if audit.labels else (), baseline=other)
    return both, compare(other, audit), compare(audit, other), limits


SHOWN: dict[str, Callable[[object], object]] = {"print": _printed, "report": _written, "compare": _compared}
for _name, _show in SHOWN.items():
    target(f"record-{_name}", "audit.json", free_parts, wrap=framed_record, tokens=JSON_TOKENS)(
        functools.partial(lambda show, path: show(_load(path)), _show)
    )
target("record-load", "audit.json", records, wrap=signed_record, tokens=JSON_TOKENS)(_load)


@target("record-page", "audit.json", free_parts, wrap=framed_record, tokens=JSON_TOKENS, needs=("starlette",))
def _served(path: Path) -> object:
    """The pages of `evenhand serve` about a run."""
    from fuzz_pages import RunPages

    return RunPages.of(path.parent).ask()


def _with_digest(data: bytes, kind: str) -> bytes:
    from evenhand.audit.schema import content_digest

    try:
        content = json.loads(data)
        return json.dumps({"sha256": content_digest([kind, "k", content]), "content": content}).encode()
    except (ValueError, RecursionError):
        return data


@functools.cache
def cells() -> list[bytes]:
    """Return cells with items, details and units."""
    from evenhand.audit.cells import ROW_ONLY

    made = []
    for question in QUESTIONS:
        row = _result(*question, "original")
        plain = {name: value for name, value in row.items() if name not in ROW_ONLY}
        made.append(json.dumps({"measurements": [plain], "warnings": ["a note"]}).encode())
    return made


@target("cell-signed", "cells/k.json", cells, beside={"cells/note": b""}, tokens=JSON_TOKENS,
        wrap=functools.partial(_with_digest, kind="cells"))  # fmt: skip
def _cell(path: Path) -> object:
    from evenhand.audit.cells import CellStore

    cell = CellStore(path.parents[1]).cell("k")
    return None if cell is None else json.dumps(cell.to_dict(), allow_nan=False)


@target("stage-signed", "stages/k.json", lambda: [json.dumps(_stage()).encode()], beside={"stages/note": b""},
        tokens=JSON_TOKENS, wrap=functools.partial(_with_digest, kind="stages"))  # fmt: skip
def _stage_file(path: Path) -> object:
    from evenhand.audit.cells import CellStore

    return CellStore(path.parents[1]).stage("k")


def _stage() -> dict[str, object]:
    report = dict(seeds._audit().stages[-1].report)
    return {**report, "warnings": ["a note"]}


def plans() -> list[bytes]:
    """Return plans with every kind of entry."""
    return [
        *seeds.plans(),
        b'subjects = ["glove-embedded"]\nmethods = ["linear", "hard.misp"]\nseed = 3\nbudget = "3m"\n[[question]]\n'
        b'measure = "weat"\nquery = "weat-6"\n[[question]]\nmeasure = "direct-bias"\noptions = { c = 0.5 }\n',
    ]


PLAN_TOKENS = (b"[[question]]\n", b"measure = ", b"query = ", b"options = { ", b"methods = [", b"subjects = [",
               b"seed = ", b"concept = ", b"nan", b"inf", b"1979-05-27", b"{how = 1}", b"[1]", b'"weat"', b"true")  # fmt: skip


@target("plan-questions", "plan.toml", plans, tokens=PLAN_TOKENS)
def _plan(path: Path) -> object:
    from evenhand.audit.plan import Plan

    plan = Plan.read(path)
    return json.dumps(plan.to_dict()), [question.label("") for question in plan.questions]


# Readers of 0.5 ----------------------------------------------------------------------------------------------------


def _shipped(name: str, most: int) -> list[bytes]:
    """Return the beginning of a shipped file, up to a whole table."""
    import evenhand.words.scenarios as package

    text = (Path(str(package.__file__)).parent / name).read_text(encoding="utf-8")
    cut = text.rfind("\n[[", 0, most)
    return [text[: cut if cut > 0 else most].encode()]


@target("scenario-toml", "s.toml", lambda: _shipped("scenarios.toml", 6000), tokens=PLAN_TOKENS)
def _scenarios(path: Path) -> object:
    from evenhand.words.scenarios.scenario import scenario_set

    return scenario_set(path)


@target("documents-toml", "d.toml", lambda: _shipped("documents.toml", 6000), tokens=PLAN_TOKENS)
def _documents(path: Path) -> object:
    from evenhand.words.scenarios.documents import document_set

    return document_set(path)


TABLE = "prediction,label,score,sex,age\n1,1,0.9,f,20\n0,1,0.2,m,30\n1,0,0.7,f,\n0,0,0.1,m,40\n"
TABLE_LINES = "".join(
    json.dumps({"prediction": n % 2, "label": n % 3 > 0, "score": n / 9, "sex": "fm"[n % 2]}) + "\n" for n in range(6)
)


def _table(path: Path) -> object:
    import evenhand as eh

    subject = eh.open(f"table:{path}")
    return [subject.view(name) for name in subject.offers]


target("table-csv", "t.csv", lambda: [TABLE.encode()], tokens=(b",", b"\n", b'"', b"nan", b"inf", b"\0", b"\xff"))(
    _table
)
target("table-jsonl", "t.jsonl", lambda: [TABLE_LINES.encode()], tokens=JSON_TOKENS)(_table)
