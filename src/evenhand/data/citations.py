"""The papers that measures cite, by key; the entries themselves are in `references.bib`."""

from __future__ import annotations

import functools
import re
from importlib import resources

from evenhand.errors import unknown_name

ENTRY = re.compile(r"^@\w+\{(?P<key>[^,]+),.*?^\}", re.DOTALL | re.MULTILINE)


@functools.cache
def references() -> dict[str, str]:
    """Every entry by its key."""
    text = (resources.files("evenhand.data") / "references.bib").read_text(encoding="utf-8")
    return {found["key"]: found[0] for found in ENTRY.finditer(text)}


def bibtex(key: str) -> str:
    """The BibTeX entry of a key."""
    if key not in references():
        raise unknown_name("reference", key, references())
    return references()[key]
