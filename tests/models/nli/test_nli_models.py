"""The protocol, functions and prediction files as models, and what they refuse."""

import json
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.errors import FormatError, InputMissingError, UsageError
from evenhand.measures.inference import probe as run
from evenhand.models import nli
from evenhand.models.nli import LABELS, CallableModel, NLIEnsemble, NLIModel, PredictionsFile, Probabilities
from evenhand.words import probes
from evenhand.words.probes import stratified

ORDER = ("contradiction", "entailment", "neutral")


def by_length(premises, hypotheses):
    raw = np.array(
        [[len(p) % 5 + 1, len(h) % 3 + 1, len(p + h) % 7 + 1] for p, h in zip(premises, hypotheses, strict=True)]
    )
    return raw / raw.sum(axis=1, keepdims=True)


MODEL = CallableModel(by_length, ORDER, name="lengths")


def test_columns_are_put_in_order_by_name():
    found = MODEL.predict(["abc"], ["de"])
    contradiction, entailment, neutral = by_length(["abc"], ["de"])[0]
    assert found.entailment[0] == pytest.approx(entailment)
    assert found.neutral[0] == pytest.approx(neutral)
    assert found.contradiction[0] == pytest.approx(contradiction)
    assert isinstance(MODEL, NLIModel)


@given(st.lists(st.text(max_size=5), max_size=9), st.integers(1, 4))
def test_batches_make_no_difference(texts, batch):
    whole = MODEL.predict(texts, texts[::-1]).matrix
    assert np.array_equal(whole, CallableModel(by_length, ORDER, batch=batch).predict(texts, texts[::-1]).matrix)


@pytest.mark.parametrize(
    ("answer", "match"),
    [
        ([[0.2, 0.3, np.nan]], "not finite"),
        ([[0.2, 0.3, 0.6]], "sum to one"),
        ([[1.5, -0.5, 0.0]], "outside"),
        ([[2.0, 3.0, -1.0]], "logits"),
        ([[0.5, 0.5]], "shape"),
        ([[0.2, 0.3, 0.5]] * 2, "2 rows for 1"),
        ([["a", "b", "c"]], "numbers"),
    ],
)
def test_answers_that_are_no_probabilities(answer, match):
    with pytest.raises(FormatError, match=match):
        CallableModel(lambda p, h: answer, LABELS).predict(["a"], ["b"])


def test_the_bad_row_is_named():
    def answer(premises, hypotheses):
        return [[np.nan] * 3 if text == "bad" else [0.2, 0.3, 0.5] for text in premises]

    with pytest.raises(FormatError, match="mine, pair 3"):
        CallableModel(answer, LABELS, "mine", batch=2).predict(["a", "a", "a", "bad"], ["b"] * 4)


@pytest.mark.parametrize("labels", ["entailment", ("entailment", "neutral"), ("yes", "no", "maybe"), ("neutral",) * 3])
def test_the_order_of_labels_must_be_said(labels):
    with pytest.raises(UsageError, match="order of labels"):
        CallableModel(by_length, labels)


def test_a_bare_function_is_refused_with_the_remedy():
    with pytest.raises(UsageError, match="CallableModel"):
        run(by_length, "mab-explicit")
    with pytest.raises(UsageError, match="not an NLI model"):
        run(7, "mab-explicit")


def test_unequal_sides():
    with pytest.raises(UsageError, match="2 premises and 1"):
        MODEL.predict(["a", "b"], ["c"])


def test_rows_that_miss_one_by_rounding_are_scaled():
    found = Probabilities.named([[0.3334, 0.3334, 0.3334]])
    assert found.matrix.sum() == pytest.approx(1)


def few():
    return probes.probe("mab-explicit").restrict(verb=["bought", "met"], object=["apron", "urchin", "van"])


def write(path, asked, points=None, **extra):
    """Predictions of MODEL for a probe, in its order."""
    some = points or asked.points(0, asked.n_pairs)
    rows = []
    for number, premise, hypothesis in zip(
        np.ravel_multi_index(some, asked.shape).tolist(), *asked.texts(some), strict=True
    ):
        answer = MODEL.predict([premise], [hypothesis]).matrix[0].tolist()
        rows.append(
            {"index": number, "premise": premise, "hypothesis": hypothesis, **dict(zip(LABELS, answer, strict=True))}
        )
    path.write_text("\n".join(json.dumps({**row, **extra}) for row in rows) + "\n", encoding="utf-8")
    return rows


def test_a_file_of_predictions_scores_like_the_model(tmp_path):
    path = tmp_path / "out.jsonl"
    write(path, few())
    ours, theirs = run(PredictionsFile(path), few(), controls=False), run(MODEL, few(), controls=False)
    assert ours.headline == pytest.approx(theirs.headline)
    assert ours.model == "out.jsonl"


def test_a_file_of_a_sample(tmp_path):
    path, asked = tmp_path / "out.jsonl", few()
    write(path, asked, stratified(asked, 20, seed=5).points)
    assert run(PredictionsFile(path), asked, sample=20, seed=5).headline == pytest.approx(
        run(MODEL, asked, sample=20, seed=5, controls=False).headline
    )
    with pytest.raises(FormatError, match="index"):
        run(PredictionsFile(path), asked, sample=20, seed=6)


def test_csv_and_other_column_names(tmp_path):
    path, asked = tmp_path / "out.csv", few()
    rows = write(tmp_path / "x.jsonl", asked)
    lines = ["E,N,C", *(f"{r['entailment']!r},{r['neutral']!r},{r['contradiction']!r}" for r in rows)]
    path.write_text("\n".join(lines), encoding="utf-8")
    names = dict(zip(LABELS, "ENC", strict=True))
    assert run(PredictionsFile(path, names), asked).headline == pytest.approx(
        run(MODEL, asked, controls=False).headline
    )
    with pytest.raises(FormatError, match=r"out\.csv:2: no column 'entailment'"):
        run(PredictionsFile(path), asked)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda lines: lines[:-1], "only 23 rows; .* has 24 pairs"),
        (lambda lines: [line.replace("neutral", "nix") for line in lines[:3]], ":1: no column 'neutral'"),
        (lambda lines: [*lines, lines[0]], "more than the 24 rows"),
        (
            lambda lines: [*lines[:4], lines[4].replace('"neutral": 0.', '"neutral": NaN, "x": 0.'), *lines[5:]],
            ":5: .*not finite",
        ),
        (
            lambda lines: [*lines[:4], lines[4].replace('"neutral": 0.', '"neutral": 0.9'), *lines[5:]],
            ":5: .*sum to one",
        ),
        (lambda lines: [*lines[:4], lines[5], lines[4], *lines[6:]], ":5: index is 5"),
        (lambda lines: [*lines[:2], "{", *lines[3:]], ":3: not valid JSON"),
        (lambda lines: [*lines[:2], "[1, 2, 3]", *lines[3:]], ":3: a row must be an object"),
        (lambda lines: [line.replace("neutral", "nix") for line in lines], ":1: no column 'neutral'"),
        (lambda lines: [lines[0].replace("bought", "sold"), *lines[1:]], ":1: premise"),
        (lambda lines: [lines[0].replace('"hypothesis": "A', '"hypothesis": "The'), *lines[1:]], ":1: hypothesis"),
        (lambda lines: [], "only 0 rows"),
    ],
)
def test_damaged_prediction_files_are_told_by_line(tmp_path, change, match):
    path, asked = tmp_path / "out.jsonl", few()
    write(path, asked)
    path.write_text("\n".join(change(path.read_text(encoding="utf-8").splitlines())), encoding="utf-8")
    with pytest.raises(FormatError, match=match):
        run(PredictionsFile(path), asked)


def test_predictions_by_text(tmp_path):
    path, asked = tmp_path / "out.jsonl", few()
    write(path, asked)
    pair = asked.pair(7)
    found = PredictionsFile(path).predict([pair.premise], [pair.hypothesis])
    assert found.matrix == pytest.approx(MODEL.predict([pair.premise], [pair.hypothesis]).matrix)
    with pytest.raises(FormatError, match="no row for the pair"):
        PredictionsFile(path).predict(["x"], ["y"])


def test_prediction_files_of_other_kinds(tmp_path):
    with pytest.raises(UsageError, match=r"\.jsonl or \.csv"):
        PredictionsFile(tmp_path / "x.txt")
    with pytest.raises(UsageError, match="must map"):
        PredictionsFile(tmp_path / "x.csv", {"yes": "no"})


def test_a_table_that_is_none(tmp_path):
    path = tmp_path / "p.csv"
    path.write_text('entailment,neutral,contradiction\n"' + 200_000 * "0", encoding="utf-8")
    with pytest.raises(FormatError, match=r"p\.csv: not a valid table .unexpected end of data"):
        run(PredictionsFile(path), "mab-explicit")


def test_the_transformer_is_read_when_it_is_asked_for():
    pytest.importorskip("torch")
    code = "import sys, evenhand.models.nli as nli; assert not {'torch', 'transformers'} & set(sys.modules); "
    code += "assert 'evenhand.models.nli.transformer' not in sys.modules; print(nli.TransformerNLI.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "TransformerNLI"
    with pytest.raises(AttributeError, match="no attribute 'Other'"):
        getattr(nli, "Other")  # noqa: B009


def test_a_name_with_braces_does_not_break_the_error():
    with pytest.raises(FormatError, match=r"\{x\}, pair 0"):
        CallableModel(lambda p, h: [[2.0, 3.0, -1.0]], LABELS, "{x}").predict(["a"], ["b"])


def test_an_ensemble_computes_each_result_once():
    ensemble, calls = NLIEnsemble((MODEL, MODEL), note="not retrained"), []

    def compute():
        calls.append(1)
        return len(calls)

    assert [ensemble.remember(("probe", 0), compute) for _ in range(3)] == [1, 1, 1]
    assert ensemble.remember(("probe", 1), compute) == 2
    assert NLIEnsemble((MODEL, MODEL), note="not retrained") == ensemble  # whatever was computed
    assert ensemble.name == "lengths, lengths"


def test_an_ensemble_keeps_the_last_results_only():
    ensemble = NLIEnsemble((MODEL,))
    for number in range(20):
        ensemble.remember(number, lambda: "old")
    assert len(ensemble.results) < 20
    assert ensemble.remember(19, lambda: "new") == "old"
    assert ensemble.remember(0, lambda: "new") == "new"


def test_a_copy_in_another_process_starts_without_results():
    ensemble = NLIEnsemble((PredictionsFile("a.jsonl"),), note="n")
    ensemble.remember("key", lambda: 1)
    copy = pickle.loads(pickle.dumps(ensemble))
    assert copy == ensemble
    assert copy.results == {}


@pytest.mark.parametrize("members", [(), (by_length,), ("text",)])
def test_an_ensemble_holds_models(members):
    with pytest.raises(UsageError, match=r"at least one model|not an NLI model"):
        NLIEnsemble(members)


HUGE = "1" + "0" * 5000


@pytest.mark.parametrize(
    ("row", "match"),
    [
        ("[" * 100_000, "nested too deeply"),
        ('{"a":' * 100_000, "nested too deeply"),
        (f'{{"entailment": {HUGE}, "neutral": 0, "contradiction": 0}}', "not valid JSON"),
        (f'{{"entailment": {HUGE[:4000]}, "neutral": 0, "contradiction": 0}}', "are not probabilities"),
        ('{"entailment": true, "neutral": 0, "contradiction": 0}', "are not probabilities"),
        ('{"entailment": [1], "neutral": 0, "contradiction": 0}', "are not probabilities"),
        ('{"premise": "\\ud800", "entailment": 1, "neutral": 0, "contradiction": 0}', "lone surrogate"),
    ],
)
def test_hostile_predictions_are_format_errors(tmp_path, row, match):
    path = tmp_path / "p.jsonl"
    path.write_text(row + "\n")
    with pytest.raises(FormatError, match=match) as caught:
        run(PredictionsFile(path), "mab-explicit", draws=0)
    assert "p.jsonl:1" in str(caught.value)
    assert len(str(caught.value)) < 600


def test_a_premise_that_is_a_list_is_no_crash(tmp_path):
    path = tmp_path / "p.jsonl"
    path.write_text('{"premise": ["A"], "hypothesis": "B", "entailment": 1, "neutral": 0, "contradiction": 0}\n')
    with pytest.raises(FormatError, match="no row for the pair"):
        PredictionsFile(path).predict(["A"], ["B"])


def test_a_pipe_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "p.jsonl")
    with pytest.raises(InputMissingError, match="is a pipe"):
        run(PredictionsFile(tmp_path / "p.jsonl"), "mab-explicit", draws=0)
