"""All scenarios."""

from __future__ import annotations

import cache_scenarios
import corpus_scenarios
import model_scenarios
import process_scenarios
import run_scenarios
import vector_scenarios
from fault_scenario import SCENARIOS

__all__ = [
    "SCENARIOS",
    "cache_scenarios",
    "corpus_scenarios",
    "model_scenarios",
    "process_scenarios",
    "run_scenarios",
    "vector_scenarios",
]
