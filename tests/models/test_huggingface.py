"""Hugging Face model folders: their kind, what is refused, and what is loaded."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from evenhand.errors import FormatError, InputMissingError
from evenhand.models import model_files
from evenhand.models.encoders.transformer import load_model
from evenhand.models.huggingface import load_tokenizer
from evenhand.models.huggingface_folder import model_kind, read_config, read_weight_headers, resolve_folder
from evenhand.models.model_files import read_header, read_tensor

WORDS = ["[PAD]", "[UNK]", "she", "he", "nurse", "##s", "doctor", "saw"]
SIZES = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
NLI = {"0": "contradiction", "1": "neutral", "2": "entailment"}


def config_folder(folder: Path, **config: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


def changed_config(folder: Path, **values: object) -> Path:
    return config_folder(folder, **{**json.loads((folder / "config.json").read_text(encoding="utf-8")), **values})


def saved(folder: Path, class_name: str, **options: object) -> Path:
    """Write a tiny BERT or GPT-2 with its tokenizer."""
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    kind = getattr(transformers, class_name)
    if class_name.startswith("Bert"):
        config = transformers.BertConfig(vocab_size=len(WORDS), **SIZES, **options)
    else:
        config = transformers.GPT2Config(vocab_size=len(WORDS), n_embd=8, n_layer=1, n_head=2, **options)
    kind(config).save_pretrained(folder)
    pieces = tokenizers.models.WordPiece({word: row for row, word in enumerate(WORDS)}, unk_token="[UNK]")
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer(pieces), pad_token="[PAD]", unk_token="[UNK]"
    ).save_pretrained(folder)
    return folder


@pytest.mark.parametrize(
    ("config", "kind"),
    [
        ({"architectures": ["BertForSequenceClassification"], "id2label": NLI}, "nli-classifier"),
        ({"architectures": ["RobertaForSequenceClassification"], "id2label": {"0": "neg", "1": "pos"}}, "text-classifier"),
        (
            {"architectures": ["BertForSequenceClassification"], "id2label": {"0": "entailment", "1": "not_entailment"}},
            "text-classifier",
        ),
        ({"architectures": ["BertForSequenceClassification"]}, "text-classifier"),
        (
            {
                "architectures": ["BertForSequenceClassification"],
                "id2label": {"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"},
                "finetuning_task": "mnli",
            },
            "nli-classifier",
        ),
        ({"architectures": ["BertForMaskedLM"]}, "masked-lm"),
        ({"architectures": ["BertForPreTraining"], "model_type": "bert"}, "masked-lm"),
        ({"architectures": ["ElectraForPreTraining"], "model_type": "electra"}, "encoder"),
        ({"architectures": ["GPT2LMHeadModel"]}, "causal-lm"),
        ({"architectures": ["LlamaForCausalLM"]}, "causal-lm"),
        ({"model_type": "gpt2"}, "causal-lm"),
        ({"model_type": "bert"}, "encoder"),
        ({"architectures": ["BertModel"]}, "encoder"),
        ({"architectures": ["T5ForConditionalGeneration"]}, "encoder"),
    ],
)  # fmt: skip
def test_kind_from_the_configuration(tmp_path: Path, config: dict[str, object], kind: str) -> None:
    assert model_kind(config_folder(tmp_path, vocab_size=10, **config)) == kind


def test_the_configuration_is_parsed_once_until_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = config_folder(tmp_path / "m", architectures=["BertForMaskedLM"], vocab_size=8)
    parsed = []
    monkeypatch.setattr(model_files, "read_json", lambda path: parsed.append(path) or json.loads(path.read_text()))
    assert [model_kind(folder) for _ in range(3)] == ["masked-lm"] * 3
    assert len(parsed) == 1
    changed_config(folder, architectures=["GPT2LMHeadModel"])
    assert model_kind(folder) == "causal-lm"
    assert len(parsed) == 2
    with pytest.raises(TypeError):
        read_config(folder)["vocab_size"] = 9  # type: ignore[index]


def test_kind_of_sentence_transformers(tmp_path: Path) -> None:
    root = config_folder(tmp_path / "root", vocab_size=10, architectures=["BertForMaskedLM"])
    (root / "modules.json").write_text("[]", encoding="utf-8")
    assert model_kind(root) == "encoder"
    inner = config_folder(tmp_path / "old" / "0_Transformer", vocab_size=10, architectures=["BertForMaskedLM"])
    modules = [{"idx": 0, "path": "0_Transformer", "type": "sentence_transformers.models.Transformer"}]
    (tmp_path / "old" / "modules.json").write_text(json.dumps(modules), encoding="utf-8")
    assert resolve_folder(tmp_path / "old") == inner
    assert model_kind(tmp_path / "old") == "encoder"


def test_the_kind_is_read_without_torch(tmp_path: Path) -> None:
    config_folder(tmp_path, vocab_size=10, architectures=["BertForMaskedLM"])
    code = (
        "import sys; from evenhand.models.huggingface_folder import model_kind; print(model_kind(sys.argv[1]));"
        "print({'torch', 'transformers'} & set(sys.modules))"
    )
    out = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["masked-lm", "set()"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{" * 3, "not valid JSON"),
        ('{"a":' * 100_000, "nested too deeply"),
        ('{"vocab_size": ' + "9" * 5000 + "}", "not valid JSON"),
        ("[]", "holds a list, expected a JSON object"),
        ("{}", "the kind of model is unknown"),
        ('{"architectures": "BertModel"}', "not a list of names"),
        ('{"architectures": [1]}', "not a list of names"),
        ('{"architectures": ["ViTModel"], "model_type": "vit"}', "not a text model"),
        ("\udcff", "not valid JSON"),
    ],
)
def test_configurations_that_are_refused(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "config.json").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(FormatError, match=says) as caught:
        model_kind(tmp_path)
    assert "config.json" in str(caught.value)


def test_folders_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputMissingError, match="there is no folder"):
        resolve_folder(tmp_path / "none")
    with pytest.raises(InputMissingError, match=r"no config\.json"):
        resolve_folder(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(InputMissingError, match="is a file"):
        resolve_folder(tmp_path / "file")
    with pytest.raises(InputMissingError, match="there is no folder"):
        resolve_folder("/" + "x" * 5000)


def test_a_downloaded_model_is_found_by_its_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("huggingface_hub")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    commit = "0" * 40
    repository = tmp_path / "models--some--model"
    folder = config_folder(repository / "snapshots" / commit, vocab_size=3, architectures=["BertModel"])
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit, encoding="utf-8")
    assert resolve_folder("some/model") == folder
    with pytest.raises(InputMissingError, match="hf download some/other"):
        resolve_folder("some/other")


# Weights


def test_an_index_that_names_a_pickle_is_refused(tmp_path: Path) -> None:
    config_folder(tmp_path, vocab_size=3, architectures=["BertModel"])
    (tmp_path / "pytorch_model.bin").write_bytes(b"not opened")
    for name in ("pytorch_model.bin", "../other/model.safetensors", "/etc/model.safetensors"):
        (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": name}}))
        with pytest.raises(FormatError, match=r"only \.safetensors files in the same folder"):
            load_model(tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "model-1.safetensors"}}))
    with pytest.raises(InputMissingError, match=r"model-1\.safetensors is missing"):
        load_model(tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text("{}")
    with pytest.raises(FormatError, match="no weight_map"):
        load_model(tmp_path)


def test_pickles_adapters_and_missing_weights_are_refused(tmp_path: Path) -> None:
    config_folder(tmp_path, vocab_size=3, architectures=["BertModel"])
    with pytest.raises(InputMissingError, match=r"no weights \(model\.safetensors"):
        load_model(tmp_path)
    (tmp_path / "pytorch_model.bin").touch()
    with pytest.raises(FormatError, match=r"pickle \(pytorch_model\.bin\)"):
        load_model(tmp_path)
    (tmp_path / "pytorch_model.bin").unlink()
    (tmp_path / "adapter_config.json").write_text("{}", encoding="utf-8")
    with pytest.raises(FormatError, match="adapter without its base model"):
        load_model(tmp_path)


@pytest.mark.parametrize("class_name", ["GPT2LMHeadModel", "BertForMaskedLM", "BertModel"])
def test_a_file_without_tensors_is_refused(tmp_path: Path, class_name: str) -> None:
    """Opened by `transformers` alone, the model has random weights."""
    saved(tmp_path, class_name)
    save_file({}, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(FormatError, match=f"no weights for .* of {class_name}"):
        load_model(tmp_path)


def test_a_tensor_of_another_shape_is_refused(tmp_path: Path) -> None:
    saved(tmp_path, "GPT2LMHeadModel")
    tensors = load_file(tmp_path / "model.safetensors")
    name = next(name for name in tensors if name.endswith("wte.weight"))
    save_file({**tensors, name: tensors[name][:, :4].copy()}, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(FormatError, match=r"wte.weight has the shape \(8, 4\), and the model needs \(8, 8\)"):
        load_model(tmp_path)


@pytest.mark.parametrize(
    "values",
    [{"num_hidden_layers": 10**7}, {"hidden_size": 10**12}, {"max_position_embeddings": 10**11}, {"vocab_size": -5}],
)
def test_sizes_that_the_weights_rule_out_are_refused(tmp_path: Path, values: dict[str, int]) -> None:
    """Before `transformers` builds ten million layers."""
    changed_config(saved(tmp_path, "BertModel"), **values)
    with pytest.raises(FormatError, match=rf"config\.json: {next(iter(values))} is"):
        load_model(tmp_path)


def test_eight_bit_tensors_are_refused(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from safetensors.torch import load_file as load_tensors
    from safetensors.torch import save_file as save_tensors

    saved(tmp_path, "BertModel")
    tensors = load_tensors(tmp_path / "model.safetensors")
    name = "embeddings.word_embeddings.weight"
    save_tensors({**tensors, name: tensors[name].to(torch.float8_e4m3fn)}, tmp_path / "model.safetensors")
    with pytest.raises(FormatError, match="stored as F8_E4M3"):
        load_model(tmp_path)


@pytest.mark.parametrize(
    ("class_name", "kind"),
    [("BertForSequenceClassification", "nli-classifier"), ("BertForMaskedLM", "masked-lm"),
     ("GPT2LMHeadModel", "causal-lm"), ("BertModel", "encoder")],
)  # fmt: skip
def test_models_are_loaded_by_their_kind(tmp_path: Path, class_name: str, kind: str) -> None:
    options = {"id2label": {int(key): name for key, name in NLI.items()}} if kind == "nli-classifier" else {}
    saved(tmp_path, class_name, **options)
    assert model_kind(tmp_path) == kind
    model, notes, _ = load_model(tmp_path)
    assert type(model).__name__ == class_name
    assert not model.training
    assert notes == ()
    stored = load_file(tmp_path / "model.safetensors")
    loaded = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    assert all(np.array_equal(loaded[name], tensor) for name, tensor in stored.items())
    assert load_tokenizer(tmp_path).convert_tokens_to_ids("nurse") == 4


def test_one_kind_of_language_model_is_not_loaded_as_the_other(tmp_path: Path) -> None:
    """`transformers` would build a BertLMHeadModel from the weights of a BertForMaskedLM."""
    saved(tmp_path / "masked", "BertForMaskedLM")
    with pytest.raises(FormatError, match="holds a masked language model, not a causal language model"):
        load_model(tmp_path / "masked", "causal-lm")
    saved(tmp_path / "causal", "GPT2LMHeadModel")
    with pytest.raises(FormatError, match="holds a causal language model, not a masked language model"):
        load_model(tmp_path / "causal", "masked-lm")


def test_an_encoder_saved_as_a_language_model_has_no_made_up_pooler(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    model, notes, _ = load_model(saved(tmp_path, "BertForMaskedLM"), "encoder")
    assert model.pooler is None
    assert any("pooler" in note for note in notes)
    assert any("do not belong to BertModel" in note and "cls.predictions" in note for note in notes)
    assert model(torch.tensor([[2, 3]])).last_hidden_state.shape == (1, 2, 8)


def test_a_folder_without_a_tokenizer_is_named(tmp_path: Path) -> None:
    saved(tmp_path, "BertModel")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).unlink()
    with pytest.raises(InputMissingError, match=r"no tokenizer \(none of tokenizer\.json, vocab\.txt"):
        load_tokenizer(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}", encoding="utf-8")
    with pytest.raises(FormatError, match="cannot load a tokenizer"):
        load_tokenizer(tmp_path)


def test_code_beside_a_model_is_never_run(tmp_path: Path) -> None:
    saved(tmp_path, "BertModel")
    (tmp_path / "code.py").write_text("raise SystemExit(7)", encoding="utf-8")
    changed_config(tmp_path, model_type="unheard-of", auto_map={"AutoConfig": "code.C", "AutoModel": "code.M"})
    with pytest.raises(FormatError, match="cannot load a text encoder"):
        load_model(tmp_path)


# Safetensors


def test_headers_and_tensors(tmp_path: Path) -> None:
    path = tmp_path / "t.safetensors"
    arrays = {"a": np.arange(6, dtype=np.float16).reshape(2, 3), "b": np.array([1.5]), "n": np.array([1])}
    save_file(arrays, path)
    header = read_header(path)
    assert {name: info.shape for name, info in header.items()} == {"a": (2, 3), "b": (1,), "n": (1,)}
    np.testing.assert_array_equal(read_tensor(header["a"], "a"), arrays["a"])
    assert read_tensor(header["b"], "b").dtype == np.float32
    with pytest.raises(FormatError, match="stored as I64"):
        read_tensor(header["n"], "n")


def test_bfloat16_is_widened(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file as save_tensors

    values = torch.linspace(-3, 3, 50).bfloat16().reshape(5, 10)
    save_tensors({"w": values}, tmp_path / "t.safetensors")
    np.testing.assert_array_equal(
        read_tensor(read_header(tmp_path / "t.safetensors")["w"], "w"), values.float().numpy()
    )


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"\0" * 7, b"\xff" * 30, (10).to_bytes(8, "little") + b"{}", (2).to_bytes(8, "little") + b"[]",
        (9).to_bytes(8, "little") + b'{"a": {}}', (13).to_bytes(8, "little") + b'{"a": "text"}',
        (60).to_bytes(8, "little") + b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,800]}}'.ljust(60),
        (60).to_bytes(8, "little") + b'{"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,0]}}'.ljust(60),
        (99999).to_bytes(8, "little") + b"[" * 99999,
    ],
)  # fmt: skip
def test_damaged_safetensors_files_are_named(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "t.safetensors"
    path.write_bytes(raw)
    with pytest.raises(FormatError, match=r"t\.safetensors: not a complete safetensors file"):
        read_header(path)


def test_the_stored_tensors_of_a_sharded_model(tmp_path: Path) -> None:
    config_folder(tmp_path, vocab_size=3, architectures=["BertModel"])
    for number in (1, 2):
        save_file({f"t{number}": np.zeros(number, np.float32)}, tmp_path / f"m-{number}.safetensors")
    shards = {f"t{number}": f"m-{number}.safetensors" for number in (1, 2)}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": shards}), encoding="utf-8")
    assert {name: info.shape for name, info in read_weight_headers(tmp_path).items()} == {"t1": (1,), "t2": (2,)}
    assert read_config(tmp_path)["vocab_size"] == 3
