"""Activation steering adds a direction inside a language model; directional ablation removes it everywhere.

The direction is the difference of the mean activations of two sets of texts, or a random one as the control.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from evenhand.arrays import Matrix, Matrix64, Rows, Vector64
from evenhand.errors import DegenerateError, FormatError, UsageError, require
from evenhand.mitigations.maps import LowRank, SoftProjection
from evenhand.mitigations.method import LANGUAGE_MODEL, Target, require_pairs
from evenhand.mitigations.registry import MITIGATIONS
from evenhand.mitigations.site_examples import massive_activations, read_sentences, sampled, swapped_sentences
from evenhand.mitigations.vector_method import SiteMethod
from evenhand.models.encoders.sentences import Pooling
from evenhand.subjects import Subject

if TYPE_CHECKING:
    from evenhand.mitigations.maps.site_change import SiteChange
    from evenhand.models.encoders.sites import Site
    from evenhand.models.encoders.transformer import Transformer
    from evenhand.subjects.transformer_subjects import TransformerPart
    from evenhand.words import Concept

LEFT = {"float64": 1e-8, "float32": 1e-4, "bfloat16": 0.05, "float16": 0.01}  # of a vector's length, by number format
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
    return TextContrast(sampled(found, most, np.random.default_rng(seed)), Path(prompts).name)


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


def shift(vector: Vector64) -> LowRank:
    """Return the map that adds a vector to every row."""
    return LowRank(np.zeros((len(vector), 0)), np.zeros((0, len(vector))), vector)


@dataclass(frozen=True, kw_only=True)
class DirectionMethod(SiteMethod):
    """A method that learns a direction of a language model from two sets of texts.

    Args:
        prompts: A file with two texts in each line, separated by a tab; the direction points to the first. None: the
            concept's pairs in templates.
        direction: `concept`: as learned; `random`: the control, of the same length.
        pooling: How the tokens of a text are joined.
        most: Pairs of texts, at most.
        seed: Seed of the choice among more pairs, and of the random direction.
    """

    works_on: ClassVar[tuple[Target, ...]] = (LANGUAGE_MODEL,)

    prompts: str | None = None
    direction: DirectionKind = "concept"
    pooling: Pooling = "mean"
    most: int = 2_000
    seed: int = 0

    @property
    def sites(self) -> tuple[str, ...]:
        """None: what can be folded depends on the model, and is known once the method is fitted."""
        return ()

    def _site_in(self, network: TransformerPart) -> Site:
        from evenhand.models.encoders.sites import count_layers, resolve

        model = network.transformer.model
        return resolve(model, self.site or f"layer:{(count_layers(model) + 1) // 2}")

    def _check(self, concept: Concept) -> None:
        if self.most < 1:
            raise UsageError(f"most must be at least 1, got {self.most}")
        if self.prompts is None:
            hint = "add pairs=[(a, b), ...] to the concept, or give a file: `prompts=`"
            require_pairs(concept, self.id, hint=hint)

    def _learned(self, transformer: Transformer, site: Site, concept: Concept) -> tuple[Vector64, dict[str, object]]:
        """Return the direction, or a random one of the same length, and what a report says of the fit."""
        contrast = contrast_of(concept, self.prompts, most=self.most, seed=self.seed)
        learned = learn_direction(transformer, site, contrast, pooling=self.pooling)
        vector = learned.vector
        if self.direction == "random":
            vector = random_direction(len(vector), float(np.linalg.norm(vector)), self.seed)
        report = {"concept": concept.name, "direction": learned.report(), "examples": contrast.report()}
        return vector, self._about() | report


@MITIGATIONS.register("steering")
@dataclass(frozen=True)
class Steering(DirectionMethod):
    """Add a direction, times a strength, to the activations of every token at a site (Turner et al. 2023).

    The direction is the difference of the mean activations of two sets of texts (Rimsky et al. 2024): sentences that
    differ in a word of the concept's pairs, or a file of contrasting prompts. A strength of 1 moves the mean of the
    second set onto that of the first, a negative one moves away from it. What is due to the direction, and not to any
    change of this size, shows beside `direction="random"`, which adds a random vector of the same length.

    The model is changed wherever it is used: in likelihoods, in what it writes, in chat. Tokens with massive
    activations keep theirs, and do not count in the means. Saved, the direction is added to a bias where that is exact,
    and kept beside the weights otherwise.

    What it does not do: treat texts differently. The same vector is added whatever the text says, so a bias that
    depends on the context is shifted, not removed.

    Args:
        strength: How often the difference of the means is added; 0 changes nothing.
    """

    id: ClassVar[str] = "steering"
    title: ClassVar[str] = "Activation steering"
    formula: ClassVar[str] = "h + strength (mean h(first texts) - mean h(second texts))"
    cites: ClassVar[tuple[str, ...]] = ("turner2023", "rimsky2024")
    limits: ClassVar[str] = (
        "Adds the same vector to every text: it shifts what the model prefers everywhere and removes no dependence on "
        "the context. A large strength breaks the language: read it beside perplexity and the random control."
    )
    elsewhere: ClassVar[str] = "open a language model: hf:FOLDER, or a GGUF file"

    strength: float = 1.0

    def _check(self, concept: Concept) -> None:
        super()._check(concept)
        if not np.isfinite(self.strength):
            raise UsageError(f"strength must be a number, got {self.strength}")

    def _fit_subject(self, subject: Subject, concept: Concept) -> SiteChange:
        network = subject.require_network()
        site = self._site_in(network)
        vector, details = self._learned(network.transformer, site, concept)
        details |= {"rank_removed": 0, "added_length": float(abs(self.strength) * np.linalg.norm(vector))}
        return self._at_site(network, site, shift(self.strength * vector), details)


@MITIGATIONS.register("directional-ablation")
@dataclass(frozen=True)
class DirectionalAblation(DirectionMethod):
    """Remove one direction from all that is written to the residual stream (Arditi et al. 2024).

    The direction is the difference of the mean activations of two sets of texts at a site. It is then removed from
    the word table, from the table of positions, and from what every attention and feed-forward part writes. In a model
    that normalises first, no layer can read or write it any more. This is the same as a change of weights, so the
    saved model needs no hook.

    A model that normalises after it adds (BERT) writes the direction again by its norms: there it is removed from the
    word table and from the output of every layer, which only hooks can do. The report says which of both was done.

    What it does not do: remove the concept from other directions, in which it may be written as well.
    """

    id: ClassVar[str] = "directional-ablation"
    title: ClassVar[str] = "Directional ablation"
    formula: ClassVar[str] = "W - r r'W for every W that writes to the residual stream, r the unit direction"
    cites: ClassVar[tuple[str, ...]] = ("arditi2024",)
    limits: ClassVar[str] = (
        "Removes one direction of a concept that may have many, and whatever else the model keeps there. Exact in "
        "models that normalise before each part; in others by hooks at the outputs of the layers."
    )
    elsewhere: ClassVar[str] = "open a language model: hf:FOLDER, or a GGUF file; for word vectors use linear"

    def _fit_subject(self, subject: Subject, concept: Concept) -> SiteChange:
        from evenhand.mitigations.maps.site_change import SiteChange
        from evenhand.models.encoders.sites import Site, locate

        network = subject.require_network()
        transformer, site = network.transformer, self._site_in(network)
        width = locate(transformer.model, Site("embeddings")).width
        vector, details = self._learned(transformer, site, concept)
        if len(vector) != width:
            raise DegenerateError(
                f"{transformer.name}: its word table has {width} coordinates and its layers {len(vector)}, so no "
                "direction is common to both"
            )
        unit = vector / np.linalg.norm(vector)
        written = _writing_sites(transformer)
        exact = bool(written) and keeps_out(transformer, unit, written)
        sites = written if exact else _outputs(transformer)
        projection = SoftProjection(unit[None])
        report = details | {
            "learned_at": str(site),
            "sites": [str(one) for one in sites],
            "rank_removed": 1,
            "everywhere": exact,
            "when": "test",
        }
        return SiteChange(tuple((one, projection) for one in sites), report)


def _writing_sites(transformer: Transformer) -> list[Site]:
    """Return every site that writes to the residual stream; empty if the structure of the model is not known."""
    from evenhand.models.encoders.sites import Site, count_layers, locate

    found = [Site("embeddings")]
    try:
        locate(transformer.model, Site("positions"))
        found.append(Site("positions"))
    except UsageError:
        pass  # positions enter attention only
    try:
        for number in range(1, count_layers(transformer.model) + 1):
            for kind in ("attention-out", "mlp-out"):
                site = Site.parse(f"{kind}:{number}")
                if locate(transformer.model, site).call:
                    return []
                found.append(site)
    except FormatError:
        return []
    return found


def _outputs(transformer: Transformer) -> list[Site]:
    from evenhand.models.encoders.sites import Site, count_layers

    layers = range(1, count_layers(transformer.model) + 1)
    return [Site("embeddings"), *(Site("layer", number) for number in layers)]


def keeps_out(transformer: Transformer, unit: Vector64, sites: list[Site]) -> bool:
    """Return whether a direction that is removed at sites is absent from the output of every layer but the last."""
    torch = require("torch", extra="models")
    from evenhand.models.encoders.activations import sentences_at
    from evenhand.models.encoders.hooks import install
    from evenhand.models.encoders.sites import Site, count_layers

    copy = transformer.share_weights()
    for site in sites:
        install(copy.model, site, SoftProjection(unit[None]))
    texts = ["The letter was on the table.", "They walked along the river in winter."]
    with torch.no_grad():
        states = [
            sentences_at(copy, Site("layer", number), texts, pooling="last").astype(np.float64)
            for number in range(1, count_layers(copy.model))  # the last one is normalised
        ]
    if not states:
        return True
    shares = [np.abs(rows @ unit) / np.linalg.norm(rows, axis=1) for rows in states]
    return bool(np.max(shares) < LEFT.get(transformer.precision, 1e-4))
