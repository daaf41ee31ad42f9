"""The scripts of the BERT table: what is carried comes out again, and a second command does what the first left."""

import json
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
from safetensors.numpy import load_file

from evenhand.models.nli.transformer import TransformerNLI

ROOT = Path(__file__).parents[3]
PAIRS = [
    ("the nurse saw a man", "a man was there", "entailment"),
    ("the doctor was here", "she likes science and art", "neutral"),
    ("he likes poetry", "the doctor was not here", "contradiction"),
] * 8


@pytest.fixture(scope="module")
def bert_experiment() -> Iterator[ModuleType]:
    """Import the script, which imports the others as its neighbours."""
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        yield import_module("bert_experiment")
    finally:
        sys.path.remove(str(ROOT / "scripts"))


@pytest.fixture(scope="module")
def bert_carry(bert_experiment: ModuleType) -> ModuleType:
    return sys.modules["bert_carry"]


@pytest.fixture(scope="module")
def carried(bert_carry: ModuleType, tiny_folder: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("carry")
    body = tiny_folder("BertModel")
    for name in bert_carry.TOKENIZER:  # which of them exist depends on the version of transformers
        if not (body / name).exists():
            (body / name).write_text("{}")
    bert_carry.pack(body, folder)
    for name in ("train", "dev", "test"):
        bert_carry.write_pairs(PAIRS, folder / f"{name}.tsv.xz")
    two_way = [(premise, hypothesis, "non-entailment") for premise, hypothesis, _ in PAIRS[:3]]
    bert_carry.write_pairs([*two_way, PAIRS[0]], folder / "hans.tsv.xz")
    (folder / "sources.json").write_text("{}")
    return folder


def test_an_encoder_comes_out_as_it_went_in(
    bert_carry: ModuleType, tiny_folder: Callable[..., Path], tmp_path: Path, carried: Path
) -> None:
    before = load_file(tiny_folder("BertModel") / "model.safetensors")
    body, _ = bert_carry.unpack(carried, tmp_path)
    after = load_file(body / "model.safetensors")
    assert {name for name in before if not name.startswith("pooler.")} == set(after)
    assert all(np.array_equal(before[name].astype(np.float16), after[name]) for name in after)
    (tmp_path / "packed").mkdir()
    bert_carry.pack(body, tmp_path / "packed", drop=2)
    folder, about = bert_carry.unpack(tmp_path / "packed", tmp_path / "rounded")
    assert about["dropped_bits"] == "2"
    rounded = load_file(folder / "model.safetensors")
    for name, values in rounded.items():
        wide = after[name].astype(np.float32)
        assert np.all(np.abs(values.astype(np.float32) - wide) <= 2.0**-9 * np.abs(wide) + 2.0**-23)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*truncated:evenhand.errors.EvenhandWarning")  # the tiny model's window is short
def test_a_second_command_does_what_is_missing_and_a_model_comes_back(
    bert_carry: ModuleType,
    bert_experiment: ModuleType,
    carried: Path,
    tmp_path: Path,
    tiny_folder: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")

    def command(out: str, *rest: str) -> dict:
        common = ["--work", str(tmp_path / "work"), "--tiny", "--device", "cpu", "--seeds", "1", "--jobs", "0"]
        bert_experiment.main(bert_experiment.arguments(["nli", str(carried), str(tmp_path / out), *common, *rest]))
        return json.loads((tmp_path / out / "nli.json").read_text())

    first = command("first", "--only", "none", "he-she")
    assert [run["condition"] for run in first["runs"]] == ["none", "he-she"]
    second = command("second", "--only", "none", "he-she@test", "--done", str(tmp_path / "first" / "nli.json"))
    assert [run["condition"] for run in second["runs"]] == ["none", "he-she", "he-she@test"]
    assert second["runs"][:2] == first["runs"]
    assert second["about"]["failed"] == {}
    rows = {run["condition"]: run for run in second["runs"]}
    assert rows["he-she"]["training"]["change"]["when"] == "train+test"
    assert all({"test", "hans"} < set(row) for row in rows.values())
    assert rows["none"]["gender-occupation"]["net_neutral"] != rows["he-she@test"]["gender-occupation"]["net_neutral"]
    bert_carry.join(tmp_path / "first", "none-0", tiny_folder("BertModel"), tmp_path / "joined")
    model = TransformerNLI(tmp_path / "joined", device="cpu")
    premises, hypotheses, _ = zip(*PAIRS, strict=True)
    expected = TransformerNLI(tmp_path / "work" / "none-0", device="cpu").predict(premises, hypotheses)
    assert np.array_equal(model.predict(premises, hypotheses).matrix, expected.matrix)
    (tmp_path / "first" / "none-0.00").write_bytes(b"cut off")
    with pytest.raises(SystemExit, match="not complete"):
        bert_carry.join(tmp_path / "first", "none-0", tiny_folder("BertModel"), tmp_path / "broken")
