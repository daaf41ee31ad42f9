from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest

from evenhand.errors import UsageError
from evenhand.mitigations.maps import (
    Affine,
    DropCoordinates,
    Encoder,
    ExceptWords,
    LowRank,
    PlaneRotation,
    RowNormalise,
    SoftProjection,
    VectorMap,
    WordTable,
)

torch = pytest.importorskip("torch", reason="torch is not installed (extra: models)")

RNG = np.random.default_rng(0)
BARE = [
    SoftProjection(np.eye(4)[:2], [1.0, 0.5]),
    Affine(RNG.normal(size=(4, 3)), RNG.normal(size=3)),
    LowRank(RNG.normal(size=(4, 1)), RNG.normal(size=(1, 4)), RNG.normal(size=4)),
    PlaneRotation.between([1.0, 0.0, 0.0, 0.0], [1.0, 2.0, 3.0, 0.0]),
    Encoder(RNG.normal(size=(4, 2)), RNG.normal(size=2)),
    RowNormalise(),
    DropCoordinates([-1]),
    RowNormalise() @ SoftProjection(np.eye(4)[:1]),
]
WORDY = [WordTable({"a": np.arange(4.0)}), ExceptWords(SoftProjection(np.eye(4)[:1]), ["b"])]
X = RNG.normal(size=(3, 4))
WORDS = ["a", "b", "c"]


@pytest.mark.parametrize("vm", BARE + WORDY, ids=lambda vm: vm.kind)
def test_tensor_and_array_agree(vm: VectorMap) -> None:
    for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 1e-5), (torch.bfloat16, 1e-1)):
        mapped = vm(torch.tensor(X, dtype=dtype), WORDS)
        assert mapped.dtype == dtype
        assert np.allclose(mapped.double().numpy(), vm(X, WORDS), atol=tolerance)


@pytest.mark.parametrize("vm", BARE + WORDY, ids=lambda vm: vm.kind)
def test_gradients_pass_through_even_at_zero(vm: VectorMap) -> None:
    x = torch.tensor(np.vstack([X[:2], np.zeros(4)]), requires_grad=True)
    vm(x, WORDS).sum().backward()
    assert torch.isfinite(x.grad).all()
    inside = torch.tensor(X, requires_grad=True)
    assert torch.autograd.gradcheck(lambda t: vm(t, WORDS), (inside,))


@pytest.mark.parametrize("vm", BARE, ids=lambda vm: vm.kind)
def test_the_layer_does_the_same_with_frozen_buffers(vm: VectorMap) -> None:
    layer = vm.to_torch(torch.float64)
    batch = torch.tensor(RNG.normal(size=(2, 3, 4)))
    assert torch.allclose(layer(batch), vm(batch))
    assert torch.allclose(copy.deepcopy(layer)(batch), vm(batch))
    assert list(layer.parameters()) == []
    assert layer.float()(batch.float()).dtype == torch.float32
    assert layer.half()(batch.half()).dtype == torch.float16


def test_the_layer_saves_and_loads_its_state(tmp_path: Path) -> None:
    layer = Affine(np.eye(2), [1.0, 2.0]).to_torch()
    torch.save(layer.state_dict(), tmp_path / "s.pt")
    other = Affine(np.zeros((2, 2))).to_torch()
    other.load_state_dict(torch.load(tmp_path / "s.pt", weights_only=True))
    assert other(torch.zeros(1, 2)).tolist() == [[1.0, 2.0]]
    with pytest.raises(UsageError, match="takes vectors of 2 coordinates, got 3"):
        other(torch.zeros(1, 3))


def test_parameters_and_single_vectors_are_taken() -> None:
    weight = torch.nn.Parameter(torch.ones(5, 4))
    assert BARE[0](weight).requires_grad
    assert BARE[0](torch.ones(4)).shape == (4,)


def test_invalid_tensors_are_refused() -> None:
    with pytest.raises(UsageError, match="real numbers"):
        BARE[0](torch.ones(4, dtype=torch.int64))
    with pytest.raises(UsageError, match="got 5"):
        BARE[0](torch.ones(5))
    with pytest.raises(UsageError, match="bare numbers"):
        WORDY[0](torch.ones(3, 4))
