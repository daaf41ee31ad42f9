"""Language models: the word-level AWD-LSTM, causal models of `transformers`, likelihoods, and a bias regulariser.

Names are imported on first use, so that importing the package does not load torch. Measures of generated text belong in
`corpus`.
"""

from evenhand.errors import require
from evenhand.registry import lazy_attribute, stub_names

_PUBLIC = stub_names(__name__, __file__)
WITHOUT_TORCH = ("LMCorpus", "LMSettings", "Likelihood", "TextScores", "TokenVocabulary", "settings_of")
__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> object:
    if name in _PUBLIC and name not in WITHOUT_TORCH:
        require("torch", extra="models")
    if name == "BiasRegulariserCallback":
        require("transformers", extra="models")
    return globals().setdefault(name, lazy_attribute(__name__, _PUBLIC, name))
