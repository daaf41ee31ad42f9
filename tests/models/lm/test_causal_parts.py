"""The parts of causal models by their definitions: windows, batches, limits, ends of texts, texts that are kept."""

from __future__ import annotations

import json
import math
import re
import warnings
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

from evenhand.errors import DegenerateError, EvenhandWarning, FormatError, TextTooLongError, UsageError  # noqa: E402
from evenhand.models.encoders.transformer import Transformer  # noqa: E402
from evenhand.models.lm import causal as module  # noqa: E402
from evenhand.models.lm.causal import CausalLM, Perplexity, keeping_texts, windows_of, written_once  # noqa: E402
from evenhand.models.lm.forward import logits_at, positions_at_once, vocabulary_size  # noqa: E402
from evenhand.models.lm.likelihood import (  # noqa: E402
    TokenScores,
    check_scores,
    check_seed,
    conditional_log_probabilities,
    fill,
    filler_tokens,
    warn_windowed,
)
from evenhand.models.lm.sampling import _Batch, batches_of, draw_tokens, uniform_draws  # noqa: E402

WORDS = ["<s>", "</s>", "she", "he", "saw", "a", "nurse", "doctor", "and", "the"]


@pytest.fixture(scope="module")
def causal() -> CausalLM:
    core = tokenizers.Tokenizer(tokenizers.models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<s>"))
    core.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=core, bos_token="<s>", eos_token="</s>")
    torch.manual_seed(1)
    config = transformers.LlamaConfig(
        vocab_size=len(WORDS) + 2, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=32, bos_token_id=0, eos_token_id=1, initializer_range=0.4,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config).eval()
    return CausalLM(Transformer("small", "causal-lm", model, tokenizer, "cpu", "float32"))


def logs_of(model: CausalLM, ids: list[int]) -> Any:
    """The log-probability of every token behind each token."""
    with torch.inference_mode():
        return model.model(torch.tensor([ids])).logits[0].log_softmax(-1).double().numpy()


# Windows ------------------------------------------------------------------------------------------------------------


def windows_by_hand(length: int, width: int, step: int, asked: list[int], before: int) -> dict[int, tuple[int, int]]:
    """Return for each token that is asked for, and has something before it, the first window that contains it."""
    found = {}
    for token in asked:
        place = token + before
        low = next((low for low in range(0, length, step) if low <= place < low + width), None)
        if place >= max(1, before) and low is not None:
            found[token] = (low, place - low)
    return found


@pytest.mark.parametrize(
    ("length", "width", "step", "before"),
    [
        (1, 4, 2, 1),
        (4, 4, 2, 1),
        (5, 4, 2, 1),
        (6, 4, 2, 0),
        (7, 4, 3, 1),
        (9, 4, 1, 2),
        (10, 5, 4, 0),
        (12, 32, 16, 1),
    ],
)
def test_each_token_is_scored_in_the_first_window_that_contains_it(
    length: int, width: int, step: int, before: int
) -> None:
    ids = np.arange(100, 100 + length)
    every = list(range(length - before))
    for asked in (every, every[::2], every[-1:], []):
        windows = windows_of(3, ids, width, step, np.array(asked, dtype=np.int64), before=before)
        found = {}
        for window in windows:
            assert window.text == 3
            assert len(window.places)
            low = window.start + before
            assert window.ids.tolist() == ids[low : low + width].tolist()
            assert window.read.tolist() == window.ids[: max(window.places)].tolist()
            for place in window.places.tolist():
                assert place + window.start not in found
                found[place + window.start] = (low, place)
        assert found == windows_by_hand(length, width, step, asked, before)


def test_the_longest_text_that_is_read_at_once_brings_no_warning(causal: CausalLM) -> None:
    words = " ".join(np.random.default_rng(0).choice(WORDS[2:], 31))  # and the token before it
    ids = [0, *causal.tokenizer.encode(words, add_special_tokens=False)]
    logs = logs_of(causal, ids)
    expected = [logs[place, token] for place, token in enumerate(ids[1:])]
    (found,) = causal.token_log_probabilities([words])
    np.testing.assert_allclose(found.log_probabilities, expected, atol=1e-5)
    assert (found.ids.tolist(), len(found.spans)) == (ids[1:], 31)
    assert causal.log_probabilities([words]).log_probabilities[0] == pytest.approx(sum(expected), rel=1e-6)
    with pytest.warns(EvenhandWarning, match="small: 1 of 1 texts have more than the 31 tokens"):
        longer = causal.token_log_probabilities([f"{words} she"])[0].log_probabilities
    np.testing.assert_allclose(longer[:31], expected, atol=1e-5)
    # The last token is read in the window that begins with half a window.
    assert longer[31] == pytest.approx(logs_of(causal, [*ids[16:], 2][:-1])[-1, 2], abs=1e-5)


def test_perplexity_is_a_record_of_its_windows(causal: CausalLM) -> None:
    found = causal.perplexity(["she saw a nurse", "he"])
    ids = causal.tokenizer.encode("she saw a nurse", add_special_tokens=False)
    logs = logs_of(causal, [0, *ids])
    total = -sum(logs[place, token] for place, token in enumerate(ids)) - logs[0, 3]
    expected = Perplexity(math.exp(total / 5), math.exp(total / 5), 5, 5, 32, 16)
    assert found.to_dict() == pytest.approx(expected.to_dict(), rel=1e-5)
    assert causal.perplexity(["she saw"], window=2).stride == 1
    assert causal.perplexity(["she saw"], window=5).stride == 2
    assert causal.perplexity(["she saw"], stride=31).window == 32
    for window, stride in ((1, 0), (33, 0), (4, 4), (4, -1)):
        with pytest.raises(UsageError, match=rf"window {window} with stride .*is not possible\n.* 2 to 32 tokens"):
            causal.perplexity(["she"], window=window, stride=stride)


def test_a_text_of_blanks_has_tokens_but_no_words(causal: CausalLM, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "encode_one", lambda tokenizer, text: [2, 3])
    with pytest.raises(DegenerateError, match="undefined for 2 tokens and 0 words"):
        causal.perplexity(["  "])


def test_only_what_is_asked_for_is_scored(causal: CausalLM) -> None:
    text = "she saw a nurse and he"
    (every,) = causal.token_log_probabilities([text])
    (some,) = causal.token_log_probabilities([text], [[4, 0, 4]])
    assert np.flatnonzero(np.isfinite(some.log_probabilities)).tolist() == [0, 4]
    np.testing.assert_allclose(some.log_probabilities[[0, 4]], every.log_probabilities[[0, 4]], atol=1e-6)
    assert np.isnan(causal.token_log_probabilities([text], [[]])[0].log_probabilities).all()


# Next tokens --------------------------------------------------------------------------------------------------------


def test_shares_of_the_next_token_by_hand(causal: CausalLM) -> None:
    prompts = [[0, 2, 4], [0], [0, 2, 4, 5, 6]]
    groups = [np.array([2, 3]), np.array([7]), np.array([], dtype=np.int64)]
    expected = [[np.exp(logs_of(causal, prompt)[-1, group]).sum() for group in groups] for prompt in prompts]
    np.testing.assert_allclose(causal.next_token_shares(prompts, groups), expected, atol=1e-6)
    assert causal.next_token_shares([], groups).shape == (0, 3)
    assert causal.next_token_shares([[2] * 32], groups).shape == (1, 3)
    with pytest.raises(TextTooLongError, match="a prompt of 33 tokens is longer than the 32 that small reads"):
        causal.next_token_shares([[0], [2] * 33], groups)
    assert causal.vocabulary_size == 10  # the model has two rows that no token has


def test_shares_that_are_not_numbers_are_an_error(causal: CausalLM, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CausalLM, "_logits", lambda self, trees, places: torch.full((1, 12), math.nan))
    with pytest.raises(DegenerateError, match="small: a probability of the next token is not a number"):
        causal.next_token_shares([[0]], [np.array([2])])


# Samples ------------------------------------------------------------------------------------------------------------


def sampled_by_hand(model: CausalLM, first: list[int], draws: Any, temperature: float) -> str:
    """Return the text that a row of uniform numbers stands for, one call for each token."""
    ids = list(first)
    for draw in draws:
        with torch.inference_mode():
            shares = (model.model(torch.tensor([ids])).logits[0, -1].double() / temperature).softmax(-1)
        ids.append(int(np.searchsorted(np.cumsum(shares.numpy()), draw, side="right")))
        if ids[-1] == 1:
            break
    written = ids[len(first) :]
    return model.tokenizer.decode([token for token in written if token > 1])


@pytest.mark.parametrize("temperature", [1.0, 2.5])
def test_samples_by_hand(causal: CausalLM, temperature: float) -> None:
    draws = uniform_draws(5, range(2, 9), 12)
    told: list[tuple[int, int, str]] = []
    found = causal.generate(
        7, 12, seed=5, batch=3, temperature=temperature, first_text=2, progress=lambda *what: told.append(what)
    )
    assert found == [sampled_by_hand(causal, [0], row, temperature) for row in draws]
    assert told == [(3, 7, "samples"), (6, 7, "samples"), (7, 7, "samples")]
    begun = causal.generate(2, 12, seed=5, temperature=temperature, start="she saw")
    expected = [sampled_by_hand(causal, [0, 2, 4], row, temperature) for row in uniform_draws(5, range(2), 12)]
    assert begun == expected


def test_continuations_by_hand(causal: CausalLM) -> None:
    prompts = ["she saw", "he", "she saw"]
    found = causal.continuations(prompts, samples=3, tokens=6, seed=2, batch=4, temperature=1.5)
    first = [[0, 2, 4], [0, 3], [0, 2, 4]]
    draws = uniform_draws(2, range(3), 6)
    assert found == [[sampled_by_hand(causal, ids, row, 1.5) for row in draws] for ids in first]
    assert causal.continuations([], samples=1, tokens=1) == []
    (cold,) = causal.continue_ids([[0, 2]], samples=2, tokens=4, temperature=0)
    ids = [0, 2]
    for _ in range(4):
        ids.append(int(np.argmax(logs_of(causal, ids)[-1])))
    best = causal.tokenizer.decode([token for token in ids[2 : ids.index(1) if 1 in ids else None] if token > 1])
    assert cold == [best, best]


def test_what_fills_the_window_is_sampled_and_no_more(causal: CausalLM) -> None:
    assert len(causal.generate(1, 31)) == 1
    with pytest.raises(UsageError, match=r"1 \+ 32 tokens are more than the 32 .*\n.*use at most 31 tokens"):
        causal.generate(1, 32)
    assert len(causal.continue_ids([[0, 2], [0]], samples=1, tokens=30)) == 2
    with pytest.raises(UsageError, match=r"2 \+ 31 tokens are more than the 32 .*\n.*use at most 30 tokens"):
        causal.continue_ids([[0, 2], [0]], samples=1, tokens=31)
    for wrong in ({"samples": 0}, {"tokens": 0}, {"batch": 0}, {"temperature": 0}, {"temperature": math.nan}):
        with pytest.raises(UsageError, match="not possible"):
            causal.continuations(["she"], **{"samples": 1, "tokens": 1, **wrong})
        with pytest.raises(UsageError, match="must be at least 1 and temperature above 0"):
            causal.generate(**{"samples": 1, "tokens": 1, **wrong})
    with pytest.raises(UsageError, match="seed must be"):
        causal.continuations(["she"], samples=1, tokens=1, seed=-1)


@pytest.mark.parametrize(
    ("config", "tokens", "texts"),
    [
        ({"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 16}, 1, 100),
        (
            {"num_hidden_layers": 32, "num_attention_heads": 32, "hidden_size": 4096},
            20,
            51,
        ),  # 2 * 32 * 4096 * 4 * 20 bytes
        ({"num_hidden_layers": 32, "num_attention_heads": 32, "hidden_size": 4096, "num_key_value_heads": 8}, 100, 40),
        ({"num_hidden_layers": 32, "num_attention_heads": 32, "hidden_size": 4096}, 400, 32),
        ({"num_hidden_layers": 1, "num_attention_heads": 1, "hidden_size": 1 << 21}, 0, 64),
        ({"num_hidden_layers": 2, "hidden_size": 16}, 10, 32),  # nothing is known of the heads
        ({"num_attention_heads": 4, "hidden_size": 16}, 10, 32),
        ({}, 10, 32),
    ],
)
def test_texts_are_sampled_side_by_side_as_far_as_their_cache_is_small(
    config: dict[str, int], tokens: int, texts: int
) -> None:
    given = SimpleNamespace(get_text_config=lambda: SimpleNamespace(**config))
    model: Any = SimpleNamespace(model=SimpleNamespace(config=given, dtype=torch.float32))
    assert CausalLM.texts_at_once(model, tokens) == texts


def test_a_model_is_described(causal: CausalLM) -> None:
    count = sum(parameter.numel() for parameter in causal.model.parameters())
    described = {"kind": "LlamaForCausalLM", "parameters": count, "precision": "float32", "device": "cpu"}
    assert causal.describe() == described
    assert (causal.name, causal.chat_template, causal.beginning, causal.masked) == ("small", None, [0], False)
    assert CausalLM(causal.transformer, name="mine").name == "mine"


@pytest.mark.parametrize(
    ("configured", "own", "ends"),
    [(7, 1, {1, 7}), ([7, 8], 1, {1, 7, 8}), (None, 1, {1}), (None, None, set()), (7, None, {7}), ("none", 1, {1})],
)
def test_a_text_ends_where_model_or_tokenizer_say(configured: Any, own: int | None, ends: set[int]) -> None:
    settings = None if configured == "none" else SimpleNamespace(eos_token_id=configured)
    model: Any = SimpleNamespace(
        model=SimpleNamespace(generation_config=settings), tokenizer=SimpleNamespace(eos_token_id=own)
    )
    assert CausalLM._end_ids(model) == ends
    model._end_ids = lambda: {1, 8}
    assert CausalLM._cut_at_end(model, [[2, 3, 8, 4, 1], [1, 2], [2, 3], []]) == [[2, 3], [], [2, 3], []]


def test_a_tokenizer_without_a_beginning_needs_a_start(causal: CausalLM) -> None:
    model: Any = SimpleNamespace(reading=SimpleNamespace(before=(), separator=()), tokenizer=causal.tokenizer)
    assert CausalLM._first_ids(model, "he saw") == [3, 4]
    with pytest.raises(UsageError, match="no token for the beginning of a text"):
        CausalLM._first_ids(model, "")


@pytest.mark.parametrize(("most", "mixed"), list(product((1, 2, 3, 10), (True, False))))
def test_prompts_in_a_batch_have_similar_lengths(most: int, mixed: bool) -> None:
    lengths = [5, 2, 4, 3, 2, 8, 9, 2, 4]
    expected: list[list[int]] = []
    for number in sorted(range(len(lengths)), key=lambda number: (lengths[number], number)):
        last = expected[-1] if expected else []
        fits = last and lengths[number] <= (2 if mixed else 1) * lengths[last[0]]
        if fits and len(last) < most:
            last.append(number)
        else:
            expected.append([number])
    assert batches_of(lengths, most, mixed=mixed) == expected
    assert batches_of([], most, mixed=mixed) == []


def test_a_draw_on_an_edge_takes_the_next_token() -> None:
    logits = torch.tensor([[0.25, 0.25, 0.5]]).log().expand(5, 3)
    assert draw_tokens(logits, torch.tensor([0.0, 0.25, 0.49, 0.5, 1.0])).tolist() == [0, 1, 1, 2, 2]


def test_a_cache_that_cannot_be_cut_is_kept_whole() -> None:
    rows = torch.arange(3)
    batch = _Batch(None, rows, rows, rows > 0, rows, SimpleNamespace(), 2)  # type: ignore[arg-type]
    assert not batch.keep(torch.tensor([0]))
    assert len(batch.rows) == 3
    cut: list[list[int]] = []
    cache = SimpleNamespace(batch_select_indices=lambda left: cut.append(left.tolist()))
    batch = _Batch(None, rows, rows * 2, rows > 0, rows, cache, 2)  # type: ignore[arg-type]
    assert batch.keep(torch.tensor([0, 2]))
    assert cut == [[0, 2]]
    assert (batch.rows.tolist(), batch.lengths.tolist(), batch.done.tolist()) == ([0, 2], [0, 4], [False, True])
    assert batch.written == 0


# Texts that are kept -------------------------------------------------------------------------------------------------


def test_texts_are_written_once(tmp_path: Path) -> None:
    written: list[int] = []

    def write(texts: list[str]) -> list[str]:
        written.append(len(written))
        return texts

    def ask(number: int, settings: Any = ("s",), owner: str = "me", texts: tuple[str, ...] = ("a", "\u00e9")) -> Any:
        with keeping_texts(tmp_path, owner):
            return written_once(settings, number, lambda: write(list(texts)))

    assert ask(1) == ask(1, texts=("other",)) == ["a", "\u00e9"]
    assert written == [0]
    (file,) = tmp_path.rglob("*.json")
    assert re.fullmatch(r"[0-9a-f]{32}/000001\.json", file.relative_to(tmp_path).as_posix())
    whole = file.read_text(encoding="utf-8")
    assert whole.endswith("}\n")
    assert "\u00e9" in whole
    for number, changed in ((2, {}), (1, {"settings": ("t",)}), (1, {"owner": "you"})):
        ask(number, **changed)
    assert len(written) == 4
    record = json.loads(whole)
    damaged = (
        whole[:-5], "[]", "{}", json.dumps({**record, "texts": ["a", "b"]}), json.dumps({**record, "texts": 3}),
        json.dumps({**record, "sha256": "0"}), json.dumps({**record, "texts": [1, 2]}),
    )  # fmt: skip
    for content in damaged:
        file.write_text(content, encoding="utf-8")
        assert ask(1) == ["a", "\u00e9"]
        assert file.read_text(encoding="utf-8") == whole
    assert len(written) == 4 + len(damaged)
    with keeping_texts(None, "me"):
        assert written_once(("s",), 1, lambda: write(["x"])) == ["x"]
    assert written_once(("s",), 1, lambda: write(["y"])) == ["y"]  # outside of it, nothing is kept


# Forward passes -----------------------------------------------------------------------------------------------------


class Body(torch.nn.Module):  # type: ignore[misc]
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.table = kind, torch.nn.Embedding(7, 3)

    def forward(self, input_ids: Any) -> Any:
        states = self.table(input_ids)
        return (states, "cache", "more") if self.kind == "tuple" else {0: states, "last_hidden_state": states}


class Head(torch.nn.Module):  # type: ignore[misc]
    """A language model whose body returns a tuple or a mapping."""

    def __init__(self, kind: str, *, per_text: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.base_model, self.head, self.per_text = Body(kind), torch.nn.Linear(3, 7), per_text
        self.seen: Any = None

    def get_output_embeddings(self) -> Any:
        return self.head

    def get_input_embeddings(self) -> Any:
        return self.base_model.table

    def forward(self, input_ids: Any) -> Any:
        self.seen = self.base_model(input_ids)
        states = self.seen[0] if isinstance(self.seen, tuple) else self.seen["last_hidden_state"]
        logits = self.head(states)
        return transformers.utils.ModelOutput(logits=logits[:, 0] if self.per_text else logits)


@pytest.mark.parametrize("kind", ["tuple", "mapping"])
def test_the_head_reads_the_chosen_positions_alone(kind: str) -> None:
    model, ids = Head(kind), torch.tensor([[1, 2, 3], [4, 5, 6]])
    rows, columns = torch.tensor([1, 0, 1]), torch.tensor([0, 2, 2])
    with torch.inference_mode():
        found = logits_at(model, rows, columns, input_ids=ids).logits
        if kind == "tuple":
            assert model.seen[1:] == ("cache", "more")
        whole = model(ids).logits
    torch.testing.assert_close(found, whole[rows, columns])
    assert not model.base_model._forward_hooks
    with pytest.raises(FormatError, match=r"the head of Head returns \(1, 7\) for 3 positions"):
        logits_at(Head(kind, per_text=True), rows, columns, input_ids=ids)
    body = Body(kind)
    body.base_model = body
    with pytest.raises(FormatError, match="Body is not a body with a language-model head"):
        logits_at(body, rows, columns, input_ids=ids)


def test_as_many_positions_as_their_logits_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Head("tuple")
    assert vocabulary_size(model) == 7
    assert positions_at_once(model, "cpu") == (1 << 23) // 7
    assert positions_at_once(model, "cuda:1") == (1 << 29) // 7
    model.head = torch.nn.Linear(3, 9)
    assert vocabulary_size(model) == 9
    for head in (None, SimpleNamespace()):  # the output layer has no table of its own
        monkeypatch.setattr(Head, "get_output_embeddings", lambda self, head=head: head)
        assert vocabulary_size(model) == 7
    monkeypatch.setattr("evenhand.models.lm.forward.FEW_LOGITS", 3)
    assert positions_at_once(model, "cpu") == 1


# What every likelihood uses -----------------------------------------------------------------------------------------


def test_texts_at_the_limit_are_not_windowed() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_windowed("m", [3, 4], 4, "those before it")
    with pytest.warns(
        EvenhandWarning, match="m: 2 of 3 texts have more than the 4 tokens that the model reads at once"
    ):
        warn_windowed("m", [5, 4, 2000], 4, "those before it")


def test_scores_that_are_not_numbers_are_named() -> None:
    assert check_scores(np.array([-1.0, 0.0]), "m").tolist() == [-1.0, 0.0]
    for value in (math.nan, -math.inf):
        with pytest.raises(DegenerateError, match=f"m: the log-probability of text 1 is {value}"):
            check_scores(np.array([-1.0, value, value]), "m")


def test_seeds_are_whole_numbers_from_0() -> None:
    check_seed(0)
    for seed in (-1, 1.0, "1", None):
        with pytest.raises(UsageError, match="seed must be"):
            check_seed(seed)  # type: ignore[arg-type]


def test_a_blank_is_filled_in_its_place() -> None:
    assert fill("A {} is here", "he") == ("A he is here", 2, 4)
    for context in ("no blank", "{} and {}"):
        with pytest.raises(UsageError, match=r"has \d blanks"):
            fill(context, "he")


def test_text_behind_its_context_by_hand(causal: CausalLM) -> None:
    found = conditional_log_probabilities(causal, ["she saw", "he"], ["a nurse", "saw"])
    logs = logs_of(causal, [0, 2, 4, 5, 6])
    other = logs_of(causal, [0, 3, 4])
    assert found.log_probabilities == pytest.approx([logs[2, 5] + logs[3, 6], other[1, 4]], abs=1e-5)
    assert found.tokens.tolist() == [2, 1]
    joined = conditional_log_probabilities(causal, ["she saw "], ["a nurse"], separator="")
    assert joined.log_probabilities[0] == pytest.approx(found.log_probabilities[0], abs=1e-5)
    with pytest.raises(UsageError, match="there are 1 contexts, but 2 texts"):
        conditional_log_probabilities(causal, ["a"], ["b", "c"])


def test_fillers_of_a_causal_model_by_hand(causal: CausalLM) -> None:
    contexts, fillers = ["she saw {}", "{} saw he"], ["a nurse", "he", "the"]
    found = causal.filler_log_probabilities(contexts, fillers, tokens=1)
    texts = [context.replace("{}", filler) for context in contexts for filler in fillers]
    np.testing.assert_allclose(found.ravel(), causal.log_probabilities(texts).log_probabilities, atol=1e-5)
    assert found.shape == (2, 3)
    assert filler_tokens(causal, contexts, fillers).tolist() == [[2, 1, 1]] * 2


def test_tokens_cover_the_characters_of_a_span() -> None:
    scores = TokenScores(np.arange(3), np.array([[0, 2], [3, 6], [6, 7]]), np.zeros(3))
    assert [scores.covering(*span) for span in ((0, 2), (2, 3), (2, 4), (5, 7), (7, 9))] == [[0], [], [1], [1, 2], []]
