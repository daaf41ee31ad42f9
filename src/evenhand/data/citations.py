"""BibTeX entries of the papers that measures and methods cite, read from `references.bib`."""

from __future__ import annotations

import functools
import re
from importlib import resources

from evenhand.errors import unknown_name

ENTRY = re.compile(r"^@\w+\{(?P<key>[^,]+),.*?^\}", re.DOTALL | re.MULTILINE)
FIELD = r"^\s*{name} = \{{(?P<value>.*)\}},?$"


@functools.cache
def references() -> dict[str, str]:
    """Return all entries by key."""
    text = (resources.files("evenhand.data") / "references.bib").read_text(encoding="utf-8")
    return {match["key"]: match[0] for match in ENTRY.finditer(text)}


def bibtex(key: str) -> str:
    """Return the BibTeX entry of a key."""
    if key not in references():
        raise unknown_name("reference", key, references())
    return references()[key]


def short_citation(key: str) -> str:
    """Return authors and year of an entry: "Yang & Feng 2020", "Bolukbasi et al. 2016"."""
    surnames = [author.partition(",")[0].strip() for author in _field(key, "author").split(" and ")]
    authors = " & ".join(surnames) if len(surnames) < 3 else f"{surnames[0]} et al."
    return f"{authors} {_field(key, 'year')}"


def _field(key: str, name: str) -> str:
    match = re.search(FIELD.format(name=name), bibtex(key), re.MULTILINE)
    return match["value"] if match else ""
