"""How much: one file per published measure, each a function from vectors and a query to a `Measurement`.

Statistics under them belong in `stats`, directions in `subspaces`; only `quality` reads files, the rated sets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evenhand.measures.measurement import Measurement
from evenhand.measures.registry import TABLE, Info, get, ids, info

if TYPE_CHECKING:
    from evenhand.measures.association.ripa import ripa
    from evenhand.measures.association.weat import weat
    from evenhand.measures.geometry.direct_bias import direct_bias

__all__ = ["Info", "Measurement", "direct_bias", "get", "ids", "info", "ripa", "weat"]


def __getattr__(name: str) -> Any:
    """Each measure also by its function name: `measures.direct_bias` is `get("direct-bias")`."""
    measure_id = name.replace("_", "-")
    if measure_id not in TABLE:
        raise AttributeError(f"module 'evenhand.measures' has no attribute {name!r}")
    return get(measure_id)
