"""Cache of parsed vector files: memory-mappable safetensors, keyed by the content of the source file.

Hashing 350 MB takes 0.2 s, longer than a cached load, so the hash of a file is stored with its path, size, inode and
modification time, as git does. A file changed within the last seconds is hashed again, because two changes may share
one time stamp.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from evenhand.errors import EvenhandError
from evenhand.files import cache_folder, existing, partial_name, sweep_partials, write_text
from evenhand.models.vectors.checks import refuse_misshapen
from evenhand.models.vectors.formats import Format, Parsed, ReadOptions, get
from evenhand.models.vectors.formats.format import notes_of

if TYPE_CHECKING:
    from evenhand.models.vectors.formats.safetensors import ByteSink

PARSER_VERSION = 3  # increase it when the output of a reader changes: this invalidates old entries
SETTLED_SECONDS = 2.0
DIGEST_DIGITS = 32  # of the SHA-256 of an entry, in its name
_pending: dict[Path, tuple[Future[None], Parsed]] = {}


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with existing(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def content_hash(path: Path) -> str:
    """Return the SHA-256 of a file, stored for as long as the file does not change."""
    identity = identity_of(path)
    note = cache_folder() / "hashes" / f"{hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:32]}.json"
    stored = _read_json(note)
    if stored.get("identity") == identity and isinstance(stored.get("sha256"), str):
        return str(stored["sha256"])
    digest = digest_of(path)
    if time.time() - max(identity["mtime"], identity["ctime"]) / 1e9 > SETTLED_SECONDS:
        _write_quietly(note, json.dumps({"identity": identity, "sha256": digest}))
    return digest


def identity_of(path: Path) -> dict[str, int]:
    """Return the file attributes that change whenever its content changes."""
    stat = path.stat()
    return {"size": stat.st_size, "mtime": stat.st_mtime_ns, "ctime": stat.st_ctime_ns, "inode": stat.st_ino}


def entry(digest: str, size: int, format_: Format, options: ReadOptions) -> Path:
    """Return the cache path for a file with this content, to which `store` adds the digest of the entry itself."""
    key = f"{digest} {format_.id} {options.encoding_errors} {PARSER_VERSION}"
    return _folder() / f"{size}-{hashlib.sha256(key.encode()).hexdigest()[:40]}.safetensors"


def may_hold(size: int) -> bool:
    """Return False if no entry comes from a file of this size; the file then need not be hashed first."""
    if any(target.name.startswith(f"{size}-") for target in list(_pending)):
        return True
    try:
        return any(_folder().glob(f"{size}-*"))
    except OSError:  # an unreadable cache folder counts as empty
        return False


def _folder() -> Path:
    return cache_folder() / "vectors"


def fetch(target: Path) -> Parsed | None:
    """Return a cache entry, or None if it does not exist or is damaged.

    The content of an entry is compared with the digest in its name on first use, and whenever the file has changed.
    One that is still being written is in memory.
    """
    pending = _pending.get(target)
    if pending is not None:
        return pending[1]
    try:
        path = next(target.parent.glob(f"{target.stem}-*{target.suffix}"), None)
        if path is None or content_hash(path)[:DIGEST_DIGITS] != path.stem.rpartition("-")[2]:
            return None
        parsed = get("safetensors").read(path, ReadOptions())
        refuse_misshapen(parsed, path)
    except (OSError, EvenhandError):
        return None
    source = {key: value for key, value in parsed.source.items() if key != "notes"}
    return replace(parsed, notes=notes_of(parsed.source), source=source)


def store(target: Path, parsed: Parsed) -> None:
    """Write a parsed file to the cache in the background; the interpreter waits for it at exit."""
    pool = ThreadPoolExecutor(2, thread_name_prefix="evenhand-cache")
    hashing = pool.submit(_digest_of_entry, parsed)  # while the entry is written
    writing = pool.submit(_store, target, parsed, hashing)
    pool.shutdown(wait=False)
    _pending[target] = (writing, parsed)
    writing.add_done_callback(lambda _: _pending.pop(target, None))


def settle() -> None:
    """Wait for all pending writes."""
    for writing, _ in list(_pending.values()):
        writing.result()


class _Digest:
    """A sink of bytes that keeps their SHA-256 only."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def write(self, data: bytes | memoryview, /) -> None:
        self._hash.update(memoryview(data).cast("B"))

    def hexdigest(self) -> str:
        return self._hash.hexdigest()


def _write_entry(out: ByteSink, parsed: Parsed) -> None:
    from evenhand.models.vectors.formats.safetensors import write_stream

    source = {**parsed.source, "notes": list(parsed.notes)}
    write_stream(out, parsed.words, [parsed.matrix], parsed.matrix.shape[1], source=source, history=())


def _digest_of_entry(parsed: Parsed) -> str:
    digest = _Digest()
    _write_entry(digest, parsed)
    return digest.hexdigest()


def _store(target: Path, parsed: Parsed, hashing: Future[str]) -> None:
    """Write an entry; errors are ignored, because the cache only saves time."""
    partial = target.with_name(partial_name(target))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        sweep_partials(target.parent)
        with partial.open("wb") as out:
            _write_entry(out, parsed)
            out.flush()
            os.fsync(out.fileno())
        digest = hashing.result()[:DIGEST_DIGITS]
        for old in target.parent.glob(f"{target.stem}-*{target.suffix}"):  # a damaged entry
            old.unlink(missing_ok=True)
        partial.replace(target.with_name(f"{target.stem}-{digest}{target.suffix}"))
    except (OSError, EvenhandError):  # includes words with a line end, which the layout cannot hold
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)


def _read_json(path: Path) -> dict[str, object]:
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _write_quietly(path: Path, text: str) -> None:
    try:
        write_text(path, text)
    except OSError:
        return
