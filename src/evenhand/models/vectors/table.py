"""`Vectors`: an immutable vocabulary with its matrix."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import FrozenInstanceError
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, Unpack

import numpy as np

from evenhand.arrays import Matrix, Matrix64, Rows, Vector64, as_frame, read_only, row_norms
from evenhand.errors import FormatError, UsageError, VocabularyError, few
from evenhand.language import language as rules_of
from evenhand.models.vectors import lookup
from evenhand.models.vectors.checks import as_float32, refuse_bad_content, refuse_misfit
from evenhand.models.vectors.lookup import Case, Coverage

if TYPE_CHECKING:
    from evenhand.models.vectors.files import LoadOptions
    from evenhand.models.vectors.formats.format import Composer
    from evenhand.models.vectors.neighbours import KnownNeighbours

Record: TypeAlias = Mapping[str, Any]  # JSON data: the source of vectors, or one step of their history
History: TypeAlias = tuple[Record, ...]
# Cached properties, cheaper to recompute than to pickle.
COMPUTED = ("index", "norms", "unit", "is_lower_case", "known_neighbours", "_in_languages")


class Vectors:
    """Word vectors: `words` in file order (usually by frequency) and one float32 row of `matrix` per word.

    A `Vectors` object never changes; a mitigation returns a new one that records the step in `history`. A float32 array
    is not copied, because it may be larger than half the memory; pass a copy if you modify it later.

    Only the words of the vocabulary have vectors, here and in every measure. fastText models can compose vectors of
    other words: `composed(words)` returns vectors with these words added.

    >>> v = Vectors(["he", "she"], [[1.0, 0.0], [0.0, 1.0]])
    >>> len(v), v.dim, "she" in v
    (2, 2, True)
    """

    _words: tuple[str, ...]
    matrix: Matrix
    name: str
    source: Record
    history: History
    case: Case
    compose: Composer | None

    def __init__(
        self,
        words: Iterable[str],
        matrix: Matrix | Sequence[Sequence[float]],
        *,
        name: str = "vectors",
        source: Record | None = None,
        history: Iterable[Record] = (),
        case: Case = "auto",
        compose: Composer | None = None,
        verified: bool = False,
    ) -> None:
        """Set `verified` if words and numbers have been checked already, as the file readers do."""
        lookup.spellings(case)
        if isinstance(words, str):
            raise FormatError(f"the vocabulary is a single string, {words[:40]!r}", hint="give a list of words")
        vocabulary = words if isinstance(words, tuple) else tuple(words)
        array = as_float32(matrix)
        refuse_misfit(vocabulary, array)
        if not verified:
            refuse_bad_content(vocabulary, array, name)
        vars(self).update(
            _words=vocabulary,
            matrix=read_only(array),
            name=name,
            source=dict(source or {}),
            history=tuple(history),
            case=case,
            compose=compose,
        )

    def __setattr__(self, name: str, value: object) -> None:
        raise FrozenInstanceError(f"cannot set {name!r}: Vectors is immutable; use with_matrix()")

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if name not in COMPUTED}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Unpickled arrays are writeable.
        vars(self).update(state, matrix=read_only(state["matrix"]))

    @property
    def words(self) -> tuple[str, ...]:
        """The vocabulary in row order."""
        return self._words

    @property
    def dim(self) -> int:
        """Dimension of the vectors."""
        return int(self.matrix.shape[1])

    @property
    def language(self) -> str:
        """ISO code of the language of the words; empty if it is not known, and then words are looked up as English."""
        return str(self.source.get("language", ""))

    def in_language(self, code: str) -> Vectors:
        """Return the vectors as those of a language, unless theirs is known; nothing is copied.

        Measures and methods that are asked about a concept of another language look its words up by these rules.
        """
        if self.language or code in ("", "en"):
            return self
        rules_of(code)  # refuses what is not a code
        if code not in self._in_languages:
            same = self._like(self._words, self.matrix)
            computed = {name: value for name, value in vars(self).items() if name in COMPUTED[:-1]}
            vars(same).update(computed, source={**self.source, "language": code}, compose=self.compose)
            self._in_languages[code] = same
        return self._in_languages[code]

    @cached_property
    def _in_languages(self) -> dict[str, Vectors]:
        return {}

    @cached_property
    def index(self) -> Mapping[str, int]:
        """Row index of each word."""
        return {word: row for row, word in enumerate(self.words)}

    @cached_property
    def is_lower_case(self) -> bool:
        """True for a vocabulary without capitals, except for a few special tokens."""
        return lookup.is_lower_case(self.words)

    @cached_property
    def norms(self) -> Vector64:
        """Euclidean norm of each row."""
        return np.asarray(read_only(row_norms(self.matrix)), dtype=np.float64)

    @cached_property
    def unit(self) -> Matrix:
        """The matrix with rows scaled to unit length; zero rows stay zero."""
        from evenhand.models.vectors.neighbours import unit_float32

        return read_only(unit_float32(self))

    @cached_property
    def known_neighbours(self) -> dict[bytes, KnownNeighbours]:
        """The neighbours that were found among each pool of rows; see `neighbours_among`."""
        return {}

    def __len__(self) -> int:
        return int(self.matrix.shape[0])

    def __contains__(self, word: object) -> bool:
        return word in self.index

    def __getitem__(self, word: str) -> Matrix:
        row = self.index.get(word)
        if row is not None:
            return np.asarray(self.matrix[row])
        near = lookup.find(word, self.index, "any")
        hint = f"it has {near!r}" if near else "check the spelling; find(word) tries other capitalisations"
        if self.compose is not None:
            hint = f"vectors.composed([{word!r}]) adds a vector composed from sub-words"
        raise VocabularyError(f"{word!r} is not in {self.name} ({len(self):,} words)", hint=hint)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Vectors):
            return NotImplemented
        return self.words == other.words and np.array_equal(self.matrix, other.matrix)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        steps = "".join(f" -> {step.get('method', '?')}" for step in self.history)
        return f"Vectors({self.name!r}, {len(self):,} words x {self.dim}{steps})"

    def find(self, word: str) -> str | None:
        """Return the spelling of a word in the vocabulary under the case policy, or None."""
        code = self.language or "en"
        if rules_of(code).casing != "nouns":
            return lookup.find(word, self.index, self.case, code)
        _, coverage = self.locate([word])
        return coverage.respelt.get(word, word) if coverage.found else None

    def locate(
        self,
        words: Iterable[str],
        *,
        case: Case | None = None,
        own_case: bool = False,
        language: str = "",
    ) -> tuple[Rows, Coverage]:
        """Return the row indices of the words that are in the vocabulary, and the coverage.

        The case policy (`case`, by default that of the table) says which spellings of a word are tried, in this order:
        "auto" and "any" the exact one, lower-case, title-case and upper-case; "exact" and "lower" only that one. Names
        and lists of concept-specific words match by their own case (`own_case`), see `lookup.find_own_case`. Case and
        other spellings follow `language`, by default that of the table; German words match by their own case.
        """
        policy = case or self.case
        code = language or self.language or "en"
        own_case = own_case or rules_of(code).casing == "nouns"
        lower_case_only = own_case and policy == "auto" and self.is_lower_case
        return lookup.locate(
            words, self.index, policy, own_case=own_case, lower_case_only=lower_case_only, language=code
        )

    def matching(self, words: Iterable[str]) -> frozenset[str]:
        """Return the vocabulary words that a list of names or of concept-specific words matches, by own case."""
        rows, _ = self.locate(words, own_case=True)
        return frozenset(self.words[row] for row in rows.tolist())

    def take(
        self, words: Iterable[str], *, case: Case | None = None, own_case: bool = False
    ) -> tuple[Matrix64, Coverage]:
        """Return the vectors of the words that are in the vocabulary, in double precision, and the coverage."""
        rows, coverage = self.locate(words, case=case, own_case=own_case)
        return self.matrix[rows].astype(np.float64), coverage

    def composed(self, words: Iterable[str]) -> Vectors:
        """Return vectors extended by the given words, composed from sub-words where they are missing."""
        new = tuple(word for word in dict.fromkeys(words) if word not in self)
        if not new:
            return self
        if self.compose is None:
            raise VocabularyError(
                f"{self.name} cannot compose {new[0]!r}: it has no sub-word vectors",
                hint="load a fastText .bin file",
            )
        rows = np.vstack([self.matrix, self.compose(new)])
        extended = self._like((*self.words, *new), rows, verified=False)
        vars(extended).update(compose=self.compose)  # the rows are unchanged, so further words can be added
        return extended

    def restrict(self, words: Iterable[str]) -> Vectors:
        """Return the vectors of these words only, in this order; a missing word raises `VocabularyError`."""
        rows, coverage = self.locate(words, case="exact")
        if coverage.missing:
            raise VocabularyError(
                f"{self.name} lacks {len(coverage.missing)} words, such as {coverage.missing[0]!r}",
                hint="locate(words) reports which words are found",
            )
        return self._like(coverage.found, self.matrix[rows])

    def head(self, n: int) -> Vectors:
        """Return the first n words, which are the most frequent ones in files sorted by frequency."""
        if n < 0:
            raise UsageError(f"n={n} is negative", hint="give a number of words")
        return self._like(self.words[:n], self.matrix[:n])

    def with_matrix(self, matrix: Matrix, *, step: Record | None = None) -> Vectors:
        """Return vectors with the same vocabulary and another matrix; `step` is appended to the history."""
        return self._like(self._words, matrix, extra=(step,) if step else (), verified=False)

    def _like(self, words: tuple[str, ...], matrix: Matrix, *, extra: History = (), verified: bool = True) -> Vectors:
        # The sub-word vectors do not fit a changed matrix and are dropped.
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
        """Return the k words nearest by cosine to a word, or to the analogy `positive` minus `negative`.

        The query words are excluded from the result. `method="3cosmul"` multiplies the cosines shifted to [0, 1]
        (Levy & Goldberg 2014) instead of adding them.
        """
        from evenhand.models.vectors.neighbours import analogy  # circular at import time

        positives = [positive] if isinstance(positive, str) else list(positive)
        negatives = [negative] if isinstance(negative, str) else list(negative)
        return analogy(self, positives, negatives, k=k, method=method)

    @classmethod
    def load(cls, source: str | os.PathLike[str], **options: Unpack[LoadOptions]) -> Vectors:
        """Load a vector file in any supported format, or a catalog id; see `evenhand.models.vectors.files`.

        A polars or pandas data frame has the words in its first column, and numbers in all others.
        """
        if (table := as_frame(source)) is not None:
            if unknown := sorted(options.keys() - {"limit", "case"}):
                raise UsageError(f"a data frame has no option {unknown[0]!r}", hint="its options are limit and case")
            words, *numbers = table.head(options.get("limit") or table.height).get_columns() or [None]
            if not numbers or words.null_count() or not all(column.dtype.is_numeric() for column in numbers):
                problem = f"the data frame has no vectors: its columns are {few(table.columns)}"
                raise FormatError(problem, hint="words in the first column, numbers in all others")
            with np.errstate(over="ignore"):  # an infinite number is refused below
                matrix = np.stack([column.to_numpy() for column in numbers], axis=1, dtype=np.float32, casting="unsafe")
            return cls(map(str, words), matrix, name="data frame", case=options.get("case", "auto"))
        from evenhand.models.vectors.files import load

        return load(source, **options)

    @classmethod
    def default(cls) -> Vectors:
        """Return the embedded subset of GloVe 6B 100-d; see `evenhand show glove-embedded`."""
        from evenhand.models.vectors.files import default

        return default()

    def save(self, path: str | os.PathLike[str], *, format: str | None = None) -> Path:
        """Save in the format given by the file name; see `evenhand.models.vectors.files`."""
        from evenhand.models.vectors.files import save

        return save(self, Path(path), format=format)
