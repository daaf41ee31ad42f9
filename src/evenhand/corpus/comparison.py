"""Compare two texts scored with the same options: generated text with its training text, or any two corpora.

Standard errors are those of the jackknife over folds of documents.

The bootstrap does not suit these statistics: a resample with replacement has fewer different documents, its scores are
noisier, and mean |bias| grows with noise, so that its bootstrap intervals lie above the value itself. Leaving out one
fold in a hundred adds almost no noise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TypedDict, Unpack

import numpy as np

from evenhand.arrays import Matrix64, Rows, Vector64
from evenhand.corpus.beta import ENOUGH as ENOUGH_WORDS
from evenhand.corpus.beta import (
    LEAST_COUNT,
    MOST_WORDS,
    Beta,
    FoldTable,
    NoiseCorrected,
    corrected_deviation,
    corrected_slope,
    trimmed_line,
)
from evenhand.corpus.bias import CorpusOptions, Groups, score_corpus
from evenhand.corpus.counting.count import count
from evenhand.corpus.counting.tokens import ENGLISH, SPECIAL_TOKENS, Tokenizer
from evenhand.corpus.counting.windows import FoldCounts, SparseMatrix, Table
from evenhand.corpus.readers.paths import Paths
from evenhand.corpus.readers.source import Corpus, ReadArguments, Texts, TextSource, as_source
from evenhand.corpus.readers.stream import END, ReadLog, cut
from evenhand.corpus.result import CorpusBias
from evenhand.corpus.word_scores import FOLDS, WORDS_AT_ONCE, Scorer, log_ratio, normalising_shift, one_against_rest
from evenhand.engines import Engine, open_engine
from evenhand.errors import FormatError
from evenhand.progress import Progress

QUANTILE = 1.96  # standard errors on each side of a 95 % interval


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """The score of every candidate word, and its score without each fold: (folds, words), NaN where there is none."""

    words: tuple[str, ...]
    values: Vector64
    without: Matrix64
    counts: tuple[SparseMatrix, ...] = ()
    """Co-occurrences by fold and word with the first group and with each other one; empty with a decay, whose weights
    are not counts."""

    def fold_tables(self, other: LeaveOneOut | None = None) -> tuple[FoldTable, ...]:
        """Return the co-occurrences by fold, with the first group and the rest, of words that occur often enough.

        With another text, only words that occur often enough in both, in the same order.
        """
        texts = (self, *([other] if other else []))
        if not all(text.counts for text in texts):
            return ()
        often = [dict(zip(text.words, text._totals(), strict=True)) for text in texts]
        least = {word: min(totals.get(word, 0.0) for totals in often) for word in self.words}
        chosen = sorted((word for word, n in least.items() if n >= LEAST_COUNT), key=lambda word: -least[word])
        return tuple(text._fold_table(chosen[:MOST_WORDS]) for text in texts)

    def _totals(self) -> Vector64:
        totals = [np.asarray(matrix.sum(axis=0), dtype=np.float64).ravel() for matrix in self.counts]
        return np.asarray(np.sum(totals, axis=0))

    def _fold_table(self, words: list[str]) -> FoldTable:
        index = {word: column for column, word in enumerate(self.words)}
        columns = np.array([index[word] for word in words], dtype=np.intp)
        counts = np.stack([matrix[:, columns].toarray() for matrix in self.counts])
        return one_against_rest(counts, 0).astype(np.float64)

    def spread(self, statistic: Callable[[Vector64], float]) -> float | None:
        """Return the standard error of a statistic of the scored words."""
        return standard_error([statistic(row[np.isfinite(row)]) for row in self.without])


def leave_one_out(
    source: TextSource, options: CorpusOptions, *, engine: Engine | None = None, progress: Progress | None = None
) -> LeaveOneOut:
    """Score a text without each of its folds; documents are assigned to folds in turn."""
    plan = options.plan(folds=FOLDS)
    counts = count(source, plan, engine=engine, progress=progress)
    scorer = Scorer(counts, plan, options)
    rows = scorer.candidates[scorer.met]
    words = tuple(counts.words.gather(rows).to_list())
    values = _nan_where_undefined(scorer.values(counts.cooccurrence, 0)[rows])
    without = _scores_without(counts.by_fold, rows, scorer) if counts.by_fold else np.empty((0, len(rows)))
    by_fold = _used_folds(counts.by_fold)[0] if counts.by_fold and options.decay is None else []
    return LeaveOneOut(words, values, without, tuple(matrix[:, rows] for matrix in by_fold))


def _used_folds(folds: FoldCounts) -> tuple[list[SparseMatrix], Rows]:
    """Return the co-occurrences by fold and word, and which folds these are: those that have group words."""
    used = np.flatnonzero(folds.hits.sum(axis=0))
    return [matrix[used].tocsc() for matrix in folds.cooccurrence], used


def _scores_without(folds: FoldCounts, rows: Rows, scorer: Scorer) -> Matrix64:
    """Return (folds, words): the scores without each fold that has group words; computed a few words at a time."""
    counts, used = _used_folds(folds)
    smoothing = scorer.options.smoothing
    totals = _sum_of_others(np.stack([np.asarray(matrix.sum(axis=1)) for matrix in counts]))
    shift = normalising_shift(
        scorer.normalisation,
        one_against_rest(totals, 0),
        one_against_rest(_sum_of_others(folds.hits[:, used]), 0),
        smoothing=smoothing,
        vocabulary=scorer.vocabulary,
    )
    scores = np.empty((len(used), len(rows)))
    for start in range(0, len(rows), WORDS_AT_ONCE):
        some = slice(start, start + WORDS_AT_ONCE)
        others = _sum_of_others(np.stack([matrix[:, rows[some]].toarray() for matrix in counts]))
        values = log_ratio(one_against_rest(others, 0), np.asarray(shift)[:, None], smoothing)
        scores[:, some] = _nan_where_undefined(values)
    return scores


def _sum_of_others(table: Table) -> Table:
    """Return for each fold (the second axis) the sum of all others.

    Computed as the sum before plus the sum after, never as total minus fold: the weights of a decay span a hundred
    orders of magnitude, and the rounding error of a difference would pass for a co-occurrence.
    """
    before, after = np.zeros_like(table), np.zeros_like(table)
    before[:, 1:] = np.cumsum(table[:, :-1], axis=1)
    after[:, :-1] = np.cumsum(table[:, :0:-1], axis=1)[:, ::-1]
    return before + after


def slope_error(first: LeaveOneOut, second: LeaveOneOut) -> float | None:
    """Return the standard error of the slope of the second text's scores on the first's, both texts being samples."""
    index = {word: row for row, word in enumerate(first.words)}
    pairs = [(index[word], row) for row, word in enumerate(second.words) if word in index]
    shared = np.array(pairs, dtype=np.intp).reshape(-1, 2)
    x, y = first.values[shared[:, 0]], second.values[shared[:, 1]]
    of_first = standard_error([_slope(row[shared[:, 0]], y) for row in first.without])
    of_second = standard_error([_slope(x, row[shared[:, 1]]) for row in second.without])
    return None if of_first is None or of_second is None else float(np.hypot(of_first, of_second))


def standard_error(estimates: list[float]) -> float | None:
    """Return sqrt((n - 1) / n * sum of squared deviations), or None for fewer than two estimates."""
    n = len(estimates)
    if n < 2 or not np.isfinite(estimates).all():
        return None
    return float(np.sqrt((n - 1) / n * np.square(np.array(estimates) - np.mean(estimates)).sum()))


def _slope(x: Vector64, y: Vector64) -> float:
    both = np.isfinite(x) & np.isfinite(y)
    return trimmed_line(x[both], y[both])[0] if both.sum() >= ENOUGH_WORDS else float("nan")


def _nan_where_undefined(values: Vector64) -> Vector64:
    return np.where(np.isfinite(values), values, np.nan)


STATISTICS = ("mu", "sigma", "beta")


class Point(TypedDict):
    """A word scored in both texts."""

    word: str
    first: float
    second: float


@dataclass(frozen=True, eq=False)
class Comparison:
    """Scores of a second text beside those of a first, such as training text and generated text.

    `errors` are standard errors over documents (jackknife) of `mu`, `sigma` and `beta` of the second text, and of
    `first_mu` and `first_sigma`; None where a text has fewer than two documents.

    The comparison does not tell whether one text took its bias from the other. Compare texts of equal size only
    (`same_shape`), and look at the baselines before trusting a mean.
    """

    first: CorpusBias
    second: CorpusBias
    beta: Beta
    errors: Mapping[str, float | None] = field(default_factory=dict)
    corrected: Mapping[str, NoiseCorrected] = field(default_factory=dict)
    """`beta`, `sigma` and `first_sigma` of an unlimited text, corrected for noise; empty for a decay and for texts
    without documents to halve."""

    def value(self, name: str) -> float:
        """Return a statistic by name: mu, sigma and beta of the second text, first_mu and first_sigma."""
        if name == "beta":
            return self.beta.trimmed
        source = self.first if name.startswith("first_") else self.second
        return float(getattr(source, name.removeprefix("first_")))

    def interval(self, name: str) -> tuple[float, float] | None:
        """Return the 95 % interval of a statistic over documents, at this corpus size.

        It covers the value that other texts of the same size give, not that of an unlimited text, because mu, sigma and
        beta all depend on the size.
        """
        error = self.errors.get(name)
        return None if error is None else (self.value(name) - QUANTILE * error, self.value(name) + QUANTILE * error)

    def text(self, name: str, digits: int = 3) -> str:
        """Return a statistic as text, followed by its interval in brackets where there is one."""
        bounds = self.interval(name)
        ends = f" [{bounds[0]:z.{digits}f}, {bounds[1]:z.{digits}f}]" if bounds else ""
        return f"{self.value(name):z.3f}{ends}"

    def corrected_text(self, name: str) -> str:
        """Return a value corrected for noise as text; empty where there is none to compute."""
        return self.corrected[name].text() if name in self.corrected else ""

    def points(self) -> list[Point]:
        """Return the words scored in both texts, with both scores."""
        shared = [word for word in self.first.scores if word in self.second.scores]
        return [Point(word=w, first=self.first.scores[w], second=self.second.scores[w]) for w in shared]

    def moved(self, count: int, *, min_occurrences: int = 1) -> list[Point]:
        """Return the points that differ most, among words that occur at least so often in both texts."""
        texts = (self.first, self.second)
        rare = {word for b in texts for word, n in zip(b.words, b.occurrences, strict=True) if n < min_occurrences}
        common = [point for point in self.points() if point["word"] not in rare]
        return sorted(common, key=lambda point: -abs(point["second"] - point["first"]))[:count]

    def to_dict(self, *, points: bool = True) -> dict[str, object]:
        """Return plain data for JSON."""
        texts = [{k: v for k, v in one.to_dict().items() if k != "items"} for one in (self.first, self.second)]
        statistics = {name: {"value": self.value(name), "interval": self.interval(name)} for name in STATISTICS}
        return {
            **statistics,
            "beta": {**statistics["beta"], **self.beta.to_dict()},
            "first": texts[0],
            "second": texts[1],
            "errors": dict(self.errors),
            "noise_corrected": {name: found.to_dict() for name, found in self.corrected.items()},
            **({"points": self.points()} if points else {}),
        }


def compare(
    first: Paths | TextSource,
    second: Paths | TextSource,
    groups: Groups = None,
    *,
    lists: str | Path | None = None,
    window: int | None = None,
    decay: float | None = None,
    tokenizer: Tokenizer = "words",
    lower: bool | None = None,
    stop_words: str | Path | Iterable[str] = (),
    special_tokens: str | None = None,
    min_count: int = 1,
    permutations: int | None = 0,
    seed: int = 0,
    engine: str | Engine = "local",
    progress: Progress | None = None,
    **reading: Unpack[ReadArguments],
) -> Comparison:
    """Score two texts with the same options (those of `corpus.bias`), and regress the second on the first.

    The standard errors take a second pass over each text that has two documents or more.
    """
    options = CorpusOptions(
        groups=groups, lists=lists, window=window, decay=decay, tokenizer=tokenizer, lower=lower,
        stop_words=stop_words, special_tokens=special_tokens, min_count=min_count, permutations=permutations, seed=seed,
    )  # fmt: skip
    sources = (as_source(first, **reading), as_source(second, **reading))
    return compare_corpora(*sources, options, engine=engine, progress=progress)


def compare_corpora(
    first: TextSource,
    second: TextSource,
    options: CorpusOptions,
    *,
    engine: str | Engine = "local",
    progress: Progress | None = None,
) -> Comparison:
    """Score two corpora under the given options, and regress the second on the first."""
    sources = (first, second)
    with open_engine(engine) as workers:
        results = [score_corpus(source, options, engine=workers, progress=progress) for source in sources]
        beta = results[1].beta(results[0], seed=options.seed)
        without = [
            leave_one_out(source, options, engine=workers, progress=progress) if result.documents > 1 else None
            for source, result in zip(sources, results, strict=True)
        ]
    errors = _errors(without[0], without[1])
    return Comparison(results[0], results[1], beta, errors, _corrected(without[0], without[1], options.seed))


def _corrected(first: LeaveOneOut | None, second: LeaveOneOut | None, seed: int) -> dict[str, NoiseCorrected]:
    """Return slope and deviations without the noise of the texts."""
    if not first or not second or not (both := first.fold_tables(second)):
        return {}
    return {
        "beta": corrected_slope(*both, seed=seed),
        "sigma": corrected_deviation(*second.fold_tables(), seed=seed),
        "first_sigma": corrected_deviation(*first.fold_tables(), seed=seed),
    }


def _errors(first: LeaveOneOut | None, second: LeaveOneOut | None) -> dict[str, float | None]:
    """Return the standard error of each statistic whose texts have documents to leave out."""
    return {
        "mu": second.spread(_mu) if second else None,
        "sigma": second.spread(_sigma) if second else None,
        "beta": slope_error(first, second) if first and second else None,
        "first_mu": first.spread(_mu) if first else None,
        "first_sigma": first.spread(_sigma) if first else None,
    }


def _mu(values: Vector64) -> float:
    return float(np.abs(values).mean()) if len(values) else float("nan")


def _sigma(values: Vector64) -> float:
    return float(values.std(ddof=1)) if len(values) > 1 else float("nan")


class Context(TypedDict, total=False):
    """The reach of a co-occurrence: a window or a decay."""

    window: int
    decay: float


CONTEXTS: Mapping[str, Context] = {"fixed": {"window": 10}, "infinite": {"decay": 0.95}}
LINE_END = "<eos>"  # marks the end of a line in the text of word-level models


def against_training(
    training: TextSource,
    samples: Sequence[Sequence[str]],
    groups: Groups = None,
    *,
    lists: str | Path | None = None,
    contexts: Mapping[str, Context] = CONTEXTS,
    tokenizer: Tokenizer = "whitespace",
    stop_words: Sequence[str] = (*ENGLISH, *SPECIAL_TOKENS),
    min_count: int = 1,
    permutations: int = 0,
    seed: int = 0,
    ceiling: bool = False,
    progress: Progress | None = None,
) -> dict[str, Comparison]:
    """Regress the scores of generated samples on those of as much training text, for each context.

    Both texts are cut to the same number and length of documents (`same_shape`), without line-end tokens. With
    `ceiling`, each context gets a second comparison, "<name> ceiling", of one half of the training text with the
    other: noise alone keeps its beta far below 1, and a model that reproduces its text exactly would reach no more.

    Args:
        training: text that the model was trained on.
        samples: generated texts as lists of words.
        groups: name to words, positive group first.
        lists: id or file of pairs or of a concept, instead of groups.
        contexts: name to the window or decay of each context; the two of the paper by default.
        tokenizer: tokenizer of the scores; `whitespace` for tokenised text, as in the paper.
        stop_words: words that are not scored.
        min_count: words that occur less often are not scored.
        permutations: permuted labellings for the baseline of each text.
        seed: seed of the block sampling and of the permutations.
        ceiling: also compare the training text with itself.
        progress: called with (done, total, description).
    """
    texts = {"": same_shape(training, samples, seed=seed)}
    if ceiling:
        texts[" ceiling"] = two_halves(training, samples, seed=seed)
    runs = {name + kind: (both, reach) for kind, both in texts.items() for name, reach in contexts.items()}
    comparisons = {}
    for number, (name, (both, reach)) in enumerate(runs.items()):
        if progress:
            progress(number, len(runs), f"{name} context")
        options = CorpusOptions(
            groups=groups,
            lists=lists,
            window=reach.get("window"),
            decay=reach.get("decay"),
            tokenizer=tokenizer,
            stop_words=stop_words,
            special_tokens="keep",  # the named ones are stop words; signs such as $ count as words
            min_count=min_count,
            permutations=permutations,
            seed=seed,
        )
        comparisons[name] = compare_corpora(*both, options)
    return comparisons


def read_samples(path: str | Path) -> list[list[str]]:
    """Read generated texts, one per line or one per JSON record, as lists of words."""
    source = Corpus([str(path)], documents="line")
    text = "".join(part for shard in source.shards() for part in source.fragments(shard, ReadLog(False)))
    return [words for words in (document.split() for document in text.split(END)) if words]


def word_stream(source: TextSource) -> Iterator[str]:
    """Yield the whitespace-separated words of a text without line-end tokens, across document ends."""
    for shard in source.shards():
        for piece in cut(source.fragments(shard, ReadLog(source.skip_bad))):
            yield from (word for word in piece.replace(END, " ").split() if word != LINE_END)


def same_shape(text: TextSource, samples: Sequence[Sequence[str]], *, seed: int = 0) -> tuple[Texts, Texts]:
    """Return blocks sampled from a text, as many and as long as the samples, and the samples.

    If the text has fewer words than the samples, only as many samples are returned as the text has blocks. A block may
    cross the ends of documents, as do the samples of a model trained on one stream of words. Takes one pass, and
    memory for the blocks only (reservoir sampling).
    """
    cleaned = _without_line_ends(samples)
    length = _mean_length(cleaned)
    blocks = _sample_blocks(word_stream(text), length, len(cleaned), np.random.default_rng(seed))
    if not blocks:
        raise FormatError(f"the text has fewer words than one sample ({length:,})", hint="give more text")
    return _as_texts(blocks), _as_texts(cleaned[: len(blocks)])


def two_halves(text: TextSource, samples: Sequence[Sequence[str]], *, seed: int = 0) -> tuple[Texts, Texts]:
    """Return two disjoint sets of blocks of one text, each of the shape of the samples if the text is long enough.

    Otherwise each is half of the text. A perfect model's text compares with its training text as these two do.
    """
    cleaned = _without_line_ends(samples)
    rng = np.random.default_rng(seed)
    blocks = _sample_blocks(word_stream(text), _mean_length(cleaned), 2 * len(cleaned), rng)
    half = len(blocks) // 2
    if not half:
        raise FormatError("the text has fewer words than two samples", hint="give more text")
    return _as_texts(blocks[0 : 2 * half : 2]), _as_texts(blocks[1 : 2 * half : 2])


def _without_line_ends(samples: Sequence[Sequence[str]]) -> list[list[str]]:
    return [[word for word in sample if word != LINE_END] for sample in samples]


def _mean_length(samples: list[list[str]]) -> int:
    total = sum(map(len, samples))
    if not total:
        raise FormatError("the samples have no words", hint="generate longer ones")
    return max(1, round(total / len(samples)))


def _as_texts(blocks: list[list[str]]) -> Texts:
    return Texts([" ".join(block) for block in blocks])


def _sample_blocks(words: Iterator[str], length: int, count: int, rng: np.random.Generator) -> list[list[str]]:
    """Return `count` blocks, or all if there are fewer; each set of blocks is equally likely."""
    blocks: list[list[str]] = []
    seen = 0
    while len(block := list(islice(words, length))) == length:
        seen += 1
        if len(blocks) < count:
            blocks.append(block)
        elif (row := int(rng.integers(seen))) < count:
            blocks[row] = block
    return blocks
