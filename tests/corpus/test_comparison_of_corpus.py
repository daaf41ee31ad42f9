"""The jackknife, the shapes of texts and the record of a comparison against plain recomputation."""

from collections import Counter

import numpy as np
import pytest
from scipy.sparse import csc_array

from evenhand.corpus import CorpusOptions, Texts, bias
from evenhand.corpus import comparison as module
from evenhand.corpus.beta import NoiseCorrected, corrected_deviation, corrected_slope, trimmed_line
from evenhand.corpus.comparison import (
    LeaveOneOut,
    _mu,
    _sigma,
    against_training,
    compare,
    leave_one_out,
    read_samples,
    same_shape,
    slope_error,
    standard_error,
    two_halves,
)
from evenhand.errors import FormatError

GROUPS = {"f": ["she"], "m": ["he", "him"]}
THREE = {"f": ["she"], "m": ["he", "him"], "n": ["they"]}


def texts(seed, count=9, length=30, words="abcdefgh"):
    draw = np.random.default_rng(seed)
    every = ["she", "he", "him", "they", *words]
    return [" ".join(draw.choice(every, size=length)) for _ in range(count)]


def counted(documents, groups, window):
    """Return {(group, word): count} and {group: hits} of documents, by looking at every pair of positions."""
    near, hits = Counter(), Counter()
    owner = {word: group for group, words in groups.items() for word in words}
    for text in documents:
        words = text.split()
        for p, hit in enumerate(words):
            if hit in owner:
                hits[owner[hit]] += 1
                for q in range(max(0, p - window), min(len(words), p + window + 1)):
                    near[owner[hit], words[q]] += q != p
    return near, hits


@pytest.mark.parametrize("normalisation", ["conditional", "literal", "joint"])
@pytest.mark.parametrize(("groups", "smoothing"), [(GROUPS, 0.0), (THREE, 0.5)])
def test_each_fold_is_left_out_of_counts_sums_and_hits(monkeypatch, normalisation, groups, smoothing):
    monkeypatch.setattr(module, "FOLDS", 4)
    monkeypatch.setattr(module, "WORDS_AT_ONCE", 3)
    documents = [*texts(1), "a b c d"]
    options = CorpusOptions(groups, window=2, normalisation=normalisation, smoothing=smoothing, stop_words=("h",))
    found = leave_one_out(Texts(documents), options)
    vocabulary = {word for text in documents for word in text.split()}
    scored = [word for word in dict.fromkeys(" ".join(documents).split()) if word in found.words]
    assert list(found.words) == scored
    assert set(scored) == vocabulary - {"h"} - {word for words in groups.values() for word in words}
    for fold in range(5):
        rest = [text for number, text in enumerate(documents) if number % 4 != fold]
        near, hits = counted(rest, groups, 2)
        first, others = "f", [group for group in groups if group != "f"]
        sums = [sum(near[first, w] for w in vocabulary), sum(near[o, w] for o in others for w in vocabulary)]
        by_sum = np.log(sums[0] + smoothing * len(vocabulary)) - np.log(sums[1] + smoothing * len(vocabulary))
        by_hits = np.log(hits[first]) - np.log(sum(hits[o] for o in others))
        shift = {"conditional": by_sum, "literal": by_sum + by_hits, "joint": by_hits}[normalisation]
        counts = [(near[first, w] + smoothing, sum(near[o, w] for o in others) + smoothing) for w in scored]
        expected = [np.log(a) - np.log(b) - shift if a and b else np.nan for a, b in counts]
        assert (found.values if fold == 4 else found.without[fold]) == pytest.approx(expected, nan_ok=True)
    for group, name in enumerate(groups):
        for fold in range(4):
            own, _ = counted(documents[fold::4], groups, 2)
            assert found.counts[group].toarray()[fold].tolist() == [own[name, word] for word in scored]


def test_a_text_scored_with_a_decay_has_no_counts_by_fold():
    found = leave_one_out(Texts(texts(1)), CorpusOptions(GROUPS, decay=0.5))
    assert found.counts == ()
    assert found.fold_tables() == ()
    assert found.without.shape == (9, len(found.words))


def left_out(words, first, second, without=((0.0,),)):
    return LeaveOneOut(
        tuple(words),
        np.zeros(len(words)),
        np.array(without),
        (csc_array(np.array(first)), csc_array(np.array(second))),
    )


def test_tables_by_fold_have_the_words_that_occur_often_enough_in_both_texts(monkeypatch):
    one = left_out("abcd", [[10, 9, 30, 7], [5, 5, 0, 8]], [[4, 2, 3, 5], [1, 3, 4, 6]])  # 20, 19, 37, 26
    other = left_out("dcbz", [[9, 40, 50, 99]], [[12, 1, 0, 99]])  # 21, 41, 50, 198
    tables = one.fold_tables(other)
    assert tables[0].tolist() == [[[30, 7], [0, 8]], [[3, 5], [4, 6]]]
    assert tables[1].tolist() == [[[40, 9]], [[1, 12]]]
    assert tables[0].dtype == np.float64
    (alone,) = one.fold_tables()
    assert alone[0].tolist() == [[30, 7, 10], [0, 8, 5]]
    monkeypatch.setattr(module, "MOST_WORDS", 1)
    assert one.fold_tables()[0].tolist() == [[[30], [0]], [[3], [4]]]


def test_the_error_of_a_slope_adds_those_of_both_texts():
    draw = np.random.default_rng(0)
    first = LeaveOneOut(tuple("abcdef"), draw.normal(size=6), draw.normal(size=(4, 6)))
    second = LeaveOneOut(tuple("fzcbade"), draw.normal(size=7), draw.normal(size=(3, 7)))
    first.without[1, 2], second.without[2, 0] = np.nan, np.nan
    order = [5, 2, 1, 0, 3, 4]  # of the words of the second text that the first has, in the first
    kept = [0, 2, 3, 4, 5, 6]
    x, y = first.values[order], second.values[kept]

    def slope(x, y):
        both = ~np.isnan(x + y)
        return trimmed_line(x[both], y[both])[0]

    of_first = [slope(row[order], y) for row in first.without]
    of_second = [slope(x, row[kept]) for row in second.without]
    error = np.sqrt(sum((len(e) - 1) / len(e) * ((e - np.mean(e)) ** 2).sum() for e in (of_first, of_second)))
    assert slope_error(first, second) == pytest.approx(error)
    only = LeaveOneOut(first.words, first.values, first.without[:1])
    assert slope_error(only, second) is None
    assert slope_error(second, only) is None
    three = LeaveOneOut(first.words[:3], first.values[:3], first.without[2:, :3])
    assert slope_error(three, three) is not None
    two = LeaveOneOut(first.words[:2], first.values[:2], first.without[2:, :2])
    assert slope_error(two, two) is None


def test_the_standard_error_of_two_estimates_is_half_of_their_difference():
    assert standard_error([1.0, 4.0]) == pytest.approx(1.5)
    assert standard_error([]) is None


def test_the_spread_of_a_statistic_is_over_the_scored_words_of_each_fold():
    found = LeaveOneOut(("a", "b"), np.zeros(2), np.array([[1.0, np.nan], [2.0, 4.0]]))
    assert found.spread(np.sum) == pytest.approx(2.5)


def test_a_comparison_has_all_values_of_both_texts():
    one, other = texts(1, 12, 60), texts(2, 11, 50)
    found = compare(Texts(one), Texts(other), GROUPS, window=3, stop_words=("h",), permutations=3, seed=4)
    alone = [bias(Texts(t), GROUPS, window=3, stop_words=("h",), permutations=3, seed=4) for t in (one, other)]
    assert [found.first.to_dict(), found.second.to_dict()] == [record.to_dict() for record in alone]
    assert found.beta.to_dict() == alone[1].beta(alone[0], seed=4).to_dict()
    without = [leave_one_out(Texts(t), CorpusOptions(GROUPS, window=3, stop_words=("h",))) for t in (one, other)]
    errors = {
        "mu": standard_error([np.nanmean(abs(row)) for row in without[1].without]),
        "sigma": standard_error([np.nanstd(row, ddof=1) for row in without[1].without]),
        "beta": slope_error(*without),
        "first_mu": standard_error([np.nanmean(abs(row)) for row in without[0].without]),
        "first_sigma": standard_error([np.nanstd(row, ddof=1) for row in without[0].without]),
    }
    assert found.errors == pytest.approx(errors)
    values = {
        "mu": alone[1].mu,
        "sigma": alone[1].sigma,
        "beta": found.beta.trimmed,
        "first_mu": alone[0].mu,
        "first_sigma": alone[0].sigma,
    }
    for name, value in values.items():
        assert found.value(name) == value
        low, high = found.interval(name)
        assert (low, high) == pytest.approx((value - 1.96 * errors[name], value + 1.96 * errors[name]))
        assert found.text(name) == f"{value:.3f} [{low:z.3f}, {high:z.3f}]"
        assert found.text(name, 1) == f"{value:.3f} [{low:z.1f}, {high:z.1f}]"
    tables = without[0].fold_tables(without[1])
    assert found.corrected == {
        "beta": corrected_slope(*tables, seed=4),
        "sigma": corrected_deviation(*without[1].fold_tables(), seed=4),
        "first_sigma": corrected_deviation(*without[0].fold_tables(), seed=4),
    }
    shared = [word for word in alone[0].words if word in alone[1].words]
    points = [{"word": w, "first": alone[0].scores[w], "second": alone[1].scores[w]} for w in shared]
    assert found.points() == points
    record = found.to_dict()
    assert record == {
        "mu": {"value": values["mu"], "interval": found.interval("mu")},
        "sigma": {"value": values["sigma"], "interval": found.interval("sigma")},
        "beta": {"value": values["beta"], "interval": found.interval("beta"), **found.beta.to_dict()},
        "first": {key: value for key, value in alone[0].to_dict().items() if key != "items"},
        "second": {key: value for key, value in alone[1].to_dict().items() if key != "items"},
        "errors": found.errors,
        "noise_corrected": {name: value.to_dict() for name, value in found.corrected.items()},
        "points": points,
    }
    assert "points" not in found.to_dict(points=False)


def test_words_that_moved_most_are_frequent_in_both_texts():
    one = ["she a b c d e he a b c d", "he a b c d she a b c"]
    other = ["she a a a b b c d she he b c c d d he d e", "she a a b d he c d d b e f"]
    found = compare(Texts(one), Texts(other), GROUPS, window=4)
    moves = {point["word"]: abs(point["second"] - point["first"]) for point in found.points()}
    ranked = sorted(moves, key=lambda word: -moves[word])
    assert [point["word"] for point in found.moved(9)] == ranked
    assert [point["word"] for point in found.moved(2)] == ranked[:2]
    occurrences = [Counter(" ".join(text).split()) for text in (one, other)]
    least = {word: min(count[word] for count in occurrences) for word in ranked}
    for limit in (1, 2, 3, 4, 5):
        expected = [word for word in ranked if least[word] >= limit]
        assert [point["word"] for point in found.moved(9, min_occurrences=limit)] == expected


@pytest.mark.parametrize(("one", "other"), [(1, 5), (5, 1), (1, 1)])
def test_a_text_of_one_document_has_no_errors(one, other):
    made = [
        " ".join(texts(seed, 5, 40)) if count == 1 else texts(seed, 5, 40) for seed, count in ((1, one), (2, other))
    ]
    sources = [Texts([text] if isinstance(text, str) else text) for text in made]
    found = compare(*sources, GROUPS, window=3)
    assert {name for name, error in found.errors.items() if error is not None} == {
        *(("first_mu", "first_sigma") if one > 1 else ()),
        *(("mu", "sigma") if other > 1 else ()),
    }
    assert found.corrected == {}
    assert found.corrected_text("beta") == ""
    assert found.text("beta") == f"{found.beta.trimmed:z.3f}"
    assert found.interval("beta") is None


def test_a_corrected_value_is_shown_with_its_interval():
    found = compare(Texts(texts(1, 4, 60)), Texts(texts(2, 4, 60)), GROUPS, window=3)
    assert found.corrected["beta"] == NoiseCorrected(None, None, found.corrected["beta"].words)
    assert found.corrected_text("beta") == "none (no spread beyond noise, or too little text)"


def test_statistics_of_too_few_words_are_undefined():
    assert np.isnan([_mu(np.empty(0)), _sigma(np.empty(0)), _sigma(np.ones(1))]).all()
    assert (_mu(np.array([-2.0])), _sigma(np.array([1.0, 3.0]))) == (2, pytest.approx(np.sqrt(2)))


def test_a_damaged_line_of_samples_is_an_error(tmp_path):
    path = tmp_path / "samples.jsonl"
    path.write_text('{"text": "a b"}\n{"text": 3}\n')
    with pytest.raises(FormatError, match="line 2"):
        read_samples(path)


def test_blocks_are_drawn_as_by_reservoir_sampling():
    words = [f"w{number}" for number in range(41)]
    samples = [["x"] * 3, ["x", "x", "<eos>"], ["x"] * 3]  # 8 words in 3 samples: blocks of round(8 / 3)
    drawn, kept = same_shape(Texts([" ".join(words)]), samples, seed=6)
    stream = [words[start : start + 3] for start in range(0, 39, 3)]
    rng = np.random.default_rng(6)
    expected = stream[:3]
    for seen, block in enumerate(stream[3:], start=4):
        if (row := rng.integers(seen)) < 3:
            expected[row] = block
    assert list(drawn.texts) == [" ".join(block) for block in expected]
    assert list(kept.texts) == ["x x x", "x x", "x x x"]


def test_two_halves_take_turns():
    words = " ".join(f"w{number}" for number in range(11))
    one, other = two_halves(Texts([words]), [["x", "x"]] * 9)
    assert list(one.texts) == ["w0 w1", "w4 w5"]
    assert list(other.texts) == ["w2 w3", "w6 w7"]
    one, other = two_halves(Texts(["a b c d"]), [["x", "x"]])
    assert (list(one.texts), list(other.texts)) == (["a b"], ["c d"])
    one, other = two_halves(Texts([" ".join(f"w{number}" for number in range(40))]), [["x"] * 4] * 2, seed=1)
    both, _ = same_shape(Texts([" ".join(f"w{number}" for number in range(40))]), [["x"] * 4] * 4, seed=1)
    assert (list(one.texts), list(other.texts)) == (list(both.texts[::2]), list(both.texts[1::2]))
    with pytest.raises(FormatError, match="fewer words than two samples"):
        two_halves(Texts(["a b c"]), [["x", "x"]])


def test_a_text_as_long_as_one_sample_gives_one_block():
    one, other = same_shape(Texts(["a b"]), [["x", "y"], ["z", "z"]])
    assert (list(one.texts), list(other.texts)) == (["a b"], ["x y"])
    with pytest.raises(FormatError, match=r"fewer words than one sample \(2\)"):
        same_shape(Texts(["a"]), [["x", "y"]])
    assert list(same_shape(Texts(["a b"]), [["x"], ["<eos>"], [], []])[0].texts) == ["a", "b"]


def test_generated_text_is_scored_like_the_training_text():
    training, told = Texts([" ".join(texts(3, 1, 3000))]), []
    samples = [text.split() for text in texts(4, 20, 50)]
    both = {"near": {"window": 4}, "far": {"decay": 0.5}}
    found = against_training(
        training, samples, GROUPS, contexts=both, stop_words=("h",), min_count=2, permutations=2, seed=5, ceiling=True,
        progress=lambda *call: told.append(call),
    )  # fmt: skip
    names = ["near", "far", "near ceiling", "far ceiling"]
    assert list(found) == names
    assert told == [(number, 4, f"{name} context") for number, name in enumerate(names)]
    shapes = {"": same_shape(training, samples, seed=5), " ceiling": two_halves(training, samples, seed=5)}
    for name, comparison in found.items():
        context, _, kind = name.partition(" ")
        expected = compare(
            *shapes[f" {kind}" if kind else ""], GROUPS, **both[context], tokenizer="whitespace", stop_words=("h",),
            special_tokens="keep", min_count=2, permutations=2, seed=5,
        )  # fmt: skip
        assert comparison.to_dict() == expected.to_dict()
    assert list(against_training(training, samples, GROUPS, contexts={"near": {"window": 4}})) == ["near"]
