"""Models of natural language inference (NLI): does a hypothesis follow from a premise?

Probes are in `words.probes`, scores in `measures.inference`.
"""

from typing import TYPE_CHECKING

from evenhand.models.nli.bilstm import BiLSTM
from evenhand.models.nli.decomposable import DecomposableAttention
from evenhand.models.nli.over_vectors import load
from evenhand.models.nli.predictions import PredictionsFile
from evenhand.models.nli.protocol import LABELS, CallableModel, Grid, GridModel, NLIEnsemble, NLIModel, Probabilities

if TYPE_CHECKING:
    from evenhand.models.nli.transformer import TransformerNLI

__all__ = [
    "LABELS",
    "BiLSTM",
    "CallableModel",
    "DecomposableAttention",
    "Grid",
    "GridModel",
    "NLIEnsemble",
    "NLIModel",
    "PredictionsFile",
    "Probabilities",
    "TransformerNLI",
    "load",
]


def __getattr__(name: str) -> object:
    """Import the transformer modules on first use."""
    if name != "TransformerNLI":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from evenhand.models.nli.transformer import TransformerNLI

    return TransformerNLI
