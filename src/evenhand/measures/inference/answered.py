"""A probe put to the embedded NLI models over some vectors: what the measures of this family have in common."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from evenhand.errors import VocabularyError
from evenhand.measures.inference.seeds import SeedsResult, probe_seeds
from evenhand.models.vectors import Coverage, Vectors
from evenhand.subjects.embedded_nli import TRAINED_ON, fit
from evenhand.words.probes import Probe
from evenhand.words.probes import probe as find_probe

# Words and seeds move a score by several hundredths, the choice of so many pairs by less than one.
SAMPLE = 6_000
DRAWS = 1_000


@dataclass(frozen=True)
class Answered:
    """The answers, or why there are none, and what every measurement made from them says."""

    found: SeedsResult | None
    problem: str
    about: dict[str, Any]

    @property
    def coverage(self) -> Coverage:
        """Fillers found and lost."""
        return self.found.coverage if self.found else Coverage(())

    def details(self) -> dict[str, Any]:
        """Every score with its spread over the seeds, and the controls."""
        if self.found is None:
            return {}
        scores = {name: spread.to_dict() for name, spread in self.found.scores.items()}
        return {"scores": scores, "controls": self.found.controls, "interval_over": list(self.found.interval_over)}


def answered(
    vectors: Vectors, probe: Probe | str | Path, *, sample: int | None, seed: int, controls: bool = True
) -> Answered:
    """Ask the models that fit the vectors; the same question about the same vectors is asked once."""
    asked, fitting = find_probe(probe), fit(vectors)
    about: dict[str, Any] = {"query": asked.name, "model": vectors.name, "seed": seed}
    if isinstance(fitting, str):
        return Answered(None, fitting, about | {"params": {"sample": sample}})
    whole = sample is None or sample >= asked.n_pairs
    try:
        found = _run(_Identity(vectors), asked, None if whole else sample, seed, controls)
    except VocabularyError as error:
        return Answered(None, error.message, about | {"params": {"sample": sample}})
    params = {
        "sample": None if whole else sample,
        "draws": DRAWS,
        "models": [result.model for result in found.results],
        "trained_on": TRAINED_ON[fitting.condition],
        "surface": asdict(asked.surface),
    }
    return Answered(found, "", about | {"params": params, "note": fitting.note})


class _Identity:
    """Vectors as a key: the very same object, whatever they hold."""

    def __init__(self, vectors: Vectors) -> None:
        self.vectors = vectors

    def __hash__(self) -> int:
        return id(self.vectors)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and other.vectors is self.vectors


# An audit asks several measures of one stage about the same two probes, one after the other.
@lru_cache(maxsize=2)
def _run(of: _Identity, asked: Probe, sample: int | None, seed: int, controls: bool) -> SeedsResult:
    fitting = fit(of.vectors)
    models = () if isinstance(fitting, str) else fitting.models(of.vectors)
    return probe_seeds(models, asked, sample=sample, seed=seed, draws=DRAWS, controls=controls)
