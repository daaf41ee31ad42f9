"""A run is a folder: `audit.json` when it is done, `results.jsonl` while it is going."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evenhand.audit.manifest import SCHEMA
from evenhand.audit.record import Audit, Result, Stage
from evenhand.errors import FormatError, InputMissingError
from evenhand.files import write_text

FILE = "audit.json"
UNDER_WAY = "results.jsonl"


def save(audit: Audit, folder: Path) -> Path:
    """Write the whole record and remove the file of the run under way."""
    target = folder / FILE
    write_text(target, json.dumps(audit.to_dict(), indent=1, allow_nan=False) + "\n")
    (folder / UNDER_WAY).unlink(missing_ok=True)
    return target


def load(path: Path) -> Audit:
    """Read a saved audit."""
    file = path / FILE if path.is_dir() else path
    if not file.exists():
        raise InputMissingError(f"there is no audit in {str(path)!r}", hint="`evenhand audit -o FOLDER` writes one")
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
        return from_dict(record)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"{file}: not a whole audit ({error!r})", hint="run the audit again") from error


def from_dict(record: Mapping[str, Any]) -> Audit:
    """The record from plain data."""
    schema = record["manifest"]["schema"]
    if schema != SCHEMA:
        raise FormatError(f"the audit has schema {schema}, this version reads {SCHEMA}", hint="run the audit again")
    stages = tuple(Stage(stage["name"], stage["report"]) for stage in record["stages"])
    return Audit(record["manifest"], stages, tuple(Result.from_dict(result) for result in record["results"]))


class Journal:
    """Finished measurements of a run under way, one line each, so that an interrupted run loses at most one."""

    def __init__(self, folder: Path, key: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / UNDER_WAY
        self.done = self._read(key)
        if not self.done:
            write_text(self._path, json.dumps({"key": key}) + "\n")

    def _read(self, key: str) -> dict[tuple[str, str], Result]:
        """What an earlier run of the same plan on the same vectors finished; a half-written last line is dropped."""
        if not self._path.exists():
            return {}
        lines = self._path.read_text(encoding="utf-8").split("\n")
        if _parse(lines[0]).get("key") != key:
            return {}
        results = [Result.from_dict(record) for line in lines[1:-1] if (record := _parse(line))]
        whole = "".join(line + "\n" for line in lines[:-1] if _parse(line))
        write_text(self._path, whole)
        return {(result.stage, result.case.label): result for result in results}

    def add(self, result: Result) -> None:
        """Append one finished measurement."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(result.to_dict(), allow_nan=False) + "\n")


def _parse(line: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except ValueError:
        return {}
    return record if isinstance(record, dict) else {}
