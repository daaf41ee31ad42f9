"""A real llama.cpp server on loopback, with a tiny model that the test writes: what it says is what the file says."""

from __future__ import annotations

import socket
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("httpx")
pytest.importorskip("tenacity")
pytest.importorskip("torch")
package = pytest.importorskip("gguf")
xllamacpp = pytest.importorskip("xllamacpp")

import evenhand as eh  # noqa: E402
from evenhand.models.lm.chat import user  # noqa: E402

sys.path.insert(0, str(Path(__file__).parents[1]))
from test_gguf import arrays_of  # noqa: E402

TEMPLATE = "{% for m in messages %}{{ m['content'] }}{% endfor %} she"
FLOAT32 = 0  # of ggml
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,:;!?-+/'"


@pytest.fixture(scope="module")
def gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama of two layers whose vocabulary spells every plain text, letter by letter."""
    import torch
    import transformers

    pieces = ["<s>", "</s>", *LETTERS, "\u0120", "\u010a", "sh", "she", "\u0120she"]
    torch.manual_seed(2)
    config = transformers.LlamaConfig(
        vocab_size=len(pieces), hidden_size=64, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=512, bos_token_id=0, eos_token_id=1, tie_word_embeddings=True,
        rms_norm_eps=1e-5, initializer_range=0.1,
    )  # fmt: skip
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    writer = package.GGUFWriter(path, "llama")
    writer.add_block_count(2)
    writer.add_context_length(512)
    writer.add_embedding_length(64)
    writer.add_feed_forward_length(64)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_rope_dimension_count(16)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(pieces)
    writer.add_token_types([3, 3] + [1] * (len(pieces) - 2))
    writer.add_token_merges(["s h", "sh e", "\u0120 she"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_chat_template(TEMPLATE)
    for name, (_, shape, content) in arrays_of(transformers.LlamaForCausalLM(config).eval()).items():
        writer.add_tensor(name, np.frombuffer(content, dtype="<f4").reshape(shape))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture(scope="module")
def address(gguf: Path) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    params = xllamacpp.CommonParams()
    params.model.path, params.port, params.n_ctx, params.n_parallel = str(gguf), port, 1024, 2
    params.cache_type_k = params.cache_type_v = FLOAT32  # half precision would round the log-probabilities
    params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    server: Any = xllamacpp.Server(params)
    yield f"openai:http://127.0.0.1:{port}/v1"
    del server


@pytest.fixture(autouse=True)
def _no_foreign_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def test_a_real_server_offers_chat_and_likelihood(address: str, gguf: Path) -> None:
    subject, file = eh.open(address), eh.open(gguf)
    assert {"chat", "likelihood", "generation", "text"} <= set(subject.offers)
    assert "chat" in file.offers
    assert subject.server.forced
    assert not subject.server.echo  # it accepts echo, and ignores it


def test_log_probabilities_are_those_of_the_file(address: str, gguf: Path) -> None:
    texts = ["she said no.", "He ran, she sat.", "A"]
    remote = eh.open(address).view("likelihood").token_log_probabilities(texts)
    local = eh.open(gguf).view("likelihood").token_log_probabilities(texts)
    for ours, theirs in zip(remote, local, strict=True):
        assert ours.ids.tolist() == theirs.ids.tolist()
        assert ours.spans.tolist() == theirs.spans.tolist()
        np.testing.assert_allclose(ours.log_probabilities, theirs.log_probabilities, atol=1e-3)


def test_choices_are_those_of_the_file(address: str, gguf: Path) -> None:
    asked = [user("A or B?"), user("B or A?")]
    remote, local = (eh.open(place).view("chat").choose(asked, ["A", "B"]) for place in (address, gguf))
    np.testing.assert_allclose(remote.probabilities, local.probabilities, atol=1e-3)
    np.testing.assert_allclose(remote.probabilities.sum(axis=1) + remote.none, 1.0)


def test_answers_at_temperature_zero_are_those_of_the_file(address: str, gguf: Path) -> None:
    remote, local = (
        eh.open(place).view("chat").answer([user("who?")], tokens=8, temperature=0) for place in (address, gguf)
    )
    assert remote == local
