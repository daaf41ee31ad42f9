"""The papers that measures and methods cite, by key; the BibTeX entries are in `references.bib`."""

from __future__ import annotations

import functools
import re
from importlib import resources

from evenhand.errors import unknown_name

ENTRY = re.compile(r"^@\w+\{(?P<key>[^,]+),.*?^\}", re.DOTALL | re.MULTILINE)
FIELD = r"^\s*{name} = \{{(?P<value>.*)\}},?$"


@functools.cache
def references() -> dict[str, str]:
    """Return every BibTeX entry by its key."""
    text = (resources.files("evenhand.data") / "references.bib").read_text(encoding="utf-8")
    return {entry["key"]: entry[0] for entry in ENTRY.finditer(text)}


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
