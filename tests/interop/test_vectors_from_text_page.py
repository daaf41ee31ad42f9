"""From a text file to GN-GloVe vectors, through the command and as the page has it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from evenhand.cli.app import app
from evenhand.corpus import Cooccurrence
from evenhand.mitigations import GNGloVe
from evenhand.models.vectors import Vectors

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "vectors-from-text.md"
PAIRS = [("she", "he"), ("woman", "man"), ("queen", "king")]


def run(*arguments: str) -> dict[str, object]:
    done = CliRunner().invoke(app, ["corpus", *arguments, "--json"])
    assert done.exit_code == 0, done.output
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """Each line is about one gender; nurses and bosses come with one, tea and bread with both."""
    rng = np.random.default_rng(0)
    sides = ([two[0] for two in PAIRS] + ["nurse"], [two[1] for two in PAIRS] + ["boss"])
    lines = [" ".join(rng.choice([*side, "tea", "bread", "the"], size=20)) for _ in range(100) for side in sides]
    path = tmp_path / "text.txt"
    path.write_text("\n".join(lines))
    return path


def test_counts_of_a_file_train_gn_glove(text: Path, tmp_path: Path) -> None:
    out = tmp_path / "counts.safetensors"
    told = run(
        "cooccur", str(text), "--documents", "line", "--window", "10", "--weighting", "harmonic", "--out", str(out)
    )
    counts = Cooccurrence.load(out)
    assert told["words"] == len(counts.words) == 11
    assert told["tokens"] == 4000
    assert counts.params["weighting"] == "harmonic"
    assert counts.count("nurse", "boss") == 0
    method = GNGloVe(dim=12, epochs=40, pairs=PAIRS)
    vectors = method.train(counts, "gender")
    assert vectors.history[0]["pairs_used"] == 3
    gender = dict(zip(vectors.words, vectors.matrix[:, -1], strict=True))
    for female, male in PAIRS:
        assert gender[female] < -0.9 < 0.9 < gender[male]
    assert method.without_gender()(vectors).dim == 11


def test_sgns_command_writes_both_sides(text: Path, tmp_path: Path) -> None:
    pytest.importorskip("gensim")
    out = tmp_path / "model"
    options = ["--documents", "line", "--dim", "6", "--epochs", "2", "--min-count", "5"]
    told = run("sgns", str(text), *options, "--out", str(out))
    assert told["words"] == 11
    assert told["params"]["seed"] == 0  # type: ignore[index]
    words, contexts = (Vectors.load(out / name) for name in ("words.safetensors", "contexts.safetensors"))
    assert words.words == contexts.words
    assert words.dim == 6
    assert not np.array_equal(words.matrix, contexts.matrix)


def test_commands_name_what_is_wrong(text: Path, tmp_path: Path) -> None:
    asked = ["corpus", "cooccur", str(text), "--out", str(tmp_path / "c.safetensors")]
    wrong = CliRunner().invoke(app, [*asked, "--weighting", "steep"])
    assert wrong.exit_code == 2
    assert "unknown weighting 'steep'" in wrong.output
    assert not list(tmp_path.glob("*safetensors"))


def test_a_missing_text_is_named(tmp_path: Path) -> None:
    pytest.importorskip("gensim")
    missing = CliRunner().invoke(app, ["corpus", "sgns", str(tmp_path / "absent.txt"), "--out", str(tmp_path / "m")])
    assert missing.exit_code == 4
    assert "absent.txt" in missing.output
    assert not (tmp_path / "m").exists()


def test_examples_of_the_page_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("gensim")
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(examples) == 3
    known: dict[str, object] = {}
    for example in examples:
        exec(compile(example, str(PAGE), "exec"), known)
    assert capsys.readouterr().out.startswith("20 20 19\n")
