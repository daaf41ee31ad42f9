"""Vectors with words of our own making, small enough to compute by hand or by brute force."""

from types import SimpleNamespace

import numpy as np
import pytest

from evenhand import Query, Vectors


def planted(seed=0, dim=6, sizes=(4, 5, 3, 4)):
    """Random vectors of very different lengths, and a query over them with two targets and two attributes."""
    rng = np.random.default_rng(seed)
    names = [[f"{letter}{i}" for i in range(size)] for letter, size in zip("xyab", sizes, strict=True)]
    words = [word for group in names for word in group]
    matrix = rng.normal(size=(len(words), dim)) * rng.uniform(0.2, 5, size=(len(words), 1))
    query = Query("planted", {"X": names[0], "Y": names[1]}, {"A": names[2], "B": names[3]})
    return Vectors(words, matrix.astype(np.float32)), query


def rotated(vectors, seed=1):
    """The same vectors turned by a random rotation."""
    turn, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(vectors.dim, vectors.dim)))
    return vectors.with_matrix((vectors.matrix.astype(np.float64) @ turn).astype(np.float32))


def scaled(vectors, factor):
    """The same vectors, all longer or shorter."""
    return vectors.with_matrix(vectors.matrix * np.float32(factor))


def cosine(a, b):
    a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


@pytest.fixture(scope="session")
def lab():
    """The functions of this file, since a test module cannot import from here."""
    return SimpleNamespace(planted=planted, rotated=rotated, scaled=scaled, cosine=cosine)
