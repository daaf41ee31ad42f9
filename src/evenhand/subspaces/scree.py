"""How stable a learned direction is: Tables 7 and 12 of Dev et al. 2019."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from evenhand.errors import UsageError
from evenhand.models.vectors import Coverage, Vectors
from evenhand.subspaces.differences import pairs
from evenhand.subspaces.groups import words
from evenhand.subspaces.principal import principal
from evenhand.subspaces.subspace import Subspace


@dataclass(frozen=True)
class Stability:
    """One row of the table: how one-dimensional the full list is, and how near its axis the removed direction lies."""

    ratios: tuple[float, ...]
    """2nd, 3rd, 4th: singular value over the first one; fewer where the list is shorter."""
    variance_ratios: tuple[float, ...]
    """The same of the squared singular values. The paper does not say which of the two it prints."""
    cosine: float
    """|cos| of the first direction of the full list with the first direction removed."""
    cosine_subspace: float
    """The same with the whole subspace removed (length of the projection); equal when only one was removed."""
    how: str
    coverage: Coverage

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, with the column names of the paper."""
        columns = dict(zip(("2nd", "3rd", "4th"), self.ratios, strict=False))
        return asdict(self) | columns | {"coverage": self.coverage.to_dict()}


def stability(
    v: Vectors,
    full: Iterable[str] | Iterable[Sequence[str]] | Subspace,
    removed: Subspace,
    *,
    normalise: bool = False,
) -> Stability:
    """Compare the direction removed with the principal directions of a fuller list of the same concept.

    `full` is a list of pairs (their differences, uncentred: the paper's Gendered), a list of words (centred PCA:
    Demonyms, Adherents), or a subspace learned otherwise. A second ratio well below 1 says that one direction holds
    most of what the list varies in; a cosine well below 1 says that the removed one is another.
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


def _principal(v: Vectors, full: tuple[Any, ...], *, normalise: bool) -> Subspace:
    if full and not isinstance(full[0], str):
        return pairs(v, full, normalise=normalise)
    return words(v, full, normalise=normalise)


def gaussian(dim: int, seed: int = 0, *, k: int = 1) -> Subspace:
    """Random directions, uniform over the sphere (normal coordinates, orthonormalised).

    The control of Dev et al. 2019 for BERT. It ignores where the vectors lie: in a space with a few strong directions
    most random ones carry almost no variance, so that removing one of them changes little.
    """
    if dim < 1 or not 1 <= k <= dim:
        raise UsageError(f"{k} random directions in {dim} dimensions make no sense", hint="1 <= k <= dim")
    rows = np.random.default_rng(seed).standard_normal((k, dim))
    return principal(rows, k=k, how="gaussian", params={"seed": seed})


def random_words(v: Vectors, seed: int = 0, *, n: int = 20, k: int = 1) -> Subspace:
    """The first k centred principal components of n words drawn at random from the vocabulary.

    The control of Dev et al. 2019 for GloVe (n=20, k=1): it does follow where the vectors lie. The draw is uniform
    over the vocabulary, so that a long tail of rare words makes up most of it.
    """
    if not 2 <= n <= len(v):
        raise UsageError(f"cannot draw {n} random words from {len(v):,}", hint="2 <= n <= size of the vocabulary")
    chosen = np.random.default_rng(seed).choice(len(v), size=n, replace=False)
    rows = v.matrix[chosen].astype(np.float64)
    found = tuple(v.words[int(row)] for row in chosen)
    params = {"seed": seed, "n": n, "centre": True}
    return principal(rows - rows.mean(axis=0), k=k, how="random-words", params=params, coverage=Coverage(found))
