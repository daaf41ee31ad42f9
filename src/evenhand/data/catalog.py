"""The catalog: what each data set is, where it comes from, and how its files are recognised."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from evenhand.errors import FormatError, unknown_name

KINDS = ("vectors", "similarity", "analogy", "nli", "corpus", "names", "bias", "model")
_SHA256 = re.compile(r"[0-9a-f]{64}|")


@dataclass(frozen=True)
class File:
    """One file of a data set, under the name it is stored; size 0 and sha256 "" mean: not known."""

    name: str
    sha256: str = ""
    size: int = 0


@dataclass(frozen=True)
class Entry:
    """A data set of the catalog.

    Attributes:
        files: what is stored; empty for a folder that is taken as it is from `EVENHAND_DATA`.
        sources: where it can be had, origin first; empty when it can only come from `EVENHAND_DATA`.
        main: the file that a reader opens, where there are several and one leads to the others.
        data_path: where it lies in an `EVENHAND_DATA` folder: the file itself, or the folder of its files.
        format: the id of the vector format.
        unverified: no sha256 is known for some file, so a fetch warns.
    """

    id: str
    title: str
    kind: str
    licence: str
    citation: str
    files: tuple[File, ...] = ()
    sources: tuple[Source, ...] = ()
    main: str = ""
    data_path: str = ""
    format: str = ""
    note: str = ""
    unverified: bool = False

    @property
    def size(self) -> int:
        """Bytes of all files together, 0 when not known."""
        return sum(file.size for file in self.files)

    @property
    def is_folder(self) -> bool:
        """Whether the set is several files in a folder of their own."""
        return len(self.files) != 1


@functools.cache
def catalog() -> Mapping[str, Entry]:
    """Every data set by its id, in the order of the catalog file."""
    text = (resources.files("evenhand.data") / "catalog.toml").read_text(encoding="utf-8")
    return read(text)


def get(name: str) -> Entry:
    """The data set of that id."""
    known = catalog()
    if name not in known:
        raise unknown_name("data set", name, known)
    return known[name]


def read(text: str, *, where: str = "catalog.toml") -> Mapping[str, Entry]:
    """The entries of a catalog text, checked."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FormatError(f"{where}: {error}", hint="correct the TOML") from error
    return MappingProxyType({name: _entry(name, table, where) for name, table in tables.items()})


def _entry(name: str, table: Mapping[str, Any], where: str) -> Entry:
    given = dict(table)
    if unknown := set(given) - {field.name for field in fields(Entry)}:
        raise FormatError(f"{where}: {name}: unknown key {sorted(unknown)[0]!r}")
    try:
        given["files"] = tuple(File(**file) for file in given.get("files", ()))
        given["sources"] = tuple(parse(_spelt_out(spec, given["files"])) for spec in given.get("sources", ()))
        entry = Entry(id=name, **given)
    except TypeError as error:
        raise FormatError(f"{where}: {name}: {error}") from error
    if fault := _fault(entry):
        raise FormatError(f"{where}: {name}: {fault}")
    return entry


def _spelt_out(spec: str, files: tuple[File, ...]) -> str:
    """With one file there is one address, which messages can then show in full."""
    return spec.replace("{name}", files[0].name) if len(files) == 1 else spec


def _fault(entry: Entry) -> str:
    """What is wrong with an entry, or nothing."""
    names = [file.name for file in entry.files]
    paths = [*names, *filter(None, (entry.data_path, entry.main))]
    if bad := [path for path in paths if not is_plain_path(path) or Path(path).name.startswith(".")]:
        return f"{bad[0]!r} is not a relative path below the folder"
    if bad := [file.name for file in entry.files if not _SHA256.fullmatch(file.sha256)]:
        return f"the sha256 of {bad[0]!r} is not 64 hexadecimal digits"
    if entry.kind not in KINDS:
        return f"kind {entry.kind!r} is not one of {', '.join(KINDS)}"
    if entry.main and entry.main not in names:
        return f"main {entry.main!r} is not one of its files"
    if not entry.sources and not entry.data_path:
        return "has neither a source nor a data_path"
    if entry.sources and not entry.files:
        return "has sources but names no file"
    if entry.unverified == all(file.sha256 for file in entry.files) and entry.files:
        return "'unverified' must be true exactly when a file has no sha256"
    return ""


Kind = Literal["web", "pypi", "npm"]

_VERSION = r"(?P<version>[A-Za-z0-9][A-Za-z0-9.+_-]*)"
_MEMBER = r"!(?P<member>.+)"
_FORMS: dict[Kind, re.Pattern[str]] = {
    "web": re.compile(rf"(?P<where>https?://[^!\s]+)(?:{_MEMBER})?"),
    "pypi": re.compile(rf"pypi:(?P<where>[A-Za-z0-9][A-Za-z0-9._-]*)=={_VERSION}{_MEMBER}"),
    "npm": re.compile(rf"npm:(?P<where>(?:@[a-z0-9][a-z0-9._-]*/)?[a-z0-9][a-z0-9._-]*)@{_VERSION}{_MEMBER}"),
}
_SPELLING = {"web": "{where}", "pypi": "pypi:{where}=={version}", "npm": "npm:{where}@{version}"}


@dataclass(frozen=True)
class Source:
    """One place a data set can be had from."""

    kind: Kind
    where: str
    version: str = ""
    member: str = ""

    def __str__(self) -> str:
        package = _SPELLING[self.kind].replace("{where}", self.where).replace("{version}", self.version)
        return f"{package}!{self.member}" if self.member else package

    def address_of(self, name: str) -> str:
        """The web address of the file of that name."""
        return self.where.replace("{name}", name)

    def member_of(self, name: str) -> str:
        """The path inside the archive of the file of that name."""
        return self.member.replace("{name}", name)


def parse(spec: str) -> Source:
    """Read a source from its written form."""
    for kind, form in _FORMS.items():
        if match := form.fullmatch(spec):
            parts = {key: value or "" for key, value in match.groupdict().items()}
            if parts["member"] and not is_plain_path(parts["member"]):
                raise FormatError(
                    f"source {spec!r} points outside its archive", hint="the path after '!' has no '..' and no root"
                )
            return Source(kind, **parts)
    raise FormatError(
        f"{spec!r} is not a source of data",
        hint="write https://..., https://...!member, pypi:NAME==VERSION!path or npm:NAME@VERSION!path",
    )


def is_plain_path(path: str) -> bool:
    """Whether a relative path stays below where it starts: no root, no drive, no `..`, no backslash."""
    parts = path.split("/")
    return not ({"", ".", ".."} & set(parts) or "\\" in path or ":" in parts[0] or "\0" in path)
