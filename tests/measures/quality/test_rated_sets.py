"""Similarity and analogy."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import evenhand as eh
from evenhand import measures
from evenhand.errors import FormatError, InputMissingError, UnknownNameError, UsageError
from evenhand.measures.quality import rated_sets as ranks
from evenhand.measures.quality import rated_sets as search
from evenhand.measures.quality.rated_sets import (
    Questions,
    RatedPairs,
    analogy,
    local_ids,
    questions,
    rated_pairs,
    similarity,
)
from evenhand.models.vectors import Vectors
from evenhand.models.vectors.neighbours import unit_float32
from evenhand.stats.correlation import spearman_rows

# Cosines with "e": east 1, ne .707, north 0, west -1
V = Vectors(["e", "east", "ne", "north", "west"], [[1, 0], [2, 0], [3, 3], [0, 5], [-1, 0]], name="compass")


def pairs(*ratings: float, words: tuple[str, ...] = ("east", "ne", "north", "west")) -> RatedPairs:
    return RatedPairs("mine", tuple(("e", word) for word in words), np.array(ratings))


def test_the_order_of_the_cosines_is_compared_with_the_order_of_the_ratings() -> None:
    assert similarity(V, pairs(9, 7, 5, 1)).value == pytest.approx(1)
    assert similarity(V, pairs(1, 5, 7, 9)).value == pytest.approx(-1)
    assert similarity(V, pairs(9, 5, 7, 1)).value == pytest.approx(1 - 6 * 2 / (4 * 15))  # 1 - 6 sum d^2 / (n^3 - n)
    assert similarity(V, pairs(7, 7, 5, 1)).value == pytest.approx(3 / np.sqrt(10))  # ranks 4 3 2 1 and 3.5 3.5 2 1


def test_the_record_says_what_was_compared() -> None:
    m = similarity(V, pairs(9, 7, 5, 1), seed=3)
    assert (m.measure, m.query, m.model, m.n, m.seed) == ("similarity", "mine", "compass", 4, 3)
    assert m.params == {"unknown": "drop", "min_share": 0.5, "case": "auto"}
    assert m.items[1] == {"first": "e", "second": "ne", "value": pytest.approx(0.5**0.5), "rating": 7.0}
    assert m.coverage.share == 1
    assert eh.measures.similarity is similarity


def test_pairs_with_unknown_words_are_dropped_and_counted() -> None:
    rated = pairs(9, 1, 5, 3, 7, words=("east", "west", "nowhere", "north", "NE"))
    m = similarity(V, rated)
    assert m.value == pytest.approx(1)
    assert m.n == 4
    assert m.coverage.missing == ("nowhere",)
    assert m.coverage.respelt == {"NE": "ne"}
    assert m.details == {"pairs": 5, "pairs_complete": 4, "pairs_used": 4}


def test_an_unknown_word_may_have_the_mean_vector() -> None:
    rated = pairs(9, 1, 8, 3, words=("east", "west", "nowhere", "north"))
    m = similarity(V, rated, unknown="mean-vector")
    mean = V.matrix.mean(axis=0)
    assert m.n == 4
    assert m.items[2]["value"] == pytest.approx(mean[0] / np.linalg.norm(mean))
    assert m.params["unknown"] == "mean-vector"


def test_undefined_with_a_reason() -> None:
    lost = similarity(V, pairs(1, 2, 3, words=("x", "y", "east")))
    assert lost.status == "undefined"
    assert lost.reason == "too few complete pairs are in the vocabulary: mine 1 of 3 (min_share=0.5)"
    few = similarity(V, pairs(1, 2, 3, words=("x", "y", "east")), min_share=0.1)
    assert few.reason == "1 of 3 pairs of mine have both words in the vocabulary"
    nobody = RatedPairs("mine", (("p", "q"), ("r", "s"), ("t", "u")), np.array([1.0, 2, 3]))
    assert similarity(V, nobody, unknown="mean-vector").status == "undefined"
    assert "all ratings are equal" in similarity(V, pairs(2, 2, 2, 2)).reason
    one = Vectors(["e", "east", "ne", "north", "west"], np.outer([1, 2, 3, 4, 5], [0.3, 0.7, 0.2]))
    assert "all cosines are equal" in similarity(one, pairs(1, 2, 3, 4)).reason


def test_an_unknown_policy_raises() -> None:
    with pytest.raises(UsageError, match="'zero'"):
        similarity(V, pairs(1, 2, 3, 4), unknown="zero")  # type: ignore[arg-type]


@given(st.integers(0, 999))
def test_neither_rotation_nor_length_changes_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    names = [f"w{i}" for i in range(12)]
    matrix = rng.normal(size=(12, 5))
    rated = RatedPairs("mine", tuple(zip(names[::2], names[1::2], strict=True)), rng.normal(size=6))
    turned = matrix @ np.linalg.qr(rng.normal(size=(5, 5)))[0] * rng.uniform(0.5, 3, size=(12, 1))
    first, second = similarity(Vectors(names, matrix), rated), similarity(Vectors(names, turned), rated)
    assert first.value == pytest.approx(second.value)


@pytest.mark.data
@pytest.mark.parametrize("name", ["rg-65", "ws-353", "mturk-287", "mturk-771", "men", "simlex-999", "rw"])
def test_gensim_agrees_on_the_embedded_vectors(name: str) -> None:
    if not os.environ.get("EVENHAND_DATA"):
        pytest.skip("EVENHAND_DATA is not set")
    models = pytest.importorskip("gensim.models")
    v = Vectors.default()
    other = models.KeyedVectors(v.dim)
    other.add_vectors(list(v.words), v.matrix)
    path = eh.data.locate(name)
    assert isinstance(path, Path)
    ours = similarity(v, name, min_share=0)
    _, theirs, unknown = other.evaluate_word_pairs(str(path), restrict_vocab=len(v))
    assert ours.value == pytest.approx(theirs.statistic, abs=2e-4)  # theirs has cosines in single precision
    assert ours.n == round((1 - unknown / 100) * ours.details["pairs"])


# man + (woman - man) etc. are exact in the first two coordinates; "odd" lies where aunt - uncle + son would point.
WORDS = ["man", "woman", "king", "queen", "uncle", "aunt", "son", "daughter", "odd"]
MATRIX = [
    [1, 0, 1, 0, 0],
    [0, 1, 1, 0, 0],
    [1, 0, 0, 1, 0],
    [0, 1, 0, 1, 0],
    [1, 0, 0, 0, 1],
    [0, 1, 0, 0, 1],
    [1, 0, -1, 0, 0],
    [1, 0, 0, -1, 0],
    [0, 1, -1, 0, 0],
]
ANALOGY_V = Vectors(WORDS, MATRIX, name="family")
QUESTIONS = Questions(
    "mine",
    (
        ("man", "woman", "king", "queen"),
        ("man", "woman", "uncle", "aunt"),
        ("king", "queen", "man", "woman"),
        ("uncle", "aunt", "son", "daughter"),  # the answer is "odd"
        ("king", "queen", "prince", "princess"),
    ),
    ("family", "family", "gram1-x", "gram1-x", "gram1-x"),
)


def test_share_of_right_answers_in_total_by_half_and_by_section() -> None:
    m = analogy(ANALOGY_V, QUESTIONS)
    assert m.value == pytest.approx(3 / 4)
    assert m.n == 4
    assert m.details["semantic"]["value"] == 1
    assert m.details["syntactic"] == {"value": 0.5, "n": 2, "interval": None}
    assert m.details["unknown"] == 1
    assert m.coverage.missing == ("prince", "princess")
    assert m.items == (
        {"section": "family", "value": 1.0, "n": 2, "asked": 2},
        {"section": "gram1-x", "value": 0.5, "n": 2, "asked": 3},
    )
    assert m.params == {"method": "3cosadd", "restrict": 30_000, "unknown": "skip", "min_share": 0.5, "case": "auto"}
    assert eh.measures.analogy is analogy


def test_an_unknown_word_may_count_as_wrong() -> None:
    m = analogy(ANALOGY_V, QUESTIONS, unknown="wrong")
    assert m.value == pytest.approx(3 / 5)
    assert m.n == 5


def test_only_the_first_words_are_searched() -> None:
    assert "mine 2 of 5" in analogy(ANALOGY_V, QUESTIONS, restrict=4).reason
    m = analogy(ANALOGY_V, QUESTIONS, restrict=4, min_share=0.4)
    assert m.n == 2
    assert m.details["vocabulary"] == 4
    assert set(m.coverage.missing) == {"uncle", "aunt", "son", "daughter", "prince", "princess"}
    assert analogy(ANALOGY_V, QUESTIONS, restrict=None).value == analogy(ANALOGY_V, QUESTIONS, restrict=9).value


def test_a_set_without_halves_has_none() -> None:
    assert "semantic" not in analogy(ANALOGY_V, Questions("mine", QUESTIONS.questions, ("all",) * 5)).details


def test_no_known_question_is_undefined() -> None:
    m = analogy(ANALOGY_V, QUESTIONS, restrict=2)
    assert m.status == "undefined"
    assert m.reason == "no complete question of mine is in the vocabulary"


@pytest.mark.parametrize("options", [{"method": "3cosdiv"}, {"restrict": 0}, {"unknown": "guess"}])
def test_invalid_options_raise(options: dict[str, object]) -> None:
    with pytest.raises(UsageError, match=str(*options.values())):
        analogy(ANALOGY_V, QUESTIONS, **options)  # type: ignore[arg-type]


def planted(seed: int, *, noise: float, pairs: int = 12) -> tuple[Vectors, Questions]:
    """Pairs that differ by one common offset: every question is answered when nothing disturbs them."""
    rng = np.random.default_rng(seed)
    first = rng.normal(size=(pairs, 20))
    second = first + 2 * rng.normal(size=20) + noise * rng.normal(size=(pairs, 20))
    names = [f"{side}{i}" for side in "xy" for i in range(pairs)]
    questions = tuple((f"x{i}", f"y{i}", f"x{j}", f"y{j}") for i in range(pairs) for j in range(pairs) if i != j)
    return Vectors(names, np.vstack([first, second])), Questions("planted", questions, ("all",) * len(questions))


def test_planted_relations_are_found_and_noise_hides_them() -> None:
    assert analogy(*planted(0, noise=0.0)).value > 0.95
    noisy = analogy(*planted(0, noise=2.0))
    assert noisy.value < 0.9
    low, high = noisy.interval or (0, 0)
    assert low < noisy.value < high


@given(st.integers(0, 99))
def test_analogy_neither_rotation_nor_length_changes_it(seed: int) -> None:
    v, questions = planted(seed, noise=1.0, pairs=6)
    rng = np.random.default_rng(seed)
    turned = v.matrix @ np.linalg.qr(rng.normal(size=(20, 20)))[0] * rng.uniform(0.5, 3, size=(12, 1))
    assert analogy(v, questions).value == analogy(Vectors(v.words, turned), questions).value


@pytest.mark.data
@pytest.mark.parametrize("name", ["google-analogies", "msr-analogies"])
def test_analogy_gensim_agrees_on_the_embedded_vectors(name: str) -> None:
    if not os.environ.get("EVENHAND_DATA"):
        pytest.skip("EVENHAND_DATA is not set")
    models = pytest.importorskip("gensim.models")
    v = Vectors.default().head(3_000)
    other = models.KeyedVectors(v.dim)
    other.add_vectors(list(v.words), v.matrix)
    theirs, sections = other.evaluate_word_analogies(str(eh.data.locate(name)), restrict_vocab=3_000)
    ours = analogy(v, name, restrict=3_000, min_share=0)
    assert ours.n == len(sections[-1]["correct"]) + len(sections[-1]["incorrect"])
    assert ours.value == pytest.approx(theirs, abs=1.5 / ours.n)  # one near tie may fall the other way
    for mine, section in zip(ours.items, sections[:-1], strict=True):
        assert mine["section"] == section["section"]
        assert mine["n"] == len(section["correct"]) + len(section["incorrect"])


def world(seed: int, words: int, queries: int) -> tuple[Vectors, np.ndarray]:
    rng = np.random.default_rng(seed)
    v = Vectors([f"w{i}" for i in range(words)], rng.normal(size=(words, 6)))
    return v, np.stack([rng.choice(words, size=3, replace=False) for _ in range(queries)])


@pytest.mark.parametrize("method", ["3cosadd", "3cosmul"])
@given(seed=st.integers(0, 999))
def test_all_at_once_answers_as_one_by_one(method: search.Method, seed: int) -> None:
    v, queries = world(seed, words=25, queries=12)
    result = search.answers(unit_float32(v), queries, method=method)
    for (a, b, c), answer in zip(queries, result, strict=True):
        alone = v.most_similar([v.words[b], v.words[c]], k=1, negative=[v.words[a]], method=method)
        assert v.words[answer] == alone[0][0]


@pytest.mark.parametrize("method", ["3cosadd", "3cosmul"])
def test_the_size_of_a_block_changes_nothing(method: search.Method, monkeypatch: pytest.MonkeyPatch) -> None:
    v, queries = world(5, words=100, queries=80)
    shared = [(0, 1, c) for c in range(2, 60)]  # more questions with one pair than are scored at once
    queries = np.concatenate([queries[:40], shared, queries[40:]])
    whole = search.answers(unit_float32(v), queries, method=method)
    monkeypatch.setattr(search, "CANDIDATES_AT_ONCE", 7)
    monkeypatch.setattr(search, "QUESTIONS_AT_ONCE", 3)
    assert search.answers(unit_float32(v), queries, method=method).tolist() == whole.tolist()


def test_equal_scores_go_to_the_first_row(monkeypatch: pytest.MonkeyPatch) -> None:
    v = Vectors(["a", "b", "c", "far", "d", "same as d"], [[1, 0], [0, 1], [1, 0], [-1, -1], [0, 1], [0, 1]])
    monkeypatch.setattr(search, "CANDIDATES_AT_ONCE", 5)
    assert search.answers(unit_float32(v), np.array([[0, 1, 2]])).tolist() == [4]


def written(folder: Path, text: str, name: str = "mine.tsv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "text",
    [
        "car\tautomobile\t3.9\nice cream\tdog\t1\n",
        "# a comment\nword1\tword2\tscore\ncar\tautomobile\t3.9\n\nice cream\tdog\t1.0\tnotes\n",
    ],
)
def test_pairs_are_read_with_headings_comments_and_phrases(tmp_path: Path, text: str) -> None:
    read = rated_pairs(written(tmp_path, text))
    assert read.name == "mine"
    assert read.pairs == (("car", "automobile"), ("ice cream", "dog"))
    assert read.ratings.tolist() == [3.9, 1.0]
    assert rated_pairs(read) is read


@pytest.mark.parametrize("text", ["car automobile 3.9", "car,automobile, 3.9", "\ufeffcar automobile 3.9\r\n"])
def test_blanks_and_commas_separate_too(tmp_path: Path, text: str) -> None:
    assert rated_pairs(written(tmp_path, text)).pairs == (("car", "automobile"),)


def test_a_line_that_is_not_a_pair_is_named(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"mine\.tsv, line 2.*'car dog'"):
        rated_pairs(written(tmp_path, "a b 1\ncar dog\n"))
    with pytest.raises(FormatError, match="line 2"):
        rated_pairs(written(tmp_path, "a b 1\nc d nan\n"))
    with pytest.raises(FormatError, match="has no pairs"):
        rated_pairs(written(tmp_path, "# nothing\n"))
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9 bar 1\n")
    with pytest.raises(FormatError, match=r"latin\.txt is not UTF-8"):
        rated_pairs(tmp_path / "latin.txt")


def test_questions_have_sections(tmp_path: Path) -> None:
    read = questions(written(tmp_path, "a b c d\n: gram1 x\ne f g h\n"))
    assert read.questions == (("a", "b", "c", "d"), ("e", "f", "g", "h"))
    assert read.sections == ("all", "gram1 x")
    with pytest.raises(FormatError, match="line 1: 3 words"):
        questions(written(tmp_path, "a b c\n"))
    with pytest.raises(FormatError, match="has no questions"):
        questions(written(tmp_path, ": empty\n"))


def test_missing_sets_are_named(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="no similarity set 'rg-66'") as caught:
        rated_pairs("rg-66")
    assert "rg-65" in caught.value.hint
    with pytest.raises(UnknownNameError, match="no analogy set 'rg-65'"):
        questions("rg-65")
    with pytest.raises(InputMissingError, match=r"gone\.tsv"):
        rated_pairs(tmp_path / "gone.tsv")
    written(tmp_path, "a b 1")
    with pytest.raises(UsageError, match="folder of several sets") as folder:
        rated_pairs(tmp_path)
    assert "mine.tsv" in folder.value.hint


def test_a_set_is_offered_only_when_it_is_on_this_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVENHAND_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("EVENHAND_DATA", str(tmp_path))
    assert local_ids("similarity", ("yp-130",)) == ()
    (tmp_path / "similarity").mkdir()
    lines = "".join(f"a{i}\tb{i}\t{i}.00000\n" for i in range(200))
    written(tmp_path / "similarity", lines[:2614], "EN-YP-130.txt")
    assert local_ids("similarity", ("yp-130", "ws-353")) == ("yp-130",)
    assert local_ids("analogy", ("yp-130",)) == ()


def test_two_sets_are_part_of_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EVENHAND_DATA", raising=False)
    assert local_ids("similarity", ("rg-65", "mc-30", "ws-353")) == ("rg-65", "mc-30")
    assert rated_pairs("rg-65").pairs[2] == ("automobile", "car")
    assert (len(rated_pairs("rg-65").pairs), len(rated_pairs("mc-30").pairs)) == (65, 30)
    assert rated_pairs("mc-30").ratings.max() == 3.92
    assert measures.info("similarity").default_queries() == ("rg-65", "mc-30")
    assert measures.info("analogy").default_queries() == ()


@pytest.mark.data
@pytest.mark.parametrize(("id", "file"), [("rg-65", "EN-RG-65.txt"), ("mc-30", "EN-MC-30.txt")])
def test_the_rows_of_the_package_are_those_of_the_collection(
    id: str, file: str, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin = rated_pairs(data_folder / "similarity" / file)
    monkeypatch.delenv("EVENHAND_DATA")
    monkeypatch.setenv("EVENHAND_CACHE", "/nonexistent")
    packaged = rated_pairs(id)
    assert packaged.pairs == origin.pairs
    assert packaged.ratings.tolist() == origin.ratings.tolist()


columns = st.integers(3, 30).flatmap(
    lambda n: st.tuples(*(st.lists(st.integers(0, 6), min_size=n, max_size=n) for _ in range(2)))
)


def of_all(x: np.ndarray, y: np.ndarray) -> float:
    return float(ranks.correlations(x, y, np.ones((1, len(x)), dtype=np.int64))[0])


@given(columns)
def test_equal_values_share_their_mean_rank_as_in_scipy(both: tuple[list[int], list[int]]) -> None:
    x, y = (np.array(column, dtype=np.float64) for column in both)
    ours = of_all(x, y)
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        assert np.isnan(ours)
    else:
        assert ours == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-12)


@given(columns, st.integers(0, 99))
def test_counts_of_draws_give_the_same_value_as_the_draws(both: tuple[list[int], list[int]], seed: int) -> None:
    x, y = (np.array(column, dtype=np.float64) for column in both)
    counts = np.random.default_rng(seed).multinomial(len(x), np.full(len(x), 1 / len(x)))
    drawn = np.repeat(np.arange(len(x)), counts)
    by_counts = ranks.correlations(x, y, counts[None])[0]
    assert by_counts == pytest.approx(spearman_rows(x[drawn][None], y[drawn][None])[0], abs=1e-12, nan_ok=True)


def test_the_interval_holds_the_value_and_is_seeded() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=80)
    y = x + rng.normal(size=80)
    low, high = ranks.rank_interval(x, y, seed=1) or (0, 0)
    assert low < of_all(x, y) < high
    assert ranks.rank_interval(x, y, seed=1) == (low, high)
    assert ranks.rank_interval(x, y, seed=2) != (low, high)
    assert ranks.rank_interval(x[:2], y[:2]) is None
