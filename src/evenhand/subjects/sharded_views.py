"""Views whose texts are divided into parts for an engine; each worker loads the model once.

The parts depend on the texts alone, not on the engine or the number of workers. A model gives the same text slightly
different numbers in another batch: scores in float32 agree with those of one process within a relative 1e-6.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Matrix, Matrix64, Vector64
from evenhand.engines import Engine, ResidentFunction
from evenhand.errors import EvenhandError, EvenhandWarning, UsageError
from evenhand.models.encoders.classifier import AnswerUnit
from evenhand.models.encoders.sentences import Pooling
from evenhand.models.encoders.sentences import unknown_words as find_unknown_words
from evenhand.models.lm.likelihood import TextScores, TokenScores
from evenhand.models.tokenizing import check_texts
from evenhand.subjects.subject import Subject, ViewName

TEXTS_IN_PART = 256
# What a sharded view says about the view that it stands for, read from a worker.
ATTRIBUTES: dict[ViewName, tuple[str, ...]] = {
    "likelihood": ("name", "masked", "mask_token", "longest"),
    "sentences": ("name", "layers", "pooling"),
    "labels": ("name", "labels", "exclusive", "unit"),
}
_Column = TypeVar("_Column")


@dataclass(frozen=True)
class ViewCall:
    """A method of a view with its arguments for one part of the texts; an empty name asks for the attributes.

    Attributes:
        method: the name; a dot stands before the method of an attribute.
        columns: sequences that are divided into parts, such as the texts.
        options: the other arguments.
        start: number of the first text of the part.
    """

    method: str = ""
    columns: tuple[Sequence[Any], ...] = ()
    options: Mapping[str, object] = field(default_factory=dict)
    start: int = 0


@dataclass(frozen=True)
class ViewWorker:
    """Calls the methods of a view in a worker, which opens the subject when it receives the first call."""

    subject: Subject
    view: ViewName

    def __call__(self, call: ViewCall) -> tuple[Any, list[str]]:
        """Return the result of a method, or the attributes of the view; and the warnings, which stay in a worker."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", EvenhandWarning)
            result = self._run(call)
        return result, [str(each.message) for each in caught if issubclass(each.category, EvenhandWarning)]

    def _run(self, call: ViewCall) -> Any:
        view = self.subject.view(self.view)
        if not call.method:
            found = {name: getattr(view, name) for name in ATTRIBUTES[self.view] if hasattr(view, name)}
            writes, follows = hasattr(view, "generate"), getattr(view, "next_sentence", None) is not None
            return found, writes, follows
        if call.method == "unknown_words":
            return find_unknown_words(view, call.columns[0])
        owner, _, method = call.method.rpartition(".")
        try:
            return getattr(getattr(view, owner) if owner else view, method)(*call.columns, **call.options)
        except EvenhandError as error:
            if not call.start:
                raise
            raise type(error)(f"{error.message} (counted from text {call.start:,})", hint=error.hint) from error


class ViewParts:
    """Calls of a view by part, on an engine.

    Args:
        worker: the view, as the workers keep it.
        engine: where the parts are computed.
    """

    def __init__(self, worker: ResidentFunction[ViewCall, tuple[Any, list[str]]], engine: Engine) -> None:
        self.worker, self.engine = worker, engine

    def ask(self, call: ViewCall) -> Any:
        """Return the result of a call that is not divided."""
        (result,) = self._results([call])
        return result

    def map(self, method: str, *columns: Sequence[object], each: int = 1, **options: object) -> list[Any]:
        """Return the results by part; `each` is how many texts the model reads for an item of the columns."""
        if len({len(column) for column in columns}) > 1:
            raise UsageError(f"{method}: the arguments have {' and '.join(str(len(c)) for c in columns)} items")
        step = max(1, TEXTS_IN_PART // max(1, each))
        starts = range(0, max(1, len(columns[0])), step)
        calls = [
            ViewCall(method, tuple(list(column[start : start + step]) for column in columns), options, start)
            for start in starts
        ]
        return self._results(calls)

    def _results(self, calls: list[ViewCall]) -> list[Any]:
        answers = list(self.engine.map(self.worker, calls))
        for message in dict.fromkeys(message for _, messages in answers for message in messages):
            warnings.warn(message, EvenhandWarning, stacklevel=4)
        return [result for result, _ in answers]


class ShardedLikelihood:
    """The `likelihood` view of a causal model by part; implements `TokenLikelihood`."""

    name: str
    masked: bool

    def __init__(self, parts: ViewParts, attributes: Mapping[str, Any]) -> None:
        self.parts = parts
        self.name, self.masked = attributes["name"], attributes["masked"]

    def log_probabilities(self, texts: Sequence[str], *, batch: int | None = None) -> TextScores:
        """Return the log-probability of each text; see `Likelihood`."""
        scores: list[TextScores] = self.parts.map("log_probabilities", check_texts(texts), batch=batch)
        logs = np.concatenate([part.log_probabilities for part in scores])
        return TextScores(logs, np.concatenate([part.tokens for part in scores]))

    def token_ids(self, texts: Sequence[str]) -> list[TokenScores]:
        """Return the tokens of each text; see `TokenLikelihood`."""
        return _joined(self.parts.map("token_ids", check_texts(texts)))

    def token_log_probabilities(
        self, texts: Sequence[str], positions: Sequence[Sequence[int]] | None = None, *, tokens: int | None = None
    ) -> list[TokenScores]:
        """Return the tokens of each text with their log-probabilities; see `TokenLikelihood`."""
        columns = (check_texts(texts),) if positions is None else (check_texts(texts), positions)
        return _joined(self.parts.map("token_log_probabilities", *columns, tokens=tokens))

    def filler_log_probabilities(
        self, contexts: Sequence[str], fillers: Sequence[str], *, tokens: int | None = None
    ) -> Matrix64:
        """Return the log-probability of each filler in each context; see `TokenLikelihood`."""
        columns, listed = check_texts(contexts), list(check_texts(fillers))
        method = "filler_log_probabilities"
        return np.concatenate(self.parts.map(method, columns, each=len(listed), fillers=listed, tokens=tokens))


class ShardedCausalLM(ShardedLikelihood):
    """The `likelihood` view of a transformer by part; it also writes texts."""

    def generate(self, samples: int = 2000, tokens: int = 500, *, seed: int = 0, start: str = "") -> list[str]:
        """Return sampled texts, all of one worker; see `CausalLM.generate`."""
        options = {"samples": samples, "tokens": tokens, "seed": seed, "start": start}
        texts: list[str] = self.parts.ask(ViewCall("generate", (), options))
        return texts


class ShardedMaskedLM(ShardedLikelihood):
    """The `likelihood` view of a masked model by part; implements `MaskedLikelihood`."""

    mask_token: str
    longest: int

    def __init__(self, parts: ViewParts, attributes: Mapping[str, Any], *, next_sentence: bool) -> None:
        super().__init__(parts, attributes)
        self.mask_token, self.longest = attributes["mask_token"], attributes["longest"]
        self.next_sentence = ShardedNextSentence(parts) if next_sentence else None

    def span_log_probabilities(
        self,
        texts: Sequence[str],
        spans: Sequence[tuple[int, int]],
        *,
        later: Literal["masked", "absent"] = "masked",
        tokens: int | None = None,
    ) -> list[Vector64]:
        """Return the log-probability of each token that covers a span of each text; see `MaskedLikelihood`."""
        return _joined(self.parts.map("span_log_probabilities", check_texts(texts), spans, later=later, tokens=tokens))

    def unmasked_log_probabilities(
        self, texts: Sequence[str], *, attention: bool = False, tokens: int | None = None
    ) -> list[TokenScores]:
        """Return the log-probability of each token with nothing masked; see `MaskedLikelihood`."""
        method = "unmasked_log_probabilities"
        return _joined(self.parts.map(method, check_texts(texts), attention=attention, tokens=tokens))

    def top_fillers(self, contexts: Sequence[str], k: int, *, tokens: int | None = None) -> list[list[str]]:
        """Return the k most probable fillers of each context; see `MaskedLikelihood`."""
        return _joined(self.parts.map("top_fillers", check_texts(contexts), k=k, tokens=tokens))


class ShardedNextSentence:
    """BERT's next-sentence head by part; see `NextSentenceHead`."""

    def __init__(self, parts: ViewParts) -> None:
        self.parts = parts

    def log_probabilities(
        self, contexts: Sequence[str], sentences: Sequence[str], *, tokens: int | None = None
    ) -> Vector64:
        """Return the log-probability that each sentence follows its context."""
        columns = check_texts(contexts), check_texts(sentences)
        return np.concatenate(self.parts.map("next_sentence.log_probabilities", *columns, tokens=tokens))


class ShardedSentences:
    """The `sentences` view by part; implements `SentenceEncoder`."""

    def __init__(self, parts: ViewParts, attributes: Mapping[str, Any]) -> None:
        self.parts = parts
        self.name: str = attributes["name"]
        self.layers: int = attributes["layers"]
        self.pooling: Pooling = attributes["pooling"]

    def encode(
        self,
        texts: Sequence[str],
        *,
        layer: int | None = None,
        pooling: Pooling | None = None,
        tokens: int | None = None,
    ) -> Matrix:
        """Return the vector of each text; see `SentenceEncoder`."""
        return np.concatenate(self.parts.map("encode", check_texts(texts), layer=layer, pooling=pooling, tokens=tokens))

    def encode_layers(
        self, texts: Sequence[str], *, pooling: Pooling | None = None, tokens: int | None = None
    ) -> NDArray[np.floating]:
        """Return the vectors of all layers, (layers + 1, texts, dimensions); see `SentenceEncoder`."""
        layers = self.parts.map("encode_layers", check_texts(texts), pooling=pooling, tokens=tokens)
        return np.concatenate(layers, axis=1)

    def unknown_words(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the words of each text that the encoder cannot read; see `ReportsUnknownWords`."""
        return _joined(self.parts.map("unknown_words", check_texts(texts)))


class ShardedClassifier:
    """The `labels` view by part; implements `Classifier`."""

    def __init__(self, parts: ViewParts, attributes: Mapping[str, Any]) -> None:
        self.parts = parts
        self.name: str = attributes["name"]
        self.labels: tuple[str, ...] = attributes["labels"]
        self.exclusive: bool = attributes["exclusive"]
        self.unit: AnswerUnit = attributes["unit"]

    def predict(self, texts: Sequence[str], *, tokens: int | None = None) -> Matrix64:
        """Return the probability of each label for each text; see `Classifier`."""
        return np.concatenate(self.parts.map("predict", check_texts(texts), tokens=tokens))


ShardedView = ShardedLikelihood | ShardedSentences | ShardedClassifier


def shard_view(subject: Subject, view: ViewName, engine: Engine) -> ShardedView:
    """Return a view of a subject that is computed by an engine; this process does not load the model.

    Args:
        subject: what the workers open: it needs an address, and paths that the workers can read.
        view: `likelihood`, `sentences` or `labels`.
        engine: where the parts are computed.
    """
    parts = ViewParts(ResidentFunction(ViewWorker(subject, view)), engine)
    attributes, writes, follows = parts.ask(ViewCall())
    if view == "sentences":
        return ShardedSentences(parts, attributes)
    if view == "labels":
        return ShardedClassifier(parts, attributes)
    if attributes["masked"]:
        return ShardedMaskedLM(parts, attributes, next_sentence=follows)
    return ShardedCausalLM(parts, attributes) if writes else ShardedLikelihood(parts, attributes)


def _joined(parts: Iterable[Sequence[_Column]]) -> list[_Column]:
    return [item for part in parts for item in part]
