"""A training under way: everything that changes from step to step, so that it can be kept and taken up again."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch.nn import functional

from evenhand.errors import DegenerateError
from evenhand.models.lm.awd_lstm import AWDLSTM, Output, States, detached
from evenhand.models.lm.corpus import LMCorpus, columns, starts, stretches
from evenhand.models.lm.likelihood import mean_loss
from evenhand.models.lm.model_folder import Epoch
from evenhand.models.lm.nt_asgd import NTASGD
from evenhand.models.lm.settings import Settings

Term: TypeAlias = "Callable[[AWDLSTM], torch.Tensor]"


class Run:
    """Model, optimiser, random numbers and place in the text.

    The records of an epoch stay on the device until somebody looks: a step never waits for a GPU.
    """

    def __init__(
        self, corpus: LMCorpus, settings: Settings, *, seed: int, device: Any, dtype: Any, term: Term | None
    ) -> None:
        self.settings, self.seed, self.dtype, self.term = settings, seed, dtype, term
        self.model: AWDLSTM = AWDLSTM(len(corpus.vocabulary), settings, seed=seed).to(device)
        self.optimiser = NTASGD(
            self.model.parameters(),
            weight_decay=settings.weight_decay,
            clip=settings.clip,
            patience=settings.patience,
        )
        self.generator = torch.Generator(device).manual_seed(seed)
        self.text = columns(corpus.train, settings.batch, device)
        self.valid = columns(corpus.valid, settings.eval_batch, device)
        self.history: list[Epoch] = []
        self.best: list[torch.Tensor] = []
        self.best_loss, self.best_epoch = math.inf, 0
        self.seconds = 0.0  # of this epoch, so far
        self.begin(1)

    def begin(self, epoch: int) -> None:
        """Go to the start of the text."""
        self.epoch, self.step, self.seconds = epoch, 0, 0.0
        self.lengths = stretches(len(self.text), self.settings.bptt, seed=self.seed, epoch=epoch)
        self.starts = starts(self.lengths)
        self.state: States = self.model.start(self.text.shape[1], dtype=self.dtype)
        # Cross-entropy and added term of each step, and what clipping left of its gradient.
        self.records = torch.zeros((3, len(self.lengths)), device=self.text.device)
        self.model.train()

    def advance(self) -> None:
        """One step: a stretch of text, its loss, its gradient, new weights."""
        start, length = self.starts[self.step], self.lengths[self.step]
        if expect := getattr(self.term, "expect", None):
            expect(self.model)
        out: Output = self.model(
            self.text[start : start + length], self.state, dtype=self.dtype, generator=self.generator
        )
        entropy = functional.cross_entropy(
            out.logits.flatten(0, 1).float(), self.text[start + 1 : start + length + 1].flatten()
        )
        loss = entropy + self._activation(out)
        self.records[0, self.step] = entropy.detach()
        if self.term is not None:
            added = self.term(self.model)
            loss = loss + added
            self.records[1, self.step] = added.detach()
        loss.backward()
        self.records[2, self.step] = self.optimiser.step(self.settings.learning_rate * length / self.settings.bptt)
        self.state = detached(out.state)
        self.step += 1

    def _activation(self, out: Output) -> torch.Tensor:
        """AR and TAR: the size of the last layer's output, and of its change in time (Merity et al. 2017)."""
        size = self.settings.alpha * out.dropped.float().square().mean()
        if len(out.raw) < 2:
            return size
        change = out.raw[1:].float() - out.raw[:-1].float()
        return size + self.settings.beta * change.square().mean()

    def refuse_broken(self) -> None:
        """Wait for the device; an error that names the step when a loss or a weight is not a number."""
        finite = torch.isfinite(self.records[:2, : self.step]).all(dim=0)
        if not bool(finite.all()):
            step = int((~finite).nonzero()[0, 0]) + 1
            raise DegenerateError(f"the loss became NaN or infinite in epoch {self.epoch}, step {step}")
        norms = torch._foreach_norm([parameter.detach() for parameter in self.model.parameters()])
        if not bool(torch.isfinite(torch.stack(norms)).all()):
            raise DegenerateError(f"a weight became NaN or infinite in epoch {self.epoch}, by step {self.step}")

    def close_epoch(self, seconds: float) -> Epoch:
        """Validate, keep the weights if they are the best yet, and let the optimiser know."""
        self.refuse_broken()
        averaging = bool(self.optimiser.averaged)
        with self.optimiser.best_guess():
            loss = mean_loss(self.model, self.valid)
            if not math.isfinite(loss):
                raise DegenerateError(f"the validation loss became {loss} after epoch {self.epoch}")
            if loss < self.best_loss:
                self.best_loss, self.best_epoch = loss, self.epoch
                self.best = [parameter.detach().clone() for parameter in self.model.parameters()]
        self.optimiser.observe(loss)
        weights = torch.tensor(self.lengths, dtype=torch.float64)
        entropy, added, unclipped = (self.records.double().cpu() @ weights / weights.sum()).tolist()
        tokens = (len(self.text) - 1) * self.text.shape[1]
        made = Epoch(self.epoch, entropy, math.exp(loss), added, unclipped, averaging, seconds, tokens / seconds)
        self.history.append(made)
        return made

    @torch.no_grad()  # type: ignore[untyped-decorator,unused-ignore]
    def finished(self) -> AWDLSTM:
        """The model with the best weights (those of now, if none were validated), ready for use."""
        if self.best:
            torch._foreach_copy_(list(self.model.parameters()), self.best)
        self.model.eval()
        return self.model
