"""Scores of NLI models on probes: neutrality, gaps between groups, marked attribute bias, and their uncertainty.

The probes are in `words.probes`, the models in `models.nli`. Scores are computed in a stream, without a table of all
pairs. Public names are imported on first use, so that listing the measures stays fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand.registry import lazy_attribute

if TYPE_CHECKING:
    from evenhand.measures.inference.run_probe import ProbeResult, probe
    from evenhand.measures.inference.scores import (
        Gap,
        GroupScores,
        MarkedBias,
        Neutrality,
        ProbeScore,
        Triple,
        error,
        gender_gap,
    )
    from evenhand.measures.inference.seeds import ProbeComparison, SeedsResult, Spread, compare, over_seeds, probe_seeds
    from evenhand.subjects.embedded_nli import embedded, projected

_MODULES = {
    "run_probe": ("ProbeResult", "probe"),
    "scores": ("error", "gender_gap", "Gap", "GroupScores", "MarkedBias", "Neutrality", "ProbeScore", "Triple"),
    "seeds": ("ProbeComparison", "SeedsResult", "Spread", "compare", "over_seeds", "probe_seeds"),
}
_PUBLIC = {name: f".{module}:{name}" for module, names in _MODULES.items() for name in names} | {
    name: f"evenhand.subjects.embedded_nli:{name}" for name in ("embedded", "projected")
}
__all__ = [
    "Gap",
    "GroupScores",
    "MarkedBias",
    "Neutrality",
    "ProbeComparison",
    "ProbeResult",
    "ProbeScore",
    "SeedsResult",
    "Spread",
    "Triple",
    "compare",
    "embedded",
    "error",
    "gender_gap",
    "over_seeds",
    "probe",
    "probe_seeds",
    "projected",
]


def __getattr__(name: str) -> object:
    """Import a public name from the module that defines it."""
    return lazy_attribute(__name__, _PUBLIC, name)
