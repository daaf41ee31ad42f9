"""The run: which measures on which stages of which vectors, carried out, recorded and kept.

How a number is computed belongs in `measures`, how it is shown in `report`.
"""

from evenhand.audit.check import Breach, check
from evenhand.audit.plan import Case, Plan
from evenhand.audit.record import Audit, Result, Stage
from evenhand.audit.tradeoff import Tradeoff, tradeoffs

__all__ = ["Audit", "Breach", "Case", "Plan", "Result", "Stage", "Tradeoff", "check", "tradeoffs"]
