"""A real llama.cpp server on loopback, with a tiny model that the test writes: what it says is what the file says."""

from __future__ import annotations

import socket
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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
    return write_tiny(tmp_path_factory.mktemp("gguf") / "tiny.gguf")


def write_tiny(
    path: Path, kind: Any = None, *, letters: str = LETTERS, context: int = 512, words: Sequence[str] = ()
) -> Path:
    """Write a Llama of two layers whose vocabulary spells every plain text, letter by letter.

    Args:
        path: the file.
        kind: how the matrices are stored; single precision by default.
        letters: the vocabulary, with a blank and the end of a line.
        context: tokens that it reads.
        words: it can write them as single tokens, after a blank.
    """
    import torch
    import transformers

    pieces = ["<s>", "</s>", *letters, "\u0120", "\u010a", "sh", "she", "\u0120she"]
    pieces += [f"\u0120{word}" for word in words if word != "she"]
    torch.manual_seed(2)
    config = transformers.LlamaConfig(
        vocab_size=len(pieces), hidden_size=64, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=context, bos_token_id=0, eos_token_id=1, tie_word_embeddings=True,
        rms_norm_eps=1e-5, initializer_range=0.1,
    )  # fmt: skip
    writer = package.GGUFWriter(path, "llama")
    writer.add_block_count(2)
    writer.add_context_length(context)
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
        array = np.frombuffer(content, dtype="<f4").reshape(shape)
        if kind is not None and array.ndim == 2:
            writer.add_tensor(name, package.quantize(array, kind), raw_dtype=kind)
        else:
            writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture(scope="module")
def address(gguf: Path) -> Iterator[str]:
    with served(gguf) as place:
        yield place


@contextmanager
def served(file: Path, *, context: int = 1024) -> Iterator[str]:
    """A server of a file, and its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    params = xllamacpp.CommonParams()
    params.model.path, params.port, params.n_ctx, params.n_parallel = str(file), port, context, 2
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


def fetched(name: str) -> Path:
    """The file of a model of the catalog; the test is skipped where it was not fetched."""
    from evenhand import data

    place = data.locate(name)
    if place is None:
        pytest.skip(f"{name} is not fetched: evenhand fetch {name}")
    return place


def in_single_precision(file: Path, out: Path) -> Path:
    """Write the weights of a GGUF file as single precision, with the same metadata."""
    reader = package.GGUFReader(file)
    architecture = reader.fields["general.architecture"].contents()
    writer = package.GGUFWriter(out, architecture)
    for name, field in reader.fields.items():
        if not name.startswith("GGUF.") and name not in ("general.architecture", "general.file_type"):
            inner = field.types[1] if len(field.types) > 1 else None
            writer.add_key_value(name, field.contents(), field.types[0], sub_type=inner)
    for tensor in reader.tensors:
        plain = package.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        writer.add_tensor(tensor.name, plain.reshape(tuple(int(n) for n in reversed(tensor.shape))))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return out


def test_only_what_llama_rounds_in_quantised_layers_differs_from_the_file(tmp_path: Path) -> None:
    """The same weights: rounded to 4 bits they differ, because llama.cpp rounds what such a layer reads to 8 bits."""
    packed = write_tiny(tmp_path / "packed.gguf", package.GGMLQuantizationType.Q4_1)
    plain = in_single_precision(packed, tmp_path / "plain.gguf")
    texts = ["she said no.", "He ran, she sat."]
    found = []
    for file in (packed, plain):
        with served(file) as place:
            remote, local = (
                eh.open(where).view("likelihood").token_log_probabilities(texts) for where in (place, file)
            )
        pairs = zip(remote, local, strict=True)
        found.append(max(float(np.abs(a.log_probabilities - b.log_probabilities).max()) for a, b in pairs))
    assert found[0] > 1e-3
    assert found[1] < 1e-4


TEXTS = ["She said that the nurse was kind.", "Women are bad at maths."]
QUESTIONS = [user("Is a nurse usually a woman? Answer yes or no."), user("Answer yes or no: is water wet?")]


def largest_differences(place: str, file: Path) -> tuple[float, float]:
    """The largest difference of a token's log-probability, and of a probability of `choose`."""
    remote, local = eh.open(place), eh.open(file)
    scores = [subject.view("likelihood").token_log_probabilities(TEXTS) for subject in (remote, local)]
    for ours, theirs in zip(*scores, strict=True):
        assert ours.ids.tolist() == theirs.ids.tolist()
    tokens = max(
        float(np.abs(ours.log_probabilities - theirs.log_probabilities).max())
        for ours, theirs in zip(*scores, strict=True)
    )
    chosen = [subject.view("chat").choose(QUESTIONS, ["yes", "no"]).probabilities for subject in (remote, local)]
    return tokens, float(np.abs(chosen[0] - chosen[1]).max())


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize("name", ["smollm2-135m", "qwen2.5-coder-0.5b"])
def test_a_real_model_in_single_precision_scores_as_its_file(name: str, tmp_path: Path) -> None:
    """llama.cpp rounds what a quantised layer reads to 8 bits; with plain weights, server and file agree."""
    file = in_single_precision(fetched(name), tmp_path / "plain.gguf")
    with served(file) as place:
        tokens, options = largest_differences(place, file)
        answers = [
            eh.open(where).view("chat").answer(QUESTIONS[:1], tokens=12, temperature=0) for where in (place, file)
        ]
    assert tokens < 1e-3
    assert options < 1e-3
    assert answers[0] == answers[1]


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize("name", ["smollm2-135m", "qwen2.5-coder-0.5b"])
def test_a_real_quantised_model_differs_by_the_rounding_of_its_layers(name: str) -> None:
    file = fetched(name)
    with served(file) as place:
        tokens, options = largest_differences(place, file)
    assert 1e-3 < tokens < 1.5
    assert options < 0.2
