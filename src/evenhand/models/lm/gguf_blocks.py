"""The number types of GGUF files: how blocks of quantised numbers become numbers again.

The simple types store 32 numbers in a block, with one or two half-precision numbers to scale them. K types store 256
numbers in parts of 16 or 32, each with a scale of its own, which is quantised too. IQ2_XXS takes eight magnitudes at a
time from a table of 256 patterns, with a sign for each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Numbers = NDArray[np.float32]
Decoder: TypeAlias = Callable[[Bytes], Numbers]
BLOCK, LARGE_BLOCK = 32, 256
MAGNITUDES = np.array([8, 25, 43], dtype=np.float32)
# The patterns of IQ2_XXS: eight digits in base 3, the least significant first.
PATTERNS = """
0 2 4 6 8 10 12 18 20 24 26 28 30 36 42 46 48 54 56 62 74 82 84 90 94 108 138 150 162 164 182 218 244 246 252 262 264
270 272 276 288 298 300 306 318 324 326 330 342 356 376 378 388 412 414 432 462 480 486 490 492 498 510 514 516 522
524 546 570 594 650 660 730 732 738 748 756 774 786 792 796 810 816 828 846 854 864 912 922 972 978 990 994 1006 1026
1068 1100 1134 1148 1216 1218 1224 1242 1270 1296 1300 1368 1414 1458 1460 1466 1488 1504 1512 1514 1564 1572 1620
1622 1702 1704 1710 1728 1742 1782 1810 1830 1926 1950 1962 2010 2136 2188 2190 2196 2202 2206 2208 2214 2220 2228
2232 2242 2244 2250 2268 2286 2314 2322 2326 2350 2358 2382 2390 2400 2430 2436 2448 2484 2500 2522 2532 2592 2674
2676 2682 2700 2704 2754 2796 2800 2810 2866 2898 2916 2922 2926 2932 2934 2970 2976 3000 3026 3072 3142 3222 3224
3248 3322 3360 3402 3412 3418 3450 3510 3570 3648 3654 3672 3696 3726 3766 3822 3852 3888 3892 3978 3980 4026 4160
4374 4376 4382 4402 4430 4458 4470 4482 4546 4618 4620 4626 4630 4644 4662 4698 4730 4764 4786 4806 4824 4862 4944
5032 5106 5112 5124 5130 5176 5198 5238 5296 5346 5366 5376 5464 5644 5688 5834 5868 5890 5920 5994 6090 6354 6402
"""


class NumberType(NamedTuple):
    """A number type: name, numbers in a block, bytes of a block, decoder."""

    name: str
    numbers: int
    bytes: int
    decode: Decoder


def _plain(dtype: str) -> Decoder:
    return lambda raw: raw.view(dtype).astype(np.float32)


def _bf16(raw: Bytes) -> Numbers:
    return (raw.view("<u2").astype(np.uint32) << 16).view(np.float32)


def _q4_0(raw: Bytes) -> Numbers:
    blocks = raw.reshape(-1, 18)
    return _half(blocks[:, :2]) * (_nibbles(blocks[:, 2:]) - 8)


def _q4_1(raw: Bytes) -> Numbers:
    blocks = raw.reshape(-1, 20)
    return _half(blocks[:, :2]) * _nibbles(blocks[:, 4:]) + _half(blocks[:, 2:4])


def _q8_0(raw: Bytes) -> Numbers:
    blocks = raw.reshape(-1, 34)
    return _half(blocks[:, :2]) * np.ascontiguousarray(blocks[:, 2:]).view(np.int8)


def _q2_k(raw: Bytes) -> Numbers:
    """Decode 16 scales and minima of 4 bits, 256 numbers of 2 bits, scale of the scales and of the minima."""
    blocks = raw.reshape(-1, 84)
    scales, packed = blocks[:, :16], blocks[:, 16:80].reshape(-1, 2, 1, 32)
    numbers = (packed >> np.arange(0, 8, 2, dtype=np.uint8)[:, None]) & 3
    steps, minima = _half(blocks[:, 80:82]) * (scales & 15), _half(blocks[:, 82:84]) * (scales >> 4)
    values = steps[:, :, None] * numbers.reshape(-1, 16, 16) - minima[:, :, None]
    return np.asarray(values, dtype=np.float32)


def _q4_k(raw: Bytes) -> Numbers:
    """Decode 8 scales and minima of 6 bits, and 256 numbers of 4 bits."""
    blocks = raw.reshape(-1, 144)
    return _scaled(blocks, _halves(blocks[:, 16:]))


def _q5_k(raw: Bytes) -> Numbers:
    """Decode 8 scales and minima of 6 bits, the fifth bits, and the four lower bits of 256 numbers."""
    blocks = raw.reshape(-1, 176)
    fifth = (blocks[:, None, 16:48] >> np.arange(8, dtype=np.uint8)[:, None]) & 1
    return _scaled(blocks, _halves(blocks[:, 48:]) + 16 * fifth)


def _q6_k(raw: Bytes) -> Numbers:
    """Decode the four lower and two upper bits of 256 numbers, 16 scales of 8 bits and their scale."""
    blocks = raw.reshape(-1, 210)
    low = blocks[:, :128].reshape(-1, 2, 1, 64) >> np.array([0, 4], dtype=np.uint8)[:, None]
    high = blocks[:, 128:192].reshape(-1, 2, 1, 32) >> np.arange(0, 8, 2, dtype=np.uint8)[:, None]
    numbers = (low & 15).reshape(-1, 2, 4, 32) + 16 * (high & 3)
    scales = _half(blocks[:, 208:210]) * np.ascontiguousarray(blocks[:, 192:208]).view(np.int8)
    values = scales[:, :, None] * (numbers.reshape(-1, 16, 16).astype(np.float32) - 32)
    return np.asarray(values, dtype=np.float32)


def _iq2_xxs(raw: Bytes) -> Numbers:
    """Decode 8 groups of four patterns, four times seven signs and a scale of 4 bits.

    The eighth sign of a pattern is negative where the number of negative ones among the others is odd.
    """
    blocks = raw.reshape(-1, 66)
    words = np.ascontiguousarray(blocks[:, 2:]).view("<u4").reshape(-1, 8, 2)
    patterns = np.ascontiguousarray(words[..., 0]).view(np.uint8).reshape(-1, 8, 4)
    scale = _half(blocks[:, :2]) * (0.5 + (words[..., 1] >> 28).astype(np.float32)) / 4
    codes = (words[..., 1, None] >> np.arange(0, 28, 7, dtype=np.uint32)) & 127
    bits = (codes[..., None] >> np.arange(7, dtype=np.uint32)) & 1
    bits = np.concatenate([bits, bits.sum(axis=-1, keepdims=True, dtype=np.uint32) & 1], axis=-1)
    signs = 1 - 2 * bits.astype(np.float32)
    return np.asarray(scale[:, :, None, None] * pattern_table()[patterns] * signs, dtype=np.float32)


def pattern_table() -> Numbers:
    """Return the magnitudes of the patterns of IQ2_XXS, (256, 8)."""
    codes = np.array(PATTERNS.split(), dtype=np.int64)
    return np.asarray(MAGNITUDES[codes[:, None] // 3 ** np.arange(8) % 3])


def _scaled(blocks: Bytes, numbers: Bytes) -> Numbers:
    """Return d scale n - m minimum for 8 parts of 32 numbers; the 6-bit scales and minima share 12 bytes."""
    low, middle, high = (blocks[:, start : start + 4] for start in (4, 8, 12))
    scales = np.concatenate([low & 63, (high & 15) | (low >> 6 << 4)], axis=1)
    minima = np.concatenate([middle & 63, (high >> 4) | (middle >> 6 << 4)], axis=1)
    steps, offsets = _half(blocks[:, :2]) * scales, _half(blocks[:, 2:4]) * minima
    return np.asarray(steps[:, :, None] * numbers - offsets[:, :, None], dtype=np.float32)


def _halves(raw: Bytes) -> Bytes:
    """Return 256 numbers of 4 bits as 8 rows: of each 32 bytes first the low halves, then the high ones."""
    packed = raw.reshape(-1, 4, 1, 32) >> np.array([0, 4], dtype=np.uint8)[:, None]
    return np.asarray((packed & 15).reshape(-1, 8, 32))


def _half(raw: Bytes) -> Numbers:
    return np.ascontiguousarray(raw).view("<f2").astype(np.float32)


def _nibbles(raw: Bytes) -> Numbers:
    """Return the numbers of blocks: first the low halves of the 16 bytes, then the high halves."""
    return np.concatenate([raw & 15, raw >> 4], axis=1).astype(np.float32)


NUMBER_TYPES: dict[int, NumberType] = {
    0: NumberType("F32", 1, 4, _plain("<f4")),
    1: NumberType("F16", 1, 2, _plain("<f2")),
    2: NumberType("Q4_0", BLOCK, 18, _q4_0),
    3: NumberType("Q4_1", BLOCK, 20, _q4_1),
    8: NumberType("Q8_0", BLOCK, 34, _q8_0),
    10: NumberType("Q2_K", LARGE_BLOCK, 84, _q2_k),
    12: NumberType("Q4_K", LARGE_BLOCK, 144, _q4_k),
    13: NumberType("Q5_K", LARGE_BLOCK, 176, _q5_k),
    14: NumberType("Q6_K", LARGE_BLOCK, 210, _q6_k),
    16: NumberType("IQ2_XXS", LARGE_BLOCK, 66, _iq2_xxs),
    30: NumberType("BF16", 1, 2, _bf16),
}
