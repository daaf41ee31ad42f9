"""What measures of sentence sets share: readers, scores of candidates in a context, sampled items, clustered intervals.

A context is a text with `{}` once. Scores of candidates compare within one context only: a causal model scores the
whole text, a masked one the tokens of the candidate.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from evenhand import data
from evenhand.arrays import Matrix64, Vector64
from evenhand.errors import DegenerateError, FormatError, InputMissingError, UsageError, VocabularyError, unknown_name
from evenhand.files import existing
from evenhand.models.lm.likelihood import Likelihood, TokenLikelihood, fill
from evenhand.stats import jackknife_interval, unanimous_interval
from evenhand.stats.bootstrap import Interval
from evenhand.stats.means import UNLIMITED, Limits, SumStatistic

BLANK = "{}"
# Errors of a model that cannot score the texts. Others, such as a lost worker, say nothing about the model.
UNSCORABLE = (DegenerateError, FormatError, UsageError, VocabularyError)
Drawn = TypeVar("Drawn")


def data_folder(name: str, given: str | Path) -> Path:
    """Return the folder of a data set: a path as it is, or the local copy of a catalog id.

    Raises:
        InputMissingError: If there is no copy; nothing is downloaded here.
    """
    if str(given) != name:
        path = Path(given)
        if not path.exists():
            raise InputMissingError(f"{str(path)!r} does not exist", hint=f"name a folder, or {name}")
        return path
    located = data.locate(name)
    if located is None:
        raise InputMissingError(f"the data set {name!r} is not on this disk", hint=f"evenhand fetch {name}")
    return located


def part_of_set(source: str | Path, queries: Mapping[str, Sequence[str]], what: str) -> tuple[str, Path, str]:
    """Return the name of a query, its file, and the part of the file that it asks about; "" for all of it.

    Args:
        source: a query, or a file.
        queries: for each data set its queries: the whole set by its id, and its parts, such as `stereoset-gender`.
        what: what a query is, for errors.

    Raises:
        InputMissingError: If the data set is not on this disk; nothing is downloaded here.
    """
    name, path = str(source), Path(source)
    for dataset, names in queries.items():
        if name in names:
            location = data.locate(dataset)
            if location is None:
                raise InputMissingError(f"the data set {dataset} is not on this disk", hint=f"evenhand fetch {dataset}")
            return name, location, name.removeprefix(dataset).removeprefix("-")
    if not path.suffix and len(path.parts) == 1 and not path.exists():
        raise unknown_name(what, name, [query for names in queries.values() for query in names])
    return path.stem, path, ""


def is_masked(view: Likelihood) -> bool:
    """Return whether a model predicts a token from both sides."""
    return isinstance(view, TokenLikelihood) and view.masked


@contextmanager
def undefined_if_unscorable() -> Iterator[None]:
    """Turn errors of a model that cannot score the texts into `DegenerateError`, which leaves a measure undefined."""
    try:
        yield
    except UNSCORABLE as error:
        raise DegenerateError(error.message, hint=error.hint) from error


def sentence_scores(view: Likelihood, texts: Sequence[str]) -> Vector64:
    """Return the log-probability of each text; equal texts are scored once."""
    unique = list(dict.fromkeys(texts))
    scores = dict(zip(unique, view.log_probabilities(unique).log_probabilities.tolist(), strict=True))
    return np.array([scores[text] for text in texts], dtype=np.float64)


def candidate_scores(view: Likelihood, contexts: Sequence[str], candidates: Sequence[Sequence[str]]) -> Matrix64:
    """Return the log-probability of each candidate in its context, (contexts, candidates).

    Args:
        view: the model.
        contexts: texts with `{}` once.
        candidates: as many for each context.
    """
    if not (isinstance(view, TokenLikelihood) and view.masked):
        rows = zip(contexts, candidates, strict=True)
        filled = [context.replace(BLANK, text) for context, texts in rows for text in texts]
        return sentence_scores(view, filled).reshape(len(contexts), -1)
    together: dict[tuple[str, ...], list[int]] = {}
    for row, texts in enumerate(candidates):
        together.setdefault(tuple(sorted(texts)), []).append(row)
    single: dict[tuple[str, ...], list[int]] = {}
    for text in sorted({text for texts in together for text in texts}):
        single[(text,)] = [row for row, texts in enumerate(candidates) if text in texts]
    # Pronouns come in few combinations and occupations in many: take what needs fewer calls of the model.
    scored: dict[tuple[str, str], float] = {}
    for fillers, places in (together if len(together) <= len(single) else single).items():
        asked = list(dict.fromkeys(contexts[row] for row in places))
        values = view.filler_log_probabilities(asked, list(fillers))
        scored |= {(c, f): float(values[i, j]) for i, c in enumerate(asked) for j, f in enumerate(fillers)}
    return np.array(
        [[scored[context, text] for text in row] for context, row in zip(contexts, candidates, strict=True)]
    )


def count_split(view: Likelihood, contexts: Sequence[str], candidates: Sequence[Sequence[str]]) -> int:
    """Return in how many contexts a candidate has several tokens.

    A masked model multiplies the probabilities of the tokens, so that such a candidate is compared with one that needs
    fewer predictions. The count is 0 for a model that scores whole texts.
    """
    if not isinstance(view, TokenLikelihood) or not view.masked:
        return 0
    filled = [fill(context, text) for context, texts in zip(contexts, candidates, strict=True) for text in texts]
    tokens = view.token_ids([text for text, *_ in filled])
    split = [len(one.covering(start, stop)) > 1 for one, (_, start, stop) in zip(tokens, filled, strict=True)]
    owners = [row for row, texts in enumerate(candidates) for _ in texts]
    return len({row for row, is_split in zip(owners, split, strict=True) if is_split})


def draw_sample(items: Sequence[Drawn], strata: Sequence[Hashable], size: int | None, *, seed: int) -> list[Drawn]:
    """Return items drawn without replacement, equally many of each stratum as far as they last, in their order.

    Args:
        items: the items.
        strata: the stratum of each item.
        size: how many items are drawn; None or 0 for all of them.
        seed: seed of the draw.
    """
    if not size or size >= len(items):
        return list(items)
    order = np.random.default_rng(seed).permutation(len(items)).tolist()
    rounds: dict[Hashable, int] = {}
    ranked: list[tuple[int, int, int]] = []
    for row in order:  # the n-th item of each stratum comes before the n+1-th of any
        rounds[strata[row]] = rounds.get(strata[row], -1) + 1
        ranked.append((rounds[strata[row]], len(ranked), row))
    return [items[row] for row in sorted(row for _, _, row in sorted(ranked)[:size])]


def clustered_interval(
    columns: Sequence[Vector64] | Matrix64,
    clusters: Sequence[Hashable],
    statistic: SumStatistic,
    *,
    limits: Limits = UNLIMITED,
    share_of: float | None = None,
) -> Interval:
    """Return the interval of a statistic of column sums over whole clusters (`evenhand.stats.jackknife_interval`).

    Where all clusters agree, nothing varies, and a score with limits has the interval of `unanimous_interval`.

    Args:
        columns: numbers of each item, one array for each column.
        clusters: the cluster of each item, such as its template.
        statistic: maps (draws, columns) sums to values.
        limits: the smallest and the largest possible value.
        share_of: for a share, its largest value, 1 or 100.
    """
    index = {cluster: number for number, cluster in enumerate(dict.fromkeys(clusters))}
    codes = np.array([index[cluster] for cluster in clusters], dtype=np.int64)
    sums = [np.bincount(codes, weights=column, minlength=len(index)) for column in np.column_stack(list(columns)).T]
    bounds = jackknife_interval(statistic, np.stack(sums, axis=1), limits=limits, share_of=share_of)
    if bounds and bounds[0] == bounds[1] and np.isfinite(limits).all():
        return unanimous_interval(bounds[0], len(index), limits)
    return bounds


def ratio(numerator: Vector64, denominator: Vector64) -> Vector64:
    """Return a quotient of sums; NaN where the denominator is 0."""
    empty = np.full(len(numerator), np.nan)
    return np.asarray(np.divide(numerator, denominator, out=empty, where=denominator != 0))


def ranks_first(scores: Matrix64) -> Vector64:
    """Return the share of the first candidate among the best ones of each row: 1, 0, or a part of 1 for a tie."""
    best = scores == scores.max(axis=1, keepdims=True)
    return np.asarray(best[:, 0] / best.sum(axis=1), dtype=np.float64)


AGAIN = "fetch the data set again"


def read_text(path: Path, what: str) -> str:
    """Return the content of a UTF-8 file; `what` names it in errors."""
    try:
        return existing(path, what=what).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise FormatError(f"{path} is not UTF-8 text (byte {error.start:,})", hint=AGAIN) from error


def read_json(path: Path, what: str) -> Any:
    """Return the value that a JSON file holds."""
    return parse_json(read_text(path, what), str(path))


def read_json_lines(path: Path, what: str) -> list[tuple[int, Any]]:
    """Return line number and value of each line that is not blank.

    Raises:
        FormatError: If a line is not JSON, or all are blank.
    """
    lines = enumerate(read_text(path, what).split("\n"), start=1)
    values = [(number, parse_json(line, f"{path}, line {number}")) for number, line in lines if line.strip()]
    if not values:
        raise FormatError(f"{path} is empty", hint=AGAIN)
    return values


def parse_json(text: str, where: str) -> Any:
    """Return the value of a JSON text; `where` names it in errors."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:  # also integers of thousands of digits, and thousands of brackets
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise FormatError(f"{where} is not JSON: {reason}", hint=AGAIN) from error


def read_table(path: Path, what: str, columns: tuple[str, ...], **options: Any) -> list[dict[str, str]]:
    """Return the rows of a table with a header by column; options go to `csv.DictReader`.

    Raises:
        FormatError: If a column is missing, a row has fewer fields than the header, or there is no row.
    """
    try:
        with existing(path, what=what).open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.DictReader(stream, **options)
            rows = list(reader)
            names = reader.fieldnames or []
    except (UnicodeDecodeError, csv.Error) as error:
        raise FormatError(f"{path} is not a table in UTF-8 ({error})", hint=AGAIN) from error
    if missing := [column for column in columns if column not in names]:
        raise FormatError(f"{path} has no column {missing[0]!r}", hint=f"use the columns {', '.join(columns)}")
    for number, row in enumerate(rows, start=2):
        if short := [column for column in columns if row[column] is None]:
            raise FormatError(f"{path}, row {number} has no field {short[0]!r}", hint=AGAIN)
    if not rows:
        raise FormatError(f"{path} has a header and no rows", hint=AGAIN)
    return rows
