"""Activation steering: add a direction to what a layer of a language model returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from evenhand.errors import UsageError
from evenhand.mitigations.maps import LowRank
from evenhand.mitigations.method import LANGUAGE_MODEL, Target
from evenhand.mitigations.registry import MITIGATIONS
from evenhand.mitigations.steering.directions import (
    DirectionKind,
    check_source,
    contrast_of,
    learn_direction,
    random_direction,
)
from evenhand.mitigations.vector_method import SiteMethod
from evenhand.models.encoders.sentences import Pooling
from evenhand.subjects import Subject

if TYPE_CHECKING:
    from evenhand.arrays import Vector64
    from evenhand.mitigations.maps.site_change import SiteChange
    from evenhand.models.encoders.sites import Site
    from evenhand.subjects.transformer_subjects import TransformerPart
    from evenhand.words import Concept


def shift(vector: Vector64) -> LowRank:
    """Return the map that adds a vector to every row."""
    return LowRank(np.zeros((len(vector), 0)), np.zeros((0, len(vector))), vector)


@MITIGATIONS.register("steering")
@dataclass(frozen=True)
class Steering(SiteMethod):
    """Add a direction, times a strength, to the activations of every token at a site (Turner et al. 2023).

    The direction is the difference of the mean activations of two sets of texts (Rimsky et al. 2024): sentences that
    differ in a word of the concept's pairs, or a file of contrasting prompts. A strength of 1 moves the mean of the
    second set onto that of the first, a negative one moves away from it. What is due to the direction, and not to any
    change of this size, shows beside `direction="random"`, which adds a random vector of the same length.

    The model is changed wherever it is used: in likelihoods, in what it writes, in chat. Tokens with massive
    activations keep theirs. Saved, the direction is added to a bias where that is exact, and kept beside the weights
    otherwise.

    What it does not do: treat texts differently. The same vector is added whatever the text says, so a bias that
    depends on the context is shifted, not removed.

    Args:
        strength: How often the difference of the means is added; 0 changes nothing.
        prompts: A file with two texts in each line, separated by a tab; the direction points to the first. None: the
            concept's pairs in templates.
        direction: `concept`: as learned; `random`: the control, of the same length.
        pooling: How the tokens of a text are joined.
        most: Pairs of texts, at most.
        seed: Seed of the choice among more pairs, and of the random direction.
    """

    id: ClassVar[str] = "steering"
    title: ClassVar[str] = "Activation steering"
    formula: ClassVar[str] = "h + strength (mean h(first texts) - mean h(second texts))"
    cites: ClassVar[tuple[str, ...]] = ("turner2023", "rimsky2024")
    limits: ClassVar[str] = (
        "Adds the same vector to every text: it shifts what the model prefers everywhere and removes no dependence on "
        "the context. A large strength breaks the language: read it beside perplexity and the random control."
    )
    works_on: ClassVar[tuple[Target, ...]] = (LANGUAGE_MODEL,)
    elsewhere: ClassVar[str] = "open a language model: hf:FOLDER, or a GGUF file"

    strength: float = 1.0
    prompts: str | None = None
    direction: DirectionKind = "concept"
    pooling: Pooling = "mean"
    most: int = 2_000
    seed: int = 0

    @property
    def sites(self) -> tuple[str, ...]:
        """None: whether a constant can be folded depends on the model, and is known once it is fitted."""
        return ()

    def _site_in(self, network: TransformerPart) -> Site:
        from evenhand.models.encoders.sites import count_layers, resolve

        model = network.transformer.model
        return resolve(model, self.site or f"layer:{(count_layers(model) + 1) // 2}")

    def _check(self, concept: Concept) -> None:
        check_source(concept, self.prompts, self.id, self.most)
        if not np.isfinite(self.strength):
            raise UsageError(f"strength must be a number, got {self.strength}")

    def _fit_subject(self, subject: Subject, concept: Concept) -> SiteChange:
        network = subject.require_network()
        site = self._site_in(network)
        contrast = contrast_of(concept, self.prompts, most=self.most, seed=self.seed)
        learned = learn_direction(network.transformer, site, contrast, pooling=self.pooling)
        vector = learned.vector
        if self.direction == "random":
            vector = random_direction(len(vector), float(np.linalg.norm(vector)), self.seed)
        details = {
            "method": self.id,
            "definition": self.definition,
            "params": self.params(),
            "seed": self.seed,
            "concept": concept.name,
            "rank_removed": 0,
            "direction": learned.report(),
            "added_length": float(abs(self.strength) * np.linalg.norm(vector)),
            "examples": contrast.report(),
        }
        return self._at_site(network, site, shift(self.strength * vector), details)
