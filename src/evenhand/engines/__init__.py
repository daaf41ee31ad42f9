"""Where the parts of a long job are worked on: in this process, in several of this machine, or on a Ray cluster.

Whoever cuts a job into parts knows nothing of where they run, and results come back in the order of the parts.
"""

from evenhand.engines.engine import Engine, engine, opened
from evenhand.engines.local import LocalEngine
from evenhand.engines.ray import RayEngine

__all__ = ["Engine", "LocalEngine", "RayEngine", "engine", "opened"]
