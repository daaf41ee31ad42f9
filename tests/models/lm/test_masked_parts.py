"""The parts of masked models by their definitions: windows, spans, the next-sentence head; text put in before a prefix."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from evenhand.errors import DegenerateError, FormatError, UsageError  # noqa: E402
from evenhand.models.encoders.transformer import Transformer  # noqa: E402
from evenhand.models.lm.forward import PrefixPasses, _insert  # noqa: E402
from evenhand.models.lm.masked import MaskedInputs, MaskedLM, NextSentenceHead, eager_attention  # noqa: E402
from evenhand.models.tokenizing import EncodedText  # noqa: E402

Folder = Callable[..., Path]


@pytest.fixture(scope="module")
def model(tiny_folder: Folder) -> MaskedLM:
    return MaskedLM(Transformer.load(tiny_folder("BertForMaskedLM"), device="cpu"))


@pytest.fixture(scope="module")
def head(tiny_folder: Folder) -> NextSentenceHead:
    folder = tiny_folder("BertForPreTraining")
    found = NextSentenceHead.load(folder, Transformer.load(folder, device="cpu"))
    assert found is not None
    return found


@pytest.mark.parametrize(("window", "length"), [(7, 12), (8, 12), (7, 5), (7, 6), (3, 4), (2, 4)])
def test_a_token_stands_in_the_middle_of_what_is_read(window: int, length: int) -> None:
    text = EncodedText(np.array([1]), np.arange(10, 10 + length), np.array([2]), np.zeros((length, 2), dtype=np.int64))
    model: Any = SimpleNamespace(transformer=SimpleNamespace(window=window), _mask=99)
    room = max(1, window - 2)
    for position in range(length):
        asked, hidden = MaskedInputs(), [*range(0, length, 3), position]
        MaskedLM._ask(model, asked, text, position, hidden)
        low = max(0, min(position - room // 2, length - room))
        shown = [99 if place in hidden else 10 + place for place in range(low, min(length, low + room))]
        assert asked.inputs[0].tolist() == [1, *shown, 2]
        assert (asked.positions, asked.targets, asked.numbers) == ([1 + position - low], [10 + position], [0])
    assert text.ids.tolist() == list(range(10, 10 + length))  # the text itself is not masked


def masked_log(model: MaskedLM, ids: list[int], place: int, token: int) -> float:
    with torch.inference_mode():
        return float(model.transformer.model(torch.tensor([ids])).logits[0, place].log_softmax(-1)[token])


@pytest.mark.parametrize("later", ["masked", "absent"])
def test_the_tokens_of_a_span_by_hand(model: MaskedLM, later: Any) -> None:
    ids = model.transformer.tokenizer.encode("the nurses saw her")  # [CLS] the nurse ##s saw her [SEP]
    mask = model.transformer.tokenizer.mask_token_id
    first = [*ids[:2], mask, *([mask] if later == "masked" else []), *ids[4:]]
    second = [*ids[:3], mask, *ids[4:]]
    expected = [masked_log(model, first, 2, ids[2]), masked_log(model, second, 3, ids[3])]
    alone = [masked_log(model, [*ids[:4], mask, *ids[5:]], 4, ids[4])]
    found = model.span_log_probabilities(["the nurses saw her", "the nurses saw her"], [(4, 10), (11, 14)], later=later)
    assert [part.tolist() for part in found] == [pytest.approx(expected, abs=1e-5), pytest.approx(alone, abs=1e-5)]
    assert model.span_log_probabilities([], []) == []
    with pytest.raises(UsageError, match=r"no token covers the characters \(3, 4\) of 'the nurses'"):
        model.span_log_probabilities(["the nurses"], [(3, 4)])


def test_places_at_the_ends_of_a_text_are_asked_for(model: MaskedLM) -> None:
    (every,) = model.token_log_probabilities(["she is a nurse"])
    for place in (0, 3):
        (one,) = model.token_log_probabilities(["she is a nurse"], [[place]])
        assert one.log_probabilities[place] == pytest.approx(every.log_probabilities[place], abs=1e-6)
    for place in (-1, 4):
        with pytest.raises(UsageError, match=f"text 0 has 4 tokens, and no token {place}"):
            model.token_log_probabilities(["she is a nurse"], [[place]])


def test_fillers_in_the_order_of_their_logits(model: MaskedLM) -> None:
    tokenizer, context = model.transformer.tokenizer, "she is a {} here"
    ids = tokenizer.encode(context.replace("{}", "[MASK]"))
    with torch.inference_mode():
        logits = model.transformer.model(torch.tensor([ids])).logits[0, ids.index(tokenizer.mask_token_id)]
    spelt = [tokenizer.decode([token]).strip() for token in logits.argsort(descending=True, stable=True).tolist()]
    tokens = logits.argsort(descending=True, stable=True).tolist()
    expected = [
        word
        for token, word in zip(tokens, spelt, strict=True)
        if token not in tokenizer.all_special_ids
        and tokenizer.encode(f"she is a {word} here", add_special_tokens=False) ==
        [*tokenizer.encode("she is a", add_special_tokens=False), token, *tokenizer.encode("here", add_special_tokens=False)]
    ]  # fmt: skip
    for k in (1, 2, 7):
        assert model.top_fillers([context], k) == [expected[:k]]
    assert len(model.top_fillers([context], 10_000)[0]) == len(expected)  # as many as there are
    assert model.top_fillers([context, "{}"], 1, tokens=1)[0] == expected[:1]


@pytest.mark.parametrize("attentions", [None, (), (None,)])
def test_a_model_without_its_attention_is_named(model: MaskedLM, attentions: Any) -> None:
    with pytest.raises(FormatError, match="BertForMaskedLM does not return its attention"):
        model._attention(SimpleNamespace(attentions=attentions), [3])


def test_attention_that_tokens_receive_by_hand(model: MaskedLM) -> None:
    layers = tuple(torch.rand(2, 3, 4, 4, generator=torch.Generator().manual_seed(seed)) for seed in range(2))
    found = model._attention(SimpleNamespace(attentions=layers), [4, 2])
    for text, length in enumerate((4, 2)):
        expected = np.mean([layer[text, :, :length].numpy().mean(axis=(0, 1)) for layer in layers], axis=0)
        np.testing.assert_allclose(found[text].numpy(), expected, rtol=1e-5)


def test_the_way_attention_is_computed_is_restored() -> None:
    for before, set_again in (("sdpa", ["eager", "sdpa"]), ("eager", []), (None, [])):
        called: list[str] = []
        model: Any = SimpleNamespace(
            config=SimpleNamespace(_attn_implementation=before), set_attn_implementation=called.append
        )

        def fails(model: Any = model, called: list[str] = called, first: list[str] = set_again[:1]) -> None:
            with eager_attention(model):
                assert called == first
                raise KeyError

        with pytest.raises(KeyError):
            fails()
        assert called == set_again
    old: Any = SimpleNamespace(config=SimpleNamespace(_attn_implementation="sdpa"))
    with eager_attention(old):
        pass


# The next sentence --------------------------------------------------------------------------------------------------


def test_the_next_sentence_by_hand(head: NextSentenceHead, tiny_folder: Folder) -> None:
    folder = tiny_folder("BertForPreTraining")
    whole = transformers.BertForPreTraining.from_pretrained(folder).eval()
    contexts, sentences = ["she is here", "he", "the doctor said that"], ["he saw her", "she is a nurse", "no"]
    expected = []
    for pair in zip(contexts, sentences, strict=True):
        inputs = head.transformer.tokenizer(*pair, return_tensors="pt")
        with torch.inference_mode():
            expected.append(float(whole(**inputs).seq_relationship_logits.log_softmax(-1)[0, 0]))
    for tokens in (None, 1, 1000):
        np.testing.assert_allclose(head.log_probabilities(contexts, sentences, tokens=tokens), expected, atol=1e-5)


def test_pairs_beyond_the_window_have_no_next_sentence(head: NextSentenceHead) -> None:
    words = " ".join(["she"] * 60)  # with [CLS] and two [SEP], 64 tokens are 61 words
    found = head.log_probabilities([words, words, "he"], ["he", "he saw", "she"])
    assert np.isnan(found).tolist() == [False, True, False]
    alone = head.log_probabilities(["he"], ["she"])
    assert found[2] == pytest.approx(alone[0], abs=1e-6)


def test_a_folder_without_the_head_has_none(head: NextSentenceHead, tiny_folder: Folder) -> None:
    folder = tiny_folder("BertForMaskedLM")
    assert NextSentenceHead.load(folder, head.transformer) is None
    broken = {name: tensor * math.nan for name, tensor in head.weights.items()}
    with pytest.raises(DegenerateError, match="a log-probability is NaN or infinite"):
        NextSentenceHead(head.transformer, broken).log_probabilities(["he"], ["she"])


# Prefixes ------------------------------------------------------------------------------------------------------------


def test_values_are_put_in_at_a_column_of_each_row() -> None:
    rows = torch.tensor([[1, 2, 3], [4, 5, 6], [7, 8, 9]])
    found = _insert(rows, torch.tensor([0, -1]), torch.tensor([0, 1, 3]))
    assert found.tolist() == [[0, -1, 1, 2, 3], [4, 0, -1, 5, 6], [7, 8, 9, 0, -1]]


class Recorder(torch.nn.Module):  # type: ignore[misc]
    """Stands for a language model: keeps what it is called with, and gives the ids as states."""

    def __init__(self, kind: str = "mapping") -> None:
        super().__init__()
        self.calls: list[dict[str, Any]] = []
        self.base_model = self.Body(kind)

    class Body(torch.nn.Module):  # type: ignore[misc]
        def __init__(self, kind: str) -> None:
            super().__init__()
            self.kind = kind

        def forward(self, input_ids: Any) -> Any:
            states = torch.nn.functional.one_hot(input_ids, 10).float()
            return (states, "a", "b") if self.kind == "tuple" else {0: states, "last_hidden_state": states}

    def forward(self, input_ids: Any = None, **inputs: Any) -> Any:
        self.calls.append({"input_ids": input_ids, **inputs})
        body = self.base_model(input_ids)
        if isinstance(body, tuple):
            assert body[1:] == ("a", "b")
        states = body[0] if isinstance(body, tuple) else body["last_hidden_state"]
        return transformers.utils.ModelOutput(logits=states, past_key_values=None)


@pytest.mark.parametrize("kind", ["mapping", "tuple"])
def test_a_prefix_stands_behind_the_first_special_token(kind: str) -> None:
    model, seen = Recorder(kind), []

    def combine(plain: Any, others: list[Any]) -> Any:
        seen.append((plain.argmax(-1).tolist(), [other.argmax(-1).tolist() for other in others]))
        return plain + 1

    PrefixPasses([[7, 8], [9]], combine, special=[2]).install(model)
    ids, mask = torch.tensor([[2, 4, 5], [0, 2, 6], [4, 5, 6]]), torch.tensor([[1, 1, 1], [0, 1, 1], [1, 1, 1]])
    given = {
        "attention_mask": mask,
        "token_type_ids": torch.ones_like(ids),
        "position_ids": torch.tensor([[0, 1, 2], [0, 0, 1], [0, 1, 2]]),
        "labels": ids,
    }
    found = model(input_ids=ids, **given)
    assert torch.equal(found["logits"], torch.nn.functional.one_hot(ids, 10) + 1.0)
    first, second, third = model.calls
    assert first["labels"] is ids
    assert second["input_ids"].tolist() == [[2, 7, 8, 4, 5], [0, 2, 7, 8, 6], [7, 8, 4, 5, 6]]
    assert third["input_ids"].tolist() == [[2, 9, 4, 5], [0, 2, 9, 6], [9, 4, 5, 6]]
    assert second["attention_mask"].tolist() == [[1] * 5, [0, 1, 1, 1, 1], [1] * 5]
    assert third["token_type_ids"].tolist() == [[1, 0, 1, 1], [1, 1, 0, 1], [0, 1, 1, 1]]
    assert second["position_ids"].tolist() == [[0, 1, 2, 3, 4], [0, 0, 1, 2, 3], [0, 1, 2, 3, 4]]
    assert second.keys() == {"input_ids", "attention_mask", "token_type_ids", "position_ids"}
    plain, (longer, shorter) = seen[0]
    assert plain == ids.tolist()
    # The states of as many tokens as the prefix has are cut off in front.
    assert longer == [row[2:] for row in second["input_ids"].tolist()]
    assert shorter == [row[1:] for row in third["input_ids"].tolist()]
    model.calls.clear()
    model(ids)  # without a name, and without a mask: the first column is the first token
    assert model.calls[1]["input_ids"].tolist() == [[2, 7, 8, 4, 5], [7, 8, 0, 2, 6], [7, 8, 4, 5, 6]]
    assert model.calls[1].keys() == {"input_ids"}
    model.calls.clear()
    model(input_ids=ids, position_ids=given["position_ids"])
    assert model.calls[1]["position_ids"].tolist() == [[0, 1, 2, 3, 4]] * 3
    passes = PrefixPasses([], combine, [])
    for arguments, inputs in (((), {"input_ids": None}), ((ids, mask), {})):
        with pytest.raises(UsageError, match="takes input_ids"):
            passes._combine_logits(model, arguments, inputs, SimpleNamespace(logits=1))
    assert passes._combine_logits(model, (), {}, SimpleNamespace(logits=None)) is None


def test_a_body_alone_takes_no_prefix() -> None:
    body = Recorder.Body("tuple")
    body.base_model = body
    with pytest.raises(UsageError, match="Body has no language-model head"):
        PrefixPasses([[1]], lambda plain, others: plain, []).install(body)


def test_a_cache_of_another_model_is_refused() -> None:
    passes = PrefixPasses([[1]], lambda plain, others: plain, [])
    cache, output = SimpleNamespace(get_seq_length=lambda: 4), SimpleNamespace(logits=1, past_key_values=None)
    model: Any = lambda **given: (_ for _ in ()).throw(KeyError("called"))  # noqa: E731
    inputs = {"input_ids": torch.zeros(1, 3, dtype=torch.long), "past_key_values": cache}
    with pytest.raises(UsageError, match="was not made by this model"):
        passes._combine_logits(model, (), inputs, output)
    inputs["input_ids"] = torch.zeros(1, 4, dtype=torch.long)  # the cache holds what was just read, and no more
    with pytest.raises(FormatError, match="called"):
        passes._combine_logits(model, (), inputs, output)
