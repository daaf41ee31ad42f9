"""Whole models: folders of several files, GGUF and ONNX files, and what servers answer.

The bytes of the fuzzer are JSON, which is turned into files here, so that mutations change what a file says and seldom
whether it can be parsed; bytes that are no JSON go into the file as they are.
"""

from __future__ import annotations

import functools
import json
import shutil
import struct
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import fuzz_seeds as seeds
import numpy as np
from fuzz_targets import JSON_TOKENS, target

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "she", "he", "a", "nurse", "##s"]
TEXTS = ["She is a nurse.", "he snow \u2603", ""]


# Model folders -----------------------------------------------------------------------------------------------------

CONFIG = {
    "architectures": ["BertForSequenceClassification"], "model_type": "bert", "vocab_size": len(PIECES), "hidden_size": 4,
    "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 4, "max_position_embeddings": 12,
    "type_vocab_size": 2, "hidden_act": "gelu", "pad_token_id": 0, "id2label": {"0": "a", "1": "b"},
    "label2id": {"a": 0, "b": 1}, "dtype": "float32", "tie_word_embeddings": True, "is_encoder_decoder": False,
}  # fmt: skip
TOKENIZER = {
    "version": "1.0", "truncation": None, "padding": None,
    "added_tokens": [
        {"id": row, "content": piece, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
         "special": True} for row, piece in enumerate(PIECES[:2])
    ],
    "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
                   "lowercase": True},
    "pre_tokenizer": {"type": "BertPreTokenizer"},
    "post_processor": {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]}},
    },
    "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
    "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
              "max_input_chars_per_word": 100, "vocab": {piece: row for row, piece in enumerate(PIECES)}},
}  # fmt: skip
TOKENIZER_CONFIG = {
    "tokenizer_class": "BertTokenizer", "model_max_length": 12, "unk_token": "[UNK]", "pad_token": "[PAD]",
    "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]", "do_lower_case": True,
}  # fmt: skip


def _shapes() -> dict[str, list[int]]:
    layer = "bert.encoder.layer.0."
    square = ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense",
              "intermediate.dense", "output.dense")  # fmt: skip
    shapes = {"bert.embeddings.word_embeddings.weight": [len(PIECES), 4]}
    shapes |= {"bert.embeddings.position_embeddings.weight": [12, 4]}
    shapes |= {"bert.embeddings.token_type_embeddings.weight": [2, 4]}
    for name in (*(layer + name for name in square), "bert.pooler.dense"):
        shapes |= {f"{name}.weight": [4, 4], f"{name}.bias": [4]}
    for name in (f"{layer}attention.output.LayerNorm", f"{layer}output.LayerNorm", "bert.embeddings.LayerNorm"):
        shapes |= {f"{name}.weight": [4], f"{name}.bias": [4]}
    return shapes | {"classifier.weight": [2, 4], "classifier.bias": [2]}


@functools.cache
def folders() -> list[bytes]:
    """Return a model as five lines of JSON (configuration, tokenizer, its settings, index, header) and the numbers."""
    header, place = {}, 0
    for name, shape in _shapes().items():
        size = 4 * int(np.prod(shape))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [place, place + size]}
        place += size
    index = {"metadata": {}, "weight_map": dict.fromkeys(header, "model.safetensors")}
    lines = [json.dumps(part).encode() for part in (CONFIG, TOKENIZER, TOKENIZER_CONFIG, index, header)]
    return [b"\n".join(lines) + b"\0" + (np.arange(place // 4, dtype="<f4") / 1000).tobytes()]


def write_folder(data: bytes, folder: Path) -> None:
    """Write the files of a model."""
    head, _, numbers = data.partition(b"\0")
    lines = (head.split(b"\n") + [b""] * 5)[:5]
    names = ("config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors.index.json")
    for name, line in zip(names, lines[:4], strict=True):
        (folder / name).write_bytes(line)
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(lines[4])) + lines[4] + numbers)
    if len(lines[3]) % 2:  # either the single file or the index is read
        (folder / "model.safetensors.index.json").unlink()


@target("model-folder", "folder.bin", folders, tokens=JSON_TOKENS, needs=("torch", "transformers"))
def _folder(path: Path) -> object:
    """Open a folder as a subject, and ask each view that it offers."""
    import evenhand as eh

    folder = path.parent / "model"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    write_folder(path.read_bytes(), folder)
    subject = eh.open(f"hf:{folder}", device="cpu")
    asked: list[object] = []
    if "labels" in subject.offers:
        asked.append(subject.view("labels").predict(TEXTS))
    if "sentences" in subject.offers:
        asked.append(subject.view("sentences").encode(TEXTS))
    if "likelihood" in subject.offers:
        asked.append(subject.view("likelihood").log_probabilities(TEXTS[:2]))
    if "vectors" in subject.offers:
        asked.append(subject.view("vectors"))
    return asked


# GGUF --------------------------------------------------------------------------------------------------------------

FACTS: dict[str, object] = {
    "general.architecture": "llama", "llama.block_count": 1, "llama.context_length": 16, "llama.embedding_length": 4,
    "llama.feed_forward_length": 4, "llama.attention.head_count": 2, "llama.attention.head_count_kv": 1,
    "llama.attention.layer_norm_rms_epsilon": 1e-5, "llama.rope.freq_base": 10000.0, "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.tokens": ["<s>", "</s>", "s", "h", "e", "\u0120", "sh", "she"],
    "tokenizer.ggml.token_type": [3, 3, 1, 1, 1, 1, 1, 1], "tokenizer.ggml.merges": ["s h", "sh e"],
    "tokenizer.ggml.bos_token_id": 0, "tokenizer.ggml.eos_token_id": 1,
    "tokenizer.chat_template": "{% for m in messages %}{{ m.content }}{% endfor %}",
}  # fmt: skip
ARRAYS: dict[str, list[int]] = {
    "token_embd.weight": [8, 4], "output_norm.weight": [4], "blk.0.attn_q.weight": [4, 4], "blk.0.attn_k.weight": [2, 4],
    "blk.0.attn_v.weight": [2, 4], "blk.0.attn_output.weight": [4, 4], "blk.0.attn_norm.weight": [4],
    "blk.0.ffn_gate.weight": [4, 4], "blk.0.ffn_up.weight": [4, 4], "blk.0.ffn_down.weight": [4, 4],
    "blk.0.ffn_norm.weight": [4],
}  # fmt: skip


def _packed(text: object) -> bytes:
    raw = str(text).encode("utf-8", "surrogatepass")
    return struct.pack("<Q", len(raw)) + raw


def _typed(value: object) -> tuple[int, bytes]:
    if isinstance(value, bool):
        return 7, struct.pack("<?", value)
    if isinstance(value, int):
        return (4, struct.pack("<I", value)) if 0 <= value < 1 << 32 else (11, struct.pack("<q", value % (1 << 63)))
    if isinstance(value, float):
        return 12, struct.pack("<d", value)
    if isinstance(value, list):
        parts = [_typed(item) for item in value] or [(4, b"")]
        return 9, struct.pack("<IQ", parts[0][0], len(value)) + b"".join(raw for _, raw in parts)
    return 8, _packed(value)


def gguf_file(data: bytes) -> bytes:
    """Return a GGUF file of {"facts": {...}, "arrays": {name: shape}}; bytes that are not that stay as they are."""
    try:
        parts = json.loads(data)
        facts, arrays = parts["facts"], parts["arrays"]
        head = struct.pack("<4sIQQ", b"GGUF", 3, len(arrays), len(facts))
        for name, value in facts.items():
            kind, raw = _typed(value)
            head += _packed(name) + struct.pack("<I", kind) + raw
        numbers = b""
        for name, shape in arrays.items():
            numbers += bytes(-len(numbers) % 32)
            sizes = b"".join(struct.pack("<Q", size) for size in reversed(shape))
            head += _packed(name) + struct.pack("<I", len(shape)) + sizes + struct.pack("<IQ", 0, len(numbers))
            numbers += (np.arange(min(4096, int(np.prod(shape)))) / 100).astype("<f4").tobytes()
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError, struct.error):
        return data
    return head + bytes(-len(head) % 32) + numbers


@target(
    "gguf-model", "m.gguf", lambda: [json.dumps({"facts": FACTS, "arrays": ARRAYS}).encode()], wrap=gguf_file,
    tokens=JSON_TOKENS, needs=("torch", "transformers", "gguf"),
)  # fmt: skip
def _gguf_model(path: Path) -> object:
    """Build the model and its tokenizer, and read a text with both."""
    from evenhand.models.lm.causal import CausalLM

    model = CausalLM(path, device="cpu")
    return model.log_probabilities(["she"])


# ONNX --------------------------------------------------------------------------------------------------------------


def _bert_tensors() -> dict[str, list[int]]:
    layer = "encoder.layer.0."
    shapes = {
        "embeddings.word_embeddings.weight": [3, 4],
        "embeddings.position_embeddings.weight": [6, 4],
        "embeddings.token_type_embeddings.weight": [2, 4],
        "embeddings.LayerNorm.weight": [4],
        "embeddings.LayerNorm.bias": [4],
        "onnx::MatMul_1": [4, 6],
    }
    return shapes | {f"{layer}intermediate.dense.bias": [6]}


ONNX = {
    "tensors": {name: {"type": 1, "shape": shape} for name, shape in _bert_tensors().items()},
    "nodes": [
        {"op": "MatMul", "name": "/encoder/layer.0/intermediate/dense/MatMul", "inputs": ["x", "onnx::MatMul_1"]},
        {"op": "Constant", "name": "c1", "outputs": ["h"], "value": 2},
        {"op": "Constant", "name": "c2", "outputs": ["d"], "value": 2},
        {"op": "Concat", "name": "/encoder/layer.0/attention/self/Concat", "inputs": ["a", "b", "h", "d"]},
    ],
    "config": {"hidden_act": "gelu", "vocab_size": 3},
    "vocabulary": "[UNK]\na\nb\n",
}  # fmt: skip
QUANTISED = {
    **ONNX,
    "tensors": ONNX["tensors"]
    | {"onnx::MatMul_1_quantized": {"type": 3, "shape": [4, 6]}, "onnx::MatMul_1_scale": {"type": 1, "shape": []}}
    | {"onnx::MatMul_1_zero_point": {"type": 3, "shape": []}},
    "nodes": [{**ONNX["nodes"][0], "op": "MatMulInteger", "inputs": ["x", "onnx::MatMul_1_quantized"]}, *ONNX["nodes"][1:]],
}  # fmt: skip
LLAMA = {
    "tensors": {
        name: {"type": 1, "shape": [4] if "norm" in name else [4, 4]}
        for name in ("model.embed_tokens.weight", "model.norm.weight", "model.layers.0.input_layernorm.weight",
                     "model.layers.0.post_attention_layernorm.weight", "m")
    },
    "nodes": [
        {"op": "MatMul", "name": f"/model/layers.0/{part.replace('.', '/')}/MatMul", "inputs": ["x", "m"]}
        for part in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj",
                     "mlp.up_proj", "mlp.down_proj")
    ],
    "config": {"model_type": "llama", "num_hidden_layers": 1, "vocab_size": 4, "hidden_size": 4},
    "vocabulary": "",
}  # fmt: skip


def onnx_parts() -> list[bytes]:
    """Return graphs of BERT, of BERT in 8 bits, and of Llama, as JSON."""
    return [json.dumps(parts).encode() for parts in (ONNX, QUANTISED, LLAMA)]


def _onnx_graph(parts: Mapping[str, Any]) -> bytes:
    graph = b""
    for node in parts["nodes"]:
        body = b"".join(seeds.proto(1, str(name).encode()) for name in node.get("inputs", ()))
        body += b"".join(seeds.proto(2, str(name).encode()) for name in node.get("outputs", ()))
        body += seeds.proto(3, str(node.get("name", "")).encode()) + seeds.proto(4, str(node.get("op", "")).encode())
        if "value" in node:
            value = seeds.proto(1, 1) + seeds.proto(2, 7) + seeds.proto(9, struct.pack("<q", int(node["value"])))
            body += seeds.proto(5, seeds.proto(1, b"value") + seeds.proto(5, value))
        graph += seeds.proto(1, body)
    for name, info in parts["tensors"].items():
        shape, size = list(info["shape"]), {3: 1, 2: 1, 7: 8, 10: 2, 11: 8}.get(info["type"], 4)
        raw = bytes(min(1 << 14, size * int(np.prod([abs(int(side)) for side in shape]))))
        dims = b"".join(seeds.proto(1, int(side) % (1 << 64)) for side in shape)
        graph += seeds.proto(
            5, dims + seeds.proto(2, int(info["type"])) + seeds.proto(8, str(name).encode()) + seeds.proto(9, raw)
        )
    return seeds.proto(7, graph)


@target("onnx-import", "parts.json", onnx_parts, tokens=JSON_TOKENS)
def _onnx_import(path: Path) -> object:
    """Convert a graph into a folder, as `evenhand convert` does."""
    from evenhand.models.onnx_import import import_onnx

    folder = path.parent / "onnx"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    content = path.read_bytes()
    try:
        parts = json.loads(content)
        content = _onnx_graph(parts)
        (folder / "config.json").write_text(json.dumps(parts["config"]))
        (folder / "vocab.txt").write_text(parts["vocabulary"], errors="replace")
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError, struct.error):
        (folder / "vocab.txt").write_text("[UNK]\n")
    (folder / "m.onnx").write_bytes(content)
    with tempfile.TemporaryDirectory(dir=folder) as out:
        return import_onnx(folder / "m.onnx", out)


# Servers -----------------------------------------------------------------------------------------------------------

LOGS = {
    "tokens": ["My", " favourite", " colour", " is", " blue", "!"],
    "token_logprobs": [None, -1.0, -2.0, -1.5, -0.5, -1],
}
OTHER = {"tokens": ["He", " opened the door and", " was", " blue"], "token_logprobs": [None, -2.0, -1.0, -4.0]}
TOKEN_LIST = [{"id": 1, "piece": "My"}, {"id": 2, "piece": [240, 159]}, {"id": 3, "piece": " blue"}]
TOP = [{"id": 1, "token": "a", "logprob": -1.0986122886681098}, {"id": 2, "token": "b", "logprob": -1.0986122886681098},
       {"id": 3, "token": "c", "logprob": -1.0986122886681098}]  # fmt: skip
CHOICE = {"index": 0, "message": {"role": "assistant", "content": "Yes."}, "finish_reason": "stop"}
FIRST = {"content": [{"token": "yes", "logprob": -0.2, "top_logprobs": [
    {"token": "yes", "logprob": -0.2}, {"token": "no", "logprob": -2.0}, {"token": " A", "logprob": -3.0}]}]}  # fmt: skip
USAGE = {"prompt_tokens": 7, "completion_tokens": 2}
ANSWERS = {
    "models": {"data": [{"id": "m", "owned_by": "x", "max_model_len": 4096, "meta": {"n_ctx": 4096}}]},
    "chat": {"choices": [{**CHOICE, "logprobs": FIRST}], "usage": USAGE},
    "completion": {"choices": [{"text": " she came."}], "usage": USAGE},
    "echo": {"choices": [{"text": "", "logprobs": LOGS}]},
    "echo-other": {"choices": [{"text": "", "logprobs": OTHER}]},
    "tokenize": {"tokens": TOKEN_LIST},
    "forced": {"completion_probabilities": [{"id": 3, "logprob": -1.0986122886681098, "top_logprobs": TOP}]},
    "props": {"bos_token": "<s>", "eos_token": "</s>"},
}  # fmt: skip


def answers() -> list[bytes]:
    """Return what a server answers to each route: one that echoes prompts, and one like llama.cpp, that does not."""
    return [json.dumps(ANSWERS).encode(), json.dumps({**ANSWERS, "echo": {"choices": [{"text": "x"}]}}).encode()]


def _client(parts: Mapping[str, Any]) -> Any:
    from evenhand.models.endpoint.client import Client, _parsed

    class ScriptedClient(Client):
        """Answers each route as the file says; nothing is sent."""

        def _answer(self, route: str, body: Mapping[str, Any] | None) -> Any:
            name = {
                "/models": "models",
                "/chat/completions": "chat",
                "!/tokenize": "tokenize",
                "!/completion": "forced",
            }
            key = name.get(route, "props")
            if route == "/completions":
                key = "completion" if not (body or {}).get("echo") else "echo"
                key += "-other" if key == "echo" and str((body or {})["prompt"]).startswith("He") else ""
            answer = parts.get(key) if isinstance(parts, dict) else parts
            text = json.dumps(answer)
            if key == "forced" and body and "logit_bias" in body:  # 3 stands for the token that was asked for
                text = text.replace('"id": 3', f'"id": {body["logit_bias"][0][0]}', 1)
            return _parsed(text.encode(), self.base, route)

        def get(self, route: str) -> Any:
            return self._answer(route, None)

        def post(self, route: str, body: Any) -> Any:
            answer = self._answer(route, body)
            self.traffic.count(answer)
            return answer

        def post_all(self, requests: Sequence[Any], *, read: Callable[..., Any], **options: Any) -> list[Any]:
            return [read(request, self.post(request.route, request.body)) for request in requests]

    return ScriptedClient("http://127.0.0.1:9/v1")


@target("endpoint-answers", "answers.json", answers, tokens=JSON_TOKENS, needs=("httpx", "tenacity"))
def _answers(path: Path) -> object:
    """Ask a server what it can do, and use each view that it offers."""
    from evenhand.errors import FormatError
    from evenhand.models.endpoint.server import fingerprint, inspect_server
    from evenhand.models.endpoint.views import RemoteChat, RemoteLikelihood, RemoteModel, RemoteWriter
    from evenhand.models.lm.chat import user

    try:
        parts = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        raise FormatError("no answers") from None
    client = _client(parts)
    server = inspect_server(client)
    model = RemoteModel(client, server, fingerprint(client, server))
    said: list[object] = [json.dumps(server.to_dict())]
    if server.chat:
        chat = RemoteChat(model)
        said += [chat.choose([user("Yes or no?")], ["yes", "no"], samples=2), chat.answer([user("Hi")])]
    if server.completion:
        said.append(RemoteWriter(model).continuations(["The"], samples=1, tokens=4))
    if server.likelihood:
        said.append(RemoteLikelihood(model).log_probabilities(["My favourite colour is blue"]))
    return said


@target("endpoint-kept", "answers.jsonl", lambda: [_kept()], tokens=JSON_TOKENS)
def _kept_answers(path: Path) -> object:
    """Read the answers that an earlier run kept."""
    from evenhand.models.endpoint.client import AnswerStore

    store = AnswerStore(path.parent)
    return len(store), store.get("k"), store.damaged


def _kept() -> bytes:
    from evenhand.models.endpoint.client import _digest

    content = json.dumps(ANSWERS["chat"])
    return json.dumps(["k", content, _digest("k", content)]).encode() + b"\n" + b'["torn", "x"'
