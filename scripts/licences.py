"""Print the licences in a bill of materials: `python scripts/licences.py BOM.cdx.json`.

cyclonedx-py writes the bill (`.ci/release`). A licence that is not on the list below ends the script with an error, so
it is looked at before a release.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

# Licences that allow use, change and distribution beside Apache-2.0 code, by SPDX id or the text that packages give.
ALLOWED = re.compile(
    r"MIT|MIT-CMU|Apache|BSD|0BSD|ISC|PSF|Python Software Foundation|MPL-2\.0|Mozilla Public License 2\.0|Zlib|HPND|"
    r"Unlicense|CC0|Public Domain|NCSA|BSL-1\.0",
    re.IGNORECASE,
)


def licence(component: dict[str, Any]) -> str:
    """Return the licences of a component as one text."""
    entries = component.get("licenses", ())
    texts = [entry.get("expression") or entry["license"].get("id") or entry["license"]["name"] for entry in entries]
    return " AND ".join(dict.fromkeys(texts))


def main() -> None:
    """Print a table; fail if a licence is unknown."""
    components = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))["components"]
    licences = {f"{part['name']:28} {part['version']:14}": licence(part) for part in components}
    for name, text in sorted(licences.items()):
        print(name, text)
    if unknown := [" ".join(name.split()) for name, text in licences.items() if not ALLOWED.search(text)]:
        raise SystemExit("look at these licences: " + "; ".join(unknown))


if __name__ == "__main__":
    main()
