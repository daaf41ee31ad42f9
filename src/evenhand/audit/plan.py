"""What an audit will do, decided before anything runs: measures with their queries, and the methods to compare."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from evenhand import measures
from evenhand.errors import UsageError

DEFAULT_METHODS = ("linear", "span")


@dataclass(frozen=True)
class Case:
    """One measure with one query, and options where the default is not meant."""

    measure: str
    query: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The name of this row in tables and in `check`."""
        extra = "".join(f" [{value}]" for value in self.options.values())
        return f"{self.query if self.query.startswith(self.measure) else f'{self.measure}:{self.query}'}{extra}"


# Variants worth a row of their own in a default audit. A projection makes the first 0 by construction; the second asks
# what the pairs still show afterwards.
VARIANTS: dict[str, tuple[Mapping[str, Any], ...]] = {
    "direct-bias": ({"direction": "original"}, {"direction": "own"}),
}


@dataclass(frozen=True)
class Plan:
    """The whole audit as data."""

    cases: tuple[Case, ...]
    methods: tuple[str, ...] = ()
    concept: str = "gender"
    seed: int = 0

    @classmethod
    def default(
        cls,
        *,
        methods: Iterable[str] = (),
        only: Iterable[str] = (),
        concept: str = "gender",
        seed: int = 0,
    ) -> Plan:
        """Every measure with the queries it names itself; `only` keeps some measures."""
        chosen = list(only) or [name for name in measures.ids() if measures.info(name).queries]
        cases = tuple(
            Case(name, query, options)
            for name in chosen
            for query in measures.info(name).queries
            for options in VARIANTS.get(name, ({},))
        )
        if not cases:
            raise UsageError(f"nothing to measure: {', '.join(chosen)} name no query of their own", hint="use measure")
        return cls(cases, tuple(methods), concept, seed)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        cases = [{"measure": c.measure, "query": c.query, "options": dict(c.options)} for c in self.cases]
        return {"cases": cases, "methods": list(self.methods), "concept": self.concept, "seed": self.seed}

    @property
    def digest(self) -> str:
        """The same for the same plan, so that a run can be resumed only by its own plan."""
        return hashlib.sha256(json.dumps(self.to_dict(), sort_keys=True).encode()).hexdigest()[:16]
