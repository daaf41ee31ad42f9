"""Files of labelled pairs: every published form is read, every bad one is named; accuracy counted by hand."""

import gzip
import json
import os
import secrets
import tracemalloc

import numpy as np
import pytest

from evenhand.errors import FormatError, InputMissingError, UsageError
from evenhand.models.nli import LABELS, CallableModel, PredictionsFile, Probabilities
from evenhand.models.nli.labelled_pairs import LabelledPairs, evaluate, read_pairs
from evenhand.stats import wilson

ROWS = [
    ("A man ate.", "A person ate.", "entailment"),
    ("A man ate.", "A man slept.", "neutral"),
    ("A man ate.", "Nobody ate.", "contradiction"),
]
TSV = "gold_label\tsentence1\tsentence2\tlabel1\n" + "".join(f"{label}\t{p}\t{h}\tx\n" for p, h, label in ROWS)


def written(tmp_path, name, text):
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


def jsonl(rows, keys=("premise", "hypothesis", "label")):
    return "".join(json.dumps(dict(zip(keys, row, strict=True))) + "\n" for row in rows)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("plain.jsonl", jsonl(ROWS)),
        ("snli.jsonl", jsonl(ROWS, ("sentence1", "sentence2", "gold_label"))),
        ("packed.jsonl.gz", jsonl(ROWS)),
        ("blank.jsonl", "\n" + jsonl(ROWS).replace("\n", "\n\n")),
        ("marked.jsonl", "\ufeff" + jsonl(ROWS)),
        ("letters.jsonl", jsonl([(p, h, label[0].upper()) for p, h, label in ROWS])),
        ("case.jsonl", jsonl([(p, h, label.title()) for p, h, label in ROWS])),
        ("glue.tsv", TSV),
        ("snli.txt", TSV),
        ("short.tsv", TSV.replace("\tx\n", "\n")),
        ("bare.tsv", "".join("\t".join(row) + "\n" for row in ROWS)),
        ("table.csv", "premise,hypothesis,label\n" + "".join(",".join(row) + "\n" for row in ROWS)),
    ],
)
def test_published_forms(tmp_path, name, text):
    found = read_pairs(written(tmp_path, name, text))
    assert list(zip(found.premises, found.hypotheses, strict=True)) == [row[:2] for row in ROWS]
    assert found.labels.tolist() == [0, 1, 2]
    assert found.labels.dtype == np.int8
    assert found.source == name
    assert len(found.sha256) == 64


def test_zstandard(tmp_path):
    zstandard = pytest.importorskip("zstandard")
    path = tmp_path / "pairs.jsonl.zst"
    path.write_bytes(zstandard.compress(jsonl(ROWS).encode()))
    assert len(read_pairs(path)) == 3


def test_quotation_marks_of_a_tsv_are_text(tmp_path):
    path = written(tmp_path, "glue.tsv", 'sentence1\tsentence2\tlabel\n"Hi\the" said\tneutral\nA\tB\tentailment\n')
    assert read_pairs(path).hypotheses[0] == 'he" said'


def test_quoted_commas_of_a_csv(tmp_path):
    path = written(tmp_path, "x.csv", 'premise,hypothesis,label\n"Yes, he ate.",B,neutral\nA,B,entailment\n')
    assert read_pairs(path).premises[0] == "Yes, he ate."


def test_undecided_and_empty_are_skipped_and_counted(tmp_path):
    rows = [*ROWS, ("A", "B", "-"), ("A", "B", "-"), (" ", "B", "neutral"), ("A", "B", None)]
    found = read_pairs(written(tmp_path, "x.jsonl", jsonl(rows)))
    assert len(found) == 3
    assert found.skipped == {"no decided label": 3, "empty sentence": 1}
    assert found.to_dict()["by_label"] == {"entailment": 1, "neutral": 1, "contradiction": 1}


def test_numbers_need_an_order(tmp_path):
    path = written(tmp_path, "x.jsonl", jsonl([(p, h, n) for n, (p, h, _) in enumerate(ROWS)] + [("A", "B", -1)]))
    with pytest.raises(FormatError, match=r"x\.jsonl:1: unknown label '0'\n.*labels="):
        read_pairs(path)
    found = read_pairs(path, labels=("contradiction", "neutral", "entailment"))
    assert found.labels.tolist() == [2, 1, 0]
    assert found.skipped == {"no decided label": 1}


@pytest.mark.parametrize("labels", ["entailment", ("entailment",), ("entailment", "yes"), ("neutral", "neutral")])
def test_orders_that_are_none(tmp_path, labels):
    with pytest.raises(UsageError, match="the order of labels"):
        read_pairs(written(tmp_path, "x.jsonl", jsonl(ROWS)), labels=labels)


def test_hans_in_both_its_forms(tmp_path):
    bare = read_pairs(written(tmp_path, "hans.txt", "A\tB\t1\nA\tA\t0\n"))
    rows = [("A", "B", "non-entailment"), ("A", "A", "entailment")]
    named = read_pairs(written(tmp_path, "set.jsonl", jsonl(rows, ("sentence1", "sentence2", "gold_label"))))
    assert bare.labels.tolist() == named.labels.tolist() == [3, 0]
    assert bare.two_way
    assert not LabelledPairs.of("A", "B", ["neutral"]).two_way


@pytest.mark.parametrize(
    ("name", "text", "match"),
    [
        ("empty.jsonl", "", r"empty\.jsonl: no labelled pair"),
        ("empty.tsv", "", "no labelled pair"),
        ("head.tsv", "sentence1\tsentence2\tlabel\n", "no labelled pair"),
        ("lost.jsonl", jsonl([("A", "B", "-")]), "1 skipped: no decided label"),
        ("one.jsonl", jsonl(ROWS[:1] * 5), r"only label of its 5 pairs is 'entailment'"),
        ("odd.jsonl", jsonl([*ROWS, ("A", "B", "maybe")]), r"odd\.jsonl:4: unknown label 'maybe'"),
        ("broken.jsonl", jsonl(ROWS) + "{", r"broken\.jsonl:4: not valid JSON"),
        ("list.jsonl", "[1, 2]\n", r"list\.jsonl:1: a row must be an object"),
        ("field.jsonl", '{"premise": "A", "label": "neutral"}\n', r"field\.jsonl:1: no hypothesis or sentence2"),
        ("number.jsonl", jsonl([(["A"], "B", "neutral")]), r"number\.jsonl:1: premise is \['A'\]"),
        ("columns.tsv", "a\tb\tc\td\n1\t2\t3\t4\n", "the header names no known column"),
        ("short.tsv", "sentence1\tsentence2\tlabel\nA\tB\n", r"short\.tsv:2: 2 columns"),
        ("pairs.parquet", "x", "labelled pairs must be in"),
        ("pairs", "x", "a name without suffix"),
    ],
)
def test_bad_files_are_named(tmp_path, name, text, match):
    with pytest.raises((FormatError, UsageError), match=match):
        read_pairs(written(tmp_path, name, text))


def test_what_is_not_there_or_not_text(tmp_path):
    with pytest.raises(InputMissingError, match="does not exist"):
        read_pairs(tmp_path / "nothing.jsonl")
    path = tmp_path / "x.tsv"
    path.write_bytes(b"premise\thypothesis\tlabel\nA\xff\tB\tneutral\n")
    with pytest.raises(FormatError, match="not UTF-8"):
        read_pairs(path)


def test_one_class_may_be_evaluated(tmp_path):
    assert len(read_pairs(written(tmp_path, "one.jsonl", jsonl(ROWS[:1] * 5)), one_class=True)) == 5


def test_a_part_has_another_digest():
    whole = LabelledPairs.of(*zip(*ROWS, strict=True))
    part = whole.head(2)
    assert part.premises == whole.premises[:2]
    assert part.labels.tolist() == [0, 1]
    assert part.sha256 != whole.sha256
    assert part.sha256 == whole.take([0, 1]).sha256


@pytest.mark.data
def test_real_files(data_folder):
    hans, dev = read_pairs(data_folder / "hans" / "hans.txt"), read_pairs(data_folder / "snli" / "dev.jsonl")
    assert hans.to_dict()["by_label"] == {"entailment": 15_000, "non-entailment": 15_000}
    assert len(dev) == 9_842


@pytest.mark.parametrize(
    ("row", "match"),
    [
        ("[" * 100_000, "nested too deeply"),
        (f'{{"premise": "A", "hypothesis": "B", "label": 1{"0" * 5000}}}', "not valid JSON"),
        (f'{{"premise": "A", "hypothesis": "B", "label": 1{"0" * 4000}}}', "unknown label"),
        ('{"premise": "\\ud800", "hypothesis": "B", "label": "neutral"}', "lone surrogate"),
        (f'{{"premise": {[0] * 2000}, "hypothesis": "B", "label": "neutral"}}', "expected text"),
    ],
)
def test_hostile_rows_are_format_errors(tmp_path, row, match):
    path = tmp_path / "pairs.jsonl"
    path.write_text(row + "\n")
    with pytest.raises(FormatError, match=match) as caught:
        read_pairs(path)
    assert "pairs.jsonl:1" in str(caught.value)
    assert len(str(caught.value)) < 600


def test_a_pair_of_surrogates_is_a_character(tmp_path):
    path = tmp_path / "pairs.jsonl"
    row = {"premise": "\U0001f600", "hypothesis": "B"}
    path.write_text("\n".join(json.dumps(row | {"label": label}) for label in ("neutral", "entailment")))
    assert "\\ud83d\\ude00" in path.read_text()
    assert read_pairs(path).premises[0] == "\U0001f600"


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pairs.jsonl")
    with pytest.raises(InputMissingError, match="is a pipe"):
        read_pairs(tmp_path / "pairs.jsonl")


BOMB, LIMIT = 64 << 20, 1 << 20


def read_predictions(path, **options):
    return PredictionsFile(path, **options).predict(["A man ate."], ["A person ate."])


@pytest.mark.parametrize("read", [read_pairs, read_predictions])
@pytest.mark.parametrize(
    ("suffix", "start"), [(".jsonl", '{"premise": "'), (".csv", "premise,hypothesis,label\n"), (".csv", 'premise\n"\n')]
)
def test_a_record_without_end_is_an_error_in_bounded_memory(tmp_path, read, suffix, start):
    path = tmp_path / f"bomb{suffix}.gz"
    piece = secrets.token_hex(256).encode() + b"a" * (1 << 15)  # shrinks less than the factor that is refused at once
    path.write_bytes(gzip.compress(start.encode() + piece * (BOMB // len(piece)), 1))
    tracemalloc.start()
    try:
        with pytest.raises(FormatError, match="a record or word is longer than 1,048,576 bytes") as caught:
            read(path, max_record=LIMIT)
        assert tracemalloc.get_traced_memory()[1] < BOMB / 4
    finally:
        tracemalloc.stop()
    assert "`max_record=`" in caught.value.hint


def test_a_row_of_many_quoted_lines_is_limited(tmp_path):
    path = tmp_path / "pairs.csv"
    path.write_text('premise,hypothesis,label\nA,B,neutral\nA,"' + "a line\n" * 200 + '",entailment\n')
    with pytest.raises(FormatError, match=r"pairs\.csv, line \d+: a record or word is longer than 1,000 bytes"):
        read_pairs(path, max_record=1000)
    assert len(read_pairs(path)) == 2


def test_a_long_field_within_the_limit_is_read(tmp_path):
    """The parser's own limit is 131,072 characters."""
    path = tmp_path / "pairs.csv"
    path.write_text(f"premise,hypothesis,label\n{'a' * 200_000},B,neutral\nA,B,entailment\n")
    assert len(read_pairs(path).premises[0]) == 200_000


SURE = {"e": [0.8, 0.1, 0.1], "n": [0.1, 0.8, 0.1], "c": [0.1, 0.1, 0.8]}


def parrot():
    """Answers with the label that the hypothesis names."""
    return CallableModel(lambda premises, hypotheses: [SURE[text] for text in hypotheses], LABELS)


def answered_pairs(answers, labels):
    return LabelledPairs.of(["A"] * len(labels), answers, labels)


def test_accuracy_by_hand():
    found = evaluate(parrot(), answered_pairs("eenncc", "eennce"), batch=4)
    assert found.accuracy == pytest.approx(5 / 6)
    assert found.n == 6
    assert found.by_label == {"entailment": pytest.approx(2 / 3), "neutral": 1.0, "contradiction": 1.0}
    assert found.confusion.tolist() == [[2, 0, 1], [0, 2, 0], [0, 0, 1]]
    assert found.interval == tuple(wilson(5 / 6, 6))
    assert found.to_dict()["confusion"][0] == [2, 0, 1]


def test_two_classes_take_neutral_and_contradiction_for_one():
    found = evaluate(parrot(), answered_pairs("ence", ["entailment", *["non-entailment"] * 3]))
    assert found.labels == ("entailment", "non-entailment")
    assert found.confusion.tolist() == [[1, 0], [1, 2]]
    assert found.accuracy == 0.75


def test_a_label_without_pairs_has_no_share():
    assert evaluate(parrot(), answered_pairs("ee", "ee")).by_label["neutral"] is None


def test_progress_counts_pairs():
    told = []
    evaluate(parrot(), answered_pairs("eenn", "eenn"), batch=3, progress=lambda *step: told.append(step))
    assert told == [(3, 4, "pairs"), (4, 4, "pairs")]


def test_batch_of_nothing():
    with pytest.raises(UsageError, match="at least 1"):
        evaluate(parrot(), answered_pairs("e", "e"), batch=0)


def test_ties_go_to_the_first_label():
    flat = CallableModel(lambda p, h: Probabilities(np.full((len(p), 3), 1 / 3)), LABELS)
    assert evaluate(flat, answered_pairs("ee", "en")).accuracy == 0.5
