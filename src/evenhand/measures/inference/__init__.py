"""What the answers of an NLI model to a probe say: neutrality, gaps between groups, and their uncertainty.

The probes are in `words.probes`, the models in `models.nli`; scores stream, so that no table of all pairs exists. Names
are resolved on first use: the list of measures is read by every command, the models behind these by few.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evenhand.registry import lazy_attribute

if TYPE_CHECKING:
    from evenhand.measures.inference.comparison import Comparison, compare
    from evenhand.measures.inference.mab_scores import error, gender_gap
    from evenhand.measures.inference.result import ProbeResult
    from evenhand.measures.inference.run_probe import probe
    from evenhand.measures.inference.scores import Gap, Group, Marked, Neutrality, Score, Triple
    from evenhand.measures.inference.seeds import SeedsResult, Spread, over_seeds, probe_seeds
    from evenhand.subjects.embedded_nli import embedded, projected

MEASURES = {
    "nli-neutrality": "neutrality:nli_neutrality",
    "nli-gap": "gap:nli_gap",
    "mab": "mab:mab",
}
_WHERE = {
    "comparison": ("Comparison", "compare"),
    "mab_scores": ("error", "gender_gap"),
    "result": ("ProbeResult",),
    "run_probe": ("probe",),
    "scores": ("Gap", "Group", "Marked", "Neutrality", "Score", "Triple"),
    "seeds": ("SeedsResult", "Spread", "over_seeds", "probe_seeds"),
}
_PUBLIC = {name: f".{module}:{name}" for module, names in _WHERE.items() for name in names} | {
    name: f"evenhand.subjects.embedded_nli:{name}" for name in ("embedded", "projected")
}
__all__ = [
    "Comparison",
    "Gap",
    "Group",
    "Marked",
    "Neutrality",
    "ProbeResult",
    "Score",
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


def __getattr__(name: str) -> Any:
    """The name from the module that defines it."""
    return lazy_attribute(__name__, _PUBLIC, name)
