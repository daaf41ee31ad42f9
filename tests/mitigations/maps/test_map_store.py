from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from evenhand.errors import FormatError, InputMissingError
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

RNG = np.random.default_rng(0)
EVERY = [
    SoftProjection(np.eye(3)[:2], [1.0, 0.5]),
    Affine(RNG.normal(size=(3, 4)), RNG.normal(size=4)),
    LowRank(RNG.normal(size=(3, 1)), RNG.normal(size=(1, 3)), RNG.normal(size=3)),
    PlaneRotation.between([1.0, 0.0, 0.0], [1.0, 2.0, 3.0]),
    Encoder(RNG.normal(size=(3, 2)), RNG.normal(size=2)),
    WordTable({"a": [1.0, 2.0, 3.0], "naïve\u2028": [4.0, 5.0, 6.0]}),
    ExceptWords(RowNormalise() @ SoftProjection(np.eye(3)[:1]), ["a", "日本"]),
    RowNormalise(),
    DropCoordinates([-1], 3),
    RowNormalise() @ WordTable({"a": [1.0, 2.0, 3.0]}) @ SoftProjection(np.eye(3)[:1]),
]


@pytest.mark.parametrize("vm", EVERY, ids=lambda vm: vm.kind)
def test_every_kind_comes_back_equal(vm: VectorMap, tmp_path: Path) -> None:
    path = vm.save(tmp_path / "m.safetensors")
    back = VectorMap.load(path)
    assert back == vm
    assert type(back) is type(vm)
    x = RNG.normal(size=(4, 3))
    words = ["a", "b", "日本", "naïve\u2028"]
    assert np.array_equal(back(x, words), vm(x, words))
    assert [file.name for file in tmp_path.iterdir()] == ["m.safetensors"]


def test_the_report_comes_back_too(tmp_path: Path) -> None:
    report = {"method": "linear", "params": {"k": 1}, "variance_kept": np.float64(0.5), "n": np.int64(3)}
    inner = SoftProjection(np.eye(2)[:1]).with_report(**report)
    back = VectorMap.load((RowNormalise() @ inner).save(tmp_path / "m"))
    assert back.parts[0].report == {"method": "linear", "params": {"k": 1}, "variance_kept": 0.5, "n": 3}
    assert back.report["method"] == "linear.row-normalise"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputMissingError, match=r"none\.safetensors"):
        VectorMap.load(tmp_path / "none.safetensors")


@pytest.mark.parametrize("content", [b"", b"garbage that is no header", b"\x80\x04pickle" * 20])
def test_what_is_not_safetensors_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "m"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=f"{path}.*not a safetensors file"):
        VectorMap.load(path)


def test_other_tensors_are_refused(tmp_path: Path) -> None:
    save_file({"basis": np.eye(2)}, tmp_path / "m")
    with pytest.raises(FormatError, match="not a map"):
        VectorMap.load(tmp_path / "m")


@pytest.mark.parametrize(
    ("about", "message"),
    [
        ("not json", "damaged map"),
        ("[]", "damaged map"),
        ('{"format": 9}', "map format 9"),
        ('{"format": 1, "map": {"kind": "evil", "config": {}, "arrays": [], "children": []}}', "damaged map"),
        ('{"format": 1, "map": {"kind": "affine", "config": {}, "arrays": ["m"], "children": []}}', "damaged map"),
    ],
)
def test_damaged_metadata_is_refused(tmp_path: Path, about: str, message: str) -> None:
    save_file({"basis": np.eye(2)}, tmp_path / "m", metadata={"evenhand-map": about})
    with pytest.raises(FormatError, match=message):
        VectorMap.load(tmp_path / "m")


def test_changed_numbers_are_noticed(tmp_path: Path) -> None:
    path = Affine(np.eye(2)).save(tmp_path / "m")
    data = bytearray(path.read_bytes())
    data[-1] ^= 1  # one bit of the last number
    path.write_bytes(data)
    with pytest.raises(FormatError, match="checksum"):
        VectorMap.load(path)


def test_a_failed_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = Affine(np.eye(2)).save(tmp_path / "m")

    def fails(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", fails)
    with pytest.raises(OSError, match="disk full"):
        Affine(2 * np.eye(2)).save(path)
    assert VectorMap.load(path) == Affine(np.eye(2))
    assert [file.name for file in tmp_path.iterdir()] == ["m"]
