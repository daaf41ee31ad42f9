"""Steering: the direction by hand, what the map does to activations, folded and hooked models, the control."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import evenhand as eh  # noqa: E402
from evenhand.errors import DegenerateError, EvenhandError, FormatError, UsageError  # noqa: E402
from evenhand.mitigations.maps.site_change import SiteChange  # noqa: E402
from evenhand.mitigations.site_examples import swapped_sentences  # noqa: E402
from evenhand.mitigations.steering.steering import Steering, contrast_of, random_direction, shift  # noqa: E402
from evenhand.models.encoders.activations import sentences_at  # noqa: E402
from evenhand.models.encoders.folding import is_shift  # noqa: E402
from evenhand.models.encoders.transformer import Transformer  # noqa: E402

Folder = Callable[..., Path]
TEXTS = ["the nurse is a woman", "he was here and she was there"]
MODELS = ["GPT2LMHeadModel", "LlamaForCausalLM", "BertForMaskedLM", "DistilBertForMaskedLM"]


@pytest.fixture(params=MODELS)
def subject(request: pytest.FixtureRequest, tiny_folder: Folder) -> eh.subjects.Subject:
    return eh.open(f"hf:{tiny_folder(request.param)}")


def logs(subject: eh.subjects.Subject) -> np.ndarray:
    return np.concatenate([one.log_probabilities for one in subject.view("likelihood").token_log_probabilities(TEXTS)])


def bias(change: SiteChange) -> np.ndarray:
    return np.asarray(change.steps[0][1].to_matrix()[1])


def test_the_direction_is_the_difference_of_two_means(tiny_folder: Folder) -> None:
    subject = eh.open(f"hf:{tiny_folder('GPT2LMHeadModel')}")
    change = Steering(strength=2.0, site="layer:2").fit(subject, "gender")
    pairs, _ = swapped_sentences(eh.concept("gender"), None, most=2_000, seed=0)
    model = subject.network.transformer
    means = []
    for side in (0, 1):
        rows = []
        for pair in pairs:
            ids = torch.tensor([model.tokenizer(pair[side])["input_ids"]])
            with torch.no_grad():
                rows.append(model.model(ids, output_hidden_states=True).hidden_states[2][0].mean(dim=0).numpy())
        means.append(np.mean(rows, axis=0))
    assert bias(change) == pytest.approx(2 * (means[0] - means[1]), abs=1e-5)
    assert change.report["direction"]["length"] == pytest.approx(np.linalg.norm(means[0] - means[1]), rel=1e-4)


def test_activations_move_by_the_vector_and_strength_0_changes_nothing(subject: eh.subjects.Subject) -> None:
    change = Steering(strength=1.5, site="layer:2").fit(subject, "gender")
    before, after = (sentences_at(one.network.transformer, "layer:2", TEXTS) for one in (subject, change(subject)))
    assert after - before == pytest.approx(np.tile(bias(change), (2, 1)), abs=1e-5)
    same = Steering(strength=0.0, site="layer:2").fit(subject, "gender")(subject)
    assert logs(same).tobytes() == logs(subject).tobytes()


def test_there_and_back_is_the_identity(subject: eh.subjects.Subject) -> None:
    there, back = (Steering(strength=strength, site="layer:1").fit(subject, "gender") for strength in (3.0, -3.0))
    assert bias(there) == pytest.approx(-bias(back), abs=1e-12)
    assert np.abs(logs(there(subject)) - logs(subject)).max() > 1e-3
    assert logs(back(there(subject))) == pytest.approx(logs(subject), abs=1e-4)


@pytest.mark.parametrize(
    ("name", "site", "into"),
    [
        ("GPT2LMHeadModel", "layer:2", "transformer.h.1.mlp.c_proj"),
        ("GPT2LMHeadModel", "layer:3", "transformer.ln_f"),
        ("BertForMaskedLM", "layer:2", "bert.encoder.layer.1.output.LayerNorm"),
        ("DistilBertForMaskedLM", "layer:1", "distilbert.transformer.layer.0.output_layer_norm"),
        ("GPT2LMHeadModel", "mlp-out:2", "transformer.h.1.mlp.c_proj"),
    ],
)
def test_a_constant_is_folded_into_a_bias(name: str, site: str, into: str, tiny_folder: Folder, tmp_path: Path) -> None:
    subject = eh.open(f"hf:{tiny_folder(name)}")
    changed = Steering(strength=2.0, site=site).fit(subject, "gender")(subject)
    written = changed.save(tmp_path / "out")
    assert written.to_dict()["folded"] == {site: [into]}
    again = eh.open(f"hf:{tmp_path / 'out'}")
    assert logs(again) == pytest.approx(logs(changed), abs=1e-4)
    assert np.abs(logs(again) - logs(subject)).max() > 1e-3


def test_without_a_bias_it_is_kept_beside_the_weights(tiny_folder: Folder, tmp_path: Path) -> None:
    subject = eh.open(f"hf:{tiny_folder('LlamaForCausalLM')}")
    changed = Steering(strength=2.0, site="layer:2").fit(subject, "gender")(subject)
    with pytest.raises(UsageError, match="cannot be folded"):
        changed.save(tmp_path / "out")
    assert changed.save(tmp_path / "out", hook=True).to_dict()["hooked"] == ["layer:2"]
    assert logs(eh.open(f"hf:{tmp_path / 'out'}")) == pytest.approx(logs(changed), abs=1e-5)


def test_the_control_is_random_and_of_the_same_length(tiny_folder: Folder) -> None:
    subject = eh.open(f"hf:{tiny_folder('GPT2LMHeadModel')}")
    learned, one, other = (
        Steering(site="layer:2", direction=direction, seed=seed).fit(subject, "gender")
        for direction, seed in (("concept", 0), ("random", 0), ("random", 1))
    )
    lengths = [np.linalg.norm(bias(change)) for change in (learned, one, other)]
    assert lengths == pytest.approx([lengths[0]] * 3)
    assert len({change.digest for change in (learned, one, other)}) == 3
    assert np.linalg.norm(random_direction(64, 2.5, 3)) == pytest.approx(2.5)


def test_prompts_of_a_file(tiny_folder: Folder, tmp_path: Path) -> None:
    subject = eh.open(f"hf:{tiny_folder('GPT2LMHeadModel')}")
    file = tmp_path / "prompts.tsv"
    file.write_text("all are good\tthe woman is bad\nlove and peace\thate and war\n", encoding="utf-8")
    change = Steering(prompts=str(file), site="layer:2", pooling="last").fit(subject, "gender")
    rows = sentences_at(
        subject.network.transformer, "layer:2", ["all are good", "love and peace", "the woman is bad", "hate and war"],
        pooling="last",
    )  # fmt: skip
    assert bias(change) == pytest.approx(rows[:2].mean(axis=0) - rows[2:].mean(axis=0), abs=1e-5)
    assert change.report["examples"] == {"sentence_pairs": 2, "source": "prompts.tsv"}
    one = contrast_of(eh.concept("gender"), str(file), most=1, seed=0)
    assert len(one.pairs) == 1
    for text, message in (("one text\n", "line 1 has no two texts"), ("\n\n", "is empty")):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(FormatError, match=message):
            Steering(prompts=str(file)).fit(subject, "gender")
    file.write_text("the same\tthe same\n", encoding="utf-8")
    with pytest.raises(DegenerateError, match="no direction"):
        Steering(prompts=str(file)).fit(subject, "gender")


def test_what_it_refuses(tiny_folder: Folder) -> None:
    with pytest.raises(UsageError, match="works on masked and causal language models"):
        Steering().fit(eh.open("glove-embedded"), "gender")
    subject = eh.open(f"hf:{tiny_folder('GPT2LMHeadModel')}")
    with pytest.raises(UsageError, match="needs pairs"):
        Steering().fit(subject, eh.Concept("size", groups={"large": ["king"], "small": ["boy"]}))
    with pytest.raises(UsageError, match="strength must be a number"):
        Steering(strength=float("nan")).fit(subject, "gender")
    with pytest.raises(UsageError, match="most must be"):
        Steering(most=0).fit(subject, "gender")
    with pytest.raises(EvenhandError, match="there is no layer:9"):
        Steering(site="layer:9").fit(subject, "gender")


def test_it_reaches_generation_and_is_saved_as_a_change(tiny_folder: Folder, tmp_path: Path) -> None:
    subject = eh.open(f"hf:{tiny_folder('GPT2LMHeadModel')}")
    change = Steering(strength=40.0, site="layer:2").fit(subject, "gender")
    asked = {"samples": 2, "tokens": 8, "seed": 0}
    before, after = (one.view("generation").continuations(["the nurse"], **asked) for one in (subject, change(subject)))
    assert before != after
    back = SiteChange.load(change.save(tmp_path / "steering.safetensors"))
    assert back == change
    assert logs(back(subject)).tobytes() == logs(change(subject)).tobytes()
    assert is_shift(shift(np.ones(3)))
    assert isinstance(subject.network.transformer, Transformer)


def test_tokens_with_massive_activations_do_not_count(tiny_folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a limit below the length of some tokens, the means are those of the others."""
    from evenhand.mitigations.steering import steering as directions
    from evenhand.models.encoders.sites import Site

    transformer = eh.open(f"hf:{tiny_folder('GPT2LMHeadModel')}").network.transformer
    pair = ("the nurse is a woman and she was here", "the nurse is a man and he was here")
    states = []
    for text in pair:
        ids = torch.tensor([transformer.tokenizer(text)["input_ids"]])
        with torch.no_grad():
            states.append(transformer.model(ids, output_hidden_states=True).hidden_states[2][0].double().numpy())
    lengths = np.concatenate([np.linalg.norm(rows, axis=1) for rows in states])
    limit = float(np.median(lengths))
    means = [rows[np.linalg.norm(rows, axis=1) <= limit].mean(axis=0) for rows in states]
    monkeypatch.setattr(directions, "massive_activations", lambda *_: (limit, {}))
    learned = directions.learn_direction(
        transformer, Site("layer", 2), directions.TextContrast([pair], "here"), pooling="mean"
    )
    assert learned.vector == pytest.approx(means[0] - means[1], abs=1e-4)
    monkeypatch.setattr(directions, "massive_activations", lambda *_: (1e-9, {}))
    with pytest.raises(DegenerateError, match="every token"):
        directions.learn_direction(
            transformer, Site("layer", 2), directions.TextContrast([pair], "here"), pooling="mean"
        )
