"""Language models: the word-level AWD-LSTM, causal models of `transformers`, likelihoods, and a bias regulariser.

Names are imported on first use, so that importing the package does not load torch. Measures of generated text belong in
`corpus`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand.errors import require
from evenhand.registry import lazy_attribute

_PUBLIC = {
    "AWDLSTM": "awd_lstm",
    "BiasRegulariser": "regulariser",
    "BiasRegulariserCallback": "trainer_callback",
    "CausalLM": "causal",
    "LMCorpus": "corpus",
    "Likelihood": "likelihood",
    "LMSettings": "settings",
    "MaskedLM": "masked",
    "TextScores": "likelihood",
    "TokenVocabulary": "vocabulary",
    "TrainedLM": "model_folder",
    "WordLikelihood": "word_likelihood",
    "generate": "generation",
    "load": "model_folder",
    "perplexity": "word_likelihood",
    "save": "model_folder",
    "settings_of": "settings",
    "train": "training",
    "write_samples": "generation",
}
_LOCATIONS = {name: f".{module}:{name}" for name, module in _PUBLIC.items()}
WITHOUT_TORCH = ("corpus", "likelihood", "settings", "vocabulary", "word_likelihood")
__all__ = [
    "AWDLSTM",
    "BiasRegulariser",
    "BiasRegulariserCallback",
    "CausalLM",
    "LMCorpus",
    "LMSettings",
    "Likelihood",
    "MaskedLM",
    "TextScores",
    "TokenVocabulary",
    "TrainedLM",
    "WordLikelihood",
    "generate",
    "load",
    "perplexity",
    "save",
    "settings_of",
    "train",
    "write_samples",
]

if TYPE_CHECKING:
    from evenhand.models.lm.awd_lstm import AWDLSTM
    from evenhand.models.lm.causal import CausalLM
    from evenhand.models.lm.corpus import LMCorpus
    from evenhand.models.lm.generation import generate, write_samples
    from evenhand.models.lm.likelihood import Likelihood, TextScores
    from evenhand.models.lm.masked import MaskedLM
    from evenhand.models.lm.model_folder import TrainedLM, load, save
    from evenhand.models.lm.regulariser import BiasRegulariser
    from evenhand.models.lm.settings import LMSettings, settings_of
    from evenhand.models.lm.trainer_callback import BiasRegulariserCallback
    from evenhand.models.lm.training import train
    from evenhand.models.lm.vocabulary import TokenVocabulary
    from evenhand.models.lm.word_likelihood import WordLikelihood, perplexity


def __getattr__(name: str) -> object:
    module = _PUBLIC.get(name, "")
    if module and module not in WITHOUT_TORCH:
        require("torch", extra="models")
    if module == "trainer_callback":
        require("transformers", extra="models")
    return globals().setdefault(name, lazy_attribute(__name__, _LOCATIONS, name))
