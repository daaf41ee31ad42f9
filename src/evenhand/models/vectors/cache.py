"""Parse once: text and binary files are kept as memory-mappable safetensors, keyed by the content of the file.

Hashing 350 MB takes 0.2 s, longer than a cached load, so the hash of a file is remembered by path, size, inode and time
of change, the way git does it. A file changed within the last seconds is hashed again: a clock's tick may hide a second
change.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from evenhand.errors import EvenhandError
from evenhand.files import cache_folder, existing, replacing, write_text
from evenhand.models.vectors.checks import refuse_misshapen
from evenhand.models.vectors.formats import Format, Parsed, ReadOptions, get

PARSER_VERSION = 2  # raise it when a reader's result changes: old entries are then never found again
SETTLED_SECONDS = 2.0
_writers: list[threading.Thread] = []


def digest_of(path: Path) -> str:
    """SHA-256 of the file."""
    with existing(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def content_hash(path: Path) -> str:
    """SHA-256 of the file, remembered while the file stays as it is."""
    identity = identity_of(path)
    note = cache_folder() / "hashes" / f"{hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:32]}.json"
    known = _read_json(note)
    if known.get("identity") == identity and isinstance(known.get("sha256"), str):
        return str(known["sha256"])
    digest = digest_of(path)
    if time.time() - max(identity["mtime"], identity["ctime"]) / 1e9 > SETTLED_SECONDS:
        _write_quietly(note, json.dumps({"identity": identity, "sha256": digest}))
    return digest


def identity_of(path: Path) -> dict[str, int]:
    """What changes when a file changes."""
    stat = path.stat()
    return {"size": stat.st_size, "mtime": stat.st_mtime_ns, "ctime": stat.st_ctime_ns, "inode": stat.st_ino}


def entry(digest: str, size: int, format_: Format, options: ReadOptions) -> Path:
    """Where the parsed form of a file with this content lies, or would lie; its size leads the name."""
    key = f"{digest} {format_.id} {options.encoding_errors} {PARSER_VERSION}"
    return _folder() / f"{size}-{hashlib.sha256(key.encode()).hexdigest()[:40]}.safetensors"


def may_hold(size: int) -> bool:
    """Whether anything kept was parsed from a file of this size; if not, no look at its content is needed to know."""
    settle()
    try:
        return any(_folder().glob(f"{size}-*"))
    except OSError:  # a cache folder that cannot be looked into holds nothing for us
        return False


def _folder() -> Path:
    return cache_folder() / "vectors"


def fetch(target: Path) -> Parsed | None:
    """A kept file; None when there is none, or when what is there is damaged and must be made anew."""
    settle()
    if not os.path.exists(target):  # noqa: PTH110  Path.exists raises where the folder may not be entered
        return None
    try:
        parsed = get("safetensors").read(target, ReadOptions())
        refuse_misshapen(parsed, target)
    except EvenhandError:
        return None
    source = dict(parsed.source)
    return replace(parsed, notes=tuple(source.pop("notes", ())), source=source)


def store(target: Path, parsed: Parsed) -> None:
    """Keep a parsed file, written by a thread of its own: nobody waits for the disk; an ending process finishes it."""
    writer = threading.Thread(target=_store, args=(target, parsed), name="evenhand-cache")
    writer.start()
    _writers.append(writer)


def settle() -> None:
    """Wait until everything stored so far is on the disk."""
    while _writers:
        _writers.pop().join()


def _store(target: Path, parsed: Parsed) -> None:
    """A cache that cannot be written (full disk, read-only home) costs time, not the result."""
    from evenhand.models.vectors.formats.safetensors_file import write_stream

    source = {**parsed.source, "notes": list(parsed.notes)}
    try:
        with replacing(target) as partial, partial.open("wb") as out:
            write_stream(out, parsed.words, [parsed.matrix], parsed.matrix.shape[1], source=source, history=())
    except (OSError, EvenhandError):  # a word with a line end has no place in our layout
        return


def _read_json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _write_quietly(path: Path, text: str) -> None:
    try:
        write_text(path, text)
    except OSError:
        return
