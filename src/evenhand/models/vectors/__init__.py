"""Static word vectors: the table, the look-up of words, the file formats and the cache.

Contextual encoders and trained models belong elsewhere under `models`.
"""

from evenhand.models.vectors.lookup import Case, Coverage
from evenhand.models.vectors.table import Vectors

__all__ = ["Case", "Coverage", "Vectors"]
