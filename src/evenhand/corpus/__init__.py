"""Bias in text: readers and tokenisers, scores from co-occurrence with groups of words, and co-occurrence matrices.

Everything streams: memory grows with the number of distinct words, not with the length of the text.
"""

from evenhand.corpus.bias import bias, score_corpus
from evenhand.corpus.comparison import Comparison, compare, compare_corpora
from evenhand.corpus.cooccurrence.counts import Cooccurrence, cooccurrence
from evenhand.corpus.cooccurrence.cspmi_fit import Constants, fit_constants
from evenhand.corpus.cooccurrence.genderedness import Genderedness, by_chance, genderedness
from evenhand.corpus.counting.vocabulary import ENGLISH
from evenhand.corpus.generated import against_training
from evenhand.corpus.options import CorpusOptions
from evenhand.corpus.readers import Corpus, Texts
from evenhand.corpus.result import Baseline, CorpusBias
from evenhand.corpus.scores.beta import Beta

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
