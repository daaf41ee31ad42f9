"""Similarity and analogy: what vectors are good for, by data sets that people rated or wrote."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from evenhand import data
from evenhand.arrays import Matrix64, Rows, Vector64, as_frame, unit_rows
from evenhand.errors import (
    DegenerateError,
    FormatError,
    InputMissingError,
    UsageError,
    VocabularyError,
    shown,
    unknown_name,
)
from evenhand.measures.call import MIN_SHARE, Call, ListCoverage, measure
from evenhand.measures.measurement import MeasuredItem, Measurement
from evenhand.measures.registry import Info
from evenhand.models.vectors import Coverage, Vectors
from evenhand.models.vectors.neighbours import EPSILON, unit_float32
from evenhand.stats import bootstrap, clustered_interval
from evenhand.stats.bootstrap import Interval
from evenhand.stats.correlation import mean_ranks, spearman_rows
from evenhand.stats.units import correlation_units, mean_units

Line = tuple[int, str]


@dataclass(frozen=True)
class RatedPairs:
    """Pairs of words with the mean rating that people gave them."""

    name: str
    pairs: tuple[tuple[str, str], ...]
    ratings: Vector64


@dataclass(frozen=True)
class Questions:
    """Analogy questions a : b :: c : d, each with its section."""

    name: str
    questions: tuple[tuple[str, str, str, str], ...]
    sections: tuple[str, ...]


def rated_pairs(source: RatedPairs | str | os.PathLike[str]) -> RatedPairs:
    """Load a similarity set by catalog id, from a file with two words and a number a line, or from a data frame.

    The heading of a file is skipped. A data frame has two columns of words and then one of numbers.
    """
    if isinstance(source, RatedPairs):
        return source
    if (table := as_frame(source)) is not None:
        return _pairs_of([column.to_list() for column in table])
    name, path = _resolve(source, kind="similarity")
    pairs, ratings = [], []
    for order, (number, line) in enumerate(_lines(path)):
        fields = _fields(line)
        rating = _number(fields[2]) if len(fields) >= 3 else None
        if rating is None:
            if order == 0 and len(fields) >= 3:
                continue  # a heading
            raise FormatError(
                f"{path}, line {number} is not word, word, number: {shown(line)}", hint="separate them by tabs"
            )
        pairs.append((fields[0], fields[1]))
        ratings.append(rating)
    if not pairs:
        raise FormatError(f"{path} has no pairs", hint="write word, word and number on a line, separated by tabs")
    return RatedPairs(name, tuple(pairs), np.array(ratings, dtype=np.float64))


def _pairs_of(columns: Sequence[Sequence[object]]) -> RatedPairs:
    ratings = [_number(str(value)) for value in columns[2]] if len(columns) >= 3 else []
    if not ratings or any(rating is None for rating in ratings):
        problem = "the data frame is not word, word, number"
        raise FormatError(problem, hint="its first three columns must be two words and their rating, without gaps")
    pairs = tuple((str(one), str(other)) for one, other in zip(columns[0], columns[1], strict=True))
    return RatedPairs("data frame", pairs, np.array(ratings, dtype=np.float64))


def questions(source: Questions | str | os.PathLike[str]) -> Questions:
    """Load analogy questions by catalog id or from a file with four words a line; `: name` begins a section.

    A data frame has the four words in its first columns.
    """
    if isinstance(source, Questions):
        return source
    if (table := as_frame(source)) is not None:
        rows = [tuple(row[:4]) for row in table.rows()]
        if not rows or any(len(row) < 4 or not all(isinstance(word, str) for word in row) for row in rows):
            raise FormatError("the data frame is not four words a row", hint="use its first four columns, without gaps")
        return Questions("data frame", tuple(rows), ("all",) * len(rows))
    name, path = _resolve(source, kind="analogy")
    section, quadruples, sections = "all", [], []
    for number, line in _lines(path):
        if line.startswith(":"):
            section = line[1:].strip()
            continue
        words = line.split()
        if len(words) != 4:
            raise FormatError(f"{path}, line {number}: {len(words)} words instead of four: {shown(line)}")
        quadruples.append((words[0], words[1], words[2], words[3]))
        sections.append(section)
    if not quadruples:
        raise FormatError(f"{path} has no questions", hint="write four words on a line: athens greece oslo norway")
    return Questions(name, tuple(quadruples), tuple(sections))


def local_ids(kind: str, ids: tuple[str, ...]) -> tuple[str, ...]:
    """Return those of the ids whose data set is on this disk."""
    return tuple(name for name in ids if data.get(name).kind == kind and data.locate(name))


def _resolve(source: str | os.PathLike[str], *, kind: str) -> tuple[str, Path]:
    """Return name and path of a file, or of an id of the catalog, which is fetched if necessary."""
    ids = [entry.id for entry in data.catalog().values() if entry.kind == kind]
    path = data.fetch(str(source)) if source in ids else Path(source)
    if path.is_dir():
        files = sorted(item.name for item in path.iterdir())
        raise UsageError(f"{source!s} is a folder of several sets", hint=f"name one of its files: {', '.join(files)}")
    if path.is_file():
        return (str(source) if source in ids else path.stem), path
    if path.suffix or len(path.parts) > 1:
        raise InputMissingError(f"file {str(path)!r} does not exist", hint=f"or use a known id: {', '.join(ids)}")
    raise unknown_name(f"{kind} set", str(source), ids)


def _lines(path: Path) -> Iterator[Line]:
    """Yield numbered lines without blank ones and comments."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise FormatError(f"{path} is not UTF-8 text (byte {error.start})", hint="convert it to UTF-8") from error
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() and not line.startswith("#"):
            yield number, line.strip()


def _fields(line: str) -> list[str]:
    """Split a line at tabs, which allows phrases, else at commas or whitespace."""
    if "\t" in line:
        return [field.strip() for field in line.split("\t")]
    return [field.strip() for field in (line.split(",") if "," in line else line.split())]


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if np.isfinite(value) else None


PACKAGED = ("rg-65", "mc-30")  # part of evenhand, so that quality is always measured
SETS = ("ws-353", "mturk-287", "mturk-771", "men", "simlex-999", "rw")
Unknown = Literal["drop", "mean-vector"]
ABSENT = -1
DRAWS_AT_ONCE = 200
MIN_ROWS = 3
SAME = 1e-9  # cosines of float32 vectors that differ by less differ by rounding


SIMILARITY_INFO = Info(
    id="similarity",
    title="Word similarity",
    takes="dataset",
    better="higher",
    formula="rho = Pearson(rank cos(a, b), rank rating(a, b)) over the pairs; equal values share their mean rank",
    reading="1: cosines order the pairs as people do. 0: no relation. Compare before and after on the same pairs only.",
    limits=(
        "Ratings mix similarity (car, automobile) with relatedness (car, road), and differ between sets; a set of 65 "
        "nouns has a wide interval. It does not say whether a task that uses the vectors got better or worse."
    ),
    cites=(
        "rubenstein1965",
        "miller1991",
        "finkelstein2002",
        "radinsky2011",
        "halawi2012",
        "bruni2014",
        "hill2015",
        "luong2013",
    ),
    queries=PACKAGED,
    available=partial(local_ids, "similarity", SETS),
    family="quality",
    definition=2,
    role="cost",
    ticked=("vectors",),
)


@measure(SIMILARITY_INFO)
def similarity(
    call: Call,
    vectors: Vectors,
    dataset: RatedPairs | str | os.PathLike[str],
    *,
    unknown: Unknown = "drop",
    min_share: float = MIN_SHARE,
    reference: Vectors | None = None,
    seed: int = 0,
) -> Measurement:
    """Measure Spearman's rank correlation between cosine and human rating.

    Args:
        vectors: the vectors to measure.
        dataset: an id of the catalog (rg-65, ws-353, mturk-287, mturk-771, men, simlex-999, rw, ...) or a file with
            word, word and rating on a line.
        unknown: "drop" leaves out pairs with an unknown word, and counts them. "mean-vector" gives such a word the mean
            of the vocabulary, as the web benchmarks package (Jastrzebski et al. 2017) does, so that vectors with
            different vocabularies are measured on the same pairs.
        min_share: smallest share of the pairs that must have both words, with `unknown="drop"`.
        reference: vectors before mitigation.
        seed: seed of the bootstrap over pairs.

    Returns:
        The correlation, with cosine and rating of each pair in `items`.

    What it does not tell you: what a drop of a few hundredths costs in a task. See `evenhand show similarity`.
    """
    if unknown not in get_args(Unknown):
        raise UsageError(f"unknown policy {unknown!r} for words without a vector", hint="use drop or mean-vector")
    source = rated_pairs(dataset)
    rows, coverage = _word_rows(vectors, source.pairs)
    complete = (rows != ABSENT).all(axis=1)
    used = np.flatnonzero(complete | (unknown == "mean-vector"))
    call.describe(source.name, coverage=coverage)
    n_complete = int(complete.sum())
    if unknown == "drop":
        pairs_list = ListCoverage(source.name, n_complete, len(complete), "complete pair")
    else:
        pairs_list = ListCoverage.of_words(source.name, coverage)
    call.require([pairs_list], min_share if unknown == "drop" else 0.0)
    if len(used) < MIN_ROWS:
        raise VocabularyError(
            f"{n_complete} of {len(complete)} pairs of {source.name} have both words in the vocabulary"
        )
    cosines, ratings = _cosines(vectors, rows[used]), source.ratings[used]
    constant = [name for name, column in (("cosines", cosines), ("ratings", ratings)) if np.ptp(column) <= SAME]
    if constant:
        raise DegenerateError(f"all {constant[0]} are equal, so that they have no order")
    value = float(spearman_rows(cosines[None], ratings[None])[0])
    return call.measurement(
        value,
        len(used),
        interval=rank_interval(cosines, ratings, seed=seed),
        reading=f"over {len(used)} of {len(complete)} pairs, cosines and ratings correlate with rho = {value:.2f}",
        items=tuple(
            {"first": source.pairs[row][0], "second": source.pairs[row][1], "value": float(cosine), "rating": rating}
            for row, cosine, rating in zip(used.tolist(), cosines, ratings.tolist(), strict=True)
        ),
        details={"pairs": len(complete), "pairs_complete": n_complete, "pairs_used": len(used)},
        units=(
            correlation_units(
                "pair", [" ".join(source.pairs[row]) for row in used], mean_ranks(cosines), mean_ranks(ratings)
            ),
        ),
    )


def _word_rows(vectors: Vectors, entries: Sequence[tuple[str, ...]]) -> tuple[Rows, Coverage]:
    """Return the row of each word of each entry, ABSENT for one without a vector."""
    rows, coverage = vectors.locate(word for entry in entries for word in entry)
    index = dict(zip(coverage.found, rows.tolist(), strict=True))
    return np.array([[index.get(word, ABSENT) for word in entry] for entry in entries], dtype=np.int64), coverage


def _cosines(vectors: Vectors, rows: Rows) -> Vector64:
    """Return the cosine of each pair; an absent word has the mean vector of the vocabulary."""
    left, right = (vectors.matrix[side].astype(np.float64) for side in rows.T)
    if (rows == ABSENT).any():
        mean = vectors.matrix.mean(axis=0, dtype=np.float64)
        for side, matrix in zip(rows.T, (left, right), strict=True):
            matrix[side == ABSENT] = mean
    return np.asarray(np.einsum("ij,ij->i", unit_rows(left), unit_rows(right)))


def rank_interval(x: Vector64, y: Vector64, *, seed: int = 0) -> tuple[float, float] | None:
    """Return the percentile interval over resampled rows."""
    if len(x) < MIN_ROWS:
        return None
    rng = np.random.default_rng(seed)
    share = np.full(len(x), 1 / len(x))
    parts = [
        correlations(x, y, rng.multinomial(len(x), share, size=DRAWS_AT_ONCE))
        for _ in range(0, bootstrap.RESAMPLES, DRAWS_AT_ONCE)
    ]
    return bootstrap.interval(np.concatenate(parts))


def correlations(x: Vector64, y: Vector64, counts: NDArray[np.int64]) -> Vector64:
    """Return one value for each row of `counts`, the number of draws of each pair; NaN where a column is constant."""
    middle = (len(x) + 1) / 2  # the mean rank, ties or not
    dx, dy = _ranks(x, counts) - middle, _ranks(y, counts) - middle
    joint, squares_x, squares_y = ((counts * part).sum(axis=1) for part in (dx * dy, dx * dx, dy * dy))
    scale = np.sqrt(squares_x * squares_y)
    undefined = np.full(len(counts), np.nan)
    return np.asarray(np.divide(joint, scale, out=undefined, where=scale > 0))


def _ranks(values: Vector64, counts: NDArray[np.int64]) -> Matrix64:
    """Return the mean ranks in each draw: a value drawn g times after t lower ones has rank t + (g + 1) / 2."""
    _, level = np.unique(values, return_inverse=True)
    order = np.argsort(level, kind="stable")
    starts = np.flatnonzero(np.diff(level[order], prepend=-1))
    drawn = np.add.reduceat(counts[:, order], starts, axis=1)
    ranks = np.cumsum(drawn, axis=1) - (drawn - 1) / 2
    return np.asarray(ranks[:, level])


ANALOGY_SETS = ("google-analogies", "msr-analogies")
RESTRICT = 30_000  # as word2vec's own script demo-word-accuracy.sh; gensim's default is 300,000
SYNTACTIC = "gram"  # how the names of Google's nine syntactic sections begin
CANDIDATES_AT_ONCE = 16384
QUESTIONS_AT_ONCE = 32
Method = Literal["3cosadd", "3cosmul"]
UnknownPolicy = Literal["skip", "wrong"]
Flags = NDArray[np.bool_]
Scores = NDArray[np.float32]


ANALOGY_INFO = Info(
    id="analogy",
    title="Word analogies",
    takes="dataset",
    better="higher",
    formula="share of questions with argmax_d [cos(d, b) - cos(d, a) + cos(d, c)] = the expected word, d not a, b, c",
    reading="Share answered correctly, of the questions whose four words have vectors.",
    limits=(
        "The three words of a question are excluded as answers, which hides that the nearest word is often one of "
        "them; results depend on how much of the vocabulary is searched, so compare equal `restrict` only."
    ),
    cites=("mikolov2013efficient", "mikolov2013linguistic", "levy2014"),
    queries=(),
    available=partial(local_ids, "analogy", ANALOGY_SETS),
    family="quality",
    definition=3,
    role="cost",
)


@measure(ANALOGY_INFO)
def analogy(
    call: Call,
    vectors: Vectors,
    dataset: Questions | str | os.PathLike[str],
    *,
    method: Method = "3cosadd",
    restrict: int | None = RESTRICT,
    unknown: UnknownPolicy = "skip",
    min_share: float = MIN_SHARE,
    reference: Vectors | None = None,
    seed: int = 0,
) -> Measurement:
    """Measure the accuracy over all questions, for each section, and for Google's semantic and syntactic halves.

    Args:
        vectors: the vectors to measure.
        dataset: an id of the catalog (google-analogies, msr-analogies) or a file with four words a line.
        method: "3cosadd" adds cosines; "3cosmul" multiplies them, shifted to [0, 1] (Levy & Goldberg 2014).
        restrict: number of words to search, exactly; None for all.
        unknown: "skip" leaves out questions with a word outside these, and counts them; "wrong" counts them as wrong.
        min_share: smallest share of the questions that must have all their words, with `unknown="skip"`.
        reference: vectors before mitigation.
        seed: recorded only. The interval is over the pairs a : b: questions that share a pair are not independent.

    Returns:
        The accuracy, with that of each section in `items`.

    What it does not tell you: whether the relation is what finds the answer. See `evenhand show analogy`.
    """
    _check(method, restrict, unknown)
    source = questions(dataset)
    searched = vectors if restrict is None or restrict >= len(vectors) else vectors.head(restrict)
    rows, coverage = _word_rows(searched, source.questions)
    complete = (rows != ABSENT).all(axis=1)
    call.describe(source.name, coverage=coverage)
    questions_list = ListCoverage(source.name, int(complete.sum()), len(rows), "complete question")
    call.require([questions_list], min_share if unknown == "skip" else 0.0)
    correct = np.zeros(len(rows), dtype=np.bool_)
    correct[complete] = answers(unit_float32(searched), rows[complete, :3], method=method) == rows[complete, 3]
    counted = complete | (unknown == "wrong")
    value, n, n_unknown = float(correct[counted].mean()), int(counted.sum()), int((~complete).sum())
    return call.measurement(
        value,
        n,
        interval=_interval(source, correct, counted),
        reading=f"{100 * value:.1f} % of {n:,} questions answered correctly, {n_unknown:,} unknown",
        items=_sections(source, correct, counted),
        units=(mean_units("pair", _first_pairs(source, counted), correct[counted]),),
        details={
            **_halves(source, correct, counted, seed),
            "questions": len(rows),
            "unknown": n_unknown,
            "vocabulary": len(searched),
        },
    )


def _check(method: str, restrict: int | None, unknown: str) -> None:
    if method not in get_args(Method):
        raise UsageError(f"unknown analogy method {method!r}", hint="use 3cosadd or 3cosmul")
    if unknown not in get_args(UnknownPolicy):
        raise UsageError(f"unknown policy {unknown!r} for words without a vector", hint="use skip or wrong")
    if restrict is not None and restrict < 1:
        raise UsageError(f"restrict must be at least 1, got {restrict}", hint="use None for the whole vocabulary")


def _sections(source: Questions, correct: Flags, counted: Flags) -> tuple[MeasuredItem, ...]:
    names = np.array(source.sections)
    members = {name: names == name for name in dict.fromkeys(source.sections)}
    return tuple(
        {
            "section": name,
            "value": float(correct[rows & counted].mean()) if (rows & counted).any() else None,
            "n": int((rows & counted).sum()),
            "asked": int(rows.sum()),
        }
        for name, rows in members.items()
    )


def _halves(source: Questions, correct: Flags, counted: Flags, seed: int) -> dict[str, dict[str, object]]:
    """Return the semantic and the syntactic half, where a set has both."""
    syntactic = np.array([name.startswith(SYNTACTIC) for name in source.sections])
    if syntactic.all() or not syntactic.any():
        return {}
    halves = {"semantic": ~syntactic & counted, "syntactic": syntactic & counted}
    return {
        name: {
            "value": float(correct[rows].mean()),
            "n": int(rows.sum()),
            "interval": list(_interval(source, correct, rows) or ()) or None,
        }
        for name, rows in halves.items()
        if rows.any()
    }


def _interval(source: Questions, correct: Flags, counted: Flags) -> Interval:
    pairs = _first_pairs(source, counted)
    return clustered_interval(correct[counted].astype(np.float64), [pairs], share=True)


def _first_pairs(source: Questions, counted: Flags) -> list[tuple[str, str, str]]:
    """Return section and first two words of each question that counts; questions that share them vary as one."""
    return [
        (section, a, b)
        for section, (a, b, _, _), counts in zip(source.sections, source.questions, counted, strict=True)
        if counts
    ]


def answers(unit: Scores, queries: Rows, *, method: Method = "3cosadd") -> Rows:
    """Return the row that best completes each question (a, b, c), given as rows of `unit`; never one of the three.

    Equal scores go to the lower row, so that the answer does not depend on the size of a block.
    """
    used, inverse = np.unique(queries, return_inverse=True)
    indices = inverse.reshape(queries.shape)
    pieces = _pieces(indices)
    best = np.full(len(queries), -np.inf, dtype=np.float32)
    answer = np.zeros(len(queries), dtype=np.int64)
    for start in range(0, len(unit), CANDIDATES_AT_ONCE):
        candidates = unit[start : start + CANDIDATES_AT_ONCE]
        factors = _factors(unit[used] @ candidates.T, method)
        top, value = _best(factors, indices, pieces, queries - start, method)
        better = value > best
        best[better], answer[better] = value[better], top[better] + start
    return answer


def _pieces(indices: Rows) -> list[Rows]:
    """Return which questions are scored together: some that share the pair a : b."""
    order = np.lexsort((indices[:, 1], indices[:, 0]))
    ordered = indices[order, :2]
    groups = np.split(order, np.flatnonzero((ordered[1:] != ordered[:-1]).any(axis=1)) + 1)
    return [group[k : k + QUESTIONS_AT_ONCE] for group in groups for k in range(0, len(group), QUESTIONS_AT_ONCE)]


def _factors(cosines: Scores, method: Method) -> Scores:
    """Return what is added, or multiplied, for each word of a question. 3CosMul shifts cosines to [0, 1]."""
    if method == "3cosadd":
        return cosines
    shifted: Scores = np.maximum((1 + cosines) / 2, 0)
    return shifted


def _best(factors: Scores, indices: Rows, pieces: list[Rows], columns: Rows, method: Method) -> tuple[Rows, Scores]:
    """Return the best candidate of a block for each question, and its score.

    The score is cos(d, b) - cos(d, a) + cos(d, c), or cos(d, b) / (cos(d, a) + epsilon) * cos(d, c). The part of a : b
    is computed once for the questions that share it.
    """
    width = factors.shape[1]
    inside = (columns >= 0) & (columns < width)
    excluded = np.where(inside, columns, width)  # a column that is never an answer
    top = np.empty(len(columns), dtype=np.int64)
    value = np.empty(len(columns), dtype=np.float32)
    scores = np.full((QUESTIONS_AT_ONCE, width + 1), -np.inf, dtype=np.float32)
    numbers = np.arange(QUESTIONS_AT_ONCE)
    join = np.add if method == "3cosadd" else np.multiply
    for piece in pieces:
        a, b, _ = indices[piece[0]]
        pair = factors[b] - factors[a] if method == "3cosadd" else factors[b] / (factors[a] + np.float32(EPSILON))
        for row, c in zip(scores, indices[piece, 2].tolist(), strict=False):
            join(pair, factors[c], out=row[:width])
        used, rows = scores[: len(piece)], numbers[: len(piece)]
        used[rows[:, None], excluded[piece]] = -np.inf
        nearest_rows = used.argmax(axis=1)
        top[piece], value[piece] = nearest_rows, used[rows, nearest_rows]
    return top, value
