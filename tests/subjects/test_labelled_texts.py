"""Classifiers over labelled texts: what is predicted, counted, changed, written and refused."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenhand as eh
from evenhand.errors import EvenhandError, EvenhandWarning, FormatError, UsageError
from evenhand.measures import Measurement
from evenhand.mitigations.outcomes.equalised_odds import EqualisedOdds, GroupThresholds
from evenhand.report.charts.figure import figures

ROWS = {
    "comment": ["bad bad", "nice", "bad", "nice day", "", "bad nice", "nice nice"],
    "sex": ["f", "m", "f", "m", "f", "?", "m"],
    "label": ["1", "0", "0", "1", "1", "1", None],
}


class Words:
    """A classifier that finds a text as bad as its share of the word bad."""

    classes_ = ("fine", "bad")

    def predict_proba(self, texts: list[str]) -> Any:
        share = np.array([np.mean([word == "bad" for word in text.split()] or [0.0]) for text in texts])
        return np.stack([1 - share, share], axis=1)


class Three(Words):
    classes_ = ("good", "bad", "dull")

    def predict_proba(self, texts: list[str]) -> Any:
        bad = super().predict_proba(texts)[:, 1]
        return np.stack([0.7 - 0.6 * bad, 0.1 + 0.35 * bad, 0.2 + 0.25 * bad], axis=1)


def opened(frame: Any = None, model: Any = None, **options: Any) -> Any:
    options = {"positive_label": "bad"} | options
    return eh.open(model or Words(), texts=pl.DataFrame(ROWS) if frame is None else frame, **options)


def by_score(view: Any) -> dict[str, Measurement]:
    return {m.score: m for m in eh.measures.group_metrics(view)}


def drawn(seed: int, rows: int = 300) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    label, sex = rng.random(rows) < 0.4, rng.choice(["f", "m"], rows)
    bad = rng.binomial(4, np.clip(0.2 + 0.4 * label + 0.2 * (sex == "f"), 0, 1))
    texts = [" ".join(["bad"] * n + ["nice"] * (4 - n)) for n in bad.tolist()]
    return pl.DataFrame({"text": texts, "sex": sex, "label": label.astype(int)})


def test_decisions_by_hand() -> None:
    subject = opened()
    assert subject.offers == ("labels", "outcomes")
    view = subject.view("outcomes")
    assert view.score.tolist() == [1, 0, 1, 0, 0.5]
    assert view.prediction.tolist() == [True, False, True, False, True]
    assert view.label.tolist() == [True, False, False, True, True]
    assert view.dropped == {"without comment": 1, "without label": 1}
    assert view.grouping("sex").unknown == 1
    assert subject.opening["positive_label"] == "bad"
    with pytest.warns(EvenhandWarning, match="3 of 7 rows are left out: 1 without comment, 1 without label"):
        found = by_score(view)
    # f: both selected, one rightly; m: none selected, one of two should be
    assert found["demographic-parity-difference"].value == 1
    assert found["equal-opportunity-difference"].value == 1
    assert found["accuracy-difference"].value == 0
    assert [m.value for m in eh.measures.decision_accuracy(view)] == pytest.approx([3 / 5, (2 / 3 + 1 / 2) / 2])


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet"])
def test_every_format_and_the_content_is_part_of_the_key(tmp_path: Path, suffix: str) -> None:
    frame, file = pl.DataFrame(ROWS), tmp_path / f"t{suffix}"
    write = {".parquet": frame.write_parquet, ".jsonl": frame.write_ndjson}.get(suffix)
    if write:
        write(file)
    else:
        frame.write_csv(file, separator="\t" if suffix == ".tsv" else ",")
    subject = eh.open(Words(), texts=file, positive_label="bad")
    assert subject.view("outcomes").digest == opened().view("outcomes").digest
    assert subject.opening_digest == opened().opening_digest
    other = pl.DataFrame({**ROWS, "comment": ["bad bad", "nice", "bad", "nice day!", "", "bad nice", "nice nice"]})
    assert opened(other).opening_digest != subject.opening_digest
    assert opened(positive_label="fine").opening_digest != subject.opening_digest
    assert opened(threshold=0.7).opening_digest != subject.opening_digest


def test_the_values_are_those_of_fairlearn() -> None:
    fairlearn = pytest.importorskip("fairlearn.metrics")
    frame = drawn(3)
    found = by_score(opened(frame).view("outcomes"))
    decided = (Words().predict_proba(frame["text"].to_list())[:, 1] >= 0.5).astype(int)
    for score, theirs in (
        ("demographic-parity-difference", "demographic_parity_difference"),
        ("demographic-parity-ratio", "demographic_parity_ratio"),
        ("equal-opportunity-difference", "equal_opportunity_difference"),
        ("equalised-odds-difference", "equalized_odds_difference"),
        ("equalised-odds-ratio", "equalized_odds_ratio"),
    ):
        expected = getattr(fairlearn, theirs)(frame["label"].to_numpy(), decided, sensitive_features=frame["sex"])
        assert found[score].value == pytest.approx(expected, abs=1e-12)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 1_000))
def test_neither_the_order_of_rows_nor_rows_without_text_change_a_value(seed: int) -> None:
    frame = drawn(seed, rows=60)
    more = pl.concat(
        [frame.sample(fraction=1.0, shuffle=True, seed=seed), frame.head(3).with_columns(text=pl.lit(" "))]
    )
    first, second = (opened(each).view("outcomes") for each in (frame, more))
    assert second.dropped == {"without text": 3}
    for a, b in zip(eh.measures.decision_accuracy(first), eh.measures.decision_accuracy(second), strict=True):
        assert a.value == b.value
    assert by_score(first)["demographic-parity-difference"].value == pytest.approx(
        {m.score: m for m in _quietly(second)}["demographic-parity-difference"].value
    )


@pytest.mark.filterwarnings("ignore::evenhand.EvenhandWarning")
def _quietly(view: Any) -> Any:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EvenhandWarning)
        return eh.measures.group_metrics(view)


def test_more_than_two_labels_are_decided_by_the_most_probable() -> None:
    frame = pl.DataFrame({"text": ["bad", "nice"], "sex": ["f", "m"], "label": ["bad", "good"]})
    with pytest.raises(FormatError, match="which one counts as positive is not said"):
        opened(frame, Three(), positive_label=None)
    view = opened(frame, Three()).view("outcomes")
    # .45 is below one half, and no other label of "bad" has more than .45
    assert view.score.tolist() == pytest.approx([0.45, 0.1])
    assert view.threshold is None
    assert view.prediction.tolist() == [False, False] or view.prediction.tolist() == [True, False]
    assert view.label.tolist() == [True, False]
    assert opened(frame, Three(), threshold=0.05).view("outcomes").prediction.tolist() == [True, True]


def test_which_label_is_positive() -> None:
    named = pl.DataFrame({"text": ["bad", "nice"], "sex": ["f", "m"], "label": ["Bad", "fine"]})
    assert opened(named).view("outcomes").label.tolist() == [True, False]
    assert opened(named, positive_label="fine").view("outcomes").label.tolist() == [False, True]
    with pytest.warns(EvenhandWarning, match="'bad' counts as positive, the last one"):
        opened(named, positive_label=None)
    other = named.with_columns(label=pl.Series(["rude", "kind"]))
    assert opened(other, positive="rude").view("outcomes").label.tolist() == [True, False]
    with pytest.raises(FormatError, match="holds 'kind', 'rude', and the classifier has the labels fine, bad"):
        opened(other)
    with pytest.raises(FormatError, match="which one counts as positive is not said"):
        opened(other, positive="rude", positive_label=None)


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({}, {"group": "race"}, "there is no column of data frame 'race'"),
        ({}, {"text_column": "words"}, "there is no column of data frame 'words'"),
        ({}, {"positive_label": "rude"}, "the classifier has no label 'rude'; it has fine, bad"),
        ({"sex": ["f"] * 7}, {}, "has 1 known group"),
        ({"comment": [" "] * 7}, {}, "has no rows that can be measured: 7 rows without comment"),
        ({"comment": None}, {}, "no column that is known to hold texts"),
        ({}, {"text_column": "sex"}, "cannot hold the texts and something else too"),
    ],
)
def test_bad_input_is_a_sentence(changes: dict[str, Any], options: dict[str, Any], message: str) -> None:
    frame = pl.DataFrame({name: values for name, values in {**ROWS, **changes}.items() if values is not None})
    with pytest.raises(EvenhandError) as refused:
        opened(frame, **options)
    assert message in f"{refused.value.message} {refused.value.hint}"
    assert refused.value.exit_code == 4


def test_options_need_texts_and_texts_a_classifier(tiny_folder: Any) -> None:
    with pytest.raises(UsageError, match="about labelled texts, and no file of them is named"):
        eh.open(Words(), group="sex")
    with pytest.raises(UsageError, match="labelled texts are for text classifiers"):
        eh.open(f"hf:{tiny_folder('BertForMaskedLM')}", texts=pl.DataFrame(ROWS))
    with pytest.raises(UsageError, match="needs the view 'outcomes'") as refused:
        eh.Audit.run(Words(), measures=["group-metrics"])
    assert "texts=" in refused.value.hint
    score = tiny_folder("BertForSequenceClassification", num_labels=1)
    with pytest.raises(UsageError, match="scores without a range"):
        eh.open(f"hf:{score}", texts=pl.DataFrame(ROWS)).view("outcomes")
    assert eh.open(f"hf:{score}", texts=pl.DataFrame(ROWS), threshold=0.0).view("outcomes").threshold == 0


def test_thresholds_are_fitted_applied_and_written(tmp_path: Path) -> None:
    subject = opened(drawn(0, rows=2_000))
    change = EqualisedOdds().fit(subject, "gender")
    after = change(subject)
    before, later = (by_score(each.view("outcomes"))["equalised-odds-difference"] for each in (subject, after))
    assert before.p_value < 0.01
    assert later.value < before.value / 2
    assert after.view("labels") is not None
    written = after.save(tmp_path / "out.csv")
    frame = pl.read_csv(tmp_path / "out.csv")
    assert written.to_dict() == {"file": str(tmp_path / "out.csv"), "column": "prediction", "rows": 2_000}
    again = eh.open(f"table:{tmp_path / 'out.csv'}").view("outcomes")
    assert again.prediction.tolist() == after.view("outcomes").prediction.tolist()
    assert frame["score"].to_list() == subject.view("outcomes").score.tolist()
    assert GroupThresholds.load(change.save(tmp_path / "rules.json")) == change
    with pytest.raises(UsageError, match="thresholds by group are no part of a model"):
        after.save(tmp_path / "folder")


def test_columns_of_the_file_are_not_replaced(tmp_path: Path) -> None:
    frame = drawn(1).with_columns(score=pl.lit(7.0))
    subject = opened(frame)
    EqualisedOdds().fit(subject, "gender")(subject).save(tmp_path / "out.parquet")
    written = pl.read_parquet(tmp_path / "out.parquet")
    assert written.columns == ["text", "sex", "label", "score", "model_score", "prediction"]
    assert set(written["score"]) == {7.0}


def test_a_transformer_is_changed_inside_and_decides_anew(tiny_folder: Any, tmp_path: Path) -> None:
    model = tiny_folder("BertForSequenceClassification", id2label={0: "fine", 1: "bad"}, label2id={"fine": 0, "bad": 1})
    people = ["the woman", "the man", "she", "he", "the girl", "the boy", "the mother", "the father"]
    doing = ["is here", "saw the door", "was very nice", "likes math", "is a doctor"]
    rows = [
        (f"{who} {what}", "fm"[n % 2], (n + m) % 3 == 0) for n, who in enumerate(people) for m, what in enumerate(doing)
    ]
    file = tmp_path / "t.csv"
    pl.DataFrame(rows, schema=["text", "sex", "label"], orient="row").write_csv(file)
    subject = eh.open(f"hf:{model}", texts=str(file), group=["sex"], positive_label="bad")
    assert subject.offers == ("vectors", "sentences", "labels", "outcomes")
    assert subject.changeable == ("transformer", "outcomes")
    before = subject.view("outcomes").score
    inside = eh.mitigations.get("linear")(site="layer:1").fit(subject, "gender")(subject)
    assert not np.allclose(inside.view("outcomes").score, before)
    audit = eh.Audit.run(
        subject, methods=["linear@layer:1", "equalised-odds"], measures=["group-metrics", "decision-accuracy"]
    )
    score = "group-metrics:demographic-parity-difference"
    assert {audit.get(score, stage).status for stage in audit.stage_names} == {"ok"}
    assert audit.get(score).value == by_score(subject.view("outcomes"))["demographic-parity-difference"].value
    assert "sex bias" in audit.to_dict()["headline"]  # the groups of the texts, not the concept
    figure = next(each for each in figures(audit, audit.subjects[0]) if each.title == "Rates by sex")
    assert figure.spec["spec"]["height"] == {"step": 35, "for": "position"}
    both = EqualisedOdds().fit(inside, "gender")(inside)
    assert both.view("outcomes").score.tolist() == inside.view("outcomes").score.tolist()
    assert f"--texts {file}" in audit.manifest["arguments"]["command"]
    assert "--group sex" in audit.manifest["arguments"]["command"]
