"""Static word vectors: the table, word look-up, file formats and the parse cache."""

from evenhand.models.vectors.lookup import Case, Coverage
from evenhand.models.vectors.table import Vectors

__all__ = ["Case", "Coverage", "Vectors"]
