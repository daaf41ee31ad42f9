"""Whole records of group metrics on small tables that reach every branch: numbers, texts, units, order."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import polars as pl
import pytest

import evenhand as eh
from evenhand import measures
from evenhand.measures.outcomes.group_metrics import bin_numbers
from evenhand.models.outcomes import Outcomes
from meaningless import number, plain
from recorded_numbers import check_whole


def table(rows: int, groups: str, *, label: bool = True, prediction: bool = False, score: float = 1.0) -> pl.DataFrame:
    columns: dict[str, list[Any]] = {"group": [groups[int(len(groups) * number(n, "g"))] for n in range(rows)]}
    if label:
        columns["label"] = [int(number(n, "l") < 0.45) for n in range(rows)]
    if prediction:
        columns["prediction"] = [int(number(n, "p") < 0.4) for n in range(rows)]
    if score:
        columns["score"] = [score * number(n, "s") for n in range(rows)]
    return pl.DataFrame(columns)


def tiny_table(rows: list[tuple[str, int, int]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=["group", "label", "prediction"], orient="row")


def view(frame: pl.DataFrame, **options: Any) -> Outcomes:
    found: Outcomes = eh.open(frame, **options).view("outcomes")
    return found


def cases() -> dict[str, Any]:
    mixed, two = table(150, "aaaabbbcc"), table(64, "ab", prediction=True, score=0)
    blind = table(90, "aabc", label=False, prediction=True, score=0)
    unknown = two.with_columns(group=pl.Series([None if n % 9 == 4 else g for n, g in enumerate(two["group"])]))
    crossed = two.with_columns(sex=pl.Series(["fm"[n % 2] for n in range(64)]))
    one_sided = two.with_columns(label=pl.Series([int(g == "a" and n % 3 == 0) for n, g in enumerate(two["group"])]))
    never, always = two.with_columns(prediction=pl.lit(0)), two.with_columns(prediction=pl.lit(1))
    right, positive = two.with_columns(prediction=pl.col("label")), two.with_columns(label=pl.lit(1))
    wrong = two.with_columns(prediction=pl.Series([x if n < 2 else 1 - x for n, x in enumerate(two["label"])]))
    apart = tiny_table([("a", 1, 1), ("a", 0, 1), ("b", 1, 0), ("b", 0, 0), ("a", 1, 1), ("b", 1, 0), ("b", 0, 0)])
    tiny = table(9, "abcd", prediction=True, score=0)
    return {
        "mixed": measures.group_metrics(view(mixed)),
        "few bins": measures.group_metrics(view(mixed), bins=1, seed=2),
        "points": measures.group_metrics(view(table(70, "abc", prediction=True, score=7.0)), bins=3),
        "two": measures.group_metrics(view(two)),
        "without labels": measures.group_metrics(view(blind), seed=1),
        "unknown": measures.group_metrics(view(unknown)),
        "crossed": measures.group_metrics(view(crossed, group="group,sex"), smallest=14),
        "large groups": measures.group_metrics(view(mixed), smallest=35),
        "one side": measures.group_metrics(view(one_sided)),
        "never": measures.group_metrics(view(never)),
        "always": measures.group_metrics(view(always)),
        "right": measures.group_metrics(view(right)),
        "positive": measures.group_metrics(view(positive)),
        "tiny": measures.group_metrics(view(tiny)),
        "none large": measures.group_metrics(view(mixed), smallest=1000),
        "accuracy": [measures.decision_accuracy(view(one)) for one in (mixed, two, unknown, right, positive, blind)],
        "accuracy, no label positive": measures.decision_accuracy(view(two.with_columns(label=pl.lit(0)))),
        "accuracy, mostly right": measures.decision_accuracy(view(two.with_columns(prediction=pl.Series([1 - x if n < 2 else x for n, x in enumerate(two["label"])])))),
        "accuracy, mostly wrong": measures.decision_accuracy(view(wrong)),
        "far apart": measures.group_metrics(view(apart)),
        "bins": [bin_numbers(np.array([0.0, 0.1, 0.3, 0.5, 0.99, 1.0]), bins) for bins in (1, 2, 3, 10)],
    }  # fmt: skip


@pytest.mark.filterwarnings("ignore")
def test_whole_records_are_the_recorded_ones() -> None:
    check_whole("cases of outcomes", json.loads(json.dumps({name: plain(value) for name, value in cases().items()})))
