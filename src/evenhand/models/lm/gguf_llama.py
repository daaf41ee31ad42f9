"""A Llama model out of a GGUF file, as a model and a tokenizer of `transformers`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import FormatError, require
from evenhand.models.lm.gguf import GGUF, open_gguf

OUTER = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
INNER = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_norm": "input_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "ffn_norm": "post_attention_layernorm",
}
CONVERT = (
    "convert the file: `pip install gguf`, then AutoModelForCausalLM.from_pretrained(folder, gguf_file=...)"
    ".save_pretrained(...)"
)
DIGITS_APART = {"smollm": True, "gpt-2": False, "default": False}  # how a text is cut before its merges
CONTROL = 3  # type of tokens that stand for no text


def read_gguf(path: Path, dtype: Any) -> tuple[Any, Any]:
    """Model and tokenizer; weights are those of the quantised file, unpacked."""
    transformers = require("transformers", extra="models")
    torch: Any = require("torch", extra="models")
    file = open_gguf(path)
    if file.facts.get("general.architecture") != "llama":
        kind = file.facts.get("general.architecture")
        raise FormatError(f"{path}: a model of the kind {kind!r}, read here is 'llama'", hint=CONVERT)
    config = _config(file, transformers)
    weights = {_name(file, name): torch.from_numpy(_weight(file, name, config)).to(dtype) for name in file.places}
    # A state without a file: the library fills in what is no weight, and spends nothing on random ones.
    model = transformers.LlamaForCausalLM.from_pretrained(None, config=config, state_dict=weights, dtype=dtype)
    return model, _tokenizer(file, transformers)


def _config(file: GGUF, transformers: Any) -> Any:
    facts = file.facts
    try:
        return transformers.LlamaConfig(
            vocab_size=file.places["token_embd.weight"].shape[0],
            hidden_size=facts["llama.embedding_length"],
            intermediate_size=facts["llama.feed_forward_length"],
            num_hidden_layers=facts["llama.block_count"],
            num_attention_heads=facts["llama.attention.head_count"],
            num_key_value_heads=facts.get("llama.attention.head_count_kv", facts["llama.attention.head_count"]),
            max_position_embeddings=facts["llama.context_length"],
            rms_norm_eps=facts["llama.attention.layer_norm_rms_epsilon"],
            rope_theta=facts.get("llama.rope.freq_base", 10000.0),
            tie_word_embeddings="output.weight" not in file.places,
            bos_token_id=facts.get("tokenizer.ggml.bos_token_id"),
            eos_token_id=facts.get("tokenizer.ggml.eos_token_id"),
        )
    except KeyError as error:
        raise FormatError(f"{file.path}: the fact {error} is missing", hint=CONVERT) from error


def _name(file: GGUF, name: str) -> str:
    """What `transformers` calls an array."""
    parts = name.split(".")
    stem = parts[-2] if len(parts) > 1 else ""
    if parts[0] == "blk" and len(parts) == 4 and stem in INNER:
        return f"model.layers.{parts[1]}.{INNER[stem]}.{parts[3]}"
    if len(parts) == 2 and stem in OUTER:
        return f"{OUTER[stem]}.{parts[1]}"
    raise FormatError(f"{file.path}: the array {name!r} has no place in a Llama model", hint=CONVERT)


def _weight(file: GGUF, name: str, config: Any) -> NDArray[np.float32]:
    """An array; those of queries and keys have the two halves of each head interleaved, and are put back."""
    array = file.array(name)
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}.get(name.split(".")[-2])
    if heads is None:
        return array
    apart = array.reshape(heads, len(array) // heads // 2, 2, -1).swapaxes(1, 2)
    return np.ascontiguousarray(apart.reshape(array.shape))


def _tokenizer(file: GGUF, transformers: Any) -> Any:
    """Byte-level pairs with their merges; the other kinds of tokenizer are not read here."""
    tokenizers = require("tokenizers", extra="models")
    facts = file.facts
    kind, cutting = facts.get("tokenizer.ggml.model"), facts.get("tokenizer.ggml.pre", "default")
    if kind != "gpt2" or cutting not in DIGITS_APART:
        raise FormatError(f"{file.path}: a tokenizer of the kind {kind!r} with {cutting!r} is not read", hint=CONVERT)
    words = facts["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ", 1)) for merge in facts["tokenizer.ggml.merges"]]
    core = tokenizers.Tokenizer(tokenizers.models.BPE({word: row for row, word in enumerate(words)}, merges))
    by_bytes = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    digits = [tokenizers.pre_tokenizers.Digits(individual_digits=True)] if DIGITS_APART[cutting] else []
    core.pre_tokenizer = tokenizers.pre_tokenizers.Sequence([*digits, by_bytes])
    core.decoder = tokenizers.decoders.ByteLevel()
    types = facts.get("tokenizer.ggml.token_type", [])
    core.add_special_tokens([word for word, of in zip(words, types, strict=False) if of == CONTROL])
    named = {
        f"{role}_token": words[facts[fact]]
        for role, fact in (("bos", "tokenizer.ggml.bos_token_id"), ("eos", "tokenizer.ggml.eos_token_id"))
        if fact in facts
    }
    return transformers.PreTrainedTokenizerFast(tokenizer_object=core, **named)
