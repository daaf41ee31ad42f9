"""`BiasRegulariser` for `transformers.Trainer`, as a callback that needs no subclass and no change to the model.

Callbacks cannot add to the loss. A gradient added in `on_pre_optimizer_step` would escape clipping, and in half
precision gradients may still be scaled there. The term is therefore added to the loss that the model returns, by a
forward hook during training. It then passes through scaling, accumulation, averaging over processes and clipping like
the loss.

A Trainer divides each batch's loss by the number of accumulated batches, unless the model received the number of items
of all of them (`num_items_in_batch`) and has divided by it. In the first case, the term is added to every batch; in the
second, to one of them, because it would otherwise count once per batch. The Trainer then also multiplies the loss by
the number of processes before their gradients are averaged. The weight of the term is checked at the first update.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import TrainerCallback

from evenhand.errors import UsageError
from evenhand.models.lm.regulariser import BiasRegulariser, Where, distinct_weights, token_pairs

if TYPE_CHECKING:
    from torch import nn
    from torch.utils.hooks import RemovableHandle
    from transformers import PreTrainedTokenizerBase, TrainerControl, TrainerState, TrainingArguments

UNSUPPORTED = {
    "deepspeed": "DeepSpeed shards the weights",
    "fsdp": "FSDP shards the weights",
    "torch_compile": "a compiled model does not run hooks",
}
LOG = "bias_penalty"


class BiasRegulariserCallback(TrainerCallback):  # type: ignore[misc]  # transformers is not typed here
    """Add strength * ||N B||_F^2 of a model's embeddings to the loss of a Trainer.

    Only pairs whose words are single tokens, with or without a space before them, can be used; `lost` has the others.
    The term is logged as `bias_penalty`; the training loss includes it, the evaluation loss does not.

    Args:
        pairs: pairs of words, or the id or file of a list of pairs.
        strength: lambda of the paper. Over a vocabulary of 50,000 tokens the sum is large: try reduction="mean".
        where: input or output embeddings, or both.
        tokenizer: the model's tokenizer, if the Trainer has none.
        **options: arguments of `BiasRegulariser`.
    """

    def __init__(
        self,
        pairs: str | Path | Iterable[tuple[str, str]] = "bordia2019-cnn-dm",
        *,
        strength: float = 1.0,
        where: Where = "input",
        tokenizer: PreTrainedTokenizerBase | None = None,
        **options: Any,
    ) -> None:
        self.pairs, self.where, self.tokenizer = pairs, where, tokenizer
        self.options = {**options, "strength": strength}
        self.regulariser: BiasRegulariser | None = None
        self.lost: tuple[tuple[str, str], ...] = ()
        self._handle: RemovableHandle | None = None
        self._due = self._checked = False
        self._processes = 1
        self._weights: list[torch.Tensor] = []
        self._value: torch.Tensor | None = None

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        model: nn.Module = None,
        processing_class: PreTrainedTokenizerBase | None = None,
        **_: object,
    ) -> None:
        """Find the rows of the pairs and hook the term to the model."""
        _check_arguments(args)
        tokenizer = self.tokenizer if self.tokenizer is not None else processing_class
        rows = token_pairs(self.pairs, tokenizer)
        self.regulariser = BiasRegulariser(rows.pairs, **{"exempt": rows.alone, **self.options})
        self.lost = self.regulariser.lost = rows.lost
        _check_trainable(model, self.where)
        self._processes = args.world_size if getattr(args, "average_tokens_across_devices", False) else 1
        self._checked = bool(getattr(args, "fp16", False))  # then the weight is that of the scaler, which changes
        self.on_train_end(args, state, control)  # a training that failed may have left its hook
        self._handle = model.register_forward_hook(self._add, with_kwargs=True)

    def on_step_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object) -> None:
        """Prepare for an update, before its first batch."""
        self._due, self._weights = True, []

    def on_pre_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
    ) -> None:
        """Check at the first update that the term is part of the loss with a weight of 1."""
        if not self._weights:
            raise UsageError(
                "the Trainer does not use the loss of the model's output, so the bias term is not part of it",
                hint="remove label smoothing and compute_loss_func, or wrap that function with `regularised`",
            )
        total = 1.0 if self._checked else sum(float(weight) for weight in self._weights)
        self._checked = True
        if not math.isclose(total, 1.0, rel_tol=1e-3):
            raise UsageError(
                f"this version of transformers gives the bias term a weight of {total:g} instead of 1",
                hint=f"multiply strength by {1 / total:g}"
                if total > 0
                else "use `regularised` in your own training loop",
            )

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, float] | None = None,
        **_: object,
    ) -> None:
        """Log the value of the term with the loss."""
        if logs is not None and "loss" in logs and self._value is not None:
            logs[LOG] = float(self._value)
            state.log_history[-1][LOG] = logs[LOG]

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object) -> None:
        """Remove the hook from the model."""
        if self._handle is not None:
            self._handle.remove()
            self._handle = None

    def _add(self, model: nn.Module, _: object, inputs: dict[str, object], output: Any) -> Any:
        """Return the output of a forward pass with the term added to its loss."""
        if not model.training or self.regulariser is None:
            return output
        divided = inputs.get("num_items_in_batch") is not None
        if divided and not self._due:
            return output
        self._due = False
        term = self.regulariser.on(self.where)(model)
        self._value = term.detach()
        term.register_hook(lambda gradient: self._weights.append(gradient.detach()))
        return _with_loss(output, term / self._processes if divided else term)


def _with_loss(output: Any, term: torch.Tensor) -> Any:
    """Return the model's output with the term added to its loss; without labels there is no loss."""
    if isinstance(output, dict):
        if output.get("loss") is not None:
            output["loss"] = output["loss"] + term.to(output["loss"].device)
        return output
    return (output[0] + term.to(output[0].device), *output[1:])


def _check_arguments(args: TrainingArguments) -> None:
    """Raise an error for ways of training that hooks cannot work with."""
    for option, reason in UNSUPPORTED.items():
        if getattr(args, option, None):
            raise UsageError(
                f"the bias term cannot be hooked to a model trained with {option}: {reason}",
                hint="use `BiasRegulariser` in your own training loop",
            )
    if getattr(args, "n_gpu", 1) > 1:
        raise UsageError(
            f"the bias term cannot be hooked to {args.n_gpu} copies of a model in one process",
            hint="start one process per device with torchrun, or use one device: CUDA_VISIBLE_DEVICES=0",
        )


def _check_trainable(model: nn.Module, where: Where) -> None:
    if not any(weight.requires_grad for weight in distinct_weights(model, where)):
        raise UsageError(
            f"the {where} embeddings of the {type(model).__name__} are frozen, so the bias term has no effect",
            hint="train them: model.get_input_embeddings().weight.requires_grad_(True)",
        )
