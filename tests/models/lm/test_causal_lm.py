"""Causal language models: samples, log-probabilities, perplexity."""

import json
import math
import shutil
import warnings

import numpy as np
import pytest

from evenhand.errors import (
    DegenerateError,
    EvenhandWarning,
    FormatError,
    InputMissingError,
    UsageError,
)

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

from evenhand.models.lm.causal import CausalLM  # noqa: E402
from evenhand.models.tokenizing import beginning_of, save_tokenizer  # noqa: E402

WORDS = ["<s>", "</s>", "she", "he", "saw", "a", "nurse", "doctor", "and", "the"]


@pytest.fixture(scope="module", autouse=True)
def _no_foreign_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def config(**options):
    return transformers.LlamaConfig(
        vocab_size=len(WORDS), hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, bos_token_id=0, eos_token_id=1, tie_word_embeddings=True,
        rms_norm_eps=1e-5, **options,
    )  # fmt: skip


def small_model():
    torch.manual_seed(1)
    model = transformers.LlamaForCausalLM(config(initializer_range=0.4))
    return model.eval()


def tokenizer():
    core = tokenizers.Tokenizer(tokenizers.models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<s>"))
    core.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=core, bos_token="<s>", eos_token="</s>")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    small_model().save_pretrained(path)
    tokenizer().save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def causal(folder):
    return CausalLM(folder, device="cpu")


def test_the_window_is_that_of_model_and_tokenizer(folder, tmp_path) -> None:
    shutil.copytree(folder, tmp_path / "short")
    settings = tmp_path / "short" / "tokenizer_config.json"
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"model_max_length": 16}))
    short, whole = CausalLM(tmp_path / "short", device="cpu"), CausalLM(folder, device="cpu")
    assert (short.window, whole.window) == (short.transformer.window, 64) == (16, 64)
    long = "she saw a nurse and he saw the doctor " * 3
    with pytest.warns(EvenhandWarning, match="1 of 2 texts have more than the 15 tokens .* overlapping windows"):
        scores = short.log_probabilities([long, "he saw"])
    assert scores.tokens.tolist() == [27, 2]
    expected = short.perplexity([long], window=16, stride=8)  # asks for windows, so that it warns of nothing
    assert math.exp(-scores.log_probabilities[0] / 27) == pytest.approx(expected.token, rel=1e-6)
    assert whole.log_probabilities([long]).log_probabilities[0] != scores.log_probabilities[0]
    with pytest.raises(UsageError, match="more than the 16 that the model can read"):
        short.generate(1, 20)


def test_perplexity_by_hand(causal) -> None:
    """Every token, the first included, from the tokens before it."""
    text = "she saw a nurse and he saw the doctor"
    ids = torch.tensor([[0, *causal.tokenizer.encode(text, add_special_tokens=False)]])
    with torch.no_grad():
        probabilities = causal.model(ids).logits.log_softmax(-1)[0, :-1]
    loss = -probabilities[torch.arange(9), ids[0, 1:]].sum().item()
    found = causal.perplexity([text])
    assert found.token == pytest.approx(math.exp(loss / 9), rel=1e-5)
    assert found.word == found.token  # each word is a token here
    assert (found.tokens, found.words) == (9, 9)
    both = causal.perplexity([text, "he saw"])
    rest = causal.perplexity(["he saw"])
    assert math.log(both.token) == pytest.approx((9 * math.log(found.token) + 2 * math.log(rest.token)) / 11, rel=1e-5)


@pytest.mark.parametrize(("window", "stride"), [(8, 4), (5, 1), (6, 5), (64, 32)])
def test_long_texts_are_read_in_windows(causal, window: int, stride: int) -> None:
    words = np.random.default_rng(0).choice(WORDS[2:], 30)
    ids = [0, *causal.tokenizer.encode(" ".join(words), add_special_tokens=False)]
    total, seen = 0.0, 1
    for low in range(0, len(ids), stride):  # each token in the first window that holds it
        part = torch.tensor([ids[low : low + window]])
        with torch.no_grad():
            logs = causal.model(part).logits.log_softmax(-1)[0]
        for place in range(seen, min(low + window, len(ids))):
            total -= logs[place - low - 1, ids[place]].item()
            seen += 1
    assert seen == len(ids)
    found = causal.perplexity([" ".join(words)], window=window, stride=stride)
    assert found.token == pytest.approx(math.exp(total / 30), rel=1e-5)
    assert found.tokens == 30


def test_samples_do_not_depend_on_the_batch_size(causal) -> None:
    one = causal.generate(7, 20, seed=3, batch=7)
    assert one == causal.generate(7, 20, seed=3, batch=2)
    assert one[:4] == causal.generate(4, 20, seed=3)
    assert one != causal.generate(7, 20, seed=4)
    assert all(len(text.split()) <= 20 for text in one)
    assert "<" not in " ".join(one)


def test_texts_that_have_ended_leave_the_batch(causal, monkeypatch) -> None:
    """The others go on as if they were still there."""
    whole = causal.generate(40, 30, seed=5)
    lengths = {len(text.split()) for text in whole}
    assert len(lengths) > 5
    sizes, plain = [], causal.model.forward

    def forward(*args, **inputs):
        sizes.append(len(inputs["input_ids"]))
        return plain(*args, **inputs)

    monkeypatch.setattr(causal.model, "forward", forward)
    assert causal.generate(40, 30, seed=5, batch=40) == whole
    assert sizes[:2] == [1, 40]  # the prompt is the same
    assert sizes[-1] < 20
    monkeypatch.setattr("evenhand.models.lm.sampling.MOST_LEFT", 0.0)
    sizes.clear()
    assert causal.generate(40, 30, seed=5, batch=40) == whole
    assert set(sizes[1:]) == {40}


def test_long_texts_are_sampled_in_smaller_batches(causal, monkeypatch) -> None:
    assert causal.texts_at_once(20) == 100
    each = 2 * 2 * 16 * 2 // 4 * 4  # keys and values of two layers, two of four heads, four bytes
    monkeypatch.setattr("evenhand.models.lm.causal.CACHE_BYTES", each * 20 * 50)
    assert causal.texts_at_once(20) == 50
    assert causal.texts_at_once(60) == 32  # as few as this


def test_tokens_are_sampled_with_the_probabilities_of_the_model(causal) -> None:
    """First words of many texts against the model's probabilities (chi-square)."""
    drawn = causal.generate(3000, 1, seed=0, batch=3000)
    with torch.no_grad():
        expected = causal.model(torch.tensor([[0]])).logits[0, -1].softmax(-1).numpy()
    spelt = {word: i for i, word in enumerate(WORDS)}
    counts = np.bincount([spelt.get(text, 1) for text in drawn], minlength=len(WORDS))
    counts = np.array([counts[i] for i in range(2, len(WORDS))] + [counts[:2].sum()])
    expected = np.array([*expected[2:], expected[:2].sum()]) * 3000
    assert (((counts - expected) ** 2) / expected).sum() < 30  # 8 degrees of freedom: p about 0.0002


def test_a_start_is_not_part_of_the_text_and_temperature_sharpens(causal) -> None:
    cold = causal.generate(20, 5, seed=0, temperature=1e-4, start="she saw")
    assert len(set(cold)) == 1
    assert not cold[0].startswith("she saw a nurse and he")
    assert len(set(causal.generate(20, 5, seed=0, start="she saw"))) > 5


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda m: m.generate(0, 5), "must be at least 1"),
        (lambda m: m.generate(1, 5, temperature=0), "temperature"),
        (lambda m: m.generate(1, 5, seed=-1), "seed must be an integer of at least 0, got -1"),
        (lambda m: m.generate(1, 100), "more than the 64"),
        (lambda m: m.perplexity(["she"], window=100), "window"),
        (lambda m: m.perplexity(["she"], window=8, stride=8), "stride"),
    ],
)
def test_bad_arguments(causal, call, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        call(causal)


def test_an_empty_text_has_no_perplexity(causal) -> None:
    with pytest.raises(DegenerateError, match="undefined for 0 tokens"):
        causal.perplexity([""])


def test_folders_that_are_not_a_safe_model_are_refused(tmp_path, folder) -> None:
    with pytest.raises(InputMissingError, match="no folder"):
        CausalLM(tmp_path / "nothing")
    with pytest.raises(InputMissingError, match=r"no config\.json"):
        CausalLM(tmp_path)
    (tmp_path / "config.json").write_text((folder / "config.json").read_text())
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(FormatError, match=r"pickle \(pytorch_model\.bin\)"):
        CausalLM(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"x" * 20)
    with pytest.raises(FormatError, match="not a complete safetensors file"):
        CausalLM(tmp_path)
    with pytest.raises(UsageError, match="fp7"):
        CausalLM(folder, precision="fp7")


def test_a_tokenizer_that_adds_no_token_is_followed(folder, tmp_path) -> None:
    shutil.copytree(folder, tmp_path / "bare")
    settings = tmp_path / "bare" / "tokenizer_config.json"
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"add_bos_token": False}))
    bare = CausalLM(tmp_path / "bare", device="cpu")
    assert bare.reading == ((), (0,))
    text = "she saw a nurse"
    ids = bare.tokenizer(text, add_special_tokens=False)["input_ids"]

    def logs(row: list[int]) -> np.ndarray:
        with torch.inference_mode():
            return bare.model(input_ids=torch.tensor([row])).logits[0].log_softmax(-1).numpy()

    alone, first = logs(ids), logs([0, ids[0]])
    expected = [first[0, ids[0]], *(alone[i, ids[i + 1]] for i in range(len(ids) - 1))]
    found = bare.token_log_probabilities([text, "", "she"])
    np.testing.assert_allclose(found[0].log_probabilities, expected, atol=1e-5)
    np.testing.assert_allclose(found[2].log_probabilities, expected[:1], atol=1e-5)
    np.testing.assert_allclose(bare.log_probabilities([text]).log_probabilities, sum(expected), atol=1e-5)
    some = bare.token_log_probabilities([text], [[2]])[0].log_probabilities
    np.testing.assert_allclose(some[2], expected[2], atol=1e-5)
    long = "she saw a nurse and he saw the doctor " * 3
    window = bare.perplexity([long], window=8, stride=4)
    assert window.tokens == len(long.split())
    assert bare._first_ids("she saw") == bare.tokenizer("she saw", add_special_tokens=False)["input_ids"]
    assert bare._first_ids("") == [0]
    save_tokenizer(bare.tokenizer, tmp_path / "again")  # a saved copy keeps the rule
    assert json.loads((tmp_path / "again" / "tokenizer_config.json").read_text())["add_bos_token"] is False


def test_a_token_that_marks_turns_separates_no_texts() -> None:
    found = tokenizer()
    found.init_kwargs["add_bos_token"] = False
    found.chat_template = "{{ '<s>' + messages[0].content + '</s>' }}"
    assert beginning_of(found) == ((), (0,))  # there is no other one
    found.add_special_tokens({"additional_special_tokens": ["<|endoftext|>"]})
    assert beginning_of(found) == ((), (found.convert_tokens_to_ids("<|endoftext|>"),))
    found.init_kwargs["add_bos_token"] = True
    assert beginning_of(found) == ((0,), ())


@pytest.mark.data
def test_the_model_of_the_catalog() -> None:
    """SmolLM2-135M, 4 bits: English is likely, its words in disorder are not."""
    from evenhand import data

    place = data.locate("smollm2-135m")
    if place is None:
        pytest.skip("smollm2-135m is not fetched: evenhand fetch smollm2-135m")
    model = CausalLM(place, device="cpu")
    text = "The capital of France is Paris. It is a large city on the river Seine, and many visitors come every year."
    mixed = " ".join(np.random.default_rng(0).permutation(text.split()))
    assert model.perplexity([text]).word < 60
    assert model.perplexity([mixed]).word > 1000
    assert model.describe()["parameters"] == 134_515_008
    (written,) = model.generate(1, 12, seed=0, start="The nurse said that")
    assert len(written.split()) >= 4


def test_equal_prompts_are_read_once(causal, monkeypatch) -> None:
    sizes, plain = [], causal.model.forward

    def forward(*args, **inputs):
        sizes.append(tuple(inputs["input_ids"].shape))
        return plain(*args, **inputs)

    monkeypatch.setattr(causal.model, "forward", forward)
    prompts = ["she saw", "he saw", "the nurse"]
    found = causal.continuations(prompts, samples=5, tokens=6, seed=2)
    assert sizes[:2] == [(3, 3), (15, 1)]  # two words behind the first token
    sizes.clear()
    monkeypatch.setattr("evenhand.models.lm.causal.reads_trees", lambda model, longest: False)
    assert causal.continuations(prompts, samples=5, tokens=6, seed=2) == found
    assert sizes[0] == (15, 3)
