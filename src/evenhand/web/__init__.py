"""The local page: browse runs, explore vectors and models, start small audits. `evenhand serve` starts it.

It is thin: numbers come from `measures`, `mitigations` and `audit`, and what is shown of a run from `report`.
"""

from evenhand.web.application import create_app
from evenhand.web.forms import PageLimits

__all__ = ["PageLimits", "create_app"]
