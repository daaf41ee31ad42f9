"""Directions in a network: the difference of the mean activations of two sets of texts, or a random control."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from evenhand.arrays import Matrix, Matrix64, Rows, Vector64
from evenhand.errors import DegenerateError, FormatError, UsageError
from evenhand.mitigations.method import require_pairs
from evenhand.mitigations.site_examples import massive_activations, read_sentences, swapped_sentences
from evenhand.models.encoders.sentences import Pooling

if TYPE_CHECKING:
    from evenhand.models.encoders.sites import Site
    from evenhand.models.encoders.transformer import Transformer
    from evenhand.words import Concept

DirectionKind = Literal["concept", "random"]
SMALLEST = 1e-6  # of the mean length of the activations: a smaller difference of means is rounding


@dataclass(frozen=True, eq=False)
class TextContrast:
    """Two texts for each row: the direction points from the mean of the second to the mean of the first."""

    pairs: Sequence[tuple[str, str]]
    source: str

    def report(self) -> dict[str, object]:
        """Return the account for a record."""
        return {"sentence_pairs": len(self.pairs), "source": self.source}


@dataclass(frozen=True, eq=False)
class ActivationDirection:
    """A difference of mean activations at a site, and what it was measured from.

    Attributes:
        vector: the difference, not normalised.
        typical: the mean length of the activations that were averaged.
        agreement: the mean cosine of the differences of single pairs with the vector; near 0, the pairs do not agree.
    """

    vector: Vector64
    typical: float
    agreement: float

    def report(self) -> dict[str, object]:
        """Return the account for a record."""
        return {
            "length": float(np.linalg.norm(self.vector)),
            "typical_length": self.typical,
            "agreement": self.agreement,
        }


def check_source(concept: Concept, prompts: str | None, method: str, most: int) -> None:
    """Raise `UsageError` if a concept has no pairs and there is no file of prompts."""
    if most < 1:
        raise UsageError(f"most must be at least 1, got {most}")
    if prompts is None:
        require_pairs(concept, method, hint="add pairs=[(a, b), ...] to the concept, or give a file: `prompts=`")


def contrast_of(concept: Concept, prompts: str | None, *, most: int, seed: int) -> TextContrast:
    """Return the texts of a file, or sentences that differ in a word of the concept's pairs.

    Args:
        concept: the concept.
        prompts: a file with two texts in each line, separated by a tab; None: sentences of the concept.
        most: pairs of texts, at most.
        seed: of the choice among more pairs.
    """
    if prompts is None:
        pairs, source = swapped_sentences(concept, None, most=most, seed=seed)
        return TextContrast(pairs, source)
    found = []
    for number, line in enumerate(read_sentences(prompts), start=1):
        first, tab, second = line.partition("\t")
        if not tab or not first.strip() or not second.strip() or "\t" in second:
            raise FormatError(
                f"{prompts}, line {number} has no two texts", hint="write two texts in each line, with a tab between"
            )
        found.append((first.strip(), second.strip()))
    if not found:
        raise FormatError(f"{prompts} is empty", hint="write two texts in each line, with a tab between")
    if len(found) > most:
        rows = np.sort(np.random.default_rng(seed).permutation(len(found))[:most])
        found = [found[row] for row in rows]
    return TextContrast(found, Path(prompts).name)


def learn_direction(
    transformer: Transformer, site: Site, contrast: TextContrast, *, pooling: Pooling
) -> ActivationDirection:
    """Return the difference of the mean activations of the first and of the second texts at a site.

    Raises:
        DegenerateError: If the means are equal.
    """
    from evenhand.models.encoders.activations import sentences_at

    texts = list(dict.fromkeys(text for pair in contrast.pairs for text in pair))
    limit = massive_activations(transformer, site)[0] if pooling == "mean" else None
    if limit is None:
        rows = sentences_at(transformer, site, texts, pooling=pooling).astype(np.float64)
    else:
        rows = _ordinary_means(transformer, site, texts, limit)
    row_of = {text: row for row, text in enumerate(texts)}
    first, second = (rows[[row_of[pair[side]] for pair in contrast.pairs]] for side in (0, 1))
    differences = first - second
    vector = differences.mean(axis=0)
    typical, length = float(np.linalg.norm(rows, axis=1).mean()), float(np.linalg.norm(vector))
    if not length > SMALLEST * typical:
        raise DegenerateError(
            f"the two sets of texts have the same mean at {site}, so there is no direction",
            hint="use another site, or texts that differ",
        )
    lengths = np.linalg.norm(differences, axis=1)
    cosines = np.divide(differences @ vector, lengths * length, out=np.zeros(len(lengths)), where=lengths > 0)
    return ActivationDirection(vector, typical, float(cosines.mean()))


def _ordinary_means(transformer: Transformer, site: Site, texts: Sequence[str], limit: float) -> Matrix64:
    """Return the mean vector of each text over its tokens up to a length.

    A token with a massive activation is a hundred times as long as the others and says nothing about the text: where
    such a token differs between two texts, it would decide the mean alone.
    """
    from evenhand.models.encoders.activations import read_tokens
    from evenhand.models.encoders.sites import locate

    sums = np.zeros((len(texts), locate(transformer.model, site).width))
    counts = np.zeros(len(texts))

    def keep(rows: Rows, vectors: Matrix) -> None:
        ordinary = np.linalg.norm(vectors.astype(np.float64), axis=1) <= limit
        np.add.at(sums, rows[ordinary], vectors[ordinary])
        np.add.at(counts, rows[ordinary], 1.0)

    read_tokens(transformer, site, texts, keep)
    if not counts.all():
        row = int(np.argmin(counts))
        raise DegenerateError(
            f"every token of {texts[row]!r} has a massive activation at {site}", hint="use longer texts"
        )
    return np.asarray(sums / counts[:, None], dtype=np.float64)


def random_direction(width: int, length: float, seed: int) -> Vector64:
    """Return a random vector of a length: the control of a direction."""
    drawn = np.random.default_rng(seed).standard_normal(width)
    return np.asarray(length * drawn / np.linalg.norm(drawn), dtype=np.float64)
