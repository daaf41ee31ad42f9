"""ELMo: vectors by layer against a plain forward pass, maps inside, sentences and words."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from evenhand.errors import UnknownNameError, UsageError, VocabularyError  # noqa: E402
from evenhand.mitigations.maps.combined import ExceptWords  # noqa: E402
from evenhand.mitigations.maps.coordinates import Affine, SoftProjection  # noqa: E402
from evenhand.models.encoders.elmo.encoder import Elmo, ElmoSentences, average_vectors, mixing_weights, word_vectors  # noqa: E402
from evenhand.models.encoders.elmo.files import ElmoOptions, save_model  # noqa: E402
from evenhand.models.encoders.elmo.network import ElmoNetwork  # noqa: E402
from evenhand.models.encoders.sentences import SentenceEncoder  # noqa: E402
from tiny_elmo import TINY, as_arrays, naive_layers, naive_token, random_weights, save_tiny_elmo  # noqa: E402

SENTENCES = [
    ["The", "nurse", "said", "hello", "."],
    ["he"],
    ["antidisestablishmentarianism", "naïve", "日本語", "é", "😀"],
    ["she", "she", "The"],
    ["x" * 9, "x" * 10, "x" * 11, "x" * 60],
    ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"],
]


def make(folder: Path, options: ElmoOptions = TINY, *, seed: int = 0, scale: float = 1.0) -> Elmo:
    return Elmo.load(
        save_model(folder, options, as_arrays(random_weights(options, seed, scale), options)), device="cpu"
    )


@pytest.fixture(scope="module")
def elmo(tmp_path_factory: pytest.TempPathFactory) -> Elmo:
    return make(tmp_path_factory.mktemp("elmo"))


def projection(width: int, seed: int = 0) -> SoftProjection:
    direction = np.random.default_rng(seed).normal(size=width)
    return SoftProjection(direction[None] / np.linalg.norm(direction))


def test_every_layer_equals_the_naive_pass(elmo: Elmo) -> None:
    weights = random_weights()
    for sentence, vectors in zip(SENTENCES, elmo.vectors(SENTENCES), strict=True):
        assert vectors.shape == (3, len(sentence), 8)
        np.testing.assert_allclose(vectors, naive_layers(weights, sentence), atol=1e-5)


@pytest.mark.parametrize(
    "changes",
    [
        {"activation": "tanh"},
        {"highways": 1},
        {"layers": 1},
        {"layers": 3},
        {"filters": ((5, 2),)},
        {"filters": ((1, 1), (12, 3))},  # as wide as the longest word
        {"cell_clip": 0.3},
        {"projection_clip": 0.2},
        {"longest_word": 5},
    ],
    ids=str,
)
def test_other_sizes_equal_the_naive_pass(changes: dict[str, object], tmp_path: Path) -> None:
    options = replace(TINY, **changes)  # type: ignore[arg-type]
    weights = random_weights(options, seed=3)
    for sentence, vectors in zip(SENTENCES, make(tmp_path, options, seed=3).vectors(SENTENCES), strict=True):
        np.testing.assert_allclose(vectors, naive_layers(weights, sentence, options), atol=1e-5)


def test_clips_act_on_cells_and_outputs(tmp_path: Path) -> None:
    clipped = replace(TINY, cell_clip=0.5, projection_clip=0.25)
    free = replace(TINY, cell_clip=100.0, projection_clip=100.0)
    small, large = (make(tmp_path / name, o, scale=3.0).vectors(SENTENCES) for name, o in (("a", clipped), ("b", free)))
    weights = random_weights(clipped, scale=3.0)
    for sentence, vectors in zip(SENTENCES, small, strict=True):
        np.testing.assert_allclose(vectors, naive_layers(weights, sentence, clipped), rtol=1e-4, atol=1e-5)
    assert max(abs(vectors[1]).max() for vectors in small) == 0.25
    assert max(abs(vectors[2]).max() for vectors in small) <= 0.5  # the sum with the layer below is not clipped
    assert max(abs(vectors[1]).max() for vectors in large) > 1


def test_layer_0_is_the_token_vector_twice_and_ignores_the_context(elmo: Elmo) -> None:
    first, second = elmo.vectors([["she", "left"], ["then", "she", "came"]])
    np.testing.assert_array_equal(first[0, :, :4], first[0, :, 4:])
    np.testing.assert_allclose(first[0, 0], second[0, 1], atol=1e-6)
    assert abs(first[1, 0] - second[1, 1]).max() > 1e-3
    np.testing.assert_allclose(first[0, 0, :4], naive_token(random_weights(), "she"), atol=1e-5)


def test_sentences_do_not_see_each_other(elmo: Elmo) -> None:
    together = elmo.vectors(SENTENCES)
    for order in (range(len(SENTENCES)), reversed(range(len(SENTENCES)))):
        for number in order:
            np.testing.assert_allclose(elmo.vectors([SENTENCES[number]])[0], together[number], atol=1e-6)
    backwards = elmo.vectors(SENTENCES[::-1])[::-1]
    for tokens in (1, 8, 20, 10_000):
        for again in (elmo.vectors(SENTENCES, tokens=tokens), backwards):
            for one, other in zip(again, together, strict=True):
                np.testing.assert_allclose(one, other, atol=1e-6)


def test_calls_leave_no_state_behind(elmo: Elmo) -> None:
    first = elmo.vectors(SENTENCES)
    list(elmo.stateful_vectors([SENTENCES[:2], SENTENCES[2:4]]))
    for one, other in zip(elmo.vectors(SENTENCES), first, strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_stateful_pass_begins_stateless_and_then_carries_over(elmo: Elmo) -> None:
    batches = [SENTENCES[:2], SENTENCES[2:4], SENTENCES[4:6]]
    plain = elmo.vectors(SENTENCES)
    carried = [vectors for batch in elmo.stateful_vectors(batches) for vectors in batch]
    for number in range(2):
        np.testing.assert_allclose(carried[number], plain[number], atol=1e-6)
    for number in range(2, 6):
        np.testing.assert_allclose(carried[number][0], plain[number][0], atol=1e-6)
        assert abs(carried[number][1:] - plain[number][1:]).max() > 1e-3
    with pytest.raises(UsageError, match="a batch has 1 sentences, the one before 2"):
        list(elmo.stateful_vectors([SENTENCES[:2], SENTENCES[:1]]))
    with pytest.raises(UsageError, match="no maps"):
        next(elmo.with_maps({"embeddings": projection(4)}).stateful_vectors([SENTENCES]))


def test_words_beyond_the_limit_are_the_same(elmo: Elmo) -> None:
    ten, eleven = elmo.vectors([["abcdefghij", "y"], ["abcdefghijzz", "y"]])
    np.testing.assert_allclose(ten, eleven, atol=1e-5)
    table = elmo.token_table(["abcdefghi", "abcdefghij"])
    assert abs(table.vectors[0] - table.vectors[1]).max() > 1e-3


def test_a_word_spelt_as_a_boundary_is_the_boundary(elmo: Elmo) -> None:
    table = elmo.token_table(["<S>", "he"])
    np.testing.assert_allclose(table.vectors[table(["<S>"])[0]], table.vectors[-2], atol=1e-6)
    np.testing.assert_allclose(table.vectors[-1], naive_token(random_weights(), "", boundary=257), atol=1e-5)


def test_rows_of_all_sentences_follow_each_other(elmo: Elmo) -> None:
    flat = elmo.flat_vectors(SENTENCES).numpy()
    expected = np.concatenate([vectors.transpose(1, 0, 2).reshape(-1, 24) for vectors in elmo.vectors(SENTENCES)])
    np.testing.assert_allclose(flat, expected, atol=1e-6)
    out = torch.zeros(len(expected), 24, dtype=torch.float64)
    assert elmo.flat_vectors(SENTENCES, out=out) is out
    np.testing.assert_allclose(out.numpy(), expected, atol=1e-6)


def test_sentences_without_words_are_refused(elmo: Elmo) -> None:
    with pytest.raises(UsageError, match="sentence 1 has no words"):
        elmo.vectors([["he"], []])
    with pytest.raises(UsageError, match="a word is empty"):
        elmo.vectors([["he", ""]])
    assert elmo.vectors([]) == []


def test_a_saved_model_is_the_same(elmo: Elmo, tmp_path: Path) -> None:
    again = Elmo.load(elmo.save(tmp_path / "copy"), device="cpu")
    assert again.digest == elmo.digest
    for one, other in zip(again.vectors(SENTENCES), elmo.vectors(SENTENCES), strict=True):
        np.testing.assert_array_equal(one, other)


# Maps ---------------------------------------------------------------------------------------------------------------


def test_identity_maps_change_no_bit(elmo: Elmo) -> None:
    sites = {
        site: Affine(np.eye(4 if site == "embeddings" else 8), np.zeros(4 if site == "embeddings" else 8))
        for site in elmo.sites
    }
    assert elmo.sites == ("embeddings", "layer:0", "layer:1", "layer:2")
    for maps in ({}, {"embeddings": sites["embeddings"]}, sites):
        for one, other in zip(elmo.with_maps(maps).vectors(SENTENCES), elmo.vectors(SENTENCES), strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_map_at_the_token_vectors_is_felt_by_all_layers_but_not_by_the_boundaries(elmo: Elmo) -> None:
    change = projection(4)
    matrix, _ = change.to_matrix()
    weights = random_weights()
    mapped = elmo.with_maps({"embeddings": change})
    for sentence, vectors, plain in zip(SENTENCES, mapped.vectors(SENTENCES), elmo.vectors(SENTENCES), strict=True):
        np.testing.assert_allclose(vectors, naive_layers(weights, sentence, token_map=matrix), atol=1e-5)
        for direction in np.split(vectors[0], 2, -1):
            np.testing.assert_allclose(direction @ change.basis[0], 0, atol=1e-6)
        assert all(abs(vectors[layer] - plain[layer]).max() > 1e-3 for layer in range(3))
    np.testing.assert_array_equal(mapped.token_table(["he"]).vectors[-2:], elmo.token_table(["he"]).vectors[-2:])


def test_the_map_commutes_with_the_lookup(elmo: Elmo) -> None:
    change, words = projection(4), ["he", "she", "nurse"]
    mapped, plain = elmo.with_maps({"embeddings": change}).token_table(words), elmo.token_table(words)
    np.testing.assert_allclose(mapped.vectors[:-2], change(plain.vectors[:-2].numpy()), atol=1e-6)


def test_maps_at_all_layers_act_after_the_whole_pass(elmo: Elmo) -> None:
    maps = {f"layer:{number}": projection(8, number) for number in range(3)}
    mapped = elmo.with_maps(maps)
    for vectors, plain in zip(mapped.vectors(SENTENCES), elmo.vectors(SENTENCES), strict=True):
        for number in range(3):
            change = maps[f"layer:{number}"]
            np.testing.assert_allclose(vectors[number], change(plain[number]), atol=1e-6)
            np.testing.assert_allclose(vectors[number] @ change.basis[0], 0, atol=1e-6)
    one = elmo.with_maps({"layer:1": maps["layer:1"]}).vectors(SENTENCES)
    for vectors, plain in zip(one, elmo.vectors(SENTENCES), strict=True):
        np.testing.assert_array_equal(vectors[[0, 2]], plain[[0, 2]])


def test_a_map_that_spares_words_is_told_the_words(elmo: Elmo) -> None:
    change = ExceptWords(projection(4), ("he",))
    mapped, plain = elmo.with_maps({"embeddings": change}), elmo.token_table(["he", "nurse"])
    table = mapped.token_table(["nurse", "he"])
    np.testing.assert_array_equal(table.vectors[table(["he"])], plain.vectors[plain(["he"])])
    assert abs(table.vectors[table(["nurse"])] - plain.vectors[plain(["nurse"])]).max() > 1e-3
    with pytest.raises(UsageError, match="the map at layer:1 treats words differently"):
        elmo.with_maps({"layer:1": ExceptWords(projection(8), ("he",))})


def test_an_unknown_site_and_a_map_of_another_width_are_refused(elmo: Elmo) -> None:
    with pytest.raises(UnknownNameError, match="layer:3"):
        elmo.with_maps({"layer:3": projection(8)})
    with pytest.raises(UsageError, match="8"):
        elmo.with_maps({"embeddings": projection(8)}).vectors([["he"]])


def test_the_digest_follows_weights_and_maps(elmo: Elmo, tmp_path: Path) -> None:
    digests = {
        elmo.digest,
        make(tmp_path, seed=1).digest,
        elmo.with_maps({"embeddings": projection(4)}).digest,
        elmo.with_maps({"embeddings": projection(4, 1)}).digest,
        elmo.with_maps({"layer:0": projection(8)}).digest,
        elmo.with_maps({"layer:1": projection(8)}).digest,
    }
    assert len(digests) == 6
    with pytest.raises(UsageError, match="the map at layer:0 has no digest"):
        _ = elmo.with_maps({"layer:0": lambda x: x}).digest


TEXTS = ["The nurse said hello.", "He", "the doctor, who is very good", "zzz"]
SPLIT = [["The", "nurse", "said", "hello", "."], ["He"], ["the", "doctor", ",", "who", "is", "very", "good"], ["zzz"]]


@pytest.fixture(scope="module")
def elmo_sentences_elmo(tmp_path_factory: pytest.TempPathFactory) -> Elmo:
    return Elmo.load(save_tiny_elmo(tmp_path_factory.mktemp("elmo")), device="cpu")


def test_poolings_by_hand(elmo_sentences_elmo: Elmo) -> None:
    encoder = ElmoSentences(elmo_sentences_elmo)
    assert isinstance(encoder, SentenceEncoder)
    vectors = elmo_sentences_elmo.vectors(SPLIT)
    for layer in range(3):
        states = [array[layer] for array in vectors]
        mean = np.stack([state.mean(0) for state in states])
        np.testing.assert_allclose(encoder.encode(TEXTS, layer=layer), mean, atol=1e-6)
        np.testing.assert_allclose(encoder.encode(TEXTS, layer=layer, pooling="mean-no-special"), mean, atol=1e-6)
        last = np.stack([state[-1] for state in states])
        np.testing.assert_allclose(encoder.encode(TEXTS, layer=layer, pooling="last"), last, atol=1e-6)
        highest = np.stack([state.max(0) for state in states])
        np.testing.assert_allclose(encoder.encode(TEXTS, layer=layer, pooling="max"), highest, atol=1e-6)
    np.testing.assert_allclose(encoder.encode(TEXTS), encoder.encode(TEXTS, layer=2), atol=1e-6)


@pytest.mark.parametrize("pooling", ["mean", "last", "max"])
def test_batches_and_order_change_nothing(elmo_sentences_elmo: Elmo, pooling: str) -> None:
    encoder = ElmoSentences(elmo_sentences_elmo, pooling=pooling)  # type: ignore[arg-type]
    together = encoder.encode_layers(TEXTS)
    np.testing.assert_allclose(encoder.encode_layers(TEXTS, tokens=1), together, atol=1e-6)
    np.testing.assert_allclose(encoder.encode_layers(TEXTS[::-1])[:, ::-1], together, atol=1e-6)
    np.testing.assert_allclose(encoder.encode_layers([*TEXTS, TEXTS[0]])[:, -1], together[:, 0], atol=1e-6)


def test_the_mix_is_one_more_layer(elmo_sentences_elmo: Elmo) -> None:
    plain = ElmoSentences(elmo_sentences_elmo).encode_layers(TEXTS)
    assert plain.shape == (3, 4, 8)
    even = ElmoSentences(elmo_sentences_elmo, mix=[0.0, 0.0, 0.0])
    assert even.layers == 3
    np.testing.assert_allclose(even.encode_layers(TEXTS)[:3], plain, atol=1e-6)
    np.testing.assert_allclose(even.encode(TEXTS), plain.mean(0), atol=1e-6)
    np.testing.assert_allclose(even.encode(TEXTS, layer=-2), plain[2], atol=1e-6)
    skewed = ElmoSentences(elmo_sentences_elmo, mix=[np.log(1), np.log(2), np.log(5)], gamma=4.0)
    np.testing.assert_allclose(skewed.encode(TEXTS), 0.5 * plain[0] + plain[1] + 2.5 * plain[2], atol=1e-5)
    np.testing.assert_allclose(mixing_weights([1e4, 0.0, 0.0]), [1.0, 0.0, 0.0])
    with pytest.raises(UsageError, match="the mix has 2 scores, and the model 3 layers"):
        ElmoSentences(elmo_sentences_elmo, mix=[0.0, 0.0])


def test_what_cannot_be_encoded_is_refused(elmo_sentences_elmo: Elmo) -> None:
    encoder = ElmoSentences(elmo_sentences_elmo)
    with pytest.raises(UsageError, match="layer 3 does not exist"):
        encoder.encode(["he"], layer=3)
    with pytest.raises(UsageError, match=r"no \[CLS\] token"):
        encoder.encode(["he"], pooling="cls")
    with pytest.raises(UnknownNameError, match="pooling"):
        encoder.encode(["he"], pooling="sum")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="' ' has no words"):
        encoder.encode(["he", " "])
    with pytest.raises(UsageError, match="single text"):
        encoder.encode("he")


def test_word_vectors_are_layer_0(elmo_sentences_elmo: Elmo) -> None:
    vectors = word_vectors(elmo_sentences_elmo, ["she", "he", "she"])
    assert vectors.words == ("she", "he")
    np.testing.assert_allclose(
        vectors["he"], elmo_sentences_elmo.vectors([["then", "he", "left"]])[0][0, 1, :4], atol=1e-6
    )


def test_averages_over_occurrences_by_hand(elmo_sentences_elmo: Elmo) -> None:
    sentences = [["he", "saw", "he"], ["so", "she", "left"], ["nobody"], ["left", "he"]]
    layers = average_vectors(elmo_sentences_elmo, ["she", "he"], sentences)
    vectors = elmo_sentences_elmo.vectors(sentences)
    for number, layer in enumerate(layers):
        assert layer.words == ("she", "he")
        np.testing.assert_allclose(layer["she"], vectors[1][number, 1], atol=1e-6)
        expected = (vectors[0][number, 0] + vectors[0][number, 2] + vectors[3][number, 1]) / 3
        np.testing.assert_allclose(layer["he"], expected, atol=1e-6)
    with pytest.raises(VocabularyError, match="'queen' occurs in none of the sentences"):
        average_vectors(elmo_sentences_elmo, ["he", "queen"], sentences)


def test_a_model_is_loaded_from_a_folder_or_a_file(tmp_path: Path) -> None:
    folder = save_tiny_elmo(tmp_path / "small")
    assert Elmo.load(folder, device="cpu").name == "small"
    assert Elmo.load(str(folder / "options.json"), device="cpu").dim == 8


def test_a_new_network_keeps_the_size_of_what_passes_through_it() -> None:
    options = replace(TINY, cells=64, projection=32, character_dim=16, filters=((1, 64), (3, 128)))
    network = ElmoNetwork(options)
    network.initialise(0)
    cnn = network.characters
    spreads = [
        *((convolution.weight, convolution.weight[0].numel() ** -0.5) for convolution in cnn.convolutions),
        *(
            (part.weight, part.in_features**-0.5)
            for highway in cnn.highways
            for part in (highway.carry, highway.transform)
        ),
        (cnn.projection.weight, cnn.projection.in_features**-0.5),
        *((layer.weight, (2 / sum(layer.weight.shape[1:])) ** 0.5) for layer in network.layers),
        *((layer.projection, (2 / sum(layer.projection.shape[1:])) ** 0.5) for layer in network.layers),
    ]
    for weight, spread in ((part.detach(), size) for part, size in spreads):
        assert float(weight.std()) == pytest.approx(spread, rel=0.1)
        assert abs(float(weight.mean())) < 0.2 * spread
    for highway in cnn.highways:
        assert highway.carry.bias.tolist() == [-2.0] * len(highway.carry.bias)
    assert float(cnn.embedding[1:].detach().abs().max()) == pytest.approx(1, abs=0.05)
    assert float(cnn.embedding[0].detach().abs().sum()) == 0
