"""LEACE, after which no linear classifier finds a concept, and concept scrubbing, which is LEACE at every layer."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from evenhand.arrays import Floats, Matrix, Matrix64, Rows, Vector64, as_float64
from evenhand.errors import DegenerateError, EvenhandWarning, UsageError
from evenhand.mitigations.labelled_words import FromLabels
from evenhand.mitigations.maps import LowRank, VectorMap
from evenhand.mitigations.method import TRANSFORMER, Mitigation, Target, require_groups
from evenhand.mitigations.registry import MITIGATIONS
from evenhand.mitigations.selection import sparing
from evenhand.models.vectors import Vectors
from evenhand.subjects import Subject
from evenhand.subspaces.subspace import RANK_RTOL

if TYPE_CHECKING:
    from evenhand.mitigations.maps.site_change import SiteChange
    from evenhand.models.encoders.sites import Site
    from evenhand.models.encoders.transformer import Transformer
    from evenhand.words import Concept


RTOL = 1e-10  # of the strongest class direction; one-hot classes leave a spurious one at 1e-16
ROWS_AT_ONCE = 2048
FEW_WORDS = 2  # a dimension: with fewer, the sample covariance hardly determines the direction that is removed


class Statistics:
    """Means, covariance and class sums of rows that arrive in blocks: all that LEACE needs.

    Call `update` for every block, then `eraser`. Memory does not depend on the number of rows, so it also serves
    sentence vectors.
    """

    def __init__(self, dim: int, classes: int) -> None:
        if classes < 2:
            raise DegenerateError(f"erasure needs at least two classes, got {classes}")
        self.n, self.mean, self.scatter = 0, np.zeros(dim), np.zeros((dim, dim))
        self.counts, self.sums = np.zeros(classes, dtype=np.int64), np.zeros((classes, dim))

    def update(self, x: Floats, y: Rows) -> Statistics:
        """Add rows with their class numbers."""
        if x.ndim != 2 or x.shape[1] != len(self.mean) or len(x) != len(y):
            raise UsageError(
                f"expected rows of {len(self.mean)} coordinates with one class each, got {x.shape} and {len(y)}"
            )
        if len(y) and (np.min(y) < 0 or np.max(y) >= len(self.counts)):
            raise UsageError(f"classes are numbered from 0 to {len(self.counts) - 1}, got {np.min(y)} to {np.max(y)}")
        for start in range(0, len(x), ROWS_AT_ONCE):
            self._add(as_float64(x[start : start + ROWS_AT_ONCE]), y[start : start + ROWS_AT_ONCE])
        return self

    def _add(self, rows: Matrix64, y: Rows) -> None:
        """Add a block in double precision (the parallel formula of Chan, Golub & LeVeque 1979)."""
        with np.errstate(invalid="ignore", over="ignore"):
            sums = np.eye(len(self.counts))[:, y] @ rows
        if not np.isfinite(sums).all():  # one number that is not finite makes the sum so
            raise DegenerateError("the rows hold NaN or infinity", hint="drop or repair them")
        mean = sums.sum(axis=0) / len(rows)
        apart, total = mean - self.mean, self.n + len(rows)
        centred = rows - mean
        self.scatter += centred.T @ centred + np.outer(apart, apart) * (self.n * len(rows) / total)
        self.mean, self.n = self.mean + apart * (len(rows) / total), total
        self.counts += np.bincount(y, minlength=len(self.counts))
        self.sums += sums

    def cross(self) -> Matrix64:
        """Return the covariance of the rows with each one-hot class, scaled to variance 1: (d, classes).

        Without the scaling the direction of a rare class would be weak and fall below the tolerance.
        """
        if np.count_nonzero(self.counts) < 2:
            raise DegenerateError("all rows are of one class; erasure needs two")
        share = self.counts / self.n
        apart = self.sums - self.counts[:, None] * self.mean
        deviation = np.sqrt(share * (1 - share))[:, None]
        scaled = np.divide(apart, self.n * deviation, out=np.zeros_like(apart), where=deviation > 0)
        return np.asarray(scaled.T, dtype=np.float64)

    def covariance(self, *, shrinkage: bool = False) -> Matrix64:
        """Return the covariance of the rows, with divisor n; `shrinkage` moves it towards a multiple of the identity.

        The optimal linear shrinkage of Bodnar, Gupta & Parolya 2014 (random matrix theory): for few rows in many
        dimensions, where the sample covariance overstates the strong directions.
        """
        plain = self.scatter / self.n
        if not shrinkage:
            return np.asarray(plain, dtype=np.float64)
        d, trace = len(plain), float(np.trace(plain))
        spread = d * float(np.sum(plain**2)) - trace**2
        kept = max(0.0, 1 - d * trace**2 / (self.n * spread)) if spread > 0 else 0.0
        return np.asarray(kept * plain + (1 - kept) * trace / d * np.eye(d), dtype=np.float64)

    def eraser(self, *, shrinkage: bool = False, orth: bool = False) -> LowRank:
        """Return the map x - W+ u u' W (x - mean), u an orthonormal basis of the range of W cross, W the whitening.

        Without shrinkage the total variance never grows, although the projection is oblique: the covariance becomes
        S (I - u u') S with S = W+, and an orthogonal projection adds nothing to a trace.
        """
        cross = self.cross()
        whiten, unwhiten = _whitening(self.covariance(shrinkage=shrinkage), orth=orth)
        left, strength, _ = np.linalg.svd(whiten @ cross, full_matrices=False)
        u = left[:, strength > RTOL * strength[0]] if strength[0] > 0 else left[:, :0]
        reads, writes = whiten @ u, u.T @ unwhiten
        return LowRank(reads, writes, (self.mean @ reads) @ writes)


def _whitening(covariance: Matrix64, *, orth: bool) -> tuple[Matrix64, Matrix64]:
    """Return the symmetric square roots of the inverse covariance and of the covariance, on its range.

    The rows are single precision: a direction that they lack, such as the mean of coordinates after a LayerNorm, has a
    standard deviation near 1e-7 of the largest, and whitening it would magnify rounding errors.
    """
    if orth:
        return np.eye(len(covariance)), np.eye(len(covariance))
    values, axes = np.linalg.eigh(covariance)
    nonzero = values > values[-1] * RANK_RTOL**2
    roots: Vector64 = np.sqrt(values[nonzero])
    kept = axes[:, nonzero]
    return (kept / roots) @ kept.T, (kept * roots) @ kept.T


@MITIGATIONS.register("leace")
@dataclass(frozen=True)
class LEACE(FromLabels):
    """Apply the smallest affine change after which no linear classifier separates the classes.

    Belrose et al. (2023): among all affine maps with Cov(x', z) = 0, and hence equal class means, this one moves the
    vectors least (mean squared distance, in any inner product). With equal class means no linear classifier with an
    intercept beats the constant one, for any convex loss. W whitens, P projects onto the range of W Cov(x, z), and
    z are the classes. The rank is the number of classes less one.

    The labelled words are those of INLP, with which it should be compared: this is the best that linear erasure can
    do. `orth` sets W = 1, an orthogonal projection away from the differences of the class means. `shrinkage`
    regularises the covariance; the guarantee holds for any invertible W, so it still holds.

    What it does not do: the guarantee is for the labelled words and for linear classifiers. Nonlinear classifiers and
    k-means may still find the concept. The map is an oblique projection, so single vectors may become longer.

    Args:
        shrinkage: Whether the covariance is shrunk towards a multiple of the identity.
        orth: Whether the projection is orthogonal (W = 1) instead of oblique.
    """

    id: ClassVar[str] = "leace"
    title: ClassVar[str] = "Least-squares concept erasure (LEACE)"
    formula: ClassVar[str] = "x - W^+ P W (x - mean), W = Cov(x)^-1/2, P the projection onto the range of W Cov(x, z)"
    cites: ClassVar[tuple[str, ...]] = ("belrose2023",)
    limits: ClassVar[str] = (
        "Guaranteed for linear classifiers and on the labelled words only; nonlinear classifiers and clustering may "
        "still find the concept."
    )

    shrinkage: bool = False
    orth: bool = False

    def _fit(self, v: Vectors, concept: Concept) -> VectorMap:
        labelled = self._labelled(v, concept)
        x = labelled.matrix(v)
        self._warn_of_few_words(*x.shape)
        vm = sparing(self._erase(x, labelled.y), self.words, v, concept)
        # The reported accuracy must not come from words that the eraser was fitted to.
        fit, dev, _ = labelled.parts
        seen = np.union1d(fit, dev)
        details = labelled.report(x, self._erase(x[seen], labelled.y[seen])(x))
        return self._reported(vm, v, labelled.coverage, {**details, "concept": concept.name})

    def _warn_of_few_words(self, words: int, dim: int) -> None:
        if self.shrinkage or self.orth or words >= FEW_WORDS * dim:
            return
        warnings.warn(
            f"leace learns from {words:,} words in {dim:,} dimensions: the covariance of so few is inaccurate, and the "
            "oblique map may damage other information; use shrinkage=true, orth=true or more words",
            EvenhandWarning,
            stacklevel=3,
        )

    def _erase(self, x: Matrix64, y: Rows) -> LowRank:
        return Statistics(x.shape[1], int(y.max()) + 1).update(x, y).eraser(shrinkage=self.shrinkage, orth=self.orth)


@MITIGATIONS.register("scrubbing")
@dataclass(frozen=True)
class ConceptScrubbing(Mitigation):
    """Erase a concept from what every attention and feed-forward part of a transformer reads.

    Belrose et al. (2023): the layers are processed in order, attention before feed-forward. At each one a LEACE eraser
    is fitted to the vectors of the tokens, which have passed all erasers below, and put in place before the next one
    is fitted. The erasers act on the outputs of the norms (in models that normalise afterwards, on the inputs of the
    linear layers), not on the residual stream and not before the output head. No eraser raises the total variance.

    The label of a token is the group that its sentence mentions, or neutral: the words around a group word carry the
    concept too.

    What it does not do: remove what nonlinear functions find. The residual stream keeps the concept, so a probe on
    hidden states may still find it.

    Args:
        sentences: A text file with a sentence in each line; None: templates filled with the concept's words.
        per_class: Sentences of a class, at most.
        orth: Whether the erasers are orthogonal projections instead of LEACE's oblique ones; None: orthogonal with the
            templates, oblique with a file. A few hundred template sentences say too little about the covariance of
            other text: oblique erasers fitted to them changed the vectors of six other sentences by 120 % of their
            length (all-MiniLM-L6-v2), orthogonal ones by 41 %. Both leave no linear information where they were fitted.
        seed: Seed of the choice among more sentences.
    """

    id: ClassVar[str] = "scrubbing"
    title: ClassVar[str] = "Concept scrubbing"
    formula: ClassVar[str] = "LEACE at the input of every attention and feed-forward part, fitted in order"
    cites: ClassVar[tuple[str, ...]] = ("belrose2023",)
    limits: ClassVar[str] = (
        "Removes linear information from what the layers read; the residual stream and the output head keep it. Needs "
        "a transformer."
    )
    works_on: ClassVar[tuple[Target, ...]] = (TRANSFORMER,)
    elsewhere: ClassVar[str] = "open a model: eh.open('hf:FOLDER'); for word vectors use leace"

    sentences: str | None = None
    per_class: int = 2_000
    orth: bool | None = None
    seed: int = 0

    def _check(self, concept: Concept) -> None:
        require_groups(concept, self.id)
        if self.per_class < 1:
            raise UsageError(f"per_class must be at least 1, got {self.per_class}")

    def _fit_subject(self, subject: Subject, concept: Concept) -> SiteChange:
        from evenhand.mitigations.maps.site_change import SiteChange
        from evenhand.mitigations.site_examples import labelled_sentences
        from evenhand.models.encoders.hooks import install
        from evenhand.models.encoders.sites import Site, count_layers

        chosen = labelled_sentences(concept, self.sentences, most=self.per_class, seed=self.seed)
        texts = [text for group in chosen.classes.values() for text in group]
        y = np.repeat(np.arange(len(chosen.classes)), [len(group) for group in chosen.classes.values()])
        orth = self.sentences is None if self.orth is None else self.orth
        scrubbed = subject.require_network().transformer.share_weights()
        steps: list[tuple[Site, VectorMap]] = []
        for number in range(1, count_layers(scrubbed.model) + 1):
            for site in (Site("attention", number), Site("mlp", number)):
                eraser = _eraser(scrubbed, site, texts, y, orth=orth)
                install(scrubbed.model, site, eraser)
                steps.append((site, eraser))
        report = self._about() | {
            "concept": concept.name,
            "sites": [str(site) for site, _ in steps],
            "rank_removed": [eraser.rank_removed for _, eraser in steps],
            "orthogonal": orth,
            "examples": chosen.report(),
            "when": "test",
        }
        return SiteChange(tuple(steps), report)


def _eraser(transformer: Transformer, site: Site, texts: list[str], y: Rows, *, orth: bool) -> LowRank:
    """Return the LEACE eraser of the tokens at a site, labelled by their sentences."""
    from evenhand.models.encoders.activations import read_tokens
    from evenhand.models.encoders.sites import locate

    statistics = Statistics(locate(transformer.model, site).width, int(y.max()) + 1)

    def keep(sentences: Rows, vectors: Matrix) -> None:
        statistics.update(vectors.astype(np.float64), y[sentences])

    read_tokens(transformer, site, texts, keep)
    return statistics.eraser(orth=orth)
