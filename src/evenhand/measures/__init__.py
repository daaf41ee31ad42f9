"""Measures: one file per published measure, each a function of a view and a query that returns a `Measurement`.

`measures.direct_bias` is `measures.get("direct-bias")`. Statistics belong in `stats`, directions in `subspaces`.
"""

from evenhand.registry import lazy_attribute, stub_names

UNREGISTERED = (
    "evenhand.measures.geometry.analogies:generate_analogies",
    "evenhand.measures.groups:GroupRow",
    "evenhand.measures.groups:GroupTable",
    "evenhand.measures.groups:one_against_rest",
    "evenhand.measures.groups:pairwise",
    "evenhand.measures.measurement:Measurement",
    "evenhand.measures.numbers",
    "evenhand.measures.registry:Info",
    "evenhand.measures.registry:get",
    "evenhand.measures.registry:ids",
    "evenhand.measures.registry:info",
)
"""Public names beside the registered measures. `scripts/package_stubs.py` writes both into the stub."""

_PUBLIC = stub_names(__name__, __file__)
__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> object:
    """Return a public name, or a measure of another package or of this notebook by its function name."""
    if name in _PUBLIC or name.startswith("_"):
        return globals().setdefault(name, lazy_attribute(__name__, _PUBLIC, name))
    from evenhand.measures.registry import MEASURES

    if (measure_id := name.replace("_", "-")) not in MEASURES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return MEASURES.get(measure_id)


def __dir__() -> list[str]:
    return __all__
