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
from evenhand.errors import EvenhandError, FormatError
from evenhand.models.huggingface_folder import read_weight_headers


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
