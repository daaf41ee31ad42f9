"""Masked language models: against one masked call at a time, whatever the batch, the padding and the order."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import evenhand as eh  # noqa: E402
from evenhand.errors import DegenerateError, EvenhandWarning, FormatError, UsageError  # noqa: E402
from evenhand.models.encoders.transformer import Transformer  # noqa: E402
from evenhand.models.lm.likelihood import (  # noqa: E402
    MaskedLikelihood,
    conditional_log_probabilities,
    filler_tokens,
)
from evenhand.models.lm.masked import MaskedLM  # noqa: E402

TEXTS = [
    "She is a nurse.",
    "he",
    "the doctor said that the engineer was very good",
    "zzz, naïve qqq",
    "She is a nurse.",
]
IDS = {"pad_token_id": 0, "bos_token_id": 2, "cls_token_id": 2, "eos_token_id": 3, "sep_token_id": 3}
ARCHITECTURES: dict[str, dict[str, object]] = {
    "BertForMaskedLM": {},
    "RobertaForMaskedLM": {},
    "DistilBertForMaskedLM": {},
    "AlbertForMaskedLM": {},
    "ElectraForMaskedLM": {},
    "MPNetForMaskedLM": {},
    "DebertaV2ForMaskedLM": {},
    "ModernBertForMaskedLM": IDS,
}


@pytest.fixture(scope="module")
def model(tiny_folder: Callable[..., Path]) -> MaskedLM:
    return MaskedLM(Transformer.load(tiny_folder("BertForMaskedLM"), device="cpu"))


def naive(model: MaskedLM, text: str) -> np.ndarray:
    """Return the log-probability of each token from one call for each mask, with all logits."""
    tokenizer, network = model.transformer.tokenizer, model.transformer.model
    ids = tokenizer(text, return_tensors="pt")["input_ids"]
    logs = []
    for position in range(1, ids.shape[1] - 1):
        masked = ids.clone()
        masked[0, position] = tokenizer.mask_token_id
        with torch.no_grad():
            logits = network(masked).logits[0, position]
        logs.append(logits.log_softmax(-1)[ids[0, position]].item())
    return np.array(logs)


def test_a_masked_folder_offers_its_likelihood(tiny_folder: Callable[..., Path]) -> None:
    view = eh.open(f"hf:{tiny_folder('BertForMaskedLM')}").view("likelihood")
    assert isinstance(view, MaskedLikelihood)
    assert view.masked
    assert "likelihood" not in eh.open(f"hf:{tiny_folder('BertModel')}").offers


def test_the_pseudo_log_likelihood_is_the_sum_of_single_masks(model: MaskedLM) -> None:
    scores = model.token_log_probabilities(TEXTS)
    for text, score in zip(TEXTS, scores, strict=True):
        np.testing.assert_allclose(score.log_probabilities, naive(model, text), atol=1e-5)
    totals = model.log_probabilities([*TEXTS, ""])
    np.testing.assert_allclose(totals.log_probabilities[:5], [naive(model, text).sum() for text in TEXTS], atol=1e-4)
    assert totals.tokens.tolist() == [len(score.ids) for score in scores] + [0]
    assert totals.log_probabilities[5] == 0


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")  # DeBERTa, when it is imported
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_architecture_gives_the_logits_of_its_own_head(name: str, tiny_folder: Callable[..., Path]) -> None:
    model = MaskedLM(Transformer.load(tiny_folder(name, **ARCHITECTURES[name]), device="cpu"))
    for text, score in zip(TEXTS, model.token_log_probabilities(TEXTS), strict=True):
        np.testing.assert_allclose(score.log_probabilities, naive(model, text), atol=2e-5)


@pytest.mark.parametrize("tokens", [1, 30, 10_000])
def test_batch_and_order_change_nothing(model: MaskedLM, tokens: int) -> None:
    expected = model.token_log_probabilities(TEXTS)
    for texts, back in ((TEXTS, 1), (TEXTS[::-1], -1)):
        scores = model.token_log_probabilities(texts, tokens=tokens)[::back]
        for one, other in zip(scores, expected, strict=True):
            np.testing.assert_allclose(one.log_probabilities, other.log_probabilities, atol=1e-5)
        unmasked = model.unmasked_log_probabilities(texts, attention=True, tokens=tokens)[::back]
        for one, other in zip(unmasked, model.unmasked_log_probabilities(TEXTS, attention=True), strict=True):
            np.testing.assert_allclose(one.log_probabilities, other.log_probabilities, atol=1e-5)


def test_padding_side_changes_nothing(model: MaskedLM) -> None:
    before = model.log_probabilities(TEXTS).log_probabilities
    tokenizer = model.transformer.tokenizer
    side, tokenizer.padding_side = tokenizer.padding_side, "left"
    try:
        np.testing.assert_array_equal(model.log_probabilities(TEXTS).log_probabilities, before)
    finally:
        tokenizer.padding_side = side


def test_equal_masked_inputs_are_computed_once(model: MaskedLM, monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[int] = []
    forward = MaskedLM._forward

    def counted(self: MaskedLM, inputs: list[np.ndarray], *arguments: object) -> object:
        rows.append(len(inputs))
        return forward(self, inputs, *arguments)

    monkeypatch.setattr(MaskedLM, "_forward", counted)
    model.token_log_probabilities(["he is a nurse", "she is a nurse"], [[0], [0]])
    assert sum(rows) == 1
    rows.clear()
    model.filler_log_probabilities(["{} is a nurse"], ["he", "she", "they"])
    assert sum(rows) == 1


def test_tokens_know_their_characters(model: MaskedLM) -> None:
    text = "  She likes nurses"
    (tokens,) = model.token_ids([text])
    assert [text[start:stop] for start, stop in tokens.spans] == ["She", "likes", "nurse", "s"]
    assert np.isnan(tokens.log_probabilities).all()
    assert tokens.covering(12, 18) == [2, 3]


def test_positions_choose_the_tokens(model: MaskedLM) -> None:
    (chosen,) = model.token_log_probabilities(["she is a nurse"], [[1, 3]])
    (whole,) = model.token_log_probabilities(["she is a nurse"])
    assert np.isnan(chosen.log_probabilities).tolist() == [True, False, True, False]
    np.testing.assert_allclose(chosen.log_probabilities[[1, 3]], whole.log_probabilities[[1, 3]], atol=1e-6)
    with pytest.raises(UsageError, match="text 0 has 4 tokens, and no token 7"):
        model.token_log_probabilities(["she is a nurse"], [[7]])
    with pytest.raises(UsageError, match="positions for 2 texts, but 1"):
        model.token_log_probabilities(["she is a nurse"], [[0], [1]])


def test_fillers_of_several_tokens_are_predicted_from_left_to_right(model: MaskedLM) -> None:
    tokenizer, network = model.transformer.tokenizer, model.transformer.model
    (row,) = model.filler_log_probabilities(["the {} saw her"], ["nurses", "man"])
    ids = tokenizer("the nurses saw her", return_tensors="pt")["input_ids"]
    expected = 0.0
    for shown, hidden in ((2, [2, 3]), (3, [3])):
        masked = ids.clone()
        masked[0, hidden] = tokenizer.mask_token_id
        with torch.no_grad():
            expected += network(masked).logits[0, shown].log_softmax(-1)[ids[0, shown]].item()
    assert row[0] == pytest.approx(expected, abs=1e-5)
    assert filler_tokens(model, ["the {} saw her", "{}!"], ["nurses", "man"]).tolist() == [[2, 1], [2, 1]]
    # With a mask in the context, the filler is predicted from the other words only.
    (masked_too,) = model.filler_log_probabilities([f"the {{}} saw {model.mask_token}"], ["man"])
    assert masked_too[0] != pytest.approx(row[1], abs=1e-4)


@pytest.mark.parametrize("context", ["she is a {}", "she is {} here she is"])
def test_fillers_sum_to_one_over_the_vocabulary(model: MaskedLM, context: str) -> None:
    words = [word for word in model.transformer.tokenizer.get_vocab() if word.isalpha()]
    logs = model.filler_log_probabilities([context], words)[0]
    fillers = model.top_fillers([context], 5)[0]
    assert np.exp(logs).sum() < 1
    assert [word for word in fillers if word.isalpha()] == [
        words[row] for row in np.argsort(-logs) if words[row] in fillers
    ]
    assert len(fillers) == 5
    assert not any(word.startswith(("#", "[")) and len(word) > 1 for word in fillers)


def test_nothing_masked_by_hand(model: MaskedLM) -> None:
    tokenizer = model.transformer.tokenizer
    ids = tokenizer(TEXTS[2], return_tensors="pt")["input_ids"]
    network = pytest.importorskip("transformers").BertForMaskedLM(model.transformer.model.config).eval()
    network.load_state_dict(model.transformer.model.state_dict())
    network.set_attn_implementation("eager")
    with torch.no_grad():
        output = network(ids, output_attentions=True)
    logs = output.logits[0].log_softmax(-1)[torch.arange(ids.shape[1]), ids[0]][1:-1]
    received = torch.stack(output.attentions)[:, 0].mean(dim=(0, 1, 2))[1:-1]
    aul = model.unmasked_log_probabilities(TEXTS)[2].log_probabilities
    aula = model.unmasked_log_probabilities(TEXTS, attention=True)[2].log_probabilities
    np.testing.assert_allclose(aul, logs.numpy(), atol=1e-5)
    np.testing.assert_allclose(aula, (logs * received).numpy(), atol=1e-5)


def test_attention_leaves_no_trace(model: MaskedLM) -> None:
    ids = model.transformer.tokenizer(TEXTS, padding=True, return_tensors="pt")
    with torch.no_grad():
        before = model.transformer.model(**ids).logits
        model.unmasked_log_probabilities(TEXTS, attention=True)
        model.log_probabilities(TEXTS)
        assert torch.equal(model.transformer.model(**ids).logits, before)
    assert not model.transformer.model.base_model._forward_hooks


def test_a_text_that_is_too_long_is_read_in_windows_or_refused(model: MaskedLM) -> None:
    long = " ".join(["she saw the nurse and"] * 30)
    with pytest.warns(EvenhandWarning, match="1 of 2 texts have more than the 62 tokens .* around it as fit"):
        scores, _ = model.token_log_probabilities([long, "she"])
    assert len(scores.ids) == 150
    # The last token is predicted from the last 62 tokens, which fit between the two special tokens.
    (tail,) = model.token_log_probabilities([" ".join(long.split()[-62:])])
    assert scores.log_probabilities[-1] == pytest.approx(tail.log_probabilities[-1], abs=1e-5)
    assert np.isfinite(scores.log_probabilities).all()
    with pytest.raises(UsageError, match="text 1 has 152 tokens, and the model reads 64"):
        model.unmasked_log_probabilities(["she", long])


def test_a_text_after_its_context(model: MaskedLM) -> None:
    scores = conditional_log_probabilities(model, ["she is here."], ["he saw her"])
    (whole,) = model.token_log_probabilities(["she is here. he saw her"])
    assert scores.tokens.tolist() == [3]
    assert scores.log_probabilities[0] == pytest.approx(whole.log_probabilities[-3:].sum(), abs=1e-5)


def test_bad_input_is_named(model: MaskedLM, tiny_folder: Callable[..., Path]) -> None:
    for call in (model.token_ids, model.log_probabilities, model.unmasked_log_probabilities):
        with pytest.raises(UsageError, match="single text"):
            call("she")
        assert len(call([])) == 0
    with pytest.raises(UsageError, match="has 2 blanks"):
        model.filler_log_probabilities(["{} {}"], ["he"])
    with pytest.raises(UsageError, match="filler ' ' is empty"):
        model.filler_log_probabilities(["{} is"], [" "])
    with pytest.raises(UsageError, match="k must be at least 1"):
        model.top_fillers(["{} is"], 0)
    transformer = Transformer.load(tiny_folder("BertForMaskedLM", seed=5), device="cpu")
    transformer.tokenizer.mask_token = None
    with pytest.raises(FormatError, match="has no mask token"):
        MaskedLM(transformer)


def test_logits_that_are_not_numbers_are_an_error(tiny_folder: Callable[..., Path]) -> None:
    broken = MaskedLM(Transformer.load(tiny_folder("BertForMaskedLM", seed=6), device="cpu"))
    broken.transformer.model.cls.predictions.bias.data[9] = float("nan")
    for call in (broken.log_probabilities, broken.unmasked_log_probabilities):
        with pytest.raises(DegenerateError, match="NaN or infinite"):
            call(["she is"])
    with pytest.raises(DegenerateError, match="NaN or infinite"):
        broken.top_fillers(["{} is"], 3)
