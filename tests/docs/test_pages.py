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
