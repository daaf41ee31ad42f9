"""How ELMo spells words, and which options it accepts."""

import copy
import json
from pathlib import Path

import numpy as np
import pytest

from evenhand.errors import FormatError, InputMissingError, UsageError
from evenhand.models.encoders.elmo.files import ElmoOptions, character_ids
from tiny_elmo import TINY

# One more than in the published description, because 0 is the padding of sentences.
START, END, PADDING = 259, 260, 261


def test_a_word_is_its_bytes_between_two_marks() -> None:
    assert character_ids(["cat"], 7).tolist() == [[START, 100, 98, 117, END, PADDING, PADDING]]
    assert character_ids(["é"], 6).tolist() == [[START, 0xC3 + 1, 0xA9 + 1, END, PADDING, PADDING]]
    assert character_ids(["日"], 5).tolist() == [[START, 0xE6 + 1, 0x97 + 1, 0xA5 + 1, END]]


def test_a_boundary_is_one_character() -> None:
    assert character_ids(["<S>", "</S>"], 4).tolist() == [[START, 257, END, PADDING], [START, 258, END, PADDING]]
    assert character_ids(["<s>"], 6).tolist() == [[START, ord("<") + 1, ord("s") + 1, ord(">") + 1, END, PADDING]]


def test_a_long_word_is_cut_to_48_bytes() -> None:
    row = character_ids(["x" * 200])[0]
    assert row.shape == (50,)
    assert row[[0, 49]].tolist() == [START, END]
    np.testing.assert_array_equal(row, character_ids(["x" * 48])[0])
    assert (row != character_ids(["x" * 47])[0]).any()
    half = character_ids(["x" * 47 + "é"])[0]  # the second byte of é does not fit
    assert half[47:].tolist() == [ord("x") + 1, 0xC3 + 1, END]


def test_case_matters_and_an_empty_word_is_refused() -> None:
    assert (character_ids(["He"]) != character_ids(["he"])).any()
    with pytest.raises(UsageError, match="a word is empty"):
        character_ids(["he", ""])


def test_options_survive_a_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "options.json"
    path.write_text(json.dumps(TINY.to_dict()))
    assert ElmoOptions.load(path) == TINY
    assert TINY.features == 12
    assert TINY.dim == 8


def test_the_defaults_are_the_published_sizes() -> None:
    published = ElmoOptions.from_dict(
        {
            "lstm": {
                "use_skip_connections": True, "projection_dim": 512, "cell_clip": 3, "proj_clip": 3, "dim": 4096,
                "n_layers": 2,
            },
            "char_cnn": {
                "activation": "relu",
                "filters": [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]],
                "n_highway": 2,
                "embedding": {"dim": 16},
                "n_characters": 262,
                "max_characters_per_token": 50,
            },
        }
    )  # fmt: skip
    assert published == ElmoOptions()
    assert (published.features, published.dim) == (2048, 1024)


@pytest.mark.parametrize(
    ("place", "value", "says"),
    [
        ("lstm.use_skip_connections", False, "use_skip_connections is False, expected true"),
        ("lstm.use_skip_connections", None, "use_skip_connections is None, expected true"),
        ("lstm.dim", 0, "lstm.dim is 0, expected a positive integer"),
        ("lstm.n_layers", "2", "lstm.n_layers is '2', expected a positive integer"),
        ("lstm.cell_clip", -3, "lstm.cell_clip is -3, expected a positive number"),
        ("lstm.proj_clip", True, "lstm.proj_clip is True, expected a positive number"),
        ("char_cnn.n_characters", 261, "n_characters is 261, expected 262"),
        ("char_cnn.activation", "gelu", "activation is 'gelu', expected relu or tanh"),
        ("char_cnn.filters", [], r"filters is \[\], expected a list of \[width, number\] pairs"),
        ("char_cnn.filters", [[1, 2, 3]], "expected a list of .width, number. pairs"),
        ("char_cnn.embedding", 16, "char_cnn.embedding is 16, expected an object"),
        ("char_cnn.max_characters_per_token", 2, "max_characters_per_token is 2, less than the widest filter"),
        ("lstm", None, "lstm is None, expected an object"),
    ],
)
def test_options_that_are_not_supported_are_refused(place: str, value: object, says: str, tmp_path: Path) -> None:
    content = copy.deepcopy(TINY.to_dict())
    *sections, name = place.split(".")
    inner: dict[str, object] = content
    for section in sections:
        inner = inner[section]  # type: ignore[assignment]
    inner[name] = value
    path = tmp_path / "options.json"
    path.write_text(json.dumps(content))
    with pytest.raises(FormatError, match=says) as caught:
        ElmoOptions.load(path)
    assert str(path) in str(caught.value)


def test_a_file_that_is_not_json_is_refused(tmp_path: Path) -> None:
    (tmp_path / "options.json").write_text("{")
    with pytest.raises(FormatError, match=r"options\.json"):
        ElmoOptions.load(tmp_path / "options.json")
    with pytest.raises(InputMissingError):
        ElmoOptions.load(tmp_path / "nothing.json")
