"""What the answers of an NLI model to a probe say: neutrality, gaps between groups, and their uncertainty.

The probes are in `words.probes`, the models in `models.nli`; scores stream, so that no table of all pairs exists.
"""

from evenhand.measures.inference.marked import error, gender_gap
from evenhand.measures.inference.result import ProbeResult
from evenhand.measures.inference.run import probe
from evenhand.measures.inference.scores import Gap, Group, Marked, Neutrality, Score, Triple
from evenhand.measures.inference.seeds import Spread, over_seeds

__all__ = [
    "Gap",
    "Group",
    "Marked",
    "Neutrality",
    "ProbeResult",
    "Score",
    "Spread",
    "Triple",
    "error",
    "gender_gap",
    "over_seeds",
    "probe",
]
