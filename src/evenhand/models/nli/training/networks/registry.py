"""The architectures by name: the network that learns, and the model that answers."""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

from evenhand.errors import unknown_name

# Name -> where the stacked network and where the model live. Resolved on use.
ARCHITECTURES = {
    "decomposable": (
        "evenhand.models.nli.training.networks.decomposable:DecomposableNetwork",
        "evenhand.models.nli.decomposable:DecomposableAttention",
    ),
    "bilstm": (
        "evenhand.models.nli.training.networks.bilstm:BiLSTMNetwork",
        "evenhand.models.nli.bilstm:BiLSTM",
    ),
}


class Architecture(NamedTuple):
    """`network(members, dim, hidden, dropout)` learns; `model.from_arrays(arrays, vectors, ...)` answers."""

    network: Any
    model: Any


def architecture(name: str) -> Architecture:
    """The classes of an architecture."""
    if name not in ARCHITECTURES:
        raise unknown_name("architecture", name, ARCHITECTURES)
    return Architecture(*map(_resolved, ARCHITECTURES[name]))


def _resolved(target: str) -> Any:
    module, _, attribute = target.partition(":")
    return getattr(import_module(module), attribute)
