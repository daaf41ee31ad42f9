"""The populations of scripts/interval_coverage.py: for each kind of interval, samples with a known true value."""

import zlib
from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr
from scipy.stats import spearmanr

from evenhand.measures.association import mweat, rnsb
from evenhand.measures.geometry import separability
from evenhand.measures.inference.pair_statistics import draw_weights
from evenhand.measures.inference.seeds import spread_of
from evenhand.measures.likelihood.scoring import clustered_interval as interval_by_cluster
from evenhand.measures.likelihood.stereoset import TermTable
from evenhand.measures.quality import retention
from evenhand.measures.quality.rated_sets import rank_interval
from evenhand.measures.sentences import seat
from evenhand.stats import (
    clustered_interval,
    contrast_interval,
    interaction_test,
    interval,
    jackknife_interval,
    mean_interval,
    pearson,
    share_interval,
)

TRUTH = 2_000_000  # draws of a population whose value has no formula

Generator = np.random.Generator
Array = np.ndarray
Bounds = tuple[float, float] | None
Case = Callable[[Generator], tuple[Bounds, float]]  # draws a sample; returns its interval and the true value


class Cell(NamedTuple):
    """A population and a size, and whether the interval is meant to cover there (or is known to fail)."""

    population: str
    size: str
    case: Case
    fails: bool = False


FAMILIES: dict[str, Callable[[Generator, int], Array]] = {  # mean 0
    "normal": lambda rng, n: rng.standard_normal(n),
    "absolute values": lambda rng, n: np.abs(rng.standard_normal(n)) - (2 / np.pi) ** 0.5,
    "exponential": lambda rng, n: rng.exponential(size=n) - 1,
    "t, 5 degrees": lambda rng, n: rng.standard_t(5, size=n),
    "shares near 1": lambda rng, n: rng.beta(8, 1, size=n) - 8 / 9,
    "uniform": lambda rng, n: rng.random(n) - 0.5,
}
SIZES = (8, 20, 50, 300)


_TRUTHS: dict[str, float] = {}


def _expected(name: str, value: Callable[[Generator], float]) -> float:
    """Return the true value of a population, from many draws; computed once."""
    if name not in _TRUTHS:
        _TRUTHS[name] = value(np.random.default_rng(zlib.crc32(name.encode())))
    return _TRUTHS[name]


def means() -> Iterator[Cell]:
    """Means of values of words: rnd, mac, same, ripa, direct-bias, indirect-bias, midb, proximity-bias, retention."""
    for name, draw in FAMILIES.items():
        for n in SIZES:
            yield Cell(name, f"{n}", lambda rng, n=n, draw=draw: (mean_interval(draw(rng, n)), 0.0))
    for n in SIZES:
        yield Cell(
            "two clusters", f"{n}",
            lambda rng, n=n: (mean_interval(0.25 * rng.standard_normal(n) + rng.choice([-1, 1], n)), 0.0), n < 50,
        )  # fmt: skip
    for name in ("normal", "absolute values"):
        for n in (3, 5):
            yield Cell(name, f"{n}", lambda rng, n=n, draw=FAMILIES[name]: (mean_interval(draw(rng, n)), 0.0), n == 3)


def shares() -> Iterator[Cell]:
    """Shares of cases and of words: crows-pairs, aul, aula, recoverability."""
    for p in (0.5, 0.8, 0.95):
        for n in SIZES:
            few = n * (1 - p) < 1.5
            yield Cell(
                f"{100 * p:.0f} %", f"{n}",
                lambda rng, n=n, p=p: (share_interval((rng.random(n) < p).astype(float)), p), few,
            )  # fmt: skip
    for n in (50, 300, 1000):  # the accuracy of each word over ten splits
        yield Cell(
            "accuracy by word",
            f"{n}",
            lambda rng, n=n: (share_interval(rng.binomial(10, rng.beta(6, 1, n)) / 10), 6 / 7),
        )


def weighted_means() -> Iterator[Cell]:
    """Weighted means: gipe."""

    def draw(rng: Generator, n: int) -> Array:
        weights = rng.gamma(1.0, size=n)
        values = rng.beta(1 + weights, 4)
        return np.stack([weights * values, weights], axis=1)

    truth = _expected("weighted", lambda rng: float(np.divide(*draw(rng, TRUTH).sum(axis=0))))
    for n in SIZES:
        yield Cell(
            "weights with skewness 2", f"{n}",
            lambda rng, n=n: (jackknife_interval(lambda s: s[:, 0] / s[:, 1], draw(rng, n), limits=(0, 1)), truth),
            n <= 20,
        )  # fmt: skip


def set_sums() -> Iterator[Cell]:
    """Sums and differences of means of sets: generalised-weat, nli-groups."""
    for name in ("normal", "absolute values", "t, 5 degrees"):
        for n, m in ((8, 8), (20, 20), (8, 50), (50, 300)):
            yield Cell(
                f"difference, {name}, sd ratio 2", f"{n} + {m}",
                lambda rng, n=n, m=m, draw=FAMILIES[name]: (
                    contrast_interval([2 * draw(rng, n), draw(rng, m)], [1.0, -1.0]), 0.0,
                ),
            )  # fmt: skip
        yield Cell(
            f"sum of five sets, {name}", "5 x 8",
            lambda rng, draw=FAMILIES[name]: (contrast_interval([draw(rng, 8) for _ in range(5)]), 0.0),
        )  # fmt: skip


def interactions() -> Iterator[Cell]:
    """Effects of a two-way table: interaction, sentence-interaction."""
    for name in ("normal", "absolute values"):
        for n in (8, 20):
            for effect in (0.0, 1.0):
                deviation = 1.0 if name == "normal" else (1 - 2 / np.pi) ** 0.5

                def case(rng: Generator, n: int = n, effect: float = effect, name: str = name, sd: float = deviation):
                    cells = [[FAMILIES[name](rng, n) / sd for _ in range(2)] for _ in range(2)]
                    cells[0][0] = cells[0][0] + 4 * effect
                    return interaction_test(cells, samples=1).intervals[0][0], effect

                yield Cell(f"{name}, effect {effect:g}", f"2 x 2 x {n}", case)


def correlations() -> Iterator[Cell]:
    """Pearson's correlation: neighbours, occupation-share, pronoun-share, winogender."""

    def draw(rng: Generator, n: int, r: float, heavy: bool) -> tuple[Array, Array]:
        z = rng.standard_normal((2, n)) * (np.sqrt(5 / rng.chisquare(5, n)) if heavy else 1)
        return z[0], r * z[0] + (1 - r * r) ** 0.5 * z[1]

    for heavy in (False, True):
        for r in (0.0, 0.5, 0.9):
            for n in SIZES:
                yield Cell(
                    f"r = {r:g}{', t with 5 degrees' if heavy else ''}", f"{n}",
                    lambda rng, n=n, r=r, heavy=heavy: (pearson(*draw(rng, n, r, heavy)).interval, r),
                )  # fmt: skip


def rank_correlations() -> Iterator[Cell]:
    """Spearman's correlation, percentile bootstrap: ect, similarity, neighbours, occupation-share, pronoun-share."""
    for r in (0.0, 0.5, 0.9):
        truth = 6 / np.pi * float(np.arcsin(r / 2))
        for n in (20, 50):

            def case(rng: Generator, n: int = n, r: float = r, truth: float = truth) -> tuple[Bounds, float]:
                z = rng.standard_normal((2, n))
                return rank_interval(z[0], r * z[0] + (1 - r * r) ** 0.5 * z[1], seed=int(rng.integers(1 << 31))), truth

            yield Cell(f"rho = {truth:.2f}", f"{n}", case)


def sentence_pairs() -> Iterator[Cell]:
    """Rank correlation of the cosines of all pairs of sentences, before and after: sentence-retention."""
    changes: dict[str, Callable[[Generator, Array], Array]] = {
        "one of 20 dimensions removed": lambda _, x: x * (np.arange(x.shape[1]) > 0),
        "six of 20 dimensions removed": lambda _, x: x * (np.arange(x.shape[1]) > 5),
        "noise of the same size": lambda rng, x: x + rng.standard_normal(x.shape),
    }

    def both(change: Callable[[Generator, Array], Array], rng: Generator, count: int) -> list[Array]:
        before = rng.standard_normal((count, 20)) * np.linspace(2, 0.5, 20)  # sentences vary more in some directions
        units = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (change(rng, before), before))
        return [unit @ unit.T for unit in units]

    for name, change in changes.items():
        truth = _expected(
            f"sentence pairs, {name}", lambda rng, change=change: _rank_correlation(*both(change, rng, 2000))
        )
        for count in (20, 40):

            def case(rng: Generator, change=change, count=count, truth=truth) -> tuple[Bounds, float]:
                return retention.sentence_interval(*both(change, rng, count), seed=0), truth

            yield Cell(name, str(count), case, count == 20)  # too narrow or too wide for few sentences


def _rank_correlation(now: Array, before: Array) -> float:
    upper = np.triu_indices(len(now), 1)
    return float(spearmanr(now[upper], before[upper]).statistic)


def slopes() -> Iterator[Cell]:
    """Slopes: pronoun-share."""
    from evenhand.measures.likelihood.pronoun_share import _slope_interval

    for n in (20, 40, 300):

        def case(rng: Generator, n: int = n) -> tuple[Bounds, float]:
            x = rng.random(n)
            return _slope_interval(x, 0.3 * x + (0.05 + 0.1 * x) * rng.standard_normal(n)), 0.3

        yield Cell("spread grows with x", f"{n}", case)


def divergences() -> Iterator[Cell]:
    """Unevenness of the negative class over words: rnsb."""
    for a, b in ((2, 5), (5, 2), (20, 20)):
        truth = _expected(
            f"rnsb {a} {b}",
            lambda rng, a=a, b=b: float(rnsb.divergences(rng.beta(a, b, (1, TRUTH)), np.arange(TRUTH)[None])[0, 0]),
        )
        for n in (8, 16, 60, 300):
            yield Cell(
                f"P from Beta({a}, {b})", f"{n}",
                lambda rng, n=n, a=a, b=b, truth=truth: (rnsb._interval(rng.beta(a, b, (1, n))), truth),
            )  # fmt: skip


def _crossed(rng: Generator, rows: int, columns: int, effects: tuple[float, float], mean: float) -> Array:
    a, b = (sd * rng.standard_normal(n) for sd, n in zip(effects, (rows, columns), strict=True))
    return mean + a[:, None] + b + rng.standard_normal((rows, columns))


@cache
def _labels(rows: int, columns: int) -> list[list[int]]:
    return np.indices((rows, columns)).reshape(2, -1).tolist()


def crossed_shares() -> Iterator[Cell]:
    """Shares by two kinds of clusters: sembias, bat, the flip rate of counterfactual."""
    for effects in ((0.5, 0.5), (1.0, 0.2), (0.05, 0.05)):
        for mean in (0.0, 1.0, 2.0):
            truth = float(ndtr(mean / (1 + effects[0] ** 2 + effects[1] ** 2) ** 0.5))
            for rows, columns in ((8, 8), (22, 20), (10, 60)):
                yield Cell(
                    f"{100 * truth:.0f} %, sd of clusters {effects[0]:g} and {effects[1]:g}", f"{rows} x {columns}",
                    lambda rng, rows=rows, columns=columns, effects=effects, mean=mean, truth=truth: (
                        clustered_interval(
                            (_crossed(rng, rows, columns, effects, mean) > 0).ravel().astype(float),
                            _labels(rows, columns), share=True,
                        ), truth,
                    ), mean == 2.0 and (min(rows, columns) == 8 or effects[0] > 0.1),
                )  # fmt: skip


def crossed_means() -> Iterator[Cell]:
    """Means by two kinds of clusters: counterfactual, counterfactual-text, retrieval-skew."""
    for effects in ((0.5, 0.5), (1.0, 0.2), (0.05, 0.05)):
        for rows, columns in ((8, 20), (22, 20), (10, 60)):
            yield Cell(
                f"sd of clusters {effects[0]:g} and {effects[1]:g}", f"{rows} x {columns}",
                lambda rng, rows=rows, columns=columns, effects=effects: (
                    clustered_interval(_crossed(rng, rows, columns, effects, 0.0).ravel(), _labels(rows, columns)), 0.0,
                ),
            )  # fmt: skip


def _clustered(rng: Generator, count: int, largest: int, mean: float, effect: float) -> tuple[Array, Array]:
    sizes = rng.integers(1, largest + 1, size=count)
    codes = np.repeat(np.arange(count), sizes)
    return codes, mean + effect * rng.standard_normal(count)[codes] + rng.standard_normal(len(codes))


def cluster_shares() -> Iterator[Cell]:
    """Shares by one kind of cluster: analogy, honest, winobias, winogender, bbq, holistic-bias, stereoset (lms, ss)."""
    for mean, effect in ((0.0, 0.7), (1.0, 0.7), (2.0, 0.7)):
        truth = float(ndtr(mean / (1 + effect**2) ** 0.5))
        for count in (10, 20, 40, 300):

            def case(
                rng: Generator, count: int = count, mean: float = mean, effect: float = effect, truth: float = truth
            ) -> tuple[Bounds, float]:
                codes, values = _clustered(rng, count, 12, mean, effect)
                columns = [(values > 0).astype(float), np.ones(len(values))]
                return interval_by_cluster(columns, codes.tolist(), lambda s: s[:, 0] / s[:, 1], share_of=1.0), truth

            yield Cell(f"{100 * truth:.0f} %, 1 to 12 cases each", f"{count}", case, count == 10 and mean == 2.0)


def cluster_gaps() -> Iterator[Cell]:
    """Differences of two shares by cluster: the gaps of honest, winobias and winogender, the bias score of bbq."""
    for mean in (0.0, 1.0):
        truth = float(ndtr((mean + 0.3) / 1.49**0.5) - ndtr(mean / 1.49**0.5))
        for count in (10, 20, 40, 300):

            def case(
                rng: Generator, count: int = count, mean: float = mean, truth: float = truth
            ) -> tuple[Bounds, float]:
                codes, values = _clustered(rng, count, 12, mean, 0.7)
                first = rng.random(len(values)) < 0.5
                hits = (values + 0.3 * first > 0).astype(float)
                columns = [hits * first, first.astype(float), hits * ~first, (~first).astype(float)]
                return interval_by_cluster(
                    columns, codes.tolist(), lambda s: s[:, 0] / s[:, 1] - s[:, 2] / s[:, 3], limits=(-1, 1)
                ), truth

            yield Cell(f"gap {truth:.2f}", f"{count}", case)


def stereoset_scores() -> Iterator[Cell]:
    """Scores over target terms: stereoset."""
    for lean in (0.0, 0.4):

        def draw(rng: Generator, terms: int, lean: float = lean) -> TermTable:
            counts = rng.integers(10, 40, size=terms)
            related = rng.binomial(2 * counts, rng.beta(16, 4, terms)) / 2
            stereotypes = rng.binomial(counts, ndtr(lean + 0.4 * rng.standard_normal(terms)))
            return TermTable(tuple(map(str, range(terms))), counts.astype(float), related, stereotypes.astype(float))

        shares = 80.0, 100 * float(ndtr(lean / 1.16**0.5))
        truths = (*shares, shares[0] * min(shares[1], 100 - shares[1]) / 50)
        for terms in (20, 80):
            for number, score in enumerate(("lms", "ss", "icat")):
                yield Cell(
                    f"{score}, ss = {shares[1]:.0f}", f"{terms}",
                    lambda rng, terms=terms, number=number, draw=draw, truth=truths[number]: (
                        draw(rng, terms).interval(number, "term-mean"), truth,
                    ),
                )  # fmt: skip


def perplexities() -> Iterator[Cell]:
    """Perplexity of lines: perplexity."""
    for n in (8, 20, 50, 300):

        def case(rng: Generator, n: int = n) -> tuple[Bounds, float]:
            words = rng.integers(4, 40, size=n).astype(float)
            logs = -words * (4 + 0.5 * rng.standard_normal(n)) + 2 * words**0.5 * rng.standard_normal(n)
            columns = np.stack([logs, words], axis=1)
            return jackknife_interval(lambda s: np.exp(-s[:, 0] / s[:, 1]), columns, scale="log"), float(np.exp(4))

        yield Cell("lines of 4 to 39 words", f"{n}", case)


def inference_draws() -> Iterator[Cell]:
    """Pigeonhole bootstrap over verbs, objects and words: nli-neutrality, nli-gap, mab."""
    for label, effects in (("verbs", (1.0, 0.5, 0.5)), ("words", (0.2, 0.2, 1.0)), ("equal", (0.5, 0.5, 0.5))):
        for words in (25, 164):
            sizes = (27, 20, words)

            def case(rng: Generator, sizes: tuple[int, ...] = sizes, effects: tuple[float, ...] = effects):
                parts = [sd * rng.standard_normal(n) for sd, n in zip(effects, sizes, strict=True)]
                noise = rng.standard_normal(sizes)
                values = parts[0][:, None, None] + parts[1][:, None] + parts[2] + noise
                seeds = np.random.SeedSequence(int(rng.integers(1 << 31))).spawn(3)
                weights = [draw_weights(n, 500, seed) / n for n, seed in zip(sizes, seeds, strict=True)]
                drawn = np.einsum(
                    "dbc,db,dc->d", np.tensordot(weights[0], values, 1), weights[1], weights[2], optimize=True
                )
                return interval(drawn), 0.0

            yield Cell(f"mostly {label}" if label != "equal" else "equal parts", f"27 x 20 x {words}", case)


def seed_spreads() -> Iterator[Cell]:
    """Means over models of several training seeds and over words: nli measures with several models."""
    for models in (3, 5):
        for seeds in (0.05, 0.2):

            def case(rng: Generator, models: int = models, seeds: float = seeds) -> tuple[Bounds, float]:
                words, noise = rng.standard_normal(40), 0.3 * rng.standard_normal((models, 40))
                values = words + noise + seeds * rng.standard_normal((models, 1))
                weights = draw_weights(40, 500, np.random.SeedSequence(int(rng.integers(1 << 31)))) / 40
                means = values.mean(axis=1).tolist()
                return spread_of(means, values @ weights.T, (-10.0, 10.0)).interval, 0.0

            yield Cell(f"sd of seeds {seeds:.2f}, of words 0.16", f"{models} models, 40 words", case)


def agreements() -> Iterator[Cell]:
    """Agreement of 2-means with the sides: clustering."""
    for p in (0.65, 0.95):
        for n in (100, 300):

            def case(rng: Generator, n: int = n, p: float = p) -> tuple[Bounds, float]:
                labels = np.repeat([0, 1], n // 2)
                right = rng.random(n) < p
                clusters = np.where(right, labels, 1 - labels)[None]
                return separability._interval(labels, clusters, "accuracy", int(rng.integers(1 << 31))), p

            yield Cell(f"{100 * p:.0f} %", f"{n}", case)


def form_differences() -> Iterator[Cell]:
    """Difference of the strengths of two grammatical forms: mweat."""
    for first, second in ((0.5, -0.2), (0.3, -0.3)):
        for n in (20, 58):

            def case(rng: Generator, n: int = n, first: float = first, second: float = second) -> tuple[Bounds, float]:
                shared = 0.5 * rng.standard_normal(n)
                values = [mean + shared + 0.4 * rng.standard_normal(n) for mean in (first, second)]
                return mweat.strength_interval(*values), abs(abs(first) - abs(second))

            equal = first == -second
            yield Cell("equal strengths" if equal else "difference 0.3", f"{n}", case)


def layer_means() -> Iterator[Cell]:
    """Mean |d| over layers: layer-bias."""
    for d in (0.3, 0.8, 1.4):
        for n in (8, 20):
            shift = d / (1 - d * d / 4) ** 0.5

            def case(rng: Generator, n: int = n, shift: float = shift, d: float = d) -> tuple[Bounds, float]:
                word = rng.standard_normal(2 * n)
                table = 0.8 * word + 0.6 * rng.standard_normal((6, 2 * n))
                table[:, :n] += shift
                return seat._interval(table, n), d

            yield Cell(f"d = {d:g}, 6 layers", f"{n} + {n}", case, d < 0.8 or (d < 1 and n == 8))


KINDS: dict[str, tuple[str, Callable[[], Iterator[Cell]]]] = {
    "mean": ("skewness-corrected t of a mean", means),
    "share": ("Wilson with effective size", shares),
    "weighted-mean": ("jackknife of a ratio", weighted_means),
    "set-sum": ("Welch's t, corrected for skewness", set_sums),
    "interaction": ("jackknife within cells", interactions),
    "pearson": ("jackknife on Fisher's z", correlations),
    "spearman": ("percentile bootstrap", rank_correlations),
    "sentence-pairs": ("percentile bootstrap over sentences", sentence_pairs),
    "slope": ("jackknife of a slope", slopes),
    "divergence": ("jackknife on the log scale", divergences),
    "crossed-share": ("Wilson, two-way clusters", crossed_shares),
    "crossed-mean": ("t with two-way clusters", crossed_means),
    "cluster-share": ("Wilson by cluster", cluster_shares),
    "cluster-gap": ("jackknife by cluster", cluster_gaps),
    "stereoset": ("jackknife over terms", stereoset_scores),
    "perplexity": ("jackknife over lines, log scale", perplexities),
    "pigeonhole": ("pigeonhole bootstrap, expanded by Student's t", inference_draws),
    "seeds": ("bootstrap of words plus t of seeds", seed_spreads),
    "agreement": ("percentile bootstrap", agreements),
    "form-difference": ("jackknife of the signed difference, folded", form_differences),
    "layers": ("jackknife within sets, Fisher's scale", layer_means),
}
