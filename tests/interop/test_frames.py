"""Polars and pandas data frames are read where a file is: subjects, texts, questions, word lists and vectors."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import evenhand as eh
from evenhand import words
from evenhand.corpus.counting.tokens import load_stop_words
from evenhand.corpus.readers.stream import ReadLog
from evenhand.errors import FormatError, UsageError
from evenhand.measures.chat.word_association import score_answers
from evenhand.measures.labels.counterfactual import case_set
from evenhand.measures.likelihood.perplexity import read_lines
from evenhand.measures.likelihood.stereotype_pairs import PairSet, StereotypePair
from evenhand.measures.text.judged_generations import prompt_set

pd = pytest.importorskip("pandas")


@pytest.fixture(params=["polars", "pandas"])
def library(request: pytest.FixtureRequest) -> Any:
    pytest.importorskip(request.param)
    return import_module(request.param)


def test_the_texts_of_a_frame_are_scored_as_in_memory(library: Any) -> None:
    texts = ["she is a nurse", "he is a doctor", "she is a doctor"]
    wanted = eh.corpus.bias(eh.corpus.Texts(texts), {"female": ["she"], "male": ["he"]}, smoothing=1)
    for field, reading in (("text", {}), ("body", {"field": "body"})):
        found = eh.corpus.bias(
            library.DataFrame({field: texts}), {"female": ["she"], "male": ["he"]}, smoothing=1, **reading
        )
        assert found.scores == wanted.scores


def test_a_frame_without_texts_says_which_columns_it_has(library: Any) -> None:
    with pytest.raises(UsageError, match="no column 'text'") as caught:
        eh.corpus.bias(library.DataFrame({"body": ["a"]}))
    assert "body" in str(caught.value.hint)
    with pytest.raises(FormatError, match="row 1 of the column 'text' is None"):
        eh.corpus.bias(library.DataFrame({"text": ["a", None]}))


def test_rated_pairs_and_vectors_of_a_frame(library: Any) -> None:
    words = ["cat", "dog", "car", "bus"]
    matrix = np.array([[1.0, 0.1], [0.9, 0.2], [0.1, 1.0], [0.2, 0.8]], dtype=np.float32)
    table = library.DataFrame({"word": words, "x": matrix[:, 0], "y": matrix[:, 1]})
    vectors = eh.Vectors.load(table)
    assert vectors.words == tuple(words)
    np.testing.assert_array_equal(vectors.matrix, matrix)
    assert len(eh.Vectors.load(table, limit=2)) == 2
    rows = {"one": ["cat", "cat", "car", "dog"], "other": ["dog", "car", "bus", "bus"], "rating": [9.0, 1.0, 8.0, 2.0]}
    assert eh.measures.similarity(vectors, library.DataFrame(rows)).value == pytest.approx(0.8, abs=0.21)
    with pytest.raises(FormatError, match="has no vectors"):
        eh.Vectors.load(library.DataFrame({"word": words, "x": words}))
    with pytest.raises(FormatError, match="not word, word, number"):
        eh.measures.similarity(vectors, library.DataFrame({"one": words, "other": words}))


DECISIONS = {"sex": ["f", "m", "f", "m"] * 20, "y": [0, 1, 1, 0] * 20, "yhat": [0, 1, 0, 0, 1, 1, 1, 0] * 10}


def test_an_opened_frame_is_what_its_columns_are_called(library: Any) -> None:
    texts = ["she is a nurse", "he is a doctor", "she is a doctor", "he is a nurse"]
    assert eh.open(library.DataFrame(DECISIONS)).kind == "table"
    assert eh.open(library.DataFrame({"who": DECISIONS["sex"], "yes": DECISIONS["y"]}), group="who", prediction="yes")
    corpus = eh.open(library.DataFrame({"comment": texts, "likes": [1, 2, 3, 4]}))
    assert (corpus.name, corpus.kind, corpus.address) == ("data frame", "corpus", "")
    assert list(corpus.view("text").source.fragments(corpus.view("text").source.shards()[0], ReadLog(False)))
    named = eh.open(library.DataFrame({"body": texts}), field="body")
    measured = eh.measures.corpus_bias(named.view("text"))
    assert [m.value for m in measured] == [m.value for m in eh.measures.corpus_bias(library.DataFrame({"text": texts}))]
    vectors = eh.open(library.DataFrame({"word": ["cat", "dog"], "x": [1.0, 2.0], "y": [0.0, 1.0]}))
    assert (vectors.kind, vectors.view("vectors").matrix.tolist()) == ("vectors", [[1.0, 0.0], [2.0, 1.0]])
    assert eh.open(library.Series(texts)).digest == eh.open(library.DataFrame({"text": texts})).digest
    answers = {"neutral": [0.7], "entailment": [0.2], "contradiction": [0.1], "premise": ["A."], "hypothesis": ["B."]}
    ensemble = eh.open(library.DataFrame(answers)).view("inference")
    (model,) = ensemble.members
    assert model.predict(["A."], ["B."]).matrix.tolist() == [[0.2, 0.7, 0.1]]
    with pytest.raises(UsageError, match=r"could be anything: its columns are who, height"):
        eh.open(library.DataFrame({"who": ["f"], "height": [1]}))
    with pytest.raises(UsageError, match="device does not apply"):
        eh.open(library.DataFrame({"text": texts}), device="cpu")
    with pytest.raises(UsageError, match="no option 'device'"):
        eh.open(library.DataFrame({"word": ["cat"], "x": [1.0]}), device="cpu")


def test_the_texts_of_a_frame_are_debiased_and_written(library: Any, tmp_path: Path) -> None:
    corpus = eh.open(library.DataFrame({"text": ["she is here", "he is there"], "id": [1, 2]}))
    changed = eh.mitigations.get("cda")().fit(corpus, "gender")(corpus)
    changed.save(tmp_path / "out.jsonl")
    assert set(pl.read_ndjson(tmp_path / "out.jsonl")["text"]) >= {"he is here", "she is there"}


def test_every_kind_of_column_means_the_same_number() -> None:
    frame = pd.DataFrame(DECISIONS)
    wanted = eh.measures.group_metrics(eh.open(frame).view("outcomes"), "sex")[0].value
    women, men = (np.mean([y for s, y in zip(frame["sex"], frame["yhat"], strict=True) if s == who]) for who in "fm")
    assert wanted == pytest.approx(abs(women - men))
    for same in (
        frame.astype({"sex": "category"}),
        frame.astype({"sex": "string", "y": "Int64", "yhat": "boolean"}),
        frame.astype({"sex": object, "y": object, "yhat": object}),
        frame.convert_dtypes(dtype_backend="pyarrow"),
        frame.astype({"y": pd.SparseDtype(int)}),
        frame.set_index(pd.MultiIndex.from_arrays([range(80), range(80)])),
        pl.DataFrame(DECISIONS).lazy(),
        pl.DataFrame(DECISIONS).with_columns(pl.col("sex").cast(pl.Categorical), pl.col("yhat").cast(pl.Float32)),
        pl.DataFrame(DECISIONS).with_columns(pl.Series("sex", DECISIONS["sex"], dtype=pl.Object)),
    ):
        assert eh.measures.group_metrics(eh.open(same).view("outcomes"), "sex")[0].value == wanted


def test_missing_values_of_every_type_are_left_out_and_counted() -> None:
    frame = pd.DataFrame(DECISIONS).astype({"sex": "string", "y": "Int64", "yhat": "boolean"})
    frame.loc[0, "y"], frame.loc[1, "yhat"] = pd.NA, pd.NA
    with_nan = pd.DataFrame(DECISIONS).astype({"sex": object, "y": float, "yhat": object})
    with_nan.loc[0, "y"], with_nan.loc[1, "yhat"] = np.nan, None
    for each in (frame, with_nan):
        assert eh.open(each).describe()["dropped"] == {"without yhat": 1, "without y": 1}


def test_values_that_polars_has_no_type_for_are_text() -> None:
    ages = pd.cut([20, 35, 70, 80] * 20, [0, 30, 60, 100])
    assert eh.open(pd.DataFrame(DECISIONS).assign(sex=ages)).describe()["groups"] == {
        "sex": ["(0, 30]", "(30, 60]", "(60, 100]"]
    }
    # An integer of numpy in front of a text made polars lose the text.
    mixed = pd.Series([np.int64(3), "a"] * 40, dtype=object)
    assert eh.open(pd.DataFrame(DECISIONS).assign(sex=mixed)).describe()["groups"] == {"sex": ["3", "a"]}


def test_a_frame_that_cannot_be_read_says_why() -> None:
    frame = pd.DataFrame(DECISIONS)
    levels = frame.set_axis(pd.MultiIndex.from_product([["a"], frame.columns]), axis=1)
    for bad, message in (
        (pd.concat([frame, frame["sex"]], axis=1), "several columns called 'sex'"),
        (frame.rename(columns={"sex": 0, "y": "0"}), "several columns called '0'"),
        (levels, "names of several levels"),
        (frame.head(0), "has no rows"),
        (pd.DataFrame(), "has no rows"),
        (frame.assign(sex=[object()] * 80), "column 'sex' of the data frame holds <object"),
        (frame.assign(sex=[[1]] * 80), "column sex holds lists"),
        (frame.assign(sex="f"), "sex has 1 known group"),
        (pl.LazyFrame(DECISIONS).select("zzz"), "lazy data frame cannot be computed"),
        (pd.DataFrame({"text": ["she", None]}), "row 1 of the column 'text' is None"),
        (pd.DataFrame({"word": ["cat", None], "x": [1.0, 2.0]}), "has no vectors"),
        (pd.DataFrame({"word": ["cat", "dog"], "x": [1.0, np.nan]}), "NaN or infinity"),
        (pd.DataFrame({"word": ["cat", "dog"], "x": [1.0, 1e300]}), "NaN or infinity"),
        (pd.DataFrame({"word": ["cat", "dog"], "x": [True, False]}), "has no vectors"),
    ):
        with pytest.raises(FormatError, match=message):
            eh.open(bad)


def test_word_lists_and_questions_of_a_frame(library: Any, glove: eh.Vectors) -> None:
    lists = {"female": ["she", "woman", "her"], "male": ["he", "man", None]}
    assert eh.concept(library.DataFrame(lists)).groups["male"].words == ("he", "man")
    sets = {"X": ["he", "man"], "Y": ["she", "woman"], "A": ["doctor", "career"], "B": ["nurse", "home"]}
    wanted = eh.Query(targets=(sets["X"], sets["Y"]), attributes=(sets["A"], sets["B"]))
    assert eh.measures.weat(glove, library.DataFrame(sets)).value == eh.measures.weat(glove, wanted).value
    assert words.pairs(library.DataFrame({"a": ["she", "her"], "b": ["he", "his"]})).pairs == (
        ("she", "he"),
        ("her", "his"),
    )
    assert words.wordset(library.Series(["cat", "dog"])).words == ("cat", "dog")
    assert words.table(library.DataFrame({"a": ["cat"], "b": ["dog"]})).rows == (("cat", "dog"),)
    with pytest.raises(FormatError, match="2 columns is no wordset"):
        words.wordset(library.DataFrame(lists))
    rows = library.DataFrame({"a": ["man"], "b": ["woman"], "c": ["king"], "d": ["queen"]})
    assert eh.measures.analogy(glove, rows).n == 1
    with pytest.raises(FormatError, match="not four words a row"):
        eh.measures.analogy(glove, library.DataFrame({"a": ["man"], "b": ["woman"]}))


def test_answers_prompts_and_pairs_of_a_frame(library: Any) -> None:
    answers = library.DataFrame({"answer": ["love - she\nhate - he", None]})
    query = eh.Query("own", {"f": ["she"], "m": ["he"]}, {"good": ["love"], "bad": ["hate"]})
    found, listed = (score_answers(source, query) for source in (answers, ["love - she\nhate - he", ""]))
    assert [m.value for m in found] == [m.value for m in listed]
    gender = eh.concept("gender")
    prompts = library.DataFrame({"prompt": ["She was", "He was", "He is"], "group": ["f", "m", "m"]})
    asked = prompt_set(prompts, gender, rows=None, sample=None, seed=0)
    assert (asked.groups, list(asked.prompts)) == (("f", "m"), ["She was", "He was", "He is"])
    swapped = case_set(library.DataFrame({"text": ["She was late.", "It rains."]}), gender)
    assert (len(swapped.cases), swapped.without_group) == (1, 1)
    pair = {"sent_more": ["She."], "sent_less": ["He."], "stereo_antistereo": ["stereo"], "bias_type": ["gender"]}
    assert PairSet.resolve(library.DataFrame(pair)).pairs == (StereotypePair("0", "She.", "He.", "gender", "stereo"),)
    with pytest.raises(UsageError, match="no column 'stereo_antistereo'"):
        PairSet.resolve(library.DataFrame({name: pair[name] for name in ("sent_more", "sent_less")}))
    assert read_lines(library.DataFrame({"text": ["One line.", " "]})) == ("texts", ["One line."])
    assert load_stop_words(library.DataFrame({"word": ["the", "of"]})) == ("the", "of")


def test_options_of_files_are_refused_with_texts_in_memory(library: Any) -> None:
    with pytest.raises(UsageError, match=r"documents cannot be given with .* texts in memory"):
        eh.corpus.bias(library.DataFrame({"text": ["she"]}), lists="gender", documents="line")
