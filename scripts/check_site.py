"""Check the built documentation: no page loads anything from another host, and every page is in the navigation.

python scripts/check_site.py site
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path

LOADS = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
MOST = 10  # faults to print
RELATIONS = ("stylesheet", "preconnect", "preload", "icon")


class Resources(HTMLParser):
    """Collect what a page loads, and the targets of its links."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the address of a resource or a link."""
        given = dict(attrs)
        address = given.get(LOADS.get(tag, ""))
        if address and (tag != "link" or any(name in (given.get("rel") or "") for name in RELATIONS)):
            self.loaded.append(address)
        if tag == "a" and given.get("href"):
            self.links.append(str(given["href"]))


def read(page: Path) -> Resources:
    """Return what a page loads and links to."""
    found = Resources()
    found.feed(page.read_text(encoding="utf-8"))
    return found


def faults(site: Path) -> list[str]:
    """Return what is wrong with a site, a line each."""
    start = site / "index.html"
    if not start.is_file():
        return [f"{site} has no index.html: build it first, with `make docs`"]
    pages = {path: read(path) for path in sorted(site.rglob("*.html"))}
    wrong = [
        f"{path.relative_to(site)} loads {address}"
        for path, found in pages.items()
        for address in found.loaded
        if address.startswith(("http:", "https:", "//"))
    ]
    listed = {start, site / "404.html"}
    for path, found in pages.items():
        targets = (link.partition("#")[0] for link in found.links)
        listed |= {(path.parent / target).resolve() for target in targets if target and ":" not in target}
    wrong += [f"no page links to {path.relative_to(site)}" for path in pages if path.resolve() not in listed]
    return wrong


if __name__ == "__main__":
    found = faults(Path(sys.argv[1]).resolve())
    more = [f"and {len(found) - MOST} more"] if len(found) > MOST else []
    print("\n".join([*found[:MOST], *more]) or "every page is linked, and nothing is loaded from another host")
    raise SystemExit(1 if found else 0)
