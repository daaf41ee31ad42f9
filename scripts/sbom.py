"""Write the software bill of materials of an installed evenhand: `python scripts/sbom.py OUT.cdx.json [EXTRA]...`.

Run it with the interpreter of the environment that evenhand is installed in. The result follows CycloneDX 1.6: one
component for each installed distribution that evenhand needs, with version, licence, home page and dependencies. A
licence that is not on the list below ends the script with an error, so that it is looked at before a release.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

ROOT = "evenhand"
# Licences that allow use, change and distribution beside Apache-2.0 code, by SPDX id or the text that packages give.
ALLOWED = re.compile(
    r"MIT|MIT-CMU|Apache|BSD|0BSD|ISC|PSF|Python Software Foundation|MPL-2\.0|Mozilla Public License 2\.0|Zlib|HPND|"
    r"Unlicense|CC0|Public Domain|NCSA|BSL-1\.0",
    re.IGNORECASE,
)
REQUIREMENT = re.compile(r"^\s*([A-Za-z0-9][A-Za-z0-9._-]*)")
EXTRA = re.compile(r"extra\s*==\s*['\"]([^'\"]+)['\"]")
# Published without a machine-readable licence; read on the project's page.
KNOWN: dict[str, str] = {}


def normal(name: str) -> str:
    """Return the normalised name of a distribution."""
    return re.sub(r"[-_.]+", "-", name).lower()


def requirements(found: Distribution, extras: tuple[str, ...]) -> list[str]:
    """Return the installed distributions that one needs, with the chosen extras."""
    names = []
    for text in found.requires or ():
        wanted = EXTRA.search(text)
        if wanted and wanted[1] not in extras:
            continue
        name = normal(REQUIREMENT.match(text)[1])  # type: ignore[index]
        try:
            distribution(name)
        except PackageNotFoundError:  # for another system or another version of Python
            continue
        names.append(name)
    return sorted(set(names))


def closure(extras: tuple[str, ...]) -> dict[str, list[str]]:
    """Return evenhand and everything below it, each with what it needs."""
    needed: dict[str, list[str]] = {}
    waiting = [ROOT]
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed[name] = requirements(distribution(name), extras if name == ROOT else ())
            waiting += needed[name]
    return dict(sorted(needed.items()))


def licence(found: Distribution) -> str:
    """Return the licence that a distribution declares."""
    about = found.metadata
    if text := about.get("License-Expression"):
        return str(text)
    classified = [line.rpartition("::")[2].strip() for line in about.get_all("Classifier", []) if "License ::" in line]
    if classified and classified != ["OSI Approved"]:
        return " AND ".join(name for name in classified if name != "OSI Approved")
    plain = str(about.get("License") or "").strip().partition("\n")[0]
    return plain or KNOWN.get(normal(about["Name"]), "")


def component(name: str) -> dict[str, object]:
    """Return the entry of a distribution."""
    found = distribution(name)
    about = found.metadata
    links = [line.partition(",")[2].strip() for line in about.get_all("Project-URL", [])]
    home = about.get("Home-page") or next(iter(links), "")
    entry: dict[str, object] = {
        "type": "application" if name == ROOT else "library",
        "bom-ref": f"pkg:pypi/{name}@{found.version}",
        "name": name,
        "version": found.version,
        "description": str(about.get("Summary") or ""),
        "purl": f"pkg:pypi/{name}@{found.version}",
        "licenses": [{"license": {"name": licence(found)}}],
    }
    if home.startswith("http"):
        entry["externalReferences"] = [{"type": "website", "url": home}]
    return entry


def main() -> None:
    """Write the file and a table of the licences to stdout."""
    out, extras = Path(sys.argv[1]), tuple(sys.argv[2:])
    needed = closure(extras)
    components = {name: component(name) for name in needed}
    refs = {name: str(entry["bom-ref"]) for name, entry in components.items()}
    serial = hashlib.sha256(json.dumps(refs, sort_keys=True).encode()).hexdigest()
    uuid = f"{serial[:8]}-{serial[8:12]}-4{serial[13:16]}-a{serial[17:20]}-{serial[20:32]}"
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid}",
        "version": 1,
        "metadata": {"component": components[ROOT]},
        "components": [entry for name, entry in components.items() if name != ROOT],
        "dependencies": [
            {"ref": refs[name], "dependsOn": [refs[other] for other in wanted]} for name, wanted in needed.items()
        ],
    }
    out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    unknown = []
    for name in needed:
        text = licence(distribution(name))
        print(f"{name:28} {distribution(name).version:14} {text}")
        if not ALLOWED.search(text):
            unknown.append(f"{name}: {text or 'no licence given'}")
    if unknown:
        raise SystemExit("look at these licences: " + "; ".join(unknown))


if __name__ == "__main__":
    main()
