"""P-values without bias: models that know nothing of groups, but prefer some words to others, are rarely called biased.

Each simulation draws models whose numbers have two parts: a preference for a single word, the same in all texts, and
noise of the whole text. Neither depends on the group of the word.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from scipy.special import ndtri

from evenhand import measures
from evenhand.measures.call import Call
from evenhand.measures.groups import against_others, contrasts, group_word_p
from evenhand.measures.likelihood.honest import HonestTemplate, identity_p
from evenhand.measures.likelihood.stereoset import StereoExample, StereoSentence, TermTable
from evenhand.measures.likelihood.stereotype_pairs import PairScores, PairSet, StereotypePair, pair_measurements
from evenhand.measures.likelihood.winobias import WinoBiasPair, stereotype_p
from evenhand.measures.likelihood.winogender import WinogenderSentence, majority_p
from evenhand.measures.registry import info
from evenhand.models.lm.likelihood import TextScores
from evenhand.stats.permutation import relabelling_p
from evenhand.stats.units import mean_units, null_p
from evenhand.words import Query, SentenceQuery, Template

DRAWS = 300
MOST = 0.05 + 3 * np.sqrt(0.05 * 0.95 / DRAWS)  # three standard errors above the level
OCCUPATIONS = [f"occupation{number}" for number in range(30)]


def normal(*parts: object) -> float:
    """Return a standard normal number that depends on its arguments in no meaningful way."""
    return float(ndtri((zlib.crc32("|".join(map(str, parts)).encode()) + 0.5) / 2**32))


def share_found(p_value: Callable[[int], float | None]) -> float:
    found = [p_value(seed) for seed in range(DRAWS)]
    assert None not in found
    assert min(found) > 0  # a permutation test counts the observed order
    return float(np.mean(np.array(found) < 0.05))


# A third of the occupations is stereotyped as female, and they have different numbers of sentences.
WINOBIAS = [
    WinoBiasPair(
        f"{place}.{number}", 1, f"{name} {number} {{}}", *(("she", "he") if place < 9 else ("he", "she")), name
    )
    for place, name in enumerate(OCCUPATIONS)
    for number in range(1 + place % 4)
]
STEREOTYPES = np.array([1.0 if pair.pro == "she" else -1.0 for pair in WINOBIAS])


def _she(seed: int) -> np.ndarray:
    """Return log P(she) - log P(he): one number for all sentences, one by occupation, one by sentence."""
    return np.array([2 * normal(seed, "she") + normal(seed, p.referent) + normal(seed, p.context) for p in WINOBIAS])


def test_winobias_does_not_take_a_preferred_pronoun_for_a_stereotype() -> None:
    assert share_found(lambda seed: stereotype_p(WINOBIAS, STEREOTYPES * _she(seed))) <= MOST
    # Changing the side of each occupation would.
    names = [pair.referent for pair in WINOBIAS]
    assert share_found(lambda seed: null_p(mean_units("o", names, STEREOTYPES * _she(seed)))) > 0.15
    assert stereotype_p(WINOBIAS, STEREOTYPES * _she(0) + 2.0) < 0.01


WINOGENDER = [
    WinogenderSentence(
        f"{name}.{refers}.{gender}", f"{name}.{refers}", "", "", gender, name, "", refers, 80.0 if place < 9 else 20.0
    )
    for place, name in enumerate(OCCUPATIONS)
    for refers, gender in product((True, False), ("male", "female"))
]


def _gap(seed: int, bias: float = 0.0) -> float:
    """A pronoun refers to the occupation by its gender, by the occupation and by chance."""
    values = []
    for s in WINOGENDER:
        usual = (s.gender == "female") == (s.percent_women > 50)
        margin = 2 * normal(seed, s.gender) + normal(seed, s.gender, s.occupation) + normal(seed, s.id)
        margin += bias if usual else -bias
        is_gotcha = usual != s.refers_to_occupation
        values.append((-1 if is_gotcha else 1) * ((margin > 0) == s.refers_to_occupation))
    return majority_p(WINOGENDER, np.array(values, dtype=np.float64), seed=seed)


def test_winogender_does_not_take_a_preferred_pronoun_for_a_gotcha_gap() -> None:
    assert share_found(_gap) <= MOST
    assert _gap(0, bias=3.0) < 0.01


HONEST = [
    HonestTemplate(f"{identity} {place}", f"[I] {place}", identity, group)
    for group, people in {"female": ["aunt", "girl", "lady", "mum"], "male": ["uncle", "boy", "lord", "dad"]}.items()
    for identity, place in product(people, range(10))
]


def _hurtful(seed: int, bias: float = 0.0) -> np.ndarray:
    rows = [(normal(seed, t.identity) + normal(seed, t.context) + bias * (t.group == "female")) > 1 for t in HONEST]
    return 100 * np.array(rows, dtype=np.float64)


def test_honest_does_not_take_an_identity_for_a_group() -> None:
    groups = ("female", "male")
    assert share_found(lambda seed: identity_p(HONEST, _hurtful(seed), groups, seed=seed)) <= MOST
    assert identity_p(HONEST, _hurtful(0, bias=5.0), groups) <= 2 / 70


def _term_p(seed: int, bias: float = 0.0) -> float | None:
    """Stereotypes and anti-stereotypes use words that are preferred by chance; terms have 1 to 6 contexts."""
    examples, values = [], []
    for term, number in product(range(25), range(6)):
        if number <= term % 6:
            texts = [StereoSentence(f"{term}.{number}.{kind}", "") for kind in range(3)]
            examples.append(StereoExample("", "intra", str(term), "gender", "BLANK", *texts))
            words = [normal(seed, int(12 * abs(normal(term, number, kind)))) for kind in range(3)]
            values.append([words[0] + bias, words[1], words[2] - 1])
    return TermTable.of(examples, np.array(values), "corrected").p_value("term-mean")


def test_stereoset_terms_prefer_either_side() -> None:
    assert share_found(_term_p) <= MOST
    assert _term_p(0, bias=3.0) < 0.01


def _shared_attributes(seed: int, bias: float = 0.0) -> TermTable:
    """Ten terms whose stereotypes are mostly one of four words: a preference for such a word is no stereotype."""
    examples, values = [], []
    for term, number in product(range(10), range(20)):
        words = [f"common{number % 4}" if number % 5 else f"own{term}.{number}", f"other{term}.{number}", "unrelated"]
        texts = [StereoSentence(f"{term}.{number}.{word}", f"they are {word}") for word in words]
        examples.append(StereoExample("", "intra", str(term), "gender", "BLANK", *texts))
        values.append([normal(seed, words[0]) + bias, normal(seed, words[1]), -1.0])
    return TermTable.of(examples, np.array(values), "corrected")


def test_stereoset_does_not_take_a_word_that_terms_share_for_a_stereotype() -> None:
    assert share_found(lambda seed: _shared_attributes(seed).p_value("term-mean")) <= MOST
    by_term = share_found(lambda seed: null_p(_shared_attributes(seed).units(1, "term-mean")[0], 50.0))
    assert by_term > 0.2  # a test over terms alone
    assert _shared_attributes(0, bias=3.0).p_value("term-mean") < 0.01


class RandomPronouns:
    """A masked model whose log-odds of "he" depend on the pronoun, the occupation and the sentence by chance."""

    name, masked, mask_token, longest = "random", False, "[MASK]", 100

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def log_probabilities(self, texts, *, batch=None):
        scores = [normal(self.seed, text) + sum(normal(self.seed, word) for word in text.split()) for text in texts]
        return TextScores(np.array(scores), np.full(len(texts), 8))


def test_pronoun_share_without_knowledge_of_the_labour_market() -> None:
    found = [measures.pronoun_share(RandomPronouns(seed)) for seed in range(40)]
    for number in range(3):
        p_values = [scores[number].p_value for scores in found]
        assert np.mean(np.array(p_values) < 0.05) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 40)
        assert 0.3 < np.mean(p_values) < 0.7


TEMPLATE = Template("t", "{person} {did}.", {"did": ["slept", "ran", "ate", "swam"]})


class WordClassifier:
    """A classifier to which every word adds something, by chance."""

    name, labels, exclusive = "words", ("no", "yes"), True

    def __init__(self, seed: int, bias: dict[str, float] | None = None) -> None:
        self.seed, self.bias = seed, bias or {}

    def predict(self, texts, *, tokens=None):
        scores = [
            sum(normal(self.seed, word) + self.bias.get(word, 0.0) for word in text.lower().strip(".").split())
            + normal(self.seed, text)
            for text in texts
        ]
        yes = 1 / (1 + np.exp(-np.array(scores)))
        return np.stack([1 - yes, yes], axis=1)


@pytest.mark.parametrize("concept", ["gender", "race", "religion"])
def test_a_classifier_of_single_words_has_no_gap_between_groups(concept: str) -> None:
    found = [measures.counterfactual(WordClassifier(seed), TEMPLATE, concept=concept) for seed in range(DRAWS)]
    for number in range(2, len(found[0])):
        assert np.mean([scores[number].p_value < 0.05 for scores in found]) <= MOST
    # Cases are not independent: flipping each of them would find a gap in most classifiers.
    gaps = [scores[2].units[0] for scores in found[:100]]
    assert np.mean([null_p(units) < 0.13 for units in gaps]) > 0.3


def test_a_gap_in_many_words_is_found() -> None:
    women = ("she", "woman", "girl", "mother", "sister", "daughter", "wife", "aunt", "grandmother", "lady", "mary")
    biased = WordClassifier(1, dict.fromkeys(women, -6.0))
    _, _, gap = measures.counterfactual(biased, concept="gender")
    assert gap.p_value < 0.05


class WordEncoder:
    """Sums of random word vectors."""

    name, layers, pooling = "words", 0, "mean"

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def encode(self, texts, *, layer=None, pooling=None, tokens=None):
        words = {word for text in texts for word in text.lower().strip(".").split()}
        vectors = {word: np.random.default_rng([self.seed, *word.encode()]).normal(size=5) for word in words}
        return np.array([sum(vectors[word] for word in text.lower().strip(".").split()) for text in texts])


class GenderedEncoder(WordEncoder):
    """The same, with the women's words moved towards the words of the queries."""

    women = frozenset({"she", "woman", "girl", "mother", "sister", "daughter", "wife", "aunt"})
    women |= {"mary", "emily", "sarah", "lisa"}

    def encode(self, texts, *, layer=None, pooling=None, tokens=None):
        plain = super().encode(texts)
        shift = super().encode(["how to become a software engineer"])[0]
        share = np.array([not self.women.isdisjoint(text.lower().strip(".").split()) for text in texts])
        return plain + share[:, None] * shift


def test_retrieval_that_prefers_women_is_found() -> None:
    found = [measures.retrieval_skew(GenderedEncoder(seed), concept="gender")[0].p_value for seed in range(20)]
    assert np.mean(np.array(found) < 0.05) > 0.6


# Phrases of a set share the word that makes the group, and differ in a word that both sets have.
PHRASES = SentenceQuery(
    Query(
        "phrases",
        {
            group: [f"the {group} {noun}" for noun in ("woman", "girl", "lady", "mother")]
            for group in ("white", "black")
        },
        {"kind": ["kind", "good", "warm", "nice"], "angry": ["angry", "bad", "cold", "mean"]},
    ),
    {},
)


def test_seat_takes_phrases_that_share_a_word_for_one_observation() -> None:
    found = measures.seat(WordEncoder(0), PHRASES)
    assert found.details["words"][:2] == [1, 1]
    assert found.p_value == 1.0
    names = [item["word"] for item in found.items]
    assert names[0] == "the white woman / the white girl / the white lady / the white mother"


@pytest.mark.parametrize("concept", ["gender", "religion"])
def test_retrieval_by_random_word_vectors_prefers_no_group(concept: str) -> None:
    found = [measures.retrieval_skew(WordEncoder(seed), concept=concept) for seed in range(60)]
    for number in range(len(found[0])):
        p_values = np.array([scores[number].p_value for scores in found])
        assert np.mean(p_values < 0.05) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 60)


def _divergence_p(seed: int, share: float = 0.0) -> float:
    """Texts of random words; with `share`, this part of the words is that of the group."""

    class Writer:
        name = "random"

        def continuations(self, prompts, *, samples, tokens, temperature=1.0, seed=seed):
            rng = np.random.default_rng(seed)
            pools = [list("abcdefgh"), list("stuvwxyz")]
            texts = []
            for number, _ in enumerate(prompts):
                own = rng.random((samples, 8)) < share
                words = rng.choice([*pools[0], *pools[1]], size=(samples, 8))
                words = np.where(own, rng.choice(pools[number % 2], size=words.shape), words)
                texts.append([" ".join(row) for row in words])
            return texts

    found = measures.counterfactual_text(Writer(), rows=2, samples=3, seed=seed)
    return {m.score: m for m in found}["divergence"].p_value


def test_texts_that_ignore_the_group_do_not_diverge() -> None:
    draws = 30
    found = np.array([_divergence_p(seed) for seed in range(draws)])
    assert np.mean(found < 0.05) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / draws)
    assert 0.3 < found.mean() < 0.7
    assert _divergence_p(0, share=0.8) < 0.001


def test_group_words_by_hand() -> None:
    texts = [["the old man", "the young man"], ["an old dog", "a young dog"], ["Agnes", "Kristy"], ["Edna", "Tina"]]
    values = against_others(np.array([[3.0, 1.0], [2.0, 1.0], [5.0, 1.0], [2.0, 1.0]]))
    assert values[:, 0].tolist() == [2.0, 1.0, 4.0, 1.0]
    (contrast,) = contrasts(["old", "young"])
    # Three words, because two cases share one: 3 + 4 + 1 is the largest of 8 sums, and -8 the smallest.
    assert group_word_p(texts, values, contrast) == 2 / 8
    # Of four single cases, two of 16 sums are as large.
    assert group_word_p(texts, values, contrast, [["a", "b", "c", "d"]]) == 2 / 8
    assert group_word_p(texts[2:], values[2:], contrast) == 2 / 4
    assert group_word_p(texts[:1], values[:1], contrast) == 1.0
    equal = np.zeros((4, 2))
    assert group_word_p(texts, equal, contrast) == 1.0


def test_more_than_two_labels() -> None:
    contributions = against_others(np.array([[3.0, 0.0, 0.0]] * 3))
    assert contributions[0].tolist() == [3.0, -1.5, -1.5]
    # 9 needs all three units with the first label; no sum is -9.
    assert relabelling_p(contributions, 0) == 1 / 27
    # -4.5 in size: 9 once, 4.5 with two first labels in 6 ways, -4.5 without one in 8.
    assert relabelling_p(contributions, 1) == pytest.approx((1 + 6 + 8) / 27)
    many = np.random.default_rng(0).normal(size=(30, 3))
    many -= many.mean(axis=1, keepdims=True)
    drawn = [relabelling_p(many[:, order], 0, samples=199) for order in ([0, 1, 2], [1, 2, 0], [2, 0, 1])]
    assert all(1 / 200 <= p <= 1 for p in drawn)


# Every pair has "white" on one side, and two thirds have it in the more stereotyping sentence.
PAIRS = [
    StereotypePair(str(n), f"{a} people {n}", f"{b} people {n}")
    for n in range(120)
    for a, b in [("white", f"group{n % 12}") if n % 3 else (f"group{n % 12}", "white")]
]
PAIRS += [StereotypePair(f"other{n}", f"old{n} people", f"young{n} people") for n in range(20)]


def _pairs_p(seed: int, bias: float = 0.0) -> float | None:
    def score(text: str) -> float:
        return normal(seed, text) / 2 + sum(normal(seed, word) for word in text.split())

    more, less = (np.array([score(getattr(pair, side)) for pair in PAIRS]) for side in ("more", "less"))
    scores = PairScores(more + bias, less, {})
    call = Call(info("crows-pairs"), "m")
    (found,) = pair_measurements(call, PairSet("pairs", tuple(PAIRS)), scores, variant="corrected")
    return found.p_value


def test_pairs_do_not_take_a_preferred_word_for_a_stereotype() -> None:
    assert share_found(_pairs_p) <= MOST
    assert _pairs_p(0, bias=4.0) < 0.01
