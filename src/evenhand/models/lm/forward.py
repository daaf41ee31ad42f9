"""Forward passes of language models: logits at chosen positions, and a second pass with a text before the input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evenhand.errors import FormatError, UsageError, require
from evenhand.models.device import model_errors

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn
    from transformers import Cache, PreTrainedModel
    from transformers.utils import ModelOutput


LOGITS_AT_ONCE = {"cuda": 1 << 29}  # numbers in the matrix of logits of one batch
FEW_LOGITS = 1 << 23  # on a CPU, larger matrices cost more in memory traffic than they save in calls


def logits_at(model: PreTrainedModel, rows: torch.Tensor, columns: torch.Tensor, **inputs: object) -> ModelOutput:
    """Return the output of a language model whose logits are those at chosen positions only, (positions, vocabulary).

    The head of a language model reads each position by itself, and its product with the whole vocabulary is a large
    part of the work. A hook passes only the states of the chosen positions to the head, whatever the head computes.

    Args:
        model: a masked or causal language model.
        rows: the text of each position, (positions,).
        columns: the token of each position, (positions,).
        **inputs: arguments of the model, such as input_ids.

    Raises:
        FormatError: If the model is not a body with a head that reads each position by itself.
    """
    body = model.base_model
    if body is model:
        raise FormatError(
            f"{type(model).__name__} is not a body with a language-model head", hint="use a language model"
        )

    def choose(module: nn.Module, arguments: tuple[Tensor, ...], output: Tensor) -> Tensor:
        chosen = output[0][rows, columns][None]
        if isinstance(output, tuple):
            return (chosen, *output[1:])
        output["last_hidden_state"] = chosen
        return output

    handle = body.register_forward_hook(choose)
    try:
        with model_errors(model):
            output = model(**inputs)
    finally:
        handle.remove()
    if tuple(output.logits.shape[:-1]) != (1, len(rows)):
        raise FormatError(
            f"the head of {type(model).__name__} returns {tuple(output.logits.shape)} for {len(rows)} positions",
            hint="use a model whose head predicts each token by itself",
        )
    output["logits"] = output.logits[0]
    return output


def vocabulary_size(model: PreTrainedModel) -> int:
    """Return the number of logits of a position."""
    head = model.get_output_embeddings()
    table = model.get_input_embeddings() if head is None or not hasattr(head, "weight") else head
    return int(table.weight.shape[0])


def positions_at_once(model: PreTrainedModel, device: str) -> int:
    """Return how many positions have logits at the same time, so that the matrix of logits stays small."""
    return max(1, LOGITS_AT_ONCE.get(device.partition(":")[0], FEW_LOGITS) // vocabulary_size(model))


CACHES = "_evenhand_prefix_caches"
DROPPED = ("labels", "cache_position", "output_attentions", "output_hidden_states", "head_mask")

CombineLogits = Callable[["torch.Tensor", "list[torch.Tensor]"], "torch.Tensor"]


@dataclass
class _Caches:
    """Keys and values of the passes behind a prefix, kept with those of the plain pass."""

    caches: list[Cache]
    starts: torch.Tensor
    """Column of each text at which the prefix was put in."""


class PrefixPasses:
    """Hooks that replace the logits of a model by a function of its logits with and without prefixes.

    A prefix stands behind the first special token of a text (the beginning of the text or [CLS]), and before the text
    where there is none. Position ids and attention masks are those of the longer input. Hidden states, and calls of the
    body alone, are not changed.

    Args:
        prefixes: token ids of each prefix.
        combine: takes the logits, and the logits at the same positions behind each prefix.
        special: ids of tokens that a prefix stands behind.
    """

    def __init__(self, prefixes: Sequence[Sequence[int]], combine: CombineLogits, special: Sequence[int]) -> None:
        self.prefixes = [list(ids) for ids in prefixes]
        self.combine = combine
        self.special = list(special)
        self._inserted: int | None = None
        """Number of tokens to cut off in front of the states; None in a plain pass."""

    def install(self, model: PreTrainedModel) -> None:
        """Put the hooks into a model in place."""
        body = model.base_model
        if body is model:
            raise UsageError(f"{type(model).__name__} has no language-model head", hint="use a language model")
        # Before other hooks of the body, which choose positions of the plain input.
        body.register_forward_hook(self._cut_prefix, prepend=True)
        model.register_forward_hook(self._combine_logits, with_kwargs=True)

    def _cut_prefix(self, module: nn.Module, arguments: tuple[Tensor, ...], output: Tensor) -> Tensor:
        if not self._inserted:
            return None
        states = output[0][:, self._inserted :]
        if isinstance(output, tuple):
            return (states, *output[1:])
        output["last_hidden_state"] = states
        return output

    def _combine_logits(
        self, model: PreTrainedModel, arguments: tuple[Tensor, ...], inputs: dict[str, Tensor], output: ModelOutput
    ) -> ModelOutput:
        if self._inserted is not None or getattr(output, "logits", None) is None:
            return None
        given = dict(inputs)
        if arguments:
            given["input_ids"] = arguments[0]
        if given.get("input_ids") is None or len(arguments) > 1:
            raise UsageError("a model with prefixes takes input_ids", hint="call it with input_ids=")
        past: _Caches | None = getattr(given.get("past_key_values"), CACHES, None)
        cached = given.get("past_key_values") is not None and _length(given["past_key_values"]) > _new(given)
        if cached and past is None:
            raise UsageError("the cache was not made by this model with its prefixes", hint="start without a cache")
        past = past if cached else None
        starts = self._starts(given) if past is None else past.starts
        passes = [self._run(model, given, number, starts, past) for number in range(len(self.prefixes))]
        if getattr(output, "past_key_values", None) is not None and given.get("use_cache", True):
            caches = [one.past_key_values for one in passes]
            setattr(output.past_key_values, CACHES, _Caches(caches, starts))
        output["logits"] = self.combine(output.logits, [one.logits for one in passes])
        return output

    def _starts(self, given: dict[str, Tensor]) -> torch.Tensor:
        """Return the column of each text at which a prefix is put in."""
        torch = require("torch", extra="models")
        ids, mask = given["input_ids"], given.get("attention_mask")
        first = (
            torch.zeros(len(ids), dtype=torch.long, device=ids.device) if mask is None else mask.long().argmax(dim=1)
        )
        leading = ids.gather(1, first[:, None])[:, 0]
        special = torch.isin(leading, torch.tensor(self.special, dtype=ids.dtype, device=ids.device))
        return first + special.long()

    def _run(
        self, model: PreTrainedModel, given: dict[str, Tensor], number: int, starts: torch.Tensor, past: _Caches | None
    ) -> ModelOutput:
        """Run the model behind one prefix."""
        torch = require("torch", extra="models")
        prefix = torch.tensor(self.prefixes[number], device=given["input_ids"].device)
        inputs = {name: value for name, value in given.items() if name not in DROPPED}
        if inputs.get("attention_mask") is not None:
            inputs["attention_mask"] = _insert(inputs["attention_mask"], torch.ones_like(prefix), starts)
        if past is not None:
            inputs["past_key_values"] = past.caches[number]
            if inputs.get("position_ids") is not None:
                inputs["position_ids"] = inputs["position_ids"] + len(prefix)
        else:
            inputs["input_ids"] = _insert(inputs["input_ids"], prefix, starts)
            inputs["past_key_values"] = None
            if inputs.get("token_type_ids") is not None:
                inputs["token_type_ids"] = _insert(inputs["token_type_ids"], torch.zeros_like(prefix), starts)
            if inputs.get("position_ids") is not None:
                mask = inputs.get("attention_mask")
                seen = torch.ones_like(inputs["input_ids"]) if mask is None else mask
                inputs["position_ids"] = (seen.long().cumsum(dim=1) - 1).clamp(min=0)
        inputs = {name: value for name, value in inputs.items() if name != "past_key_values" or value is not None}
        self._inserted = 0 if past is not None else len(prefix)
        try:
            with model_errors(model):
                return model(**inputs)
        finally:
            self._inserted = None


def _insert(rows: torch.Tensor, values: torch.Tensor, starts: torch.Tensor) -> torch.Tensor:
    """Return the rows with the same values put in, each row at a column of its own."""
    torch = require("torch", extra="models")
    count, width = len(values), rows.shape[1]
    columns = torch.arange(width + count, device=rows.device)[None, :]
    begin = starts[:, None]
    source = torch.where(columns < begin, columns, columns - count).clamp(min=0, max=width - 1)
    kept = rows.gather(1, source)
    inside = (columns >= begin) & (columns < begin + count)
    new = values.to(rows.dtype)[(columns - begin).clamp(min=0, max=count - 1)]
    return torch.where(inside, new, kept)


def _length(cache: Cache) -> int:
    """Return the number of tokens that a cache holds."""
    return int(cache.get_seq_length())


def _new(given: dict[str, Tensor]) -> int:
    return int(given["input_ids"].shape[1])
