"""The examples of docs/how-to/corpus.md that need no file run as they are printed."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "corpus.md"
EXAMPLES = [
    text for text in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL) if "Texts" in text
]


@pytest.mark.parametrize("example", EXAMPLES, ids=("bias", "cooccurrence"))
def test_examples_run(example, capsys):
    exec(compile(example, str(PAGE), "exec"), {})
    assert capsys.readouterr().out.count("\n") == 2
