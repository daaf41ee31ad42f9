"""Weights of ELMo: the published HDF5 layout and evenhand's safetensors."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from evenhand.errors import FormatError, InputMissingError, UsageError
from evenhand.models.encoders.elmo.weights import (
    array_shapes,
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
