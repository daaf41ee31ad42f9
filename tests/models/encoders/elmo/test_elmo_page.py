"""The Python examples of docs/how-to/elmo.md run as they are printed, one after another in one folder."""

import re
from pathlib import Path

import pytest

pytest.importorskip("torch")

PAGE = Path(__file__).parents[4] / "docs" / "how-to" / "elmo.md"


def test_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(PAGE.parents[2] / "scripts"))
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(examples) == 4
    for example in examples:
        exec(compile(example, str(PAGE), "exec"), {})
    assert (tmp_path / "small-elmo" / "options.json").is_file()
    assert (tmp_path / "nli.safetensors").is_file()
