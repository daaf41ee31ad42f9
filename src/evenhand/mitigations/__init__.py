"""What to do about bias: one file for each published method, and the family of maps that they return.

A method's `fit(vectors, concept)` returns a frozen `VectorMap`; measuring what a map did belongs in `measures`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# Public name -> where it lives. An entry without a colon is a module.
_PUBLIC = {
    "LinearProjection": "evenhand.mitigations.linear:LinearProjection",
    "Mitigation": "evenhand.mitigations.method:Mitigation",
    "Span": "evenhand.mitigations.span:Span",
    "VectorMap": "evenhand.mitigations.maps:VectorMap",
    "get": "evenhand.mitigations.registry:get",
    "listing": "evenhand.mitigations.registry:listing",
    "maps": "evenhand.mitigations.maps",
}
__all__ = ["LinearProjection", "Mitigation", "Span", "VectorMap", "get", "listing", "maps"]

if TYPE_CHECKING:
    from evenhand.mitigations import maps
    from evenhand.mitigations.linear import LinearProjection
    from evenhand.mitigations.maps import VectorMap
    from evenhand.mitigations.method import Mitigation
    from evenhand.mitigations.registry import get, listing
    from evenhand.mitigations.span import Span


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, attribute = _PUBLIC[name].partition(":")
    value = getattr(import_module(module), attribute) if attribute else import_module(module)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
