"""The run: which questions are put to which stages of which subjects, carried out, recorded and kept.

How a number is computed belongs in `measures`, how it is shown in `report`.
"""

from evenhand.audit.check import Limit, check
from evenhand.audit.comparison import RowChange, compare
from evenhand.audit.plan import Plan, Question
from evenhand.audit.ranking import Ranking, rank
from evenhand.audit.record import ORIGINAL, Audit, Result, Stage
from evenhand.audit.tradeoff import Tradeoff, tradeoffs

__all__ = [
    "ORIGINAL",
    "Audit",
    "Limit",
    "Plan",
    "Question",
    "Ranking",
    "Result",
    "RowChange",
    "Stage",
    "Tradeoff",
    "check",
    "compare",
    "rank",
    "tradeoffs",
]
