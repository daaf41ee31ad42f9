"""A changed model is saved with every weight of its folder, and without what links of the folder lead to."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
safetensors = pytest.importorskip("safetensors.torch")

from evenhand.mitigations.maps import SoftProjection  # noqa: E402
from evenhand.models.encoders.folding import Decoder  # noqa: E402
from evenhand.models.encoders.hooks import SiteMap  # noqa: E402
from evenhand.models.encoders.saving import SavedModel, _same_data, save_changed  # noqa: E402
from evenhand.models.encoders.sites import Site  # noqa: E402
from evenhand.models.encoders.transformer import Transformer  # noqa: E402
from evenhand.models.huggingface_folder import read_weight_headers  # noqa: E402

Folder = Callable[..., Path]
TABLE = Site("embeddings")


def save(source: Path, out: Path, *, site: Site = TABLE, decoder: Decoder = "untied") -> SavedModel:
    transformer = Transformer.load(source, device="cpu")
    width = transformer.model.get_input_embeddings().weight.shape[1]
    rows = np.random.default_rng(width).standard_normal((width, 2))
    projection = SoftProjection(np.linalg.qr(rows)[0].T)
    return save_changed(transformer, [SiteMap(site, projection)], out, decoder=decoder)


def tensors(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path in folder.glob("*.safetensors"):
        found |= safetensors.load_file(path)
    return found


def plain_load(folder: Path, class_name: str) -> Any:
    """Load a folder as anybody would, and insist that every weight of the class is in it."""
    model, info = getattr(transformers, class_name).from_pretrained(folder, output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["mismatched_keys"]
    return model


@pytest.mark.parametrize("decoder", ["untied", "tied"])
def test_bert_for_pretraining_keeps_its_pooler_and_next_sentence_head(
    decoder: Decoder, tiny_folder: Folder, tmp_path: Path
) -> None:
    source = tiny_folder("BertForPreTraining")
    saved = save(source, tmp_path / "out", decoder=decoder)
    before, after = tensors(source), tensors(tmp_path / "out")
    assert before.keys() <= after.keys()
    kept = [name for name in before if "pooler" in name or "seq_relationship" in name]
    assert len(kept) == 4
    assert all(torch.equal(before[name], after[name]) for name in kept)
    assert any("bert.pooler.dense.bias" in note and "BertForMaskedLM" in note for note in saved.notes)
    table = "bert.embeddings.word_embeddings.weight"
    assert not torch.equal(before[table], after[table])
    assert json.loads((tmp_path / "out" / "config.json").read_text())["architectures"] == ["BertForPreTraining"]
    model = plain_load(tmp_path / "out", "BertForPreTraining")
    assert torch.equal(model.cls.seq_relationship.weight, before["cls.seq_relationship.weight"])
    head = plain_load(tmp_path / "out", "BertForMaskedLM")
    ids = torch.arange(5, 15).reshape(1, -1)
    with torch.inference_mode():
        assert torch.equal(model.eval()(ids).prediction_logits, head.eval()(ids).logits)


@pytest.mark.parametrize(
    ("class_name", "body"),
    [("ElectraForPreTraining", "ElectraModel"), ("DistilBertForTokenClassification", "DistilBertModel")],
)
def test_a_folder_that_is_opened_without_its_head_keeps_the_head_and_all_names(
    class_name: str, body: str, tiny_folder: Folder, tmp_path: Path
) -> None:
    source = tiny_folder(class_name)
    save(source, tmp_path / "out")
    before, after = tensors(source), tensors(tmp_path / "out")
    assert before.keys() == after.keys()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert len(changed) == 1
    assert next(iter(changed)).endswith("word_embeddings.weight")
    for name in (class_name, body):
        plain_load(tmp_path / "out", name)


def test_a_tied_weight_that_is_stored_twice_is_written_twice_and_agrees(tiny_folder: Folder, tmp_path: Path) -> None:
    """Old checkpoints hold the table and the output layer, which is the same; a stale copy would undo the change."""
    source = shutil.copytree(tiny_folder("BertForMaskedLM"), tmp_path / "model")
    stored = tensors(source)
    table, output = "bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"
    old = {"bert.embeddings.position_ids": torch.arange(64).reshape(1, -1), output: stored[table].clone()}
    safetensors.save_file(stored | old, source / "model.safetensors", metadata={"format": "pt"})
    save(source, tmp_path / "tied", decoder="tied")
    after = tensors(tmp_path / "tied")
    assert (stored | old).keys() == after.keys()
    assert torch.equal(after[table], after[output])
    assert not torch.equal(after[table], stored[table])
    save(source, tmp_path / "untied")
    after = tensors(tmp_path / "untied")
    assert torch.equal(after[output], stored[table])
    for name in ("tied", "untied"):
        model = plain_load(tmp_path / name, "BertForMaskedLM")
        assert torch.equal(model.get_output_embeddings().weight, tensors(tmp_path / name)[output])


def test_an_output_layer_that_was_not_loaded_follows_the_table_it_is_tied_to(
    tiny_folder: Folder, tmp_path: Path
) -> None:
    source = tmp_path / "t5"
    config = transformers.T5Config(
        vocab_size=200, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2, decoder_start_token_id=0
    )
    torch.manual_seed(0)
    model = transformers.T5ForConditionalGeneration(config)
    model.save_pretrained(source)
    for file in tiny_folder("BertModel").glob("*token*"):
        shutil.copyfile(file, source / file.name)
    stored = tensors(source)
    safetensors.save_file(
        stored | {"lm_head.weight": stored["shared.weight"].clone()},
        source / "model.safetensors",
        metadata={"format": "pt"},
    )
    transformer = Transformer.load(source, device="cpu")
    assert "lm_head.weight" in transformer.unused
    rows = np.linalg.qr(np.random.default_rng(0).standard_normal((16, 2)))[0].T
    from evenhand.models.encoders.saving import _write_model

    with torch.no_grad():
        transformer.model.shared.weight -= transformer.model.shared.weight @ torch.tensor(rows.T @ rows).float()
    _write_model(transformer, tmp_path / "out")
    after = tensors(tmp_path / "out")
    assert torch.equal(after["lm_head.weight"], after["shared.weight"])
    assert not torch.equal(after["lm_head.weight"], stored["shared.weight"])
    again = plain_load(tmp_path / "out", "T5ForConditionalGeneration")
    assert torch.equal(again.lm_head.weight, after["shared.weight"])


def test_weights_in_several_files_stay_complete(
    tiny_folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tiny_folder("ElectraForPreTraining")
    plain = transformers.PreTrainedModel.save_pretrained
    monkeypatch.setattr(
        transformers.PreTrainedModel, "save_pretrained", lambda self, folder: plain(self, folder, max_shard_size="10KB")
    )
    save(source, tmp_path / "out")
    assert len(list((tmp_path / "out").glob("*.safetensors"))) > 1
    assert tensors(source).keys() == tensors(tmp_path / "out").keys()
    text = (tmp_path / "out" / "model.safetensors.index.json").read_text()
    index = json.loads(text)
    assert text == json.dumps(index, indent=2, sort_keys=True) + "\n"
    assert index["weight_map"].keys() == tensors(source).keys()
    files = sorted(path.name for path in (tmp_path / "out").glob("*.safetensors"))
    assert len(files) > 2
    for name in files:
        stored = safetensors.load_file(tmp_path / "out" / name)
        assert stored.keys() == {tensor for tensor, place in index["weight_map"].items() if place == name}
    heads = {place for tensor, place in index["weight_map"].items() if tensor.startswith("discriminator_predictions")}
    assert heads == {files[-1]}  # what the class lacks
    plain_load(tmp_path / "out", "ElectraForPreTraining")


def test_stored_weights_are_the_same_numbers_in_the_same_form(tmp_path: Path) -> None:
    numbers = torch.arange(6.0).reshape(2, 3)
    stored = {
        "one": numbers, "same": numbers.clone(), "other": numbers + 1, "flat": numbers.flatten().clone(), "half": numbers.half(),
    }  # fmt: skip
    safetensors.save_file(stored, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text("{}")
    headers = read_weight_headers(tmp_path)
    assert [_same_data(headers, "one", name) for name in stored] == [True, True, False, False, False]


def test_an_output_layer_with_numbers_of_its_own_is_kept(tiny_folder: Folder, tmp_path: Path) -> None:
    """It is not tied, whatever the configuration says by default."""
    source = shutil.copytree(tiny_folder("BertForMaskedLM"), tmp_path / "model")
    stored = tensors(source)
    own = {"cls.seq_relationship.weight": stored["bert.embeddings.word_embeddings.weight"] + 1}
    safetensors.save_file(stored | own, source / "model.safetensors", metadata={"format": "pt"})
    save(source, tmp_path / "out")
    assert torch.equal(tensors(tmp_path / "out")["cls.seq_relationship.weight"], own["cls.seq_relationship.weight"])


# Links -------------------------------------------------------------------------------------------------------------


def test_links_out_of_the_folder_are_not_copied_and_are_named(tiny_folder: Folder, tmp_path: Path) -> None:
    source, private = shutil.copytree(tiny_folder("BertModel"), tmp_path / "model"), tmp_path / "private"
    (private / "deep").mkdir(parents=True)
    (private / "key").write_text("s3cr3t")
    (private / "deep" / "key").write_text("s3cr3t")
    (source / "modules.json").write_text(
        json.dumps([{"path": ""}, {"path": "1_Pooling"}, {"path": "2_Dense"}, {"path": "3_Normalize"}])
    )
    (source / "1_Pooling").symlink_to(private)
    (source / "2_Dense").mkdir()
    (source / "3_Normalize").mkdir()
    (source / "2_Dense" / "config.json").write_text("{}")
    (source / "2_Dense" / "notes.txt").symlink_to(private / "key")
    (source / "2_Dense" / "more").symlink_to(private / "deep")
    (source / "README.md").symlink_to("../private/key")
    (source / "COPY.md").symlink_to("config.json")
    saved = save(source, tmp_path / "out")
    out = tmp_path / "out"
    assert not [path for path in out.rglob("*") if path.is_symlink()]
    assert not [path for path in out.rglob("*") if path.is_file() and b"s3cr3t" in path.read_bytes()]
    assert (out / "2_Dense" / "config.json").read_text() == "{}"
    assert (out / "3_Normalize").is_dir()
    assert (out / "COPY.md").is_file()
    (note,) = [note for note in saved.notes if "links" in note]
    for name in ("1_Pooling", "2_Dense/more", "2_Dense/notes.txt", "README.md"):
        assert name in note
    assert note in json.loads((out / "evenhand.json").read_text())["notes"]


def test_a_snapshot_of_the_hub_is_copied_whole_although_it_consists_of_links(
    tiny_folder: Folder, tmp_path: Path
) -> None:
    root = tmp_path / "models--a--b"
    snapshot = root / "snapshots" / "0123"
    (root / "blobs").mkdir(parents=True)
    snapshot.mkdir(parents=True)
    for number, file in enumerate(sorted(tiny_folder("BertModel").iterdir())):
        shutil.copyfile(file, root / "blobs" / str(number))
        (snapshot / file.name).symlink_to(f"../../blobs/{number}")
    saved = save(snapshot, tmp_path / "out")
    assert not [note for note in saved.notes if "links" in note]
    assert {path.name for path in snapshot.iterdir()} <= {path.name for path in (tmp_path / "out").iterdir()}
