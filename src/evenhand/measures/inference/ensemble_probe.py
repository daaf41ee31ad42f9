"""A probe put to an inference view: what the measures of this family have in common."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

from evenhand.errors import UsageError, VocabularyError
from evenhand.measures.inference.seeds import SeedsResult, probe_seeds
from evenhand.models.nli import NLIEnsemble, NLIModel
from evenhand.models.nli.protocol import RecordedModel
from evenhand.models.vectors import Coverage, Vectors
from evenhand.words.probes import Probe
from evenhand.words.probes import probe as find_probe

# Words and seeds move a score by several hundredths, the choice of so many pairs by less than one.
SAMPLE = 6_000
DRAWS = 1_000
InferenceView: TypeAlias = NLIModel | RecordedModel | NLIEnsemble


@dataclass(frozen=True)
class EnsembleProbe:
    """The scores of all members, or the reason why there are none, with the fields every measurement shares."""

    scores: SeedsResult | None
    problem: str
    fields: dict[str, Any]

    @property
    def coverage(self) -> Coverage:
        """Fillers found and lost."""
        return self.scores.coverage if self.scores else Coverage(())

    def details(self) -> dict[str, Any]:
        """Return every score with its spread over the seeds, and the controls."""
        if self.scores is None:
            return {}
        spreads = {name: spread.to_dict() for name, spread in self.scores.scores.items()}
        details = {"scores": spreads, "controls": self.scores.controls}
        alarm = {"not_interpretable": self.scores.warning} if self.scores.warning else {}
        return details | {"interval_over": list(self.scores.interval_over)} | alarm


def as_ensemble(model: InferenceView) -> NLIEnsemble:
    """Return an inference view as an ensemble; a single model is an ensemble of one."""
    if isinstance(model, NLIEnsemble):
        return model
    if isinstance(model, Vectors):
        raise UsageError(
            "this measure takes an inference model, not vectors",
            hint='for the embedded vectors, pass eh.open(vectors).view("inference")',
        )
    return NLIEnsemble((model,))


def probe_ensemble(
    model: InferenceView, probe: Probe | str | Path, *, sample: int | None, seed: int, controls: bool = True
) -> EnsembleProbe:
    """Ask every member of the view; the same question to the same view runs once."""
    ensemble, asked = as_ensemble(model), find_probe(probe)
    whole = sample is None or sample >= asked.n_pairs
    size = None if whole else sample
    fields: dict[str, Any] = {"query": asked.name, "model": ensemble.name, "seed": seed, "params": {"sample": size}}

    def run() -> SeedsResult:
        where = ensemble.engine or "local"
        return probe_seeds(
            ensemble.members, asked, sample=size, seed=seed, draws=DRAWS, controls=controls, engine=where
        )

    try:
        scores = ensemble.remember((asked, size, seed, controls), run)
    except VocabularyError as error:
        return EnsembleProbe(None, error.message, fields)
    fields["params"] |= {"draws": DRAWS, "models": [result.model for result in scores.results]}
    fields["params"]["surface"] = asdict(asked.surface)
    return EnsembleProbe(scores, "", fields | {"note": "; ".join(filter(None, (scores.warning, ensemble.note)))})
