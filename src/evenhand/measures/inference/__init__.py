"""What the answers of an NLI model to a probe say: neutrality, gaps between groups, and their uncertainty.

The probes are in `words.probes`, the models in `models.nli`; scores stream, so that no table of all pairs exists. Names
are resolved on first use: the list of measures is read by every command, the models behind these by few.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evenhand.lazy import found

if TYPE_CHECKING:
    from evenhand.measures.inference.comparison import Comparison, compare
    from evenhand.measures.inference.embedded_models import embedded, projected
    from evenhand.measures.inference.marked import error, gender_gap
    from evenhand.measures.inference.result import ProbeResult
    from evenhand.measures.inference.run import probe
    from evenhand.measures.inference.scores import Gap, Group, Marked, Neutrality, Score, Triple
    from evenhand.measures.inference.seeds import SeedsResult, over_seeds, probe_seeds
    from evenhand.measures.inference.spread import Spread

MEASURES = {
    "nli-neutrality": "neutrality:nli_neutrality",
    "nli-gap": "gap:nli_gap",
    "mab": "mab:mab",
}
_WHERE = {
    "comparison": ("Comparison", "compare"),
    "embedded_models": ("embedded", "projected"),
    "marked": ("error", "gender_gap"),
    "result": ("ProbeResult",),
    "run": ("probe",),
    "scores": ("Gap", "Group", "Marked", "Neutrality", "Score", "Triple"),
    "seeds": ("SeedsResult", "over_seeds", "probe_seeds"),
    "spread": ("Spread",),
}
_PUBLIC = {name: f".{module}:{name}" for module, names in _WHERE.items() for name in names}
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
    return found(__name__, _PUBLIC, name)
