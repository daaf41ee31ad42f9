"""The parts of prepared folders and input tables by their definitions: factors, scales, names, sizes, vocabularies."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
safetensors = pytest.importorskip("safetensors.torch")

from evenhand.errors import FormatError, InputMissingError  # noqa: E402
from evenhand.models.encoders import input_table as tables  # noqa: E402
from evenhand.models.encoders import prepared_folder as module  # noqa: E402
from evenhand.models.encoders.input_table import find_table, input_table, read_pieces  # noqa: E402
from evenhand.models.encoders.prepared_folder import adapter_kind, base_folder, prepared, read_pickled  # noqa: E402
from evenhand.models.model_files import TensorInfo  # noqa: E402

Folder = Callable[..., Path]
HERE = Path("adapter")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EVENHAND_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


# Adapters ------------------------------------------------------------------------------------------------------------


def factors(kind: str, first: Any, second: Any) -> Any:
    return {"kind": kind, "A": first, "B": second}


def test_the_change_of_a_weight_by_hand() -> None:
    drawn = torch.Generator().manual_seed(0)
    first, second = torch.randn(2, 4, generator=drawn), torch.randn(3, 2, generator=drawn)
    change = 5 / 2 * (second @ first)
    settings: dict[str, Any] = {"lora_alpha": 5}
    wide, high = torch.randn(3, 4, generator=drawn), torch.randn(4, 3, generator=drawn)
    torch.testing.assert_close(
        module._changed(HERE, "m", wide, factors("linear", first, second), settings), wide + change
    )
    torch.testing.assert_close(
        module._changed(HERE, "m", high, factors("linear", first, second), settings), high + change.T
    )
    torch.testing.assert_close(
        module._changed(HERE, "m", high, factors("table", first, second), settings), high + change.T
    )
    square = torch.randn(4, 4, generator=drawn)
    parts = factors("linear", first, torch.randn(4, 2, generator=drawn))
    change = 5 / 2 * (parts["B"] @ parts["A"])
    torch.testing.assert_close(module._changed(HERE, "m", square, parts, settings), square + change)
    flipped = module._changed(HERE, "m", square, parts, settings | {"fan_in_fan_out": True})
    torch.testing.assert_close(flipped, square + change.T)
    half = module._changed(HERE, "m", square.half(), parts, settings)
    assert half.dtype == torch.float16
    assert flipped.is_contiguous()
    with pytest.raises(FormatError, match=r"the change of m has the shape \(4, 4\), its weight \(5, 4\)"):
        module._changed(HERE, "m", torch.zeros(5, 4), parts, settings)
    for one, other in ((first, torch.zeros(3, 3)), (first[0], second), (first, second[0])):
        with pytest.raises(FormatError, match="the factors of m do not fit together"):
            module._changed(HERE, "m", wide, factors("linear", one, other), settings)


@pytest.mark.parametrize(
    ("name", "settings", "scale"),
    [
        ("a.q", {"lora_alpha": 6}, 1.5),
        ("a.q", {"lora_alpha": 6, "use_rslora": True}, 3.0),
        ("a.q", {"lora_alpha": 6, "alpha_pattern": {"q": 8}}, 2.0),
        ("a.q", {"lora_alpha": 6, "alpha_pattern": {"a.q": 8, "b": 1}}, 2.0),
        ("a.xq", {"lora_alpha": 6, "alpha_pattern": {"q": 8}}, 1.5),
        ("a.q", {"lora_alpha": 6.0, "alpha_pattern": []}, 1.5),
    ],
)
def test_the_scale_of_a_change(name: str, settings: dict[str, Any], scale: float) -> None:
    assert module._scale(HERE, name, 4, settings) == pytest.approx(scale)


@pytest.mark.parametrize("alpha", [True, "6", None, float("nan"), float("inf")])
def test_a_scale_that_is_no_number_is_refused(alpha: Any) -> None:
    with pytest.raises(FormatError, match=r"adapter_config\.json: lora_alpha is"):
        module._scale(HERE, "m", 4, {"lora_alpha": alpha})
    with pytest.raises(FormatError, match="lora_alpha is 6"):
        module._scale(HERE, "m", 0, {"lora_alpha": 6})


def test_names_of_stored_weights() -> None:
    stored: Any = dict.fromkeys(["bert.layer.q.weight", "k.weight", "x.v.weight", "y.v.weight", "a.b", "b"])
    for name, found in (
        ("bert.layer.q.weight", ("bert.layer.q.weight", "")),
        ("layer.q.weight", ("bert.layer.q.weight", "")),
        ("model.k.weight", ("k.weight", "model.")),
        ("v.weight", ("", "")),  # two of them
        ("z.weight", ("", "")),
        ("c.a.b", ("", "")),  # a.b and b
        ("ayer.q.weight", ("", "")),
        ("modelk.weight", ("", "")),
    ):
        assert module._stored_name(name, stored) == found


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"peft_type": "LORA"}, ""),
        ({"peft_type": "LORA", "use_dora": False, "init_lora_weights": True}, ""),
        ({"peft_type": "LORA", "init_lora_weights": "gaussian"}, ""),
        ({"peft_type": "LORA", "init_lora_weights": "PiSSA"}, "an adapter with init_lora_weights, and plain LoRA"),
        ({"peft_type": "LORA", "use_dora": True}, "an adapter with use_dora, and plain LoRA"),
        ({"peft_type": "IA3"}, "an adapter with peft_type 'IA3', and plain LoRA"),
        ({}, "an adapter with peft_type None"),
    ],
)
def test_plain_adapters_alone_are_merged(settings: dict[str, Any], says: str) -> None:
    if says:
        with pytest.raises(FormatError, match=says):
            module._require_plain(HERE, settings)
    else:
        module._require_plain(HERE, settings)


def adapter_folder(folder: Path, base: str, **settings: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    content = {"peft_type": "LORA", "base_model_name_or_path": base, "lora_alpha": 4, **settings}
    (folder / "adapter_config.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


def test_a_base_model_is_found_by_its_path_or_beside(tiny_folder: Folder, tmp_path: Path) -> None:
    base = tiny_folder("BertModel")
    assert base_folder(adapter_folder(tmp_path / "a", str(base))) == base
    (tmp_path / "beside").symlink_to(base)
    assert base_folder(adapter_folder(tmp_path / "b", "someone/beside")).resolve() == base.resolve()
    (tmp_path / "c" / "x").mkdir(parents=True)
    (tmp_path / "c" / "x" / "inner").symlink_to(base)
    assert base_folder(adapter_folder(tmp_path / "c", "x/inner")).resolve() == base.resolve()
    for name in ("", "  ", None, 3):
        with pytest.raises(FormatError, match="base_model_name_or_path is"):
            base_folder(adapter_folder(tmp_path / "d", name))  # type: ignore[arg-type]
    with pytest.raises(InputMissingError, match=r"base model 'x/y', which is not on this disk[\s\S]*hf download x/y"):
        base_folder(adapter_folder(tmp_path / "d", "x/y"))


def test_what_an_adapter_makes_of_its_base_model(tiny_folder: Folder, tmp_path: Path) -> None:
    bert, head = tiny_folder("BertModel"), tiny_folder("BertForSequenceClassification")
    assert adapter_kind(adapter_folder(tmp_path / "a", str(bert))) == "encoder"
    assert adapter_kind(adapter_folder(tmp_path / "b", str(bert), task_type="SEQ_CLS")) == "text-classifier"
    assert adapter_kind(adapter_folder(tmp_path / "c", str(head), task_type="SEQ_CLS")) == "text-classifier"
    own = adapter_folder(tmp_path / "d", str(bert))
    (own / "config.json").write_bytes((tiny_folder("GPT2LMHeadModel") / "config.json").read_bytes())
    assert adapter_kind(own) == "causal-lm"
    config = module._merged_config(own, bert, {}, {})
    assert config["architectures"] == ["GPT2LMHeadModel"]
    plain = json.loads((bert / "config.json").read_text(encoding="utf-8"))
    assert module._merged_config(tmp_path / "a", bert, {"task_type": "X"}, {}) == plain
    classified = {"task_type": "SEQ_CLS"}
    weights: Any = {
        "x.weight": torch.zeros(9, 2),
        "classifier.weight": torch.zeros(3, 2),
        "classifier.bias": torch.zeros(5),
    }
    found = module._merged_config(tmp_path / "b", bert, classified, weights)
    names = {"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"}
    added = {"id2label": names, "label2id": {"LABEL_0": 0, "LABEL_1": 1, "LABEL_2": 2}}
    assert found == plain | added | {"architectures": ["BertForSequenceClassification"]}
    assert module._merged_config(tmp_path / "c", head, classified, {})["architectures"] == [
        "BertForSequenceClassification"
    ]
    with pytest.raises(FormatError, match="an adapter of a classifier without its head"):
        module._merged_config(tmp_path / "b", bert, classified, {"classifier.bias": torch.zeros(5)})


@pytest.mark.parametrize("pickled", [False, True])
def test_an_adapter_by_hand(pickled: bool, tiny_folder: Folder, tmp_path: Path) -> None:
    """A factor of a linear layer, one of the table, a saved module, and names with the parts that peft adds."""
    base, folder = tiny_folder("BertModel"), tmp_path / "a"
    stored = safetensors.load_file(base / "model.safetensors")
    rows = stored["embeddings.word_embeddings.weight"].shape[0]
    drawn = torch.Generator().manual_seed(0)
    query, start = "encoder.layer.0.attention.self.query", "base_model.model."
    weights = {
        f"{start}bert.{query}.lora_A.weight": torch.randn(2, 16, generator=drawn),
        f"{start}bert.{query}.lora_B.weight": torch.randn(16, 2, generator=drawn),
        f"{start}bert.embeddings.word_embeddings.lora_embedding_A": torch.randn(2, rows, generator=drawn),
        f"{start}bert.embeddings.word_embeddings.lora_embedding_B": torch.randn(16, 2, generator=drawn),
        f"{start}bert.pooler.modules_to_save.dense.bias": torch.randn(16, generator=drawn, dtype=torch.float64),
        f"{start}other.base_layer.bias": torch.randn(3, generator=drawn),
    }
    adapter_folder(folder, str(base))
    if pickled:
        torch.save(weights, folder / "adapter_model.bin")
        with pytest.raises(FormatError, match="pickle"):
            prepared(folder)
    else:
        safetensors.save_file(weights, folder / "adapter_model.safetensors")
    (folder / "README.md").write_text("mine")
    target = prepared(folder, allow_pickle=pickled)
    found = safetensors.load_file(target / "model.safetensors")
    parts = list(weights.values())
    expected = {f"bert.{name}": tensor for name, tensor in stored.items()}
    expected[f"bert.{query}.weight"] = stored[f"{query}.weight"] + 2 * parts[1] @ parts[0]
    expected["bert.embeddings.word_embeddings.weight"] = (
        stored["embeddings.word_embeddings.weight"] + 2 * (parts[3] @ parts[2]).T
    )
    expected["bert.pooler.dense.bias"] = parts[4].float()
    expected["other.bias"] = parts[5]
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor)
    assert (target / "README.md").read_text() == "mine"
    assert (target / "tokenizer.json").is_file()
    assert not (target / "adapter_config.json").exists()
    assert target.name == "a"
    assert (target / "config.json").read_text(encoding="utf-8").endswith("}\n")
    incomplete = {name: tensor for name, tensor in weights.items() if "lora_B" not in name}
    (torch.save if pickled else safetensors.save_file)(
        incomplete, folder / f"adapter_model.{'bin' if pickled else 'safetensors'}"
    )
    with pytest.raises(FormatError, match=f"the base model bertmodel has no weights 'bert.{query}'"):
        prepared(folder, allow_pickle=pickled)


def test_an_adapter_without_weights_or_with_damaged_ones(tiny_folder: Folder, tmp_path: Path) -> None:
    folder = adapter_folder(tmp_path / "a", str(tiny_folder("BertModel")))
    with pytest.raises(InputMissingError, match=r"holds no adapter_model\.safetensors"):
        prepared(folder)
    safetensors.save_file({"x": torch.zeros(2, dtype=torch.float8_e4m3fn)}, folder / "adapter_model.safetensors")
    content = (folder / "adapter_model.safetensors").read_bytes()
    (folder / "adapter_model.safetensors").write_bytes(content.replace(b"F8_E4M3", b"F8_XXXX"))
    with pytest.raises(FormatError, match=r"adapter_model\.safetensors"):
        prepared(folder)


# Pickled weights -----------------------------------------------------------------------------------------------------


def test_folders_that_need_no_step_stay_as_they_are(tmp_path: Path, tiny_folder: Folder) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    assert prepared(empty, allow_pickle=True) == empty  # the reader says what is missing
    assert prepared(tmp_path / "none", allow_pickle=True) == tmp_path / "none"
    both = tmp_path / "both"
    both.mkdir()
    (both / "config.json").write_bytes((tiny_folder("BertModel") / "config.json").read_bytes())
    assert prepared(both, allow_pickle=True) == both
    (both / "pytorch_model.bin.index.json").write_text("{}")
    assert prepared(both) == both
    (both / "model.safetensors.index.json").write_text("{}")
    assert prepared(both, allow_pickle=True) == both
    (both / "model.safetensors.index.json").unlink()
    assert module._is_pickled(both)
    assert prepared("~no-such-user/x") == Path("~no-such-user/x")


def test_a_converted_folder_keeps_its_other_files(tmp_path: Path, tiny_folder: Folder) -> None:
    source, folder = tiny_folder("BertModel"), tmp_path / "model"
    folder.mkdir()
    for file in source.iterdir():
        if file.name != "model.safetensors":
            (folder / file.name).write_bytes(file.read_bytes())
    stored = safetensors.load_file(source / "model.safetensors")
    torch.save(stored, folder / "pytorch_model.bin")
    (folder / "evenhand-sites.safetensors").write_bytes(b"maps")
    target = prepared(folder, allow_pickle=True)
    found = safetensors.load_file(target / "model.safetensors")
    assert all(torch.equal(found[name], tensor) for name, tensor in stored.items())
    assert (target / "evenhand-sites.safetensors").read_bytes() == b"maps"
    assert json.loads((target / "config.json").read_text()) == json.loads((source / "config.json").read_text())
    assert not (target / "pytorch_model.bin").exists()
    module._kept.cache_clear()
    (target / "mark").touch()
    assert prepared(folder, allow_pickle=True) == target
    assert (target / "mark").exists()  # it is not written again
    (folder / "pytorch_model.bin").unlink()
    for content in (
        {"weight_map": 3},
        {"weight_map": {"a": "x.txt"}},
        {"weight_map": {"a": "none.bin"}},
        {"weight_map": {"a": "a/b.bin"}},
    ):
        (folder / "pytorch_model.bin.index.json").write_text(json.dumps(content))
        if content["weight_map"] == 3:
            assert safetensors.load_file(prepared(folder, allow_pickle=True) / "model.safetensors") == {}
        else:
            with pytest.raises(FormatError, match="names the file"):
                prepared(folder, allow_pickle=True)


def test_tensors_are_at_most_twice_as_large_as_their_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.bin"
    path.write_bytes(b"x" * 100)

    def read(*tensors: Any) -> Any:
        monkeypatch.setattr(torch, "load", lambda *_, **__: {str(n): part for n, part in enumerate(tensors)})
        return read_pickled(path)

    view = torch.zeros(1).expand(25)
    found = read(view, torch.zeros(25).reshape(5, 5).T)  # 200 bytes
    assert [part.is_contiguous() for part in found.values()] == [True, True]
    assert found["0"].untyped_storage().nbytes() == 100
    assert read(torch.zeros(100, dtype=torch.float16))
    for tensors in ((view, view, torch.zeros(1)), (torch.zeros(51),), (torch.zeros(101, dtype=torch.float16),)):
        with pytest.raises(FormatError, match="its tensors have more numbers than the file"):
            read(*tensors)
    for wrong in (torch.zeros(2).to_sparse(), torch.zeros(2, device="meta"), "x"):
        with pytest.raises(FormatError, match="'0' is not a plain tensor"):
            read(wrong)


def test_a_packed_checkpoint_does_not_expand(tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    torch.save({"a": torch.arange(3)}, path)
    assert read_pickled(path)["a"].tolist() == [0, 1, 2]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("zeros", b"0" * 100_000)
    with pytest.raises(FormatError, match=r"bytes would expand to 100,000"):
        read_pickled(path)
    path.write_bytes(b"")
    with pytest.raises(FormatError, match=r"not a checkpoint of plain tensors \(\S"):
        read_pickled(path)
    for error, reason in (
        (RuntimeError("first\nsecond"), "first"),
        (RuntimeError(), "RuntimeError"),
        (RuntimeError("y" * 300), "y" * 200),
    ):
        with pytest.MonkeyPatch.context() as patch:

            def fails(*_: Any, error: Exception = error, **__: Any) -> None:
                raise error

            patch.setattr(torch, "load", fails)
            with pytest.raises(FormatError) as caught:
                read_pickled(path)
            assert caught.value.message.endswith(f"({reason})")


# Input tables --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shapes", "config", "table"),
    [
        ({"a.wte.weight": (9, 2), "wte.weight": (8, 2)}, {"vocab_size": 8}, "wte.weight"),
        ({"a.wte.weight": (9, 2), "wte.weight": (7, 2)}, {"vocab_size": 8}, "a.wte.weight"),
        ({"b.wte.weight": (8, 2), "a.wte.weight": (8, 2)}, {"vocab_size": 8}, "a.wte.weight"),
        ({"decoder.wte.weight": (8, 2), "x.encoder.wte.weight": (8, 2)}, {"vocab_size": 8}, "x.encoder.wte.weight"),
        ({"wte.weight": (1, 2)}, {}, "wte.weight"),
        ({"wte.weight": (0, 2)}, {"vocab_size": "x"}, None),
        ({"wte.weight": (8,)}, {"vocab_size": 8}, None),
        ({"wte.weight": (8, 2, 1)}, {"vocab_size": 8}, None),
        ({"xwte.weight": (8, 2)}, {"vocab_size": 8}, None),
        ({"wte.weight": (8, 2), "shared.weight": (8, 2)}, {"vocab_size": 8}, "shared.weight"),
    ],
)
def test_the_input_table_among_tensors(shapes: dict[str, Any], config: dict[str, Any], table: str | None) -> None:
    tensors = {name: TensorInfo(Path(), "F32", shape, 0, 4) for name, shape in shapes.items()}
    found = find_table(tensors, config)
    assert (found and found[0]) == table
    assert found is None or found[1] is tensors[found[0]]


def write(path: Path, content: Any) -> None:
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")


def test_vocabularies_by_hand(tmp_path: Path) -> None:
    write(tmp_path / "vocab.txt", "[PAD]\nhe\n##s\nhe\n<x>\nnormal [A]\n")
    write(tmp_path / "special_tokens_map.json", {"mask_token": "he", "additional": "##s", "x_token": 3})
    write(tmp_path / "tokenizer_config.json", {"eos_token": {"content": "##s"}, "model_max_length": 3})
    write(tmp_path / "added_tokens.json", {"<y>": 7, "new": 6})
    found = read_pieces(tmp_path)
    assert dict(found.rows) == {"[PAD]": 0, "he": 1, "##s": 2, "<x>": 4, "normal [A]": 5, "<y>": 7, "new": 6}
    assert found.special == {"[PAD]", "<x>", "<y>", "he", "##s"}
    assert found.added == {"new"}
    model = {"type": "Unigram", "vocab": [["a", -1.0], ["b", -2.0], ["a", -3.0]]}
    added = [{"content": "<s>", "id": 3, "special": True}, {"content": "new", "id": 4, "special": False}]
    write(tmp_path / "tokenizer.json", {"model": model, "added_tokens": added})
    found = read_pieces(tmp_path)
    assert (dict(found.rows), found.special, found.added) == ({"a": 0, "b": 1, "<s>": 3, "new": 4}, {"<s>"}, {"new"})
    for vocabulary in ([["a", 1], []], [["a", 1], 3], [["a", 1], [4, 1]]):
        write(tmp_path / "tokenizer.json", {"model": {"vocab": vocabulary}})
        with pytest.raises(FormatError, match="does not map pieces to rows"):
            read_pieces(tmp_path)
    for content in ({"model": 3}, {"model": {"vocab": {"a": True}}}):
        write(tmp_path / "tokenizer.json", content)
        with pytest.raises(FormatError, match="does not map pieces to rows"):
            read_pieces(tmp_path)
    write(tmp_path / "tokenizer.json", {"model": {"vocab": {"a": 0}}, "added_tokens": None})
    assert read_pieces(tmp_path).added == frozenset()


def test_a_vocabulary_that_only_the_tokenizer_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Tokenizer:
        all_special_tokens = ("<s>",)

        def get_vocab(self) -> dict[str, int]:
            return {"a": 0, "<s>": 1, "new": 2}

        def get_added_vocab(self) -> dict[str, int]:
            return {"<s>": 1, "new": 2}

    monkeypatch.setattr(tables, "load_tokenizer", lambda folder: Tokenizer())
    found = read_pieces(tmp_path)
    assert (found.rows, found.special, found.added) == ({"a": 0, "<s>": 1, "new": 2}, {"<s>"}, {"new"})


def test_rows_at_the_ends_of_a_table(tmp_path: Path) -> None:
    table = np.arange(8, dtype=np.float32).reshape(4, 2)
    safetensors.save_file({"wte.weight": torch.from_numpy(table)}, tmp_path / "model.safetensors")
    write(tmp_path / "config.json", {"vocab_size": 4, "model_type": "gpt2"})
    write(tmp_path / "tokenizer.json", {"model": {"vocab": {"he": 3, "she": 0, "it": 1}}})
    found = input_table(tmp_path, name="mine")
    assert found.words == ("she", "it", "he")
    np.testing.assert_array_equal(found.matrix, table[[0, 1, 3]])
    assert dict(found.source) == {
        "kind": "input table", "model": "gpt2", "tensor": "wte.weight", "pieces": 3, "words": 3, "whole_words": True,
        "left_out": {"special": 0, "word pieces": 0, "undecodable": 0, "repeated": 0}, "rows_without_token": 1,
    }  # fmt: skip
    assert found.name == "mine"
    pieces = input_table(tmp_path, whole_words=False)
    assert pieces.words == ("she", "it", "he")
    assert (pieces.source["left_out"], pieces.source["whole_words"]) == ({}, False)
    assert pieces.name == tmp_path.name
    write(tmp_path / "tokenizer.json", {"model": {"vocab": {"he": 4, "she": 0}}})
    with pytest.raises(FormatError, match="token 'he' has row 4, and the input table has 4 rows"):
        input_table(tmp_path)
    write(tmp_path / "config.json", {"vocab_size": 4, "architectures": []})
    write(tmp_path / "tokenizer.json", {"model": {"vocab": {"he": 3, "she": 0}}})
    assert input_table(tmp_path).source["model"] == ""
