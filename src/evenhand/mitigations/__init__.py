"""Methods that reduce bias, one file per published method, and the maps they return.

A method's `fit(view, concept)` returns a frozen change: a `VectorMap` of vectors, a `TextChange` of documents. Its
effect is measured in `measures`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand.registry import lazy_attribute

# Public name -> location. An entry without a colon is a module.
_PUBLIC = {
    "FineTuning": "evenhand.mitigations.training.fine_tuning:FineTuning",
    "DropoutTuning": "evenhand.mitigations.training.fine_tuning:DropoutTuning",
    "CDATuning": "evenhand.mitigations.training.fine_tuning:CDATuning",
    "BAM": "evenhand.mitigations.alignment.bam:BAM",
    "CounterfactualAugmentation": "evenhand.mitigations.text.cda:CounterfactualAugmentation",
    "ConceptScrubbing": "evenhand.mitigations.erasure.scrubbing:ConceptScrubbing",
    "DoubleHardDebias": "evenhand.mitigations.projection.double_hard:DoubleHardDebias",
    "GNGloVe": "evenhand.mitigations.training.gn_glove:GNGloVe",
    "GP": "evenhand.mitigations.training.gp:GP",
    "HSR": "evenhand.mitigations.erasure.hsr:HSR",
    "HardDebias": "evenhand.mitigations.projection.hard:HardDebias",
    "INLP": "evenhand.mitigations.erasure.inlp:INLP",
    "LEACE": "evenhand.mitigations.erasure.leace:LEACE",
    "LinearProjection": "evenhand.mitigations.projection.linear:LinearProjection",
    "MISP": "evenhand.mitigations.projection.misp:MISP",
    "Mitigation": "evenhand.mitigations.method:Mitigation",
    "OSCaR": "evenhand.mitigations.alignment.oscar:OSCaR",
    "RAN": "evenhand.mitigations.training.ran:RAN",
    "RLACE": "evenhand.mitigations.erasure.rlace:RLACE",
    "RandomProjection": "evenhand.mitigations.projection.random_directions:RandomProjection",
    "SentenceDebias": "evenhand.mitigations.projection.sentence_debias:SentenceDebias",
    "SiteChange": "evenhand.mitigations.site_change:SiteChange",
    "SelfDebias": "evenhand.mitigations.decoding.self_debias:SelfDebias",
    "SoftDebias": "evenhand.mitigations.projection.soft:SoftDebias",
    "Span": "evenhand.mitigations.projection.span:Span",
    "TextChange": "evenhand.mitigations.text.text_change:TextChange",
    "VectorMap": "evenhand.mitigations.maps:VectorMap",
    "get": "evenhand.mitigations.registry:get",
    "ids": "evenhand.mitigations.registry:ids",
    "glove": "evenhand.mitigations.training.glove:glove",
    "listing": "evenhand.mitigations.registry:listing",
    "maps": "evenhand.mitigations.maps",
}
__all__ = [
    "BAM",
    "GP",
    "HSR",
    "INLP",
    "LEACE",
    "MISP",
    "RAN",
    "RLACE",
    "CDATuning",
    "ConceptScrubbing",
    "CounterfactualAugmentation",
    "DoubleHardDebias",
    "DropoutTuning",
    "FineTuning",
    "GNGloVe",
    "HardDebias",
    "LinearProjection",
    "Mitigation",
    "OSCaR",
    "RandomProjection",
    "SelfDebias",
    "SentenceDebias",
    "SiteChange",
    "SoftDebias",
    "Span",
    "TextChange",
    "VectorMap",
    "get",
    "glove",
    "ids",
    "listing",
    "maps",
]

if TYPE_CHECKING:
    from evenhand.mitigations import maps
    from evenhand.mitigations.alignment.bam import BAM
    from evenhand.mitigations.alignment.oscar import OSCaR
    from evenhand.mitigations.decoding.self_debias import SelfDebias
    from evenhand.mitigations.erasure.hsr import HSR
    from evenhand.mitigations.erasure.inlp import INLP
    from evenhand.mitigations.erasure.leace import LEACE
    from evenhand.mitigations.erasure.rlace import RLACE
    from evenhand.mitigations.erasure.scrubbing import ConceptScrubbing
    from evenhand.mitigations.maps import VectorMap
    from evenhand.mitigations.method import Mitigation
    from evenhand.mitigations.projection.double_hard import DoubleHardDebias
    from evenhand.mitigations.projection.hard import HardDebias
    from evenhand.mitigations.projection.linear import LinearProjection
    from evenhand.mitigations.projection.misp import MISP
    from evenhand.mitigations.projection.random_directions import RandomProjection
    from evenhand.mitigations.projection.sentence_debias import SentenceDebias
    from evenhand.mitigations.projection.soft import SoftDebias
    from evenhand.mitigations.projection.span import Span
    from evenhand.mitigations.registry import get, ids, listing
    from evenhand.mitigations.site_change import SiteChange
    from evenhand.mitigations.text.cda import CounterfactualAugmentation
    from evenhand.mitigations.text.text_change import TextChange
    from evenhand.mitigations.training.fine_tuning import CDATuning, DropoutTuning, FineTuning
    from evenhand.mitigations.training.glove import glove
    from evenhand.mitigations.training.gn_glove import GNGloVe
    from evenhand.mitigations.training.gp import GP
    from evenhand.mitigations.training.ran import RAN


def __getattr__(name: str) -> object:
    return globals().setdefault(name, lazy_attribute(__name__, _PUBLIC, name))


def __dir__() -> list[str]:
    return __all__
