"""Bias in text: readers and tokenisers, scores from co-occurrence with groups of words, and co-occurrence matrices.

Everything streams: memory grows with the number of distinct words, not with the length of the text.
"""

from evenhand.corpus.beta import Beta
from evenhand.corpus.bias import CorpusOptions, bias, score_corpus
from evenhand.corpus.comparison import Comparison, against_training, compare, compare_corpora
from evenhand.corpus.cooccurrence import Cooccurrence, cooccurrence
from evenhand.corpus.counting.tokens import ENGLISH
from evenhand.corpus.genderedness import Constants, Genderedness, by_chance, fit_constants, genderedness
from evenhand.corpus.readers import Corpus, Texts
from evenhand.corpus.result import Baseline, CorpusBias

__all__ = [
    "ENGLISH",
    "Baseline",
    "Beta",
    "Comparison",
    "Constants",
    "Cooccurrence",
    "Corpus",
    "CorpusBias",
    "CorpusOptions",
    "Genderedness",
    "Texts",
    "against_training",
    "bias",
    "by_chance",
    "compare",
    "compare_corpora",
    "cooccurrence",
    "fit_constants",
    "genderedness",
    "score_corpus",
]
