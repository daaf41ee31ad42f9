"""Two texts side by side: equal shapes, the jackknife, and the comparison of generated with training text."""

import numpy as np
import pytest

from evenhand.corpus import Corpus, CorpusOptions, Texts, bias
from evenhand.corpus.comparison import (
    against_training,
    compare,
    leave_one_out,
    read_samples,
    same_shape,
    standard_error,
    two_halves,
    word_stream,
)
from evenhand.errors import DegenerateError, FormatError

GROUPS = {"female": ["she", "her"], "male": ["he", "him"]}
OPTIONS = {"tokenizer": "whitespace", "window": 3}


def documents(count: int, seed: int, lean: float = 0.7, length: int = 60) -> list[str]:
    """Words a0-a9 near women with probability `lean`, b0-b9 near men, c0-c9 near anybody."""
    rng = np.random.default_rng(seed)
    out = []
    for _ in range(count):
        words = []
        while len(words) < length:
            kind = rng.choice(["a", "b", "c"])
            female = rng.random() < {"a": lean, "b": 1 - lean, "c": 0.5}[kind]
            words += [rng.choice(GROUPS["female" if female else "male"]), f"{kind}{rng.integers(10)}", "and", "so"]
        out.append(" ".join(words[:length]))
    return out


def test_blocks_have_the_shape_of_the_samples(tmp_path) -> None:
    path = tmp_path / "train.txt"
    path.write_text("\n".join(f"w{i} x{i} y{i}" for i in range(100)) + "\n")
    samples = [["a", "<eos>", "b", "c", "d"], ["a", "b", "c", "<eos>", "e"]]
    blocks, kept = same_shape(Corpus([path]), samples, seed=1)
    assert [len(text.split()) for text in blocks.texts] == [4, 4]
    assert list(kept.texts) == ["a b c d", "a b c e"]
    stream = list(word_stream(Corpus([path])))
    assert stream[:4] == ["w0", "x0", "y0", "w1"]
    for text in blocks.texts:  # each is a stretch of the text, across the ends of lines
        start = stream.index(text.split()[0])
        assert stream[start : start + 4] == text.split()
    assert same_shape(Corpus([path]), samples, seed=1)[0] == blocks
    assert same_shape(Corpus([path]), samples, seed=2)[0] != blocks


def test_a_short_text_cuts_the_samples() -> None:
    blocks, kept = same_shape(Texts(["a b c d e f"]), [["x", "y"]] * 10)
    assert list(blocks.texts) == ["a b", "c d", "e f"]
    assert len(kept.texts) == 3


def test_every_block_is_drawn_as_often() -> None:
    text, samples = Texts([" ".join(f"w{i}" for i in range(40))]), [["x"] * 4] * 5
    drawn = [block.split()[0] for seed in range(400) for block in same_shape(text, samples, seed=seed)[0].texts]
    counts = np.unique(drawn, return_counts=True)[1]
    assert len(counts) == 10
    assert abs(counts - 200).max() < 60  # 400 draws of 5 of 10: sd 10


def test_two_halves_share_nothing() -> None:
    text = Texts([" ".join(f"w{i}" for i in range(41))])
    one, other = two_halves(text, [["x"] * 4] * 50)
    assert len(one.texts) == len(other.texts) == 5
    assert not set(" ".join(one.texts).split()) & set(" ".join(other.texts).split())


@pytest.mark.parametrize(
    "call", [lambda: same_shape(Texts(["a"]), [["x"] * 9]), lambda: same_shape(Texts(["a"]), [["<eos>"]])]
)
def test_nothing_to_compare_is_an_error(call) -> None:
    with pytest.raises(FormatError):
        call()


def test_standard_error_by_hand() -> None:
    # Of a mean the jackknife gives sd / sqrt(n).
    values = np.array([1.0, 2.0, 4.0, 9.0])
    without = [np.delete(values, i).mean() for i in range(4)]
    assert standard_error(without) == pytest.approx(values.std(ddof=1) / 2)
    assert standard_error([1.0]) is None
    assert standard_error([1.0, float("nan")]) is None


def test_leave_one_out_equals_scoring_without_the_document() -> None:
    texts = documents(12, seed=3)
    options = CorpusOptions(GROUPS, window=3, tokenizer="whitespace", stop_words=("and",))
    found = leave_one_out(Texts(texts), options)
    assert found.without.shape == (12, len(found.words))
    for i in (0, 5, 11):
        rest = bias(Texts(texts[:i] + texts[i + 1 :]), GROUPS, **OPTIONS, stop_words=("and",))
        mine = {w: v for w, v in zip(found.words, found.without[i], strict=True) if np.isfinite(v)}
        assert mine == pytest.approx(dict(rest.scores), abs=1e-12)


def test_leave_one_out_with_decay_leaves_no_rounding_error_behind() -> None:
    """A word of one document has no score without it; total minus part would leave it the rounding of both."""
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.permutation([*rng.choice(["she", "he", "x", "y"], 40), f"rare{i}"])) for i in range(40)]
    texts += ["she far" + " z" * 900 + " he", "she far he"]  # weights of far: about 1e-20 and 1
    options = CorpusOptions(GROUPS, decay=0.95, tokenizer="whitespace")
    found = leave_one_out(Texts(texts), options)
    for i, row in enumerate(found.without):
        rest = bias(Texts(texts[:i] + texts[i + 1 :]), GROUPS, decay=0.95, tokenizer="whitespace")
        mine = {w: v for w, v in zip(found.words, row, strict=True) if np.isfinite(v)}
        assert mine == pytest.approx(dict(rest.scores), abs=1e-9)


def test_comparison_of_texts_with_the_same_leaning() -> None:
    first, second = Texts(documents(150, 1)), Texts(documents(150, 2))
    found = compare(first, second, GROUPS, **OPTIONS, stop_words=("and", "so"), permutations=5)
    assert found.value("beta") == found.beta.trimmed
    assert found.value("mu") == bias(second, GROUPS, **OPTIONS, stop_words=("and", "so")).mu
    low, high = found.interval("beta")
    assert low < 1 < high
    assert high - low < 0.6
    assert found.second.baseline.mu < 0.5 * found.second.mu
    record = found.to_dict()
    assert record["beta"]["words"] == len(record["points"]) == 30
    assert record["mu"]["interval"][0] < record["mu"]["value"] < record["mu"]["interval"][1]
    assert "points" not in found.to_dict(points=False)


def test_jackknife_is_as_wide_as_the_spread_over_texts() -> None:
    """The standard error that one text gives is about the spread that many texts show."""
    first = Texts(documents(80, 999))
    runs = [
        compare(first, Texts(documents(80, seed)), GROUPS, **OPTIONS, stop_words=("and", "so")) for seed in range(12)
    ]
    spread = np.std([run.second.mu for run in runs], ddof=1)
    told = np.mean([run.errors["mu"] for run in runs])
    assert 0.5 < told / spread < 2


def test_one_document_has_no_interval() -> None:
    found = compare(Texts(documents(1, 1, length=4000)), Texts(documents(1, 2, length=4000)), GROUPS, **OPTIONS)
    assert found.interval("mu") is None
    assert found.to_dict()["beta"]["interval"] is None


def test_generated_text_against_training_text(tmp_path) -> None:
    training, less = documents(300, 1, length=100), documents(200, 2, lean=0.55, length=100)
    samples = [[*text.split(), "<eos>"] for text in less]
    found = against_training(Texts(training), samples, GROUPS, stop_words=("and", "so"), ceiling=True)
    assert list(found) == ["fixed", "infinite", "fixed ceiling", "infinite ceiling"]
    assert found["fixed"].first.tokens == found["fixed"].second.tokens == 20_000
    assert found["fixed"].value("beta") < 0.6 < found["fixed ceiling"].value("beta") < 1.4
    assert found["infinite"].second.params["decay"] == 0.95


def test_too_few_shared_words_is_an_error() -> None:
    one, other = Texts(["she x he x"] * 3), Texts(["she x he y"] * 3)
    with pytest.raises(
        DegenerateError, match=r"only 1 word is scored in both .* too few.*\n.*hint: use more text; .*samples"
    ):
        compare(one, other, GROUPS, **OPTIONS)
    with pytest.raises(DegenerateError, match=r"\n.*hint: lower min_count \(currently 3\); use more text"):
        compare(one, other, GROUPS, **OPTIONS, min_count=3)


def test_samples_of_a_file(tmp_path) -> None:
    lines, records = tmp_path / "a.txt", tmp_path / "b.jsonl"
    lines.write_text("a b <eos> c\n\nd\n")
    records.write_text('{"text": "a b\\nc"}\n{"text": "d"}\n')
    assert read_samples(lines) == [["a", "b", "<eos>", "c"], ["d"]]
    assert read_samples(records) == [["a", "b", "c"], ["d"]]
