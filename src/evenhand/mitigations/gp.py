"""Gender-preserving debiasing: an encoder that keeps what feminine and masculine words are, and not stereotypes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from evenhand.arrays import Rows
from evenhand.errors import UsageError, VocabularyError
from evenhand.mitigations.gp_training import train
from evenhand.mitigations.labelled import biased
from evenhand.mitigations.maps import Encoder
from evenhand.mitigations.method import Mitigation, as_concept
from evenhand.mitigations.ran import listed_words
from evenhand.models.vectors import Coverage, Vectors
from evenhand.subspaces.lookup import as_pairs

if TYPE_CHECKING:
    from evenhand.words import Concept

PUBLISHED_PAIRS = "gn-glove-pairs"
PUBLISHED_STEREOTYPES = ("gp-stereotype-female", "gp-stereotype-male")
PUBLISHED_NEUTRAL = "gp-neutral"
CLASSES = ("first", "second", "stereotype", "neutral")
STEREOTYPES_PER_SIDE, NEUTRAL_WORDS = 84, 1031  # the sizes of the published lists


class Lists(NamedTuple):
    """Rows of the four classes of words; those of the first two belong together in pairs."""

    first: Rows
    second: Rows
    stereotype: Rows
    neutral: Rows
    coverage: Coverage


@dataclass(frozen=True)
class GP(Mitigation):
    """tanh(x W + b), the encoder half of an autoencoder that was nudged by four classes of words.

    Kaneko & Bollegala 2019, in three stages: an autoencoder (tanh in and out, dropout) on the whole vocabulary; one
    logistic head for each gender on the frozen encoder; then all together on quadruples of a feminine, a masculine, a
    stereotypical and a neutral word: mean squared reconstruction plus 1e-4 times (both heads tell the feminine and
    the masculine word from the others; the encoded stereotypical and neutral words have no part along the mean
    difference of encoded pairs). After each stage the state with the least loss on held-out words is kept.

    Lists for gender as released (222 pairs of Zhao et al. 2018, 168 stereotypes, 1,031 neutral words; all their rows,
    while the released script loses the first). Other concepts of two groups: their pairs, and the words most and
    least biased along their direction, unless `stereotypes` and `neutral` are given.

    What it does not do: with the published weight of 1e-4 the encoder is an autoencoder's, and clusters and
    classifiers find the concept as before (Dawkins 2021: v-measure 0.996). Components beyond 1 cannot come back from
    a tanh (their share is in the report), and the new vectors have another geometry and scale.
    """

    id: ClassVar[str] = "gp"
    title: ClassVar[str] = "Gender-preserving debiasing (GP)"
    citation: ClassVar[str] = "Kaneko & Bollegala 2019, ACL"
    limits: ClassVar[str] = (
        "Two groups with pairs only. As published it hardly reduces bias; it changes the geometry of all vectors. "
        "Needs torch, and minutes for a large vocabulary."
    )

    pairs: Iterable[Sequence[str]] | None = None
    stereotypes: Iterable[str] | None = None
    neutral: Iterable[str] | None = None
    epochs: int = 314
    """Of the autoencoder, over the whole vocabulary."""
    batch: int = 512
    rate: float = 2e-4
    dropout: float = 0.05
    head_epochs: int = 14
    joint_epochs: int = 5
    joint_rate: float = 0.1
    joint_dropout: float = 0.01
    weight: float = 1e-4
    """Of everything but the reconstruction, in the last stage."""
    held_out: int = 5000
    """Words that only judge the autoencoder; never more than a tenth of the vocabulary."""
    threads: int = 1
    """Of torch: one gives the same bytes on every machine, and layers this small gain little from more."""
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("stereotypes", "neutral"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, tuple(getattr(self, name)))
        if self.pairs is not None:
            object.__setattr__(self, "pairs", as_pairs(self.pairs))

    def fit(self, v: Vectors, concept: Concept | str) -> Encoder:
        """Train in three stages and return the encoder."""
        asked = as_concept(concept)
        counts = (self.epochs, self.batch, self.head_epochs, self.joint_epochs, self.threads)
        if min(counts) < 1 or not (0 <= self.dropout < 1 and 0 <= self.joint_dropout < 1):
            raise UsageError("epochs, batch and threads must be positive, dropout at least 0 and below 1")
        lists = self._lists(v, asked)
        weight, bias, losses = train(v.matrix, lists, self)
        details: dict[str, Any] = {
            "concept": asked.name,
            "sizes": {name: len(getattr(lists, name)) for name in CLASSES},
            "losses": losses,
            "beyond_tanh": float(np.mean(np.abs(v.matrix) > 1)),
        }
        return self._reported(Encoder(weight, bias), v, lists.coverage, details)

    def _lists(self, v: Vectors, concept: Concept) -> Lists:
        pairs = self._pairs(concept)
        spelt = [(v.find(a), v.find(b)) for a, b in pairs]
        kept = [(v.index[a], v.index[b]) for a, b in spelt if a is not None and b is not None]
        _, coverage = v.locate([word for two in pairs for word in two])
        stereotype, neutral, found = self._others(v, concept)
        twos = np.array(kept, dtype=np.int64).reshape(-1, 2)
        lists = Lists(twos[:, 0], twos[:, 1], stereotype, neutral, coverage + found)
        short = [name for name in CLASSES if len(getattr(lists, name)) < 2]
        if short:
            raise VocabularyError(
                f"{v.name} has fewer than two words or pairs of: {', '.join(short)}",
                hint="give pairs=, stereotypes= or neutral= that these vectors have",
            )
        return lists

    def _pairs(self, concept: Concept) -> tuple[tuple[str, str], ...]:
        if len(concept.groups) != 2:
            raise UsageError(
                f"concept {concept.name!r} has {len(concept.groups)} groups; GP has one head for each of two",
                hint="use inlp or leace, which take any number of groups",
            )
        if self.pairs is not None:
            return as_pairs(self.pairs)
        if concept.name == "gender":
            from evenhand.words import pairs

            return tuple(pairs(PUBLISHED_PAIRS))
        if not len(concept.pairs):
            raise UsageError(f"concept {concept.name!r} has no pairs", hint="GP(pairs=[(a, b), ...])")
        return tuple(concept.pairs)

    def _others(self, v: Vectors, concept: Concept) -> tuple[Rows, Rows, Coverage]:
        """Rows of the stereotypical and of the neutral words: as given, as published, or the most and least biased."""
        from evenhand.words import wordset

        given, neutral = self.stereotypes, self.neutral
        if concept.name == "gender":
            given = [w for name in PUBLISHED_STEREOTYPES for w in wordset(name)] if given is None else given
            neutral = wordset(PUBLISHED_NEUTRAL) if neutral is None else neutral
        if given is not None and neutral is not None:
            (first, found), (second, also) = v.locate(given), v.locate(neutral)
            return first, second, found + also
        chosen = biased(
            v,
            concept,
            per_class=STEREOTYPES_PER_SIDE,
            neutral=NEUTRAL_WORDS,
            spared=listed_words(concept),
            seed=self.seed,
        )
        leaning, none = chosen.rows[chosen.y < 2], chosen.rows[chosen.y == 2]
        rows = [part if words is None else v.locate(words)[0] for words, part in ((given, leaning), (neutral, none))]
        return rows[0], rows[1], chosen.coverage
