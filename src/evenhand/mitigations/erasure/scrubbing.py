"""Concept scrubbing: a LEACE eraser before every attention and feed-forward part, layer by layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from evenhand.arrays import Matrix, Rows
from evenhand.errors import UsageError
from evenhand.mitigations.erasure.leace import Statistics
from evenhand.mitigations.maps import LowRank, VectorMap
from evenhand.mitigations.method import Mitigation, require_groups
from evenhand.mitigations.registry import MITIGATIONS
from evenhand.models.vectors import Vectors
from evenhand.subjects import Subject
from evenhand.subjects.transformer_subject import TransformerSubject

if TYPE_CHECKING:
    from evenhand.mitigations.site_change import SiteChange
    from evenhand.models.encoders.sites import Site
    from evenhand.models.encoders.transformer import Transformer
    from evenhand.words import Concept


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
    view: ClassVar[str] = "sentences"

    sentences: str | None = None
    per_class: int = 2_000
    orth: bool | None = None
    seed: int = 0

    def _check(self, concept: Concept) -> None:
        require_groups(concept, self.id)
        if self.per_class < 1:
            raise UsageError(f"per_class must be at least 1, got {self.per_class}")
        if self.site is not None:
            raise UsageError(
                f"{self.id} acts at every layer, so site={self.site!r} does not apply", hint="use leace at one site"
            )

    def _fit(self, v: Vectors, concept: Concept) -> VectorMap:
        raise UsageError(
            f"{self.id} erases a concept from the layers of a transformer, and {v.name} are word vectors",
            hint="open a model: eh.open('hf:FOLDER'); for word vectors use leace",
        )

    def _fit_subject(self, subject: Subject, concept: Concept | None) -> VectorMap | SiteChange:
        from evenhand.mitigations.site_change import SiteChange
        from evenhand.mitigations.site_examples import labelled_sentences
        from evenhand.models.encoders.hooks import install
        from evenhand.models.encoders.sites import Site, count_layers

        if concept is None or not (isinstance(subject, TransformerSubject) and subject.can_change):
            return super()._fit_subject(subject, concept)
        chosen = labelled_sentences(concept, self.sentences, most=self.per_class, seed=self.seed)
        texts = [text for group in chosen.classes.values() for text in group]
        y = np.repeat(np.arange(len(chosen.classes)), [len(group) for group in chosen.classes.values()])
        orth = self.sentences is None if self.orth is None else self.orth
        scrubbed = subject.transformer.share_weights()
        steps: list[tuple[Site, VectorMap]] = []
        for number in range(1, count_layers(scrubbed.model) + 1):
            for site in (Site("attention", number), Site("mlp", number)):
                eraser = _eraser(scrubbed, site, texts, y, orth=orth)
                install(scrubbed.model, site, eraser)
                steps.append((site, eraser))
        report = {
            "method": self.id,
            "definition": self.definition,
            "params": self.params(),
            "seed": self.seed,
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
    return statistics.eraser(orth=orth, keep_trace=True)
