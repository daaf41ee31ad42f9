"""Bias in text: readers and tokenisers, scores from co-occurrence with groups of words, and co-occurrence matrices.

Everything streams: memory grows with the number of distinct words, not with the length of the text.
"""

from evenhand.corpus.beta import Beta
from evenhand.corpus.bias import bias
from evenhand.corpus.chance import by_chance
from evenhand.corpus.constants import Constants, fit_constants
from evenhand.corpus.cooccurrence import Cooccurrence, cooccurrence
from evenhand.corpus.genderedness import Genderedness, genderedness
from evenhand.corpus.readers import Corpus, Texts
from evenhand.corpus.result import Baseline, CorpusBias
from evenhand.corpus.stopwords import ENGLISH

__all__ = [
    "ENGLISH",
    "Baseline",
    "Beta",
    "Constants",
    "Cooccurrence",
    "Corpus",
    "CorpusBias",
    "Genderedness",
    "Texts",
    "bias",
    "by_chance",
    "cooccurrence",
    "fit_constants",
    "genderedness",
]
