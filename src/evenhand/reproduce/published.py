"""The papers as data: every table and figure with its id, its printed numbers and what the paper concludes from it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any, Literal

import msgspec

from evenhand.errors import unknown_name

PAPERS = ("dev2019", "bordia2019", "dawkins2021", "ethayarajh2019")
ItemKind = Literal["computed", "recorded", "text"]
ClaimRelation = Literal["<", ">", "within"]
Expected = tuple[str, str, ClaimRelation, float]
"""Row, column, relation and bound; `within` means a distance from 0 of at most the bound."""


@dataclass(frozen=True)
class PaperItem:
    """A table or figure of a paper: its printed numbers by row and column, and the conclusion that is tested."""

    id: str
    shows: str
    source: str
    claim: str
    how: ItemKind
    place: str = ""
    """Page and heading in `reproductions` that discuss it."""
    columns: tuple[str, ...] = ()
    rows: Mapping[str, tuple[float | None, ...]] | None = None
    changes: tuple[tuple[str, str], ...] = ()
    expect: tuple[Expected, ...] = ()
    places: int = 3
    """Decimals that are printed."""
    tolerance: float = 0.0
    """The largest difference that counts as agreement where ours has no interval."""
    uncompared: tuple[str, ...] = ()
    """Columns that are shown, but whose values need not agree, such as p-values."""
    note: str = ""
    reason: str = ""
    """Why there is nothing to compute, for a drawing or a piece of text."""
    model_is: Literal["row", "column", "all"] = "row"
    """What one model stands for: a row, a column, or the whole table."""
    extra: bool = False
    """Part of the paper that is neither a table nor a figure."""

    @property
    def paper(self) -> str:
        """The id of the paper."""
        return self.id.partition("/")[0]

    @property
    def name(self) -> str:
        """The id within the paper, such as table-13."""
        return self.id.partition("/")[2]

    def published(self) -> dict[tuple[str, str], float]:
        """Return the printed numbers by row and column, with the differences of rows that the paper compares."""
        found = {
            (row, column): value
            for row, values in (self.rows or {}).items()
            for column, value in zip(self.columns, values, strict=True)
            if value is not None
        }
        for after, before in self.changes:
            for column in self.columns:
                if (after, column) in found and (before, column) in found:
                    difference = found[after, column] - found[before, column]
                    found[change_row(after, before), column] = round(difference, self.places)
        return found


@dataclass(frozen=True)
class Paper:
    """A paper with its tables and figures by id."""

    id: str
    title: str
    authors: str
    citation: str
    url: str
    page: str
    size: int
    """Number of tables and figures."""
    items: Mapping[str, PaperItem]


def change_row(after: str, before: str) -> str:
    """Return the name of the row with the differences of two rows."""
    return f"{after} - {before}"


@lru_cache(maxsize=len(PAPERS))
def paper(id: str) -> Paper:
    """Return a paper by its id."""
    if id not in PAPERS:
        raise unknown_name("paper", id, PAPERS)
    text = resources.files("evenhand.reproduce").joinpath("data", f"{id}.toml").read_text(encoding="utf-8")
    content = tomllib.loads(text)
    items = {f"{id}/{name}": _item(f"{id}/{name}", part) for name, part in content.items() if isinstance(part, dict)}
    about = {name: content[name] for name in ("title", "authors", "citation", "url", "page")}
    return Paper(id, size=content["items"], items=items, **about)


def items(id: str = "") -> dict[str, PaperItem]:
    """Return the tables and figures of one paper, or of all."""
    return {name: item for each in ([id] if id else PAPERS) for name, item in paper(each).items.items()}


def item(id: str) -> PaperItem:
    """Return a table or figure by its id, such as dev2019/table-13."""
    name, slash, _ = id.partition("/")
    if not slash or name not in PAPERS:
        raise unknown_name("paper", name, PAPERS)
    found = paper(name).items
    if id not in found:
        raise unknown_name(f"table or figure of {name}", id, found)
    return found[id]


def _item(id: str, part: Mapping[str, Any]) -> PaperItem:
    rows = {row: [None if value == "" else value for value in values] for row, values in part.get("rows", {}).items()}
    return msgspec.convert({**part, "id": id, "rows": rows or None}, PaperItem)
