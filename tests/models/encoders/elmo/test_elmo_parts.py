"""The parts of ELMo by their definitions: first weights, states, reversal, options at their limits, digests."""

from __future__ import annotations

import copy
import hashlib
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

torch = pytest.importorskip("torch")

from evenhand.errors import DegenerateError, FormatError, UnknownNameError, UsageError  # noqa: E402
from evenhand.mitigations.maps.coordinates import SoftProjection  # noqa: E402
from evenhand.models.encoders.elmo import encoder as encoder_module  # noqa: E402
from evenhand.models.encoders.elmo import files as files_module  # noqa: E402
from evenhand.models.encoders.elmo.encoder import Elmo, ElmoSentences, average_vectors, mixing_weights  # noqa: E402
from evenhand.models.encoders.elmo.files import (  # noqa: E402
    ElmoOptions,
    array_shapes,
    character_ids,
    locate_files,
    read_model,
    save_model,
)
from evenhand.models.encoders.elmo.network import (  # noqa: E402
    ElmoLSTMLayer,
    ElmoNetwork,
    LSTMState,
    gather_tokens,
    reversed_positions,
)
from tiny_elmo import TINY, as_arrays, naive_layers, random_weights, save_tiny_elmo  # noqa: E402


@pytest.fixture(scope="module")
def elmo(tmp_path_factory: pytest.TempPathFactory) -> Elmo:
    return Elmo.load(save_tiny_elmo(tmp_path_factory.mktemp("tiny")), device="cpu")


# Network -------------------------------------------------------------------------------------------------------------


def test_the_first_weights_by_hand() -> None:
    network = ElmoNetwork(TINY)
    network.initialise(3)
    drawn = torch.Generator().manual_seed(3)
    stored = {name: tensor.detach() for name, tensor in network.named_parameters()}
    embedding = torch.rand(262, 3, generator=drawn) * 2 - 1
    embedding[0] = 0
    assert torch.equal(stored["characters.embedding"], embedding)

    def normal(name: str, spread: float) -> None:
        torch.testing.assert_close(stored[name], torch.randn(stored[name].shape, generator=drawn) * spread)

    for number, (width, _) in enumerate(TINY.filters):
        normal(f"characters.convolutions.{number}.weight", (3 * width) ** -0.5)
        assert not stored[f"characters.convolutions.{number}.bias"].any()
    for number in range(2):
        for part, bias in (("carry", -2.0), ("transform", 0.0)):
            normal(f"characters.highways.{number}.{part}.weight", 12**-0.5)
            assert stored[f"characters.highways.{number}.{part}.bias"].unique().tolist() == [bias]
    normal("characters.projection.weight", 12**-0.5)
    assert not stored["characters.projection.bias"].any()
    for number in range(2):
        normal(f"layers.{number}.weight", (2 / (8 + 24)) ** 0.5)
        normal(f"layers.{number}.projection", (2 / (6 + 4)) ** 0.5)
        assert not stored[f"layers.{number}.bias"].any()
    assert {name: tuple(tensor.shape) for name, tensor in stored.items()} == array_shapes(TINY)


def layer_by_hand(layer: ElmoLSTMLayer, x: Any, output: Any, cell: Any) -> tuple[Any, Any]:
    """Both directions of a layer, token by token, from given outputs and cells."""
    weight, bias, projection = (part.detach().double().numpy() for part in (layer.weight, layer.bias, layer.projection))
    outputs, all_cells = [], []
    for token in range(x.shape[1]):
        both = []
        for way in range(2):
            gates = np.concatenate([x[way, token], output[way]], axis=1) @ weight[way] + bias[way]
            i, j, f, o = np.split(gates, 4, axis=1)
            new = expit(f + 1) * cell[way] + expit(i) * np.tanh(j)
            new = np.clip(new, -layer.cell_clip, layer.cell_clip)
            out = np.clip((expit(o) * np.tanh(new)) @ projection[way], -layer.projection_clip, layer.projection_clip)
            both.append((out, new))
        output, cell = np.stack([out for out, _ in both]), np.stack([new for _, new in both])
        outputs.append(output)
        all_cells.append(cell)
    return np.stack(outputs, axis=1), np.stack(all_cells, axis=1)


@pytest.mark.parametrize("begun", [True, False])
def test_a_layer_by_hand(begun: bool) -> None:
    layer = ElmoLSTMLayer(replace(TINY, cell_clip=0.8, projection_clip=0.5))
    drawn = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=drawn))
    x = torch.randn(2, 5, 3, 4, generator=drawn)
    output, cell = torch.randn(2, 3, 4, generator=drawn) * begun, torch.randn(2, 3, 6, generator=drawn) * begun
    with torch.no_grad():
        found, cells = layer(x, LSTMState(output, cell) if begun else None, keep_cells=True)
        assert layer(x)[1] is None
    expected = layer_by_hand(layer, x.double().numpy(), output.double().numpy(), cell.double().numpy())
    np.testing.assert_allclose(found.numpy(), expected[0], atol=1e-5)
    np.testing.assert_allclose(cells.numpy(), expected[1], atol=1e-5)
    assert np.abs(expected[0]).max() == 0.5
    zeros = layer.zeros(7, torch.zeros(1, dtype=torch.bfloat16))
    assert (zeros.output.shape, zeros.cells.shape) == ((2, 7, 4), (2, 7, 6))
    assert (zeros.output.dtype, zeros.cells.dtype) == (torch.bfloat16, torch.float32)
    assert not zeros.output.any()
    assert not zeros.cells.any()


def test_states_are_those_after_the_last_token_of_each_sentence(elmo: Elmo) -> None:
    network, lengths = elmo.network, torch.tensor([4, 2, 3])
    x = torch.randn(3, 4, 4, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        layers, states = network.stateful(x, lengths, None)
        plain = network(x, lengths)
        again, _ = network.stateful(x, lengths, states)
    for one, other in zip(layers, plain, strict=True):
        for row, length in enumerate(lengths.tolist()):
            torch.testing.assert_close(one[row, :length], other[row, :length])
    reversal = reversed_positions(lengths, 4)
    both = np.stack([x.numpy(), gather_tokens(x, reversal).numpy()]).transpose(0, 2, 1, 3).astype(np.float64)
    for start in (None, states):
        inputs = both
        for number, layer in enumerate(network.layers):
            begin = [np.zeros((2, 3, 4)), np.zeros((2, 3, 6))]
            if start is not None:
                begin = [part.double().numpy() for part in start[number]]
            outputs, cells = layer_by_hand(layer, inputs, *begin)
            if start is None:
                for row, length in enumerate(lengths.tolist()):
                    np.testing.assert_allclose(states[number].output[:, row], outputs[:, length - 1, row], atol=1e-5)
                    np.testing.assert_allclose(states[number].cells[:, row], cells[:, length - 1, row], atol=1e-5)
            inputs = outputs + (inputs if number else 0)
            for row, length in enumerate(lengths.tolist()):
                joined = np.hstack([inputs[0, :length, row], inputs[1, :length, row][::-1]])
                found = (layers if start is None else again)[number + 1][row, :length]
                np.testing.assert_allclose(found.numpy(), joined, atol=1e-5)


def test_a_sentence_is_reversed_and_its_padding_stays() -> None:
    assert reversed_positions(torch.tensor([3, 1, 4]), 4).tolist() == [[2, 1, 0, 3], [0, 1, 2, 3], [3, 2, 1, 0]]
    x = torch.arange(8).reshape(1, 4, 2)
    assert gather_tokens(x, torch.tensor([[2, 1, 0, 3]])).tolist() == [[[4, 5], [2, 3], [0, 1], [6, 7]]]


def test_columns_that_only_repeat_padding_are_left_out(elmo: Elmo) -> None:
    cnn = elmo.network.characters
    ids = torch.as_tensor(character_ids(["a", "abcd"], 12)).long()
    assert cnn._trim(ids).tolist() == ids[:, : 6 + 3].tolist()  # six characters and the widest filter
    longest = torch.as_tensor(character_ids(["x" * 20], 12)).long()
    assert torch.equal(cnn._trim(longest), longest)
    with torch.no_grad():
        one = cnn(torch.as_tensor(character_ids(["a"], 12)).long())
        torch.testing.assert_close(cnn(ids)[:1], one)


# Files ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "value", "good"),
    [
        ("lstm.n_layers", 1000, True), ("lstm.n_layers", 1001, False), ("lstm.dim", 1, True), ("lstm.dim", True, False),
        ("char_cnn.n_highway", 1000, True), ("char_cnn.n_highway", 1001, False),
        ("char_cnn.max_characters_per_token", 1000, True), ("char_cnn.max_characters_per_token", 1001, False),
        ("char_cnn.max_characters_per_token", 3, True), ("char_cnn.max_characters_per_token", 2, False),
        ("lstm.cell_clip", 1e299, True), ("lstm.cell_clip", 1e300, False), ("lstm.proj_clip", 0, False),
        ("lstm.proj_clip", 1, True), ("lstm.proj_clip", math.nan, False), ("lstm.cell_clip", "3", False),
        ("char_cnn.filters", [[1, 1]], True), ("char_cnn.filters", [[1, 0]], False), ("char_cnn.filters", [[1, 1], 3], False),
        ("char_cnn.filters", [[1, 1.0]], False), ("char_cnn.filters", [[1]], False), ("char_cnn.filters", "x", False),
        ("char_cnn.filters", [[12, 1]], True), ("char_cnn.filters", [[13, 1]], False), ("char_cnn.activation", "tanh", True),
        ("char_cnn.embedding", {"dim": 0}, False), ("char_cnn.n_characters", 263, False), ("char_cnn", 3, False),
        ("lstm.use_skip_connections", 1, False),
    ],
)  # fmt: skip
def test_options_at_their_limits(place: str, value: Any, good: bool) -> None:
    content: dict[str, Any] = copy.deepcopy(TINY.to_dict())
    section, _, name = place.partition(".")
    if name:
        content[section][name] = value
    else:
        content[section] = value
    if good:
        changed = ElmoOptions.from_dict(content).to_dict()
        assert changed == content
    else:
        with pytest.raises(FormatError):
            ElmoOptions.from_dict(content)


def test_a_short_word_needs_three_characters() -> None:
    content: dict[str, Any] = copy.deepcopy(TINY.to_dict())
    content["char_cnn"]["filters"] = [[1, 2]]
    for longest, good in ((3, True), (2, False)):
        content["char_cnn"]["max_characters_per_token"] = longest
        if good:
            assert ElmoOptions.from_dict(content).longest_word == 3
        else:
            with pytest.raises(FormatError, match=r"is 2, less than the widest filter \(1\)"):
                ElmoOptions.from_dict(content)


def test_weights_are_as_large_as_the_file_allows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    total = 4 * sum(math.prod(shape) for shape in array_shapes(TINY).values())
    file = tmp_path / "w"
    monkeypatch.setattr(files_module, "MAX_EXPANSION", 3)
    file.write_bytes(b"x" * -(-total // 3))
    files_module._check_total(file, TINY)
    file.write_bytes(b"x" * (-(-total // 3) - 1))
    with pytest.raises(FormatError, match=f"weights of {total:,} bytes, and the file has"):
        files_module._check_total(file, TINY)


def test_what_a_saved_model_holds(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors")
    arrays = as_arrays(random_weights())
    folder = save_model(tmp_path / "m", TINY, arrays, about={"b": 1, "a": 2})
    text = (folder / "options.json").read_text(encoding="utf-8")
    assert text == json.dumps(TINY.to_dict(), indent=2) + "\n"
    with safetensors.safe_open(folder / "weights.safetensors", framework="numpy") as file:
        assert file.metadata() == {"evenhand-elmo": '{"a": 2, "b": 1}'}
        assert set(file.keys()) == set(arrays)
    (folder / "notes").touch()
    save_model(folder, TINY, arrays)
    assert (folder / "notes").exists()
    options, found, files = read_model(folder / "weights.safetensors")
    assert (options, files) == (TINY, (folder / "options.json", folder / "weights.safetensors"))
    assert all(np.array_equal(found[name], array) for name, array in arrays.items())


def test_files_of_a_name_belong_together(tmp_path: Path) -> None:
    for name in ("a_options.json", "b_options.json", "b_weights.hdf5", "options.json"):
        (tmp_path / name).touch()
    assert locate_files(tmp_path) == (tmp_path / "options.json", tmp_path / "b_weights.hdf5")
    assert locate_files(tmp_path / "b_weights.hdf5") == (tmp_path / "b_options.json", tmp_path / "b_weights.hdf5")
    assert locate_files(tmp_path / "a_options.json") == (tmp_path / "a_options.json", tmp_path / "b_weights.hdf5")
    (tmp_path / "weights.safetensors").touch()
    assert locate_files(tmp_path) == (tmp_path / "options.json", tmp_path / "weights.safetensors")
    (tmp_path / "other.bin").touch()
    assert locate_files(tmp_path / "other.bin") == (tmp_path / "options.json", tmp_path / "other.bin")
    assert locate_files(tmp_path / "nothing") is not None  # of the folder
    (tmp_path / "deep").mkdir()
    assert locate_files(tmp_path / "deep") is None


# Encoder -------------------------------------------------------------------------------------------------------------


def test_digests_by_hand(elmo: Elmo) -> None:
    hasher = hashlib.sha256()
    for name, array in sorted(as_arrays(random_weights()).items()):
        hasher.update(name.encode() + np.ascontiguousarray(array).tobytes())
    assert elmo.weights_digest == elmo.digest == hasher.hexdigest()
    one, other = SoftProjection(np.eye(8)[:1]), SoftProjection(np.eye(4)[:1])
    mapped = elmo.with_maps({"layer:1": one, "embeddings": other})
    hasher.update(f"embeddings {other.digest}".encode() + f"layer:1 {one.digest}".encode())
    assert mapped.digest == hasher.hexdigest()
    assert mapped.weights_digest == elmo.weights_digest
    assert mapped.map_digests == {"layer:1": one.digest, "embeddings": other.digest}


@pytest.mark.parametrize("at_once", [1, 2, 256])
def test_characters_are_read_in_parts(at_once: int, elmo: Elmo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoder_module, "WORDS_AT_ONCE", {"cpu": at_once})
    table = elmo.token_table(["she", "a", "he", "she"])
    assert dict(table.rows) == {"a": 0, "he": 1, "she": 2}
    assert table(["she", "a"]) == [2, 0]
    vectors = naive_layers(random_weights(), ["a", "he", "she"])[0, :, :4]
    np.testing.assert_allclose(table.vectors[:3].numpy(), vectors, atol=1e-5)
    assert table.vectors.shape == (5, 4)
    assert elmo.with_maps({"embeddings": SoftProjection(np.eye(4)[:1])}).token_table([]).vectors.shape == (2, 4)


def test_sentences_without_words_are_named(elmo: Elmo) -> None:
    with pytest.raises(UsageError, match="sentence 2 has no words"):
        elmo.vectors([["a"], ["b"], [], []])
    assert elmo.vectors([]) == []
    assert (elmo.layers, elmo.dim, elmo.device.type) == (2, 8, "cpu")
    assert elmo.sites == ("embeddings", "layer:0", "layer:1", "layer:2")
    with pytest.raises(UnknownNameError):
        elmo.with_maps({"layer:3": SoftProjection(np.eye(8)[:1])})


def test_a_combination_of_layers_by_hand(elmo: Elmo) -> None:
    texts = ["she is here", "He said: no!", "she is here"]
    words = [["she", "is", "here"], ["He", "said", ":", "no", "!"], ["she", "is", "here"]]
    layers = [naive_layers(random_weights(), sentence) for sentence in words]
    scores, gamma = [0.5, -1.0, 2.0], 3.0
    weights = gamma * np.exp(scores) / np.exp(scores).sum()
    np.testing.assert_allclose(mixing_weights(scores, gamma), weights)
    view = ElmoSentences(elmo, pooling="max", mix=scores, gamma=gamma)
    assert (view.layers, view.pooling, view.name) == (3, "max", elmo.name)
    mixed = [np.einsum("l,lwd->wd", weights, found) for found in layers]
    for pooling, join in (("max", np.max), ("mean", np.mean), ("last", lambda rows, axis: rows[-1])):
        found = view.encode_layers(texts, pooling=pooling)  # type: ignore[arg-type]
        assert found.shape == (4, 3, 8)
        for layer in range(3):
            expected = [join(one[layer], axis=0) for one in layers]
            np.testing.assert_allclose(found[layer], expected, atol=1e-5)
        np.testing.assert_allclose(found[3], [join(one, axis=0) for one in mixed], atol=1e-5)
    np.testing.assert_allclose(view.encode(texts), [one.max(axis=0) for one in mixed], atol=1e-5)
    np.testing.assert_allclose(view.encode(texts, layer=1), [one[1].max(axis=0) for one in layers], atol=1e-5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoder_module, "pool", lambda states, mask, how: torch.full((len(states), 8), math.inf))
        with pytest.raises(DegenerateError, match="a sentence vector contains NaN or infinity"):
            view.encode(["she"])


def test_averages_by_hand(elmo: Elmo) -> None:
    sentences = [["he", "saw", "she"], ["x"], ["she", "she"]]
    layers = [naive_layers(random_weights(), sentence) for sentence in sentences]
    found = average_vectors(elmo, ["she", "he", "she"], sentences)
    assert [vectors.name for vectors in found] == [f"{elmo.name}, layer {number}" for number in range(3)]
    for number, vectors in enumerate(found):
        she = (layers[0][number, 2] + layers[2][number, 0] + layers[2][number, 1]) / 3
        np.testing.assert_allclose(vectors.matrix, [she, layers[0][number, 0]], atol=1e-5)
        assert vectors.words == ("she", "he")


def test_rows_are_written_where_they_are_asked_for(elmo: Elmo) -> None:
    sentences = [["a"], ["she", "is", "here"], ["b", "c"]]
    expected = np.concatenate(
        [naive_layers(random_weights(), one).transpose(1, 0, 2).reshape(-1, 24) for one in sentences]
    )
    for tokens in (1, None):
        np.testing.assert_allclose(elmo.flat_vectors(sentences, tokens=tokens).numpy(), expected, atol=1e-5)
    half = torch.zeros(6, 24, dtype=torch.float16)
    np.testing.assert_allclose(elmo.flat_vectors(sentences, out=half).float().numpy(), expected, atol=2e-3)
