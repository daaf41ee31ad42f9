"""The scripts that train the large biLM compute evenhand's network, and keep texts and weights as they say."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

SCRIPTS = Path(__file__).parents[4] / "scripts"


@pytest.fixture(autouse=True)
def _scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    for name in ("elmo_kernels", "elmo_pack", "elmo_texts", "elmo_stack", "elmo_experiment"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def test_the_lstm_has_the_values_and_gradients_of_the_network() -> None:
    from elmo_kernels import LSTMLayer  # type: ignore[import-not-found]

    from evenhand.models.encoders.elmo.files import ElmoOptions
    from evenhand.models.encoders.elmo.network import ElmoLSTMLayer

    torch.manual_seed(0)
    layer = ElmoLSTMLayer(ElmoOptions(cells=24, projection=8, cell_clip=0.8, projection_clip=0.9))
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    x = torch.randn(2, 7, 5, 8, requires_grad=True)
    wanted = [x, layer.weight, layer.bias, layer.projection]

    def compute(function: Any) -> list[Any]:
        y = function(x)
        slopes = torch.linspace(-1, 1, y.numel()).view_as(y)
        return [y.detach(), *torch.autograd.grad((y * slopes).sum(), wanted)]

    expected = compute(lambda x: layer(x)[0])
    assert (expected[0].abs() == 0.9).any()  # both clips are at work
    found = compute(lambda x: LSTMLayer.apply(x, *wanted[1:], 0.8, 0.9))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_the_sampled_loss_has_the_value_and_gradients_of_the_formula() -> None:
    from elmo_kernels import SampledLoss

    torch.manual_seed(0)
    x, rows, bias, true = (torch.randn(s, requires_grad=True) for s in ((40, 16), (50, 16), (50,), (40,)))
    drawn, targets, weights = torch.randint(0, 30, (50,)), torch.randint(0, 30, (40,)), torch.rand(40)
    others = (x @ rows.T + bias).masked_fill(drawn == targets[:, None], -torch.inf)
    expected = ((torch.logaddexp(true, others.logsumexp(-1)) - true) * weights).sum()
    found = SampledLoss.apply(x, rows, bias, true, drawn, targets, weights)
    torch.testing.assert_close(found, expected)
    for one, other in zip(
        *(torch.autograd.grad(loss, (x, rows, bias, true)) for loss in (found, expected)), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_packed_weights_come_back_within_two_percent_and_small_ones_in_half_precision(tmp_path: Path) -> None:
    from elmo_pack import load_packed, write_packed  # type: ignore[import-not-found]

    rng = np.random.default_rng(0)
    scales = np.exp(rng.standard_normal((2, 200, 1)))
    arrays = {
        "large": (rng.standard_normal((2, 200, 1_024)) * scales).astype(np.float32),
        "small": rng.standard_normal((30, 7)).astype(np.float32),
    }
    arrays["large"][1, 7, 9] *= 1_000  # one number far from the others of its block
    arrays["large"][0, ::50, 3] = 12 * scales[0, ::50, 0]
    sizes = write_packed(tmp_path, arrays)
    assert sum(sizes.values()) < 0.9 * arrays["large"].size  # less than 8 bits a number
    packed = load_packed(tmp_path)
    assert (packed["small"] == arrays["small"].astype(np.float16)).all()
    errors = np.linalg.norm(packed["large"] - arrays["large"], axis=-1) / np.linalg.norm(arrays["large"], axis=-1)
    assert errors.max() < 0.02
    assert packed["large"][0, 50, 3] == np.float16(arrays["large"][0, 50, 3])
    (tmp_path / "weights.0.bin").write_bytes((tmp_path / "weights.0.bin").read_bytes() + b"x")
    with pytest.raises(ValueError, match="another model"):
        load_packed(tmp_path)


def test_texts_are_unpacked_as_they_were() -> None:
    from elmo_texts import Text, pack, unpack  # type: ignore[import-not-found]

    rng = np.random.default_rng(0)
    lengths = rng.integers(3, 60, 300)
    ids = np.exp(rng.random(lengths.sum()) * np.log(1 << 20)).astype(np.int64)
    text = unpack(pack(Text(ids, lengths)))
    assert (text.ids == ids).all()
    assert (text.lengths == lengths).all()


def test_clitics_that_a_text_splits_off_are_joined_again() -> None:
    from elmo_texts import sentences, tokens

    assert tokens("It 's the role @-@ play he did n't <unk> .") == [
        *("It's", "the", "role-play", "he", "didn't", "<unk>", ".")
    ]
    words = tokens("J. Smith saw her. She left early!")
    assert [len(sentence) for sentence in sentences(words)] == [6, 4]


PAIRS = (("A man sleeps.", "He is asleep.", "entailment"), ("A girl ran to a cat", "Nobody moves", "contradiction"),
         ("The old man ate.", "The man ate a very large cake.", "neutral"))  # fmt: skip


def projections(dim: int, sites: list[str]) -> dict[str, Any]:
    from evenhand.mitigations.maps.coordinates import SoftProjection

    rng = np.random.default_rng(len(sites))
    return {site: SoftProjection((v := rng.normal(size=(1, dim))) / np.linalg.norm(v)) for site in sites}


def test_models_that_share_vectors_read_what_each_would_read_alone(tmp_path: Path) -> None:
    from elmo_stack import LayerBatches, Member, encode, read_inputs  # type: ignore[import-not-found]

    from evenhand.models.encoders.elmo.encoder import Elmo
    from evenhand.models.nli.labelled_pairs import LabelledPairs
    from evenhand.models.nli.protocol import LABELS
    from tiny_elmo import save_tiny_elmo

    base = Elmo.load(save_tiny_elmo(tmp_path, scale=0.7), device="cpu")
    premises, hypotheses, names = zip(*PAIRS, strict=True)
    labels = np.array([LABELS.index(name) for name in names], np.int8)
    pairs = LabelledPairs(premises, hypotheses, labels, source="here")
    layers = [site for site in base.sites if site != "embeddings"]
    elmos = [base, *(base.with_maps(projections(base.dim, layers)) for _ in range(2))]
    elmos.append(base.with_maps(projections(base.dim // 2, ["embeddings"])))
    members = [Member(elmo, seed) for seed, elmo in enumerate(elmos)]
    sentences, (encoded,) = encode(pairs)
    inputs = read_inputs(sentences, members, lambda line: None)
    assert len(inputs.upper) == 2 * sum(map(len, sentences))  # maps of layers need no vectors of their own
    (batch,) = LayerBatches(encoded, inputs, batch=8).in_order()
    order = [int(np.flatnonzero(labels == label)[0]) for label in batch.labels[0]]  # each pair has another label
    for member, elmo in enumerate(elmos):
        for place, number in enumerate(order):
            for rows, inside, text in zip(batch[:2], batch[2:4], (premises[number], hypotheses[number]), strict=True):
                expected = elmo.flat_vectors([sentences[place_of(text, pairs)]])
                found = rows[member, place][inside[member, place]]
                np.testing.assert_allclose(found, expected, atol=1e-5)


def place_of(text: str, pairs: Any) -> int:
    """The place of a sentence among the distinct ones."""
    return list(dict.fromkeys([*pairs.premises, *pairs.hypotheses])).index(text)


def test_stored_layers_are_those_of_the_model(tmp_path: Path) -> None:
    from elmo_experiment import StoredElmo  # type: ignore[import-not-found]

    from evenhand.models.encoders.elmo.encoder import Elmo
    from tiny_elmo import save_tiny_elmo

    base = Elmo.load(save_tiny_elmo(tmp_path, scale=0.7), device="cpu")
    changed = base.with_maps(projections(base.dim, ["layer:0", "layer:2"]))
    store: dict[Any, Any] = {}
    for sentences in ([["A", "man"], ["He", "ran", "."]], [["The", "cat"], ["It", "sat", "."]]):
        for elmo in (base, changed, base):
            torch.testing.assert_close(StoredElmo(elmo, store).flat_vectors(sentences), elmo.flat_vectors(sentences))
    assert len(store) == 2  # the same rows of other words are not mistaken for them


def test_factors_of_the_learning_rate_are_those_of_the_members() -> None:
    from elmo_stack import ScheduledStack

    from evenhand.models.nli.networks import ElmoNLINetwork
    from evenhand.models.nli.training import NLITrainingSettings

    class OneBatch:
        def __len__(self) -> int:
            return 1

        pairs = 3

        def in_order(self) -> Any:
            return iter(())

        def shuffled(self, seeds: Any, epoch: int) -> Any:
            from evenhand.models.nli.training_batches import TrainingBatch

            torch.manual_seed(0)
            rows = torch.randn(1, 3, 4, 24).expand(len(seeds), -1, -1, -1)
            inside = torch.ones(len(seeds), 3, 4, dtype=torch.bool)
            yield TrainingBatch(rows, rows.flip(1), inside, inside, torch.tensor([[0, 1, 2]]).expand(len(seeds), -1))

    def after(seeds: list[int], rate: float, factors: list[float] | None) -> Any:
        network = ElmoNLINetwork(len(seeds), 8, 6, states=4, dropout=0.0, elmo_dropout=0.0)
        settings = NLITrainingSettings(architecture="bilstm", hidden=6, learning_rate=rate, device="cpu").resolve()
        stack = ScheduledStack(network, settings, seeds, OneBatch(), OneBatch())
        stack.factors = torch.tensor(factors) if factors else None
        stack.advance(lambda done, total, text: None)
        return stack.network.arrays(len(seeds) - 1)

    scaled, alone = after([0, 0], 0.4, [1.0, 0.25]), after([0], 0.1, None)
    for name, array in alone.items():
        np.testing.assert_allclose(scaled[name], array, atol=1e-6, err_msg=name)
