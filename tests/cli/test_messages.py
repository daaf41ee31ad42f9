"""Errors of common mistakes: what was wrong, and what to do instead."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import evenhand as eh
from evenhand.cli import app
from evenhand.measures.call import measure
from evenhand.measures.registry import MEASURES, Info


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "80", "NO_COLOR": "1"})


@pytest.fixture
def small(tmp_path: Path) -> Path:
    words = ["she", "he", "woman", "man", "girl", "boy", "nurse", "doctor", "the"]
    path = tmp_path / "my.vec"
    eh.Vectors(words, np.random.default_rng(0).normal(size=(len(words), 5))).save(path)
    return path


@pytest.mark.parametrize("suffix", [".vec", ".txt", ".bin", ".safetensors"])
def test_a_vocabulary_for_a_file_that_has_its_words_is_refused(small: Path, tmp_path: Path, suffix: str) -> None:
    source, words = tmp_path / f"other{suffix}", tmp_path / "words.txt"
    eh.Vectors.load(small).save(source)
    words.write_text("a\nb\n", encoding="utf-8")
    result = run("convert", source, tmp_path / "out.npy", "--vocabulary", words)
    assert result.exit_code == 2
    assert "--vocabulary" in result.stderr
    assert not (tmp_path / "out.npy").exists()


def test_a_vocabulary_has_its_effect_on_a_matrix_without_words(tmp_path: Path) -> None:
    np.save(tmp_path / "m.npy", np.eye(3, dtype=np.float32))
    (tmp_path / "names").write_text("x\ny\nz\n", encoding="utf-8")
    result = run("convert", tmp_path / "m.npy", tmp_path / "out.vec", "--vocabulary", tmp_path / "names")
    assert result.exit_code == 0, result.output
    assert eh.Vectors.load(tmp_path / "out.vec").words == ("x", "y", "z")


@pytest.mark.parametrize("method", ["cda", "dropout"])
def test_methods_of_text_and_of_models_say_what_to_use_for_vectors(small: Path, tmp_path: Path, method: str) -> None:
    result = run("debias", small, "-m", method, "-o", tmp_path / "out.vec")
    assert result.exit_code == 2
    told = result.stderr.replace("\n", " ")
    assert "my.vec is word vectors" in told
    assert "linear, hard or another method" in told
    assert "documents()" not in told


def test_the_former_id_of_a_method_still_names_it() -> None:
    assert eh.mitigations.get("dropout") is eh.mitigations.get("dropout-tuning")
    assert "dropout" not in eh.mitigations.ids()
    assert "dropout-tuning" in run("show", "dropout").stdout


def test_a_text_that_was_read_as_vectors_names_the_address_of_a_corpus(tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("She left her house. He stayed.\n", encoding="utf-8")
    result = run("audit", notes)
    assert result.exit_code == 4
    assert f"corpus:{notes}" in result.stderr.replace("\n", "")


@pytest.mark.parametrize("name", ["bert-base-uncased", "Some-Org/model-2.5-0.5B"])
def test_an_id_of_the_hub_says_how_to_get_a_folder(name: str) -> None:
    result = run("audit", name)
    assert result.exit_code == 4
    assert f"hf download {name} --local-dir FOLDER" in result.stderr
    assert "hf:FOLDER" in result.stderr


def test_a_misspelt_file_is_not_taken_for_an_id_of_the_hub(tmp_path: Path) -> None:
    assert "hf download" not in run("audit", tmp_path / "nothing").stderr
    assert "hf download" not in run("audit", "nothing.vec").stderr


def test_a_source_of_ones_own_is_explained(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    concept = '[concept.mine]\ngroups = { a = ["x", "v"], b = ["y", "w"] }\n'
    file.write_text(concept, encoding="utf-8")
    assert "[source.me]" in run("concept", "check", file).stdout.replace("\n", " ")
    file.write_text(concept + 'source = "me"\n', encoding="utf-8")
    result = run("concept", "check", file)
    assert result.exit_code == 4
    assert '[source.me] with title = "..."' in result.stderr.replace("\n", " ")
    file.write_text(concept + 'source = "me"\n[source.me]\ntitle = "Own list"\n', encoding="utf-8")
    result = run("concept", "check", file)
    assert result.exit_code == 0
    assert "no source" not in result.stdout


@pytest.mark.parametrize("returned", [0.5, (0.5, 0.25), None])
def test_a_measure_that_returns_a_number_is_told_what_to_return(
    returned: object, monkeypatch: pytest.MonkeyPatch, glove: eh.Vectors
) -> None:
    monkeypatch.setattr(MEASURES, "_objects", dict(MEASURES._objects))
    about = {"title": "Half", "formula": "1 / 2", "reading": "half", "limits": "none", "cites": (), "better": "zero"}

    @measure(Info(id="half", takes="query", queries=("weat-6",), **about))  # type: ignore[arg-type]
    def half(call: object, vectors: object, query: object, *, seed: int = 0) -> object:
        return returned

    with pytest.raises(eh.EvenhandError, match=r"a measure returned .*[\s\S]*returns a Measurement, or a tuple"):
        eh.Audit.run(glove, measures=["half"], methods=[])
    result = run("measure", "half", "glove-embedded")
    assert result.exit_code == 2
    assert "returns a Measurement" in result.stderr.replace("\n", " ")
