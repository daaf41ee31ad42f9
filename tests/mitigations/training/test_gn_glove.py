from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from typer.testing import CliRunner

import evenhand as eh
from evenhand.arrays import Matrix64
from evenhand.cli.app import app
from evenhand.corpus import Cooccurrence
from evenhand.errors import DegenerateError, EvenhandWarning, FormatError, UsageError, VocabularyError
from evenhand.mitigations import GNGloVe, get, glove
from evenhand.mitigations.training.glove import GloveSettings, GloveSide, blocks, gradients
from evenhand.mitigations.training.gn_glove import Coordinate, listed
from evenhand.models.vectors import Vectors
from evenhand.words import Concept, pairs

PAIRS = [("she", "he"), ("woman", "man"), ("queen", "king"), ("girl", "boy")]
FIRST, SECOND = ([two[place] for two in PAIRS] for place in (0, 1))
CONCEPT = Concept("sides", {"female": FIRST, "male": SECOND}, PAIRS)
LEANING = {"first": ["nurse", "dancer", "baker"], "second": ["boss", "pilot", "miner"]}
OTHERS = [f"w{number}" for number in range(30)]
WORDS = [*FIRST, *SECOND, *LEANING["first"], *LEANING["second"], *OTHERS]


def counted(matrix: Any, words: list[str] | None = None) -> Cooccurrence:
    table = csr_array(np.asarray(matrix, dtype=np.float64))
    words = [f"w{number}" for number in range(table.shape[0])] if words is None else words
    return Cooccurrence(tuple(words), table, np.ones(len(words), dtype=np.int64), {"window": 2})


def noise(n: int, seed: int = 0) -> Matrix64:
    upper = np.triu(np.random.default_rng(seed).gamma(1.0, 20.0, size=(n, n)))
    return np.asarray(upper + upper.T, dtype=np.float64)


def planted() -> Cooccurrence:
    """Every word meets every other; words of one side, and those that lean to it, meet each other five times as often."""
    side = np.array([1] * len(FIRST) + [-1] * len(SECOND) + [1] * 3 + [-1] * 3 + [0] * len(OTHERS))
    return counted(noise(len(WORDS)) * 5.0 ** np.outer(side, side), WORDS)


def brief(**more: Any) -> GNGloVe:
    return GNGloVe(**{"dim": 8, "epochs": 60, "block": 128, **more})


def on_direction(matrix: Matrix64, names: list[str]) -> float:
    """Mean |cosine| of these words with the mean difference of the pairs."""
    place = {word: row for row, word in enumerate(WORDS)}
    along = np.mean([matrix[place[b]] - matrix[place[a]] for a, b in PAIRS], axis=0)
    rows = matrix[[place[name] for name in names]]
    return float(np.mean(np.abs(rows @ along) / np.linalg.norm(rows, axis=1)) / np.linalg.norm(along))


class TestBlocks:
    @settings(max_examples=25, deadline=None)
    @given(n=st.integers(1, 12), size=st.integers(1, 500), seed=st.integers(0, 99))
    def test_every_count_is_in_one_block(self, n: int, size: int, seed: int) -> None:
        matrix = noise(n, seed) * (np.random.default_rng(seed).random((n, n)) < 0.7)
        matrix = matrix + matrix.T + np.eye(n)
        back = np.zeros((n, n))
        for block in blocks(counted(matrix), np.random.default_rng(seed), size=size, x_max=10, alpha=0.75):
            rows, columns = block.words[block.word_of], block.contexts[block.context_of]
            np.add.at(back, (rows, columns), np.exp(block.log_counts.astype(np.float64)))
            assert np.allclose(block.weights, np.minimum(matrix[rows, columns] / 10, 1) ** 0.75)
            assert (np.diff(block.word_of) >= 0).all()
            assert block.word_hits.sum() == block.context_hits.sum() == len(block)
        assert np.allclose(back, matrix, rtol=1e-5)

    def test_a_stored_zero_is_not_a_count(self) -> None:
        counts = counted([[1.0, 2.0], [2.0, 3.0]])
        counts.matrix.data[0] = 0
        assert sum(map(len, blocks(counts, np.random.default_rng(0), size=9, x_max=1, alpha=1))) == 3

    @pytest.mark.parametrize("bad", [np.nan, np.inf, -1.0])
    def test_invalid_counts_are_refused(self, bad: float) -> None:
        with pytest.raises(FormatError, match="negative or not finite"):
            glove(counted([[1.0, bad], [bad, 1.0]]), 2)


class TestGradient:
    """Against central differences of the loss, written from its definition."""

    @staticmethod
    def loss(counts: Cooccurrence, words: Matrix64, contexts: Matrix64) -> float:
        x = counts.matrix.toarray()
        errors = words[:, :-1] @ contexts[:, :-1].T + words[:, -1:] + contexts[:, -1] - np.log(np.where(x > 0, x, 1))
        return float((np.minimum(1, x / 9) ** 0.75 * errors**2).sum() / 2)

    @staticmethod
    def added(counts: Cooccurrence, side: Matrix64, v_g: Matrix64, vectors: Matrix64, form: str, per: str) -> float:
        weight = (counts.matrix.toarray() > 0).sum(axis=1) if per == "entry" else np.ones(len(side))
        total = 0.0
        for row, s in enumerate(side):
            *body, gender, _ = vectors[row]
            if s == 0:
                total += 0.3 * weight[row] * float(np.dot(body, v_g)) ** 2
            else:
                total += 0.7 * weight[row] * (-s * gender if form == "l1" else (gender - s) ** 2)
        return total

    @pytest.mark.parametrize("per", ["entry", "word"])
    @pytest.mark.parametrize("form", ["l1", "l2"])
    def test_of_the_whole_loss(self, form: str, per: str) -> None:
        rng = np.random.default_rng(3)
        matrix = noise(6) * (np.abs(np.subtract.outer(range(6), range(6))) != 2)
        counts = counted(matrix)
        side = np.array([1, -1, 0, 0, 1, 0], dtype=np.float32)
        words, contexts = rng.normal(size=(2, 6, 5))
        v_g = rng.normal(size=3)
        entries = np.count_nonzero(matrix, axis=1)
        weight = (np.ones(6) if per == "entry" else 1 / entries).astype(np.float32)
        term = Coordinate(side, np.append(v_g, [0, 0]), weight, 0.7, 0.3, form)
        parts = blocks(counts, rng, size=7, x_max=9, alpha=0.75, dtype=np.float64)

        def whole(words: Matrix64, contexts: Matrix64) -> float:
            sides = [self.added(counts, side, v_g, vectors, form, per) for vectors in (words, contexts)]
            return self.loss(counts, words, contexts) + sum(sides)

        total, found = 0.0, [np.zeros_like(words), np.zeros_like(contexts)]
        for block in parts:
            loss, slope, context_slope = gradients(block, words[block.words], contexts[block.contexts], term)
            total += loss
            found[0][block.words] += slope
            found[1][block.contexts] += context_slope
        assert total == pytest.approx(whole(words, contexts), rel=1e-6)
        for which in (0, 1):
            for place in np.ndindex(words.shape):
                step = np.zeros_like(words)
                step[place] = 1e-5
                up, down = ([words, contexts][which] + sign * step for sign in (1, -1))
                ends = (
                    [whole(up, contexts), whole(down, contexts)]
                    if which == 0
                    else [whole(words, up), whole(words, down)]
                )
                assert found[which][place] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-4, abs=1e-4)


class TestSteps:
    ROWS = np.array([1])

    def side(self) -> GloveSide:
        return GloveSide(np.full((2, 3), 0.5, dtype=np.float32), np.ones((2, 3), dtype=np.float32))

    def test_plain(self) -> None:
        side = self.side()
        side.step(
            self.ROWS, np.array([[2.0, -4.0, 0.0]], dtype=np.float32), GloveSettings(2, rate=0.1, optimiser="sgd")
        )
        assert np.allclose(side.values, [[0.5, 0.5, 0.5], [0.3, 0.9, 0.5]])

    def test_adagrad_divides_by_the_root_of_the_sum_of_squared_steps(self) -> None:
        side, gradient = self.side(), np.array([[2.0, -4.0, 0.0]], dtype=np.float32)
        for _ in range(2):
            side.step(self.ROWS, gradient.copy(), GloveSettings(2, rate=0.5))
        first = 0.5 - 1 / np.sqrt(2) - 1 / np.sqrt(3)
        assert np.allclose(side.values[1], [first, 0.5 + 2 / np.sqrt(5) + 2 / np.sqrt(9), 0.5])
        assert np.allclose(side.values[0], 0.5)

    def test_the_clip_leaves_the_bias_free(self) -> None:
        side = self.side()
        side.step(
            self.ROWS, np.full((1, 3), -9.0, dtype=np.float32), GloveSettings(2, rate=1.0, optimiser="sgd", clip=1.0)
        )
        assert side.values[1].tolist() == [1, 1, 9.5]


class TestGlove:
    def test_the_loss_falls_and_the_counts_come_back(self) -> None:
        counts = counted(noise(12, seed=5))
        v = glove(counts, 12, epochs=300, rate=0.1, block=32)
        losses = v.history[0]["losses"]
        assert losses[-1] < 0.02 * losses[0]
        assert np.median(np.diff(losses[:50])) < 0

    @pytest.mark.parametrize("optimiser", ["adagrad", "sgd"])
    def test_words_with_the_same_contexts_are_similar(self, optimiser: Any) -> None:
        v = glove(planted(), 8, epochs=60, block=128, optimiser=optimiser)
        same = np.mean(v.unit[v.locate(LEANING["first"])[0]] @ v.unit[v.locate(FIRST)[0]].T)
        other = np.mean(v.unit[v.locate(LEANING["first"])[0]] @ v.unit[v.locate(SECOND)[0]].T)
        assert same > other + 0.5

    def test_blocks_of_any_size_end_at_about_the_same_loss(self) -> None:
        ends = [glove(planted(), 6, epochs=40, block=block).history[0]["losses"][-1] for block in (64, 128, 10_000)]
        assert max(ends) < 1.2 * min(ends)

    def test_a_seed_gives_the_same_bytes_and_another_seed_others(self) -> None:
        one, same, other = (glove(planted(), 5, epochs=3, seed=seed) for seed in (1, 1, 2))
        assert one.matrix.tobytes() == same.matrix.tobytes()
        assert one.matrix.tobytes() != other.matrix.tobytes()

    def test_the_history_records_the_training(self) -> None:
        v = glove(planted(), 5, epochs=3, x_max=50)
        assert (len(v), v.dim, v.words) == (len(WORDS), 5, tuple(WORDS))
        assert v.history[0]["method"] == "glove"
        assert v.history[0]["params"]["x_max"] == 50
        assert v.source["corpus"] == {"window": 2}

    def test_progress_is_reported(self) -> None:
        told: list[tuple[int, int, str]] = []
        glove(planted(), 3, epochs=2, progress=lambda *what: told.append(what))
        assert told == [(0, 2, "training"), (1, 2, "training")]

    def test_nothing_to_learn_from(self) -> None:
        with pytest.raises(DegenerateError, match=r"of 3 words are all zero[\s\S]*min_count"):
            glove(counted(np.zeros((3, 3))), 2)
        with pytest.raises(DegenerateError, match="of 0 words"):
            glove(counted(np.zeros((0, 0))), 2)

    def test_a_rate_far_too_large_is_named(self) -> None:
        with pytest.raises(DegenerateError, match=r"diverged in epoch[\s\S]*lower rate"):
            glove(planted(), 5, epochs=50, rate=50.0, optimiser="sgd")

    def test_a_rising_loss_of_clipped_vectors_warns(self) -> None:
        with pytest.warns(EvenhandWarning, match=r"the loss rose from .* not usable; lower rate or block"):
            brief(epochs=5, rate=1.0, variant="released").train(planted(), CONCEPT)

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ({"dim": 0}, "dim must be at least 1, got 0"),
            ({"epochs": 0}, "epochs must be at least 1"),
            ({"block": 0}, "block must be at least 1"),
            ({"rate": float("nan")}, "rate must be a number above 0, got nan"),
            ({"x_max": 0.0}, "x_max must be"),
            ({"optimiser": "adam"}, r"unknown optimiser 'adam'[\s\S]*adagrad or sgd"),
        ],
    )
    def test_wrong_numbers(self, wrong: dict[str, Any], message: str) -> None:
        with pytest.raises(UsageError, match=message):
            glove(planted(), **wrong)


class TestGenderCoordinate:
    @pytest.mark.parametrize("variant", ["paper", "released"])
    def test_listed_words_are_separated_and_the_others_orthogonal(self, variant: Any) -> None:
        v = brief(variant=variant).train(planted(), CONCEPT)
        assert (v.matrix[v.locate(SECOND)[0], -1] > 1.5).all()
        assert (v.matrix[v.locate(FIRST)[0], -1] < -1.5).all()
        plain = glove(planted(), 7, epochs=60, block=128).matrix
        leaning = LEANING["first"] + LEANING["second"]
        assert on_direction(plain.astype(np.float64), leaning) > 0.5
        assert on_direction(v.matrix[:, :-1].astype(np.float64), leaning) < 0.15

    def test_word_vectors_of_listed_words_begin_at_the_ends(self) -> None:
        v = brief(epochs=1, rate=1e-9, dim=50).train(planted(), CONCEPT)
        assert v.matrix[v.locate(SECOND)[0], -1] == pytest.approx(1, abs=0.02)
        assert v.matrix[v.locate(FIRST)[0], -1] == pytest.approx(-1, abs=0.02)
        assert np.abs(v.matrix[v.locate(OTHERS)[0]]).max() <= 0.02

    def test_the_squared_form_pulls_to_the_ends_and_no_further(self) -> None:
        v = brief(form="l2", clip=3.0, apart=20.0).train(planted(), CONCEPT)
        assert v.matrix[v.locate(SECOND)[0], -1] == pytest.approx(2, abs=0.2)
        assert v.matrix[v.locate(FIRST)[0], -1] == pytest.approx(-2, abs=0.2)

    def test_once_per_word_is_weaker(self) -> None:
        whole, once = (brief(per=per).train(planted(), CONCEPT) for per in ("entry", "word"))
        rows = whole.locate(SECOND)[0]
        assert once.matrix[rows, -1].mean() < whole.matrix[rows, -1].mean()

    def test_coordinates_stay_within_the_clip(self) -> None:
        v = brief(clip=0.25).train(planted(), CONCEPT)
        assert np.abs(v.matrix).max() == 0.5  # word + context

    def test_a_seed_gives_the_same_bytes(self) -> None:
        one, same, other = (brief(epochs=3, seed=seed).train(planted(), CONCEPT) for seed in (1, 1, 2))
        assert one.matrix.tobytes() == same.matrix.tobytes()
        assert one.matrix.tobytes() != other.matrix.tobytes()

    def test_the_loss_falls(self) -> None:
        losses = brief().train(planted(), CONCEPT).history[0]["losses"]
        assert losses[-1] < losses[10] < losses[0]

    def test_wa_drops_exactly_the_coordinate(self) -> None:
        method = brief(epochs=2)
        v = method.train(planted(), CONCEPT)
        wa = method.without_gender()(v)
        assert np.array_equal(wa.matrix, v.matrix[:, :-1])
        assert [step["method"] for step in wa.history] == ["gn-glove", "gn-glove-wa"]
        with pytest.raises(UsageError, match="dim"):
            method.without_gender()(glove(planted(), 5, epochs=1))

    def test_a_file_keeps_the_history(self, tmp_path: Path) -> None:
        v = brief(epochs=2).train(planted(), CONCEPT)
        back = Vectors.load(v.save(tmp_path / "gn.safetensors"))
        assert back.matrix.tobytes() == v.matrix.tobytes()
        assert back.history == tuple(json.loads(json.dumps(step)) for step in v.history)


class TestLists:
    def test_missing_words_are_counted_and_half_a_pair_still_has_its_side(self) -> None:
        more = [*PAIRS, ("aunt", "uncle"), ("w1", "lord")]
        account = brief(epochs=1, pairs=more).train(planted(), CONCEPT).history[0]
        assert account["words_missing"] == ["aunt", "uncle", "lord"]
        assert account["pairs_used"] == 4
        assert account["words_listed"] == {"female": 5, "male": 4}
        assert account["poles"] == {"female": -1, "male": 1}
        assert account["coverage"]["asked"] == 12

    def test_the_direction_is_a_mean_over_the_pairs_found_or_listed(self) -> None:
        asked = (*PAIRS, ("aunt", "uncle"), PAIRS[0])
        vectors = np.random.default_rng(0).normal(size=(len(WORDS), 3))
        apart = vectors[len(FIRST) : 2 * len(FIRST)] - vectors[: len(FIRST)]
        paper = listed(planted(), asked, poles=("a", "b"))
        assert np.allclose(paper.direction(vectors), apart.mean(axis=0))
        released = listed(planted(), asked, poles=("a", "b"), by_listed=True)
        assert np.allclose(released.direction(vectors), (apart.sum(axis=0) + apart[0]) / 6)

    def test_gender_has_the_published_lists(self) -> None:
        v = brief(epochs=1).train(planted(), "gender")
        words = {word for two in pairs("gn-glove-pairs") for word in two}
        assert v.history[0]["coverage"]["asked"] == len(words)
        assert v.history[0]["words_listed"] == {"female": 4, "male": 4}

    def test_one_list_without_a_word(self) -> None:
        counts = counted(noise(4), ["he", "man", "x", "y"])
        with pytest.raises(VocabularyError, match=r"none of the 4 'female' words of the pairs, such as 'she'"):
            brief().train(counts, CONCEPT)
        with pytest.raises(VocabularyError, match="none of the 4 'female' words"):
            brief().train(counted(np.zeros((0, 0))), CONCEPT)

    def test_no_complete_pair(self) -> None:
        with pytest.raises(VocabularyError, match="both words of no pair, such as she-he"):
            brief().train(counted(noise(3), ["she", "man", "x"]), CONCEPT)

    def test_a_word_on_both_sides(self) -> None:
        with pytest.raises(UsageError, match="'he' is on both sides"):
            brief(pairs=[("she", "he"), ("he", "man")]).train(planted(), CONCEPT)

    def test_counts_without_an_entry(self) -> None:
        with pytest.raises(DegenerateError, match="all zero"):
            brief().train(counted(np.zeros((2, 2)), ["she", "he"]), CONCEPT)

    def test_unsupported_concepts(self) -> None:
        with pytest.raises(UsageError, match=r"'religion' has 3 groups[\s\S]*leace"):
            brief().train(planted(), "religion")
        with pytest.raises(UsageError, match=r"'g' has none[\s\S]*pairs="):
            brief().train(planted(), Concept("g", {"a": ["she"], "b": ["he"]}))
        with pytest.raises(UsageError, match="pairs is empty"):
            brief(pairs=[])

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ({"dim": 1}, "dim must be at least 2"),
            ({"apart": -1}, "apart and neutral at least 0; got"),
            ({"variant": "best"}, r"unknown variant 'best'[\s\S]*paper or released"),
            ({"per": "line"}, r"unknown per 'line'[\s\S]*entry or word"),
            ({"form": "l3"}, "unknown form 'l3'"),
            ({"clip": 0}, "clip must be a number above 0"),
            ({"pairs": ["she"]}, "a pair is two words"),
        ],
    )
    def test_wrong_numbers(self, wrong: dict[str, Any], message: str) -> None:
        with pytest.raises(UsageError, match=message):
            brief(**wrong)


class TestInTheRegistry:
    def test_it_is_listed_and_says_that_it_trains(self) -> None:
        assert get("gn-glove") is GNGloVe
        line = next(line for line in eh.mitigations.listing() if line.id == "gn-glove")
        assert "from co-occurrence counts" in line.limits

    def test_fit_names_the_method_to_use(self) -> None:
        v = Vectors(["she", "he"], np.eye(2), name="two")
        with pytest.raises(
            UsageError, match=r"co-occurrence counts of a text only; two is word vectors[\s\S]*\.train\("
        ):
            GNGloVe().fit(v, "gender")

    def test_an_audit_of_many_methods_leaves_it_out_with_the_reason(self) -> None:
        v = Vectors(["she", "he", "a", "b"], np.random.default_rng(0).normal(size=(4, 3)), name="four")
        audit = eh.Audit.run(v, methods=["gn-glove"], measures=["direct-bias"], skip_failing=True)
        assert "co-occurrence counts" in dict(audit.manifest["skipped"])["gn-glove"]

    def test_the_command_line_gives_that_error_and_writes_nothing(self, tmp_path: Path) -> None:
        source, out = tmp_path / "two.txt", tmp_path / "out.txt"
        Vectors(["she", "he"], np.eye(2)).save(source)
        result = CliRunner().invoke(app, ["debias", str(source), "--method", "gn-glove", "-o", str(out)])
        assert result.exit_code == UsageError.exit_code
        assert "works on co-occurrence counts of a text" in result.stderr
        assert ".train(counts, concept)" in result.stderr
        assert not out.exists()
