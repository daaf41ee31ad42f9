"""Number types of GGUF: blocks decoded by hand, and against the package `gguf` where it is installed."""

import struct

import numpy as np
import pytest

from evenhand.models.lm.gguf_blocks import NUMBER_TYPES, pattern_table

BY_NAME = {known.name: (number, known) for number, known in NUMBER_TYPES.items()}
HALVES = {"Q2_K": (80, 82), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,), "IQ2_XXS": (0,)}  # where scales lie


def decode(name: str, raw: bytes) -> np.ndarray:
    _, known = BY_NAME[name]
    assert len(raw) == known.bytes
    return known.decode(np.frombuffer(raw, dtype=np.uint8)).reshape(-1)


def test_q2_k_by_hand() -> None:
    # Scale 3 and minimum 2 of each part; every byte holds the numbers 0, 1, 2, 3 of four parts of 32.
    found = decode("Q2_K", bytes([0x23] * 16) + bytes([0b11100100] * 64) + struct.pack("<ee", 0.5, 0.25))
    expected = [number * 3 * 0.5 - 2 * 0.25 for number in (0, 1, 2, 3)]
    np.testing.assert_allclose(found, np.tile(np.repeat(expected, 32), 2))


def test_q4_k_by_hand() -> None:
    # 6-bit scales 1 ... 4 in the first four bytes; scales of parts 5 ... 8 are 16 * 1 + 5, from two places.
    scales = bytes([0x41, 0x42, 0x43, 0x44]) + bytes([2] * 4) + bytes([0x35] * 4)
    found = decode("Q4_K", struct.pack("<ee", 0.5, 1.0) + scales + bytes([0x72] * 128)).reshape(8, 32)
    assert found[:4, 0].tolist() == [0.5 * s * q - 2 for s, q in ((1, 2), (2, 7), (3, 2), (4, 7))]
    assert found[4:, 0].tolist() == [0.5 * 21 * q - 3 for q in (2, 7, 2, 7)]
    assert (found == found[:, :1]).all()


def test_q5_k_by_hand() -> None:
    # The fifth bit is set in the parts 1, 3, 5 and 7 (counted from 0).
    raw = struct.pack("<ee", 1.0, 0.0) + bytes([1] * 4 + [0] * 4 + [1] * 4) + bytes([0b10101010] * 32)
    found = decode("Q5_K", raw + bytes([0x21] * 128)).reshape(8, 32)
    assert found[:, 0].tolist() == [1, 18, 1, 18, 1, 18, 1, 18]


def test_q6_k_by_hand() -> None:
    raw = bytes([0x43] * 128) + bytes([0b11100100] * 64) + bytes([2] * 15 + [256 - 2]) + struct.pack("<e", 0.5)
    found = decode("Q6_K", raw).reshape(2, 4, 32)
    assert found[0, :, 0].tolist() == [3 - 32, 3 + 16 - 32, 4 + 32 - 32, 4 + 48 - 32]
    assert found[1, 3, -1] == -found[0, 3, -1]


def test_iq2_xxs_by_hand() -> None:
    # Pattern 1 is 43 8 8 ...; the signs 0000011 make the first two negative, and an even number leaves the last as it is.
    word = 0b0000011 | 3 << 28
    group = bytes([1, 0, 0, 0]) + struct.pack("<I", word)
    found = decode("IQ2_XXS", struct.pack("<e", 2.0) + group * 8).reshape(8, 4, 8)
    scale = 2.0 * 3.5 / 4
    assert found[0, 0].tolist() == [-43 * scale, -8 * scale, *([8 * scale] * 6)]
    assert (found[:, 1:] == 8 * scale).all()


def test_an_odd_number_of_signs_turns_the_eighth() -> None:
    group = bytes(4) + struct.pack("<I", 0b0000100)
    found = decode("IQ2_XXS", struct.pack("<e", 8.0) + group * 8).reshape(8, 4, 8)
    assert found[0, 0].tolist() == [8, 8, -8, 8, 8, 8, 8, -8]


def test_patterns_are_different() -> None:
    table = pattern_table()
    assert table.shape == (256, 8)
    assert len(np.unique(table, axis=0)) == 256
    assert set(np.unique(table)) == {8, 25, 43}


@pytest.mark.parametrize("name", HALVES)
def test_the_package_gguf_decodes_the_same(name: str) -> None:
    gguf = pytest.importorskip("gguf")
    number, known = BY_NAME[name]
    rng = np.random.default_rng(0)
    raw = rng.integers(0, 256, (100, known.bytes), dtype=np.uint8)
    for start in HALVES[name]:
        raw[:, start : start + 2] = rng.normal(size=(100, 1)).astype("<f2").view(np.uint8)
    theirs = gguf.quants.dequantize(raw, gguf.GGMLQuantizationType(number))
    np.testing.assert_array_equal(known.decode(raw).reshape(theirs.shape), theirs)
