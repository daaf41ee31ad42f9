"""Stability of a direction (Tables 7 and 12 of Dev et al. 2019), scree of pairs, and random control directions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from evenhand.arrays import Vector64, as_float64, unit_rows
from evenhand.errors import UsageError
from evenhand.models.vectors import Coverage, Vectors
from evenhand.subspaces.differences import pairs
from evenhand.subspaces.groups import words
from evenhand.subspaces.subspace import Subspace, principal


@dataclass(frozen=True)
class Stability:
    """How one-dimensional a full list of words is, and how close its first direction is to the removed one."""

    ratios: tuple[float, ...]
    """2nd, 3rd and 4th singular value divided by the first; fewer for short lists."""
    variance_ratios: tuple[float, ...]
    """Ratios of the squared singular values. The paper does not specify which of the two it reports."""
    cosine: float
    """|cos| of the first direction of the full list with the first removed direction."""
    cosine_subspace: float
    """|cos| with the removed subspace (norm of the projection); equals `cosine` for one direction."""
    how: str
    coverage: Coverage

    def to_dict(self) -> dict[str, object]:
        """Return plain data for JSON, with the column names of the paper."""
        columns = dict(zip(("2nd", "3rd", "4th"), self.ratios, strict=False))
        return asdict(self) | columns | {"coverage": self.coverage.to_dict()}


def stability(
    v: Vectors,
    full: Iterable[str] | Iterable[Sequence[str]] | Subspace,
    removed: Subspace,
    *,
    normalise: bool = False,
) -> Stability:
    """Compare a removed direction with the principal directions of a longer list of the same concept.

    `full` is a list of pairs (uncentred differences: Gendered in the paper), a list of words (centred PCA: Demonyms,
    Adherents), or another subspace. A second ratio well below 1 means that one direction explains most of the variation
    of the list; a cosine well below 1 means that the removed direction is a different one.
    """
    learned = full if isinstance(full, Subspace) else _principal(v, tuple(full), normalise=normalise)
    spectrum = np.asarray(learned.spectrum)
    ratios = (spectrum / spectrum[0])[1:4]
    return Stability(
        ratios=tuple(ratios.tolist()),
        variance_ratios=tuple((ratios**2).tolist()),
        cosine=abs(learned.cos(removed)),
        cosine_subspace=float(np.linalg.norm(removed.coordinates(learned.basis[0]))),
        how=learned.how,
        coverage=learned.coverage,
    )


def _principal(v: Vectors, full: tuple[str | Sequence[str], ...], *, normalise: bool) -> Subspace:
    if full and not isinstance(full[0], str):
        return pairs(v, full, normalise=normalise)
    return words(v, (str(word) for word in full), normalise=normalise)


@dataclass(frozen=True)
class Scree:
    """Shares of the sum of squares of pair differences by principal direction, beside those of random pairs."""

    shares: tuple[float, ...]
    random: tuple[float, ...]
    """Mean over draws of as many random pairs."""
    random_low: tuple[float, ...]
    random_high: tuple[float, ...]
    """2.5 and 97.5 % quantiles over draws."""
    pairs: int
    draws: int

    def to_dict(self) -> dict[str, object]:
        """Return plain data for JSON."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}


DRAWS = 100
SHOWN = 10  # directions of a scree


def scree(v: Vectors, learned: Subspace, *, draws: int = DRAWS, seed: int = 0) -> Scree:
    """Compare the spectrum of a subspace learned from pairs with that of as many pairs of random words.

    A first share well above that of random pairs means that the pairs differ in a common direction. Few pairs have a
    large first share by chance alone, which the random pairs show.
    """
    count = int(learned.params.get("pairs_used", len(np.asarray(learned.spectrum))))
    normalise = bool(learned.params.get("normalise", False))
    rng = np.random.default_rng(seed)
    random = np.stack([_shares(_random_spectrum(v, count, rng, normalise=normalise)) for _ in range(draws)])
    low, high = np.quantile(random, [0.025, 0.975], axis=0)
    columns = (_shares(np.asarray(learned.spectrum)), random.mean(axis=0), low, high)
    own, mean, low, high = (tuple(np.round(column[:SHOWN], 5).tolist()) for column in columns)
    return Scree(own, mean, low, high, count, draws)


def _random_spectrum(v: Vectors, count: int, rng: np.random.Generator, *, normalise: bool) -> Vector64:
    rows = v.matrix[rng.integers(len(v), size=2 * count)]
    scaled = unit_rows(rows) if normalise else as_float64(rows)
    return np.asarray(np.linalg.svd(scaled[:count] - scaled[count:], compute_uv=False), dtype=np.float64)


def _shares(spectrum: Vector64) -> Vector64:
    squares = spectrum**2
    total = float(squares.sum())
    return np.asarray(squares / total if total > 0 else squares)


def gaussian(dim: int, seed: int = 0, *, k: int = 1) -> Subspace:
    """Return random directions, uniform on the sphere (normal coordinates, orthonormalised).

    The control of Dev et al. 2019 for BERT. It ignores the distribution of the vectors: in a space with a few strong
    directions most random ones have almost no variance, so removing one changes little.
    """
    if dim < 1 or not 1 <= k <= dim:
        raise UsageError(f"cannot draw k={k} directions in {dim} dimensions", hint="use 1 <= k <= dim")
    rows = np.random.default_rng(seed).standard_normal((k, dim))
    return principal(rows, k=k, how="gaussian", params={"seed": seed})


def random_words(v: Vectors, seed: int = 0, *, n: int = 20, k: int = 1) -> Subspace:
    """Return the first k centred principal components of n random words of the vocabulary.

    The control of Dev et al. 2019 for GloVe (n=20, k=1), which follows the distribution of the vectors. Words are drawn
    uniformly, so most of them are rare.
    """
    if not 2 <= n <= len(v):
        raise UsageError(f"cannot draw {n} random words from {len(v):,}", hint="use 2 <= n <= size of the vocabulary")
    sample = np.random.default_rng(seed).choice(len(v), size=n, replace=False)
    rows = v.matrix[sample].astype(np.float64)
    words_drawn = tuple(v.words[int(row)] for row in sample)
    params = {"seed": seed, "n": n, "centre": True}
    return principal(rows - rows.mean(axis=0), k=k, how="random-words", params=params, coverage=Coverage(words_drawn))
