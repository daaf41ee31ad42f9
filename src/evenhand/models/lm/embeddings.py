"""Where a language model keeps its input and output embeddings, and whether the two are one matrix."""

from __future__ import annotations

from typing import Any, Literal, get_args

from evenhand.errors import FormatError, UsageError

Where = Literal["input", "output", "both"]


def distinct_weights(model: Any, where: Where = "both") -> list[Any]:
    """The tables that `where` names, each once: a model whose input and output share a matrix has one."""
    checked(where)
    found: list[Any] = []
    for place in ("input", "output") if where == "both" else (where,):
        weight = _weight(model, place)
        if not any(same(weight, other) for other in found):
            found.append(weight)
    return found


def checked(where: Where) -> Where:
    """The place itself, or an error with the known ones."""
    if where not in get_args(Where):
        raise UsageError(f"unknown place {where!r}", hint="use input, output or both")
    return where


def tied(model: Any) -> bool:
    """Whether input and output embeddings are one matrix."""
    return len(distinct_weights(model)) == 1


def same(one: Any, other: Any) -> bool:
    """Whether two tensors are views of the same numbers."""
    return one is other or (one.shape == other.shape and one.data_ptr() == other.data_ptr() and one.numel() > 0)


def _weight(model: Any, place: str) -> Any:
    """By the methods of `transformers`, or the names `encoder` and `decoder` that word-level models use."""
    asked = getattr(model, f"get_{place}_embeddings", None)
    layer = asked() if callable(asked) else getattr(model, {"input": "encoder", "output": "decoder"}[place], None)
    weight = getattr(layer, "weight", None)
    if weight is None or weight.ndim != 2:
        raise FormatError(
            f"a {type(model).__name__} has no matrix of {place} embeddings",
            hint="call the regulariser on the matrix itself: BiasRegulariser(...)(matrix)",
        )
    return weight
