"""The inference view: models that label sentence pairs, and ensembles of such models."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar, cast, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from evenhand.arrays import Floats, Matrix, Rows
from evenhand.engines import Engine
from evenhand.errors import FormatError, UsageError, few
from evenhand.words.probes import Points, Probe

LABELS = ("entailment", "neutral", "contradiction")
ROUNDING = 1e-9
TOLERANCE = 0.01  # a softmax in half precision misses one by up to 0.002, four printed decimals by less
PAIRS_AT_ONCE = 8_192
MEMO_SIZE = 8  # results that an ensemble keeps; a measure asks one or two probes

_Result = TypeVar("_Result")


@runtime_checkable
class NLIModel(Protocol):
    """A model of natural language inference.

    Any object with these two members is an `NLIModel`; no base class is needed. `predict` receives two sequences of
    equal length and returns one row of probabilities per pair, in the order of the input.
    """

    @property
    def name(self) -> str:
        """The name of the model in results and messages."""

    def predict(self, premises: Sequence[str], hypotheses: Sequence[str]) -> Probabilities:
        """Return the probabilities of entailment, neutral and contradiction for each pair."""


@runtime_checkable
class GridModel(NLIModel, Protocol):
    """A model that evaluates whole phrases of a probe faster than pair by pair."""

    def grids(self, probe: Probe) -> Iterator[Grid]:
        """Yield every phrase of the probe once, in any order."""


@runtime_checkable
class RecordedModel(Protocol):
    """Predictions made elsewhere, stored in the order of a probe's pairs."""

    @property
    def name(self) -> str:
        """The name of the model in results and messages."""

    def recorded(self, probe: Probe, blocks: Iterable[Points]) -> Iterator[Probabilities]:
        """Yield the predictions of each block; raise `FormatError` if there are too few or too many."""


@runtime_checkable
class FixedVocabulary(Protocol):
    """A model with a fixed vocabulary."""

    def out_of_vocabulary(self, words: Iterable[str]) -> tuple[str, ...]:
        """Return the words that are out of vocabulary."""


@dataclass(frozen=True)
class NLIEnsemble:
    """Several training seeds of one model: what a subject offers as its `inference` view.

    The members are trained on the same data and differ in their random seed only. A single model is an ensemble of
    one. `note` is what a reader of the scores must know, such as "the model was not retrained".

    `results` memoises what was computed from the members, so several measures that ask the same probe with the
    same sample and seed run it once. It is not part of equality and is not pickled. `engine` computes the parts of
    the probes that measures ask; None is this process.

    >>> class Neutral:
    ...     name = "always-neutral"
    ...     def predict(self, premises, hypotheses):
    ...         return Probabilities(np.tile([0.0, 1.0, 0.0], (len(premises), 1)))
    >>> ensemble = NLIEnsemble((Neutral(),))
    >>> ensemble.name, len(ensemble), ensemble.remember("key", lambda: 42)
    ('always-neutral', 1, 42)
    >>> ensemble.remember("key", lambda: 0)
    42
    """

    members: tuple[NLIModel | RecordedModel, ...]
    note: str = ""
    engine: Engine | None = field(default=None, repr=False, compare=False)
    results: dict[Hashable, object] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        members = tuple(self.members)
        object.__setattr__(self, "members", members)
        if not members:
            raise UsageError("an ensemble needs at least one model", hint="pass the models as members=(model, ...)")
        for member in members:
            if not isinstance(member, NLIModel | RecordedModel):
                raise UsageError(
                    f"{type(member).__name__} is not an NLI model",
                    hint="a model has a name and predict(premises, hypotheses)",
                )

    @property
    def name(self) -> str:
        """The names of the members."""
        return few(member.name for member in self.members)

    def __len__(self) -> int:
        return len(self.members)

    def remember(self, key: Hashable, compute: Callable[[], _Result]) -> _Result:
        """Return the result stored under `key`, computing and storing it on the first call.

        The key holds everything that decides the result: probe, sample, seed and options. The memo keeps the last
        few results.
        """
        if key not in self.results:
            while len(self.results) >= MEMO_SIZE:
                del self.results[next(iter(self.results))]
            self.results[key] = compute()
        return cast(_Result, self.results[key])

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.members, self.note)


@dataclass(frozen=True)
class Grid:
    """Probabilities for whole phrases of a probe: (phrases, premise fillers, hypothesis fillers, labels)."""

    phrases: Rows
    probabilities: Matrix


@dataclass(frozen=True)
class Probabilities:
    """One row per pair; `matrix` has the columns of LABELS, and every row sums to one."""

    matrix: Matrix

    @classmethod
    def named(
        cls, matrix: ArrayLike, labels: Sequence[str] = LABELS, *, where: str = "row {row}", first: int = 0
    ) -> Probabilities:
        """Check and reorder a matrix whose columns are in the order of `labels`.

        Rows that miss a sum of one by rounding are rescaled.

        Args:
            matrix: Probabilities, one row per pair.
            labels: Names of the columns.
            where: How an error names the row; `{row}` stands for its number.
            first: Number of the first row, for errors.

        Raises:
            FormatError: If a row holds NaN, a number outside [0, 1], or does not sum to one.
        """
        order = label_order(labels)
        try:
            values = np.asarray(matrix, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise FormatError(f"probabilities must be numbers, {len(LABELS)} for each pair ({error})") from error
        if values.ndim != 2 or values.shape[1] != len(LABELS):
            raise FormatError(
                f"probabilities must have the shape (pairs, {len(LABELS)}), got {values.shape}",
                hint="one column each for entailment, neutral and contradiction",
            )
        _require_probabilities(values, where, first)
        ordered, sums = values[:, order], values.sum(axis=1, keepdims=True)
        # Rows that sum to one up to the last bit are left alone: 0.7 must not become more than 0.7.
        return cls(np.where(np.abs(sums - 1) > ROUNDING, ordered / sums, ordered))

    def __len__(self) -> int:
        return len(self.matrix)

    @property
    def entailment(self) -> Matrix:
        """Probability that the hypothesis follows from the premise."""
        return self.matrix[:, 0]

    @property
    def neutral(self) -> Matrix:
        """Probability that the hypothesis neither follows nor contradicts."""
        return self.matrix[:, 1]

    @property
    def contradiction(self) -> Matrix:
        """Probability that the hypothesis contradicts the premise."""
        return self.matrix[:, 2]


def predict_points(model: NLIModel, probe: Probe, points: Points) -> Matrix:
    """Return the (pairs, labels) probabilities of some pairs of a probe."""
    parts = [
        model.predict(*probe.texts(Points(*(indices[start : start + PAIRS_AT_ONCE] for indices in points)))).matrix
        for start in range(0, len(points.phrase), PAIRS_AT_ONCE)
    ]
    return np.concatenate(parts) if parts else np.empty((0, len(LABELS)))


def predict_grids(model: NLIModel, probe: Probe) -> Iterator[Grid]:
    """Yield every phrase of a probe, evaluated in the fastest way the model has.

    Sentences that agree with their subject do not share a phrase, and are evaluated pair by pair.
    """
    if probe.agrees or not isinstance(model, GridModel):
        return pairwise_grids(model, probe)
    return model.grids(probe)


def pairwise_grids(model: NLIModel, probe: Probe) -> Iterator[Grid]:
    """Yield every phrase of a probe, evaluated pair by pair."""
    phrases, premises, hypotheses = probe.shape
    each = premises * hypotheses
    step = max(1, PAIRS_AT_ONCE // each)
    for start in range(0, phrases, step):
        span = np.arange(start, min(start + step, phrases))
        matrix = predict_points(model, probe, probe.points(start * each, (start + len(span)) * each))
        yield Grid(span, matrix.reshape(len(span), premises, hypotheses, len(LABELS)))


def label_order(labels: Sequence[str]) -> list[int]:
    """Return the column of each of LABELS in `labels`, which must name all three once."""
    if isinstance(labels, str) or sorted(map(str, labels)) != sorted(LABELS):
        raise UsageError(
            f"the order of labels must name {', '.join(LABELS)}, got {labels!r}",
            hint='name the columns in order, such as ("contradiction", "neutral", "entailment")',
        )
    return [list(labels).index(label) for label in LABELS]


def require_equal_lengths(premises: Sequence[str], hypotheses: Sequence[str]) -> None:
    """Raise `UsageError` unless there are as many hypotheses as premises."""
    if isinstance(premises, str) or isinstance(hypotheses, str):
        raise UsageError("premises and hypotheses are lists of sentences, got one text")
    if len(premises) != len(hypotheses):
        raise UsageError(f"{len(premises)} premises and {len(hypotheses)} hypotheses: a pair needs one of each")


def _require_probabilities(values: Floats, where: str, first: int) -> None:
    finite = np.isfinite(values).all(axis=1)
    for problem, good in (
        ("a probability is not finite", finite),
        ("a probability is outside [0, 1]", ~finite | ((values >= -TOLERANCE) & (values <= 1 + TOLERANCE)).all(axis=1)),
        ("the probabilities do not sum to one", ~finite | (np.abs(values.sum(axis=1) - 1) <= TOLERANCE)),
    ):
        if not good.all():
            row = int(np.argmin(good))
            numbers = ", ".join(f"{value:g}" for value in values[row])
            raise FormatError(
                f"{where.replace('{row}', str(first + row))}: {problem}: {numbers}",
                hint="give probabilities after the softmax, not logits, one row per pair",
            )


@dataclass(frozen=True)
class CallableModel:
    """A function from two lists of sentences to probabilities, called with at most `batch` pairs at a time.

    `labels` names the three columns in order; published models differ in it.

    >>> always = CallableModel(lambda p, h: [[0.1, 0.8, 0.1]] * len(p), ("entailment", "neutral", "contradiction"))
    >>> float(always.predict(["A man ate."], ["A person ate."]).neutral[0])
    0.8
    """

    function: Callable[[list[str], list[str]], ArrayLike | Probabilities]
    labels: Sequence[str]
    name: str = "callable"
    batch: int = 256

    def __post_init__(self) -> None:
        label_order(self.labels)
        if self.batch < 1:
            raise UsageError(f"batch must be at least 1, got {self.batch}")

    def predict(self, premises: Sequence[str], hypotheses: Sequence[str]) -> Probabilities:
        """Return the function's probabilities, checked."""
        require_equal_lengths(premises, hypotheses)
        parts = [self._predict_batch(premises, hypotheses, start) for start in range(0, len(premises), self.batch)]
        return Probabilities(np.concatenate(parts) if parts else np.empty((0, len(LABELS))))

    def _predict_batch(self, premises: Sequence[str], hypotheses: Sequence[str], start: int) -> Matrix:
        span = slice(start, start + self.batch)
        answer = self.function(list(premises[span]), list(hypotheses[span]))
        matrix = answer.matrix if isinstance(answer, Probabilities) else answer
        labels = LABELS if isinstance(answer, Probabilities) else self.labels
        probabilities = Probabilities.named(matrix, labels, where=self.name + ", pair {row}", first=start)
        pairs = len(premises[span])
        if len(probabilities) != pairs:
            raise FormatError(
                f"{self.name}: {len(probabilities)} rows for {pairs} pairs", hint="return one row per pair"
            )
        return probabilities.matrix
