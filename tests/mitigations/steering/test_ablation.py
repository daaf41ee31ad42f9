"""Directional ablation: what is left in the stream, weights against hooks, models that normalise afterwards."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import evenhand as eh  # noqa: E402
from evenhand.errors import DegenerateError, UsageError  # noqa: E402
from evenhand.mitigations.steering.steering import DirectionalAblation  # noqa: E402
from evenhand.models.encoders.activations import read_tokens  # noqa: E402

Folder = Callable[..., Path]
TEXTS = ["the nurse is a woman", "he was here and she was there"]


def component(subject: eh.subjects.Subject, unit: np.ndarray, site: str) -> float:
    found: list[float] = []

    def keep(rows: np.ndarray, vectors: np.ndarray) -> None:
        found.append(float((np.abs(vectors @ unit) / np.linalg.norm(vectors, axis=1)).max()))

    read_tokens(subject.network.transformer, site, TEXTS, keep)
    return max(found)


def logs(subject: eh.subjects.Subject) -> np.ndarray:
    return np.concatenate([one.log_probabilities for one in subject.view("likelihood").token_log_probabilities(TEXTS)])


@pytest.mark.parametrize("name", ["GPT2LMHeadModel", "LlamaForCausalLM", "GemmaForCausalLM"])
def test_no_layer_has_the_direction_and_the_saved_weights_do_the_same(
    name: str, tiny_folder: Folder, tmp_path: Path
) -> None:
    subject = eh.open(f"hf:{tiny_folder(name)}")
    change = DirectionalAblation(site="layer:2").fit(subject, "gender")
    assert change.report["everywhere"]
    assert change.report["learned_at"] == "layer:2"
    unit = change.steps[0][1].basis[0]
    changed = change(subject)
    for site in ("layer:1", "layer:2"):
        assert component(subject, unit, site) > 0.01
        assert component(changed, unit, site) < 1e-5
    written = changed.save(tmp_path / "out").to_dict()
    assert not written["hooked"]
    again = eh.open(f"hf:{tmp_path / 'out'}")
    assert logs(again) == pytest.approx(logs(changed), abs=1e-4)
    assert np.abs(logs(changed) - logs(subject)).max() > 1e-3


def test_twice_is_once(tiny_folder: Folder) -> None:
    subject = eh.open(f"hf:{tiny_folder('GPT2LMHeadModel')}")
    change = DirectionalAblation().fit(subject, "gender")
    assert logs(change(change(subject))) == pytest.approx(logs(change(subject)), abs=1e-5)


@pytest.mark.parametrize("name", ["BertForMaskedLM", "ModernBertForMaskedLM"])
def test_models_that_normalise_afterwards_are_changed_by_hooks(name: str, tiny_folder: Folder, tmp_path: Path) -> None:
    subject = eh.open(f"hf:{tiny_folder(name)}")
    change = DirectionalAblation().fit(subject, "gender")
    assert not change.report["everywhere"]
    assert change.sites == ("embeddings", "layer:1", "layer:2", "layer:3")
    changed = change(subject)
    unit = change.steps[0][1].basis[0]
    assert max(component(changed, unit, f"layer:{number}") for number in (1, 2, 3)) < 1e-5
    with pytest.raises(UsageError, match="cannot be folded"):
        changed.save(tmp_path / "out")
    changed.save(tmp_path / "out", hook=True)
    assert logs(eh.open(f"hf:{tmp_path / 'out'}")) == pytest.approx(logs(changed), abs=1e-4)


def test_the_control_removes_another_direction(tiny_folder: Folder) -> None:
    subject = eh.open(f"hf:{tiny_folder('GPT2LMHeadModel')}")
    concept, control = (DirectionalAblation(direction=kind).fit(subject, "gender") for kind in ("concept", "random"))
    cosine = float(concept.steps[0][1].basis[0] @ control.steps[0][1].basis[0])
    assert abs(cosine) < 0.9
    assert control.report["everywhere"]


def test_what_it_refuses(tiny_folder: Folder) -> None:
    with pytest.raises(UsageError, match="language models"):
        DirectionalAblation().fit(eh.open("glove-embedded"), "gender")
    with pytest.raises(DegenerateError, match="no direction is common"):
        DirectionalAblation().fit(eh.open(f"hf:{tiny_folder('AlbertForMaskedLM')}"), "gender")
