"""Engines run the parts of a long job: in this process, in several processes, or on a Ray cluster.

Results come back in the order of the parts, so that a caller need not know where they were computed.
"""

from evenhand.engines.engine import Engine, LocalEngine, ResidentFunction, engine, open_engine
from evenhand.engines.ray import RayEngine

__all__ = ["Engine", "LocalEngine", "RayEngine", "ResidentFunction", "engine", "open_engine"]
