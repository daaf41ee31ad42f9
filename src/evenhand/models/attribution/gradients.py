"""Gradient times input: how much each token raises a score, to first order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from evenhand.arrays import Rows, Vector64
from evenhand.errors import DegenerateError, require
from evenhand.models.attribution.cases import ExplainedModel, ModelInput, PatchCase, check_lengths
from evenhand.models.attribution.patching import score_tensor
from evenhand.models.device import run_in_batches, tokens_at_once
from evenhand.models.encoders.hooks import attach
from evenhand.models.encoders.sites import Site, locate
from evenhand.models.lm.forward import positions_at_once

if TYPE_CHECKING:
    from torch import Tensor


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
