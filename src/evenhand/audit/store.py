"""A run is a folder: `cells/` and `stages/` while it runs and afterwards, `audit.json` when it is complete."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evenhand.audit.record import Audit, Result, Stage
from evenhand.audit.validation import DIGEST, UNREADABLE, content_digest, refuse_constant, require_valid
from evenhand.errors import EvenhandError, EvenhandWarning, FormatError, InputMissingError
from evenhand.files import require_inside, write_text

SCHEMA = 3
FILE = "audit.json"
# What records of schema 1 may lack.
OLD_MANIFEST = {
    "run": "", "created": "", "evenhand": "0.1", "python": "", "packages": {}, "status": "done", "seconds": 0,
    "warnings": [], "skipped": {}, "cells_computed": 0,
}  # fmt: skip


def save(audit: Audit, folder: Path) -> Path:
    """Write the whole record."""
    target = require_inside(folder / FILE, folder)
    write_text(target, json.dumps(audit.to_dict(), indent=1, allow_nan=False) + "\n")
    return target


def load(path: Path) -> Audit:
    """Read a saved audit of this or an earlier schema."""
    file = path / FILE if path.is_dir() else path
    if not file.is_file():
        raise InputMissingError(f"there is no audit in {str(path)!r}", hint="`evenhand audit -o FOLDER` writes one")
    try:
        return from_dict(json.loads(file.read_text(encoding="utf-8"), parse_constant=refuse_constant))
    except FormatError as error:
        raise FormatError(f"{file}: {error.message}", hint=error.hint) from error
    except UNREADABLE as error:
        if isinstance(error, EvenhandError):
            raise
        raise FormatError(f"{file}: not a whole audit ({type(error).__name__})", hint="run the audit again") from error


def from_dict(record: Mapping[str, Any]) -> Audit:
    """Build the record from plain data.

    Raises:
        FormatError: If it does not follow the schema, or was edited or damaged after evenhand wrote it.
    """
    schema = record.get("schema", record["manifest"].get("schema"))
    is_old = schema in (1, 2) and not isinstance(schema, bool)
    if is_old:
        record = signed(_from_schema_1(record) if schema == 1 else {**record, "schema": SCHEMA})
    elif schema != SCHEMA:
        raise FormatError(f"the audit has schema {schema!r}; this version reads 1 to {SCHEMA}", hint="update evenhand")
    require_valid(record)
    if record[DIGEST] != signed(record)[DIGEST]:
        raise FormatError(
            "the record was edited or damaged after evenhand wrote it: its content does not have its sha256",
            hint="run the audit again; its finished cells are reused",
        )
    if is_old:
        warnings.warn(
            f"a record of evenhand {record['manifest']['evenhand']} kept no digest: edits do not show",
            EvenhandWarning,
            stacklevel=2,
        )
    stages = tuple(Stage(stage["name"], stage["subject"], stage["report"]) for stage in record["stages"])
    return Audit(record["manifest"], stages, tuple(Result.from_dict(result) for result in record["results"]))


def signed(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record with the digest of everything else in it."""
    content = {name: value for name, value in record.items() if name != DIGEST}
    return {**content, DIGEST: content_digest(content)}


def _from_schema_1(record: Mapping[str, Any]) -> dict[str, Any]:
    """Bring a record of version 0.1 into the present form: one subject, labels without commas, scores named."""
    manifest = dict(record["manifest"])
    vectors = dict(manifest.pop("vectors"))
    name = str(vectors["name"])
    effective = dict(manifest["arguments"]["effective"])
    manifest["subjects"] = [{**vectors, "kind": "vectors", "address": name, "offers": ["vectors"]}]
    manifest["concept"] = {"name": effective["concept"], "digest": ""}
    manifest["arguments"] = {"given": {}, **manifest["arguments"]}
    manifest = {**OLD_MANIFEST, **manifest}
    stages = [{"name": stage["name"], "subject": name, "report": stage["report"]} for stage in record["stages"]]
    rows = [_row_1(row, name) for row in record["results"]]
    return {"schema": SCHEMA, "manifest": manifest, "stages": stages, "results": rows}


def _row_1(row: Mapping[str, Any], subject: str) -> dict[str, Any]:
    variant = str(row["variant"]).replace(" ", "-")
    scored = row["measure"] in ("nli-gap", "mab")  # their variants are scores now
    short = ":" not in row["label"] and not str(row["query"]).startswith(row["measure"])
    return {
        **row,
        "subject": subject,
        "label": str(row["label"]).replace(", ", ":").replace(" ", "-"),
        "score": variant if scored else "",
        "variant": "" if scored else variant,
        "only_query": short,
    }
