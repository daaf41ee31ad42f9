"""`BiasRegulariser` for `transformers.Trainer`: a callback, no subclass of the trainer and no change to the model.

A callback is not asked for a loss, and the places where it is asked are unsuited: `on_pre_optimizer_step` comes after
clipping, where a gradient that is added escapes it, and in half precision gradients are still scaled there when nothing
was clipped. So the term is added to the loss that the model returns, by a forward hook while it trains. From there it
goes the way of the loss: through scaling, accumulation, averaging over processes and clipping.

Accumulation needs care. A Trainer divides each batch's loss by the number of accumulated batches, unless the model was
told the number of items of all of them (`num_items_in_batch`) and has divided by that. In the first case the term
belongs to every batch, in the second to one of them, or it would count as often as there are batches; then the
Trainer also multiplies the loss by the number of processes, before their gradients are averaged. The weight that the
term really had is checked at the first update.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback

from evenhand.errors import UsageError
from evenhand.models.lm.regulariser import BiasRegulariser, Where, distinct_weights, token_pairs

UNSUITED = {
    "deepspeed": "DeepSpeed keeps weights in pieces",
    "fsdp": "FSDP keeps weights in pieces",
    "torch_compile": "a compiled model does not run hooks",
}
LOG = "bias_penalty"


class BiasRegulariserCallback(TrainerCallback):  # type: ignore[misc]  # transformers is not typed here
    """Adds strength * ||N B||_F^2 of a model's embeddings to the loss of a Trainer.

    Only pairs of which both words are one token each, with or without a blank before it, can be used; `lost` has the
    others. The value of the term is logged as `bias_penalty`; the logged loss holds it, the evaluation loss does not.

    Args:
        pairs: pairs of words, or the id or file of a list of pairs.
        strength: lambda of the paper. Over a vocabulary of 50,000 tokens the sum is large: try reduction="mean".
        where: input or output embeddings, or both.
        tokenizer: of the model, where the Trainer was given none.
        **options: of `BiasRegulariser`.
    """

    def __init__(
        self,
        pairs: str | Path | Iterable[tuple[str, str]] = "bordia2019-cnn-dm",
        *,
        strength: float = 1.0,
        where: Where = "input",
        tokenizer: Any = None,
        **options: Any,
    ) -> None:
        self.pairs, self.where, self.tokenizer = pairs, where, tokenizer
        self.options = {**options, "strength": strength}
        self.regulariser: BiasRegulariser | None = None
        self.lost: tuple[tuple[str, str], ...] = ()
        self._handle: Any = None
        self._due = self._checked = False
        self._processes = 1
        self._weights: list[Any] = []
        self._value: Any = None

    def on_train_begin(
        self, args: Any, state: Any, control: Any, model: Any = None, processing_class: Any = None, **_: Any
    ) -> None:
        """Find the rows of the pairs and hook the term to the model."""
        _suited(args)
        tokenizer = self.tokenizer if self.tokenizer is not None else processing_class
        found = token_pairs(self.pairs, tokenizer)
        self.regulariser = BiasRegulariser(found.pairs, **{"exempt": found.alone, **self.options})
        self.lost = self.regulariser.lost = found.lost
        _trainable(model, self.where)
        self._processes = args.world_size if getattr(args, "average_tokens_across_devices", False) else 1
        self._checked = bool(getattr(args, "fp16", False))  # there the weight is that of the scaler, which moves
        self.on_train_end(args, state, control)  # a run that broke off may have left its hook
        self._handle = model.register_forward_hook(self._add, with_kwargs=True)

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Once for each update, before its first batch."""
        self._due, self._weights = True, []

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """See at the first update whether the term was in the loss, and with which weight."""
        if not self._weights:
            raise UsageError(
                "the Trainer takes its loss from elsewhere than the model's output, so that the bias term is not in it",
                hint="leave out label smoothing and compute_loss_func, or put `regularised` around that function",
            )
        total = 1.0 if self._checked else sum(float(weight) for weight in self._weights)
        self._checked = True
        if not math.isclose(total, 1.0, rel_tol=1e-3):
            raise UsageError(
                f"this version of transformers gives the bias term a weight of {total:g} instead of 1",
                hint=f"multiply strength by {1 / total:g}" if total > 0 else "use `regularised` in a loop of your own",
            )

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Put the value of the term beside the loss."""
        if logs is not None and "loss" in logs and self._value is not None:
            logs[LOG] = float(self._value)
            state.log_history[-1][LOG] = logs[LOG]

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Leave the model as it was."""
        if self._handle is not None:
            self._handle.remove()
            self._handle = None

    def _add(self, model: Any, _: Any, inputs: dict[str, Any], output: Any) -> Any:
        if not model.training or self.regulariser is None:
            return output
        told = inputs.get("num_items_in_batch") is not None
        if told and not self._due:
            return output
        self._due = False
        term = self.regulariser.on(self.where)(model)
        self._value = term.detach()
        term.register_hook(lambda gradient: self._weights.append(gradient.detach()))
        return _with_loss(output, term / self._processes if told else term)


def _with_loss(output: Any, term: torch.Tensor) -> Any:
    """The model's output with the term in its loss; a model without labels has no loss to add to."""
    if isinstance(output, dict):
        if output.get("loss") is not None:
            output["loss"] = output["loss"] + term.to(output["loss"].device)
        return output
    return (output[0] + term.to(output[0].device), *output[1:])


def _suited(args: Any) -> None:
    for option, reason in UNSUITED.items():
        if getattr(args, option, None):
            raise UsageError(
                f"the bias term cannot be hooked to a model trained with {option}: {reason}",
                hint="use `BiasRegulariser` in a training loop of your own",
            )
    if getattr(args, "n_gpu", 1) > 1:
        raise UsageError(
            f"the bias term cannot be hooked to {args.n_gpu} copies of a model in one process",
            hint="start one process for each device with torchrun, or show only one: CUDA_VISIBLE_DEVICES=0",
        )


def _trainable(model: Any, where: Where) -> None:
    if not any(weight.requires_grad for weight in distinct_weights(model, where)):
        raise UsageError(
            f"the {where} embeddings of the {type(model).__name__} are frozen, so that the bias term changes nothing",
            hint="train them: model.get_input_embeddings().weight.requires_grad_(True)",
        )
