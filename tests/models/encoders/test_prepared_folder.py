"""LoRA adapters open with their base model, and pickled weights where that is allowed."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
safetensors = pytest.importorskip("safetensors.torch")

import evenhand as eh  # noqa: E402
from evenhand.errors import FormatError, InputMissingError  # noqa: E402
from evenhand.models.encoders.prepared_folder import prepared  # noqa: E402
from evenhand.models.encoders.transformer import Transformer  # noqa: E402

Folder = Callable[..., Path]
TEXTS = ["she is a nurse", "the doctor said that he was an engineer"]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EVENHAND_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


# Adapters ----------------------------------------------------------------------------------------------------------


def adapter(folder: Path, base: Path, class_name: str, *, name: str | None = None, **options: Any) -> Any:
    """Save a LoRA adapter with random factors; return the model with the adapter merged by peft."""
    peft = pytest.importorskip("peft")
    torch.manual_seed(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = getattr(transformers, class_name).from_pretrained(base)
        wrapped = peft.get_peft_model(model, peft.LoraConfig(r=3, lora_alpha=7, **options))
        for key, parameter in wrapped.named_parameters():
            if "lora" in key or "modules_to_save" in key:
                torch.nn.init.normal_(parameter, std=0.3)
        wrapped.save_pretrained(folder)
        settings = json.loads((folder / "adapter_config.json").read_text())
        settings["base_model_name_or_path"] = name or str(base)
        (folder / "adapter_config.json").write_text(json.dumps(settings))
        return wrapped.eval().merge_and_unload()


def hidden(model: Any, tokenizer: Any) -> np.ndarray:
    with torch.inference_mode():
        outputs = [model(**tokenizer(text, return_tensors="pt")) for text in TEXTS]
    return np.concatenate([getattr(out, "logits", out[0]).ravel().numpy() for out in outputs])


@pytest.mark.parametrize(
    ("class_name", "options"),
    [
        ("LlamaForCausalLM", {"target_modules": ["q_proj", "v_proj"], "task_type": "CAUSAL_LM"}),
        ("LlamaForCausalLM", {"target_modules": ["q_proj", "down_proj"], "use_rslora": True}),
        ("LlamaForCausalLM", {"target_modules": ["q_proj", "v_proj"], "alpha_pattern": {"q_proj": 20}}),
        ("LlamaForCausalLM", {"target_modules": ["k_proj"], "rank_pattern": {"k_proj": 2}}),
        ("GPT2LMHeadModel", {"target_modules": ["c_attn", "c_proj"], "fan_in_fan_out": True}),
        ("BertForMaskedLM", {"target_modules": ["query", "word_embeddings"]}),
    ],
)
def test_an_adapter_is_merged_as_peft_merges_it(
    class_name: str, options: dict[str, Any], tiny_folder: Folder, tmp_path: Path
) -> None:
    base = tiny_folder(class_name)
    expected = adapter(tmp_path / "adapter", base, class_name, **options)
    transformer = Transformer.load(prepared(tmp_path / "adapter"), device="cpu")
    np.testing.assert_allclose(
        hidden(transformer.model, transformer.tokenizer), hidden(expected, transformer.tokenizer), atol=1e-4
    )
    plain = getattr(transformers, class_name).from_pretrained(base).eval()
    assert np.abs(hidden(transformer.model, transformer.tokenizer) - hidden(plain, transformer.tokenizer)).max() > 1e-2


@pytest.mark.parametrize("base_class", ["BertForMaskedLM", "BertModel"])
def test_a_classifier_that_is_an_adapter_is_a_subject_with_labels(
    base_class: str, tiny_folder: Folder, tmp_path: Path
) -> None:
    base = tiny_folder(base_class)
    options: dict[str, Any] = {"target_modules": ["query", "value"], "task_type": "SEQ_CLS"}
    if base_class == "BertForMaskedLM":  # which has no pooler, so that the adapter has to bring one
        options["modules_to_save"] = ["pooler"]
    expected = adapter(tmp_path / "adapter", base, "BertForSequenceClassification", **options)
    subject = eh.open(f"hf:{tmp_path / 'adapter'}", device="cpu")
    assert (subject.name, subject.offers) == ("adapter", ("vectors", "sentences", "labels"))
    view = subject.view("labels")
    assert view.labels == ("LABEL_0", "LABEL_1")  # type: ignore[attr-defined]
    tokenizer = transformers.AutoTokenizer.from_pretrained(base)
    with torch.inference_mode():
        logits = torch.cat([expected(**tokenizer(text, return_tensors="pt")).logits for text in TEXTS])
    np.testing.assert_allclose(view.predict(TEXTS), logits.softmax(-1).numpy(), atol=1e-5)  # type: ignore[attr-defined]
    assert len(subject.view("vectors")) > 50  # type: ignore[arg-type]


def test_the_base_model_is_looked_for_beside_the_adapter_and_never_on_the_network(
    tiny_folder: Folder, tmp_path: Path
) -> None:
    base = tiny_folder("LlamaForCausalLM")
    adapter(tmp_path / "a", base, "LlamaForCausalLM", name="someone/my-base", target_modules=["q_proj"])
    with pytest.raises(InputMissingError, match="adapter of the base model 'someone/my-base', which is not on this"):
        eh.open(f"hf:{tmp_path / 'a'}")
    with pytest.raises(InputMissingError, match="adapter of the base model"):
        eh.open(str(tmp_path / "a"))
    shutil.copytree(base, tmp_path / "my-base")
    assert eh.open(str(tmp_path / "a")).kind == "lm"


def test_a_merged_model_is_kept_and_made_again_when_a_file_changes(
    tiny_folder: Folder, tmp_path: Path, cache: Path
) -> None:
    adapter(tmp_path / "a", tiny_folder("LlamaForCausalLM"), "LlamaForCausalLM", target_modules=["q_proj"])
    first = prepared(tmp_path / "a")
    assert first.is_relative_to(cache)
    assert prepared(tmp_path / "a") == first
    assert not (first / "adapter_config.json").exists()
    settings = json.loads((tmp_path / "a" / "adapter_config.json").read_text())
    (tmp_path / "a" / "adapter_config.json").write_text(json.dumps(settings | {"lora_alpha": 14}))
    assert prepared(tmp_path / "a") != first


@pytest.mark.parametrize(
    "settings",
    [
        {"peft_type": "IA3"},
        {"use_dora": True},
        {"megatron_config": {"x": 1}},
        {"init_lora_weights": "pissa_niter_4"},
        {"layer_replication": [[0, 10**9]]},
        {"lora_alpha": "x"},
        {"base_model_name_or_path": None},
        {"base_model_name_or_path": ["x"]},
    ],
)
def test_adapters_that_are_not_plain_lora_are_refused(
    settings: dict[str, object], tiny_folder: Folder, tmp_path: Path
) -> None:
    adapter(tmp_path / "a", tiny_folder("LlamaForCausalLM"), "LlamaForCausalLM", target_modules=["q_proj"])
    content = json.loads((tmp_path / "a" / "adapter_config.json").read_text())
    (tmp_path / "a" / "adapter_config.json").write_text(json.dumps(content | settings))
    with pytest.raises(FormatError):
        eh.open(f"hf:{tmp_path / 'a'}")


def test_factors_that_do_not_fit_the_base_are_refused(tiny_folder: Folder, tmp_path: Path) -> None:
    adapter(tmp_path / "a", tiny_folder("LlamaForCausalLM"), "LlamaForCausalLM", target_modules=["q_proj"])
    path = tmp_path / "a" / "adapter_model.safetensors"
    good = safetensors.load_file(path)
    name = next(key for key in good if key.endswith("lora_A.weight"))
    for bad in (
        {name: torch.zeros(3, 9)},
        {name: torch.zeros(4, 16)},
        {name.replace("q_proj", "z"): good[name].clone()},
    ):
        safetensors.save_file(good | bad, path)
        with pytest.raises(FormatError, match=r"shape|fit|no weights"):
            prepared(tmp_path / "a")


# Pickled weights ---------------------------------------------------------------------------------------------------


def pickled(source: Path, target: Path, content: object = None) -> Path:
    """Copy a folder with its weights as a pickle."""
    shutil.copytree(source, target)
    weights = safetensors.load_file(target / "model.safetensors")
    (target / "model.safetensors").unlink()
    torch.save(weights if content is None else content, target / "pytorch_model.bin")
    return target


def test_pickled_weights_open_where_that_is_allowed(tiny_folder: Folder, tmp_path: Path) -> None:
    source = tiny_folder("BertForMaskedLM")
    folder = pickled(source, tmp_path / "model")
    with pytest.raises(FormatError, match=r"a pickle \(pytorch_model\.bin\)") as caught:
        eh.open(f"hf:{folder}").view("vectors")
    assert "`allow_pickle=True`" in caught.value.hint
    subject = eh.open(f"hf:{folder}", allow_pickle=True, device="cpu")
    assert subject.name == "model"
    expected = eh.open(f"hf:{source}", device="cpu").view("sentences").encode(TEXTS)  # type: ignore[attr-defined]
    np.testing.assert_array_equal(subject.view("sentences").encode(TEXTS), expected)  # type: ignore[attr-defined]
    assert [path.name for path in folder.glob("*.safetensors")] == []


def test_weights_in_several_pickles(tiny_folder: Folder, tmp_path: Path) -> None:
    source = tiny_folder("GPT2LMHeadModel")
    folder = pickled(source, tmp_path / "model")
    weights = torch.load(folder / "pytorch_model.bin", weights_only=True)
    (folder / "pytorch_model.bin").unlink()
    names = sorted(weights)
    places = {name: f"pytorch_model-0000{1 + (number % 2)}-of-00002.bin" for number, name in enumerate(names)}
    for place in set(places.values()):
        torch.save({name: weights[name] for name in names if places[name] == place}, folder / place)
    index = folder / "pytorch_model.bin.index.json"
    index.write_text(json.dumps({"weight_map": places}))
    assert eh.open(str(folder), allow_pickle=True).view("vectors") == eh.open(str(source)).view("vectors")
    index.write_text(json.dumps({"weight_map": dict.fromkeys(names, "../secret.bin")}))
    with pytest.raises(FormatError, match=r"names the file '\.\./secret\.bin'"):
        eh.open(str(folder), allow_pickle=True)


class Payload:
    """Runs code where a pickle is opened in full."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.mark),)


@pytest.mark.parametrize("how", ["torch", "pickle"])
def test_no_code_of_a_pickle_runs_even_where_it_is_allowed(how: str, tiny_folder: Folder, tmp_path: Path) -> None:
    folder = pickled(tiny_folder("BertModel"), tmp_path / "model", {"x": Payload(tmp_path / "ran")})
    if how == "pickle":
        (folder / "pytorch_model.bin").write_bytes(pickle.dumps({"x": Payload(tmp_path / "ran")}, protocol=2))
    with pytest.raises(FormatError, match="not a checkpoint of plain tensors"):
        eh.open(f"hf:{folder}", allow_pickle=True)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ([torch.zeros(2)], "holds a list"),
        ({"x": 3}, "is not a plain tensor"),
        ({"x": torch.zeros(1).expand(1 << 40)}, "more numbers than the file"),
        ({}, "holds a dict"),
    ],
)
def test_what_is_not_tensors_by_name_is_refused(
    content: object, says: str, tiny_folder: Folder, tmp_path: Path
) -> None:
    folder = pickled(tiny_folder("BertModel"), tmp_path / "model", content)
    with pytest.raises(FormatError, match=says):
        eh.open(f"hf:{folder}", allow_pickle=True)


def test_a_folder_with_safetensors_is_used_as_it_is(tiny_folder: Folder, cache: Path) -> None:
    folder = tiny_folder("BertModel")
    assert prepared(folder, allow_pickle=True) == folder
    assert not (cache / "models").exists()
