"""Causal language models from folders and GGUF files."""

import json
import math
import shutil
import struct
import warnings
from pathlib import Path

import numpy as np
import pytest

from evenhand.errors import (
    DegenerateError,
    EvenhandWarning,
    FormatError,
    InputMissingError,
    OutputError,
    UsageError,
)

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

from evenhand.models.lm.causal import CausalLM  # noqa: E402
from evenhand.models.lm.gguf import convert_gguf, open_gguf  # noqa: E402
from evenhand.models.lm.gguf_blocks import NUMBER_TYPES  # noqa: E402

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


# GGUF


def packed_text(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def fact(name: str, value) -> bytes:
    def typed(v) -> tuple[int, bytes]:
        if isinstance(v, str):
            return 8, packed_text(v)
        if isinstance(v, list):
            inner = typed(v[0])[0]
            return 9, struct.pack("<IQ", inner, len(v)) + b"".join(typed(x)[1] for x in v)
        return (6, struct.pack("<f", v)) if isinstance(v, float) else (4, struct.pack("<I", v))

    kind, raw = typed(value)
    return packed_text(name) + struct.pack("<I", kind) + raw


def write_gguf(path: Path, facts: dict, arrays: dict, version: int = 3) -> None:
    """Arrays as (kind, shape, bytes)."""
    head = struct.pack("<4sIQQ", b"GGUF", version, len(arrays), len(facts))
    head += b"".join(fact(name, value) for name, value in facts.items())
    data = b""
    for name, (kind, shape, raw) in arrays.items():
        data += b"\0" * (-len(data) % 32)
        sizes = b"".join(struct.pack("<Q", size) for size in reversed(shape))
        head += packed_text(name) + struct.pack("<I", len(shape)) + sizes + struct.pack("<IQ", kind, len(data))
        data += raw
    path.write_bytes(head + b"\0" * (-len(head) % 32) + data)


FACTS = {
    "general.architecture": "llama", "llama.block_count": 2, "llama.context_length": 64, "llama.embedding_length": 16,
    "llama.feed_forward_length": 32, "llama.attention.head_count": 4, "llama.attention.head_count_kv": 2,
    "llama.attention.layer_norm_rms_epsilon": 1e-5, "llama.rope.freq_base": 10000.0, "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.tokens": ["<s>", "</s>", "s", "h", "e", "Ġ", "sh", "she", "Ġshe", "q"],
    "tokenizer.ggml.token_type": [3, 3, 1, 1, 1, 1, 1, 1, 1, 1], "tokenizer.ggml.merges": ["s h", "sh e", "Ġ she"],
    "tokenizer.ggml.bos_token_id": 0, "tokenizer.ggml.eos_token_id": 1,
}  # fmt: skip
NAMES = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "input_layernorm": "attn_norm", "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "post_attention_layernorm": "ffn_norm",
}  # fmt: skip


def interleaved(weight: np.ndarray, heads: int) -> np.ndarray:
    """As converters store queries and keys: the halves of each head, one row of each in turn."""
    return weight.reshape(heads, 2, len(weight) // heads // 2, -1).swapaxes(1, 2).reshape(weight.shape)


def arrays_of(model) -> dict:
    out = {}
    for name, tensor in model.state_dict().items():
        weight = tensor.numpy()
        if name == "lm_head.weight":
            continue
        if name in ("model.embed_tokens.weight", "model.norm.weight"):
            theirs = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight"}[name]
        else:
            _, _, layer, *rest = name.split(".")
            stem = NAMES[".".join(rest[:-1])]
            heads = {"attn_q": 4, "attn_k": 2}.get(stem)
            weight = interleaved(weight, heads) if heads else weight
            theirs = f"blk.{layer}.{stem}.weight"
        out[theirs] = (0, weight.shape, np.ascontiguousarray(weight, dtype="<f4").tobytes())
    return out


def test_gguf_gives_the_same_model(tmp_path) -> None:
    model = small_model()
    write_gguf(tmp_path / "m.gguf", FACTS, arrays_of(model))
    for place in (tmp_path, tmp_path / "m.gguf"):
        found = CausalLM(place, device="cpu")
        ids = torch.tensor([[0, 5, 7, 2, 9, 3]])
        with torch.no_grad():
            torch.testing.assert_close(found.model(ids).logits, model(ids).logits)
    assert found.tokenizer.encode("she she q") == [7, 8, 5, 9]
    assert found.tokenizer.decode([0, 7, 8], skip_special_tokens=True) == "she she"
    assert found.window == 64


SENTENCEPIECE = {
    "tokenizer.ggml.model": "llama", "tokenizer.ggml.pre": "default",
    "tokenizer.ggml.tokens": ["<s>", "</s>", "s", "h", "e", "▁", "sh", "she", "▁she", "<unk>"],
    "tokenizer.ggml.scores": [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -1.0, -2.0, -3.0, 0.0],
    "tokenizer.ggml.token_type": [3, 3, 1, 1, 1, 1, 1, 1, 1, 2], "tokenizer.ggml.unknown_token_id": 9,
}  # fmt: skip


def test_gguf_arrays_that_share_bytes_are_refused(tmp_path) -> None:
    """Otherwise a small file could hold a model of any size."""
    write_gguf(tmp_path / "m.gguf", FACTS, {"a": (0, (8,), bytes(32)), "b": (0, (8,), bytes(32))})
    content = (tmp_path / "m.gguf").read_bytes()
    place = content.index(packed_text("b")) + len(packed_text("b")) + 4 + 8 + 4
    assert struct.unpack_from("<Q", content, place) == (32,)
    open_gguf(tmp_path / "m.gguf")
    (tmp_path / "m.gguf").write_bytes(content[:place] + struct.pack("<Q", 16) + content[place + 8 :])
    with pytest.raises(FormatError, match="the arrays 'a' and 'b' overlap"):
        open_gguf(tmp_path / "m.gguf")


def test_gguf_with_the_tokenizer_of_sentencepiece(tmp_path) -> None:
    write_gguf(tmp_path / "m.gguf", FACTS | SENTENCEPIECE, arrays_of(small_model()))
    found = CausalLM(tmp_path / "m.gguf", device="cpu")
    assert found.tokenizer.encode("she she q") == [8, 8, 5, 9]
    assert found.tokenizer.decode([0, 8, 8], skip_special_tokens=True) == "she she"
    assert found.token_ids(["she she"])[0].spans.tolist() == [[0, 3], [4, 7]]


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("tokenizer.ggml.scores", [0.0], "with 1 scores"),
        ("tokenizer.ggml.scores", "x", "a list of numbers"),
        ("tokenizer.ggml.tokens", ["s"] * 10, "1 of them different"),
        ("tokenizer.ggml.add_space_prefix", False, "no blank before a text"),
    ],
)
def test_odd_sentencepiece_tokenizers_are_refused(tmp_path, name: str, value, says: str) -> None:
    write_gguf(tmp_path / "m.gguf", FACTS | SENTENCEPIECE | {name: value}, arrays_of(small_model()))
    with pytest.raises(FormatError, match=rf"m\.gguf.*{says}"):
        CausalLM(tmp_path / "m.gguf", device="cpu")


def test_a_gguf_file_becomes_a_folder(tmp_path) -> None:
    write_gguf(tmp_path / "m.gguf", FACTS, arrays_of(small_model()))
    folder = convert_gguf(tmp_path / "m.gguf", tmp_path / "out")
    ids = torch.tensor([[0, 5, 7, 2, 9, 3]])
    with torch.no_grad():
        before, after = (CausalLM(place, device="cpu").model(ids).logits for place in (tmp_path / "m.gguf", folder))
    torch.testing.assert_close(before, after)
    assert CausalLM(folder, device="cpu").tokenizer.encode("she she q") == [7, 8, 5, 9]
    with pytest.raises(OutputError, match="not empty"):
        convert_gguf(tmp_path / "m.gguf", folder)


@pytest.mark.parametrize(
    ("kind", "raw", "expected"),
    [
        (2, struct.pack("<e", 0.5) + bytes([0x19] * 16), [(9 - 8) * 0.5] * 16 + [(1 - 8) * 0.5] * 16),
        (3, struct.pack("<ee", 0.5, -1.0) + bytes([0x2F] * 16), [15 * 0.5 - 1] * 16 + [2 * 0.5 - 1] * 16),
        (8, struct.pack("<e32b", 0.25, *range(-16, 16)), [i * 0.25 for i in range(-16, 16)]),
        (1, struct.pack("<32e", *range(32)), list(range(32))),
        (30, b"".join(struct.pack("<f", i)[2:] for i in range(32)), list(range(32))),
    ],
    ids=["Q4_0", "Q4_1", "Q8_0", "F16", "BF16"],
)
def test_gguf_numbers_by_hand(tmp_path, kind: int, raw: bytes, expected: list) -> None:
    assert len(raw) == NUMBER_TYPES[kind][2] * (32 // NUMBER_TYPES[kind][1])
    write_gguf(
        tmp_path / "a.gguf", {"general.architecture": "x"}, {"w": (kind, (1, 32), raw), "v": (0, (1,), b"\0\0\x80?")}
    )
    file = open_gguf(tmp_path / "a.gguf")
    np.testing.assert_allclose(file.array("w"), [expected])
    np.testing.assert_allclose(file.array("v"), [1.0])


def test_broken_gguf_files_are_named(tmp_path) -> None:
    path = tmp_path / "m.gguf"
    write_gguf(path, FACTS, arrays_of(small_model()))
    whole = path.read_bytes()
    for cut in (10, 100, 600):
        path.write_bytes(whole[:cut])
        with pytest.raises(FormatError, match=r"m\.gguf"):
            CausalLM(path)
    path.write_bytes(whole[:-50])
    with pytest.raises(FormatError, match="ends inside the array"):
        CausalLM(path)
    path.write_bytes(b"GGML" + whole[4:])
    with pytest.raises(FormatError, match="does not begin with GGUF"):
        CausalLM(path)
    path.write_bytes(whole[:4] + struct.pack("<I", 9) + whole[8:])
    with pytest.raises(FormatError, match="version 9"):
        CausalLM(path)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"general.architecture": "mamba"}, "'mamba'"),
        ({"tokenizer.ggml.model": "llama"}, "tokenizer of the kind 'llama'"),
        ({"tokenizer.ggml.pre": "other"}, "'other'"),
    ],
)
def test_gguf_of_another_kind_says_how_to_convert(tmp_path, change: dict, says: str) -> None:
    write_gguf(tmp_path / "m.gguf", FACTS | change, arrays_of(small_model()))
    with pytest.raises(FormatError, match=says) as told:
        CausalLM(tmp_path / "m.gguf")
    assert "pip install gguf" in told.value.hint


def test_gguf_of_another_number_type(tmp_path) -> None:
    arrays = arrays_of(small_model())
    arrays["token_embd.weight"] = (99, *arrays["token_embd.weight"][1:])
    write_gguf(tmp_path / "m.gguf", FACTS, arrays)
    with pytest.raises(FormatError, match="type 99, which is not supported"):
        CausalLM(tmp_path / "m.gguf")


@pytest.mark.parametrize("alignment", [0, "32", [32], float("inf"), 1 << 30])
def test_odd_alignments_are_refused(tmp_path, alignment) -> None:
    write_gguf(tmp_path / "m.gguf", FACTS | {"general.alignment": alignment}, {})
    with pytest.raises(FormatError, match=r"m\.gguf: .*alignment"):
        open_gguf(tmp_path / "m.gguf")


@pytest.mark.parametrize("shape", [(), (0, 32), (1, 31), (2, 2, 2), (1 << 40, 32), (1 << 62, 1 << 62)])
def test_odd_shapes_are_refused(tmp_path, shape) -> None:
    arrays = {**arrays_of(small_model()), "token_embd.weight": (8, shape, bytes(34))}
    write_gguf(tmp_path / "m.gguf", FACTS, arrays)
    with pytest.raises(FormatError, match=r"m\.gguf"):
        open_gguf(tmp_path / "m.gguf").array("token_embd.weight")
    with pytest.raises(FormatError, match=r"m\.gguf"):
        CausalLM(tmp_path / "m.gguf", device="cpu")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("llama.block_count", 10**7), ("llama.block_count", 0), ("llama.block_count", "two"), ("llama.block_count", 1),
        ("llama.attention.head_count", 0), ("llama.attention.head_count", 3), ("llama.attention.head_count", [4]),
        ("llama.embedding_length", 1.5), ("llama.embedding_length", 10**9), ("llama.context_length", "x"),
        ("llama.attention.layer_norm_rms_epsilon", float("nan")), ("llama.rope.freq_base", "x"),
        ("tokenizer.ggml.tokens", "she"), ("tokenizer.ggml.tokens", [1, 2]), ("tokenizer.ggml.merges", ["sh"]),
        ("tokenizer.ggml.merges", ["x y"]), ("tokenizer.ggml.bos_token_id", 99), ("tokenizer.ggml.bos_token_id", "0"),
        ("tokenizer.ggml.token_type", "x"), ("tokenizer.ggml.model", 3), ("general.architecture", [1]),
    ],
)  # fmt: skip
def test_odd_metadata_are_refused(tmp_path, name: str, value) -> None:
    write_gguf(tmp_path / "m.gguf", FACTS | {name: value}, arrays_of(small_model()))
    with pytest.raises(FormatError, match=r"m\.gguf"):
        CausalLM(tmp_path / "m.gguf", device="cpu")


@pytest.mark.parametrize("name", ["blk.1.ffn_up.weight", "output_norm.weight", "token_embd.weight"])
def test_a_gguf_file_without_some_of_the_weights_is_refused(tmp_path, name: str) -> None:
    """Opened by `transformers` alone, the model has random weights in their place."""
    arrays = arrays_of(small_model())
    del arrays[name]
    write_gguf(tmp_path / "m.gguf", FACTS, arrays)
    with pytest.raises(FormatError, match=r"m\.gguf"):
        CausalLM(tmp_path / "m.gguf", device="cpu")


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
