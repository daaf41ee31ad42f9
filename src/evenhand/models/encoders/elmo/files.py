"""The files of an ELMo model: options (JSON), weights, and words as character ids.

Weights have the published HDF5 layout (TensorFlow's, y = x W + b) or evenhand's safetensors. Names and shapes are those
of the state dict of `ElmoNetwork`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import EvenhandError, FormatError, InputMissingError, UsageError, require, shown
from evenhand.files import MAX_EXPANSION, existing
from evenhand.models.model_files import read_header, read_json, read_tensor
from evenhand.outputs import replacing_folder

CHARACTERS = 262  # 256 bytes, four marks of words and sentences, the padding of words, and the padding of sentences
MOST_LAYERS = 1000
LONGEST_WORD = 1000  # bytes; every word takes this much memory
ACTIVATIONS = ("relu", "tanh")
SENTENCE_START, SENTENCE_END = "<S>", "</S>"
# Ids 0 to 255 are bytes. All ids are stored plus 1, because 0 is the padding of sentences.
START_OF_SENTENCE, END_OF_SENTENCE, START_OF_WORD, END_OF_WORD, PADDING = range(256, 261)
CharacterIds = NDArray[np.int16]
BOUNDARIES = {SENTENCE_START: [START_OF_SENTENCE], SENTENCE_END: [END_OF_SENTENCE]}


@dataclass(frozen=True)
class ElmoOptions:
    """Sizes of an ELMo model; the defaults are those of the published model `2x4096_512_2048cnn_2xhighway`.

    Attributes:
        cells: cells of an LSTM in each direction.
        projection: width of a token vector and of each direction's output.
        layers: number of biLSTM layers.
        cell_clip: limit of the absolute value of a cell.
        projection_clip: limit of the absolute value of an output.
        character_dim: dimensions of a character vector.
        filters: width and number of the filters of each convolution.
        highways: number of highway layers.
        activation: `relu` or `tanh`, after the maximum over positions.
        longest_word: bytes of a word that are read, two marks included.
    """

    cells: int = 4096
    projection: int = 512
    layers: int = 2
    cell_clip: float = 3.0
    projection_clip: float = 3.0
    character_dim: int = 16
    filters: tuple[tuple[int, int], ...] = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))
    highways: int = 2
    activation: str = "relu"
    longest_word: int = 50

    @property
    def features(self) -> int:
        """Number of all filters."""
        return sum(number for _, number in self.filters)

    @property
    def dim(self) -> int:
        """Dimensions of a layer: both directions together."""
        return 2 * self.projection

    @classmethod
    def load(cls, path: Path) -> ElmoOptions:
        """Read an options file.

        Raises:
            FormatError: If an option is missing, has the wrong type, or describes a model that is not supported.
        """
        content = read_json(path)
        try:
            return cls.from_dict(content)
        except FormatError as error:
            raise FormatError(f"{path}: {error.message}", hint=error.hint) from error

    @classmethod
    def from_dict(cls, content: Mapping[str, object]) -> ElmoOptions:
        """Return the options that a JSON object in the published layout holds."""
        lstm, cnn = (_section(content, name) for name in ("lstm", "char_cnn"))
        if lstm.get("use_skip_connections") is not True:
            raise FormatError(
                f"lstm.use_skip_connections is {shown(lstm.get('use_skip_connections'))}, expected true",
                hint="models without skip connections are not supported",
            )
        characters = cnn.get("n_characters")
        if characters != CHARACTERS:
            raise FormatError(
                f"char_cnn.n_characters is {shown(characters)}, expected {CHARACTERS}",
                hint="261 is the value for training; set it to 262 to use the trained weights",
            )
        activation = cnn.get("activation")
        if activation not in ACTIVATIONS:
            raise FormatError(f"char_cnn.activation is {shown(activation)}, expected {' or '.join(ACTIVATIONS)}")
        options = cls(
            cells=_positive(lstm, "lstm", "dim"),
            projection=_positive(lstm, "lstm", "projection_dim"),
            layers=_positive(lstm, "lstm", "n_layers", MOST_LAYERS),
            cell_clip=_limit(lstm, "cell_clip"),
            projection_clip=_limit(lstm, "proj_clip"),
            character_dim=_positive(_section(cnn, "embedding", "char_cnn."), "char_cnn.embedding", "dim"),
            filters=_filters(cnn.get("filters")),
            highways=_positive(cnn, "char_cnn", "n_highway", MOST_LAYERS),
            activation=str(activation),
            longest_word=_positive(cnn, "char_cnn", "max_characters_per_token", LONGEST_WORD),
        )
        widest = max(width for width, _ in options.filters)
        if options.longest_word < max(widest, 3):
            raise FormatError(
                f"char_cnn.max_characters_per_token is {options.longest_word}, less than the widest filter ({widest})"
            )
        return options

    def to_dict(self) -> dict[str, object]:
        """Return the options in the published layout."""
        return {
            "lstm": {
                "use_skip_connections": True,
                "projection_dim": self.projection,
                "cell_clip": self.cell_clip,
                "proj_clip": self.projection_clip,
                "dim": self.cells,
                "n_layers": self.layers,
            },
            "char_cnn": {
                "activation": self.activation,
                "filters": [list(pair) for pair in self.filters],
                "n_highway": self.highways,
                "embedding": {"dim": self.character_dim},
                "n_characters": CHARACTERS,
                "max_characters_per_token": self.longest_word,
            },
        }


def _section(content: Mapping[str, object], name: str, where: str = "") -> Mapping[str, object]:
    section = content.get(name)
    if not isinstance(section, dict):
        raise FormatError(
            f"{where}{name} is {shown(section)}, expected an object",
            hint="an ELMo options file has the objects lstm and char_cnn",
        )
    return cast(Mapping[str, object], section)


def _positive(section: Mapping[str, object], where: str, name: str, most: int | None = None) -> int:
    value = section.get(name)
    if type(value) is not int or value < 1:
        raise FormatError(f"{where}.{name} is {shown(value)}, expected a positive integer")
    if most is not None and value > most:
        raise FormatError(f"{where}.{name} is {value:,}, and at most {most:,} is supported")
    return value


def _limit(section: Mapping[str, object], name: str) -> float:
    value = section.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e300:
        raise FormatError(f"lstm.{name} is {shown(value)}, expected a positive number")
    return float(value)


def _filters(value: object) -> tuple[tuple[int, int], ...]:
    pairs = value if isinstance(value, list) else []
    good = [
        isinstance(pair, list) and len(pair) == 2 and all(type(number) is int and number > 0 for number in pair)
        for pair in pairs
    ]
    if not good or not all(good):
        raise FormatError(f"char_cnn.filters is {shown(value)}, expected a list of [width, number] pairs")
    return tuple((pair[0], pair[1]) for pair in pairs)


def character_ids(words: Sequence[str], longest: int = 50) -> CharacterIds:
    """Return a (words, longest) array of ids.

    A word is its UTF-8 bytes between two marks, cut to `longest - 2` bytes; case matters. `<S>` and `</S>` are the
    boundaries of sentences.

    >>> character_ids(["he"], 6).tolist()
    [[259, 105, 102, 260, 261, 261]]
    """
    rows = np.full((len(words), longest), PADDING, dtype=np.int16)
    for row, word in zip(rows, words, strict=True):
        if not word:
            raise UsageError("a word is empty", hint="leave empty words out of the sentences")
        inner = BOUNDARIES.get(word)
        if inner is None:
            inner = list(word.encode("utf-8", "ignore")[: longest - 2])  # a lone surrogate has no bytes
        row[: len(inner) + 2] = [START_OF_WORD, *inner, END_OF_WORD]
    return rows + np.int16(1)


Array32 = NDArray[np.float32]
WeightArrays = dict[str, Array32]

OPTIONS, WEIGHTS = "options.json", "weights.safetensors"
METADATA = "evenhand-elmo"
DAMAGED = (OSError, RuntimeError, LookupError, TypeError, ValueError, MemoryError, OverflowError)  # what h5py raises
PUBLISHED = ("_options.json", "_weights.hdf5")


class ElmoFiles(NamedTuple):
    """The two files of a model."""

    options: Path
    weights: Path


@dataclass(frozen=True)
class StoredArray:
    """A dataset of an HDF5 file: its name and shape there, and how it becomes an array of ours."""

    name: str
    shape: tuple[int, ...]
    convert: Callable[[Array32], Array32] = lambda array: array


def locate_files(path: Path) -> ElmoFiles | None:
    """Return options and weights of a folder or of one of its two files; None if they are not there."""
    folder = path if path.is_dir() else path.parent
    if path.is_file() and path.suffix == ".json":
        options = path
    else:
        twin = path.with_name(path.name.removesuffix(PUBLISHED[1]) + PUBLISHED[0])
        candidates = [twin, folder / OPTIONS, *sorted(folder.glob(f"*{PUBLISHED[0]}"))]
        options = next((file for file in candidates if file.is_file()), folder / OPTIONS)
    if path.is_file() and path.suffix != ".json":
        weights = path
    else:
        twin = options.with_name(options.name.removesuffix(PUBLISHED[0]) + PUBLISHED[1])
        candidates = [twin, folder / WEIGHTS, *sorted(folder.glob("*weights.hdf5"))]
        weights = next((file for file in candidates if file.is_file()), folder / WEIGHTS)
    return ElmoFiles(options, weights) if options.is_file() and weights.is_file() else None


def read_model(path: Path) -> tuple[ElmoOptions, WeightArrays, ElmoFiles]:
    """Read options and weights of a folder, or of one of its two files.

    Raises:
        InputMissingError: If one of the two files is missing.
        FormatError: If the options are not supported or the weights do not fit them.
    """
    if not path.exists():
        raise InputMissingError(f"{path} does not exist", hint="name a folder or an options file of an ELMo model")
    files = locate_files(path)
    if files is None:
        raise InputMissingError(
            f"{path}: no ELMo model there",
            hint=f"a folder holds {OPTIONS} and {WEIGHTS}, or NAME{PUBLISHED[0]} and NAME{PUBLISHED[1]}",
        )
    options = ElmoOptions.load(files.options)
    reader = read_safetensors if files.weights.suffix == ".safetensors" else read_hdf5
    return options, reader(files.weights, options), files


def array_shapes(options: ElmoOptions) -> dict[str, tuple[int, ...]]:
    """Return the shape of every array by its name."""
    features, width = options.features, options.projection
    shapes: dict[str, tuple[int, ...]] = {"characters.embedding": (CHARACTERS, options.character_dim)}
    for number, (size, filters) in enumerate(options.filters):
        name = f"characters.convolutions.{number}"
        shapes |= {f"{name}.weight": (filters, options.character_dim, size), f"{name}.bias": (filters,)}
    for number in range(options.highways):
        for part in ("carry", "transform"):
            name = f"characters.highways.{number}.{part}"
            shapes |= {f"{name}.weight": (features, features), f"{name}.bias": (features,)}
    shapes |= {"characters.projection.weight": (width, features), "characters.projection.bias": (width,)}
    for number in range(options.layers):
        shapes |= {
            f"layers.{number}.weight": (2, 2 * width, 4 * options.cells),
            f"layers.{number}.bias": (2, 4 * options.cells),
            f"layers.{number}.projection": (2, options.cells, width),
        }
    return shapes


def hdf5_datasets(options: ElmoOptions) -> dict[str, tuple[StoredArray, ...]]:
    """Return the datasets of each array: one, or two for the directions of an LSTM."""
    features, width, gates = options.features, options.projection, 4 * options.cells

    def linear(group: str, part: str, shape: tuple[int, int]) -> tuple[StoredArray, StoredArray]:
        return (
            StoredArray(f"{group}/W_{part}", shape, lambda array: array.T),
            StoredArray(f"{group}/b_{part}", shape[1:]),
        )

    stored: dict[str, tuple[StoredArray, ...]] = {
        "characters.embedding": (
            StoredArray("char_embed", (CHARACTERS - 1, options.character_dim), lambda a: np.pad(a, ((1, 0), (0, 0)))),
        )
    }
    for number, (size, filters) in enumerate(options.filters):
        name = f"characters.convolutions.{number}"
        kernel = StoredArray(
            f"CNN/W_cnn_{number}", (1, size, options.character_dim, filters), lambda array: array[0].transpose(2, 1, 0)
        )
        stored |= {f"{name}.weight": (kernel,), f"{name}.bias": (StoredArray(f"CNN/b_cnn_{number}", (filters,)),)}
    for number in range(options.highways):
        for part in ("carry", "transform"):
            weight, bias = linear(f"CNN_high_{number}", part, (features, features))
            name = f"characters.highways.{number}.{part}"
            stored |= {f"{name}.weight": (weight,), f"{name}.bias": (bias,)}
    weight, bias = linear("CNN_proj", "proj", (features, width))
    stored |= {"characters.projection.weight": (weight,), "characters.projection.bias": (bias,)}
    for number in range(options.layers):
        cells = [f"RNN_{way}/RNN/MultiRNNCell/Cell{number}/LSTMCell" for way in range(2)]
        stored |= {
            f"layers.{number}.weight": tuple(StoredArray(f"{cell}/W_0", (2 * width, gates)) for cell in cells),
            f"layers.{number}.bias": tuple(StoredArray(f"{cell}/B", (gates,)) for cell in cells),
            f"layers.{number}.projection": tuple(StoredArray(f"{c}/W_P_0", (options.cells, width)) for c in cells),
        }
    return stored


def read_hdf5(path: Path, options: ElmoOptions) -> WeightArrays:
    """Read published weights. Only what is stored inside the file is read: HDF5 can refer to any other file.

    Raises:
        FormatError: If the file is not HDF5, a dataset is missing or lies elsewhere, or a shape does not fit the
            options.
    """
    h5py = require("h5py", extra="elmo")
    try:
        with h5py.File(existing(path, what="weights file"), "r") as file:
            _check_total(path, options)

            def read(stored: StoredArray) -> Array32:
                dataset = _own_dataset(h5py, file, path, stored.name)
                if tuple(dataset.shape) != stored.shape:
                    raise _wrong_shape(path, stored.name, tuple(dataset.shape), stored.shape)
                array = _require_finite(path, stored.name, np.asarray(dataset, dtype=np.float32))
                return stored.convert(array)

            arrays = {
                name: np.stack([read(part) for part in parts]) if name.startswith("layers.") else read(parts[0])
                for name, parts in hdf5_datasets(options).items()
            }
    except EvenhandError:
        raise
    except DAMAGED as error:
        raise FormatError(f"{path}: not a complete HDF5 file ({error})", hint="fetch the file again") from error
    return {name: np.ascontiguousarray(array) for name, array in arrays.items()}


def _own_dataset(h5py: Any, file: Any, path: Path, name: str) -> Any:
    """Return a dataset whose data lie in the file itself, looked up by its hard links alone."""
    place, parts, found = "", name.split("/"), cast(Any, None)
    for part in parts:
        place = f"{place}/{part}"
        link = file.get(place, getlink=True)
        if link is not None and not isinstance(link, h5py.HardLink):
            raise _stored_elsewhere(path, name, f"{place} is a link to another place")
        found = None if link is None else file.get(place)
        if not isinstance(found, h5py.Dataset if part is parts[-1] else h5py.Group):
            raise FormatError(f"{path}: the dataset {name!r} is missing", hint="check that the options belong to it")
    created = found.id.get_create_plist()  # before the shape is asked for, which can open the files of a virtual one
    if created.get_layout() not in (h5py.h5d.COMPACT, h5py.h5d.CONTIGUOUS, h5py.h5d.CHUNKED):
        raise _stored_elsewhere(path, name, "it is a virtual data set")
    if created.get_external_count():
        raise _stored_elsewhere(path, name, f"its data are in {created.get_external(0)[0]!r}")
    return found


def _stored_elsewhere(path: Path, name: str, why: str) -> FormatError:
    return FormatError(
        f"{path}: the dataset {name!r} is not stored inside the file: {why}",
        hint="copy it into one file with h5repack or h5copy",
    )


def _check_total(path: Path, options: ElmoOptions) -> None:
    """Raise an error for sizes that a file of this size cannot hold, before anything of them is allocated."""
    total = 4 * sum(math.prod(shape) for shape in array_shapes(options).values())
    size = path.stat().st_size
    if total > MAX_EXPANSION * size:
        raise FormatError(
            f"{path}: the options describe weights of {total:,} bytes, and the file has {size:,}",
            hint="use the options file that was published with these weights",
        )


def read_safetensors(path: Path, options: ElmoOptions) -> WeightArrays:
    """Read weights that `save_model` wrote; half precision is widened.

    Raises:
        FormatError: If the file is damaged, an array is missing, or a shape does not fit the options.
    """
    header = read_header(path)
    _check_total(path, options)
    arrays = {}
    for name, shape in array_shapes(options).items():
        if name not in header:
            raise FormatError(f"{path}: the array {name!r} is missing", hint="check that the options belong to it")
        if header[name].shape != shape:
            raise _wrong_shape(path, name, header[name].shape, shape)
        arrays[name] = _require_finite(path, name, read_tensor(header[name], name))
    return arrays


def save_model(
    folder: Path,
    options: ElmoOptions,
    arrays: Mapping[str, Array32],
    *,
    dtype: str = "float32",
    about: Mapping[str, object] | None = None,
) -> Path:
    """Write options.json and weights.safetensors; `about` goes into the metadata of the weights."""
    from safetensors.numpy import save as to_bytes

    if dtype not in ("float32", "float16"):
        raise UsageError(f"weights are saved as float32 or float16, got {dtype!r}")
    tensors = {name: np.ascontiguousarray(arrays[name], dtype=dtype) for name in array_shapes(options)}
    with replacing_folder(folder, keep_others=True) as partial:
        metadata = {METADATA: json.dumps(dict(about or {}), sort_keys=True)}
        (partial / WEIGHTS).write_bytes(to_bytes(tensors, metadata=metadata))
        (partial / OPTIONS).write_text(json.dumps(options.to_dict(), indent=2) + "\n", encoding="utf-8")
    return folder


def _wrong_shape(path: Path, name: str, shape: tuple[int, ...], expected: tuple[int, ...]) -> FormatError:
    return FormatError(
        f"{path}: {name!r} has the shape {shape}, and the options need {expected}",
        hint="use the options file that was published with these weights",
    )


def _require_finite(path: Path, name: str, array: Array32) -> Array32:
    if not np.isfinite(array).all():
        raise FormatError(f"{path}: {name!r} holds NaN or infinity", hint="fetch or train the weights again")
    return array
