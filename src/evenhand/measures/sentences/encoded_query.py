"""A query as sentences: the sentences of each set, the words they are about, and their vectors."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evenhand import data
from evenhand.arrays import Matrix64, Rows, Vector64, unit_rows
from evenhand.errors import FormatError, UsageError
from evenhand.measures.association.located_query import ROUNDING, require_distinct_means
from evenhand.measures.association.weat import association, effect_size_interval
from evenhand.measures.call import ListCoverage, coverage_problem
from evenhand.models.encoders.sentences import Pooling, SentenceEncoder, layer_number, unknown_words
from evenhand.models.vectors import Coverage
from evenhand.stats.bootstrap import Interval
from evenhand.words import Query, SentenceQuery, Template, WordSet
from evenhand.words import query as find_query
from evenhand.words import template as find_template

TEMPLATE = "bland-sentences"
SLOT = "word"
TOKEN = re.compile(r"\w+")
ROLES = ("targ1", "targ2", "attr1", "attr2")  # the sets of a published test
SEAT = "seat"  # the data set
# Concepts of the published tests, by the part of their name after "sent-"; the others are controls.
CONCEPTS = {
    **dict.fromkeys(("weat6", "weat6b", "weat7", "weat7b", "weat8", "weat8b"), "gender"),
    **dict.fromkeys(("weat3", "weat3b", "weat4", "weat5", "weat5b"), "race"),
    "weat10": "age",
    "angry_black_woman_stereotype": "race",
    "angry_black_woman_stereotype_b": "race",
    "heilman_double_bind_competent_one_word": "gender",
    "heilman_double_bind_likable_one_word": "gender",
}


def published_ids() -> tuple[str, ...]:
    """Return the ids of the published sentence tests on this disk, in the order of their numbers."""
    folder = data.locate(SEAT)
    names = [path.stem for path in folder.glob("sent-*.jsonl")] if folder else []
    return tuple(sorted(names, key=lambda name: (len(name.rstrip("b")), name)))


def published_query(id: str) -> SentenceQuery | None:
    """Return a published sentence test by the name of its file, such as sent-weat6; None where there is none."""
    folder = data.locate(SEAT) if id.startswith("sent-") else None
    path = folder / f"{id}.jsonl" if folder and Path(id).name == id else None
    return read_test(path) if path is not None and path.is_file() else None


def read_test(path: Path) -> SentenceQuery:
    """Read a test of May et al. (2019). The words of its sentences are those of the word test beside it."""
    name = path.stem.removeprefix("sent-")
    sets = _read_sets(path)
    beside = path.with_name(f"{name}.jsonl")
    words = _read_sets(beside) if name != path.stem and beside.is_file() else sets
    word_of: dict[str, str] = {}
    for (_, sentences), (_, listed) in zip(sets, words, strict=True):
        word_of |= _owners(sentences, listed)
    named = [WordSet(category, sentences) for category, sentences in sets]
    query = Query(
        path.stem, {group.name: group for group in named[:2]}, {group.name: group for group in named[2:]},
        concept=CONCEPTS.get(name, ""),
    )  # fmt: skip
    return SentenceQuery(query, word_of)


def _read_sets(path: Path) -> list[tuple[str, list[str]]]:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        sets = [(str(record[role]["category"]), [str(item) for item in record[role]["examples"]]) for role in ROLES]
        if empty := [category for category, examples in sets if not examples]:
            raise ValueError(f"{empty[0]} has no examples")
        return sets
    except (ValueError, KeyError, TypeError, OSError, RecursionError) as error:
        raise FormatError(
            f"{path} is not a sentence test: it needs {', '.join(ROLES)} with category and examples",
            hint="fetch the data set again",
        ) from error


def _owners(sentences: Sequence[str], words: Sequence[str]) -> dict[str, str]:
    """Return the word that each sentence is about.

    A sentence holds its word, perhaps as a plural. Sentences of a word follow each other, so that one which spells it
    in another way (women for woman) belongs to the word before.
    """
    owners: dict[str, str] = {}
    last = words[0]
    by_length = sorted(words, key=len, reverse=True)
    for sentence in sentences:
        text = f" {sentence.lower()}"
        last = next((word for word in by_length if f" {word.lower()}" in text), last)
        owners[sentence] = last
    return owners


@dataclass(frozen=True, eq=False)
class SentenceSet:
    """The sentences of one set, and the number of the word that each is about."""

    name: str
    words: tuple[str, ...]
    sentences: tuple[str, ...]
    owners: Rows

    @property
    def sentence_words(self) -> list[str]:
        """The word that each sentence is about."""
        return [self.words[number] for number in self.owners.tolist()]

    def word_means(self, values: Vector64) -> Vector64:
        """Return the mean over the sentences of each word."""
        counts = np.bincount(self.owners, minlength=len(self.words))
        return np.asarray(np.bincount(self.owners, weights=values, minlength=len(self.words)) / counts)


@dataclass(frozen=True, eq=False)
class EncodedQuery:
    """A query with its target sets and two attribute sets as sentences, with unit vectors by layer.

    Attributes:
        layers: the layers that were read.
        vectors: unit vectors of the sentences of each set, (layers, sentences, dimensions).
        params: template, layer and pooling, for records.
    """

    query: Query
    sets: tuple[SentenceSet, ...]
    layers: tuple[int, ...]
    vectors: tuple[Matrix64, ...]
    coverage: Coverage
    lists: tuple[ListCoverage, ...]
    params: Mapping[str, object]

    def associations(self, layer: int) -> tuple[Vector64, ...]:
        """Return s of the sentences of each target set at a layer (by its place in `layers`).

        Raises:
            DegenerateError: If the attribute sets, or all target sets, have the same mean.
        """
        *targets, a, b = (vectors[layer] for vectors in self.vectors)
        names = [group.name for group in self.sets]
        require_distinct_means(names[-2:], (a, b))
        if len(targets) > 1:
            require_distinct_means(names[:-2], targets)
        return tuple(association(rows, a, b) for rows in targets)


@dataclass(frozen=True, eq=False)
class SentenceEffect:
    """Effect size over sentences, with the associations of words, over which it is tested."""

    value: float
    interval: Interval
    first: Vector64
    second: Vector64
    deviation: float


def sentence_effect(sets: Sequence[SentenceSet], associations: Sequence[Vector64], ddof: int) -> SentenceEffect | None:
    """Return the effect size of the two target sets; None where the associations do not vary.

    The standard deviation is over sentences, as in May et al. (2019). The interval is that of WEAT over the words'
    mean associations, in units of the same deviation: sentences of one word are not independent. Where words have
    different numbers of sentences, the two means differ, and the interval is moved by their difference.
    """
    s_x, s_y = associations
    pooled = np.concatenate([s_x, s_y])
    deviation = float(pooled.std(ddof=ddof)) if len(pooled) > ddof else 0.0
    if deviation <= ROUNDING:
        return None
    first, second = (group.word_means(values) for group, values in zip(sets[:2], associations, strict=True))
    by_word = effect_size_interval(first, second)
    scale = float(np.concatenate([first, second]).std()) / deviation
    value = float(s_x.mean() - s_y.mean()) / deviation
    offset = value - float(first.mean() - second.mean()) / deviation
    interval = (by_word[0] * scale + offset, by_word[1] * scale + offset) if by_word else None
    return SentenceEffect(value, interval, first, second, deviation)


def encode_query(
    view: SentenceEncoder,
    query: Query | str,
    *,
    layer: int | None = None,
    all_layers: bool = False,
    pooling: Pooling | None = None,
    template: Template | str = TEMPLATE,
    targets: int | None = 2,
) -> EncodedQuery:
    """Encode the sentences of a query, each once.

    Args:
        view: the encoder.
        query: a word query, whose words the template turns into sentences, or a `SentenceQuery`.
        layer: the layer to read; the last one by default.
        all_layers: read every layer, from one pass.
        pooling: how token vectors are joined; the view's own way by default.
        template: a template with the one free slot `{word}`.
        targets: number of target sets that the measure needs; None for any number.
    """
    resolved = (published_query(query) if isinstance(query, str) else None) or find_query(query)
    if resolved.arity[1] != 2 or targets not in (None, resolved.arity[0]):
        several = resolved.arity[1] == 2 and resolved.arity[0] > 2
        raise UsageError(
            f"this measure needs {targets or 'any number of'} target and 2 attribute sets, {resolved.name!r} has "
            f"{resolved.arity}",
            hint="compare every two of them: measures.pairwise(encoder, measure, query)"
            if several
            else "give a query with targets=(words, other_words) and attributes=(words, other_words)",
        )
    frame = find_template(template)
    sets, coverages, lists = [], [], []
    for group in (*resolved.targets, *resolved.attributes):
        sentences, coverage = _sentences(view, resolved, group, frame)
        sets.append(sentences)
        coverages.append(coverage)
        lists.append(ListCoverage.of_words(group.name, coverage))
    numbers = tuple(range(view.layers + 1)) if all_layers else (layer_number(layer, view.layers),)
    params: dict[str, object] = {"pooling": pooling or view.pooling}
    params |= {} if all_layers else {"layer": numbers[0]}
    params |= {"sentences": "given"} if isinstance(resolved, SentenceQuery) else {"template": frame.name}
    texts = list(dict.fromkeys(text for group in sets for text in group.sentences))
    vectors: tuple[Matrix64, ...] = ()
    if texts and not coverage_problem(lists):
        encoded = (
            view.encode_layers(texts, pooling=pooling)
            if all_layers
            else view.encode(texts, layer=layer, pooling=pooling)[None]
        )
        unit = np.stack([unit_rows(matrix) for matrix in encoded])
        index = {text: row for row, text in enumerate(texts)}
        vectors = tuple(unit[:, [index[text] for text in group.sentences]] for group in sets)
    coverage = sum(coverages, Coverage(()))
    sets = [*linked_sets(sets[: resolved.arity[0]]), *sets[resolved.arity[0] :]]
    return EncodedQuery(resolved, tuple(sets), numbers, vectors, coverage, tuple(lists), params)


def linked_sets(targets: Sequence[SentenceSet]) -> list[SentenceSet]:
    """Return the target sets with phrases that share a word of their own set as one unit.

    "white woman" and "white girl" are not two independent observations: an encoder that knows nothing of groups may
    still prefer "white" to "black", and does so in all phrases with these words. A word that every set has, such as
    "woman", distinguishes no set and links nothing.
    """
    tokens = [[set(TOKEN.findall(word.lower())) for word in group.words] for group in targets]
    of_set = [set().union(*words) for words in tokens]
    linked = []
    for place, (group, words) in enumerate(zip(targets, tokens, strict=True)):
        elsewhere = set().union(*(other for number, other in enumerate(of_set) if number != place))
        units = _components([own - elsewhere for own in words])
        names: dict[int, list[str]] = {}
        for word, unit in zip(group.words, units, strict=True):
            names.setdefault(unit, []).append(word)
        owners = np.array([units[owner] for owner in group.owners.tolist()], dtype=np.int64)
        linked.append(SentenceSet(group.name, tuple(map(" / ".join, names.values())), group.sentences, owners))
    return linked


def _components(parts: Sequence[set[str]]) -> list[int]:
    """Number sets so that those with a common element, directly or through others, have the same number.

    >>> _components([{"white"}, {"white", "girl"}, {"fair"}, set()])
    [0, 0, 1, 2]
    """
    numbers = list(range(len(parts)))
    for row, part in enumerate(parts):
        for before in range(row):
            if part & parts[before]:
                numbers = [numbers[before] if number == numbers[row] else number for number in numbers]
    order: dict[int, int] = {}
    return [order.setdefault(number, len(order)) for number in numbers]


def _sentences(view: SentenceEncoder, query: Query, group: WordSet, template: Template) -> tuple[SentenceSet, Coverage]:
    """Return the sentences of one set, without those of words that the encoder cannot read."""
    if isinstance(query, SentenceQuery):
        pairs = [(query.word_of.get(sentence, sentence), sentence) for sentence in dict.fromkeys(group)]
    else:
        if template.free != (SLOT,):
            raise UsageError(
                f"the template {template.name!r} must have the one free slot {{{SLOT}}}, has {list(template.free)}"
            )
        pairs = [(word, sentence) for word in dict.fromkeys(group) for sentence in template.expand(word=word)]
    words = list(dict.fromkeys(word for word, _ in pairs))
    unknown = {word for word, lost in zip(words, unknown_words(view, words), strict=True) if lost}
    known = [word for word in words if word not in unknown]
    kept = [(word, sentence) for word, sentence in pairs if word not in unknown]
    number = {word: row for row, word in enumerate(known)}
    owners = np.array([number[word] for word, _ in kept], dtype=np.int64)
    coverage = Coverage(tuple(known), tuple(word for word in words if word in unknown))
    return SentenceSet(group.name, tuple(known), tuple(sentence for _, sentence in kept), owners), coverage
