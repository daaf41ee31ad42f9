"""The run: which questions are put to which stages of which subjects, carried out, recorded and kept.

How a number is computed belongs in `measures`, how it is shown in `report`.
"""

from evenhand.audit.check import Limit, check
from evenhand.audit.plan import Plan, Question
from evenhand.audit.record import ORIGINAL, Audit, Result, Stage
from evenhand.audit.significance import RowChange, compare
from evenhand.audit.tradeoff import Ranking, Tradeoff, rank, tradeoffs

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
