"""Links and anchors lead somewhere, every page is in the navigation, and the reference covers the public names."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

import evenhand as eh

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "docs/**/*.md", "reproductions/*.md", "benchmarks/*.md", "examples/*.md")
    for path in ROOT.glob(pattern)
)
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)")
FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
CONTRACT = {  # what other people's scripts rely on, and where it is documented
    "Vectors", "Concept", "concept", "Query", "query", "Measurement", "Subject", "open_subject", "VectorMap", "Subspace",
    "Audit", "probe", "bias", "CorpusBias", "BiasRegulariser", "weat", "direct_bias", "indirect_bias", "crows_pairs",
    "LinearProjection", "EvenhandError", "EvenhandWarning", "Pairs", "pairs", "WordSet", "wordset", "Template", "Coverage",
}  # fmt: skip


def anchors(text: str) -> set[str]:
    """Return the anchors of a page: its headings as GitHub and the site write them."""
    headings = re.findall(r"^#+ (.+?)\s*$", FENCE.sub("", text), re.MULTILINE)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "") for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", PAGES)
def test_links_and_anchors_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for target, anchor in LINK.findall(FENCE.sub("", text)):
        path = (ROOT / page).parent / target if target else ROOT / page
        assert path.exists(), target
        if anchor and path.suffix == ".md":
            assert anchor in anchors(path.read_text(encoding="utf-8")), f"{target}#{anchor}"


@pytest.fixture(scope="module")
def site_hooks(load_script: Callable[[str], ModuleType]) -> ModuleType:
    pytest.importorskip("mkdocs")
    return load_script("site_hooks")


def test_every_page_is_in_the_navigation_once(site_hooks: ModuleType) -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2].partition("\nhooks:")[0]
    entries = re.findall(r": (\S+(?:/|\.md))$", navigation, re.MULTILINE)
    listed = [page for entry in entries for page in (site_hooks.pages_of(entry) if entry.endswith("/") else [entry])]
    outside = [path.as_posix() for path in site_hooks.outside_pages()]
    assert sorted(listed) == sorted([*(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")), *outside])


def test_links_that_leave_the_documentation_are_rewritten(site_hooks: ModuleType) -> None:
    text = "[a](../../reproductions/dev2019.md#x) [b](../../LICENSE) [c](../how-to/audit.md) ![d](weat.svg)"
    expected = "[a](../reproductions/dev2019.md#x) b [c](../how-to/audit.md) ![d](weat.svg)"
    assert site_hooks.relinked(text, "measures/weat.md") == expected
    assert site_hooks.relinked("[a](../docs/README.md)", "reproductions/dev2019.md") == "[a](../README.md)"


def test_a_page_that_loads_from_elsewhere_is_reported(load_script: Callable[[str], ModuleType], tmp_path: Path) -> None:
    check = load_script("check_site")
    (tmp_path / "index.html").write_text('<a href="a.html">a</a><script src="own.js"></script>', encoding="utf-8")
    (tmp_path / "a.html").write_text('<a href="https://example.org">a link is no load</a>', encoding="utf-8")
    assert check.faults(tmp_path) == []
    (tmp_path / "b.html").write_text('<script src="https://example.org/x.js"></script>', encoding="utf-8")
    assert check.faults(tmp_path) == ["b.html loads https://example.org/x.js", "no page links to b.html"]


def test_the_reference_has_every_public_name() -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in (DOCS / "api").glob("*.md"))
    directives = re.findall(r"^::: (\S+)$", text, re.MULTILINE)
    documented = {name.rpartition(".")[2] for name in directives}
    assert documented >= CONTRACT
    modules = {"corpus", "engines", "measures", "mitigations", "stats", "subspaces", "words", "__version__", "open"}
    assert set(eh.__all__) - modules <= CONTRACT
    for name in directives:
        assert resolve(name).__doc__, name


def resolve(name: str) -> object:
    """Return the object of a dotted name, or fail."""
    from importlib import import_module

    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found: object = import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            found = getattr(found, part)
        return found
    raise AssertionError(name)
