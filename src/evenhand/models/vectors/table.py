"""`Vectors`: a vocabulary and a matrix, immutable: what every measure and method for word vectors takes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from evenhand.arrays import Matrix, Matrix64, Rows, Vector64, read_only, row_norms
from evenhand.errors import FormatError, VocabularyError
from evenhand.models.vectors import lookup
from evenhand.models.vectors.lookup import Case, Coverage

if TYPE_CHECKING:
    from evenhand.models.vectors.formats.format import Composer

History = tuple[Mapping[str, Any], ...]


class Vectors:
    """Word vectors: `words` in file order (usually by frequency) and one float32 row of `matrix` for each.

    Nothing changes a `Vectors` after it is made; a mitigation returns a new one whose `history` says what was done.

    >>> v = Vectors(["he", "she"], [[1.0, 0.0], [0.0, 1.0]])
    >>> len(v), v.dim, "she" in v
    (2, 2, True)
    """

    def __init__(
        self,
        words: Iterable[str],
        matrix: Matrix | Sequence[Sequence[float]],
        *,
        name: str = "vectors",
        source: Mapping[str, Any] | None = None,
        history: Iterable[Mapping[str, Any]] = (),
        case: Case = "auto",
        compose: Composer | None = None,
    ) -> None:
        self._words: Sequence[str] = words if isinstance(words, tuple) else tuple(words)
        self.matrix: Matrix = read_only(_as_float32(matrix))
        self.name = name
        self.source: Mapping[str, Any] = dict(source or {})
        self.history: History = tuple(history)
        self.case: Case = case
        self.compose = compose
        lookup.spellings(case)
        _check(self._words, self.matrix)

    @property
    def words(self) -> Sequence[str]:
        """The vocabulary, in the order of the rows."""
        return self._words

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return int(self.matrix.shape[1])

    @cached_property
    def index(self) -> Mapping[str, int]:
        """Row number of each word."""
        index = {word: row for row, word in enumerate(self.words)}
        if len(index) < len(self.words):
            raise FormatError(f"{self.name}: the vocabulary repeats a word", hint="drop the repeated rows")
        return index

    @cached_property
    def norms(self) -> Vector64:
        """Length of each row."""
        return row_norms(self.matrix)

    @cached_property
    def unit(self) -> Matrix:
        """Rows scaled to length one (a zero row stays zero)."""
        from evenhand.models.vectors.neighbours import unit_float32

        return read_only(unit_float32(self))

    def __len__(self) -> int:
        return int(self.matrix.shape[0])

    def __contains__(self, word: object) -> bool:
        return word in self.index

    def __getitem__(self, word: str) -> Matrix:
        row = self.index.get(word)
        if row is not None:
            return np.asarray(self.matrix[row])
        if self.compose is not None:
            return np.asarray(self.compose([word])[0])
        near = lookup.find(word, self.index, "any")
        raise VocabularyError(
            f"{word!r} is not in {self.name} ({len(self):,} words)",
            hint=f"it has {near!r}" if near else "check the spelling; find(word) tries other capitalisations",
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Vectors):
            return NotImplemented
        return tuple(self.words) == tuple(other.words) and np.array_equal(self.matrix, other.matrix)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        done = "".join(f" -> {step.get('method', '?')}" for step in self.history)
        return f"Vectors({self.name!r}, {len(self):,} words x {self.dim}{done})"

    def find(self, word: str) -> str | None:
        """The vocabulary's own spelling of a word under this table's case policy, or None."""
        return lookup.find(word, self.index, self.case)

    def locate(self, words: Iterable[str], *, case: Case | None = None) -> tuple[Rows, Coverage]:
        """Rows of the words that are here, and the account of those that are not."""
        return lookup.locate(words, self.index, case or self.case)

    def take(self, words: Iterable[str], *, case: Case | None = None) -> tuple[Matrix64, Coverage]:
        """The vectors of the words that are here, in double precision, and the account of those that are not."""
        rows, coverage = self.locate(words, case=case)
        return self.matrix[rows].astype(np.float64), coverage

    def composed(self, words: Iterable[str]) -> Vectors:
        """With a row for each of these words: those not here are composed from sub-words, where the file allows it."""
        new = tuple(word for word in dict.fromkeys(words) if word not in self)
        if not new:
            return self
        if self.compose is None:
            raise VocabularyError(
                f"{self.name} cannot compose {new[0]!r}: it has no sub-word vectors",
                hint="load a fastText .bin file",
            )
        return self._like((*self.words, *new), np.vstack([self.matrix, self.compose(new)]))

    def restrict(self, words: Iterable[str]) -> Vectors:
        """Only these words, in the order given; a missing word is an error."""
        rows, coverage = self.locate(words, case="exact")
        if coverage.missing:
            raise VocabularyError(f"{self.name} lacks {len(coverage.missing)} words, such as {coverage.missing[0]!r}")
        return self._like(coverage.found, self.matrix[rows])

    def head(self, n: int) -> Vectors:
        """The first n words: the most frequent ones in files ordered by frequency."""
        return self._like(tuple(self.words[:n]), self.matrix[:n])

    def with_matrix(self, matrix: Matrix, *, step: Mapping[str, Any] | None = None) -> Vectors:
        """The same vocabulary with another matrix; `step` is added to the history."""
        return self._like(tuple(self.words), matrix, extra=(step,) if step else ())

    def _like(self, words: tuple[str, ...], matrix: Matrix, *, extra: History = ()) -> Vectors:
        history = self.history + extra
        # A changed matrix no longer fits the sub-words, so they stay behind.
        return Vectors(words, matrix, name=self.name, source=self.source, history=history, case=self.case)

    def most_similar(
        self,
        positive: str | Sequence[str],
        k: int = 10,
        *,
        negative: str | Sequence[str] = (),
        method: Literal["3cosadd", "3cosmul"] = "3cosadd",
    ) -> list[tuple[str, float]]:
        """The k words nearest by cosine to a word, or to the analogy `positive` minus `negative`.

        The words of the question are never answers. `method="3cosmul"` multiplies the cosines shifted to [0, 1]
        (Levy & Goldberg 2014) instead of adding them.
        """
        from evenhand.models.vectors.neighbours import analogy  # the search needs the table, not the reverse

        positives = [positive] if isinstance(positive, str) else list(positive)
        negatives = [negative] if isinstance(negative, str) else list(negative)
        return analogy(self, positives, negatives, k=k, method=method)

    @classmethod
    def load(cls, source: str | os.PathLike[str], **options: Any) -> Vectors:
        """Read a vector file in any supported format, or a catalog id; see `evenhand.models.vectors.load`."""
        from evenhand.models.vectors.load import load

        return load(source, **options)

    @classmethod
    def default(cls) -> Vectors:
        """The embedded vectors: a cut of GloVe 6B 100-d; see `evenhand show glove-embedded`."""
        from evenhand.models.vectors.load import default

        return default()

    def save(self, path: str | os.PathLike[str], **options: Any) -> Path:
        """Write in the format that the file name says; see `evenhand.models.vectors.load`."""
        from evenhand.models.vectors.load import save

        return save(self, Path(path), **options)


def _as_float32(matrix: Matrix | Sequence[Sequence[float]]) -> Matrix:
    array = np.asarray(matrix)
    if array.dtype.kind not in "fiu":
        raise FormatError(f"vectors must be numbers, got dtype {array.dtype}", hint="convert the matrix to float32")
    with np.errstate(over="ignore"):  # a float64 beyond float32 becomes inf, which the check below names
        return array if array.dtype == np.float32 else array.astype(np.float32)


def _check(words: Sequence[str], matrix: Matrix) -> None:
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        raise FormatError(f"vectors must be a matrix with at least one column, got shape {matrix.shape}")
    if len(words) != matrix.shape[0]:
        raise FormatError(f"{len(words):,} words but {matrix.shape[0]:,} rows", hint="give one row for each word")
