"""Input embeddings of transformers: small stand-ins, and real tiny models where the library is installed."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evenhand.errors import (
    EvenhandWarning,
    FormatError,
    InputMissingError,
    MissingExtraError,
    UsageError,
    VocabularyError,
)
from evenhand.interop.huggingface import input_embeddings, set_input_embeddings
from evenhand.models.vectors import Vectors

BERT = ["[PAD]", "[unused0]", "nurse", "##s", "she", "Ġ"]
T5 = ["<s>", "▁nurse", "nurse", "▁she", "▁", "<0x0A>", "▁▁"]


class Tokenizer:
    """The methods of a transformers tokenizer that are used here."""

    def __init__(self, vocabulary: list[str], *, special: tuple[str, ...] = (), added: tuple[str, ...] = ()) -> None:
        self.vocabulary = {token: row for row, token in enumerate(vocabulary)}
        self.all_special_tokens = list(special)
        self.added = added

    def get_vocab(self) -> dict[str, int]:
        return dict(reversed(self.vocabulary.items()))  # real ones come in no order

    def get_added_vocab(self) -> dict[str, int]:
        return {token: self.vocabulary[token] for token in self.added}


def model_with(rows: int, *, dtype: str = "float32") -> Any:
    torch = pytest.importorskip("torch")
    table = torch.arange(rows * 2, dtype=getattr(torch, dtype)).reshape(rows, 2)
    layer = types.SimpleNamespace(weight=torch.nn.Parameter(table))
    return types.SimpleNamespace(get_input_embeddings=lambda: layer, name_or_path="tiny")


def test_every_token_has_its_row() -> None:
    vectors = input_embeddings(model_with(8), Tokenizer(BERT))
    assert list(vectors.words) == BERT
    np.testing.assert_array_equal(vectors["she"], [8.0, 9.0])
    assert vectors.name == "tiny"
    assert vectors.source["rows_left_out"] == 2


def test_half_precision_is_read() -> None:
    vectors = input_embeddings(model_with(6, dtype="bfloat16"), Tokenizer(BERT))
    np.testing.assert_array_equal(vectors["nurse"], [4.0, 5.0])


def test_the_vectors_do_not_share_memory_with_the_model() -> None:
    model = model_with(6)
    vectors = input_embeddings(model, Tokenizer(BERT))
    model.get_input_embeddings().weight.data[:] = -1
    np.testing.assert_array_equal(vectors["nurse"], [4.0, 5.0])


def test_tokens_that_spell_the_same_word_raise_a_warning() -> None:
    tokenizer = Tokenizer([*T5, "she"], special=("<s>",), added=("she",))
    with pytest.warns(EvenhandWarning, match="1 tokens spell the same word as an earlier one"):
        vectors = input_embeddings(model_with(8), tokenizer, whole_words=True)
    np.testing.assert_array_equal(vectors["she"], [6.0, 7.0])


def test_rows_are_written_back_by_token() -> None:
    model, tokenizer = model_with(8), Tokenizer(BERT, special=("[PAD]",))
    before = model.get_input_embeddings().weight.detach().clone()
    words = input_embeddings(model, tokenizer, whole_words=True)
    set_input_embeddings(model, words.with_matrix(-words.matrix), tokenizer, whole_words=True)
    after = model.get_input_embeddings().weight.detach()
    changed = [row for row in range(8) if not bool((after[row] == before[row]).all())]
    assert changed == [2, 4, 5]
    np.testing.assert_array_equal(after[4].numpy(), [-8.0, -9.0])


def test_a_whole_table_is_written_back() -> None:
    model = model_with(6, dtype="float16")
    vectors = input_embeddings(model, Tokenizer(BERT))
    set_input_embeddings(model, vectors.with_matrix(vectors.matrix + 1))
    np.testing.assert_array_equal(input_embeddings(model, Tokenizer(BERT)).matrix, vectors.matrix + 1)


def test_tables_that_do_not_fit_are_refused() -> None:
    model, tokenizer = model_with(6), Tokenizer(BERT)
    with pytest.raises(UsageError, match="has 3 coordinates, the model's table 2"):
        set_input_embeddings(model, Vectors(["she"], [[1.0, 2.0, 3.0]]), tokenizer)
    with pytest.raises(UsageError, match=r"has 1 rows, the model's table 6\n.*tokenizer"):
        set_input_embeddings(model, Vectors(["she"], [[1.0, 2.0]]))
    with pytest.raises(VocabularyError, match="no token for 'doctor'"):
        set_input_embeddings(model, Vectors(["doctor"], [[1.0, 2.0]]), tokenizer)
    np.testing.assert_array_equal(input_embeddings(model, tokenizer).matrix, np.arange(12).reshape(6, 2))


def test_models_and_tokenizers_that_do_not_fit_are_refused() -> None:
    with pytest.raises(FormatError, match=r"'she' has row 4, and the model's table 4 rows\n.*resize_token_embeddings"):
        input_embeddings(model_with(4), Tokenizer(BERT))
    with pytest.raises(UsageError, match="does not hold the words of its rows"):
        input_embeddings(model_with(4))
    with pytest.raises(FormatError, match="a dict has no matrix of input embeddings"):
        input_embeddings({}, Tokenizer(BERT))
    with pytest.raises(FormatError, match="no token that is a whole word"):
        input_embeddings(model_with(4), Tokenizer(["##s"]), whole_words=True)


def test_without_the_packages_the_pip_line_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(InputMissingError, match=r'no folder \'somewhere\'\n.*pip install "evenhand\[models\]"'):
        input_embeddings("somewhere")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r'torch.*\n.*pip install "evenhand\[models\]"'):
        set_input_embeddings(None, Vectors(["she"], [[1.0, 2.0]]))


@pytest.fixture
def bert_folder(tmp_path: Path) -> Path:
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    tokens = ["[PAD]", "[UNK]", "[unused0]", "she", "he", "nurse", "##s", "doctor"]
    pieces = tokenizers.models.WordPiece({token: row for row, token in enumerate(tokens)}, unk_token="[UNK]")
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer(pieces), pad_token="[PAD]", unk_token="[UNK]"
    )
    config = transformers.BertConfig(
        vocab_size=16, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8
    )
    transformers.BertModel(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    return tmp_path


def test_a_real_bert_from_its_folder(bert_folder: Path) -> None:
    transformers = pytest.importorskip("transformers")
    model = transformers.AutoModel.from_pretrained(bert_folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(bert_folder)
    vectors = input_embeddings(bert_folder, whole_words=True)
    assert list(vectors.words) == ["she", "he", "nurse", "doctor"]
    row = tokenizer.convert_tokens_to_ids("nurse")
    np.testing.assert_array_equal(vectors["nurse"], model.get_input_embeddings().weight[row].detach().numpy())
    set_input_embeddings(model, vectors.with_matrix(vectors.matrix * 0), tokenizer, whole_words=True)
    assert not model.get_input_embeddings().weight[row].any()
    assert model.get_input_embeddings().weight[tokenizer.convert_tokens_to_ids("##s")].any()


def test_a_real_byte_level_tokenizer() -> None:
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    backend = tokenizers.Tokenizer(tokenizers.models.BPE())
    backend.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel()
    backend.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=400, special_tokens=["<s>"], initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet()
    )
    backend.train_from_iterator([" nurse café she nurse café she"] * 50, trainer)
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>")
    model = transformers.GPT2Model(transformers.GPT2Config(vocab_size=len(tokenizer), n_embd=8, n_layer=1, n_head=2))
    vectors = input_embeddings(model, tokenizer, whole_words=True)
    assert {"nurse", "café", "she"} <= set(vectors.words)
    assert not any("Ġ" in word for word in vectors.words)


def test_pickled_weights_are_refused(bert_folder: Path) -> None:
    """A bare `AutoModel.from_pretrained` would unpickle them."""
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    tokenizer = transformers.AutoTokenizer.from_pretrained(bert_folder)
    torch.save(transformers.AutoModel.from_pretrained(bert_folder).state_dict(), bert_folder / "pytorch_model.bin")
    (bert_folder / "model.safetensors").unlink()
    for options in ((), (tokenizer,)):
        with pytest.raises(FormatError, match=r"pickle \(pytorch_model\.bin\)"):
            input_embeddings(bert_folder, *options)


def test_a_folder_without_a_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputMissingError, match=r"no config\.json.*\n*.*save_pretrained"):
        input_embeddings(tmp_path)
