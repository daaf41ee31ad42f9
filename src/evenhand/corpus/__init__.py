"""Bias in text: readers and tokenisers, scores from co-occurrence with groups of words, and co-occurrence matrices.

Everything streams: memory grows with the number of distinct words, not with the length of the text.
"""

from evenhand.corpus.beta import Beta
from evenhand.corpus.bias import bias
from evenhand.corpus.chance import by_chance
from evenhand.corpus.comparison import Comparison, compare
from evenhand.corpus.constants import Constants, fit_constants
from evenhand.corpus.cooccurrence import Cooccurrence, cooccurrence
from evenhand.corpus.genderedness import Genderedness, genderedness
from evenhand.corpus.generated import against_training
from evenhand.corpus.readers import Corpus, Texts
from evenhand.corpus.result import Baseline, CorpusBias
from evenhand.corpus.stopwords import ENGLISH

__all__ = [
    "ENGLISH",
    "Baseline",
    "Beta",
    "Comparison",
    "Constants",
    "Cooccurrence",
    "Corpus",
    "CorpusBias",
    "Genderedness",
    "Texts",
    "against_training",
    "bias",
    "by_chance",
    "compare",
    "cooccurrence",
    "fit_constants",
    "genderedness",
]
