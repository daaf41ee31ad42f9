"""The model against its definition: dropout, tied weights, the fused layer against a loop of cells."""

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from evenhand.errors import FormatError, UsageError  # noqa: E402
from evenhand.models.lm.awd_lstm.model_folder import LMSettings, settings_of, word_table  # noqa: E402
from evenhand.models.lm.awd_lstm.network import (  # noqa: E402
    AWDLSTM,
    LSTMLayer,
    detach,
    locked_dropout,
    mask,
)

SMALL = LMSettings(embedding=6, hidden=10, layers=3)


def generator(seed: int = 0) -> "torch.Generator":
    return torch.Generator().manual_seed(seed)


def made(inputs: int = 5, units: int = 7) -> LSTMLayer:
    layer = LSTMLayer(inputs, units)
    layer.initialise(generator())
    return layer


def looped(layer: LSTMLayer, values: "torch.Tensor", state: "tuple[torch.Tensor, torch.Tensor]") -> "torch.Tensor":
    cell = torch.nn.LSTMCell(layer.inputs, layer.units)
    cell.load_state_dict(layer.state_dict())
    hidden, memory = state[0][0], state[1][0]
    found = []
    for value in values:
        hidden, memory = cell(value, (hidden, memory))
        found.append(hidden)
    return torch.stack(found)


def test_a_locked_mask_is_the_same_at_every_step() -> None:
    dropped = locked_dropout(torch.ones(9, 4, 50), 0.4, generator())
    assert (dropped == dropped[:1]).all()
    assert sorted(dropped.unique().tolist()) == [0.0, pytest.approx(1 / 0.6)]
    assert not (dropped[0, 0] == dropped[0, 1]).all()  # each column of the batch has its own


def test_a_mask_keeps_the_expectation() -> None:
    drawn = mask(torch.zeros(1), (200_000,), 0.65, generator())
    assert float(drawn.mean()) == pytest.approx(1, abs=0.02)


def test_the_fused_layer_equals_a_loop_of_cells() -> None:
    layer, values = made(), torch.randn(11, 3, 5, generator=generator(1))
    state = tuple(torch.randn(1, 3, 7, generator=generator(seed)) for seed in (2, 3))
    output, (hidden, _) = layer(values, state)
    assert torch.allclose(output, looped(layer, values, state), atol=1e-6)
    assert torch.equal(hidden[0], output[-1])


def test_units_added_for_alignment_change_nothing() -> None:
    plain, grown = made(), made()
    grown.align = 8
    values = torch.randn(6, 3, 5, generator=generator(1))
    expected, _ = plain(values, plain.start(3, values))
    found, (hidden, cell) = grown(values, grown.start(3, values))
    assert found.shape[-1] == 8
    assert torch.allclose(found[..., :7], expected, atol=1e-6)
    assert not found[..., 7:].any()
    assert not hidden[..., 7:].any()
    assert not cell[..., 7:].any()
    for layer, output in ((plain, expected), (grown, found)):
        output[..., :7].square().sum().backward()
        assert layer.weight_hh.grad.shape == (28, 7)
    assert torch.allclose(plain.weight_hh.grad, grown.weight_hh.grad, atol=1e-5)
    assert torch.allclose(plain.weight_ih.grad, grown.weight_ih.grad, atol=1e-5)


def test_a_whole_model_with_added_units_is_the_same_model() -> None:
    tokens = torch.randint(0, 12, (8, 2), generator=generator())
    plain, grown = AWDLSTM(12, SMALL).eval(), AWDLSTM(12, SMALL).eval()
    for layer in grown.layers:
        layer.align = 8
    assert torch.allclose(plain(tokens).logits, grown(tokens).logits, atol=1e-6)
    assert grown(tokens).raw.shape == plain(tokens).raw.shape


def test_weight_drop_touches_the_recurrent_weights_alone_and_only_in_training() -> None:
    layer, values = made(), torch.randn(1, 3, 5, generator=generator(1))
    zero = layer.start(3, values)
    still, _ = layer(values, zero)
    once, _ = layer(values, zero, drop=0.9, generator=generator())
    assert torch.equal(still, once)  # with a zero state the recurrent weights do nothing, and no other is dropped
    state = tuple(torch.ones(1, 3, 7) for _ in range(2))
    dropped, _ = layer(values, state, drop=0.9, generator=generator())
    assert not torch.allclose(dropped, layer(values, state)[0])
    layer.eval()
    assert torch.equal(layer(values, state, drop=0.9)[0], layer(values, state)[0])


def test_dropped_weights_get_no_gradient() -> None:
    layer, values = made(), torch.randn(4, 3, 5, generator=generator(1))
    output, _ = layer(values, layer.start(3, values), drop=0.5, generator=generator(7))
    output.sum().backward()
    held = mask(layer.weight_hh, (28, 7), 0.5, generator(7)) == 0
    assert not layer.weight_hh.grad[held].any()
    assert layer.weight_hh.grad[~held].all()


def test_tied_weights_are_one_matrix() -> None:
    tied, untied = AWDLSTM(12, SMALL), AWDLSTM(12, LMSettings(embedding=6, hidden=10, tied=False))
    assert tied.decoder.weight is tied.encoder.weight
    assert untied.decoder.weight is not untied.encoder.weight
    more = sum(p.numel() for p in untied.parameters()) - sum(p.numel() for p in tied.parameters())
    assert more == 12 * 6


def test_the_published_model_has_the_published_size() -> None:
    model = AWDLSTM(2, settings_of("ptb"))
    sizes = [(layer.inputs, layer.units) for layer in model.layers]
    assert sizes == [(400, 1150), (1150, 1150), (1150, 400)]
    # 400 coordinates and a bias for each word of the Penn Treebank: "24M parameters" in Merity et al. 2018.
    assert sum(parameter.numel() for parameter in model.parameters()) + 9_998 * 401 == 24_221_600


def test_evaluation_is_deterministic_and_carries_the_state() -> None:
    model, tokens = AWDLSTM(12, SMALL).eval(), torch.randint(0, 12, (8, 2), generator=generator())
    whole = model(tokens)
    first = model(tokens[:5])
    second = model(tokens[5:], detach(first.state))
    assert torch.allclose(whole.logits, torch.cat([first.logits, second.logits]), atol=1e-6)


def test_a_dropped_word_is_dropped_at_every_occurrence() -> None:
    settings = LMSettings(embedding=6, hidden=10, dropout_embedding=0.5, dropout_input=0)
    model = AWDLSTM(12, settings)
    tokens = torch.arange(12).repeat(2, 3).T.contiguous()
    zero = (model._embed(tokens, generator(3)) == 0).all(dim=-1)
    dropped = {int(token) for token in tokens[zero]}
    assert 0 < len(dropped) < 12
    assert all(
        bool(gone) == (int(token) in dropped) for token, gone in zip(tokens.flatten(), zero.flatten(), strict=True)
    )


def test_the_same_seed_makes_the_same_weights_whatever_torch_drew_before() -> None:
    torch.manual_seed(1)
    one = AWDLSTM(12, SMALL, seed=5)
    torch.manual_seed(2)
    assert all(
        torch.equal(a, b) for a, b in zip(one.parameters(), AWDLSTM(12, SMALL, seed=5).parameters(), strict=True)
    )
    assert not torch.equal(one.encoder.weight, AWDLSTM(12, SMALL, seed=6).encoder.weight)


def test_invalid_settings_are_named() -> None:
    with pytest.raises(UsageError, match="weight_drop must be at least 0"):
        LMSettings(weight_drop=1.0)
    with pytest.raises(UsageError, match="batch must be at least 1, got 0"):
        LMSettings(batch=0)
    with pytest.raises(KeyError, match="wikitext-2"):
        settings_of("wikitext2")
    with pytest.raises(KeyError, match="hidden"):
        settings_of("ptb", hiden=3)


def test_the_table_of_an_awd_lstm(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    from evenhand.interop.huggingface import input_embeddings
    from evenhand.models import lm

    vocabulary = lm.TokenVocabulary(("she", "<unk>", "he", "<eos>", "nurse"))
    model = lm.AWDLSTM(5, lm.LMSettings(embedding=4, hidden=6, layers=2), seed=3)
    lm.save(model, vocabulary, tmp_path / "lm")
    vectors = word_table(tmp_path / "lm")
    assert vectors.words == ("she", "he", "nurse")
    np.testing.assert_array_equal(vectors["nurse"], model.encoder.weight[4].detach().numpy())
    assert input_embeddings(tmp_path / "lm").words == vectors.words
    assert vectors.source["left_out"] == {"special": 2}
    save_file({"other": np.zeros((5, 4), np.float32)}, tmp_path / "lm" / "model.safetensors")
    with pytest.raises(FormatError, match="no word table of 5 rows"):
        word_table(tmp_path / "lm")
