"""The Python examples of the documentation run as they stand."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ["how-to/own-words.md", "how-to/sentence-vectors.md"]


@pytest.mark.parametrize("page", PAGES)
def test_examples_run(page: str) -> None:
    examples = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)
    assert examples
    for example in examples:
        exec(compile(example, page, "exec"), {})


@pytest.mark.parametrize("page", sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")))
def test_links_lead_somewhere(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", text):
        assert ((DOCS / page).parent / target).exists(), target


def test_links_of_the_readme_lead_somewhere() -> None:
    root = DOCS.parent
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", (root / "README.md").read_text(encoding="utf-8")):
        assert (root / target).exists(), target
