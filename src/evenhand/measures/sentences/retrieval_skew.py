"""Retrieval skew: does a query that names nobody find one group's texts before another's?"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evenhand import data
from evenhand.arrays import Matrix64, Vector64, unit_rows
from evenhand.errors import FormatError, UsageError
from evenhand.measures.call import Call, measure
from evenhand.measures.groups import Contrast, against_others, contrasts, group_word_p, means_by
from evenhand.measures.measurement import MOST, Measurement
from evenhand.measures.registry import Info
from evenhand.models.encoders.sentences import Pooling, SentenceEncoder, layer_number
from evenhand.stats import clustered_interval
from evenhand.stats.units import mean_units
from evenhand.words import Concept, as_concept
from evenhand.words import pairs as find_pairs
from evenhand.words.persons import persons

TOPICS = "retrieval-topics"
GREP = "grep-biasir"
VERSIONS = {"F": "female", "M": "male"}  # of a document of Grep-BiasIR


INFO = Info(
    id="retrieval-skew",
    title="Retrieval skew",
    takes="dataset",
    better="zero",
    formula="difference = mean cos(q, d_1) - cos(q, d_2);  advantage = P(d_1 ranks higher) - P(d_2 ranks higher)",
    reading=(
        "Above 0: texts about the first group are nearer to queries that name nobody. The advantage runs from -1 to 1; "
        "0.2 means that the first group's text ranks higher in 60 % of the comparisons."
    ),
    limits=(
        "Texts of a pair differ in the group word, which also differs in frequency and in the number of tokens. A mean "
        "over topics hides opposite leanings: see the items."
    ),
    cites=("krieg2023",),
    queries=(TOPICS,),
    view="sentences",
    data=(GREP,),
    query_concepts={GREP: "gender"},
    null=0.0,
    definition=2,
    plain=2,
)


@dataclass(frozen=True, eq=False)
class RetrievalCases:
    """Queries with one text for each group.

    Attributes:
        groups: the groups, the positive one first.
        queries: the query of each case.
        texts: for each case, the text of each group.
        rows: what else the cases share, such as the phrase that names the person; empty where nothing.
        kinds: a class of each case, for the details.
        incomplete: number of cases that lack the text of some group.
    """

    name: str
    groups: tuple[str, ...]
    queries: tuple[str, ...]
    texts: tuple[tuple[str, ...], ...]
    rows: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    incomplete: int = 0


@measure(INFO)
def retrieval_skew(
    call: Call,
    view: SentenceEncoder,
    queries: str | Path = TOPICS,
    *,
    concept: Concept | str = "gender",
    layer: int | None = None,
    pooling: Pooling | None = None,
    seed: int = 0,
) -> tuple[Measurement, ...]:
    """Compare how near a query is to texts that differ in the group only.

    Args:
        view: a sentence encoder, or the `sentences` view of a subject.
        queries: `retrieval-topics` for the topics that come with evenhand, a word file with pairs of a query and a
            predicate, or `grep-biasir`, where that data set is on this disk.
        concept: whose groups are compared.
        layer: the layer to read; the last one by default.
        pooling: how token vectors are joined; the model's own way by default.
        seed: recorded only; nothing is drawn at random.

    Returns:
        The mean difference of cosines and the advantage, for each contrast of groups. Intervals resample queries, and
        phrases where cases share them. The p-values exchange the groups of the words in which the texts differ.
    """
    concept = as_concept(concept)
    cases = grep_cases(concept) if str(queries) == GREP else topic_cases(str(queries), concept)
    took_effect = {"layer": layer_number(layer, view.layers), "pooling": pooling or view.pooling}
    compared = contrasts(cases.groups)
    scores = [contrast.name(score) for contrast in compared for score in ("difference", "advantage")]
    call.describe(cases.name, scores=scores, params=took_effect)
    cosines = _cosines(view, cases, layer, pooling)
    return tuple(measurement for contrast in compared for measurement in _measurements(call, cases, cosines, contrast))


def _measurements(call: Call, cases: RetrievalCases, cosines: Matrix64, contrast: Contrast) -> Iterable[Measurement]:
    by_group = against_others(cosines)
    wins = np.sign(cosines[:, :, None] - cosines[:, None]).sum(axis=2) / (cosines.shape[1] - 1)
    differences, advantages = by_group[:, contrast.first], wins[:, contrast.first]
    clusters = {"query": cases.queries} | ({"phrase": cases.rows} if cases.rows else {})
    kinds = {kind: float(differences[[k == kind for k in cases.kinds]].mean()) for kind in sorted(set(cases.kinds))}
    share = (float(advantages.mean()) + 1) / 2
    details: dict[str, object] = {
        "queries": len(set(cases.queries)), "incomplete": cases.incomplete, "share_first": share,
        **({"by_kind": kinds} if kinds else {}),
    }  # fmt: skip
    nearer = contrast.group if differences.mean() >= 0 else contrast.against
    yield call.measurement(
        float(differences.mean()), len(differences), positive=contrast.group, details=details,
        score=contrast.name("difference"), interval=clustered_interval(differences, list(clusters.values())),
        p_value=group_word_p(cases.texts, by_group, contrast, [cases.queries]),
        units=tuple(mean_units(kind, labels, differences) for kind, labels in clusters.items()),
        reading=f"queries are nearer to texts about {nearer}", items=_items(cases.queries, differences),
    )  # fmt: skip
    yield call.measurement(
        float(advantages.mean()), len(advantages), positive=contrast.group, details=details,
        score=contrast.name("advantage"),
        interval=clustered_interval(advantages, list(clusters.values()), limits=(-1.0, 1.0)),
        p_value=group_word_p(cases.texts, wins, contrast, [cases.queries]),
        units=tuple(mean_units(kind, labels, advantages) for kind, labels in clusters.items()),
        reading=f"the text about {contrast.group} ranks above that about {contrast.against} in {100 * share:.0f} % of "
        "the comparisons",
    )  # fmt: skip


def _items(queries: tuple[str, ...], differences: Vector64) -> tuple[dict[str, object], ...]:
    """Return the mean difference of each query, the largest first."""
    means = sorted(means_by(queries, differences.tolist()).items(), key=lambda item: -item[1])
    return tuple({"word": query, "value": value} for query, value in means[:MOST])


def _cosines(view: SentenceEncoder, cases: RetrievalCases, layer: int | None, pooling: Pooling | None) -> Matrix64:
    """Return the cosine of each case's query with the text of each group, (cases, groups)."""
    texts = list(dict.fromkeys([*cases.queries, *(text for row in cases.texts for text in row)]))
    unit = unit_rows(view.encode(texts, layer=layer, pooling=pooling))
    index = {text: row for row, text in enumerate(texts)}
    queries = unit[[index[query] for query in cases.queries]]
    columns = [unit[[index[row[group]] for row in cases.texts]] for group in range(len(cases.groups))]
    return np.stack([np.einsum("ij,ij->i", queries, column) for column in columns], axis=1)


def topic_cases(name: str, concept: Concept) -> RetrievalCases:
    """Return every topic with every row of phrases of the concept."""
    topics, people = find_pairs(name), persons(concept)
    queries, texts, rows = [], [], []
    for query, predicate in topics:
        for row in people.rows:
            queries.append(query)
            rows.append(row[0])
            texts.append(tuple(f"{phrase[:1].upper()}{phrase[1:]} {predicate}." for phrase in row))
    return RetrievalCases(topics.name, people.groups, tuple(queries), tuple(texts), tuple(rows))


def grep_cases(concept: Concept) -> RetrievalCases:
    """Return the female and male versions of each document of Grep-BiasIR, relevant or not, with their query."""
    if set(concept.groups) != set(VERSIONS.values()):
        raise UsageError(f"{GREP} is about women and men, not {concept.name}", hint=f"use the queries {TOPICS}")
    groups = tuple(sorted(VERSIONS.values(), key=lambda group: group != concept.positive))
    versions: dict[tuple[str, str], dict[str, str]] = {}
    queries: dict[str, str] = {}
    kinds: dict[str, str] = {}
    for row in _grep_rows():
        key = (row["q_id"], row["relevant"])
        queries[row["q_id"]] = row["query"]
        kinds[row["q_id"]] = row["exp_stereotype"].strip().lower()
        if group := VERSIONS.get(row["content_gender"]):
            versions.setdefault(key, {})[group] = f"{row['doc_title']} {row['document']}".strip()
    complete = {key: texts for key, texts in versions.items() if set(texts) == set(groups)}
    return RetrievalCases(
        GREP,
        groups,
        tuple(queries[number] for number, _ in complete),
        tuple(tuple(texts[group] for group in groups) for texts in complete.values()),
        kinds=tuple(kinds[number] for number, _ in complete),
        incomplete=len(versions) - len(complete),
    )


def _grep_rows() -> list[dict[str, str]]:
    folder = data.locate(GREP)
    if folder is None:
        raise UsageError(f"{GREP} is not on this disk", hint=f"run `evenhand fetch {GREP}`")
    rows: list[dict[str, str]] = []
    columns = {"q_id", "relevant", "query", "doc_title", "document", "content_gender", "exp_stereotype"}
    for path in sorted(folder.glob("queries-documents_*.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            if not columns <= set(reader.fieldnames or ()):
                raise FormatError(f"{path} lacks the columns {sorted(columns)}", hint="fetch the data set again")
            rows += list(reader)
    return rows
