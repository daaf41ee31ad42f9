"""Attribution of one pair by layer and position, and of many pairs by site."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from evenhand.arrays import Matrix64, Rows, Vector64
from evenhand.errors import DegenerateError, UsageError
from evenhand.models.attribution.cases import (
    ExplainedModel,
    PatchCase,
    ScoreKind,
    causal_cases,
    inference_cases,
    label_cases,
    masked_cases,
)
from evenhand.models.attribution.patching import PatchJob, gradient_times_input, patched_scores, scores
from evenhand.models.encoders.classifier import TextClassifier
from evenhand.models.encoders.sites import Site, SiteKind, count_layers
from evenhand.models.lm.causal import CausalLM
from evenhand.models.lm.masked import MaskedLM
from evenhand.models.tokenizing import tokenizer_errors

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

TextInput: TypeAlias = str | tuple[str, str]  # a text, or (premise, hypothesis)
ROUNDING = 1e-6  # of the larger score: a smaller difference is rounding, and shares of it mean nothing
ALIGNMENT = (
    "tokens are aligned by the common beginning and the common end of the two inputs; what lies between is compared "
    "token by token, or as one unit where the numbers of tokens differ"
)


@dataclass(frozen=True)
class TokenUnit:
    """Tokens of the first input and those of the second that stand at the same place."""

    first: str
    second: str
    changed: bool

    @property
    def name(self) -> str:
        """The tokens, both sides where they differ."""
        return f"{self.first} | {self.second}" if self.first != self.second else self.first


@dataclass(frozen=True, eq=False)
class PairAttribution:
    """Where the difference between the scores of two inputs comes from.

    Attributes:
        model: name of the model.
        kind: what the score is.
        label: the label of a classifier, or the two answers of a language model.
        texts: the two inputs.
        scores: their scores.
        sites: where activations were replaced, from the input to the output.
        units: the aligned tokens.
        effects: what the score of the second input gains with the activations of the first, (sites, units).
        gradients: gradient times input of each unit, for the first and the second input.
        carried: the gain with the activations of all units that differ, at each site.
        whole: the gain with the activations of all units at each site: the whole difference, up to rounding.
        nothing: the gain with those of no unit: 0, up to rounding.
    """

    model: str
    kind: ScoreKind
    label: str
    texts: tuple[str, str]
    scores: tuple[float, float]
    sites: tuple[str, ...]
    units: tuple[TokenUnit, ...]
    effects: Matrix64
    gradients: tuple[Vector64, Vector64]
    carried: Vector64
    whole: Vector64
    nothing: float

    @property
    def difference(self) -> float:
        """The score of the first input less that of the second."""
        return self.scores[0] - self.scores[1]

    @property
    def shares(self) -> Matrix64 | None:
        """The effects as shares of the difference; None where the difference is rounding."""
        if abs(self.difference) <= ROUNDING * max(1.0, *map(abs, self.scores)):
            return None
        return np.asarray(self.effects / self.difference)

    def to_dict(self) -> dict[str, object]:
        """Return plain data for JSON."""
        shares = self.shares
        return {
            "model": self.model,
            "score": self.kind,
            "label": self.label,
            "texts": list(self.texts),
            "scores": list(self.scores),
            "difference": self.difference,
            "alignment": ALIGNMENT,
            "sites": list(self.sites),
            "tokens": [{"first": unit.first, "second": unit.second, "changed": unit.changed} for unit in self.units],
            "effects": self.effects.tolist(),
            "carried": self.carried.tolist(),
            "shares": None if shares is None else shares.tolist(),
            "gradient_times_input": {"first": self.gradients[0].tolist(), "second": self.gradients[1].tolist()},
            "checks": {"nothing": self.nothing, "everything": self.whole.tolist()},
        }


def explain_pair(
    view: object,
    first: TextInput,
    second: TextInput,
    *,
    answers: tuple[str, str] | None = None,
    label: str | None = None,
) -> PairAttribution:
    """Attribute the difference between two inputs to layers and tokens.

    Args:
        view: the view `likelihood` or `labels` of a transformer, or an inference model (`TransformerNLI`).
        first: the text whose activations are put into the run of the other; (premise, hypothesis) for inference.
        second: the text that is run.
        answers: for a language model, compare the log-probabilities of two next words, or of two words at the mask,
            instead of scoring the tokens that both texts have.
        label: for a classifier, whose log-odds are compared; the last label, or entailment.

    Raises:
        UsageError: If the view is not of a transformer, or the texts have the same tokens.
    """
    model, cases, lost = _cases(view, [(first, second)], answers, label)
    if lost:
        hint = "name two next words, `answers=`, or go on behind the difference" if model.label < 0 else ""
        raise UsageError(f"the pair cannot be compared: {lost[0]}", hint=hint)
    units = cases[0].units
    if not any(unit.changed for unit in units):
        raise UsageError("the two texts have the same tokens", hint="write two texts that differ")
    sites = [Site("embeddings"), *(Site("layer", number) for number in range(1, count_layers(model.model) + 1))]
    every = tuple(range(len(units)))
    changed = tuple(place for place in every if units[place].changed)
    asked = [(place, unit) for place in range(len(sites)) for unit in every]
    jobs: list[PatchJob] = []
    for case in range(len(cases)):
        jobs += [PatchJob(case, place, (unit,)) for place, unit in asked]
        jobs += [PatchJob(case, place, some) for some in (changed, every) for place in range(len(sites))]
        jobs.append(PatchJob(case, 0, ()))
    totals = patched_scores(model, cases, sites, jobs).reshape(len(cases), -1).sum(axis=0)
    sums = [float(scores(model, cases, first=side).sum()) for side in (True, False)]
    effects = (totals[: len(asked)] - sums[1]).reshape(len(sites), len(units))
    return PairAttribution(
        model.name,
        model.kind,
        model.label_name or (" / ".join(answers) if answers else ""),
        (_shown(first), _shown(second)),
        (sums[0], sums[1]),
        tuple(map(str, sites)),
        _token_units(model.tokenizer, cases[0]),
        effects,
        (_gradients(model, cases, first=True), _gradients(model, cases, first=False)),
        totals[len(asked) : -1 - len(sites)] - sums[1],
        totals[-1 - len(sites) : -1] - sums[1],
        float(totals[-1] - sums[1]),
    )


def _shown(text: TextInput) -> str:
    return text if isinstance(text, str) else " → ".join(text)


def _cases(
    view: object,
    pairs: Sequence[tuple[Any, Any]],
    answers: tuple[str, str] | None = None,
    label: str | None = None,
) -> tuple[ExplainedModel, list[PatchCase], dict[int, str]]:
    if isinstance(view, CausalLM | MaskedLM) and label is not None:
        raise UsageError("a language model has no labels", hint="leave `label=` out")
    if isinstance(view, CausalLM):
        return causal_cases(view, pairs, answers)
    if isinstance(view, MaskedLM):
        return masked_cases(view, pairs, answers)
    if answers is not None:
        raise UsageError("answers are for language models", hint="leave `answers=` out, or name a label: `label=`")
    if isinstance(view, TextClassifier):
        return label_cases(view, pairs, label)
    if type(view).__name__ == "TransformerNLI":  # its module imports torch
        return inference_cases(view, pairs, label)  # type: ignore[arg-type]
    name = getattr(view, "name", type(view).__name__)
    raise UsageError(
        f"attribution needs a transformer in this process, and {name} is none", hint="open a model: hf:FOLDER"
    )


def _token_units(tokenizer: PreTrainedTokenizerBase, case: PatchCase) -> tuple[TokenUnit, ...]:
    def text(ids: Rows) -> str:
        with tokenizer_errors(tokenizer):
            return str(tokenizer.decode(ids.tolist())).strip() or "␣"

    return tuple(
        TokenUnit(text(case.tokens[0][slice(*unit.first)]), text(case.tokens[1][slice(*unit.second)]), unit.changed)
        for unit in case.units
    )


def _gradients(model: ExplainedModel, cases: Sequence[PatchCase], *, first: bool) -> Vector64:
    """Return the sums over the cases of a pair, by unit."""
    units = cases[0].units
    total = np.zeros(len(units))
    for values in gradient_times_input(model, cases, first=first):
        total += [values[slice(*(unit.first if first else unit.second))].sum() for unit in units]
    return total


@dataclass(frozen=True, eq=False)
class SiteEffects:
    """What the scores of many pairs gain at each site.

    Attributes:
        pairs: the numbers of the pairs that have a score.
        differences: the score of the first text less that of the second.
        sites: the sites.
        effects: (pairs, sites). At `layer:N` the tokens that differ have the activations of the first text; at
            `attention:N` and `mlp:N` all tokens have, so that this part reads the first text. NaN there for texts of
            different lengths, of which a part cannot read one in the place of the other.
        lost: why other pairs have none, by number.
    """

    pairs: Rows
    differences: Vector64
    sites: tuple[str, ...]
    effects: Matrix64
    lost: dict[int, str]


def site_effects(
    view: object,
    pairs: Sequence[tuple[TextInput, TextInput]],
    kinds: Sequence[SiteKind] = ("layer", "attention", "mlp"),
    *,
    label: str | None = None,
) -> SiteEffects:
    """Return what the score of the second text of every pair gains with activations of the first at each site.

    Args:
        view: as in `explain_pair`.
        pairs: pairs of texts, or of (premise, hypothesis).
        kinds: the kinds of sites.
        label: as in `explain_pair`.
    """
    model, cases, lost = _cases(view, pairs, None, label)
    lost |= {
        case.pair: "both texts have the same tokens" for case in cases if not any(unit.changed for unit in case.units)
    }
    lost |= {
        case.pair: f"a text has more than the {model.window:,} tokens that the model reads"
        for case in cases
        if max(len(case.first), len(case.second)) > model.window
    }
    cases = [case for case in cases if case.pair not in lost]
    if not cases:
        raise DegenerateError(f"no pair can be compared: {next(iter(lost.values()), 'there is none')}")
    sites = [Site(kind, number) for kind in kinds for number in range(1, count_layers(model.model) + 1)]
    jobs = []
    for number, case in enumerate(cases):
        every = tuple(range(len(case.units)))
        changed = tuple(place for place in every if case.units[place].changed)
        blocked = any(unit.is_block for unit in case.units)
        jobs += [
            PatchJob(number, place, changed if site.kind == "layer" else every)
            for place, site in enumerate(sites)
            if site.kind == "layer" or not blocked
        ]
    patched = np.full((len(cases), len(sites)), np.nan)
    patched[[job.case for job in jobs], [job.site for job in jobs]] = patched_scores(model, cases, sites, jobs)
    before, after = (scores(model, cases, first=side) for side in (False, True))
    chosen, owner = np.unique([case.pair for case in cases], return_inverse=True)
    totals = np.zeros((len(chosen), len(sites)))
    np.add.at(totals, owner, patched - before[:, None])
    differences = np.zeros(len(chosen))
    np.add.at(differences, owner, after - before)
    return SiteEffects(chosen, differences, tuple(map(str, sites)), totals, lost)
