"""Names of devices and precisions."""

import pytest

from evenhand.errors import UsageError
from evenhand.models import device as devices
from evenhand.models.device import canonical_precision, resolve_device, resolve_precision, torch_device, torch_dtype


def test_auto_is_the_gpu_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "has_gpu", lambda: True)
    assert resolve_device() == "cuda"
    monkeypatch.setattr(devices, "has_gpu", lambda: False)
    assert resolve_device("auto") == "cpu"


@pytest.mark.parametrize(("name", "device"), [("cpu", "cpu"), ("torch", "cpu"), ("torch:cpu", "cpu")])
def test_names_of_the_cpu(name: str, device: str) -> None:
    assert resolve_device(name) == device


def test_gpus_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert resolve_device("cuda:1") == "cuda:1"
    assert resolve_device("torch:cuda") == "cuda"
    assert torch_device("cuda:1") == torch.device("cuda", 1)
    with pytest.raises(UsageError, match="'cuda:2' is not available: torch finds 2 GPUs"):
        resolve_device("cuda:2")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(UsageError, match="'cuda' is not available: torch finds no GPU"):
        resolve_device("cuda")


@pytest.mark.parametrize("name", ["", "gpu", "numpy", "cuda:", "cuda:-1", "cuda:x", "cuda:99999", "CPU", "meta"])
def test_unknown_devices_are_named(name: str) -> None:
    with pytest.raises(UsageError, match=f"unknown device '{name}'"):
        resolve_device(name)


@pytest.mark.parametrize(
    ("name", "precision"),
    [("fp32", "float32"), ("bf16", "bfloat16"), ("fp16", "float16"), ("float32", "float32"), ("auto", "float32")],
)
def test_short_and_full_names_of_precisions(name: str, precision: str) -> None:
    assert resolve_precision(name, "cpu") == precision


def test_auto_precision_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: True)
    assert resolve_precision("auto", "cuda:0") == "bfloat16"
    assert resolve_precision("auto", torch.device("cuda")) == "bfloat16"
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: False)
    assert resolve_precision("auto", "cuda") == "float32"


def test_unknown_and_unsupported_precisions_are_named() -> None:
    with pytest.raises(UsageError, match="unknown precision 'int8'"):
        resolve_precision("int8", "cpu")
    with pytest.raises(UsageError, match="bfloat16 is not supported on cpu"):
        resolve_precision("bf16", "cpu", supported=("float32",))
    assert canonical_precision("int8") == "int8"


def test_dtypes() -> None:
    torch = pytest.importorskip("torch")
    assert torch_dtype("bf16") is torch.bfloat16
    assert torch_dtype("float32") is torch.float32
