"""Options of the scores, notes about a text, and the baseline of a record."""

import sys

import numpy as np
import pytest

from evenhand.corpus import CorpusOptions, Texts, bias
from evenhand.corpus.bias import resolve_groups, score_corpus
from evenhand.corpus.counting.tokens import ENGLISH
from evenhand.corpus.word_scores import FOLDS, UNIT
from evenhand.errors import DegenerateError, FormatError, UnknownNameError, UsageError, VocabularyError
from evenhand.words import concept, pairs

MODULE = sys.modules["evenhand.corpus.bias"]  # a function has the same name
GROUPS = {"f": ["she"], "m": ["he"]}


def texts(count=12, seed=0, length=20):
    draw = np.random.default_rng(seed)
    return Texts([" ".join(draw.choice(["she", "he", "a", "b", "c", "d"], size=length)) for _ in range(count)])


def test_the_lowest_allowed_numbers_are_allowed():
    options = CorpusOptions(
        GROUPS,
        window=1,
        min_count=1,
        piece=1,
        bootstrap=0,
        permutations=0,
        seed=0,
        smoothing=0.0,
        normalisation="joint",
    )
    assert (options.window, options.piece) == (1, 1)
    assert CorpusOptions(GROUPS, bootstrap=None, permutations=None).bootstrap is None
    assert CorpusOptions(GROUPS, decay=0.01).decay == 0.01


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"window": 0}, "window must be at least 1, got 0"),
        ({"decay": 0.0}, "decay must lie between 0 and 1, got 0.0"),
        ({"decay": 1}, "decay must lie between 0 and 1, got 1"),
        ({"min_count": 0}, "min_count must be at least 1, got 0"),
        ({"piece": 0}, "piece must be at least 1, got 0"),
        ({"bootstrap": -1}, "bootstrap must be at least 0, got -1"),
        ({"permutations": -1}, "permutations must be at least 0, got -1"),
        ({"seed": -1}, "seed must be at least 0, got -1"),
        ({"smoothing": -0.1}, "smoothing must be a number of at least 0, got -0.1"),
        ({"smoothing": float("inf")}, "smoothing must be a number of at least 0, got inf"),
        ({"special_tokens": "hide"}, "unknown special_tokens 'hide'"),
    ],
)
def test_a_number_out_of_range_is_named(wrong, message):
    with pytest.raises(UsageError) as error:
        CorpusOptions(GROUPS, **wrong)
    assert error.value.message == message


def test_the_plan_has_what_the_options_say():
    options = CorpusOptions(GROUPS, window=4, permutations=3, piece=7)
    plan = options.plan()
    assert (plan.groups, plan.window, plan.decay, plan.piece) == ({"f": ("she",), "m": ("he",)}, 4, None, 7)
    assert (plan.folds, plan.unit, plan.log_labels) == (0, None, True)
    assert not CorpusOptions(GROUPS).plan().log_labels
    assert CorpusOptions(GROUPS, decay=0.5).plan(folds=3, unit=9).decay == 0.5
    assert (options.plan(folds=3, unit=9).folds, options.plan(folds=3, unit=9).unit) == (3, 9)


def test_options_as_plain_data():
    options = CorpusOptions(
        {"f": ["She"], "m": ["He"]}, window=4, stop_words=["The", "the", "A"], min_count=2, smoothing=0.5, bootstrap=3,
        permutations=4, special_tokens="drop", normalisation="joint",
    )  # fmt: skip
    assert options.to_dict() == {
        "window": 4,
        "decay": None,
        "tokenizer": "words",
        "lower": True,
        "lists": "own words",
        "min_count": 2,
        "smoothing": 0.5,
        "normalisation": "joint",
        "stop_words": 2,
        "special_tokens": "drop",
        "bootstrap": 3,
        "permutations": 4,
    }
    assert options.group_words == {"f": ("she",), "m": ("he",)}
    plain = CorpusOptions(tokenizer="whitespace", decay=0.9).to_dict()
    assert (plain["lower"], plain["window"], plain["decay"]) == (False, None, 0.9)
    assert (plain["lists"], plain["special_tokens"], plain["stop_words"]) == ("bordia2019-cnn-dm", "drop", 0)
    assert CorpusOptions(GROUPS).to_dict()["special_tokens"] == "keep"
    named = CorpusOptions(GROUPS, stop_words="english")
    assert (named.stop_words, named.stop_list, named.to_dict()["stop_words"]) == ("english", ENGLISH, len(ENGLISH))
    assert CorpusOptions(GROUPS, stop_words=iter(["b", "a"])).stop_words == ("b", "a")


def test_groups_come_from_words_pairs_or_a_concept():
    found, name = resolve_groups(None, None, fold=str)
    default = pairs("bordia2019-cnn-dm")
    assert name == "bordia2019-cnn-dm"
    assert list(found) == list(default.poles)
    assert list(found.values()) == [tuple(dict.fromkeys(side)) for side in (default.first, default.second)]
    assert resolve_groups(default, None, fold=str) == (found, default.name)
    assert resolve_groups(None, "bordia2019-ptb", fold=str)[1] == "bordia2019-ptb"
    gender = concept("gender")
    found, name = resolve_groups(None, "gender", fold=str.upper)
    assert next(iter(found)) == gender.positive
    assert set(found) == set(gender.groups)
    assert found[gender.positive][0] == str(next(iter(gender.groups[gender.positive]))).upper()
    assert resolve_groups({"x": ["b", "B", "a"], "y": ["c"]}, None, fold=str.lower) == (
        {"x": ("b", "a"), "y": ("c",)},
        "own words",
    )


def test_wrong_groups_say_what_is_wrong(tmp_path):
    file = tmp_path / "own.toml"
    file.write_text('[wordset.kin]\nwords = ["aunt", "uncle"]\n')
    with pytest.raises(UsageError, match="groups or lists, not both"):
        resolve_groups(GROUPS, "gender", fold=str)
    with pytest.raises(UnknownNameError, match="no concept or list of pairs 'bordia2019-cnn'"):
        resolve_groups(None, "bordia2019-cnn", fold=str)
    with pytest.raises(UsageError, match=r"neither one concept nor one list of pairs: .*; .*"):
        resolve_groups(None, file, fold=str)
    with pytest.raises(UsageError, match="group 'f' has no words"):
        resolve_groups({"f": [], "m": ["he"]}, None, fold=str)
    with pytest.raises(UsageError, match="at least 2 groups, got 1"):
        resolve_groups({"f": ["she"]}, None, fold=str)
    with pytest.raises(UsageError, match="'x' is in group 'f' and in group 'm'"):
        resolve_groups({"f": ["X"], "m": ["x"]}, None, fold=str.lower)


def test_a_small_text_has_a_note_for_each_group_with_few_hits():
    counts = ("she a " * 99) + ("he a " * 100)
    found = bias(Texts([counts]), GROUPS)
    assert found.notes == ("the text is too small: the words of f occur 99 times; below 100 most scores are noise",)


def far(found, decay=0.5):
    return [note for note in found.notes if note.startswith("mu and its baseline measure distances")]


def test_a_note_says_when_most_weights_are_far_from_a_group():
    near = " ".join(f"she w{number} he" for number in range(9))
    nine = bias(Texts([near, "she v x x x x x x x x x he"]), {"f": ["she"], "m": ["he"]}, decay=0.5, stop_words=["x"])
    assert nine.n == 10
    assert (nine.cooccurrence.min(axis=0) < 0.01).tolist() == [False] * 9 + [True]
    assert not far(nine)
    many = bias(
        Texts(["she v u x x x x x x x x x he", "she w he"]), {"f": ["she"], "m": ["he"]}, decay=0.5, stop_words=["x"]
    )
    close = many.with_cooccurrence(1.0)
    assert close.n == 0
    assert far(many) == [
        "mu and its baseline measure distances, not associations: 67 % of the scored words have a weight below 0.01 near "
        "a group (decay 0.5, documents of 8 words on average): mark the documents, or use a window"
    ]
    some = bias(Texts(["she v u x x x x x x x x x he", "she w he w she"]), GROUPS, decay=0.5, stop_words=["x"])
    assert some.with_cooccurrence(1.0).words == ("w",)
    (note,) = far(some)
    assert f"; over the 1 words with a weight of at least 1 it is {some.with_cooccurrence(1.0).mu:.3f}: mark" in note
    assert not far(bias(Texts(["she v", "he"]), GROUPS, decay=0.5))


def test_draws_are_chosen_up_to_the_affordable_size(monkeypatch):
    source = texts(3)
    monkeypatch.setattr(MODULE, "RESAMPLES", 5)
    monkeypatch.setattr(MODULE, "LABELLINGS", 4)

    def scored(affordable, **options):
        monkeypatch.setattr(MODULE, "AFFORDABLE", affordable)
        return bias(source, GROUPS, window=3, **options)

    both = scored(source.size, bootstrap=None, permutations=None)
    assert (both.params["bootstrap"], both.params["permutations"]) == (5, 4)
    assert both.intervals is not None
    assert both.baseline.permutations == 4
    assert not [note for note in both.notes if "not computed" in note]
    neither = scored(source.size - 1, bootstrap=None, permutations=None)
    assert (neither.params["bootstrap"], neither.params["permutations"]) == (0, 0)
    assert neither.notes[-1] == (
        "not computed for a text of more than 0 MB: intervals (`bootstrap=1000`) and the baseline (`permutations=1999`)"
    )
    one = scored(3 << 20, bootstrap=None)
    assert (one.params["bootstrap"], one.params["permutations"], one.baseline) == (5, 0, None)
    given = scored(0, bootstrap=2, permutations=None)
    assert given.params["bootstrap"] == 2
    assert given.notes[-1] == "not computed for a text of more than 0 MB: the baseline (`permutations=1999`)"
    assert not [note for note in scored(0, bootstrap=2, permutations=1).notes if "not computed" in note]


def test_a_large_text_is_named_in_megabytes(monkeypatch):
    class Large(Texts):
        size = (256 << 20) + 1

    found = bias(Large(texts(3).texts), GROUPS, window=3, bootstrap=None)
    assert found.notes[-1] == "not computed for a text of more than 256 MB: intervals (`bootstrap=1000`)"

    class Unknown(Texts):
        size = None

    assert bias(Unknown(texts(3).texts), GROUPS, window=3, bootstrap=None).intervals is None


def test_a_text_too_small_for_a_baseline_is_an_error_only_if_one_was_asked_for(monkeypatch):
    monkeypatch.setattr("evenhand.corpus.shuffled_baseline.TRIES", 1)
    text = Texts(["she a he a", "he b", "he b"])
    with pytest.raises(DegenerateError, match="too small for a baseline"):
        bias(text, GROUPS, window=1, permutations=20, stop_words=["b"])
    found = bias(text, GROUPS, window=1, permutations=None, stop_words=["b"])
    assert found.baseline is None
    assert found.notes[-1].startswith("the text is too small for a baseline")


def test_only_scores_with_intervals_are_counted_by_fold(monkeypatch):
    plans = []
    count = MODULE.count

    def kept(source, plan, **how):
        plans.append(plan)
        return count(source, plan, **how)

    monkeypatch.setattr(MODULE, "count", kept)
    score_corpus(texts(), CorpusOptions(GROUPS, bootstrap=2))
    score_corpus(texts(), CorpusOptions(GROUPS))
    assert [(plan.folds, plan.unit) for plan in plans] == [(FOLDS, UNIT), (0, UNIT)]


def test_the_baseline_of_each_group_is_that_of_its_column(monkeypatch):
    groups = {"a": ["she"], "b": ["he"], "c": ["a"]}
    kept = []
    permuted_means = MODULE.permuted_means

    def means(*given, **how):
        kept.append((given[2], permuted_means(*given, **how)))
        return kept[-1][1]

    monkeypatch.setattr(MODULE, "permuted_means", means)
    found = bias(texts(), groups, window=3, permutations=30, seed=2)
    ((observed, permuted),) = kept
    records = [found.for_group(name) for name in groups]
    assert observed.tolist() == [record.mu for record in records]
    for group, record in enumerate(records):
        values, test = permuted.values[:, group], permuted.tests[group]
        assert vars(record.baseline) == {
            "mu": pytest.approx(values.mean()),
            "interval": pytest.approx(tuple(np.quantile(values, [0.025, 0.975]))),
            "p_value": test.p_value,
            "permutations": len(values),
            "decided_after": test.draws,
            "reached": test.reached,
            "rule": "labellings are drawn until 10 have a mu of at least the observed one, at most 30: p = 10 / drawn, "
            "or (reached + 1) / (30 + 1) if fewer reach it (Besag & Clifford 1991)",
        }
    one = bias(Texts([" ".join(texts().texts)]), GROUPS, window=3, permutations=3)
    assert (one.baseline.p_value, one.baseline.decided_after, one.baseline.reached, one.baseline.rule) == (
        None,
    ) * 3 + ("",)
    assert one.baseline.permutations == 3


def test_a_text_without_words_says_so():
    with pytest.raises(FormatError, match="the texts: no word was read"):
        bias(Texts(["", " "]), GROUPS)
    with pytest.raises(VocabularyError, match="none of the words of group 'm'"):
        bias(Texts(["she"]), GROUPS)
    assert bias(Texts(["she a he", "a"]), GROUPS).name == "2 texts"
    assert bias(Texts(["she a he"]), GROUPS).params["documents"] == "in memory"
