"""Table 2 of Ethayarajh, Duvenaud & Hirst 2019: genderedness in a corpus against vectors trained on it."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias, TypedDict

import numpy as np

from evenhand.arrays import Matrix64, Vector64, unit_rows
from evenhand.corpus import Cooccurrence, cooccurrence, genderedness
from evenhand.corpus.genderedness import Constants, by_chance, fit_constants
from evenhand.data import catalog, fetch
from evenhand.errors import DegenerateError, UsageError, VocabularyError
from evenhand.models.vectors import Vectors
from evenhand.progress import Progress
from evenhand.reproduce.comparison import Estimate, Key, PaperTable, Series
from evenhand.reproduce.inputs import PaperInputs
from evenhand.reproduce.published import PaperItem
from evenhand.stats import percentile_interval
from evenhand.words import Pairs
from evenhand.words import pairs as named_pairs

MIN_DISTANCE = 1e-3  # of a pair, relative to the vector length; below it the pair defines no direction


@dataclass(frozen=True)
class GenderednessSettings:
    """Settings of the comparison; the lists are those named in the paper, or substitutes."""

    pairs: Pairs | str = "ethayarajh2019-pairs"
    appropriate: Pairs | str = "ethayarajh2019-appropriate-standin"
    biased: Pairs | str = "ethayarajh2019-biased-standin"
    alpha: float | None = None
    """None: fitted to the pairs, as in the paper for its own vectors (-1)."""
    lambda_: float | None = 1.0
    """None: fitted together with alpha."""
    neutral: int = 200
    """Number of words in the third group, drawn at random from those with a value."""
    frequent: int = 100
    """Minimum occurrences of a neutral word; 10,000 in the paper, whose text is some hundred times larger."""
    min_pairs: int = 3
    """Minimum number of pairs that are defined for a word in the text."""
    least: float = 0.0
    """Minimum co-occurrence of a word with both words of a pair."""
    defining: bool = False
    """Include the words of the pairs in the appropriate group, although they lie on the axis by construction."""
    same_pairs: bool = True
    """Average the vectors' values over the pairs defined in the text; otherwise over all pairs."""

    def __post_init__(self) -> None:
        if self.neutral < 1 or self.min_pairs < 1:
            raise UsageError(f"neutral and min_pairs must be at least 1, got {self.neutral} and {self.min_pairs}")


class GroupSummary(TypedDict):
    """Means over the words of a group; None if it has fewer than two words."""

    corpus: float | None
    embedding: float | None
    change: float | None
    interval: tuple[float, float] | None
    t_test: float | None
    wilcoxon: float | None
    correlation: float | None


@dataclass(frozen=True, eq=False)
class GenderednessGroup:
    """Words of one group with both values; male is above 0, as in the table. `lost` gives the reason for the others."""

    name: str
    words: tuple[str, ...]
    corpus: Vector64
    embedding: Vector64
    lost: Mapping[str, str] = field(default_factory=dict)
    chance: float | None = None

    @property
    def change(self) -> Vector64:
        """Return |embedding| - |corpus| of each word."""
        return np.abs(self.embedding) - np.abs(self.corpus)

    def summary(self, seed: int = 0) -> GroupSummary:
        """Return the means of the absolute values, the mean change with its interval over words, and two tests."""
        if len(self.words) < 2:
            return GroupSummary(
                corpus=None,
                embedding=None,
                change=None,
                interval=None,
                t_test=None,
                wilcoxon=None,
                correlation=None,
            )
        change = self.change
        from scipy.stats import ttest_1samp, wilcoxon

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # scipy 1.13 warns of ten values or fewer with ties
            signed_rank_p = float(wilcoxon(change).pvalue)
        return {
            "corpus": float(np.abs(self.corpus).mean()),
            "embedding": float(np.abs(self.embedding).mean()),
            "change": float(change.mean()),
            "interval": percentile_interval(lambda rows: change[rows].mean(axis=1), len(change), seed=seed),
            "t_test": float(ttest_1samp(change, 0.0).pvalue),
            "wilcoxon": signed_rank_p,
            "correlation": float(np.corrcoef(self.corpus, self.embedding)[0, 1]),
        }

    def values(self, word: str) -> tuple[float, float, float] | None:
        """Return text, vectors and change of one word, or None if it has no value."""
        if word not in self.words:
            return None
        row = self.words.index(word)
        return float(self.corpus[row]), float(self.embedding[row]), float(self.change[row])


@dataclass(frozen=True, eq=False)
class GenderednessComparison:
    """The groups, the constants, and the pairs found in the text and in the vectors."""

    groups: Mapping[str, GenderednessGroup]
    constants: Constants
    pairs: tuple[tuple[str, str], ...]


def compare(
    counts: Cooccurrence,
    vectors: Vectors,
    *,
    settings: GenderednessSettings | None = None,
    extra: Mapping[str, tuple[str, ...]] | None = None,
    seed: int = 0,
) -> GenderednessComparison:
    """Return both values of every word of the three groups, and of `extra` groups.

    g = <w, x - y> / |x - y| in the vectors and equation 7 in the text, averaged over the pairs, male word first.
    """
    settings = settings or GenderednessSettings()
    pairs = usable_pairs(counts, vectors, named_pairs(settings.pairs))
    constants = estimate_constants(counts, vectors, pairs, alpha=settings.alpha, lambda_=settings.lambda_)
    both = _Both(counts, vectors, pairs, constants, settings)
    groups = {
        name: both.group(name, words, seed) for name, words in {**listed_words(settings), **(extra or {})}.items()
    }
    neutral = neutral_words(counts, vectors, pairs, settings, constants, seed)
    groups["neutral"] = both.group("neutral", neutral, seed)
    return GenderednessComparison(groups, constants, pairs.pairs)


def usable_pairs(counts: Cooccurrence, vectors: Vectors, pairs: Pairs) -> Pairs:
    """Return the pairs, male first, that co-occur in the text and are distinct in the vectors."""
    usable = []
    for male, female in dict.fromkeys(pairs.flipped()):
        known = all(word in counts.index and word in vectors for word in (male, female))
        if known and counts.count(male, female) > 0 and _distance(vectors, male, female) > 0:
            usable.append((male, female))
    if not usable:
        raise VocabularyError(f"no pair of {pairs.name} is in the counts and in {vectors.name}", hint="give more text")
    return Pairs(pairs.name, usable, pairs.flipped().poles)


def estimate_constants(
    counts: Cooccurrence, vectors: Vectors, pairs: Pairs, *, alpha: float | None = None, lambda_: float | None = 1.0
) -> Constants:
    """Return alpha and lambda as passed, or fitted to the pairs where None."""
    cspmi = np.array([counts.cspmi(*two) for two in pairs])
    distances = np.array([_distance(vectors, *two) for two in pairs])
    if alpha is None:
        return fit_constants(cspmi, distances, lambda_=lambda_)
    room = np.maximum(alpha - cspmi, 0)
    slope = 1 / np.sqrt(lambda_) if lambda_ else (distances @ np.sqrt(room)) / room.sum()
    error = np.sqrt(((distances - slope * np.sqrt(room)) ** 2).mean())
    return Constants(float(alpha), float(slope**-2), float(error), len(cspmi))


def listed_words(settings: GenderednessSettings) -> dict[str, tuple[str, ...]]:
    """Return the words of the two lists; a word of both counts as appropriate."""
    appropriate, biased = (_words(pairs) for pairs in (settings.appropriate, settings.biased))
    excluded = () if settings.defining else _words(settings.pairs)
    return {
        "appropriate": tuple(word for word in appropriate if word not in excluded),
        "biased": tuple(word for word in biased if word not in appropriate),
    }


def neutral_words(
    counts: Cooccurrence,
    vectors: Vectors,
    pairs: Pairs,
    settings: GenderednessSettings,
    constants: Constants,
    seed: int,
) -> tuple[str, ...]:
    """Return random frequent alphabetic words that are on no list and have enough defined pairs."""
    excluded = {*_words(settings.pairs), *_words(settings.appropriate), *_words(settings.biased)}
    frequent = [word for word, n in zip(counts.words, counts.occurrences, strict=True) if n >= settings.frequent]
    pool = [word for word in frequent if word not in excluded and word in vectors and word.isalpha()]
    if not pool:
        raise DegenerateError(f"no neutral word occurs {settings.frequent} times in the text", hint="lower frequent")
    neutral: list[str] = []
    for row in np.random.default_rng(seed).permutation(len(pool)):
        (one,) = genderedness(
            counts,
            pool[row],
            pairs=pairs,
            alpha=constants.alpha,
            lambda_=constants.lambda_,
            min_pairs=settings.min_pairs,
            least=settings.least,
        )
        neutral += [one.word] if one.value is not None else []
        if len(neutral) == settings.neutral:
            break
    return tuple(neutral)


@dataclass(frozen=True, eq=False)
class _Both:
    """The text, the vectors, and the settings of their comparison."""

    counts: Cooccurrence
    vectors: Vectors
    pairs: Pairs
    constants: Constants
    settings: GenderednessSettings

    def group(self, name: str, words: tuple[str, ...], seed: int) -> GenderednessGroup:
        """Return both values of each word that has them."""
        known = [word for word in words if word in self.counts.index and word in self.vectors]
        constants, settings = self.constants, self.settings
        scores = genderedness(
            self.counts,
            known,
            pairs=self.pairs,
            alpha=constants.alpha,
            lambda_=constants.lambda_,
            min_pairs=settings.min_pairs,
            least=settings.least,
        )
        defined = [one for one in scores if one.value is not None]
        lost = {word: "too rare" for word in words if word not in known}
        lost |= {one.word: f"{len(one.by_pair)} pairs defined" for one in scores if one.value is None}
        names = tuple(one.word for one in defined)
        if not defined:
            return GenderednessGroup(name, (), np.empty(0), np.empty(0), lost)
        used = np.array([[two in one.by_pair or not settings.same_pairs for two in self.pairs] for one in defined])
        values = projections(self.vectors, names, self.pairs)
        embedding = (values * used).sum(axis=1) / used.sum(axis=1)
        corpus = np.array([one.value for one in defined], dtype=np.float64)
        chance = by_chance(
            self.counts,
            names,
            pairs=self.pairs,
            alpha=constants.alpha,
            lambda_=constants.lambda_,
            least=settings.least,
            seed=seed,
        )
        return GenderednessGroup(name, names, corpus, embedding, lost, chance)


def projections(vectors: Vectors, words: Iterable[str], pairs: Pairs) -> Matrix64:
    """Return <w, x - y> / |x - y| for each word and pair: (words, pairs)."""
    first, second = (vectors.take(side, case="exact")[0] for side in (pairs.first, pairs.second))
    rows, _ = vectors.take(words, case="exact")
    return np.asarray(rows @ unit_rows(first - second).T)


def _distance(vectors: Vectors, one: str, other: str) -> float:
    a, b = (vectors[word].astype(np.float64) for word in (one, other))
    distance = float(np.linalg.norm(a - b))
    return distance if distance > MIN_DISTANCE * float(np.linalg.norm(b)) else 0.0


def _words(pairs: Pairs | str) -> dict[str, None]:
    return dict.fromkeys(word for two in named_pairs(pairs) for word in two)


# PaperTable 2 as printed: genderedness in the corpus, in the embedding space, change of the absolute value.
PUBLISHED: Mapping[str, Mapping[str, tuple[float, float, float]]] = {
    "appropriate": {
        "mom": (-0.163, -0.648, 0.485),
        "dad": (0.125, 0.217, 0.092),
        "queen": (-0.365, -0.826, 0.462),
        "king": (0.058, 0.200, 0.142),
    },
    "biased": {
        "nurse": (-0.190, -1.047, 0.858),
        "doctor": (-0.135, -0.059, -0.077),
        "housekeeper": (-0.132, -0.927, 0.795),
        "architect": (-0.063, 0.162, 0.099),
    },
    "neutral": {
        "ballpark": (0.254, 0.050, -0.204),
        "calf": (-0.039, 0.027, -0.012),
        "hormonal": (-0.326, -0.551, 0.225),
        "speed": (0.036, -0.005, -0.031),
    },
}
# Number of words, mean of the absolute values, mean change and its p-value.
MEANS: Mapping[str, tuple[int, float, float, float, str]] = {
    "appropriate": (164, 0.231, 0.522, 0.291, "< .001"),
    "biased": (68, 0.253, 0.450, 0.197, "< .001"),
    "neutral": (200, 0.125, 0.119, -0.006, ".84"),
}
COLUMNS = (
    *("group", "word", "corpus (paper)", "corpus", "vectors (paper)", "vectors", "change (paper)", "change"),
    *("interval", "p (paper)", "p", "by chance"),
)
NOTES = (
    "Male is above 0, as in the table; the paper's footnote has the pairs the other way round. Means are those of "
    "absolute values; change is |vectors| - |corpus|, with a 95 % bootstrap interval over words and the p-value of a "
    "paired t-test (the paper does not name its test).",
    "By chance: a lower bound of the mean |genderedness| of neutral words in a text of this size.",
    "The paper's word lists are not released: equalize and SemBias pairs replace them, without the words of the "
    "defining pairs. Its text is a Wikipedia of unstated size and its training settings are not given.",
    "word2vec draws negatives from p^0.75, so products of word and context vectors reconstruct log p(w|x)/p(w|y) "
    "+ 0.25 log p(x)/p(y); only ns_exponent=1 gives the formula of the paper, which also assumes that context "
    "vectors are lambda times the word vectors.",
)


CorpusArgument: TypeAlias = str | Path | Iterable[str | Path]
Cell: TypeAlias = str | float | None
Row: TypeAlias = tuple[Cell, ...]


@dataclass(frozen=True)
class CatalogCorpus:
    """Reading and training options of a corpus of the catalog."""

    file: str
    reading: Mapping[str, object]
    training: Mapping[str, Any]


CORPORA: Mapping[str, CatalogCorpus] = {
    "enwik8": CatalogCorpus("enwik8", {"format": "mediawiki"}, {"min_count": 10, "epochs": 5}),
    # Small, so more epochs; each paragraph is a document because the file does not mark the ends of articles.
    "wikitext-2": CatalogCorpus("train.txt", {"documents": "line"}, {"min_count": 5, "epochs": 10}),
}


def table_2(
    corpus: CorpusArgument,
    vectors: Vectors | None = None,
    *,
    settings: GenderednessSettings | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    **training: Any,
) -> PaperTable:
    """Return table 2 for a text and SGNS vectors trained on it.

    Args:
        corpus: an id of the catalog (enwik8, wikitext-2), files, or counts written by `evenhand corpus cooccur`.
        vectors: vectors trained on that text; None trains them (needs gensim, takes minutes).
        settings: lists, constants and thresholds.
        seed: seed of the training and of the choice of neutral words.
        progress: called with (done, total, description).
        training: options of `train_sgns`, including those of `Corpus` if the corpus is given as files.
    """
    counts, trained = prepare(corpus, vectors, seed=seed, progress=progress, **training)
    title = ", ".join(map(str, corpus)) if isinstance(corpus, (list, tuple)) else str(corpus)
    return as_table(examples(counts, trained, settings=settings, seed=seed), title=title, seed=seed)


def examples(
    counts: Cooccurrence, vectors: Vectors, *, settings: GenderednessSettings | None = None, seed: int = 0
) -> GenderednessComparison:
    """Return the three groups, and groups of the words printed in the paper, for which one defined pair suffices."""
    main = compare(counts, vectors, settings=settings, seed=seed)
    printed = {f"{group} (printed)": tuple(words) for group, words in PUBLISHED.items()}
    c = main.constants
    loose = replace(settings or GenderednessSettings(), alpha=c.alpha, lambda_=c.lambda_, min_pairs=1, neutral=1)
    words = compare(counts, vectors, settings=loose, extra=printed, seed=seed)
    return GenderednessComparison({**main.groups, **{name: words.groups[name] for name in printed}}, c, main.pairs)


def prepare(
    corpus: CorpusArgument,
    vectors: Vectors | None = None,
    *,
    seed: int = 0,
    progress: Progress | None = None,
    **training: Any,
) -> tuple[Cooccurrence, Vectors]:
    """Return counts and vectors of the text, with the same windows, minimum count and tokens."""
    if isinstance(corpus, (str, Path)) and Path(corpus).suffix == ".safetensors":
        if vectors is None:
            raise UsageError(f"{corpus} holds counts, on which SGNS cannot be trained", hint="give the vectors too")
        return Cooccurrence.load(corpus), vectors
    paths, options = resolve_corpus(corpus)
    options |= training
    if vectors is None:
        from evenhand.interop.gensim import train_sgns

        vectors = train_sgns(paths, **options, seed=seed, progress=progress).words
    trained = vectors.source.get("sgns", {}).get("params", {})
    names = ("documents", "field", "encoding_errors", "skip_bad", "tokenizer", "lower", "min_count", "window")
    same = {name: trained.get(name, options.get(name)) for name in names if name in trained or name in options}
    form = {"format": options["format"]} if "format" in options else {}
    return cooccurrence(paths, weighting="dynamic", progress=progress, **{"min_count": 10, **same, **form}), vectors


def resolve_corpus(corpus: CorpusArgument) -> tuple[CorpusArgument, dict[str, Any]]:
    """Return the files of a catalog id or of paths, with their reading and training options."""
    names = [corpus] if isinstance(corpus, (str, Path)) else list(corpus)
    if len(names) != 1 or str(names[0]) not in catalog():
        return corpus, {}
    name = str(names[0])
    path = fetch(name)
    entry = CORPORA.get(name)
    if entry is None:
        return path, {}
    return (path if path.is_file() else path / entry.file), {**entry.reading, **entry.training}


def as_table(comparison: GenderednessComparison, *, title: str, seed: int = 0) -> PaperTable:
    """Return the comparison as the table of the paper, with the published values."""
    groups = comparison.groups
    rows = [row for name in MEANS for row in (*_printed(name, comparison), _mean(name, groups[name], seed))]
    c = comparison.constants
    used = ", ".join("/".join(two) for two in comparison.pairs)
    notes = (
        f"alpha {c.alpha:.3f}, lambda {c.lambda_:.3f} (paper: -1 and 1); root mean square error of |x - y| "
        f"{c.error:.3f} over {c.pairs} pairs: {used}.",
        *(_tests(name, groups[name], seed) for name in MEANS),
        *NOTES,
    )
    return PaperTable(
        f"Ethayarajh et al. 2019, table 2: genderedness in corpus and embedding, {title}", COLUMNS, tuple(rows), notes
    )


def _printed(name: str, comparison: GenderednessComparison) -> list[Row]:
    rows: list[Row] = []
    for word, paper in PUBLISHED[name].items():
        computed = comparison.groups[f"{name} (printed)"].values(word) or (None, None, None)
        beside = [value for two in zip(paper, computed, strict=True) for value in two]
        rows.append((name, word, *beside, "", "", None, None))
    return rows


def _mean(name: str, group: GenderednessGroup, seed: int) -> Row:
    n, corpus, embedding, change, p = MEANS[name]
    summary = group.summary(seed)
    low_high = summary["interval"]
    interval = f"{low_high[0]:.3f} to {low_high[1]:.3f}" if low_high else ""
    label = f"mean of {len(group.words)} ({n} in the paper)"
    cells = (corpus, summary["corpus"], embedding, summary["embedding"], change, summary["change"])
    return (name, label, *cells, interval, p, summary["t_test"], group.chance)


def _tests(name: str, group: GenderednessGroup, seed: int) -> str:
    summary = group.summary(seed)
    if summary["change"] is None:
        return f"{name}: {len(group.words)} words with a value, too few to compare; {len(group.lost)} lost."
    return (
        f"{name}: Wilcoxon p {summary['wilcoxon']:.3g}, correlation of corpus and vectors "
        f"{summary['correlation']:.2f}, {len(group.lost)} words lost (too rare, or too few pairs defined)."
    )


WITHOUT_CORPUS = (
    "Computing this needs a text and minutes: --corpus enwik8, --corpus wikitext-2 or files of your own. "
    "The recorded numbers are shown."
)


def gendered_words(item: PaperItem, inputs: PaperInputs) -> list[Series] | str:
    """Return table 2 of Ethayarajh et al. for a text and vectors of it."""
    if inputs.corpus is None:
        return WITHOUT_CORPUS
    vectors = inputs.only_vectors(item) if inputs.vectors else None
    corpus = inputs.corpus if isinstance(inputs.corpus, str) else list(inputs.corpus)
    table = table_2(corpus, vectors, seed=inputs.seed, progress=inputs.progress)
    return [Series(f"SGNS on {corpus}", genderedness_values(table), table=table)]


def genderedness_values(table: PaperTable) -> dict[Key, Estimate]:
    """Return the numbers of table 2 by group, word and column; the mean change has its interval over words."""
    values: dict[Key, Estimate] = {}
    for row in table.to_dict()["rows"]:
        word = "mean" if row["word"].startswith("mean of") else row["word"]
        for column, name in (("corpus", "corpus"), ("embedding", "vectors"), ("change", "change")):
            if row[name] is not None:
                bounds = re.findall(r"-?[\d.]+", row["interval"] or "") if name == "change" else []
                interval = (float(bounds[0]), float(bounds[1])) if bounds else None
                values[f"{row['group']}: {word}", column] = Estimate(row[name], given=interval)
    return values
