"""evenhand measures social bias in word vectors, text and language models, removes it, and shows what that cost.

Names are resolved on first use, so that `import evenhand` costs little more than numpy. The stub `__init__.pyi` says
where each of them lives.
"""

from evenhand.registry import lazy_attribute, stub_names

_PUBLIC = stub_names(__name__, __file__)
__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> object:
    return globals().setdefault(name, lazy_attribute(__name__, _PUBLIC, name))


def __dir__() -> list[str]:
    return __all__
