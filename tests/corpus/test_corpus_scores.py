"""The fast counts equal counting by definition, whatever the text, the window and the size of the pieces."""

import math
from collections import Counter
from itertools import chain, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand import corpus
from evenhand.errors import UsageError, VocabularyError

GROUPS = {"female": ["she", "her"], "male": ["he"]}
WORDS = ["she", "her", "he", "nurse", "doctor", "the", "ran"]
documents = st.lists(st.lists(st.sampled_from(WORDS), max_size=25), min_size=1, max_size=5)


def cooccurrences(texts, groups, weight):
    """c(w, g) and c(g) by the definition: every ordered pair of places of a document."""
    counts = {name: Counter() for name in groups}
    hits, seen = Counter(), Counter()
    owner = {word: name for name, words in groups.items() for word in words}
    for words in texts:
        seen.update(words)
        hits.update(owner[word] for word in words if word in owner)
        for i, j in product(range(len(words)), repeat=2):
            if i != j and words[j] in owner and weight(abs(i - j)):
                counts[owner[words[j]]][words[i]] += weight(abs(i - j))
    return counts, hits, seen


def expected(texts, groups, weight, normalisation="conditional", smoothing=0.0):
    counts, hits, seen = cooccurrences(texts, groups, weight)
    own = {word for words in groups.values() for word in words}
    f, m = counts.values()
    size = smoothing * len(seen)

    def probability(word, c, name):
        return (c[word] + smoothing) / {
            "conditional": c.total() + size,
            "literal": (c.total() + size) * hits[name] / seen.total(),
            "joint": (f.total() + m.total()) * hits[name] / seen.total(),
        }[normalisation]

    names = list(groups)
    scored = [w for w in seen if w not in own and ((f[w] and m[w]) or (smoothing and (f[w] or m[w])))]
    return {w: math.log(probability(w, f, names[0]) / probability(w, m, names[1])) for w in scored}


def scores(texts, **options):
    source = corpus.Texts([" ".join(words) for words in texts])
    return corpus.bias(source, options.pop("groups", GROUPS), tokenizer="whitespace", **options)


def complete(texts):
    """Both groups occur, or there is nothing to score."""
    seen = {word for words in texts for word in words}
    return seen & {"she", "her"} and "he" in seen


@given(documents, st.integers(1, 8), st.sampled_from(["conditional", "literal", "joint"]), st.sampled_from([0.0, 0.5]))
def test_fixed_window_equals_the_definition(texts, window, normalisation, smoothing):
    if complete(texts):
        found = scores(texts, window=window, normalisation=normalisation, smoothing=smoothing).scores
        wanted = expected(texts, GROUPS, lambda d: float(d <= window), normalisation, smoothing)
        assert set(found) == set(wanted)
        assert all(abs(found[word] - wanted[word]) < 1e-12 for word in wanted)


@given(documents, st.floats(0.3, 0.99), st.sampled_from(["conditional", "literal", "joint"]))
def test_decay_equals_the_definition(texts, decay, normalisation):
    if complete(texts):
        found = scores(texts, decay=decay, normalisation=normalisation).scores
        wanted = expected(texts, GROUPS, lambda d: decay**d, normalisation)
        assert set(found) == set(wanted)
        assert all(abs(found[word] - wanted[word]) < 1e-12 for word in wanted)


@given(documents, st.integers(1, 60), st.sampled_from([{"window": 3}, {"window": 40}, {"decay": 0.9}]))
def test_the_size_of_the_pieces_does_not_matter(texts, piece, reach):
    if complete(texts):
        whole, cut = scores(texts, **reach), scores(texts, piece=piece, **reach)
        assert whole.words == cut.words
        assert (whole.documents, whole.empty_documents, whole.tokens) == (
            cut.documents,
            cut.empty_documents,
            cut.tokens,
        )
        np.testing.assert_allclose(cut.values, whole.values, rtol=0, atol=1e-12)
        np.testing.assert_allclose(cut.cooccurrence, whole.cooccurrence, rtol=1e-12)


@given(documents, st.sampled_from([{"window": 4}, {"decay": 0.95}]))
def test_swapping_the_groups_flips_every_sign(texts, reach):
    if complete(texts):
        one = scores(texts, **reach)
        other = scores(texts, groups=dict(reversed(GROUPS.items())), **reach)
        assert one.positive == "female"
        assert other.positive == "male"
        assert {word: -value for word, value in other.scores.items()} == pytest.approx(dict(one.scores), abs=1e-12)


def test_by_hand():
    b = scores([["she", "nurse", "x", "he", "doctor", "nurse"]], window=2)
    # she: nurse 1, x 1; he: nurse 1 + 1, x 1, doctor 1. Sums 2 and 4.
    assert b.scores == pytest.approx({"nurse": math.log((1 / 2) / (2 / 4)), "x": math.log((1 / 2) / (1 / 4))})
    assert b.lost == {
        "stop_words": 0,
        "special_tokens": 0,
        "below_min_count": 0,
        "never_near_any_group": 0,
        "zero_count": 1,
    }
    assert b.mu == pytest.approx(math.log(2) / 2)
    assert b.sigma == pytest.approx(math.log(2) / math.sqrt(2))
    assert b.hits == {"female": 1, "male": 1}
    assert b.missing == {"female": ("her",), "male": ()}


def test_no_window_crosses_the_end_of_a_document():
    apart = [["she", "nurse", "he"], ["nurse"], ["he", "doctor", "she"]]
    assert scores(apart, window=10).cooccurrence[:, 0].tolist() == [1, 1]
    together = scores([list(chain.from_iterable(apart))], window=10).cooccurrence[:, 0].tolist()
    assert together == [4, 4]
    assert scores([["she", "nurse"], ["nurse", "he"]], decay=0.5).cooccurrence.tolist() == [[0.5], [0.5]]


def test_a_group_word_does_not_count_for_itself():
    b = scores([["she", "she", "x", "he"]], window=1)
    # Near female: she twice (beside each other), x once; near male: x once. Sums 3 and 1.
    assert b.scores == pytest.approx({"x": math.log((1 / 3) / (1 / 1))})


def test_neutral_text_scores_zero_or_log_of_the_ratio():
    rng = np.random.default_rng(0)
    words = [f"w{i}" for i in range(50)]
    text = rng.choice([*words, "she", "he"], size=100_000, p=[0.94 / 50] * 50 + [0.01, 0.05]).tolist()
    groups = {"female": ["she"], "male": ["he"]}
    conditional = scores([text], groups=groups)
    literal = scores([text], groups=groups, normalisation="literal")
    assert conditional.n == 50
    assert conditional.values.mean() == pytest.approx(0, abs=0.02)
    assert literal.values.mean() == pytest.approx(math.log(5), abs=0.1)
    shift = math.log(literal.hits["male"] / literal.hits["female"])
    assert literal.values.mean() == pytest.approx(conditional.values.mean() + shift)


def test_stop_words_are_not_scored_but_count():
    texts = [["she", "the", "nurse", "he", "the"]]
    plain, stopped = scores(texts), scores(texts, stop_words=["the"])
    assert set(plain.scores) == {"the", "nurse"}
    assert stopped.scores == {"nurse": plain.scores["nurse"]}
    assert stopped.lost["stop_words"] == 1
    assert stopped.params["stop_words"] == 1


def test_min_count_counts_what_it_drops():
    b = scores([["she", "nurse", "he", "nurse", "doctor"]], min_count=2)
    assert set(b.scores) == {"nurse"}
    assert b.lost["below_min_count"] == 1


def test_english_stop_list_by_name():
    b = scores([["she", "and", "nurse", "he"]], stop_words="english")
    assert set(b.scores) == {"nurse"}


def test_three_groups_each_against_the_rest():
    groups = {"a": ["a1"], "b": ["b1"], "c": ["c1"]}
    rng = np.random.default_rng(1)
    texts = [rng.choice(["a1", "b1", "c1", "x", "y", "z"], size=40).tolist() for _ in range(5)]
    b = scores(texts, groups=groups, window=2)
    rest = {"b": ["b1"], "rest": ["a1", "c1"]}
    wanted = expected(texts, rest, lambda d: float(d <= 2))
    assert b.positive == "a"
    assert b.for_group("b").scores == pytest.approx(wanted, abs=1e-12)
    assert b.for_group("a") is b
    with pytest.raises(UsageError, match=r"'d'.*\n.*a, b, c"):
        b.for_group("d")


def test_lists_of_the_paper_have_wife_with_the_women():
    texts = [["wife", "cooks", "she", "reads"], ["husband", "reads", "he", "he", "cooks"]]
    b = corpus.bias(corpus.Texts([" ".join(t) for t in texts]), window=1, smoothing=0.1)
    assert b.params["lists"] == "bordia2019-cnn-dm"
    assert b.scores["cooks"] > 0 > b.scores["reads"]


def test_a_concept_serves_as_groups():
    b = corpus.bias(corpus.Texts(["she nurse he nurse"]), lists="gender", window=2)
    assert list(b.groups) == ["female", "male"]
    assert set(b.scores) == {"nurse"}


def test_words_with_below_min_cooccurrence_can_be_leave_one_out():
    b = scores([["she", "nurse", "x", "he", "doctor", "nurse", "x"]], decay=0.5, bootstrap=10)
    part = b.with_cooccurrence(0.5)
    assert [word for word in b.words if word in part.scores] == list(part.words)
    assert (part.cooccurrence >= 0.5).all()
    assert part.lost["below_min_cooccurrence"] == b.n - part.n > 0
    assert part.intervals.shape == (2, part.n)
    assert b.with_cooccurrence(0).scores == b.scores
    assert part.for_group("male").scores == {word: -value for word, value in part.scores.items()}


def test_top_of_both_ends():
    texts = [["she", "nurse", "she", "nurse", "he", "doctor", "he", "doctor", "she"]]
    b = scores(texts, window=1)
    assert b.top(1)[0][0] == "nurse"
    assert b.top(-1)[0][0] == "doctor"
    assert b.top(5, min_occurrences=3) == ()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window": 3, "decay": 0.9}, "not both"),
        ({"window": 0}, "at least 1"),
        ({"decay": 1.0}, "between 0 and 1"),
        ({"min_count": 0}, "min_count"),
        ({"smoothing": float("nan")}, "smoothing"),
        ({"normalisation": "half"}, "'half'.*\n.*conditional"),
        ({"lists": "bordia2019-ptb"}, "not both"),
        ({"groups": {"one": ["she"]}}, "at least 2 groups"),
        ({"groups": {"one": ["she"], "two": ["he", "she"]}}, "'she' is in group 'one' and in group 'two'"),
        ({"groups": ["she", "he"]}, "must map a name"),
        ({"documents": "line"}, "documents cannot be given"),
    ],
)
def test_misuse_raises_usage_errors(options, message):
    with pytest.raises(UsageError, match=message):
        scores([["she", "he", "x"]], **options)


def test_a_group_without_any_hit_is_an_error_that_names_it():
    with pytest.raises(VocabularyError, match=r"group 'male'.*\n.*tokenizer"):
        scores([["she", "nurse"]])


def test_record_is_plain_data():
    b = scores([["she", "nurse", "he"], [], ["he", "nurse"]], seed=3)
    record = b.to_dict()
    assert record["documents"] == 3
    assert record["empty_documents"] == 1
    assert record["seed"] == 3
    assert record["items"] == [
        {
            "word": "nurse",
            "bias": b.scores["nurse"],
            "count": 2,
            "cooccurrence": {"female": 1.0, "male": 2.0},
            "evidence": b.evidence[0],
        }
    ]
    assert record["params"]["window"] == 10
    assert record["params"]["lower"] is False
