"""Links that loop, names that climb, and letters that look like others."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

import evenhand as eh
from evenhand.corpus.readers import Corpus
from evenhand.errors import EvenhandError, FormatError, OutputError
from evenhand.mitigations.text.augmentation import write_augmented
from evenhand.models.huggingface_folder import read_weight_headers
from evenhand.models.vectors.cache import settle


def test_a_corpus_folder_is_read_once_and_not_beyond_its_links(tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "a.txt").write_text("she is\n")
    for name, target in (("loop", "."), ("self", "self"), ("up", ".."), ("nowhere", "/nowhere"), ("system", "/etc")):
        (folder / name).symlink_to(target)
    assert [Path(file).name for file in Corpus(folder).files] == ["a.txt"]


@pytest.mark.parametrize("read", [eh.Vectors.load, eh.Audit.load, eh.VectorMap.load, eh.concept, eh.open])
def test_a_link_to_itself_is_refused(read: Callable[[Path], object], tmp_path: Path) -> None:
    (tmp_path / "self").symlink_to("self")
    with pytest.raises(EvenhandError, match="self"):
        read(tmp_path / "self")


@pytest.mark.parametrize("link", ["audit.json", "cells", "stages"])
def test_a_run_is_not_written_through_a_link_out_of_its_folder(link: str, glove: eh.Vectors, tmp_path: Path) -> None:
    """A run that somebody else made may hold links; a link to the run itself is the user's own."""
    outside, run = tmp_path / "outside", tmp_path / "run"
    outside.mkdir()
    (outside / "notes").write_text("mine")
    run.mkdir()
    (run / link).symlink_to(outside / "notes" if link == "audit.json" else outside)
    with pytest.raises(OutputError, match="outside of the folder"):
        eh.Audit.run(glove, methods=["linear"], measures=["direct-bias"], folder=run).save(run)
    assert [(path.name, path.read_text()) for path in outside.iterdir()] == [("notes", "mine")]


def test_a_changed_corpus_is_not_written_through_a_link_out_of_its_folder(tmp_path: Path) -> None:
    source, out, outside = tmp_path / "texts", tmp_path / "out", tmp_path / "notes"
    for folder in (source, out):
        folder.mkdir()
    (source / "a.txt").write_text("she is\n")
    outside.write_text("mine")
    (out / "a.txt").symlink_to(outside)
    change = eh.mitigations.get("cda")().fit(None, "gender")
    with pytest.raises(OutputError, match="outside of the folder"):
        write_augmented(change, source, out)
    assert outside.read_text() == "mine"


def test_a_cache_entry_that_is_a_link_counts_by_its_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link under the name of an entry leads to other vectors, whose digest is not the one in the name."""
    monkeypatch.setenv("EVENHAND_CACHE", str(tmp_path / "cache"))
    for name, number in (("one.txt", 1), ("other.txt", 2)):
        (tmp_path / name).write_text(f"a {number} 0\nb 0 {number}\n")
        eh.Vectors.load(tmp_path / name)
        settle()
    one, other = sorted((tmp_path / "cache" / "vectors").iterdir(), key=lambda path: path.stat().st_mtime_ns)
    one.unlink()
    one.symlink_to(other)
    assert eh.Vectors.load(tmp_path / "one.txt").matrix[0, 0] == 1


@pytest.mark.parametrize(
    "name", ["../other/x.safetensors", "/etc/x.safetensors", "a/../../x.safetensors", "x.safetensors/.."]
)
def test_an_index_cannot_name_weights_elsewhere(name: str, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    save_file({"x": np.ones(2, np.float32)}, tmp_path / "other" / "x.safetensors")
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text('{"architectures": ["BertModel"], "model_type": "bert", "vocab_size": 3}')
    (model / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"x": name}}))
    with pytest.raises(FormatError, match=r"only \.safetensors files in the same folder"):
        read_weight_headers(model)


def test_letters_that_look_alike_are_other_words() -> None:
    """A Cyrillic letter in a word of a list is a word that is missing, and the record names it."""
    vectors = eh.Vectors(["man", "woman", "nurse", "he", "she"], np.eye(5))
    lookalike = "m\u0430n"
    rows, coverage = vectors.locate(["man", lookalike])
    assert len(rows) == 1
    assert coverage.missing == (lookalike,)
    zero_width = eh.Vectors(["man", "ma\u200bn"], np.eye(2))
    assert zero_width.words == ("man", "ma\u200bn")
