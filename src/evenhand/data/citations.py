"""BibTeX entries of the papers that measures cite, read from `references.bib`."""

from __future__ import annotations

import functools
import re
from importlib import resources

from evenhand.errors import unknown_name

ENTRY = re.compile(r"^@\w+\{(?P<key>[^,]+),.*?^\}", re.DOTALL | re.MULTILINE)


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
