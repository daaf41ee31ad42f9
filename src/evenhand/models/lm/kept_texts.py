"""Texts that a model writes, kept on disk batch by batch, so that a killed run does not write them twice."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from evenhand.files import require_inside, write_text

_kept: ContextVar[tuple[Path, str] | None] = ContextVar("kept", default=None)


@contextmanager
def keeping_texts(folder: Path | None, owner: str) -> Iterator[None]:
    """Keep what models write meanwhile, in this thread.

    Args:
        folder: where the texts are kept; None keeps none.
        owner: what decides the texts apart from the settings of a call: the model and its changes.
    """
    token = _kept.set((folder, owner) if folder else None)
    try:
        yield
    finally:
        _kept.reset(token)


def written_once(settings: object, number: int, write: Callable[[], list[str]]) -> list[str]:
    """Return a batch of texts: the one kept by an earlier run, or a new one, which is kept.

    A batch is a whole file with a digest of its texts and of everything that decides them. A file that is damaged,
    edited or of other settings is written again.

    Args:
        settings: everything that decides the texts of the call, as plain data; batches of one call share it.
        number: which batch of the call this is.
        write: samples the texts.
    """
    kept = _kept.get()
    if kept is None:
        return write()
    folder, owner = kept
    key = hashlib.sha256(json.dumps([owner, settings], sort_keys=True, default=str).encode()).hexdigest()[:32]
    file = folder / key / f"{number:06}.json"
    found = _read(file, key, number)
    if found is not None:
        return found
    texts = write()
    record = {"texts": texts, "sha256": _digest(key, number, texts)}
    write_text(require_inside(file, folder), json.dumps(record, ensure_ascii=False) + "\n")
    return texts


def _read(file: Path, key: str, number: int) -> list[str] | None:
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
        texts = record["texts"]
        whole = all(isinstance(text, str) for text in texts) and record["sha256"] == _digest(key, number, texts)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return list(texts) if whole else None


def _digest(key: str, number: int, texts: list[str]) -> str:
    return hashlib.sha256(json.dumps([key, number, texts]).encode()).hexdigest()
