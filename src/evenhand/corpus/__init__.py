"""Bias in text: readers and tokenisers, scores from co-occurrence with groups of words, and co-occurrence matrices.

Everything streams: memory grows with the number of distinct words, not with the length of the text.
"""

from evenhand.corpus.beta import Beta
from evenhand.corpus.bias import bias
from evenhand.corpus.cooccurrence import Cooccurrence, cooccurrence
from evenhand.corpus.genderedness import Genderedness, genderedness
from evenhand.corpus.readers import Corpus, Texts
from evenhand.corpus.result import Baseline, CorpusBias
from evenhand.corpus.stopwords import ENGLISH

__all__ = [
    "ENGLISH",
    "Baseline",
    "Beta",
    "Cooccurrence",
    "Corpus",
    "CorpusBias",
    "Genderedness",
    "Texts",
    "bias",
    "cooccurrence",
    "genderedness",
]
