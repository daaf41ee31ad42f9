"""Maps: frozen functions on `Vectors`, arrays and tensors that can be composed, saved and loaded.

The methods in the sibling folders fit them.
"""

from evenhand.mitigations.maps.application import apply_blocks
from evenhand.mitigations.maps.combined import Chain, ExceptLongVectors, ExceptWords, WordTable
from evenhand.mitigations.maps.coordinates import (
    Affine,
    DropCoordinates,
    Encoder,
    LowRank,
    PlaneRotation,
    RowNormalise,
    SoftProjection,
)
from evenhand.mitigations.maps.vectormap import VectorMap

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
