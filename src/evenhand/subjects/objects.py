"""Objects of other libraries as subjects: anything with `predict_proba` over texts, live transformers, data frames.

A live transformer is written to a temporary folder and opened from there, by the same checks as a folder of the user,
and so are the texts and predictions of a data frame.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, cast

import numpy as np

from evenhand.arrays import Matrix64, as_frame, texts_of
from evenhand.errors import DegenerateError, UsageError, few, shown, unknown_name
from evenhand.models.nli.protocol import LABELS
from evenhand.models.outcomes import GUESSES, guess_column
from evenhand.models.vectors import Vectors
from evenhand.subjects.subject import SUBJECTS, Subject, ViewName
from evenhand.subjects.tables import TableSubject, TextLabeller

if TYPE_CHECKING:
    import polars as pl

    from evenhand.models.outcomes import Outcomes

# What a classifier in memory is known by: its answers to these texts.
PROBE_TEXTS = tuple(
    f"{person} {what}."
    for person in ("The woman", "The man", "She", "He", "My neighbour", "They")
    for what in ("is at work", "was late again", "likes the film", "wrote a letter", "is a doctor", "left early")
)
DIGITS = 10  # of a probability, in the hash
FRAME = "data frame"
PAIR = {"index", "premise", "hypothesis"}  # columns of predictions that say what was asked
WORDS = ("word", "words", "token", "tokens")  # of the first column of vectors


class Predictor(Protocol):
    """A classifier of another library: a row of probabilities for each text."""

    def predict_proba(self, texts: list[str], /) -> object:
        """Return the rows as an array, or something that becomes one."""


class Pretrained(Protocol):
    """A model or a tokenizer of transformers."""

    def save_pretrained(self, folder: Path, /) -> object:
        """Write it into a folder."""


class PredictorLabels:
    """The `labels` view of an object with `predict_proba`, such as a pipeline of scikit-learn over raw texts.

    Args:
        predictor: the object; `predict_proba(texts)` returns a row of probabilities for each text.
        labels: names of the columns; its `classes_` by default.
        name: name in reports.
    """

    def __init__(self, predictor: Predictor, labels: Sequence[str] | None = None, name: str = "") -> None:
        self.predictor = predictor
        self.name = name or type(predictor).__name__
        self.exclusive = True
        given = labels if labels is not None else getattr(predictor, "classes_", None)
        if given is None:
            width = self._probabilities(list(PROBE_TEXTS[:2])).shape[1]
            given = [f"label {number}" for number in range(width)]
        self.labels: tuple[str, ...] = tuple(str(label) for label in given)
        if isinstance(labels, str) or len(set(self.labels)) < len(self.labels):
            raise UsageError(f"the labels {shown(given)} are not a list of different names", hint="pass `labels=[...]`")
        self._require_width(self._probabilities(list(PROBE_TEXTS[:2])))

    def predict(self, texts: Sequence[str], *, tokens: int | None = None) -> Matrix64:
        """Return the probability of each label for each text; see `Classifier`."""
        if not len(texts):
            return np.zeros((0, len(self.labels)))
        return self._require_width(self._probabilities(list(texts)))

    def _probabilities(self, texts: list[str]) -> Matrix64:
        try:
            rows = np.asarray(self.predictor.predict_proba(texts), dtype=np.float64)
        except Exception as error:  # the object is another library's, or the user's own
            raise UsageError(
                f"predict_proba of {self.name} failed on a list of texts ({type(error).__name__}: {error})",
                hint="fit it first; it must take raw texts, such as make_pipeline(TfidfVectorizer(), model)",
            ) from error
        if rows.ndim != 2 or len(rows) != len(texts) or not rows.shape[1]:
            problem = f"predict_proba of {self.name} returned shape {rows.shape} for {len(texts)} texts"
            raise UsageError(problem, hint="return a row for each text, with a column for each label")
        inside = np.clip(rows, -1e-6, 1.001)  # NaN stays
        wrong = (inside != rows).any(axis=1) | ~(np.abs(inside.sum(axis=1) - 1.0) <= 1e-3)
        if wrong.any():
            place = int(wrong.argmax())
            raise DegenerateError(
                f"{self.name}: the probabilities of {shown(texts[place])} are not between 0 and 1, or do not add up: "
                f"{few(map(str, rows[place].tolist()))}"
            )
        return rows

    def _require_width(self, rows: Matrix64) -> Matrix64:
        if rows.shape[1] != len(self.labels):
            raise UsageError(
                f"{self.name} has {rows.shape[1]} columns and {len(self.labels)} labels: {', '.join(self.labels[:6])}",
                hint="pass `labels=` in the order of the columns",
            )
        return rows


@SUBJECTS.register("predictor")
class PredictorSubject(TextLabeller):
    """A classifier in memory. It offers `labels`, and `outcomes` if it is opened with labelled texts."""

    kind = "predictor"
    title = "a classifier in memory"
    options: ClassVar[tuple[str, ...]] = ("labels", "name", "digest", *TextLabeller.text_options)

    def __init__(self, view: PredictorLabels, digest: str = "") -> None:
        super().__init__(view.name)
        self.classifier, self._digest = view, digest

    @property
    def offers(self) -> tuple[ViewName, ...]:
        """The decisions only."""
        return ("labels", "outcomes") if self.texts else ("labels",)

    def _open_view(self, name: ViewName) -> PredictorLabels | Outcomes:
        return self.outcomes() if name == "outcomes" else self.classifier

    def _content_digest(self) -> str:
        """Hash of its answers to fixed texts: an object of another library has no content to hash."""
        if self._digest:
            return self._digest
        answers = self.classifier.predict(PROBE_TEXTS).round(DIGITS) + 0.0
        return hashlib.sha256(repr(self.classifier.labels).encode() + answers.tobytes()).hexdigest()

    @classmethod
    def from_object(cls, source: object, **options: object) -> PredictorSubject | None:
        """Wrap an object that has `predict_proba`.

        Args:
            source: the object.
            **options: `labels` in the order of the columns, `name` for reports, `digest` that names the content where
                answers to fixed texts are not enough; and those of labelled texts (`texts`, `group`, `label`).
        """
        if isinstance(source, type) or not callable(getattr(source, "predict_proba", None)):
            return None
        for name in options:
            if name not in cls.options:
                raise unknown_name("option of a classifier in memory", name, cls.options)
        digest = str(options.get("digest") or "")
        labels = cast("Sequence[str] | None", options.get("labels"))
        view = PredictorLabels(cast(Predictor, source), labels, str(options.get("name") or ""))
        subject = cls(view, digest)
        subject.ask_texts(subject.classifier.labels, options)
        return subject


def open_live(source: object, open_subject: Callable[..., Subject], **options: object) -> Subject | None:
    """Open a pipeline of transformers, a pair of model and tokenizer, a SentenceTransformer or a data frame.

    Args:
        source: the object.
        open_subject: opens an address, or `Vectors`.
        **options: options of opening, such as `labels` of an NLI model.

    Returns:
        The subject; None for other objects.
    """
    if (frame := as_frame(source)) is not None:
        return _open_frame(frame, open_subject, {name: value for name, value in options.items() if value is not None})
    save = _saver(source)
    return None if save is None else _open_written(save, "hf:model", _name_of(source), open_subject, options)


def _open_written(
    save: Callable[[Path], object],
    address: str,
    name: str,
    open_subject: Callable[..., Subject],
    options: Mapping[str, object],
) -> Subject:
    """Write an object to a temporary folder under the name of an address, and open it there."""
    kept = _TemporaryFolder()
    scheme, _, rest = address.partition(":")
    save(kept.path / rest)
    subject = open_subject(f"{scheme}:{kept.path / rest}", **options)
    subject.name, subject.address = name, ""
    # The folder lives as long as the subject, and as those changed from it, which copy its attributes.
    vars(subject)["live_folder"] = kept
    return subject


def _open_frame(frame: pl.DataFrame, open_subject: Callable[..., Subject], options: Mapping[str, Any]) -> Subject:
    """Open a data frame as what its options name, and otherwise as what its columns are called."""
    from polars import selectors

    known = {column.strip().lower() for column in frame.columns}
    guessed = {role for role, names in GUESSES.items() if known & set(names)}
    if set(LABELS) <= set(frame.columns):
        address, save = "nli:predictions.jsonl", frame.select(*LABELS, *sorted(PAIR & set(frame.columns))).write_ndjson
    elif options.keys() & set(TableSubject.options) or ("group" in guessed and guessed & {"prediction", "score"}):
        for name in options:
            if name not in TableSubject.options:
                raise unknown_name("option of a table", name, TableSubject.options)
        return TableSubject(frame, FRAME, **options)
    elif field := str(options.get("field") or guess_column("text", frame.columns, FRAME)):
        texts_of(frame, field)
        address, save = "corpus:texts.jsonl", frame.select(~selectors.binary() & ~selectors.nested()).write_ndjson
        options = {**options, "field": field}
    elif known and frame.columns[0].strip().lower() in WORDS:
        return open_subject(Vectors.load(frame, **options))
    else:
        raise UsageError(
            f"{FRAME} could be anything: its columns are {few(frame.columns)}",
            hint="name the columns of decisions (`group=`, `prediction=`) or of texts (`field=`); "
            "vectors have a first column called word, predictions of a probe entailment, neutral and contradiction",
        )
    return _open_written(save, address, FRAME, open_subject, options)


class _TemporaryFolder:
    """A folder that is removed when nothing refers to it any more, or at the end of the process."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="evenhand-live-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


def _saver(source: object) -> Callable[[Path], object] | None:
    """Return what writes a live model to a folder; None for other objects."""
    module = type(source).__module__.partition(".")[0]
    save: Callable[[str], object] | None = getattr(source, "save", None)
    if module == "sentence_transformers" and save is not None:
        return lambda folder: save(str(folder))
    model, tokenizer = _parts(source)
    if model is None:
        return None
    if tokenizer is None:
        raise UsageError(f"a {type(source).__name__} without its tokenizer", hint="open (model, tokenizer)")

    def write(folder: Path) -> None:
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)

    return write


def _parts(source: object) -> tuple[Pretrained | None, Pretrained | None]:
    """Return model and tokenizer of a pipeline or a pair, or None for both."""
    if isinstance(source, tuple) and len(source) == 2:
        model, tokenizer = source
    elif hasattr(source, "save_pretrained") and hasattr(source, "config") and hasattr(source, "forward"):
        model, tokenizer = source, None
    else:
        model, tokenizer = getattr(source, "model", None), getattr(source, "tokenizer", None)
    is_model = hasattr(model, "save_pretrained") and hasattr(model, "config") and hasattr(model, "forward")
    return (model, tokenizer) if is_model else (None, None)


def _name_of(source: object) -> str:
    """Return the name that a model goes by: the last part of where it was loaded from, or its class."""
    model, _ = _parts(source)
    origin = str(getattr(getattr(model, "config", None), "_name_or_path", "") or "")
    return Path(origin).name if origin else type(model if model is not None else source).__name__
