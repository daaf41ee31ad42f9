"""Hooks of mkdocs.yml: folders in the navigation, pages outside docs/, and links that leave the site."""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from markdown import Markdown
from markdown.extensions import Extension
from markdown.preprocessors import Preprocessor
from mkdocs.structure.files import File, Files

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
OUTSIDE = ("CHANGELOG.md", "CONTRIBUTING.md", "benchmarks/RESULTS.md", "reproductions/*.md")
"""Pages that are kept beside what they describe instead of in docs/."""
LINK = re.compile(r"(!?)\[([^\]\n]*(?:\n[^\]\n]*)?)\]\((?!https?:|mailto:|#)([^)#\s]+)(#[^)\s]*)?\)")
COMMENT = re.compile(r"^<!--.*?-->$", re.MULTILINE)
FENCE = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)


def outside_pages() -> list[Path]:
    """Return the pages that are not in docs/, relative to the root of the repository."""
    return sorted(path.relative_to(ROOT) for pattern in OUTSIDE for path in ROOT.glob(pattern))


def source_of(uri: str) -> Path:
    """Return the file that a page of the site is made from."""
    inside = ROOT / "docs" / uri
    return inside if inside.exists() else ROOT / uri


def uri_of(path: Path) -> str | None:
    """Return the place of a file in the site, or None if it is not part of it."""
    if path.is_dir():
        path = path / "README.md"
    if not path.exists():
        return None
    relative = path.relative_to(ROOT)
    if relative.parts[0] == "docs":
        return PurePosixPath(*relative.parts[1:]).as_posix()
    return relative.as_posix() if relative in outside_pages() else None


def title_of(path: Path) -> str:
    """Return the first heading of a page."""
    found = re.search(r"^# (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return found.group(1) if found else path.stem


def pages_of(folder: str) -> list[str]:
    """Return the pages of a folder of the site: its README.md first, decisions by number, the others by title."""
    found = sorted(source_of(folder).glob("*.md"), key=lambda path: (path.name != "README.md", _order(path)))
    return [f"{folder}{path.name}" for path in found]


def _order(path: Path) -> tuple[str, str]:
    number = re.match(r"\d+", path.name)
    return (number.group() if number else "", title_of(path).lower())


class SessionFences(Preprocessor):
    """Fence the interactive examples of docstrings, which Markdown would take for quotations."""

    def run(self, lines: list[str]) -> list[str]:
        """Return the lines with a fence around every block that begins with a prompt."""
        fenced, inside, in_code = [], False, False
        for line in [*lines, ""]:
            in_code ^= line.lstrip().startswith("```")
            if not inside and not in_code and line.startswith(">>> "):
                fenced.append("```pycon")
                inside = True
            elif inside and not line.strip():
                fenced.append("```")
                inside = False
            fenced.append(line)
        return fenced[:-1]


class SessionExtension(Extension):
    """Fence interactive examples before fences are read."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802, the name that Markdown calls
        """Register the preprocessor."""
        md.preprocessors.register(SessionFences(md), "session-fences", 100)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Replace every folder of the navigation by its pages."""
    config.nav = [
        {title: pages_of(value) if isinstance(value, str) and value.endswith("/") else value}
        for entry in config.nav or []
        for title, value in entry.items()
    ]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in docs/."""
    for path in outside_pages():
        files.append(File.generated(config, path.as_posix(), abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite links between docs/ and the pages outside it; a link to any other file keeps its text only.

    Comments become empty lines: Markdown does not see a table that begins in the line after a comment.
    """
    here = page.file.src_uri
    parts = FENCE.split(markdown)
    return "".join(part if part.startswith("```") else COMMENT.sub("", relinked(part, here)) for part in parts)


def relinked(text: str, here: str) -> str:
    """Return Markdown whose relative links are those of the site."""
    source = source_of(here)

    def replace(found: re.Match[str]) -> str:
        image, label, target, anchor = found.groups()
        uri = uri_of(Path(os.path.normpath(source.parent / target)))
        if uri is None:
            return label
        relative = os.path.relpath(uri, PurePosixPath(here).parent)
        return f"{image}[{label}]({relative}{anchor or ''})"

    return LINK.sub(replace, text)
