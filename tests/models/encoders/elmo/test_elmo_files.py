"""The files of ELMo: options, characters of words, weights in HDF5 and safetensors."""

import copy
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evenhand.errors import FormatError, InputMissingError, UsageError
from evenhand.models.encoders.elmo.files import (
    ElmoOptions,
    array_shapes,
    character_ids,
    hdf5_datasets,
    locate_files,
    read_hdf5,
    read_model,
    save_model,
)
from tiny_elmo import TINY, Weights, as_arrays, random_weights, save_tiny_elmo


def write_hdf5(path: Path, weights: Weights) -> Path:
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        for name, array in weights.items():
            file.create_dataset(name, data=array)
    return path


def published_folder(folder: Path, weights: Weights, name: str = "small") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / f"{name}_options.json").write_text(json.dumps(TINY.to_dict()))
    write_hdf5(folder / f"{name}_weights.hdf5", weights)
    return folder


def test_every_dataset_becomes_the_array_it_is(tmp_path: Path) -> None:
    weights = random_weights()
    options, arrays, files = read_model(published_folder(tmp_path / "model", weights))
    assert options == TINY
    assert files.weights.name == "small_weights.hdf5"
    expected = as_arrays(weights)
    assert set(arrays) == set(expected)
    for name, array in expected.items():
        np.testing.assert_array_equal(arrays[name], array, err_msg=name)
        assert arrays[name].flags.c_contiguous


def test_names_and_shapes_are_those_of_the_published_layout() -> None:
    stored = {part.name: part.shape for parts in hdf5_datasets(TINY).values() for part in parts}
    assert stored == {name: array.shape for name, array in random_weights().items()}
    assert array_shapes(TINY) == {name: array.shape for name, array in as_arrays(random_weights()).items()}


def test_safetensors_keep_every_number(tmp_path: Path) -> None:
    expected = as_arrays(random_weights())
    _, arrays, _ = read_model(save_tiny_elmo(tmp_path / "model"))
    for name, array in expected.items():
        np.testing.assert_array_equal(arrays[name], array, err_msg=name)
    save_model(tmp_path / "half", TINY, expected, dtype="float16")
    _, halved, _ = read_model(tmp_path / "half")
    for name, array in expected.items():
        assert halved[name].dtype == np.float32
        np.testing.assert_array_equal(halved[name], array.astype(np.float16).astype(np.float32), err_msg=name)
    with pytest.raises(UsageError, match="float32 or float16, got 'int8'"):
        save_model(tmp_path / "bytes", TINY, expected, dtype="int8")


def test_files_are_found_by_folder_and_by_either_file(tmp_path: Path) -> None:
    folder = save_tiny_elmo(tmp_path / "ours")
    for path in (folder, folder / "options.json", folder / "weights.safetensors"):
        assert locate_files(path) == (folder / "options.json", folder / "weights.safetensors")
    for name in ("a_options.json", "a_weights.hdf5", "b_options.json", "b_weights.hdf5"):
        (tmp_path / name).touch()
    for path in (tmp_path / "b_options.json", tmp_path / "b_weights.hdf5"):
        assert locate_files(path) == (tmp_path / "b_options.json", tmp_path / "b_weights.hdf5")
    assert locate_files(tmp_path) == (tmp_path / "a_options.json", tmp_path / "a_weights.hdf5")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputMissingError, match="nothing does not exist"):
        read_model(tmp_path / "nothing")
    with pytest.raises(InputMissingError, match="no ELMo model there"):
        read_model(tmp_path)
    folder = save_tiny_elmo(tmp_path / "model")
    (folder / "weights.safetensors").unlink()
    with pytest.raises(InputMissingError, match="no ELMo model there"):
        read_model(folder)


def test_a_missing_dataset_is_named(tmp_path: Path) -> None:
    weights = random_weights()
    del weights["RNN_1/RNN/MultiRNNCell/Cell1/LSTMCell/W_P_0"]
    path = write_hdf5(tmp_path / "w.hdf5", weights)
    with pytest.raises(FormatError, match="dataset 'RNN_1/RNN/MultiRNNCell/Cell1/LSTMCell/W_P_0' is missing"):
        read_hdf5(path, TINY)


def test_a_group_in_place_of_a_dataset_is_refused(tmp_path: Path) -> None:
    weights = random_weights()
    weights["char_embed/inner"] = weights.pop("char_embed")
    with pytest.raises(FormatError, match="dataset 'char_embed' is missing"):
        read_hdf5(write_hdf5(tmp_path / "w.hdf5", weights), TINY)


@pytest.mark.parametrize("name", ["char_embed", "CNN/W_cnn_1", "CNN_high_1/b_carry", "CNN_proj/W_proj"])
def test_a_wrong_shape_is_refused(name: str, tmp_path: Path) -> None:
    weights = random_weights()
    weights[name] = weights[name][..., :-1]
    with pytest.raises(FormatError, match=f"'{name}' has the shape .* and the options need"):
        read_hdf5(write_hdf5(tmp_path / "w.hdf5", weights), TINY)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nan_and_infinity_are_refused(value: float, tmp_path: Path) -> None:
    weights = random_weights()
    weights["CNN/b_cnn_0"][1] = value
    with pytest.raises(FormatError, match="'CNN/b_cnn_0' holds NaN or infinity"):
        read_hdf5(write_hdf5(tmp_path / "w.hdf5", weights), TINY)
    folder = save_model(tmp_path / "model", TINY, as_arrays(weights))
    with pytest.raises(FormatError, match=r"'characters\.convolutions\.0\.bias' holds NaN or infinity"):
        read_model(folder)


def test_safetensors_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    folder = save_tiny_elmo(tmp_path / "model")
    content = TINY.to_dict() | {"lstm": {**TINY.to_dict()["lstm"], "dim": 7}}  # type: ignore[dict-item]
    (folder / "options.json").write_text(json.dumps(content))
    with pytest.raises(FormatError, match=r"'layers\.0\.weight' has the shape .* and the options need"):
        read_model(folder)
    content = TINY.to_dict() | {"lstm": {**TINY.to_dict()["lstm"], "n_layers": 3}}  # type: ignore[dict-item]
    (folder / "options.json").write_text(json.dumps(content))
    with pytest.raises(FormatError, match=r"the array 'layers\.2\.weight' is missing"):
        read_model(folder)


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    folder = save_tiny_elmo(tmp_path / "model")
    weights = folder / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-10])
    with pytest.raises(FormatError, match=r"weights\.safetensors"):
        read_model(folder)
    pytest.importorskip("h5py")
    published = published_folder(tmp_path / "published", random_weights())
    file = published / "small_weights.hdf5"
    file.write_bytes(file.read_bytes()[:2_000])
    with pytest.raises(FormatError, match="not a complete HDF5 file"):
        read_model(published)
    file.write_text("not HDF5")
    with pytest.raises(FormatError, match="not a complete HDF5 file"):
        read_model(published)


def test_a_stopped_save_leaves_the_old_model(tmp_path: Path) -> None:
    folder = save_tiny_elmo(tmp_path / "model")
    copy = shutil.copytree(folder, tmp_path / "copy")
    arrays = as_arrays(random_weights(seed=1))
    del arrays["layers.1.bias"]
    with pytest.raises(KeyError):
        save_model(folder, TINY, arrays)
    for name in ("options.json", "weights.safetensors"):
        assert (folder / name).read_bytes() == (copy / name).read_bytes()


def outside(path: Path, weights: Weights) -> Weights:
    """Write one dataset into a file of its own, raw and as HDF5, and return the others."""
    h5py = pytest.importorskip("h5py")
    array = weights.pop("char_embed")
    path.with_suffix(".raw").write_bytes(array.astype("<f4").tobytes())
    with h5py.File(path.with_suffix(".h5"), "w") as file:
        file.create_dataset("char_embed", data=array)
    return weights


@pytest.mark.parametrize("how", ["external storage", "external link", "soft link", "soft link to a link", "virtual"])
def test_what_is_not_stored_inside_the_file_is_refused(how: str, tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    whole = random_weights()
    shape = whole["char_embed"].shape
    path = write_hdf5(tmp_path / "w.hdf5", outside(tmp_path / "private", whole))
    raw, other = tmp_path / "private.raw", str(tmp_path / "private.h5")
    with h5py.File(path, "a") as file:
        if how == "external storage":
            external = [(str(raw), 0, raw.stat().st_size)]
            file.create_dataset("char_embed", shape=shape, dtype="<f4", external=external)
        elif how == "external link":
            file["char_embed"] = h5py.ExternalLink(other, "/char_embed")
        elif how == "virtual":
            layout = h5py.VirtualLayout(shape=shape, dtype="<f4")
            layout[:] = h5py.VirtualSource(other, "char_embed", shape=shape)
            file.create_virtual_dataset("char_embed", layout)
        else:
            file["there"] = h5py.ExternalLink(other, "/")
            file["char_embed"] = h5py.SoftLink("/there/char_embed" if "to a" in how else "/CNN/b_cnn_0")
    with pytest.raises(FormatError, match="'char_embed' is not stored inside the file"):
        read_hdf5(path, TINY)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.parametrize("how", ["external storage", "external link", "group", "virtual"])
def test_a_pipe_behind_the_file_is_never_opened(how: str, tmp_path: Path) -> None:
    """Opening it would wait for a writer for ever."""
    h5py = pytest.importorskip("h5py")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    weights = random_weights()
    shape = weights.pop("char_embed").shape
    if how == "group":
        weights = {name: array for name, array in weights.items() if not name.startswith("CNN/")}
    path = write_hdf5(tmp_path / "w.hdf5", weights)
    with h5py.File(path, "a") as file:
        if how == "external storage":
            file.create_dataset(
                "char_embed", shape=shape, dtype="<f4", external=[(str(pipe), 0, 4 * shape[0] * shape[1])]
            )
        elif how == "virtual":
            layout = h5py.VirtualLayout(shape=(shape[0], shape[1]), maxshape=(None, shape[1]), dtype="<f4")
            source = h5py.VirtualSource(str(pipe), "x", shape=shape, maxshape=(None, shape[1]))
            layout[: h5py.h5s.UNLIMITED, :] = source[: h5py.h5s.UNLIMITED, :]
            file.create_virtual_dataset("char_embed", layout)
        else:
            name = "CNN" if how == "group" else "char_embed"
            file[name] = h5py.ExternalLink(str(pipe), "/")
            if how == "group":
                file.create_dataset("char_embed", data=np.zeros(shape, np.float32))
    with pytest.raises(FormatError, match="is not stored inside the file"):
        read_hdf5(path, TINY)


@pytest.mark.parametrize(
    ("section", "name", "value"),
    [("lstm", "n_layers", 10**9), ("char_cnn", "n_highway", 10**9), ("char_cnn", "max_characters_per_token", 10**6)],
)
def test_counts_that_would_take_all_memory_are_refused(section: str, name: str, value: int, tmp_path: Path) -> None:
    folder = save_tiny_elmo(tmp_path / "model")
    content = TINY.to_dict()
    content[section] = {**content[section], name: value}  # type: ignore[dict-item]
    (folder / "options.json").write_text(json.dumps(content))
    with pytest.raises(FormatError, match=f"{section}.{name} is {value:,}, and at most"):
        read_model(folder)


@pytest.mark.parametrize("kind", ["safetensors", "hdf5"])
def test_sizes_beyond_the_file_are_refused_before_they_are_allocated(kind: str, tmp_path: Path) -> None:
    """HDF5 fills a dataset without stored values with zeros, so a small file can claim any shape."""
    if kind == "hdf5":
        h5py = pytest.importorskip("h5py")
        folder = published_folder(tmp_path / "model", random_weights())
        big = replace(TINY, cells=10**7)
        with h5py.File(folder / "small_weights.hdf5", "a") as file:
            for parts in hdf5_datasets(big).values():
                for part in parts:
                    if file[part.name].shape != part.shape:
                        del file[part.name]
                        file.create_dataset(part.name, shape=part.shape, dtype="<f4", chunks=True)
        (folder / "small_options.json").write_text(json.dumps(big.to_dict()))
    else:
        folder = save_tiny_elmo(tmp_path / "model")
        (folder / "options.json").write_text(json.dumps(replace(TINY, cells=10**7).to_dict()))
    with pytest.raises(FormatError, match="the options describe weights of"):
        read_model(folder)


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
