"""Maps: frozen functions on `Vectors`, arrays and tensors that can be composed, saved and loaded.

The methods in the sibling folders fit them.
"""

from evenhand.mitigations.maps.application import apply_blocks
from evenhand.mitigations.maps.chain import Chain
from evenhand.mitigations.maps.coordinates import DropCoordinates, Encoder, RowNormalise
from evenhand.mitigations.maps.linear import Affine, LowRank, SoftProjection
from evenhand.mitigations.maps.long_vectors import ExceptLongVectors
from evenhand.mitigations.maps.rotation import PlaneRotation
from evenhand.mitigations.maps.vectormap import VectorMap
from evenhand.mitigations.maps.wordwise import ExceptWords, WordTable

__all__ = [
    "Affine",
    "Chain",
    "DropCoordinates",
    "Encoder",
    "ExceptLongVectors",
    "ExceptWords",
    "LowRank",
    "PlaneRotation",
    "RowNormalise",
    "SoftProjection",
    "VectorMap",
    "WordTable",
    "apply_blocks",
]
