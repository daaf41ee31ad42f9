"""SentenceDebias: remove the directions in which sentences move when a word of a pair is swapped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from evenhand.arrays import unit_rows
from evenhand.errors import UsageError
from evenhand.mitigations.maps import SoftProjection
from evenhand.mitigations.method import TRANSFORMER, Target, require_pairs
from evenhand.mitigations.registry import MITIGATIONS
from evenhand.mitigations.vector_method import SiteMethod
from evenhand.models.encoders.sentences import Pooling
from evenhand.models.vectors import Coverage, Vectors
from evenhand.subjects import Subject
from evenhand.subspaces.subspace import principal

if TYPE_CHECKING:
    from evenhand.mitigations.maps.site_change import SiteChange
    from evenhand.words import Concept


@MITIGATIONS.register("sentence-debias")
@dataclass(frozen=True)
class SentenceDebias(SiteMethod):
    """Remove the first principal components of sentence pairs that differ in one word of the concept's pairs.

    Liang et al. (2020): take sentences with a word of a pair, swap the word, encode both sentences (mean over the
    tokens, unit length), subtract the mean of each pair, and compute the principal components of all rows. The first k
    are removed from every token vector at the site, which is the output of the last layer unless another is named.

    The paper uses natural sentences of several corpora, and Meade et al. (2022) sentences of Wikipedia: give a file of
    sentences. Without one, sentences are made from templates, which vary less.

    What it does not do: change what earlier layers compute. Measures that use the output head of a language model see
    the change only because the head reads the last layer.

    Args:
        k: Number of directions.
        sentences: A text file with a sentence in each line; None: templates.
        most: Sentence pairs, at most.
        pooling: How the token vectors of a sentence are joined.
        seed: Seed of the choice among more pairs than `most`.
    """

    id: ClassVar[str] = "sentence-debias"
    title: ClassVar[str] = "SentenceDebias"
    formula: ClassVar[str] = "h - V V'h, V the first principal components of sentences minus the mean of their pair"
    cites: ClassVar[tuple[str, ...]] = ("liang2020",)
    limits: ClassVar[str] = (
        "Removes directions that are common to the sentences it saw; other directions stay. Needs pairs of "
        "counterparts and a transformer."
    )
    works_on: ClassVar[tuple[Target, ...]] = (TRANSFORMER,)
    elsewhere: ClassVar[str] = "open a model: eh.open('hf:FOLDER'); for word vectors use span or linear"
    default_site: ClassVar[str] = "layer:-1"

    k: int = 1
    sentences: str | None = None
    most: int = 10_000
    pooling: Pooling = "mean"
    seed: int = 0

    def _check(self, concept: Concept) -> None:
        require_pairs(concept, self.id)
        if self.k < 1 or self.most < 2:
            raise UsageError(f"k must be at least 1 and most at least 2, got {self.k} and {self.most}")

    def _fit_subject(self, subject: Subject, concept: Concept) -> SiteChange:
        from evenhand.mitigations.site_examples import swapped_sentences
        from evenhand.models.encoders.activations import sentences_at

        network = subject.require_network()
        site = self._site_in(network)
        pairs, source = swapped_sentences(concept, self.sentences, most=self.most, seed=self.seed)
        texts = tuple(dict.fromkeys(text for pair in pairs for text in pair))
        matrix = sentences_at(network.transformer, site, texts, pooling=self.pooling)
        row_of = {text: row for row, text in enumerate(texts)}
        indices = np.array([[row_of[text] for text in pair] for pair in pairs])
        unit = unit_rows(matrix.astype(np.float64))[indices]
        rows = (unit - unit.mean(axis=1, keepdims=True)).reshape(-1, matrix.shape[1])
        learned = principal(rows - rows.mean(axis=0), k=self.k, how="sentence-pairs", params={"concept": concept.name})
        vectors = Vectors(texts, matrix, name=f"{subject.name} at {site}", case="exact")
        details = {"concept": concept.name, "subspace": learned.to_dict(basis=False)}
        vm = self._reported(SoftProjection(learned.basis), vectors, Coverage(()), details)
        return self._at_site(network, site, vm, {"examples": {"source": source, "sentence_pairs": len(pairs)}})
