"""The data sets of the quality measures: rated pairs of words, and analogy questions by section."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evenhand import data
from evenhand.arrays import Vector64
from evenhand.errors import FormatError, InputMissingError, UsageError, shown, unknown_name

Line = tuple[int, str]


@dataclass(frozen=True)
class RatedPairs:
    """Pairs of words with the mean rating that people gave them."""

    name: str
    pairs: tuple[tuple[str, str], ...]
    ratings: Vector64


@dataclass(frozen=True)
class Questions:
    """Analogy questions a : b :: c : d, each with its section."""

    name: str
    questions: tuple[tuple[str, str, str, str], ...]
    sections: tuple[str, ...]


def rated_pairs(source: RatedPairs | str | os.PathLike[str]) -> RatedPairs:
    """Load a similarity set by catalog id or from a file with two words and a number a line; a heading is skipped."""
    if isinstance(source, RatedPairs):
        return source
    name, path = _resolve(source, kind="similarity")
    pairs, ratings = [], []
    for order, (number, line) in enumerate(_lines(path)):
        fields = _fields(line)
        rating = _number(fields[2]) if len(fields) >= 3 else None
        if rating is None:
            if order == 0 and len(fields) >= 3:
                continue  # a heading
            raise FormatError(
                f"{path}, line {number} is not word, word, number: {shown(line)}", hint="separate them by tabs"
            )
        pairs.append((fields[0], fields[1]))
        ratings.append(rating)
    if not pairs:
        raise FormatError(f"{path} has no pairs", hint="write word, word and number on a line, separated by tabs")
    return RatedPairs(name, tuple(pairs), np.array(ratings, dtype=np.float64))


def questions(source: Questions | str | os.PathLike[str]) -> Questions:
    """Load analogy questions by catalog id or from a file with four words a line; `: name` begins a section."""
    if isinstance(source, Questions):
        return source
    name, path = _resolve(source, kind="analogy")
    section, quadruples, sections = "all", [], []
    for number, line in _lines(path):
        if line.startswith(":"):
            section = line[1:].strip()
            continue
        words = line.split()
        if len(words) != 4:
            raise FormatError(f"{path}, line {number}: {len(words)} words instead of four: {shown(line)}")
        quadruples.append((words[0], words[1], words[2], words[3]))
        sections.append(section)
    if not quadruples:
        raise FormatError(f"{path} has no questions", hint="write four words on a line: athens greece oslo norway")
    return Questions(name, tuple(quadruples), tuple(sections))


def local_ids(kind: str, ids: tuple[str, ...]) -> tuple[str, ...]:
    """Return those of the ids whose data set is on this disk."""
    return tuple(name for name in ids if data.get(name).kind == kind and data.locate(name))


def _resolve(source: str | os.PathLike[str], *, kind: str) -> tuple[str, Path]:
    """Return name and path of a file, or of an id of the catalog, which is fetched if necessary."""
    ids = [entry.id for entry in data.catalog().values() if entry.kind == kind]
    path = data.fetch(str(source)) if source in ids else Path(source)
    if path.is_dir():
        files = sorted(item.name for item in path.iterdir())
        raise UsageError(f"{source!s} is a folder of several sets", hint=f"name one of its files: {', '.join(files)}")
    if path.is_file():
        return (str(source) if source in ids else path.stem), path
    if path.suffix or len(path.parts) > 1:
        raise InputMissingError(f"file {str(path)!r} does not exist", hint=f"or use a known id: {', '.join(ids)}")
    raise unknown_name(f"{kind} set", str(source), ids)


def _lines(path: Path) -> Iterator[Line]:
    """Yield numbered lines without blank ones and comments."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise FormatError(f"{path} is not UTF-8 text (byte {error.start})", hint="convert it to UTF-8") from error
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() and not line.startswith("#"):
            yield number, line.strip()


def _fields(line: str) -> list[str]:
    """Split a line at tabs, which allows phrases, else at commas or whitespace."""
    if "\t" in line:
        return [field.strip() for field in line.split("\t")]
    return [field.strip() for field in (line.split(",") if "," in line else line.split())]


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if np.isfinite(value) else None
