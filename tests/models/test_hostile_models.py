"""Model folders of a few bytes that ask for gigabytes, for the network, or for a tokenizer that panics or draws lots."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
hub = pytest.importorskip("huggingface_hub")

import config_attack  # noqa: E402

import evenhand as eh  # noqa: E402
from evenhand.errors import EvenhandError, EvenhandWarning, FormatError  # noqa: E402
from evenhand.models import tokenizing  # noqa: E402
from evenhand.models.encoders.transformer import Transformer, load_model  # noqa: E402
from evenhand.models.huggingface import load_tokenizer, offline  # noqa: E402
from evenhand.models.lm.masked import MaskedLM  # noqa: E402

Folder = Callable[..., Path]


@pytest.fixture
def folder_with(tiny_folder: Folder, tmp_path: Path) -> Callable[..., Path]:
    """Return a function that copies a tiny model and changes one of its JSON files."""

    def changed(class_name: str, file: str = "config.json", **values: object) -> Path:
        folder = shutil.copytree(tiny_folder(class_name), tmp_path / "model", dirs_exist_ok=True)
        content = json.loads((folder / file).read_text())
        (folder / file).write_text(json.dumps(content | values))
        return folder

    return changed


@pytest.mark.parametrize(
    ("class_name", "values"),
    [
        ("BertForMaskedLM", {"vocab_size": 1 << 27}),
        ("BertForMaskedLM", {"type_vocab_size": 1 << 27}),
        ("BertForMaskedLM", {"max_position_embeddings": 1 << 27}),
        ("BertForMaskedLM", {"intermediate_size": 1 << 27}),
        ("BertForSequenceClassification", {"num_labels": 1 << 27}),
        ("BertForSequenceClassification", {"num_labels": 50}),
        ("GPT2LMHeadModel", {"n_positions": 1 << 27}),
        ("GPT2LMHeadModel", {"vocab_size": 1 << 27}),
        ("LlamaForCausalLM", {"vocab_size": 1 << 27}),
        ("LlamaForCausalLM", {"head_dim": 1 << 27}),
        ("AlbertForMaskedLM", {"num_hidden_groups": 1 << 27}),
    ],
)
def test_sizes_that_are_not_stored_are_refused_before_anything_is_allocated(
    class_name: str, values: dict[str, int], folder_with: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = {"id2label": None, "label2id": None} if "num_labels" in values else {}
    folder = folder_with(class_name, **values, **labels)
    for name in ("AutoModelForMaskedLM", "AutoModelForSequenceClassification", "AutoModelForCausalLM"):
        monkeypatch.setattr(getattr(transformers, name), "from_pretrained", lambda *a, **k: pytest.fail("allocated"))
    with pytest.raises(FormatError, match=r"config\.json"):
        load_model(folder)


def test_a_head_that_is_not_stored_is_not_allocated(
    folder_with: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The weights fit a small model; the classifier alone would have 2^24 x 16 numbers."""
    folder = folder_with("BertModel", architectures=["BertForSequenceClassification"], intermediate_size=32)
    config = json.loads((folder / "config.json").read_text())
    monkeypatch.setattr("evenhand.models.huggingface.MOST_UNSTORED", 0)
    (folder / "config.json").write_text(json.dumps(config | {"num_labels": 1000}))
    with pytest.raises(FormatError, match="numbers that are not stored"):
        load_model(folder)


ATTACKED = ("GPT2LMHeadModel", "LlamaForCausalLM", "BertForSequenceClassification", "Gemma3ForCausalLM")
PAIRS = (
    ("DistilBertForMaskedLM", {"sinusoidal_pos_embds": True, "max_position_embeddings": 1 << 24}),
    ("BertModel", {"model_type": "xlm", "architectures": ["XLMModel"], "sinusoidal_embeddings": True, "emb_dim": 16, "n_layers": 1,
                   "n_heads": 2, "max_position_embeddings": 1 << 22}),
    ("BertModel", {"model_type": "opt", "architectures": ["OPTModel"], "max_position_embeddings": 1 << 26}),
    ("BertModel", {"model_type": "mamba", "architectures": ["MambaModel"], "state_size": 1 << 24}),
    ("BertModel", {"model_type": "bloom", "architectures": ["BloomModel"], "n_head": 1 << 20, "hidden_size": 1 << 20, "n_layer": 1}),
    ("GPT2LMHeadModel", {"n_layer": 1000}),
)  # fmt: skip


@pytest.mark.parametrize(("class_name", "values"), PAIRS)
def test_another_architecture_does_not_make_the_same_weights_large(
    class_name: str, values: dict[str, object], folder_with: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folder_with(class_name, **values)
    for name in ("AutoModel", "AutoModelForMaskedLM", "AutoModelForCausalLM"):
        monkeypatch.setattr(getattr(transformers, name), "from_pretrained", lambda *a, **k: pytest.fail("allocated"))
    with pytest.raises(FormatError, match=r"config\.json"):
        load_model(folder)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("class_name", ATTACKED)
def test_a_sample_of_hostile_fields_opens_or_is_refused(class_name: str, folder_with: Callable[..., Path]) -> None:
    """`config_attack` says what is tried; here a few changes are, in this process, with a limit of memory."""
    config = json.loads((folder_with(class_name) / "config.json").read_text())
    for name, value in config_attack.sampled(class_name, config, 12 / 900):
        answer = config_attack.opened(folder_with(class_name, **{name: value}))
        assert not answer.wrong, (name, value, answer.text)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("class_name", config_attack.CLASSES)
def test_no_field_of_a_configuration_takes_memory_time_code_or_the_network(class_name: str, tmp_path: Path) -> None:
    """In a process of its own, which forks one with limits for each change."""
    done = subprocess.run(
        [sys.executable, config_attack.__file__, class_name, str(tmp_path / "folders"), "1"],
        capture_output=True, text=True, check=True, env=os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
    )  # fmt: skip
    *wrong, summary = done.stdout.splitlines()
    assert not wrong
    assert summary.startswith(f"# {class_name}: ")


def test_what_transformers_reports_about_a_field_is_not_shown(
    folder_with: Callable[..., Path], capfd: pytest.CaptureFixture[str]
) -> None:
    with contextlib.suppress(EvenhandError):
        load_model(folder_with("GPT2LMHeadModel", use_return_dict="\x1b[31mevil", sub_configs={}))
    out, told = capfd.readouterr()
    assert "evil" not in out + told


# Network -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["evil/kernel", "flash_attention_2", "kernels-community/flash-attn", "nothing"])
def test_the_configuration_does_not_choose_how_attention_is_computed(
    name: str, folder_with: Callable[..., Path], tiny_folder: Folder
) -> None:
    plain = load_model(tiny_folder("BertForMaskedLM")).model
    for key in ("attn_implementation", "_attn_implementation", "_attn_implementation_internal"):
        model = load_model(folder_with("BertForMaskedLM", **{key: name})).model
        assert model.config._attn_implementation == plain.config._attn_implementation


def test_every_load_is_offline(folder_with: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr(hub.constants, "HF_HUB_OFFLINE", False)
    seen: list[tuple[bool, str | None]] = []

    def watched(plain: Any) -> Any:
        def call(*args: object, **kwargs: object) -> Any:
            seen.append((hub.is_offline_mode(), os.environ.get("HF_HUB_OFFLINE")))
            return plain(*args, **kwargs)

        return call

    for name in ("AutoModelForMaskedLM", "AutoTokenizer", "AutoConfig"):
        auto = getattr(transformers, name)
        monkeypatch.setattr(auto, "from_pretrained", watched(auto.from_pretrained))
    Transformer.load(folder_with("BertForMaskedLM"), device="cpu")
    assert len(seen) >= 3
    assert set(seen) == {(True, "1")}
    assert not hub.is_offline_mode()
    assert "HF_HUB_OFFLINE" not in os.environ


def test_loads_of_several_threads_leave_the_mode_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr(hub.constants, "HF_HUB_OFFLINE", False)
    first, second = offline(), offline()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert hub.is_offline_mode()
    second.__exit__(None, None, None)
    assert not hub.is_offline_mode()
    assert "HF_HUB_OFFLINE" not in os.environ


def test_a_request_to_the_hub_fails_at_once_while_offline() -> None:
    with offline(), pytest.raises(hub.errors.OfflineModeIsEnabled):
        hub.utils.get_session().get("https://hub.invalid/")


# Tokenizers --------------------------------------------------------------------------------------------------------


def bpe_model(folder: Path, **values: object) -> dict[str, object]:
    model: dict[str, object] = json.loads((folder / "tokenizer.json").read_text())["model"]
    return model | values


def test_dropout_of_a_tokenizer_is_set_to_none_and_that_is_said(
    folder_with: Callable[..., Path], tiny_folder: Folder
) -> None:
    model = bpe_model(tiny_folder("GPT2LMHeadModel"), dropout=0.5)
    folder = folder_with("GPT2LMHeadModel", "tokenizer.json", model=model)
    with pytest.warns(EvenhandWarning, match=r"splits words at random \(dropout 0\.5\)"):
        tokenizer = load_tokenizer(folder)
    plain = load_tokenizer(tiny_folder("GPT2LMHeadModel"))
    text = "The secretary said that the engineer was pleasant."
    assert all(tokenizer(text)["input_ids"] == plain(text)["input_ids"] for _ in range(20))


@pytest.mark.parametrize("value", ["x", [], None, -1, True, "512"])
def test_a_longest_length_that_is_none_is_refused(value: object, folder_with: Callable[..., Path]) -> None:
    folder = folder_with("BertModel", "tokenizer_config.json", model_max_length=value)
    if value is None:  # transformers takes it as "not given"
        assert load_tokenizer(folder).model_max_length > 0
        return
    with pytest.raises(FormatError, match=r"model_max_length|a tokenizer"):
        load_tokenizer(folder)


def test_an_unknown_token_that_is_missing_is_named_where_a_text_needs_it(
    folder_with: Callable[..., Path], tiny_folder: Folder
) -> None:
    model = bpe_model(tiny_folder("BertForSequenceClassification"), unk_token="[NONE]")
    folder = folder_with("BertForSequenceClassification", "tokenizer.json", model=model)
    subject = eh.open(f"hf:{folder}", device="cpu")
    for view in ("labels", "sentences"):
        opened = subject.view(view)  # type: ignore[arg-type]
        with pytest.raises(FormatError, match=r"the tokenizer of .* fails"):
            (opened.predict if view == "labels" else opened.encode)(["snow ☃"])  # type: ignore[attr-defined]


class PanicException(BaseException):
    """What a panic of Rust code is in Python, by its name."""


def test_a_panic_ends_in_a_sentence(tiny_folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    def panic(*args: object, **kwargs: object) -> None:
        raise PanicException("called `Option::unwrap()` on a `None` value")

    transformer = Transformer.load(tiny_folder("GPT2LMHeadModel"), device="cpu")
    monkeypatch.setattr(type(transformer.tokenizer), "_encode_plus", panic)
    with pytest.raises(FormatError, match=r"the tokenizer of .* fails \(called `Option"):
        tokenizing.encode_one(transformer.tokenizer, "she")
    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", panic)
    with pytest.raises(FormatError, match=r"cannot load a tokenizer from .*called `Option"):
        load_tokenizer(tiny_folder("GPT2LMHeadModel"))


def test_an_interrupt_is_not_taken_for_a_fault_of_the_tokenizer() -> None:
    with pytest.raises(KeyboardInterrupt), tokenizing.tokenizer_errors(None):
        raise KeyboardInterrupt


def test_replacements_that_grow_are_refused_and_usual_ones_are_not(
    folder_with: Callable[..., Path], tiny_folder: Folder
) -> None:
    steps: list[dict[str, object]] = [
        {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 50} for _ in range(5)
    ]
    nested = {"type": "Sequence", "normalizers": [steps[0], {"type": "Sequence", "normalizers": steps[1:]}]}
    with pytest.raises(FormatError, match="replacements of its normalizer make more than 1,000 characters"):
        load_tokenizer(folder_with("BertModel", "tokenizer.json", normalizer=nested))
    usual = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    assert load_tokenizer(folder_with("BertModel", "tokenizer.json", normalizer=usual))


# Configurations ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "values",
    [
        *({key: value} for key in ("dtype", "torch_dtype") for value in ("int8", "complex64", "float8_e4m3fn", 7, [])),
        {"num_attention_heads": -1},
        {"num_attention_heads": 0},
        {"num_attention_heads": "x"},
        {"is_encoder_decoder": True},
        {"return_dict": []},
        *({key: value} for key in ("text_config", "decoder") for value in ({}, {"model_type": "bert"}, 1, "x")),
    ],
    ids=str,
)
def test_odd_settings_end_in_a_sentence_or_change_nothing(
    values: dict[str, Any], folder_with: Callable[..., Path], tiny_folder: Folder
) -> None:
    def scores(folder: Path) -> Any:
        subject = eh.open(f"hf:{folder}", device="cpu")
        sentences = subject.view("sentences").encode(["she is here"])
        return sentences.sum(), subject.view("likelihood").log_probabilities(["she is here"]).log_probabilities[0]

    try:
        found = scores(folder_with("BertForMaskedLM", **values))
    except EvenhandError:
        return
    assert found == pytest.approx(scores(tiny_folder("BertForMaskedLM")), rel=1e-5)


def test_a_forward_pass_that_fails_names_the_model(tiny_folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    transformer = Transformer.load(tiny_folder("BertForMaskedLM"), device="cpu")
    monkeypatch.setattr(transformer.model, "forward", lambda **_: torch.ones(2) @ torch.ones(3))
    with pytest.raises(FormatError, match=r"the model .* cannot compute its output \(inconsistent tensor size"):
        MaskedLM(transformer).log_probabilities(["she"])
