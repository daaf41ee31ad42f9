"""Large products of linear layers by oneDNN: the numbers of torch up to rounding, and only where nothing is trained."""

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from transformers.pytorch_utils import Conv1D  # noqa: E402

from evenhand.models import device  # noqa: E402

SIZES = (512, 512)
MANY = 2 * device.FEWEST_PRODUCTS // (SIZES[0] * SIZES[1])


@pytest.fixture
def products(monkeypatch):
    """The shapes of the products that oneDNN computed."""
    shapes = []
    product = device._product

    def counted(given, weight, bias):
        shapes.append((tuple(given.shape), tuple(weight.shape)))
        return product(given, weight, bias)

    monkeypatch.setattr(device, "_product", counted)
    return shapes


def layer(kind):
    torch.manual_seed(0)
    made = Conv1D(*SIZES) if kind == "conv1d" else torch.nn.Linear(*SIZES, bias=kind == "linear")
    made.requires_grad_(True)
    return torch.nn.Sequential(made)


@pytest.mark.parametrize("kind", ["linear", "no bias", "conv1d"])
def test_large_products_are_those_of_torch(kind, products):
    model = layer(kind)
    given = torch.randn(2, MANY // 2, SIZES[0])
    with torch.inference_mode():
        expected = model(given)
        device.use_onednn(model)
        found = model(given)
    assert products == [((2, MANY // 2, SIZES[0]), SIZES)]
    np.testing.assert_allclose(found.numpy(), expected.numpy(), atol=1e-4, rtol=0)


@pytest.mark.parametrize("kind", ["linear", "conv1d"])
def test_small_products_training_and_other_formats_are_left_to_torch(kind, products):
    model = layer(kind)
    given = torch.randn(MANY, SIZES[0])
    with torch.inference_mode():
        few = model(given[:3])
        half = copy.deepcopy(model).bfloat16()(given.bfloat16())
    device.use_onednn(model)
    with torch.inference_mode():
        assert torch.equal(model(given[:3]), few)
        assert torch.equal(copy.deepcopy(model).bfloat16()(given.bfloat16()), half)
    model(given).sum().backward()
    assert model[0].weight.grad is not None
    assert products == []


def test_a_copy_computes_with_its_own_weights(products):
    model = layer("linear")
    device.use_onednn(model)
    other = copy.deepcopy(model)
    with torch.inference_mode():
        other[0].weight.zero_()
        other[0].bias.zero_()
        assert not other(torch.randn(MANY, SIZES[0])).any()
        assert model(torch.randn(MANY, SIZES[0])).any()
    assert type(other[0]) is torch.nn.Linear


def test_without_onednn_the_layers_stay_as_they_are(monkeypatch):
    model = layer("linear")
    monkeypatch.setattr(torch.ops, "mkldnn", object())
    device.use_onednn(model)
    assert "forward" not in vars(model[0])


def test_products_in_half_precision_are_left_to_torch(products):
    model = layer("linear")
    given = torch.randn(MANY, SIZES[0])
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        expected = model(given)
        device.use_onednn(model)
        assert torch.equal(model(given), expected)
    assert expected.dtype == torch.bfloat16
    assert products == []
