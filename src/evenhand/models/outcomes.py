"""`Outcomes`: what was decided about the members of groups, and what turned out to be true; read from tables.

A table has a row for each person or text, with one or more columns that name groups, and a label (what is true), a
prediction (what was decided) or a score (how sure the model was). This is what the view `outcomes` offers. A table of
`LabelledTexts` has texts instead of decisions; a classifier predicts them.
"""

from __future__ import annotations

import hashlib
import io
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Rows, Vector64
from evenhand.columnar import check_expansion
from evenhand.errors import EvenhandWarning, FormatError, UsageError, counted, few, foreign_errors, shown, unknown_name
from evenhand.files import LEAST_EXPANSION, MAX_EXPANSION, bare_name, existing, open_bytes

if TYPE_CHECKING:
    import polars as pl

Decided = NDArray[np.bool_]
TableFormat = Literal["csv", "tsv", "jsonl", "parquet"]
FORMATS: dict[str, TableFormat] = {
    ".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet",
}  # fmt: skip
CROSSED = " x "  # between the columns of an intersection, and between the groups in it
MOST_GROUPS = 100
KEY = re.compile(rb'"([^"\\]*)"\s*:')
MOST_COLUMNS = 4000
MOST_CELLS = 1 << 22  # that take less than a byte each in the file
THRESHOLD = 0.5
# Names that columns usually have, and that are taken where a table has exactly one of them.
GUESSES: dict[str, tuple[str, ...]] = {
    "group": ("group", "gender", "sex", "race", "ethnicity", "religion", "nationality", "age_group", "sensitive"),
    "label": ("label", "y", "y_true", "true", "target", "truth", "outcome", "actual"),
    "prediction": ("prediction", "pred", "predicted", "y_pred", "yhat", "y_hat", "decision"),
    "score": ("score", "probability", "prob", "proba", "y_score", "y_prob", "p"),
    "text": ("text", "sentence", "document", "comment", "content"),
}
TRUE = {"1", "1.0", "true", "t", "yes", "y", "positive", "pos"}
FALSE = {"0", "0.0", "false", "f", "no", "n", "negative", "neg", "-1", "-1.0"}
MISSING = {"", "na", "n/a", "nan", "null", "none", "?"}
UNKNOWN = MISSING | {"unknown", "not stated", "prefer not to say"}


@dataclass(frozen=True, eq=False)
class Grouping:
    """The groups of one column, or of the combinations of several.

    Attributes:
        name: the columns, joined by " x ".
        groups: names of the groups.
        codes: the number of the group of each row; -1 where it is not known.
    """

    name: str
    groups: tuple[str, ...]
    codes: Rows

    @property
    def unknown(self) -> int:
        """The number of rows whose group is not known."""
        return int(np.count_nonzero(self.codes < 0))


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Rows of group, label, prediction and score, without those that lack a label or a prediction.

    Attributes:
        name: for reports.
        groupings: the groups, by the name of the grouping.
        prediction: whether each row was selected: given the favourable decision, or predicted positive.
        label: whether each row is positive in truth; None where that is not known.
        score: how probable the model found it that the row is positive; None where there are predictions only.
        columns: which column each of these was read from, and the value that counts as positive.
        dropped: how many rows were left out, by reason.
        threshold: the score from which rows are selected; None if the predictions were given.
        places: the number of each row in the table that it was read from; None if all rows were kept.
    """

    name: str
    groupings: Mapping[str, Grouping]
    prediction: Decided
    label: Decided | None = None
    score: Vector64 | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)
    threshold: float | None = None
    places: Rows | None = None

    def __post_init__(self) -> None:
        parts = [self.label, self.score, *(grouping.codes for grouping in self.groupings.values())]
        if any(part is not None and len(part) != len(self.prediction) for part in parts):
            raise UsageError("labels, scores and groups must be as many as the predictions")
        if not len(self.prediction):
            raise UsageError(f"{self.name} has no rows")

    def __len__(self) -> int:
        return len(self.prediction)

    def grouping(self, name: str) -> Grouping:
        """Return a grouping by its name."""
        if name not in self.groupings:
            raise unknown_name(f"grouping of {self.name}", name, self.groupings)
        return self.groupings[name]

    def decided(self, prediction: Decided) -> Outcomes:
        """Return the same rows with other predictions."""
        return replace(self, prediction=prediction, threshold=None)

    @property
    def digest(self) -> str:
        """Hash of all rows."""
        hasher = hashlib.sha256()
        for array in (self.prediction, self.label, self.score):
            hasher.update(b"-" if array is None else np.ascontiguousarray(array).tobytes())
        for grouping in self.groupings.values():
            hasher.update(repr((grouping.name, grouping.groups)).encode())
            hasher.update(np.ascontiguousarray(grouping.codes).tobytes())
        return hasher.hexdigest()

    def rows_digest(self, grouping: str) -> str:
        """Hash of groups and labels: the same for two models that were asked about the same rows."""
        groups = self.grouping(grouping)
        label = b"" if self.label is None else np.packbits(self.label).tobytes()
        return hashlib.sha256(repr(groups.groups).encode() + groups.codes.tobytes() + label).hexdigest()[:12]


@dataclass(frozen=True)
class OutcomeColumns:
    """Which columns of a table hold what.

    Attributes:
        group: columns of groups; several of one entry, divided by commas, are crossed. Empty to guess.
        label: column of what is true; empty to guess.
        prediction: column of decisions; empty to guess.
        score: column of scores; empty to guess.
        positive: the value that counts as positive in label and prediction; empty for 1, true, yes and the like.
        threshold: the score from which a row is selected, where there are no predictions.
        text: column of texts that a classifier predicts; empty to guess.
    """

    group: tuple[str, ...] = ()
    label: str = ""
    prediction: str = ""
    score: str = ""
    positive: str = ""
    threshold: float | None = None
    text: str = ""

    def resolved(self, columns: Sequence[str], name: str, *, guessed: Sequence[str]) -> OutcomeColumns:
        """Return the columns with guesses for those that were not named.

        Args:
            columns: the columns of the table.
            name: the table, for errors.
            guessed: what may be guessed, in the order of `GUESSES`.
        """
        for part in [*(part for entry in self.group for part in parts_of(entry)), *self._single()]:
            if part not in columns:
                unknown = unknown_name(f"column of {name}", part, columns)
                raise FormatError(unknown.message, hint=unknown.hint)
        guesses = {role: guess_column(role, columns, name) for role in guessed if not getattr(self, role)}
        group = self.group or ((guesses["group"],) if guesses.get("group") else ())
        if not group:
            raise UsageError(
                f"{name} has no column that is known to name groups", hint=f"name one: `group=`; it has {few(columns)}"
            )
        prediction = self.prediction or ("" if self.threshold is not None else guesses.get("prediction", ""))
        return replace(
            self, group=group, prediction=prediction,
            label=self.label or guesses.get("label", ""), score=self.score or guesses.get("score", ""),
            text=self.text or guesses.get("text", ""),
        )  # fmt: skip

    def _single(self) -> list[str]:
        return [part for part in (self.label, self.prediction, self.score, self.text) if part]

    def to_dict(self) -> dict[str, str | float]:
        """Return what took effect, for the record."""
        plain: dict[str, str | float] = {"group": "; ".join(map(grouping_name, self.group))}
        plain |= {
            role: value
            for role in ("text", "label", "prediction", "score", "positive")
            if (value := getattr(self, role))
        }
        return plain | ({} if self.threshold is None else {"threshold": self.threshold})


def parts_of(entry: str) -> list[str]:
    """Return the columns of an entry such as "sex,race"."""
    return [part.strip() for part in entry.split(",") if part.strip()]


def grouping_name(entry: str) -> str:
    """Return the name of the grouping by the columns of an entry."""
    return CROSSED.join(parts_of(entry))


def guess_column(role: str, columns: Sequence[str], name: str) -> str:
    """Return the only column whose name is one that such columns usually have; empty if there is none."""
    matching = [column for column in columns if column.strip().lower() in GUESSES[role]]
    if len(matching) > 1:
        raise UsageError(f"{name} could have its {role} in {' or '.join(matching)}", hint=f"name the column: `{role}=`")
    return matching[0] if matching else ""


# Reading ------------------------------------------------------------------------------------------------------------


def table_format(path: Path, given: str | None = None) -> TableFormat:
    """Return the format of a table by its name, unless it is given."""
    known = tuple(dict.fromkeys(FORMATS.values()))
    if given is not None:
        match = next((each for each in known if each == given.lower()), None)
        if match is None:
            raise unknown_name("format of a table", given, known)
        return match
    by_name = next((kind for suffix, kind in FORMATS.items() if bare_name(path).endswith(suffix)), None)
    if by_name is None:
        raise UsageError(f"{path}: the name does not tell the format", hint=f"say it: `format=` {', '.join(known)}")
    return by_name


def read_frame(path: Path, format: TableFormat) -> pl.DataFrame:
    """Return a table as text and numbers; nothing in it is interpreted as missing yet."""
    import polars as pl

    with open_bytes(existing(path, what="table"), kept=True) as stream:
        content = stream.read()
    if not content.strip():
        raise FormatError(f"{path}: the table is empty", hint="a table has a header and rows")
    if format == "parquet":
        check_expansion(content, str(path), max(MAX_EXPANSION * len(content), LEAST_EXPANSION), MOST_CELLS)
    with foreign_errors(f"{path}: not a {format.upper()} table", hint="check the file, or name its format: `format=`"):
        if format == "parquet":
            frame = pl.read_parquet(io.BytesIO(content))
        elif format == "jsonl":
            _check_cells(path, content, len({found[1] for found in KEY.finditer(content)}))
            frame = pl.read_ndjson(io.BytesIO(content), infer_schema_length=None)
        else:
            separator = "," if format == "csv" else "\t"
            _check_cells(path, content, content.split(b"\n", 1)[0].count(separator.encode()) + 1)
            frame = pl.read_csv(io.BytesIO(content), separator=separator, infer_schema=False, encoding="utf8")
    if not frame.height:
        raise FormatError(f"{path}: the table has no rows", hint="a table has a header and rows")
    return frame


def _check_cells(path: Path, content: bytes, width: int) -> None:
    """Raise an error for a table of few bytes and many cells: those that a row leaves out take memory too."""
    rows = content.count(b"\n") + content.count(b"\r") + 1
    if rows * width > MOST_CELLS + len(content) or width > MOST_COLUMNS:
        raise FormatError(
            f"{path}: {len(content):,} bytes describe about {rows:,} rows of {width:,} columns, which is too much",
            hint="leave out the columns that are not measured",
        )


def outcomes_of(frame: pl.DataFrame, name: str, columns: OutcomeColumns) -> Outcomes:
    """Return the outcomes of a table.

    Args:
        frame: the table.
        name: its name, for errors.
        columns: which columns hold what; those that are not named are guessed.

    Raises:
        UsageError: If a column is missing, a label is not binary, or there is neither a prediction nor a score.
    """
    bare = {column: column.strip() for column in frame.columns}
    if len(set(bare.values())) == len(bare):
        frame = frame.rename(bare)  # "sex, race" names the column " race" of a file with blanks behind its commas
    chosen = columns.resolved(frame.columns, name, guessed=tuple(role for role in GUESSES if role != "text"))
    if not chosen.prediction and not chosen.score:
        raise UsageError(
            f"{name} has no column that is known to hold predictions or scores",
            hint=f"name one: `prediction=` or `score=`; it has {few(frame.columns)}",
        )
    if chosen.prediction and chosen.threshold is not None:
        raise UsageError(
            f"`threshold={chosen.threshold:g}` makes predictions of scores, and {chosen.prediction} holds predictions",
            hint="leave one of them out",
        )
    score = None if not chosen.score else _numbers(frame[chosen.score], name)
    label, no_label = _flags(frame[chosen.label], name, chosen.positive) if chosen.label else (None, None)
    if chosen.prediction:
        prediction, no_prediction = _flags(frame[chosen.prediction], name, chosen.positive)
        source = chosen.prediction
    else:
        score = _numbers(frame[chosen.score], name)
        chosen = replace(chosen, threshold=_threshold(score, chosen, name))
        no_prediction, source = ~np.isfinite(score), chosen.score
        prediction = np.nan_to_num(score, nan=-np.inf) >= float(chosen.threshold or 0.0)
    kept = ~no_prediction
    dropped = {f"without {source}": int(no_prediction.sum())}
    if no_label is not None:
        dropped[f"without {chosen.label}"] = int((no_label & kept).sum())
        kept &= ~no_label
    if score is not None and chosen.prediction:
        dropped[f"without {chosen.score}"] = int((~np.isfinite(score) & kept).sum())
        kept &= np.isfinite(score)
    if not kept.any():
        why = "; ".join(f"{count:,} rows {reason}" for reason, count in dropped.items() if count)
        raise FormatError(f"{name} has no rows that can be measured: {why}", hint="fill in the missing values")
    groupings = {grouping_name(entry): _grouping(frame, entry, name, kept) for entry in chosen.group}
    return Outcomes(
        name, groupings, prediction[kept],
        label=None if label is None else label[kept], score=None if score is None else score[kept],
        columns={key: str(value) for key, value in chosen.to_dict().items()},
        dropped={reason: count for reason, count in dropped.items() if count}, threshold=chosen.threshold,
        places=np.flatnonzero(kept),
    )  # fmt: skip


def _threshold(score: Vector64, columns: OutcomeColumns, name: str) -> float:
    """Return the threshold that was given, or one half of scores between 0 and 1."""
    if columns.threshold is not None:
        if not np.isfinite(columns.threshold):
            raise UsageError(f"`threshold={columns.threshold}` is not a number")
        return columns.threshold
    finite = score[np.isfinite(score)]
    if len(finite) and (finite.min() < 0 or finite.max() > 1):
        raise UsageError(
            f"{name}: the scores in {columns.score} reach from {finite.min():g} to {finite.max():g}, which are no "
            "probabilities",
            hint="say from which score on a row is selected: `threshold=`",
        )
    return THRESHOLD


def _check_plain(column: pl.Series) -> None:
    if column.dtype.is_nested():
        raise FormatError(f"column {column.name} holds lists or records", hint="name a column of plain values")


def _text(column: pl.Series) -> pl.Series:
    """Return the values of a column as text, without blanks around it."""
    import polars as pl

    _check_plain(column)
    with foreign_errors(f"column {column.name} cannot be read as text", hint="store it as text or numbers"):
        return column.cast(pl.String, strict=False).str.strip_chars()


def _codes(column: pl.Series, missing: set[str]) -> tuple[list[str], Rows]:
    """Return the different values of a column, sorted, and the number of each row's value; -1 where it is missing."""
    import polars as pl

    text = _text(column)
    every = sorted(value for value in text.unique().to_list() if value is not None and value.lower() not in missing)
    numbers = {value: number for number, value in enumerate(every)}
    codes = text.replace_strict(numbers, default=-1, return_dtype=pl.Int64).fill_null(-1).to_numpy()
    return every, np.asarray(codes, dtype=np.int64)


def _flags(column: pl.Series, name: str, positive: str) -> tuple[Decided, Decided]:
    """Return which rows are positive, and which have no value."""
    values, codes = _codes(column, MISSING)
    if positive and positive in values:
        is_positive = np.array([value == positive for value in values], dtype=np.bool_)
    elif all(value.lower() in TRUE | FALSE for value in values) and len(values) <= 2:
        is_positive = np.array([value.lower() in TRUE for value in values], dtype=np.bool_)
    else:
        known = few(map(shown, values), most=4)
        problem = f"{name}: column {column.name} holds {counted(len(values), 'value')} ({known}), which is not 0 and 1"
        if positive:
            raise UsageError(f"{problem}, and none is {positive!r}", hint="name one of them: `positive=`")
        raise UsageError(problem, hint="say which value is the positive one: `positive=`")
    flags = np.append(is_positive, False)[codes]
    return flags, codes < 0


def _numbers(column: pl.Series, name: str) -> Vector64:
    """Return a column of numbers; NaN where there is none."""
    import polars as pl

    _check_plain(plain := column)
    if column.dtype.is_temporal():
        raise FormatError(f"column {column.name} holds dates or times", hint="name a column of scores: `score=`")
    if column.dtype == pl.String:
        text = _text(column)
        plain = text.set(text.str.to_lowercase().is_in(list(MISSING)).fill_null(value=False), None)
    with foreign_errors(f"column {column.name} does not hold numbers", hint="name a column of scores: `score=`"):
        numbers = plain.cast(pl.Float64, strict=False)
    if numbers.null_count() > plain.null_count():
        bad = plain.filter(numbers.is_null() & plain.is_not_null())[0]
        raise UsageError(
            f"{name}: column {column.name} holds {bad!r}, which is not a number", hint="name another: `score=`"
        )
    values = np.asarray(numbers.fill_null(np.nan).to_numpy(), dtype=np.float64)
    if np.isinf(values).any():
        raise UsageError(f"{name}: column {column.name} holds infinite numbers", hint="clip the scores first")
    return values


def _grouping(frame: pl.DataFrame, entry: str, name: str, kept: Decided) -> Grouping:
    """Return the groups of a column, or those combinations of several that occur."""
    names: list[str] = [""]
    codes = np.zeros(int(kept.sum()), dtype=np.int64)
    for number, part in enumerate(parts_of(entry)):
        values, own = _codes(frame[part], UNKNOWN)
        own = own[kept]
        if len(values) > MOST_GROUPS:
            raise UsageError(
                f"{name}: column {part} has {len(values):,} groups, more than {MOST_GROUPS}",
                hint="make groups of its values first, such as ranges of ages",
            )
        codes = np.where((codes < 0) | (own < 0), -1, codes * len(values) + own)
        names = [f"{first}{CROSSED}{value}" if number else value for first in names for value in values]
    present = np.unique(codes[codes >= 0])
    if len(present) > MOST_GROUPS:
        raise UsageError(
            f"{name}: {grouping_name(entry)} has {len(present):,} groups, more than {MOST_GROUPS}",
            hint="cross fewer columns",
        )
    if len(present) < 2:
        raise FormatError(
            f"{name}: {grouping_name(entry)} has {counted(len(present), 'known group')}, and groups are compared",
            hint="name another column: `group=`",
        )
    renumbered = np.full(len(names) + 1, -1, dtype=np.int64)
    renumbered[present] = np.arange(len(present))
    return Grouping(grouping_name(entry), tuple(names[code] for code in present), renumbered[codes])


def outcomes_groups(entries: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return the entries of `group`: a text, divided by semicolons, or a list."""
    every = entries.split(";") if isinstance(entries, str) else list(entries or ())
    return tuple(each for entry in every if (each := ",".join(parts_of(entry))))


# Labelled texts ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class LabelledTexts:
    """Texts with groups and labels, which a classifier has not predicted yet.

    Attributes:
        frame: the table.
        texts: the text of each row that has one, and a label.
        rows: groups and labels of these rows; nothing is predicted.
        label: the label of the classifier that counts as positive.
    """

    frame: pl.DataFrame
    texts: tuple[str, ...]
    rows: Outcomes
    label: str

    @property
    def digest(self) -> str:
        """Hash of texts, groups and labels."""
        parts = [self.rows.digest, self.texts, sorted(self.rows.dropped.items())]
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    @classmethod
    def of(
        cls, frame: pl.DataFrame, name: str, columns: OutcomeColumns, labels: Sequence[str], label: str = ""
    ) -> LabelledTexts:
        """Read a table.

        Args:
            frame: the table.
            name: its name, for errors.
            columns: which columns hold what; group, label and text are guessed where they are not named.
            labels: the labels of the classifier.
            label: which of them counts as positive; empty for `columns.positive`, or the last of two.
        """
        import polars as pl

        chosen = columns.resolved(frame.columns, name, guessed=("group", "label", "text"))
        if not chosen.text:
            raise FormatError(
                f"{name} has no column that is known to hold texts",
                hint=f"name one: `text_column=`; it has {few(frame.columns)}",
            )
        if chosen.text in (chosen.label, *(part for entry in chosen.group for part in parts_of(entry))):
            raise FormatError(f"{name}: column {chosen.text} cannot hold the texts and something else too")
        counts = _positive_label(labels, label, chosen.positive)
        if chosen.label and not chosen.positive:
            chosen = replace(chosen, positive=_value_of(frame[chosen.label], name, counts, labels))
        texts = frame[chosen.text].cast(pl.String, strict=False).fill_null("")
        asked = pl.Series(chosen.text, [0.0 if text.strip() else None for text in texts], dtype=pl.Float64)
        rows = outcomes_of(frame.with_columns(asked), name, replace(chosen, score=chosen.text))
        given = {key: str(value) for key, value in chosen.to_dict().items()}
        rows = replace(rows, columns={**given, "positive_label": counts}, threshold=chosen.threshold)
        places = range(frame.height) if rows.places is None else rows.places.tolist()
        return cls(frame, tuple(texts[place] for place in places), rows, counts)


def _positive_label(labels: Sequence[str], named: str, positive: str) -> str:
    """Return the label of a classifier that counts as positive."""
    known = {label.lower(): label for label in labels}
    if named and named.lower() not in known:
        raise FormatError(
            f"the classifier has no label {named!r}; it has {few(labels)}", hint="name one of them: `positive_label=`"
        )
    if found := known.get((named or positive).lower(), ""):
        return found
    named_labels = not all(re.fullmatch(r"(label[_ ]?)?\d+", label) for label in known)
    if len(labels) > 2 or (positive and named_labels):
        raise FormatError(
            f"the classifier has the labels {few(labels)}, and which one counts as positive is not said",
            hint="name it: `positive_label=`",
        )
    if named_labels:
        warnings.warn(f"the label {labels[-1]!r} counts as positive, the last one", EvenhandWarning, stacklevel=2)
    return labels[-1]


def _value_of(column: pl.Series, name: str, label: str, labels: Sequence[str]) -> str:
    """Return the value of a column that means a label of a classifier; empty where it holds 0 and 1, or yes and no."""
    values, _ = _codes(column, MISSING)
    if all(value.lower() in TRUE | FALSE for value in values):
        return ""
    known = [each.lower() for each in labels]
    foreign = [value for value in values if value.lower() not in known]
    if foreign:
        raise FormatError(
            f"{name}: column {column.name} holds {few(map(shown, foreign), most=4)}, and the classifier has the labels "
            f"{few(labels)}",
            hint="say which value of the column is the positive one, `positive=`, and which label, `positive_label=`",
        )
    return next((value for value in values if value.lower() == label.lower()), label)
