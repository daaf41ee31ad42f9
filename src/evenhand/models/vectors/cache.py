"""Parse once: text and binary files are kept as memory-mappable safetensors, keyed by the content of the file.

Hashing 350 MB takes 0.2 s, longer than a cached load, so the hash of a file is remembered by path, size, inode and time
of change, the way git does it. A file changed within the last seconds is hashed again: a clock's tick may hide a second
change.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evenhand.files import cache_folder, replacing, write_text
from evenhand.models.vectors.formats import Format, Parsed, ReadOptions

PARSER_VERSION = 1  # raise it when a reader's result changes: old entries are then never found again
SETTLED_SECONDS = 2.0


def content_hash(path: Path) -> str:
    """SHA-256 of the file, remembered while the file stays as it is."""
    stat = path.stat()
    identity = {"size": stat.st_size, "mtime": stat.st_mtime_ns, "ctime": stat.st_ctime_ns, "inode": stat.st_ino}
    note = cache_folder() / "hashes" / f"{hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:32]}.json"
    known = _read_json(note)
    if known.get("identity") == identity:
        return str(known["sha256"])
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if time.time() - max(stat.st_mtime, stat.st_ctime) > SETTLED_SECONDS:
        _write_quietly(note, json.dumps({"identity": identity, "sha256": digest}))
    return digest


def entry(digest: str, format_: Format, options: ReadOptions) -> Path:
    """Where the parsed form of a file with this content lies, or would lie."""
    key = f"{digest} {format_.id} {options.encoding_errors} {PARSER_VERSION}"
    return cache_folder() / "vectors" / f"{hashlib.sha256(key.encode()).hexdigest()[:40]}.safetensors"


def store(target: Path, parsed: Parsed, source: Mapping[str, Any]) -> None:
    """Keep a parsed file. A cache that cannot be written (full disk, read-only home) costs time, not the result."""
    from evenhand.models.vectors.formats.tensors import write_stream

    try:
        with replacing(target) as partial, partial.open("wb") as out:
            write_stream(out, parsed.words, [parsed.matrix], parsed.matrix.shape[1], source=source, history=())
    except OSError:
        return


def _read_json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _write_quietly(path: Path, text: str) -> None:
    try:
        write_text(path, text)
    except OSError:
        return
