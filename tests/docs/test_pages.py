"""The Python examples of the documentation run as they stand."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [
    "how-to/augment.md",
    "how-to/own-words.md",
    "how-to/sentence-vectors.md",
    "how-to/sentence-encoders.md",
    "how-to/audit-a-classifier.md",
    "how-to/audit-a-language-model.md",
]


@pytest.mark.parametrize("page", PAGES)
def test_examples_run(page: str) -> None:
    examples = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)
    assert examples
    for example in examples:
        exec(compile(example, page, "exec"), {})


ROOT = DOCS.parent
LINKED = [
    *ROOT.glob("*.md"),
    *DOCS.rglob("*.md"),
    *(ROOT / "reproductions").glob("*.md"),
    *(ROOT / "benchmarks").glob("*.md"),
]


@pytest.mark.parametrize("page", sorted(path.relative_to(ROOT).as_posix() for path in LINKED))
def test_links_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?:)([^)#\s]+)", text):
        assert ((ROOT / page).parent / target).exists(), target
