"""Input tables of transformers and GGUF files as word vectors."""

import json
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from evenhand.errors import FormatError, InputMissingError
from evenhand.models.encoders.input_table import find_table, input_table, read_pieces
from evenhand.models.model_files import TensorInfo

PIECES = ["[PAD]", "[UNK]", "[unused0]", "she", "he", "nurse", "##s", "doctor"]
TABLE = np.arange(16, dtype=np.float32).reshape(8, 2)


def write_json(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")


def model_folder(
    folder: Path, *, tensor: str = "bert.embeddings.word_embeddings.weight", table: np.ndarray = TABLE
) -> Path:
    """Write a folder with the input table alone; it is read without building the model."""
    write_json(folder / "config.json", {"architectures": ["BertForMaskedLM"], "vocab_size": 8, "model_type": "bert"})
    other = np.zeros((3, 2), dtype=np.float32)
    save_file({tensor: table, "embeddings.position_embeddings.weight": other}, folder / "model.safetensors")
    special = [{"id": row, "content": PIECES[row], "special": True} for row in (0, 1)]
    vocabulary = {piece: row for row, piece in enumerate(PIECES)}
    write_json(
        folder / "tokenizer.json", {"model": {"type": "WordPiece", "vocab": vocabulary}, "added_tokens": special}
    )
    return folder


def test_whole_words_with_an_account_of_the_others(tmp_path: Path) -> None:
    vectors = input_table(model_folder(tmp_path / "tiny"))
    assert vectors.words == ("she", "he", "nurse", "doctor")
    np.testing.assert_array_equal(vectors["nurse"], TABLE[5])
    assert vectors.name == "tiny"
    assert vectors.source["tensor"] == "bert.embeddings.word_embeddings.weight"
    assert vectors.source["model"] == "BertForMaskedLM"
    assert vectors.source["left_out"] == {"special": 3, "word pieces": 1, "undecodable": 0, "repeated": 0}
    assert (vectors.source["pieces"], vectors.source["words"]) == (8, 4)


def test_every_piece(tmp_path: Path) -> None:
    vectors = input_table(model_folder(tmp_path), whole_words=False)
    assert vectors.words == tuple(PIECES)
    np.testing.assert_array_equal(vectors.matrix, TABLE)


def test_torch_is_not_imported(tmp_path: Path) -> None:
    model_folder(tmp_path)
    code = (
        "import sys; from evenhand.models.encoders.input_table import input_table; print(len(input_table(sys.argv[1])));"
        "print({'torch', 'transformers', 'tokenizers'} & set(sys.modules))"
    )
    out = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["4", "set()"]


@pytest.mark.parametrize(
    ("names", "table"),
    [
        (["transformer.wte.weight", "transformer.wpe.weight", "lm_head.weight"], "transformer.wte.weight"),
        (["model.embed_tokens.weight", "lm_head.weight"], "model.embed_tokens.weight"),
        (["decoder.embed_tokens.weight", "encoder.embed_tokens.weight", "shared.weight"], "shared.weight"),
        (["model.decoder.embed_tokens.weight", "model.encoder.embed_tokens.weight"], "model.encoder.embed_tokens.weight"),
        (["model.decoder.embed_tokens.weight"], "model.decoder.embed_tokens.weight"),
        (["embeddings.token_type_embeddings.weight", "embeddings.word_embeddings.weight"], "embeddings.word_embeddings.weight"),
        (["gpt_neox.embed_in.weight"], "gpt_neox.embed_in.weight"),
        (["classifier.weight"], None),
    ],
)  # fmt: skip
def test_the_tensor_behind_the_input_embeddings(names: list[str], table: str | None) -> None:
    tensors = {name: TensorInfo(Path(), "F32", (8, 2), 0, 64) for name in names}
    found = find_table(tensors, {"vocab_size": 8})
    assert (found[0] if found else None) == table


def test_a_table_smaller_than_the_vocabulary_is_not_the_input_table() -> None:
    tensors = {"embeddings.word_embeddings.weight": TensorInfo(Path(), "F32", (2, 2), 0, 16)}
    assert find_table(tensors, {"vocab_size": 8}) is None


@pytest.mark.parametrize(
    "class_name", ["BertForMaskedLM", "GPT2LMHeadModel", "T5ForConditionalGeneration", "AlbertModel"]
)
def test_the_same_table_as_get_input_embeddings(tmp_path: Path, class_name: str) -> None:
    transformers = pytest.importorskip("transformers")
    sizes = {
        "BertForMaskedLM": ("BertConfig", {"hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 4}),
        "GPT2LMHeadModel": ("GPT2Config", {"n_embd": 4, "n_layer": 1, "n_head": 2}),
        "T5ForConditionalGeneration": ("T5Config", {"d_model": 4, "d_kv": 2, "d_ff": 4, "num_layers": 1, "num_heads": 2}),
        "AlbertModel": ("AlbertConfig", {"embedding_size": 6, "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 2,
                                          "intermediate_size": 4}),
    }  # fmt: skip
    config, options = sizes[class_name]
    model_folder(tmp_path)
    model = getattr(transformers, class_name)(getattr(transformers, config)(vocab_size=10, **options))
    model.save_pretrained(tmp_path)
    vectors = input_table(tmp_path)
    expected = model.get_input_embeddings().weight.detach().numpy()
    np.testing.assert_array_equal(vectors["doctor"], expected[7])
    assert vectors.source["rows_without_token"] == 2


def test_a_table_under_an_unknown_name_is_read_by_transformers(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.XLMConfig(vocab_size=8, emb_dim=4, n_layers=1, n_heads=2)
    model_folder(tmp_path)
    model = transformers.XLMModel(config)
    model.save_pretrained(tmp_path)
    vectors = input_table(tmp_path)
    np.testing.assert_array_equal(vectors["doctor"], model.get_input_embeddings().weight[7].detach().numpy())


def test_bfloat16_tables(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file as save_tensors

    model_folder(tmp_path)
    table = torch.from_numpy(TABLE).bfloat16()
    save_tensors({"embeddings.word_embeddings.weight": table}, tmp_path / "model.safetensors")
    np.testing.assert_array_equal(input_table(tmp_path)["he"], TABLE[4])
    save_tensors({"embeddings.word_embeddings.weight": table.to(torch.float8_e5m2)}, tmp_path / "model.safetensors")
    with pytest.raises(FormatError, match="stored as F8_E5M2"):
        input_table(tmp_path)


@pytest.mark.parametrize("kind", ["unigram", "vocab.txt", "vocab.json"])
def test_other_vocabulary_files(tmp_path: Path, kind: str) -> None:
    folder = model_folder(tmp_path)
    (folder / "tokenizer.json").unlink()
    pieces = ["<pad>", "</s>", "▁she", "▁he", "s", "▁nurse", "▁doctor"]
    if kind == "unigram":
        special = [{"id": 0, "content": "<pad>", "special": True}, {"id": 1, "content": "</s>", "special": True}]
        model = {"type": "Unigram", "vocab": [[piece, -1.0] for piece in pieces]}
        write_json(folder / "tokenizer.json", {"model": model, "added_tokens": special})
    elif kind == "vocab.txt":
        (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces), encoding="utf-8")
    else:
        write_json(folder / "vocab.json", {piece: row for row, piece in enumerate(pieces)})
    write_json(folder / "special_tokens_map.json", {"eos_token": {"content": "</s>"}, "pad_token": "<pad>"})
    write_json(folder / "added_tokens.json" if kind != "unigram" else folder / "unused.json", {"xe": 7})
    vectors = input_table(folder)
    assert vectors.words == ("she", "he", "nurse", "doctor") + (("xe",) if kind != "unigram" else ())
    np.testing.assert_array_equal(vectors["nurse"], TABLE[5])


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ({}, "does not map pieces to rows"),
        ({"model": {"vocab": {"he": "1"}}}, "does not map pieces to rows"),
        ({"model": {"vocab": [1, 2]}}, "does not map pieces to rows"),
        ({"model": {"vocab": {"he": 1}}, "added_tokens": [1]}, "not a list of tokens"),
        ({"model": {"vocab": {"he": 1}}, "added_tokens": [{"content": "x"}]}, "does not map pieces to rows"),
        ({"model": {"vocab": {}}}, "the vocabulary is empty"),
        ({"model": {"vocab": {"##s": 1}}}, "no token is a whole word"),
        ({"model": {"vocab": {"he": 99}}}, "'he' has row 99, and the input table has 8 rows"),
        ({"model": {"vocab": {"he": -1}}}, "the input table has 8 rows"),
    ],
)
def test_vocabularies_that_are_refused(tmp_path: Path, content: object, says: str) -> None:
    write_json(model_folder(tmp_path) / "tokenizer.json", content)
    with pytest.raises(FormatError, match=says):
        input_table(tmp_path)


def test_folders_without_a_vocabulary_or_weights(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "a")
    (folder / "tokenizer.json").unlink()
    with pytest.raises(InputMissingError, match="no tokenizer"):
        input_table(folder)
    (folder / "vocab.txt").write_bytes(b"\xff\n")
    with pytest.raises(FormatError, match=r"vocab\.txt: not UTF-8"):
        read_pieces(folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(InputMissingError, match="no weights"):
        input_table(folder)
    with pytest.raises(InputMissingError, match="there is no folder"):
        input_table(tmp_path / "none")


# GGUF


def packed(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def test_the_table_of_a_gguf_file(tmp_path: Path) -> None:
    pytest.importorskip("gguf")
    tokens, types = ["<s>", "Ġshe", "he", "ĠcafÃ©", "Ġnurse"], [3, 1, 1, 1, 1]
    head = struct.pack("<4sIQQ", b"GGUF", 3, 1, 3)
    head += packed("general.architecture") + struct.pack("<I", 8) + packed("mamba")
    head += packed("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, 5) + b"".join(map(packed, tokens))
    head += packed("tokenizer.ggml.token_type") + struct.pack("<IIQ5i", 9, 5, 5, *types)
    head += packed("token_embd.weight") + struct.pack("<IQQIQ", 2, 2, 5, 0, 0)
    path = tmp_path / "m.gguf"
    path.write_bytes(head + b"\0" * (-len(head) % 32) + TABLE[:5].tobytes())
    for source in (path, tmp_path):
        vectors = input_table(source)
        assert vectors.words == ("she", "café", "nurse")
        np.testing.assert_array_equal(vectors.matrix, TABLE[[1, 3, 4]])
    assert vectors.name == "m"
    assert vectors.source["left_out"] == {"special": 1, "word pieces": 1, "undecodable": 0, "repeated": 0}
