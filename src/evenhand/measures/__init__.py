"""Measures: one file per published measure, each a function of a view and a query that returns a `Measurement`.

`measures.direct_bias` is `measures.get("direct-bias")`. Statistics belong in `stats`, directions in `subspaces`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evenhand.measures.group_tables import GroupRow, GroupTable, one_against_rest, pairwise
from evenhand.measures.measurement import Measurement
from evenhand.measures.registry import MEASURES, Info, get, ids, info

if TYPE_CHECKING:
    from evenhand.measures.association.bat import bat
    from evenhand.measures.association.ect import ect
    from evenhand.measures.association.generalised_weat import generalised_weat
    from evenhand.measures.association.interaction import interaction
    from evenhand.measures.association.mac import mac
    from evenhand.measures.association.mweat import mweat
    from evenhand.measures.association.ripa import ripa
    from evenhand.measures.association.rnd import rnd
    from evenhand.measures.association.rnsb import rnsb
    from evenhand.measures.association.same import same
    from evenhand.measures.association.weat import weat
    from evenhand.measures.geometry.analogy_generation import analogy_generation, generate_analogies
    from evenhand.measures.geometry.clustering import clustering
    from evenhand.measures.geometry.direct_bias import direct_bias
    from evenhand.measures.geometry.gipe import gipe
    from evenhand.measures.geometry.indirect_bias import indirect_bias
    from evenhand.measures.geometry.midb import midb
    from evenhand.measures.geometry.neighbours import neighbours
    from evenhand.measures.geometry.occupation_share import occupation_share
    from evenhand.measures.geometry.proximity_bias import proximity_bias
    from evenhand.measures.geometry.recoverability import recoverability
    from evenhand.measures.geometry.sembias import sembias
    from evenhand.measures.inference.mab import mab
    from evenhand.measures.inference.nli_gap import nli_gap
    from evenhand.measures.inference.nli_groups import nli_groups
    from evenhand.measures.inference.nli_neutrality import nli_neutrality
    from evenhand.measures.labels.counterfactual import counterfactual
    from evenhand.measures.likelihood.aul import aul, aula
    from evenhand.measures.likelihood.bbq import bbq
    from evenhand.measures.likelihood.crows_pairs import crows_pairs
    from evenhand.measures.likelihood.disco import disco
    from evenhand.measures.likelihood.holistic_bias import holistic_bias
    from evenhand.measures.likelihood.honest import honest
    from evenhand.measures.likelihood.log_probability import log_probability
    from evenhand.measures.likelihood.perplexity import perplexity
    from evenhand.measures.likelihood.pronoun_share import pronoun_share
    from evenhand.measures.likelihood.stereoset import stereoset
    from evenhand.measures.likelihood.winobias import winobias
    from evenhand.measures.likelihood.winogender import winogender
    from evenhand.measures.quality.analogy import analogy
    from evenhand.measures.quality.retention import retention
    from evenhand.measures.quality.sentence_retention import sentence_retention
    from evenhand.measures.quality.similarity import similarity
    from evenhand.measures.sentences.layer_bias import layer_bias
    from evenhand.measures.sentences.retrieval_skew import retrieval_skew
    from evenhand.measures.sentences.seat import seat
    from evenhand.measures.sentences.sentence_interaction import sentence_interaction
    from evenhand.measures.text.corpus_bias import corpus_bias
    from evenhand.measures.text.counterfactual_text import counterfactual_text

__all__ = [
    "GroupRow",
    "GroupTable",
    "Info",
    "Measurement",
    "analogy",
    "analogy_generation",
    "aul",
    "aula",
    "bat",
    "bbq",
    "clustering",
    "corpus_bias",
    "counterfactual",
    "counterfactual_text",
    "crows_pairs",
    "direct_bias",
    "disco",
    "ect",
    "generalised_weat",
    "generate_analogies",
    "get",
    "gipe",
    "holistic_bias",
    "honest",
    "ids",
    "indirect_bias",
    "info",
    "interaction",
    "layer_bias",
    "log_probability",
    "mab",
    "mac",
    "midb",
    "mweat",
    "neighbours",
    "nli_gap",
    "nli_groups",
    "nli_neutrality",
    "occupation_share",
    "one_against_rest",
    "pairwise",
    "perplexity",
    "pronoun_share",
    "proximity_bias",
    "recoverability",
    "retention",
    "retrieval_skew",
    "ripa",
    "rnd",
    "rnsb",
    "same",
    "seat",
    "sembias",
    "sentence_interaction",
    "sentence_retention",
    "similarity",
    "stereoset",
    "weat",
    "winobias",
    "winogender",
]


def __getattr__(name: str) -> Any:
    """Return a measure by its function name, or `generate_analogies`."""
    if name == "generate_analogies":
        from evenhand.measures.geometry.analogy_generation import generate_analogies as function

        return function
    measure_id = name.replace("_", "-")
    if name.startswith("_") or measure_id not in MEASURES:
        raise AttributeError(f"module 'evenhand.measures' has no attribute {name!r}")
    return get(measure_id)
