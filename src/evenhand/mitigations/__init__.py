"""Methods that reduce bias, one file per published method, and the changes they return.

A method's `fit(subject, concept)` returns a frozen change: a `VectorMap` of vectors, a `TextChange` of documents. Its
effect is measured in `measures`.
"""

from evenhand.registry import lazy_attribute, stub_names

UNREGISTERED = (
    "evenhand.mitigations.maps",
    "evenhand.mitigations.maps:VectorMap",
    "evenhand.mitigations.method:Mitigation",
    "evenhand.mitigations.method:Target",
    "evenhand.mitigations.method:apply_methods",
    "evenhand.mitigations.vector_method:VectorMethod",
    "evenhand.mitigations.registry:get",
    "evenhand.mitigations.registry:get_vector_method",
    "evenhand.mitigations.registry:ids",
    "evenhand.mitigations.registry:listing",
    "evenhand.mitigations.maps.site_change:SiteChange",
    "evenhand.mitigations.text.text_change:TextChange",
    "evenhand.mitigations.training.glove:glove",
)
"""Public names beside the registered methods. `scripts/package_stubs.py` writes both into the stub."""

_PUBLIC = stub_names(__name__, __file__)
__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> object:
    return globals().setdefault(name, lazy_attribute(__name__, _PUBLIC, name))


def __dir__() -> list[str]:
    return __all__
