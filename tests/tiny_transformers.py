"""Tiny random transformers with a real tokenizer, built once for each test run: no weights are downloaded.

The vocabulary is every printable letter as a word piece, plus common words, so that any English text can be encoded.
"""

from __future__ import annotations

import string
import warnings
from pathlib import Path
from typing import Any

import pytest

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
COMMON = [
    "a",
    "an",
    "the",
    "is",
    "was",
    "are",
    "were",
    "this",
    "that",
    "here",
    "there",
    "he",
    "she",
    "him",
    "her",
    "his",
    "hers",
    "they",
    "them",
    "man",
    "woman",
    "men",
    "women",
    "person",
    "people",
    "boy",
    "girl",
    "father",
    "mother",
    "son",
    "daughter",
    "king",
    "queen",
    "nurse",
    "doctor",
    "engineer",
    "teacher",
    "secretary",
    "worker",
    "lawyer",
    "john",
    "mary",
    "paul",
    "lisa",
    "career",
    "family",
    "work",
    "home",
    "good",
    "bad",
    "nice",
    "evil",
    "love",
    "hate",
    "peace",
    "war",
    "pleasant",
    "unpleasant",
    "math",
    "science",
    "art",
    "poetry",
    "and",
    "or",
    "of",
    "to",
    "in",
    "on",
    "at",
    "with",
    "who",
    "very",
    "not",
    "saw",
    "said",
    "opened",
    "door",
    "likes",
]
PIECES = [*string.ascii_lowercase, *string.digits, *"!\"#$%&'()*+,-./:;<=>?@[]_`{|}~"]
VOCABULARY = [*SPECIAL, *dict.fromkeys([*COMMON, *PIECES]), *(f"##{piece}" for piece in PIECES)]
SIZES = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 32}
SPECIAL_IDS = {"pad_token_id": 0, "cls_token_id": 2, "sep_token_id": 3, "bos_token_id": 2, "eos_token_id": 3}
SETTINGS = {  # what differs, by the beginning of the class name
    "GPT2": {"n_embd": 16, "n_layer": 3, "n_head": 2, "n_positions": 64},
    "DistilBert": {"dim": 16, "n_layers": 3, "n_heads": 2, "hidden_dim": 32, "max_position_embeddings": 64},
    "Albert": SIZES | {"embedding_size": 8, "max_position_embeddings": 64},
    "Electra": SIZES | {"embedding_size": 8, "max_position_embeddings": 64},
    "Roberta": SIZES | {"pad_token_id": 0, "max_position_embeddings": 64},
    "MPNet": SIZES | {"pad_token_id": 0, "max_position_embeddings": 64},
    "ModernBert": SIZES | SPECIAL_IDS | {"max_position_embeddings": 64},
    "Gemma": SIZES | {"head_dim": 8, "num_key_value_heads": 2, "max_position_embeddings": 64},
    "DebertaV2": SIZES
    | {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "share_att_key": True, "position_buckets": 8}
    | {"norm_rel_ebd": "layer_norm", "position_biased_input": False, "conv_kernel_size": 3, "conv_act": "gelu"}
    | {"max_position_embeddings": 64},
}


def bert_tokenizer() -> Any:
    """Return a lower-casing word-piece tokenizer with BERT's special tokens."""
    tokenizers, transformers = pytest.importorskip("tokenizers"), pytest.importorskip("transformers")
    model = tokenizers.models.WordPiece({word: row for row, word in enumerate(VOCABULARY)}, unk_token="[UNK]")
    core = tokenizers.Tokenizer(model)
    core.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    core.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    core.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    core.decoder = tokenizers.decoders.WordPiece()
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=core, mask_token="[MASK]", model_max_length=64, **names
    )


def gpt2_tokenizer() -> Any:
    """Return a byte-level tokenizer with GPT-2's single special token; common words are single tokens."""
    tokenizers, transformers = pytest.importorskip("tokenizers"), pytest.importorskip("transformers")
    core = tokenizers.Tokenizer(tokenizers.models.BPE())
    core.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    core.train_from_iterator([f"{word} {word.capitalize()}" for word in COMMON] * 3, trainer)
    core.post_processor = tokenizers.processors.ByteLevel(trim_offsets=False)
    end = "<|endoftext|>"
    return transformers.PreTrainedTokenizerFast(tokenizer_object=core, bos_token=end, eos_token=end, unk_token=end)


def save_tiny(folder: Path, class_name: str, *, seed: int = 0, **options: Any) -> Path:
    """Save a random model of `transformers` with its tokenizer.

    Args:
        folder: where to save it.
        class_name: such as BertForMaskedLM, BertModel, BertForSequenceClassification, GPT2LMHeadModel, LlamaForCausalLM,
            and the same of the other architectures in `SETTINGS`.
        seed: of the weights.
        **options: more settings of the configuration, such as id2label.
    """
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    torch.manual_seed(seed)
    causal = class_name.startswith(("GPT2", "Llama", "Gemma", "Qwen"))
    tokenizer = gpt2_tokenizer() if causal else bert_tokenizer()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.jit warns that it is deprecated when DeBERTa is imported
        model_class = getattr(transformers, class_name)
    settings: dict[str, Any] = {"vocab_size": len(tokenizer), "initializer_range": 0.3}
    own = next((values for prefix, values in SETTINGS.items() if class_name.startswith(prefix)), None)
    settings |= own or SIZES | {"max_position_embeddings": 64}
    if causal:
        settings |= {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = model_class(model_class.config_class(**settings | options)).eval()
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    return folder
