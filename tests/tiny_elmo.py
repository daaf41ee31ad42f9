"""Tiny random ELMo models in the published layout, and a plain numpy forward pass to compare with."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from evenhand.models.encoders.elmo.files import ElmoOptions, save_model

Weights = dict[str, NDArray[np.float32]]
TINY = ElmoOptions(
    cells=6, projection=4, layers=2, cell_clip=3.0, projection_clip=3.0, character_dim=3,
    filters=((1, 3), (2, 4), (3, 5)), highways=2, longest_word=12,
)  # fmt: skip


def random_weights(options: ElmoOptions = TINY, seed: int = 0, scale: float = 1.0) -> Weights:
    """Return random datasets by their names in a published HDF5 file."""
    rng = np.random.default_rng(seed)
    features, width, cells = options.features, options.projection, options.cells
    shapes: dict[str, tuple[int, ...]] = {"char_embed": (261, options.character_dim)}
    for number, (size, filters) in enumerate(options.filters):
        shapes[f"CNN/W_cnn_{number}"] = (1, size, options.character_dim, filters)
        shapes[f"CNN/b_cnn_{number}"] = (filters,)
    for number in range(options.highways):
        for part in ("carry", "transform"):
            shapes[f"CNN_high_{number}/W_{part}"] = (features, features)
            shapes[f"CNN_high_{number}/b_{part}"] = (features,)
    shapes["CNN_proj/W_proj"], shapes["CNN_proj/b_proj"] = (features, width), (width,)
    for way in range(2):
        for number in range(options.layers):
            cell = f"RNN_{way}/RNN/MultiRNNCell/Cell{number}/LSTMCell"
            shapes[f"{cell}/W_0"], shapes[f"{cell}/B"] = (2 * width, 4 * cells), (4 * cells,)
            shapes[f"{cell}/W_P_0"] = (cells, width)
    return {name: (rng.normal(size=shape) * scale * 0.6).astype(np.float32) for name, shape in shapes.items()}


def as_arrays(weights: Weights, options: ElmoOptions = TINY) -> Weights:
    """Return the datasets under evenhand's names and in its layout."""
    arrays = {"characters.embedding": np.vstack([np.zeros((1, options.character_dim)), weights["char_embed"]])}
    for number in range(len(options.filters)):
        kernel = weights[f"CNN/W_cnn_{number}"]
        arrays[f"characters.convolutions.{number}.weight"] = np.einsum("wdn->ndw", kernel[0])
        arrays[f"characters.convolutions.{number}.bias"] = weights[f"CNN/b_cnn_{number}"]
    for number in range(options.highways):
        for part in ("carry", "transform"):
            arrays[f"characters.highways.{number}.{part}.weight"] = weights[f"CNN_high_{number}/W_{part}"].T
            arrays[f"characters.highways.{number}.{part}.bias"] = weights[f"CNN_high_{number}/b_{part}"]
    arrays["characters.projection.weight"] = weights["CNN_proj/W_proj"].T
    arrays["characters.projection.bias"] = weights["CNN_proj/b_proj"]
    for number in range(options.layers):
        for name, dataset in (("weight", "W_0"), ("bias", "B"), ("projection", "W_P_0")):
            ways = [weights[f"RNN_{way}/RNN/MultiRNNCell/Cell{number}/LSTMCell/{dataset}"] for way in range(2)]
            arrays[f"layers.{number}.{name}"] = np.stack(ways)
    return {name: array.astype(np.float32) for name, array in arrays.items()}


def save_tiny_elmo(folder: Path, options: ElmoOptions = TINY, *, seed: int = 0, scale: float = 1.0) -> Path:
    """Write a random model as safetensors, which needs neither torch nor h5py."""
    return save_model(folder, options, as_arrays(random_weights(options, seed, scale), options))


def naive_layers(
    weights: Weights, words: Sequence[str], options: ElmoOptions = TINY, *, token_map: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """Return the layers of a sentence, (layers + 1, words, 2 projection), token by token and without batches.

    `token_map` is a matrix that the token vectors of words, but not of boundaries, are multiplied by.
    """
    tokens = np.array([naive_token(weights, word, options) for word in words])
    if token_map is not None:
        tokens = tokens @ token_map
    first, last = (naive_token(weights, "", options, boundary) for boundary in (256, 257))
    sequence = np.vstack([first, tokens, last])
    forward = _direction(weights, sequence, options, 0)
    backward = [layer[::-1] for layer in _direction(weights, sequence[::-1], options, 1)]
    layers = [np.hstack([sequence, sequence]), *(np.hstack(both) for both in zip(forward, backward, strict=True))]
    return np.array([layer[1:-1] for layer in layers])


def naive_token(weights: Weights, word: str, options: ElmoOptions = TINY, boundary: int = 0) -> NDArray[np.float64]:
    """Return the token vector of a word, or of a boundary of sentences by its character id."""
    inner = [boundary] if boundary else list(word.encode()[: options.longest_word - 2])
    ids = [258, *inner, 259]
    characters = weights["char_embed"].astype(np.float64)[ids + [260] * (options.longest_word - len(ids))]
    features: list[NDArray[np.float64]] = []
    for number, (size, _) in enumerate(options.filters):
        kernel = weights[f"CNN/W_cnn_{number}"][0].astype(np.float64)
        windows = [(characters[p : p + size, :, None] * kernel).sum((0, 1)) for p in range(len(characters) - size + 1)]
        best = np.max(windows, axis=0) + weights[f"CNN/b_cnn_{number}"]
        features.append(np.tanh(best) if options.activation == "tanh" else np.maximum(best, 0))
    x = np.concatenate(features)
    for number in range(options.highways):
        named = {
            name: weights[f"CNN_high_{number}/{name}"] for name in ("W_carry", "b_carry", "W_transform", "b_transform")
        }
        gate = expit(x @ named["W_carry"] + named["b_carry"])
        x = gate * np.maximum(x @ named["W_transform"] + named["b_transform"], 0) + (1 - gate) * x
    return x @ weights["CNN_proj/W_proj"] + weights["CNN_proj/b_proj"]


def _direction(
    weights: Weights, sequence: NDArray[np.float64], options: ElmoOptions, way: int
) -> list[NDArray[np.float64]]:
    layers, inputs = [], sequence
    for number in range(options.layers):
        cell_weights = {
            name: weights[f"RNN_{way}/RNN/MultiRNNCell/Cell{number}/LSTMCell/{name}"].astype(np.float64)
            for name in ("W_0", "B", "W_P_0")
        }
        cell, output, outputs = np.zeros(options.cells), np.zeros(options.projection), []
        for vector in inputs:
            i, j, f, o = np.split(np.concatenate([vector, output]) @ cell_weights["W_0"] + cell_weights["B"], 4)
            cell = expit(f + 1) * cell + expit(i) * np.tanh(j)
            cell = np.clip(cell, -options.cell_clip, options.cell_clip)
            output = (expit(o) * np.tanh(cell)) @ cell_weights["W_P_0"]
            output = np.clip(output, -options.projection_clip, options.projection_clip)
            outputs.append(output)
        inputs = np.array(outputs) + (inputs if number else 0)
        layers.append(inputs)
    return layers
