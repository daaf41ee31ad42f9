"""What an audit will do, decided before anything runs: measures with their queries, and the methods to compare."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from evenhand import measures, mitigations, words
from evenhand.errors import UsageError

DEFAULT_METHODS = ("linear", "span")


@dataclass(frozen=True)
class Case:
    """One measure with one query, and options where the default is not meant."""

    measure: str
    query: str
    options: Mapping[str, Any] = field(default_factory=dict)
    variant: str = ""

    @property
    def label(self) -> str:
        """The name of this row in tables and in `check`: short where the measure asks only one thing by default."""
        if self.query.startswith(self.measure):
            name = self.query
        else:
            usual = measures.info(self.measure).queries == (self.query,)
            name = self.measure if usual else f"{self.measure}:{self.query}"
        return f"{name}, {self.variant}" if self.variant else name


# Variants worth a row of their own in a default audit: what is left along the direction that the original vectors have,
# which a projection makes 0 by construction, and along the direction that the pairs still show afterwards.
VARIANTS: dict[str, tuple[tuple[str, Mapping[str, Any]], ...]] = {
    "direct-bias": (("old direction", {"direction": "original"}), ("new direction", {"direction": "own"})),
    "nli-gap": (("entailment", {"label": "entailment"}), ("contradiction", {"label": "contradiction"})),
    "mab": (("E", {"score": "E"}), ("d", {"score": "d"})),
}
PLAIN: tuple[tuple[str, Mapping[str, Any]], ...] = (("", {}),)


@dataclass(frozen=True)
class Plan:
    """The whole audit as data."""

    cases: tuple[Case, ...]
    methods: tuple[str, ...] = ()
    concept: str = "gender"
    seed: int = 0
    skip_failing: bool = False  # a method that cannot do the concept is noted and left out, instead of ending the run

    @classmethod
    def default(
        cls,
        *,
        methods: Iterable[str] = (),
        only: Iterable[str] = (),
        concept: str = "gender",
        seed: int = 0,
        skip_failing: bool = False,
        full_probes: bool = False,
    ) -> Plan:
        """Every measure with the queries it names itself; `only` keeps some measures. Unknown names fail here.

        `full_probes` asks inference models about all pairs of a probe instead of a sample.
        """
        words.concept(concept)
        chains = tuple(methods)
        for method in (step for chain in chains for step in chain.split(".")):
            mitigations.get(method)
        chosen = list(only) or [name for name in measures.ids() if measures.info(name).default_queries()]
        cases = tuple(
            Case(name, query, {**options, **_probing(name, full_probes)}, variant)
            for name in chosen
            for query in measures.info(name).default_queries()
            for variant, options in VARIANTS.get(name, PLAIN)
        )
        if not cases:
            raise UsageError(f"nothing to measure: {', '.join(chosen)} name no query of their own", hint="use measure")
        return cls(cases, chains, concept, seed, skip_failing)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        cases = [{**asdict(case), "options": dict(case.options)} for case in self.cases]
        rest = {"concept": self.concept, "seed": self.seed, "skip_failing": self.skip_failing}
        return {"cases": cases, "methods": list(self.methods), **rest}

    @property
    def digest(self) -> str:
        """The same for the same plan, so that a run can be resumed only by its own plan."""
        return hashlib.sha256(json.dumps(self.to_dict(), sort_keys=True).encode()).hexdigest()[:16]


def _probing(measure: str, full: bool) -> dict[str, Any]:
    return {"sample": None} if full and measures.info(measure).family == "inference" else {}
