"""Interaction of two concepts in sentence vectors: names or phrases such as "Black women" in bland sentences."""

from __future__ import annotations

from evenhand.measures.association.interaction import INFO as WORD_INFO
from evenhand.measures.association.interaction import table_layout
from evenhand.measures.call import Call, measure
from evenhand.measures.measurement import Measurement
from evenhand.measures.registry import Info
from evenhand.measures.sentences.encoded_query import TEMPLATE, encode_query
from evenhand.models.encoders.sentences import Pooling, SentenceEncoder
from evenhand.words import Query, Template

INFO = Info(
    id="sentence-interaction",
    title="Interaction of two concepts in sentences",
    takes="query",
    better="zero",
    formula=f"{WORD_INFO.formula}; s of a word is the mean over its sentences",
    reading=WORD_INFO.reading,
    limits=(
        "Bland sentences are not what a model reads in use. Phrases that share an adjective or a noun are not "
        "independent, so that the test over phrases finds too much: read the size and compare it with names. It tests "
        "departure from a sum, not how badly a cell is off."
    ),
    cites=("guo2021", "may2019", "freedman1983"),
    view="sentences",
    arity=(None, 2),
    crossed=True,
    null=0.0,
    definition=3,
)


@measure(INFO)
def sentence_interaction(
    call: Call,
    view: SentenceEncoder,
    query: Query | str,
    *,
    layer: int | None = None,
    pooling: Pooling | None = None,
    template: Template | str = TEMPLATE,
    samples: int = 10_000,
    seed: int = 0,
) -> Measurement:
    """Measure what the cells of an intersection have beyond the sum of their two groups, by sentence vectors.

    The definition is that of `interaction`; the association of a name or phrase is the mean over its sentences.

    Args:
        view: a sentence encoder, or the `sentences` view of a subject.
        query: target sets that are named as the cells of a table ("female x old"), and two attribute sets.
        layer: the layer to read, 0 for the input embedding; the last one by default.
        pooling: how token vectors are joined; the model's own way by default.
        template: a template with the free slot `{word}`.
        samples: permutations of the test.
        seed: seed of the permutations.

    Returns:
        The effect of the first cell, with all cells in `items`.

    What it does not tell you: whether a group is treated badly. See `evenhand show sentence-interaction`.
    """
    encoded = encode_query(view, query, layer=layer, pooling=pooling, template=template, targets=None)
    first, near, far = encoded.sets[0].name, encoded.sets[-2].name, encoded.sets[-1].name
    positive = f"{first} with {near}"
    call.describe(encoded.query, positive=positive, coverage=encoded.coverage, params=encoded.params)
    layout = table_layout(encoded.query)
    call.require(encoded.lists)
    associations = encoded.associations(0)
    scores = {
        group.name: group.word_means(values) for group, values in zip(encoded.sets[:-2], associations, strict=True)
    }
    words = {group.name: group.words for group in encoded.sets[:-2]}
    return layout.measurement(call, scores, words, (near, far), samples=samples, seed=seed)
