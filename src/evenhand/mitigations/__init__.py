"""What to do about bias: one file for each published method, and the family of maps that they return.

A method's `fit(vectors, concept)` returns a frozen `VectorMap`; measuring what a map did belongs in `measures`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evenhand.lazy import found

# Public name -> where it lives. An entry without a colon is a module.
_PUBLIC = {
    "BAM": "evenhand.mitigations.bam:BAM",
    "DoubleHardDebias": "evenhand.mitigations.double_hard:DoubleHardDebias",
    "GNGloVe": "evenhand.mitigations.gn_glove:GNGloVe",
    "GP": "evenhand.mitigations.gp:GP",
    "HSR": "evenhand.mitigations.hsr:HSR",
    "HardDebias": "evenhand.mitigations.hard:HardDebias",
    "INLP": "evenhand.mitigations.inlp:INLP",
    "LEACE": "evenhand.mitigations.leace:LEACE",
    "LinearProjection": "evenhand.mitigations.linear:LinearProjection",
    "MISP": "evenhand.mitigations.misp:MISP",
    "Mitigation": "evenhand.mitigations.method:Mitigation",
    "OSCaR": "evenhand.mitigations.oscar:OSCaR",
    "RAN": "evenhand.mitigations.ran:RAN",
    "RLACE": "evenhand.mitigations.rlace:RLACE",
    "SoftDebias": "evenhand.mitigations.soft:SoftDebias",
    "Span": "evenhand.mitigations.span:Span",
    "VectorMap": "evenhand.mitigations.maps:VectorMap",
    "get": "evenhand.mitigations.registry:get",
    "glove": "evenhand.mitigations.glove_training:glove",
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
    "DoubleHardDebias",
    "GNGloVe",
    "HardDebias",
    "LinearProjection",
    "Mitigation",
    "OSCaR",
    "SoftDebias",
    "Span",
    "VectorMap",
    "get",
    "glove",
    "listing",
    "maps",
]

if TYPE_CHECKING:
    from evenhand.mitigations import maps
    from evenhand.mitigations.bam import BAM
    from evenhand.mitigations.double_hard import DoubleHardDebias
    from evenhand.mitigations.glove_training import glove
    from evenhand.mitigations.gn_glove import GNGloVe
    from evenhand.mitigations.gp import GP
    from evenhand.mitigations.hard import HardDebias
    from evenhand.mitigations.hsr import HSR
    from evenhand.mitigations.inlp import INLP
    from evenhand.mitigations.leace import LEACE
    from evenhand.mitigations.linear import LinearProjection
    from evenhand.mitigations.maps import VectorMap
    from evenhand.mitigations.method import Mitigation
    from evenhand.mitigations.misp import MISP
    from evenhand.mitigations.oscar import OSCaR
    from evenhand.mitigations.ran import RAN
    from evenhand.mitigations.registry import get, listing
    from evenhand.mitigations.rlace import RLACE
    from evenhand.mitigations.soft import SoftDebias
    from evenhand.mitigations.span import Span


def __getattr__(name: str) -> Any:
    return globals().setdefault(name, found(__name__, _PUBLIC, name))


def __dir__() -> list[str]:
    return __all__
