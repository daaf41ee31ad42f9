"""evenhand measures social bias in word vectors, text and language models, removes it, and shows what that cost.

Names are resolved on first use, so that `import evenhand` costs little more than numpy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evenhand.registry import lazy_attribute
from evenhand.version import __version__

# Public name -> where it lives. An entry without a colon is a module.
_PUBLIC = {
    "Audit": "evenhand.audit:Audit",
    "Concept": "evenhand.words:Concept",
    "Coverage": "evenhand.models.vectors:Coverage",
    "EvenhandError": "evenhand.errors:EvenhandError",
    "EvenhandWarning": "evenhand.errors:EvenhandWarning",
    "Measurement": "evenhand.measures:Measurement",
    "Pairs": "evenhand.words:Pairs",
    "Query": "evenhand.words:Query",
    "Subject": "evenhand.subjects:Subject",
    "Subspace": "evenhand.subspaces:Subspace",
    "Template": "evenhand.words:Template",
    "VectorMap": "evenhand.mitigations:VectorMap",
    "Vectors": "evenhand.models.vectors:Vectors",
    "WordSet": "evenhand.words:WordSet",
    "concept": "evenhand.words:concept",
    "corpus": "evenhand.corpus",
    "engines": "evenhand.engines",
    "measures": "evenhand.measures",
    "mitigations": "evenhand.mitigations",
    "open": "evenhand.subjects:open_subject",
    "pairs": "evenhand.words:pairs",
    "probe": "evenhand.measures.inference:probe",
    "query": "evenhand.words:query",
    "stats": "evenhand.stats",
    "subspaces": "evenhand.subspaces",
    "words": "evenhand.words",
    "wordset": "evenhand.words:wordset",
}
__all__ = [
    "Audit",
    "Concept",
    "Coverage",
    "EvenhandError",
    "EvenhandWarning",
    "Measurement",
    "Pairs",
    "Query",
    "Subject",
    "Subspace",
    "Template",
    "VectorMap",
    "Vectors",
    "WordSet",
    "__version__",
    "concept",
    "corpus",
    "engines",
    "measures",
    "mitigations",
    "open",
    "pairs",
    "probe",
    "query",
    "stats",
    "subspaces",
    "words",
    "wordset",
]

if TYPE_CHECKING:
    from evenhand import corpus, engines, measures, mitigations, stats, subspaces, words
    from evenhand.audit import Audit
    from evenhand.errors import EvenhandError, EvenhandWarning
    from evenhand.measures import Measurement
    from evenhand.measures.inference import probe
    from evenhand.mitigations import VectorMap
    from evenhand.models.vectors import Coverage, Vectors
    from evenhand.subjects import Subject
    from evenhand.subjects import open_subject as open
    from evenhand.subspaces import Subspace
    from evenhand.words import Concept, Pairs, Query, Template, WordSet, concept, pairs, query, wordset


def __getattr__(name: str) -> Any:
    return globals().setdefault(name, lazy_attribute(__name__, _PUBLIC, name))


def __dir__() -> list[str]:
    return __all__
