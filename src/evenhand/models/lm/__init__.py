"""Language models: the word-level AWD-LSTM, causal models of `transformers`, likelihoods, and a bias regulariser.

Names are imported on first use, so that importing the package does not load torch. Measures of generated text belong in
`corpus`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand.errors import require
from evenhand.registry import lazy_attribute

_PUBLIC = {
    "AWDLSTM": "awd_lstm.network",
    "BiasRegulariser": "regulariser",
    "BiasRegulariserCallback": "trainer_callback",
    "CausalLM": "causal",
    "LMCorpus": "awd_lstm.corpus",
    "Likelihood": "likelihood",
    "LMSettings": "awd_lstm.model_folder",
    "MaskedLM": "masked",
    "TextScores": "likelihood",
    "TokenVocabulary": "awd_lstm.corpus",
    "TrainedLM": "awd_lstm.model_folder",
    "WordLikelihood": "awd_lstm.inference",
    "generate": "awd_lstm.inference",
    "load": "awd_lstm.model_folder",
    "perplexity": "awd_lstm.inference",
    "save": "awd_lstm.model_folder",
    "settings_of": "awd_lstm.model_folder",
    "train": "awd_lstm.training",
    "write_samples": "awd_lstm.inference",
}
_LOCATIONS = {name: f".{module}:{name}" for name, module in _PUBLIC.items()}
WITHOUT_TORCH = ("LMCorpus", "LMSettings", "Likelihood", "TextScores", "TokenVocabulary", "settings_of")
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
    from evenhand.models.lm.awd_lstm.corpus import LMCorpus, TokenVocabulary
    from evenhand.models.lm.awd_lstm.inference import WordLikelihood, generate, perplexity, write_samples
    from evenhand.models.lm.awd_lstm.model_folder import LMSettings, TrainedLM, load, save, settings_of
    from evenhand.models.lm.awd_lstm.network import AWDLSTM
    from evenhand.models.lm.awd_lstm.training import train
    from evenhand.models.lm.causal import CausalLM
    from evenhand.models.lm.likelihood import Likelihood, TextScores
    from evenhand.models.lm.masked import MaskedLM
    from evenhand.models.lm.regulariser import BiasRegulariser
    from evenhand.models.lm.trainer_callback import BiasRegulariserCallback


def __getattr__(name: str) -> object:
    module = _PUBLIC.get(name, "")
    if module and name not in WITHOUT_TORCH:
        require("torch", extra="models")
    if module == "trainer_callback":
        require("transformers", extra="models")
    return globals().setdefault(name, lazy_attribute(__name__, _LOCATIONS, name))
