from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evenhand as eh
from evenhand.errors import MissingExtraError, UsageError, VocabularyError
from evenhand.mitigations import GP, VectorMap
from evenhand.models.vectors import Vectors
from evenhand.words import Concept

PAIRS = [("she", "he"), ("woman", "man"), ("queen", "king")]
CONCEPT = Concept("sides", {"female": ["she", "woman", "queen"], "male": ["he", "man", "king"]}, PAIRS)
STEREOTYPES, NEUTRAL = ["nurse", "boss"], ["tree", "stone", "river"]
OTHERS = [f"x{a}{b}" for a in "abcdefghij" for b in "abcdefghij"]
WORDS = [word for two in PAIRS for word in two] + STEREOTYPES + NEUTRAL + OTHERS
QUICK: dict[str, Any] = {"epochs": 3, "head_epochs": 2, "joint_epochs": 2, "batch": 16}


def toy(dim: int = 6) -> Vectors:
    rng = np.random.default_rng(0)
    return Vectors(WORDS, 0.4 * rng.normal(size=(len(WORDS), dim)), name="toy")


def given(**more: Any) -> GP:
    return GP(**{**QUICK, "stereotypes": STEREOTYPES, "neutral": NEUTRAL, **more})


def test_without_torch_the_error_names_the_pip_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"evenhand\[models\]"):
        given().fit(toy(), CONCEPT)


def test_more_than_two_groups_or_no_pairs_cannot_be_done() -> None:
    with pytest.raises(UsageError, match=r"'religion' has 3 groups[\s\S]*inlp, leace"):
        GP().fit(toy(), "religion")
    with pytest.raises(UsageError, match="GP needs pairs of counterparts"):
        GP().fit(toy(), Concept("g", {"a": ["she"], "b": ["he"]}))


def test_missing_words_and_wrong_numbers() -> None:
    with pytest.raises(VocabularyError, match="fewer than two words or pairs of: stereotype"):
        given(stereotypes=["gone"]).fit(toy(), CONCEPT)
    with pytest.raises(VocabularyError, match="of: first, second"):
        given(pairs=[("gal", "guy"), ("she", "he")]).fit(toy(), CONCEPT)
    with pytest.raises(UsageError, match="must be positive"):
        given(epochs=0).fit(toy(), CONCEPT)
    with pytest.raises(UsageError, match="a pair is two words"):
        GP(pairs=["she"])  # type: ignore[list-item]


class TestTraining:
    @pytest.fixture(autouse=True)
    def _torch(self) -> None:
        pytest.importorskip("torch", reason="torch is not installed (extra: models)")

    def test_fit_returns_an_encoder_with_a_report(self) -> None:
        v = toy()
        vm = given().fit(v, CONCEPT)
        after = vm(v)
        assert after.matrix.shape == v.matrix.shape
        assert np.allclose(after.matrix, np.tanh(v.matrix @ vm.weight + vm.bias), atol=1e-6)
        report = json.loads(json.dumps(vm.report))
        assert report["sizes"] == {"first": 3, "second": 3, "stereotype": 2, "neutral": 3}
        assert [len(losses) for losses in report["losses"].values()] == [3, 2, 2]
        assert report["words_changed"] == len(v)
        assert report["beyond_tanh"] == pytest.approx(np.mean(np.abs(v.matrix) > 1))

    def test_the_autoencoder_learns(self) -> None:
        losses = given(epochs=40, rate=0.01, dropout=0.0).fit(toy(), CONCEPT).report["losses"]["autoencoder"]
        assert losses[-1] < 0.3 * losses[0]

    def test_the_state_with_the_lowest_loss_is_restored(self) -> None:
        # with a step this large the loss goes up and down
        five = given(joint_epochs=5, joint_rate=20.0).fit(toy(), CONCEPT)
        best = int(np.argmin(five.report["losses"]["joint"])) + 1
        assert best < 5
        assert five == given(joint_epochs=best, joint_rate=20.0).fit(toy(), CONCEPT)

    def test_a_large_weight_takes_the_direction_of_the_pairs_from_the_others(self) -> None:
        v = toy()
        matrix = v.matrix.copy()
        matrix[:6, 0] += np.tile([1.5, -1.5], 3)
        matrix[6:8, 0] += 1.0
        v = Vectors(WORDS, matrix)

        def stray(weight: float) -> float:
            w = given(weight=weight, epochs=30, rate=0.01, joint_epochs=60, joint_rate=0.05).fit(v, CONCEPT)(v)
            along = np.mean([w[b] - w[a] for a, b in PAIRS], axis=0)
            return float(np.mean([(w[word] @ along) ** 2 for word in STEREOTYPES + NEUTRAL]))

        assert stray(1.0) < 0.5 * stray(0.0)

    def test_laws(self, tmp_path: Path) -> None:
        import torch

        v = toy()
        before, state, threads = v.matrix.copy(), torch.get_rng_state(), torch.get_num_threads()
        vm, again, other = (given(seed=seed).fit(v, CONCEPT) for seed in (0, 0, 1))
        assert vm.digest == again.digest != other.digest
        assert np.array_equal(v.matrix, before)
        assert torch.equal(torch.get_rng_state(), state)
        assert torch.get_num_threads() == threads
        assert VectorMap.load(vm.save(tmp_path / "m")) == vm
        assert np.array_equal(vm(v.matrix), vm(v).matrix)

    def test_gender_has_the_published_lists(self) -> None:
        v = eh.Vectors.default()
        vm = eh.mitigations.get("gp")(epochs=1, head_epochs=1, joint_epochs=1).fit(v, "gender")
        assert vm.report["sizes"]["neutral"] > 1000
        assert vm.report["sizes"]["first"] > 150
        assert vm.report["sizes"]["stereotype"] > 160

    def test_other_concepts_of_two_groups_choose_their_words(self) -> None:
        concept = Concept("g", {"a": ["she", "woman"], "b": ["he", "man"]}, PAIRS)
        sizes = GP(**QUICK).fit(toy(), concept).report["sizes"]
        assert sizes["first"] == 3
        assert sizes["stereotype"] > 10
        assert sizes["neutral"] >= 2

    def test_the_joint_loss_is_the_published_sum(self) -> None:
        import torch

        from evenhand.mitigations.training import gp

        net = gp.GPNetwork(4, 0)
        method = given(weight=0.7, joint_epochs=1, joint_rate=1e-30, joint_dropout=0.0)
        rows = torch.randn(4, 3, 4, generator=torch.Generator().manual_seed(1)) / 2
        found = gp._joint(net, tuple(rows), tuple(rows), method)[0]
        weight, bias = (tensor.detach().double().numpy() for tensor in net.encoder)
        back, back_bias = (tensor.detach().double().numpy() for tensor in net.decoder)
        heads, head_bias = (tensor.detach().double().numpy() for tensor in net.heads)
        x = rows.double().numpy()
        codes = np.tanh(x @ weight + bias)
        reconstruction = np.mean((np.tanh(codes @ back + back_bias) - x) ** 2)
        p = 1 / (1 + np.exp(-(codes @ heads + head_bias)))
        targets = np.array([gp.FIRST, gp.SECOND]).T[:, None]
        entropy = -(targets * np.log(p) + (1 - targets) * np.log(1 - p)).mean(axis=(1, 2)).sum() / 2
        along = (codes[1] - codes[0]).mean(axis=0)
        projection = sum(np.mean((code @ along) ** 2) for code in codes[2:])
        assert found == pytest.approx(reconstruction + 0.7 * (entropy + projection), rel=1e-5)


def test_one_list_may_be_given_and_the_other_chosen() -> None:
    pytest.importorskip("torch")
    concept = Concept("g", {"a": ["she", "woman"], "b": ["he", "man"]}, PAIRS)
    sizes = GP(**QUICK, stereotypes=STEREOTYPES).fit(toy(), concept).report["sizes"]
    assert sizes["stereotype"] == 2
    assert GP(**QUICK, neutral=NEUTRAL).fit(toy(), concept).report["sizes"]["neutral"] == 3
