"""Activation patching: run one input of a pair with activations of the other; and gradient times input.

The result for a set of units is defined so that no unit gives the score of the second input and all units give that of
the first, at every site of the residual stream. Where the texts differ in length, the unit that differs cannot be
replaced in the second input: the first input is run instead, with the activations of the second at all other units.

All jobs of many pairs share batches: a hook at every site replaces the rows that are patched there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from evenhand.arrays import Rows, Vector64
from evenhand.errors import DegenerateError, require
from evenhand.models.attribution.cases import ExplainedModel, ModelInput, PatchCase, check_lengths
from evenhand.models.device import run_in_batches, tokens_at_once
from evenhand.models.encoders.hooks import attach
from evenhand.models.encoders.sites import Site, locate
from evenhand.models.lm.forward import logits_at, positions_at_once

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

STATES_AT_ONCE = {"cuda": 1 << 32}  # bytes of activations kept of one group of pairs
FEW_STATES = 1 << 28


class PatchJob(NamedTuple):
    """A run of a case in which some units have the activations of the first input at a site."""

    case: int
    site: int
    units: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class _Run:
    """A job as it is computed: the input that is run, and the columns that get activations of the other input."""

    job: int
    given: ModelInput
    columns: Rows
    source: int
    source_columns: Rows
    site: int


def scores(model: ExplainedModel, cases: Sequence[PatchCase], *, first: bool) -> Vector64:
    """Return the score of the first or second input of every case, nothing patched."""
    check_lengths(model, cases)
    given = [case.first if first else case.second for case in cases]
    result = np.zeros(len(given))

    def compute(rows: Rows) -> None:
        result[rows] = _forward(model, [given[row] for row in rows])

    _batches(model, [len(one) for one in given], compute)
    return _finite(model, result)


def patched_scores(
    model: ExplainedModel, cases: Sequence[PatchCase], sites: Sequence[Site], jobs: Sequence[PatchJob]
) -> Vector64:
    """Return the score of every job.

    Args:
        model: the model.
        cases: the inputs.
        sites: where activations are replaced; a job names one by its number.
        jobs: what is replaced.
    """
    check_lengths(model, cases)
    result = np.zeros(len(jobs))
    by_case: dict[int, list[int]] = {}
    for number, job in enumerate(jobs):
        by_case.setdefault(job.case, []).append(number)
    for group in _groups(model, [cases[number] for number in by_case], len(sites)):
        chosen = [list(by_case)[place] for place in group]
        inputs = [side for number in chosen for side in (cases[number].first, cases[number].second)]
        states = _record(model, inputs, sites)
        runs = [
            _run(cases[number], jobs[job], job, 2 * place)
            for place, number in enumerate(chosen)
            for job in by_case[number]
        ]

        def compute(rows: Rows, runs: list[_Run] = runs, states: list[Tensor] = states) -> None:
            batch = [runs[row] for row in rows]
            with _patching(model, sites, batch, states):
                values = _forward(model, [run.given for run in batch])
            result[[run.job for run in batch]] = values

        _batches(model, [len(run.given) for run in runs], compute)
    return _finite(model, result)


def _run(case: PatchCase, job: PatchJob, number: int, row: int) -> _Run:
    """Return how a job is computed; `row` is the row of the first input among the recorded ones."""
    chosen = set(job.units)
    if any(case.units[unit].is_block for unit in chosen):
        kept = [unit for place, unit in enumerate(case.units) if place not in chosen]
        columns = [(unit.first[0], unit.second[0]) for unit in kept if not unit.is_block]
        given, source = case.first, row + 1
    else:
        columns = [(case.units[unit].second[0], case.units[unit].first[0]) for unit in sorted(chosen)]
        given, source = case.second, row
    own, other = (np.array([pair[side] for pair in columns], dtype=np.int64) for side in (0, 1))
    return _Run(number, given, own, source, other, job.site)


def _groups(model: ExplainedModel, cases: Sequence[PatchCase], sites: int) -> Iterator[list[int]]:
    """Divide cases of similar length into groups whose activations fit into memory."""
    kind = model.device.partition(":")[0]
    width = int(model.model.config.get_text_config().hidden_size)
    number_bytes = next(model.model.parameters()).element_size()
    tokens = max(1, STATES_AT_ONCE.get(kind, FEW_STATES) // (sites * width * number_bytes))
    tokens = min(tokens, 4 * tokens_at_once(model.device))
    order = sorted(range(len(cases)), key=lambda row: -max(len(cases[row].first), len(cases[row].second)))
    start = 0
    while start < len(order):
        longest = max(len(cases[order[start]].first), len(cases[order[start]].second))
        count = max(1, tokens // (2 * longest))
        yield order[start : start + count]
        start += count


def _batches(model: ExplainedModel, lengths: list[int], compute: Callable[[Rows], None]) -> None:
    torch = require("torch", extra="models")
    limit = tokens_at_once(model.device)
    if model.label < 0:
        limit = min(limit, positions_at_once(model.model, model.device))
    with torch.inference_mode():
        run_in_batches(lengths, compute, tokens=limit)


def _record(model: ExplainedModel, inputs: Sequence[ModelInput], sites: Sequence[Site]) -> list[Tensor]:
    """Return what inputs have at every site, (inputs, tokens, width) each."""
    torch = require("torch", extra="models")
    kept: list[list[Tensor]] = [[] for _ in sites]
    size = max(1, tokens_at_once(model.device) // max(len(one) for one in inputs))
    longest = max(len(one) for one in inputs)
    with ExitStack() as stack, torch.inference_mode():
        for number, site in enumerate(sites):
            place = locate(model.model, site)

            def keep(x: Tensor, number: int = number) -> Tensor:
                kept[number].append(x)
                return x

            stack.callback(attach(place, place.modules[:1], keep).remove)
        for low in range(0, len(inputs), size):
            more = {"use_cache": False} if model.causal else {}
            model.model.base_model(**_inputs(model, inputs[low : low + size], longest), **more)
    return [torch.cat(parts) for parts in kept]


@contextmanager
def _patching(
    model: ExplainedModel, sites: Sequence[Site], batch: Sequence[_Run], states: Sequence[Tensor]
) -> Iterator[None]:
    """Replace activations of a batch at the sites of its runs."""
    torch = require("torch", extra="models")
    with ExitStack() as stack:
        for number in sorted({run.site for run in batch}):
            here = [(row, run) for row, run in enumerate(batch) if run.site == number and len(run.columns)]
            if not here:
                continue
            index = [
                torch.from_numpy(np.concatenate(parts)).to(model.device)
                for parts in (
                    [np.full(len(run.columns), row, dtype=np.int64) for row, run in here],
                    [run.columns for _, run in here],
                    [np.full(len(run.columns), run.source, dtype=np.int64) for _, run in here],
                    [run.source_columns for _, run in here],
                )
            ]
            values = states[number][index[2], index[3]]

            def put(x: Tensor, values: Tensor = values, index: list[Tensor] = index) -> Tensor:
                x = x.clone()
                x[index[0], index[1]] = values.to(x.dtype)
                return x

            place = locate(model.model, sites[number])
            stack.callback(attach(place, place.modules, put).remove)
        yield


def _inputs(model: ExplainedModel, given: Sequence[ModelInput], longest: int = 0) -> dict[str, Tensor]:
    """Return the arguments of the network for a batch, padded at the end."""
    torch = require("torch", extra="models")
    width = max(longest, max(len(one) for one in given))
    ids = np.full((len(given), width), model.padding, dtype=np.int64)
    mask, types = np.zeros_like(ids), np.zeros_like(ids)
    for row, one in enumerate(given):
        ids[row, : len(one)] = one.ids
        mask[row, : len(one)] = 1
        if one.types is not None:
            types[row, : len(one)] = one.types
    arrays = {"input_ids": ids}
    if not model.causal:
        arrays["attention_mask"] = mask
    if any(one.types is not None for one in given):
        arrays["token_type_ids"] = types
    return {name: torch.from_numpy(array).to(model.device) for name, array in arrays.items()}


def _forward(model: ExplainedModel, given: Sequence[ModelInput]) -> Vector64:
    """Return the scores of a batch."""
    return np.asarray(score_tensor(model, given).double().cpu().numpy(), dtype=np.float64)


def score_tensor(model: ExplainedModel, given: Sequence[ModelInput]) -> Tensor:
    """Return the scores of a batch as a tensor, through which gradients flow."""
    torch = require("torch", extra="models")
    inputs = _inputs(model, given)
    if model.label >= 0:
        logits = model.model(**inputs).logits.float()
        chosen = logits[:, model.label]
        if model.kind == "score" or not model.exclusive or logits.shape[1] == 1:
            return chosen  # the log-odds of a sigmoid is its logit
        others = torch.cat([logits[:, : model.label], logits[:, model.label + 1 :]], dim=1)
        return chosen - others.logsumexp(dim=1)
    counts = [len(one.columns) for one in given]
    rows = np.repeat(np.arange(len(given)), counts)
    columns, targets, weights = (
        np.concatenate([getattr(one, name) for one in given]) for name in ("columns", "targets", "weights")
    )
    row, column, target = (torch.from_numpy(array).to(model.device) for array in (rows, columns, targets))
    more = {"use_cache": False} if model.causal else {}
    logits = logits_at(model.model, row, column, **inputs, **more).logits.float()
    logs = logits.log_softmax(dim=-1).gather(-1, target[:, None])[:, 0].double()
    total = torch.zeros(len(given), dtype=logs.dtype, device=logs.device)
    return total.index_add(0, row, logs * torch.from_numpy(weights).to(logs.device))


def _finite(model: ExplainedModel, values: Vector64) -> Vector64:
    if not np.isfinite(values).all():
        raise DegenerateError(f"{model.name}: a score is NaN or infinite", hint="check the weights")
    return values


def gradient_times_input(model: ExplainedModel, cases: Sequence[PatchCase], *, first: bool) -> list[Vector64]:
    """Return the gradient of the score by the vector of each token, times that vector, for one input of every case.

    The vectors are those of the word table, before positions are added. To first order, the sum over the tokens is
    what the score gains when all these vectors grow by the same share.
    """
    torch = require("torch", extra="models")
    check_lengths(model, cases)
    given = [case.first if first else case.second for case in cases]
    result: list[Vector64] = [np.zeros(len(one)) for one in given]
    place = locate(model.model, Site("embeddings"))

    def compute(rows: Rows) -> None:
        batch: list[ModelInput] = [given[row] for row in rows]
        kept: list[Tensor] = []

        def keep(x: Tensor) -> Tensor:
            kept.append(x.detach().requires_grad_(True))
            return kept[-1]

        installed = attach(place, place.modules[:1], keep)
        try:
            with torch.enable_grad():
                total = score_tensor(model, batch).sum()
                (gradient,) = torch.autograd.grad(total, kept[0])
        finally:
            installed.remove()
        products = (gradient.double() * kept[0].detach().double()).sum(dim=-1).cpu().numpy()
        if not np.isfinite(products).all():
            raise DegenerateError(f"{model.name}: a gradient is NaN or infinite", hint="check the weights")
        for place_in_batch, row in enumerate(rows):
            result[row][:] = products[place_in_batch, : len(given[row])]

    limit = tokens_at_once(model.device)
    if model.label < 0:
        limit = min(limit, positions_at_once(model.model, model.device))
    run_in_batches([len(one) for one in given], compute, tokens=limit)
    return result
