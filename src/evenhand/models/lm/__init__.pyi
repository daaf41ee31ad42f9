# The public names of the package: what editors complete, and what `__init__.py` finds on first use.

from evenhand.models.lm.awd_lstm.corpus import LMCorpus as LMCorpus
from evenhand.models.lm.awd_lstm.corpus import TokenVocabulary as TokenVocabulary
from evenhand.models.lm.awd_lstm.inference import WordLikelihood as WordLikelihood
from evenhand.models.lm.awd_lstm.inference import generate as generate
from evenhand.models.lm.awd_lstm.inference import perplexity as perplexity
from evenhand.models.lm.awd_lstm.inference import write_samples as write_samples
from evenhand.models.lm.awd_lstm.model_folder import LMSettings as LMSettings
from evenhand.models.lm.awd_lstm.model_folder import TrainedLM as TrainedLM
from evenhand.models.lm.awd_lstm.model_folder import load as load
from evenhand.models.lm.awd_lstm.model_folder import save as save
from evenhand.models.lm.awd_lstm.model_folder import settings_of as settings_of
from evenhand.models.lm.awd_lstm.network import AWDLSTM as AWDLSTM
from evenhand.models.lm.awd_lstm.training import train as train
from evenhand.models.lm.causal import CausalLM as CausalLM
from evenhand.models.lm.likelihood import Likelihood as Likelihood
from evenhand.models.lm.likelihood import TextScores as TextScores
from evenhand.models.lm.masked import MaskedLM as MaskedLM
from evenhand.models.lm.regulariser import BiasRegulariser as BiasRegulariser
from evenhand.models.lm.trainer_callback import BiasRegulariserCallback as BiasRegulariserCallback
