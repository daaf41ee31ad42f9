"""`Vectors`: a vocabulary and a matrix, immutable: what every measure and method for word vectors takes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import FrozenInstanceError
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from evenhand.arrays import Matrix, Matrix64, Rows, Vector64, read_only, row_norms
from evenhand.errors import FormatError, UsageError, VocabularyError
from evenhand.models.vectors import lookup
from evenhand.models.vectors.checks import as_float32, refuse_bad_content, refuse_misfit
from evenhand.models.vectors.lookup import Case, Coverage

if TYPE_CHECKING:
    from evenhand.models.vectors.formats.format import Composer

History = tuple[Mapping[str, Any], ...]
COMPUTED = ("index", "norms", "unit")  # kept once asked for, and cheaper to make again than to send to a process


class Vectors:
    """Word vectors: `words` in file order (usually by frequency) and one float32 row of `matrix` for each.

    Nothing changes a `Vectors` after it is made; a mitigation returns a new one whose `history` says what was done.
    A float32 array is taken as it is, not copied (it may be larger than half the memory): hand in a copy if you go on
    writing to it.

    >>> v = Vectors(["he", "she"], [[1.0, 0.0], [0.0, 1.0]])
    >>> len(v), v.dim, "she" in v
    (2, 2, True)
    """

    _words: tuple[str, ...]
    matrix: Matrix
    name: str
    source: Mapping[str, Any]
    history: History
    case: Case
    compose: Composer | None

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
        verified: bool = False,
    ) -> None:
        """`verified` says that words and numbers were checked before, as a file's are when it is parsed."""
        lookup.spellings(case)
        if isinstance(words, str):
            raise FormatError(f"the vocabulary is one text, {words[:40]!r}", hint="give a list of words")
        listed = words if isinstance(words, tuple) else tuple(words)
        array = as_float32(matrix)
        refuse_misfit(listed, array)
        if not verified:
            refuse_bad_content(listed, array, name)
        vars(self).update(
            _words=listed,
            matrix=read_only(array),
            name=name,
            source=dict(source or {}),
            history=tuple(history),
            case=case,
            compose=compose,
        )

    def __setattr__(self, name: str, value: object) -> None:
        raise FrozenInstanceError(f"cannot set {name!r}: vectors never change; with_matrix() makes new ones")

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in COMPUTED}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Arrays come out of a pickle writeable.
        vars(self).update(state, matrix=read_only(state["matrix"]))

    @property
    def words(self) -> tuple[str, ...]:
        """The vocabulary, in the order of the rows."""
        return self._words

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return int(self.matrix.shape[1])

    @cached_property
    def index(self) -> Mapping[str, int]:
        """Row number of each word."""
        return {word: row for row, word in enumerate(self.words)}

    @cached_property
    def norms(self) -> Vector64:
        """Length of each row."""
        return np.asarray(read_only(row_norms(self.matrix)), dtype=np.float64)

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
        return self.words == other.words and np.array_equal(self.matrix, other.matrix)

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
        rows = np.vstack([self.matrix, self.compose(new)])
        return self._like((*self.words, *new), rows, verified=False)

    def restrict(self, words: Iterable[str]) -> Vectors:
        """Only these words, in the order given; a missing word is an error."""
        rows, coverage = self.locate(words, case="exact")
        if coverage.missing:
            raise VocabularyError(
                f"{self.name} lacks {len(coverage.missing)} words, such as {coverage.missing[0]!r}",
                hint="locate(words) tells which are here, under any capitalisation",
            )
        return self._like(coverage.found, self.matrix[rows])

    def head(self, n: int) -> Vectors:
        """The first n words: the most frequent ones in files ordered by frequency."""
        if n < 0:
            raise UsageError(f"the first {n} words asked for", hint="give a number of words")
        return self._like(self.words[:n], self.matrix[:n])

    def with_matrix(self, matrix: Matrix, *, step: Mapping[str, Any] | None = None) -> Vectors:
        """The same vocabulary with another matrix; `step` is added to the history."""
        return self._like(self._words, matrix, extra=(step,) if step else (), verified=False)

    def _like(self, words: tuple[str, ...], matrix: Matrix, *, extra: History = (), verified: bool = True) -> Vectors:
        # A changed matrix no longer fits the sub-words, so they stay behind.
        return Vectors(
            words,
            matrix,
            name=self.name,
            source=self.source,
            history=self.history + extra,
            case=self.case,
            verified=verified,
        )

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
        """Write in the format that the file name says; see `evenhand.models.vectors.saving`."""
        from evenhand.models.vectors.saving import save

        return save(self, Path(path), **options)
