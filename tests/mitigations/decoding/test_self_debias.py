"""Self-Debias: the formula by hand, the identity laws, and predictions against passes written out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import evenhand as eh
from evenhand.errors import EvenhandWarning, FormatError, UsageError
from evenhand.mitigations.decoding.self_debias import PROMPT, DecodingChange, SelfDebias, debiased_logits

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

TEXTS = ["the nurse is a woman", "he was here", "the doctor and the teacher were there", "she"]
PROMPTS = ("this is about the woman", "a man was there and the king")
CAUSAL = ["GPT2LMHeadModel", "LlamaForCausalLM"]
MASKED = ["BertForMaskedLM", "RobertaForMaskedLM", "DistilBertForMaskedLM"]


@pytest.fixture(params=[*CAUSAL, *MASKED])
def subject(request: pytest.FixtureRequest, tiny_folder: Callable[..., Path]) -> eh.subjects.Subject:
    return eh.open(f"hf:{tiny_folder(request.param)}")


@pytest.fixture(params=CAUSAL)
def causal(request: pytest.FixtureRequest, tiny_folder: Callable[..., Path]) -> eh.subjects.Subject:
    return eh.open(f"hf:{tiny_folder(request.param)}")


def test_three_tokens_by_hand() -> None:
    plain, first, second = np.array([0.5, 0.3, 0.2]), np.array([0.6, 0.3, 0.1]), np.array([0.2, 0.4, 0.4])
    factors = np.array([np.exp(-10 * 0.1), np.exp(-10 * 0.1), max(0.2, np.exp(-10 * 0.2))])
    expected = plain * factors / (plain * factors).sum()
    logits = [torch.tensor(np.log(p) + shift) for p, shift in ((plain, 0.0), (first, 2.0), (second, -1.0))]
    changed = debiased_logits(logits[0], logits[1:], decay=10, floor=0.2).softmax(dim=-1).numpy()
    assert changed == pytest.approx(expected, abs=1e-6)
    assert factors == pytest.approx([0.36788, 0.36788, 0.2], abs=1e-5)


def test_tokens_that_a_prompt_does_not_favour_keep_their_ratio() -> None:
    logits = torch.tensor([1.0, 2.0, 0.5, -1.0])
    biased = torch.tensor([0.0, 0.0, 9.0, 0.0])
    changed = debiased_logits(logits, [biased], decay=50, floor=0.01)
    assert torch.equal(changed[[0, 1, 3]], logits[[0, 1, 3]])
    assert changed[2] - logits[2] == pytest.approx(np.log(0.01), abs=1e-5)
    assert float(changed.softmax(dim=0).sum()) == pytest.approx(1)


@pytest.mark.parametrize("setting", [{"decay": 0.0}, {"floor": 1.0}])
def test_no_decay_or_full_floor_is_the_identity(subject: eh.subjects.Subject, setting: dict[str, float]) -> None:
    same = subject.changed(DecodingChange(PROMPTS, **setting))
    before, after = (s.view("likelihood").token_log_probabilities(TEXTS) for s in (subject, same))
    for one, other in zip(before, after, strict=True):
        # A changed model reads text by text, the original texts that share a beginning together: they differ by rounding.
        assert np.allclose(one.log_probabilities, other.log_probabilities, rtol=0, atol=1e-5)


def logits_by_hand(subject: eh.subjects.Subject, ids: list[int], prompt: str) -> object:
    """Return the logits at the positions of the text, with the prompt after the first token if that is special."""
    tokenizer, model = subject.network.transformer.tokenizer, subject.network.transformer.model
    special = ids[0] in (tokenizer.bos_token_id, tokenizer.cls_token_id, tokenizer.eos_token_id)
    prefix = tokenizer.encode(prompt, add_special_tokens=False) if prompt else []
    whole = [*ids[:special], *prefix, *ids[special:]]
    with torch.no_grad():
        return model(input_ids=torch.tensor([whole])).logits[0, len(prefix) :]


def test_predictions_are_those_of_passes_written_out(subject: eh.subjects.Subject) -> None:
    change = DecodingChange(PROMPTS, decay=40, floor=0.05)
    scores = subject.changed(change).view("likelihood").token_log_probabilities(TEXTS)
    tokenizer = subject.network.transformer.tokenizer
    masked = subject.view("likelihood").masked
    for text, score in zip(TEXTS, scores, strict=True):
        ids = list(tokenizer.encode(text)) if masked else [tokenizer.bos_token_id, *score.ids.tolist()]
        for position, token in enumerate(score.ids.tolist()):
            place = position + 1
            given = list(ids)
            if masked:
                given[place] = tokenizer.mask_token_id
            row = place if masked else place - 1
            plain, *biased = (logits_by_hand(subject, given, prompt)[row] for prompt in ("", *PROMPTS))
            changed = debiased_logits(plain, biased, decay=40, floor=0.05).log_softmax(dim=-1)
            assert score.log_probabilities[position] == pytest.approx(float(changed[token]), abs=2e-5)


def test_scores_do_not_depend_on_the_batch(subject: eh.subjects.Subject) -> None:
    view = subject.changed(DecodingChange(PROMPTS)).view("likelihood")
    together = view.token_log_probabilities(TEXTS)
    for text, score in zip(TEXTS, together, strict=True):
        (alone,) = view.token_log_probabilities([text])
        assert alone.log_probabilities == pytest.approx(score.log_probabilities, abs=2e-5)
    unchanged = subject.view("likelihood").token_log_probabilities(TEXTS)
    assert any(
        np.abs(a.log_probabilities - b.log_probabilities).max() > 1e-3 for a, b in zip(together, unchanged, strict=True)
    )


def test_vectors_and_sentences_do_not_change(subject: eh.subjects.Subject) -> None:
    change = SelfDebias(prompts=PROMPTS).fit(subject, "gender")
    assert change.report["unchanged_views"] == ["vectors", "sentences"]
    after = subject.changed(change)
    assert after.view("vectors").matrix.tobytes() == subject.view("vectors").matrix.tobytes()
    before, now = (s.view("sentences").encode(TEXTS) for s in (subject, after))
    assert np.array_equal(before, now)
    assert after.digest != subject.digest
    assert after.describe()["changes"][0]["method"] == "self-debias"


def test_generation_with_a_cache_is_generation_without(causal: eh.subjects.Subject) -> None:
    change = DecodingChange(PROMPTS, decay=80)
    changed = causal.changed(change)
    model = changed.network.transformer.model
    ids = torch.tensor(
        [
            [changed.network.transformer.tokenizer.bos_token_id, 7, 9],
            [changed.network.transformer.tokenizer.bos_token_id, 8, 5],
        ]
    )
    whole, past, current = ids, None, ids
    with torch.no_grad():
        for _ in range(5):
            cached = model(input_ids=current, past_key_values=past, use_cache=True, logits_to_keep=1)
            plain = model(input_ids=whole, use_cache=False).logits[:, -1]
            assert torch.allclose(cached.logits[:, -1], plain, atol=1e-5)
            past, current = cached.past_key_values, plain.argmax(dim=-1)[:, None]
            whole = torch.cat([whole, current], dim=1)
    texts = changed.model.model.generate(samples=3, tokens=8, seed=1)
    assert texts == changed.model.model.generate(samples=3, tokens=8, seed=1, batch=1)
    same = causal.changed(DecodingChange(PROMPTS, decay=0)).model.model.generate(samples=3, tokens=8, seed=1)
    assert same == causal.model.model.generate(samples=3, tokens=8, seed=1)


def test_left_padding_changes_nothing(causal: eh.subjects.Subject) -> None:
    transformer = causal.changed(DecodingChange(PROMPTS)).network.transformer
    model, start = transformer.model, transformer.tokenizer.bos_token_id
    padded = torch.tensor([[0, 0, start, 7, 9], [start, 8, 5, 6, 7]])
    mask = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])
    positions = (mask.cumsum(dim=1) - 1).clamp(min=0)
    with torch.no_grad():
        together = model(input_ids=padded, attention_mask=mask, position_ids=positions).logits[0, 2:]
        alone = model(input_ids=padded[:1, 2:]).logits[0]
        assert torch.allclose(together, alone, atol=1e-5)
        options = {"max_new_tokens": 4, "do_sample": False, "pad_token_id": 0}
        both = model.generate(input_ids=padded, attention_mask=mask, **options)[0, 2:]
        single = model.generate(input_ids=padded[:1, 2:], attention_mask=mask[:1, 2:], **options)[0]
    assert both.tolist() == single.tolist()


def test_the_prompt_shortens_the_window(causal: eh.subjects.Subject) -> None:
    changed = causal.changed(DecodingChange(PROMPTS))
    tokenizer = causal.network.transformer.tokenizer
    longest = max(len(tokenizer.encode(prompt, add_special_tokens=False)) for prompt in PROMPTS)
    assert changed.network.transformer.window == causal.network.transformer.window - longest
    long_text = " ".join(["the man is here"] * causal.network.transformer.window)
    with pytest.warns(EvenhandWarning, match="tokens that the model reads at once"):
        assert np.isfinite(changed.view("likelihood").log_probabilities([long_text]).log_probabilities).all()
    with pytest.raises(UsageError, match="leaves no room"):
        _ = causal.changed(DecodingChange(("word " * 2 * causal.network.transformer.window,))).network.transformer


def test_the_method(tmp_path: Path) -> None:
    change = SelfDebias().fit(None, "religion")
    assert change.prompts == (PROMPT.format(concept="religion"),)
    own = SelfDebias.with_params({"prompts": "one prompt,another prompt", "decay": "10"}).fit(None, "gender")
    assert own.prompts == ("one prompt", "another prompt")
    back = DecodingChange.load(own.save(tmp_path / "change.json"))
    assert back == own
    assert back.report == own.report
    assert len({change, own, back}) == 2
    (tmp_path / "change.json").write_text("{}", encoding="utf-8")
    with pytest.raises(FormatError, match="not a change of decoding"):
        DecodingChange.load(tmp_path / "change.json")
    with pytest.raises(UsageError, match="decay must be"):
        SelfDebias(floor=0).fit(None, "gender")
    with pytest.raises(UsageError, match="is word vectors"):
        SelfDebias().fit(eh.open("glove-embedded"), "gender")
    with pytest.raises(UsageError, match="is word vectors"):
        SelfDebias().fit(eh.Vectors.default(), "gender")


def test_the_audit_measures_it(tiny_folder: Callable[..., Path]) -> None:
    folder = tiny_folder("GPT2LMHeadModel", n_positions=256)
    audit = eh.Audit.run(f"hf:{folder}", methods=["self-debias"], measures=["perplexity"])
    before, after = (audit.get("perplexity", stage=stage).value for stage in ("original", "self-debias"))
    assert before != after
