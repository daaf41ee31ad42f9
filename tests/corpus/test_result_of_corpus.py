"""The record of the scores of a text: what it returns, shows and leaves out."""

from dataclasses import replace
from types import MappingProxyType

import numpy as np
import pytest

from evenhand.corpus.result import (
    Baseline,
    CorpusBias,
    bias_html,
    bias_tables,
    columns,
    leading_words,
    signed,
    word_cells,
)
from evenhand.errors import DegenerateError, UsageError


def record(**given):
    usual = {
        "words": ("a", "b", "c", "d", "e"),
        "values": np.array([1.0, -0.5, 2.0, -3.0, 0.0]),
        "positive": "f",
        "groups": MappingProxyType({"f": ("she",), "m": ("he",)}),
        "cooccurrence": np.array([[4, 1, 0.5, 1234, 2], [1, 2, 1, 3, 0.1234]]),
        "evidence": np.array([5.0, -1.0, 3.0, -2.0, 0.0]),
        "occurrences": np.array([10.0, 3, 2, 1500, 7]),
        "hits": {"f": 5, "m": 6},
        "missing": {"f": (), "m": ("him",)},
        "lost": {"zero_count": 2},
        "tokens": 1522,
        "documents": 3,
        "empty_documents": 1,
        "vocabulary": 9,
        "name": "text",
    }
    return CorpusBias(**{**usual, **given})


def test_the_mean_and_the_deviation():
    found = record()
    assert found.mu == pytest.approx(6.5 / 5)
    assert found.sigma == pytest.approx(np.std([1, -0.5, 2, -3, 0], ddof=1))
    assert (found.n, found.other) == (5, "m")
    assert record(groups={"f": (), "m": (), "n": ()}).other == "the other groups"
    assert list(found.scores.items()) == [("a", 1), ("b", -0.5), ("c", 2), ("d", -3), ("e", 0)]


def few(count):
    found = record()
    return replace(
        found,
        words=found.words[:count],
        values=found.values[:count],
        cooccurrence=found.cooccurrence[:, :count],
        evidence=found.evidence[:count],
        occurrences=found.occurrences[:count],
    )


def test_too_few_words_have_no_mean_or_no_deviation():
    assert few(1).mu == 1
    assert few(2).sigma == pytest.approx(1.5 / np.sqrt(2))
    with pytest.raises(DegenerateError, match="1 word is scored, too few"):
        _ = few(1).sigma
    with pytest.raises(DegenerateError, match="0 words are scored, too few"):
        _ = few(0).mu
    none, one, two = (few(count).to_dict() for count in range(3))
    assert (none["mu"], none["sigma"], one["mu"], one["sigma"]) == (None, None, 1, None)
    assert two["sigma"] == few(2).sigma
    assert repr(few(0)) == "CorpusBias('text', 1,522 tokens, 0 words scored, mu undefined, sigma undefined)"
    assert repr(few(1)) == "CorpusBias('text', 1,522 tokens, 1 word scored, mu 1.000, sigma undefined)"
    assert repr(few(2)) == "CorpusBias('text', 1,522 tokens, 2 words scored, mu 0.750, sigma 1.061)"


def test_the_leading_words_of_both_sides():
    found = record()
    assert found.top() == (("a", 1.0), ("c", 2.0))
    assert found.top(order="ratio") == (("c", 2.0), ("a", 1.0))
    assert found.top(-5) == (("d", -3.0), ("b", -0.5))
    assert found.top(-1) == (("d", -3.0),)
    assert found.top(1) == (("a", 1.0),)
    assert found.top(0) == ()
    assert found.top(-5, min_occurrences=3) == (("d", -3.0), ("b", -0.5))
    assert found.top(-5, min_occurrences=4) == (("d", -3.0),)
    assert (
        len(
            record(
                words=tuple("abcdefghijklm"), values=np.ones(13), evidence=np.ones(13), occurrences=np.ones(13)
            ).top()
        )
        == 10
    )
    with pytest.raises(UsageError, match="unknown order 'size'"):
        found.top(order="size")


def test_an_interval_needs_two_finite_ends():
    found = record(intervals=np.array([[0.5, np.nan, 1, -np.inf, -1], [1.5, 2, 3, 0, 1]]))
    assert found.interval("a") == (0.5, 1.5)
    assert [found.interval(word) for word in "bdz"] == [None] * 3
    assert record().interval("a") is None
    assert found.to_dict()["items"][0]["interval"] == (0.5, 1.5)
    assert "interval" not in record().to_dict()["items"][0]


def test_the_record_as_plain_data():
    baseline = Baseline(1.0, (0.5, 1.5), 0.25, 19, 19, 4, "rule")
    found = record(baseline=baseline, params={"window": 3}, notes=("small",), seed=7, read_log={"bad_records": 2})
    assert found.to_dict() == {
        "measure": "corpus-bias",
        "name": "text",
        "mu": found.mu,
        "sigma": found.sigma,
        "n": 5,
        "positive": "f",
        "reading": "above 0: with f; below 0: with m",
        "tokens": 1522,
        "documents": 3,
        "empty_documents": 1,
        "vocabulary": 9,
        "groups": {"f": ["she"], "m": ["he"]},
        "hits": {"f": 5, "m": 6},
        "missing": {"f": [], "m": ["him"]},
        "lost": {"zero_count": 2},
        "baseline": {
            "mu": 1.0,
            "interval": (0.5, 1.5),
            "p_value": 0.25,
            "permutations": 19,
            "decided_after": 19,
            "reached": 4,
            "rule": "rule",
        },
        "notes": ["small"],
        "params": {"window": 3},
        "seed": 7,
        "bad_records": 2,
        "items": [
            {
                "word": word,
                "bias": found.values[row],
                "count": int(found.occurrences[row]),
                "cooccurrence": {"f": found.cooccurrence[0, row], "m": found.cooccurrence[1, row]},
                "evidence": found.evidence[row],
            }
            for row, word in enumerate("abcde")
        ],
    }
    assert record().to_dict()["baseline"] is None


def test_only_words_with_enough_company_of_every_group_stay():
    other = record(positive="m", values=-record().values, evidence=-record().evidence)
    found = record(
        intervals=np.arange(10.0).reshape(2, 5), baseline=Baseline(1, (0, 2), None, 1), against={"m": other},
        params={"window": 3},
    )  # fmt: skip
    part = found.with_cooccurrence(1.0)
    assert part.words == ("a", "b", "d")
    assert part.values.tolist() == [1, -0.5, -3]
    assert part.cooccurrence.tolist() == [[4, 1, 1234], [1, 2, 3]]
    assert part.evidence.tolist() == [5, -1, -2]
    assert part.occurrences.tolist() == [10, 3, 1500]
    assert part.intervals.tolist() == [[0, 1, 3], [5, 6, 8]]
    assert dict(part.lost) == {"zero_count": 2, "below_min_cooccurrence": 2}
    assert dict(part.params) == {"window": 3, "min_cooccurrence": 1.0}
    assert part.baseline is None
    assert part.for_group("m").words == part.words
    assert record().with_cooccurrence(1.0).intervals is None
    assert found.for_group("f") is found
    assert found.for_group("m") is other
    with pytest.raises(UsageError, match=r"unknown group 'x'\n.*groups: f, m"):
        found.for_group("x")


def test_records_of_other_groups_are_not_compared():
    with pytest.raises(UsageError, match="different groups: f of"):
        record().beta(record(groups={"f": ("she",), "n": ("he",)}))
    with pytest.raises(UsageError, match=r"different groups: f of .* and m of"):
        record().beta(record(positive="m"))
    assert record().beta(record(values=record().values * 2)).trimmed == pytest.approx(0.5)
    with pytest.raises(DegenerateError, match=r"only 2 words.*\n.*lower min_count \(currently 4\)"):
        few(2).beta(replace(few(2), params={"min_count": 4}))
    assert few(3).beta(few(3)).words == 3


def test_a_frame_has_every_number_of_a_word():
    frame = record(intervals=np.array([[0.0, 1, 2, 3, 4], [5, 6, 7, 8, 9]])).to_frame()
    assert frame.row(1, named=True) == {
        "word": "b",
        "bias": -0.5,
        "evidence": -1.0,
        "low": 1.0,
        "high": 6.0,
        "count": 3,
        "near_f": 1.0,
        "near_m": 2.0,
    }
    assert np.isnan(record().to_frame()["low"].to_numpy()).all()


def test_the_sides_of_two_groups_come_from_one_record():
    found = record()
    assert [(name, one is found, words) for name, one, words in leading_words(found, 2)] == [
        ("f", True, ["a", "c"]),
        ("m", True, ["d", "b"]),
    ]
    assert [words for _, _, words in leading_words(found, 2, min_occurrences=3, order="ratio")] == [["a"], ["d", "b"]]
    third = {"f": ("she",), "m": ("he",), "n": ("they",)}
    against = {"m": record(positive="m", groups=third), "n": record(positive="n", groups=third)}
    three = record(groups=third, against=against)
    sides = list(leading_words(three, 1))
    assert [(name, one.positive, words) for name, one, words in sides] == [(n, n, ["a"]) for n in third]


def test_the_cells_of_a_word():
    found = record(intervals=np.array([[0.5, -1, np.nan, 0, 0], [1.5, 0.001, 1, 1, 1]]))
    assert word_cells(found, "a") == ("a", "+1.00", "+0.50 to +1.50", "+5.0", "4", "1", "10")
    assert word_cells(found, "b") == ("b", "-0.50", "-1.00 to 0.00", "-1.0", "1", "2", "3")
    assert word_cells(found, "c") == ("c", "+2.00", "", "+3.0", "0.5", "1", "2")
    assert word_cells(found, "d")[-3:] == ("1,234", "3", "1,500")
    assert word_cells(found, "e")[-2] == "0.123"
    assert columns(found) == ("word", "bias", "95 % interval", "z", "near f", "near m", "count")
    assert [signed(value) for value in (0.004, -0.004, 0.006, -0.25)] == ["0.00", "0.00", "+0.01", "-0.25"]


def test_tables_show_the_leading_words_and_their_cells():
    found = record()
    tables = list(bias_tables(found, 1))
    assert [str(table.title) for table in tables] == ["leaning f", "leaning m"]
    assert [str(column.header) for column in tables[0].columns] == list(columns(found))
    assert [column.justify for column in tables[0].columns] == ["left", *["right"] * 6]
    assert [(column.overflow, column.no_wrap) for column in tables[0].columns] == [("fold", False)] * 7
    assert [[str(cell) for cell in column.cells] for column in tables[1].columns] == [
        [cell] for cell in word_cells(found, "d")
    ]
    assert (tables[0].box, tables[0].pad_edge, tables[0].title_justify) == (None, False, "left")
    assert [len(table.rows) for table in bias_tables(found, 5, min_occurrences=3, order="ratio")] == [1, 2]
    assert len(found.__rich__().renderables) == 3
    html = bias_html(found, 1)
    assert html.startswith("<p><code>CorpusBias(&#x27;text&#x27;")
    cells = "".join(f"<td>{cell}</td>" for cell in word_cells(found, "d"))
    heads = "".join(f"<th>{name}</th>" for name in columns(found))
    assert html.endswith(f"<table><caption>leaning m</caption><tr>{heads}</tr><tr>{cells}</tr></table>")
    words = tuple(f"w{number:02}" for number in range(13))
    many = record(
        words=words,
        values=np.ones(13),
        evidence=np.arange(13.0),
        occurrences=np.ones(13),
        cooccurrence=np.ones((2, 13)),
    )
    assert many._repr_html_().count("<td>w") == 10
    assert len(many.__rich__().renderables[1].rows) == 5
