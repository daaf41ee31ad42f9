"""GGUF files: the model and tokenizer they become, conversion into folders, and what hostile files say."""

import json
import struct
import warnings
from pathlib import Path

import numpy as np
import pytest

from evenhand.errors import FormatError, OutputError

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
package = pytest.importorskip("gguf")

from evenhand.models.gguf import convert_gguf, open_gguf, read_gguf  # noqa: E402
from evenhand.models.lm.causal import CausalLM  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def _no_foreign_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def small_model():
    torch.manual_seed(1)
    config = transformers.LlamaConfig(
        vocab_size=10, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, bos_token_id=0, eos_token_id=1, tie_word_embeddings=True,
        rms_norm_eps=1e-5, initializer_range=0.4,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config).eval()


def plain(model, text: str) -> list[int]:
    return model.tokenizer.encode(text, add_special_tokens=False)


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
    assert plain(found, "she she q") == [7, 8, 5, 9]
    assert found.tokenizer.decode([0, 7, 8], skip_special_tokens=True) == "she she"
    assert found.window == 64


SENTENCEPIECE = {name: value for name, value in FACTS.items() if name != "tokenizer.ggml.merges"} | {
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
    write_gguf(tmp_path / "m.gguf", SENTENCEPIECE, arrays_of(small_model()))
    found = CausalLM(tmp_path / "m.gguf", device="cpu")
    assert plain(found, "she she q") == [8, 8, 5, 9]
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
    write_gguf(tmp_path / "m.gguf", SENTENCEPIECE | {name: value}, arrays_of(small_model()))
    with pytest.raises(FormatError, match=rf"m\.gguf.*{says}"):
        CausalLM(tmp_path / "m.gguf", device="cpu")


def test_a_gguf_file_becomes_a_folder(tmp_path) -> None:
    write_gguf(tmp_path / "m.gguf", FACTS, arrays_of(small_model()))
    folder = convert_gguf(tmp_path / "m.gguf", tmp_path / "out")
    ids = torch.tensor([[0, 5, 7, 2, 9, 3]])
    with torch.no_grad():
        before, after = (CausalLM(place, device="cpu").model(ids).logits for place in (tmp_path / "m.gguf", folder))
    torch.testing.assert_close(before, after)
    assert plain(CausalLM(folder, device="cpu"), "she she q") == [7, 8, 5, 9]
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
        ({"general.architecture": "whisper", "whisper.block_count": 2}, "'whisper'"),
        ({"tokenizer.ggml.model": "rwkv", "tokenizer.ggml.scores": [0.0] * 10}, "tokenizer of the kind 'rwkv'"),
        ({"tokenizer.ggml.pre": "other"}, "'other'"),
    ],
)
def test_gguf_of_another_kind_names_what_to_use(tmp_path, change: dict, says: str) -> None:
    write_gguf(tmp_path / "m.gguf", FACTS | change, arrays_of(small_model()))
    with pytest.raises(FormatError, match=says) as told:
        CausalLM(tmp_path / "m.gguf")
    assert "the Hugging Face folder" in told.value.hint


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
        ("llama.attention.head_count", 0), ("llama.attention.head_count", 3), ("llama.attention.head_count", [4, 3]),
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


def test_a_file_with_factors_of_the_positions_is_refused(tmp_path) -> None:
    """Llama 3.1 stores them; transformers leaves them out, and every score would be slightly wrong."""
    arrays = {**arrays_of(small_model()), "rope_freqs.weight": (0, (2,), bytes(8))}
    write_gguf(tmp_path / "m.gguf", FACTS, arrays)
    with pytest.raises(FormatError, match=r"m\.gguf: scales its positions by rope_freqs\.weight"):
        CausalLM(tmp_path / "m.gguf", device="cpu")


def test_the_view_has_the_chat_template_of_the_file(tmp_path) -> None:
    template = "{% for message in messages %}{{ message.content }}{% endfor %}"
    write_gguf(tmp_path / "m.gguf", FACTS | {"tokenizer.chat_template": template}, arrays_of(small_model()))
    assert CausalLM(tmp_path / "m.gguf", device="cpu").chat_template == template
    folder = convert_gguf(tmp_path / "m.gguf", tmp_path / "out")
    assert CausalLM(folder, device="cpu").chat_template == template
    write_gguf(tmp_path / "m.gguf", FACTS, arrays_of(small_model()))
    assert CausalLM(tmp_path / "m.gguf", device="cpu").chat_template is None


def test_files_beside_it_do_not_matter(tmp_path) -> None:
    """transformers would take the adapter, the class of the tokenizer and its settings from them."""
    write_gguf(tmp_path / "m.gguf", FACTS, arrays_of(small_model()))
    (tmp_path / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "evil/model"}))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "Evil", "bos_token": "q"}))
    found = CausalLM(tmp_path / "m.gguf", device="cpu")
    assert found.tokenizer.bos_token == "<s>"


def test_single_digits_are_split_where_the_file_says_so(tmp_path) -> None:
    tokens = ["<s>", "</s>", "1", "2", "12", "Ġ", "Ġ1", "a", "b", "c"]
    merges = {"tokenizer.ggml.tokens": tokens, "tokenizer.ggml.merges": ["1 2", "Ġ 1"]}
    write_gguf(tmp_path / "m.gguf", FACTS | merges, arrays_of(small_model()))
    assert plain(CausalLM(tmp_path / "m.gguf", device="cpu"), "12 1") == [4, 6]
    write_gguf(tmp_path / "m.gguf", FACTS | merges | {"tokenizer.ggml.pre": "smollm"}, arrays_of(small_model()))
    assert plain(CausalLM(tmp_path / "m.gguf", device="cpu"), "12 1") == [2, 3, 5, 2]


def test_long_vocabularies_are_counted_and_the_reader_is_restored(tmp_path) -> None:
    """Lists of more than 4,096 values pass the reader of the package in one step."""
    rows = 5000
    tokens = ["<s>", "</s>", "w", "1", *(f"w{number}" for number in range(rows - 4))]
    model = small_model()
    model.resize_token_embeddings(rows, mean_resizing=False)
    facts = FACTS | {
        "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": [3, 3, *[1] * (rows - 2)],
        "tokenizer.ggml.scores": [0.0] * rows, "tokenizer.ggml.merges": ["w 1"],
    }  # fmt: skip
    write_gguf(tmp_path / "m.gguf", facts, arrays_of(model))
    before = package.GGUFReader
    found = read_gguf(tmp_path / "m.gguf", torch.float32)
    assert package.GGUFReader is before
    assert found.model.config.vocab_size == rows
    assert found.notes == ()


@pytest.mark.parametrize("architecture", ["qwen2", "gemma3"])
def test_other_architectures(tmp_path, architecture: str) -> None:
    if architecture == "qwen2":
        kind, extra = (transformers.Qwen2Config, transformers.Qwen2ForCausalLM), {}
        names = NAMES
    else:
        kind, extra = (transformers.Gemma3TextConfig, transformers.Gemma3ForCausalLM), {"head_dim": 4}
        names = NAMES | {
            "post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
            "post_feedforward_layernorm": "post_ffw_norm", "self_attn.q_norm": "attn_q_norm",
            "self_attn.k_norm": "attn_k_norm",
        }  # fmt: skip
    torch.manual_seed(1)
    config = kind[0](
        vocab_size=10, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, tie_word_embeddings=True, rms_norm_eps=1e-5,
        initializer_range=0.4, **extra,
    )  # fmt: skip
    model = kind[1](config).eval()
    facts = {name.replace("llama", architecture): value for name, value in FACTS.items()}
    facts |= {"general.architecture": architecture, f"{architecture}.rope.freq_base": float(_theta(model))}
    facts |= {"gemma3.attention.key_length": 4, "gemma3.attention.sliding_window": 512} if extra else {}
    arrays = {}
    for name, tensor in model.state_dict().items():
        weight = tensor.numpy() + (1 if extra and "norm" in name else 0)  # Gemma's are stored with one added
        if name == "lm_head.weight":
            continue
        if name.startswith("model.layers."):
            _, _, layer, *rest = name.split(".")
            theirs = f"blk.{layer}.{names['.'.join(rest[:-1])]}.{rest[-1]}"
        else:
            theirs = name.replace("model.embed_tokens", "token_embd").replace("model.norm", "output_norm")
        arrays[theirs] = (0, weight.shape, np.ascontiguousarray(weight, dtype="<f4").tobytes())
    write_gguf(tmp_path / "m.gguf", facts, arrays)
    found = CausalLM(tmp_path / "m.gguf", device="cpu")
    ids = torch.tensor([[0, 5, 7, 2, 9, 3]])
    with torch.no_grad():
        torch.testing.assert_close(found.model(ids).logits, model(ids).logits, rtol=1e-4, atol=1e-5)


def _theta(model) -> float:
    rope = model.config.rope_parameters
    return rope.get("rope_theta") or rope["full_attention"]["rope_theta"]


def test_the_verb_convert_takes_gguf_files(tmp_path) -> None:
    from typer.testing import CliRunner

    from evenhand.cli import app

    write_gguf(tmp_path / "m.gguf", FACTS, arrays_of(small_model()))
    result = CliRunner().invoke(app, ["convert", str(tmp_path / "m.gguf"), str(tmp_path / "out"), "--json"])
    assert result.exit_code == 0
    assert (tmp_path / "out" / "model.safetensors").is_file()
    labelled = CliRunner().invoke(
        app, ["convert", str(tmp_path / "m.gguf"), str(tmp_path / "other"), "--labels", "no,yes"]
    )
    assert labelled.exit_code == 2
    assert "--labels applies to classifiers" in labelled.stderr
