"""Fine-tuning encoders for NLI: a linear layer on [CLS], a map at the word-piece table, checkpoints, folders."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from typer.testing import CliRunner  # noqa: E402

from evenhand.cli.app import app  # noqa: E402
from evenhand.errors import UnknownNameError, UsageError  # noqa: E402
from evenhand.mitigations.maps import SoftProjection, WordTable  # noqa: E402
from evenhand.models.encoders.hooks import hooked  # noqa: E402
from evenhand.models.huggingface import load_tokenizer  # noqa: E402
from evenhand.models.nli.fine_tuning import (  # noqa: E402
    HEADS,
    TrainableClassifier,
    build_classifier,
    fine_tune,
    fold_into_table,
)
from evenhand.models.nli.labelled_pairs import LabelledPairs, evaluate  # noqa: E402
from evenhand.models.nli.tokenised_pairs import DevicePairs, TokenisedPairs, cut_by_length  # noqa: E402
from evenhand.models.nli.transformer import TransformerNLI  # noqa: E402

Folder = Callable[..., Path]
PREMISES = ["the nurse saw a man", "the doctor was here", "he likes art and poetry", "she said that"] * 6
HYPOTHESES = ["a man was there", "she likes science", "the doctor was not here at home", "the king"] * 6
PAIRS = LabelledPairs.of(PREMISES, HYPOTHESES, ["entailment", "neutral", "contradiction", "neutral"] * 6)
TEXTS = list(zip(PREMISES, HYPOTHESES, strict=True))
FAST = {"epochs": 2, "batch": 8, "learning_rate": 3e-3, "device": "cpu"}


@pytest.fixture(scope="module")
def body(tiny_folder: Folder) -> Path:
    return tiny_folder("BertModel")


@pytest.fixture(scope="module")
def projection() -> SoftProjection:
    direction = np.random.default_rng(0).normal(size=(1, 16))
    return SoftProjection(direction / np.linalg.norm(direction))


def weights(model: object) -> list:
    return [parameter.detach() for parameter in model.parameters()]


def test_training_lowers_the_loss_and_beats_the_largest_class(body: Path) -> None:
    trained = fine_tune(body, PAIRS, PAIRS, **{**FAST, "epochs": 20})
    assert trained.history[-1]["loss"] < 0.7 * trained.history[0]["loss"]
    assert trained.dev_accuracy > 0.5  # neutral is half of the pairs
    assert [entry["epoch"] for entry in trained.history] == list(range(1, 21))


def test_the_folder_loads_in_plain_transformers_and_gives_the_same_accuracy(body: Path, tmp_path: Path) -> None:
    trained = fine_tune(body, PAIRS, PAIRS, **FAST)
    folder = trained.save(tmp_path / "model")
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder)
    assert type(model).__name__ == "BertForSequenceClassification"
    assert model.config.id2label == {0: "entailment", 1: "neutral", 2: "contradiction"}
    assert model.config.classifier_dropout == 0.0
    assert model.config.evenhand_training["train"]["sha256"] == PAIRS.sha256
    assert json.loads((folder / "training.json").read_text())["settings"]["head"] == "linear"
    assert evaluate(TransformerNLI(folder, device="cpu"), PAIRS).accuracy == trained.dev_accuracy
    half = TransformerNLI(trained.save(tmp_path / "half", dtype="float16"), device="cpu")
    whole = TransformerNLI(folder, device="cpu")
    difference = half.predict(PREMISES, HYPOTHESES).matrix - whole.predict(PREMISES, HYPOTHESES).matrix
    assert np.abs(difference).max() < 5e-3


@pytest.mark.parametrize("class_name", ["BertModel", "RobertaModel", "MPNetModel", "DistilBertModel", "ElectraModel"])
def test_a_linear_layer_is_stored_in_the_head_of_each_class(class_name: str, tiny_folder: Folder) -> None:
    folder = tiny_folder(class_name)
    torch.manual_seed(1)
    network = TrainableClassifier(build_classifier(folder, dropout=0.0), "linear").eval()
    torch.nn.init.normal_(network.linear.weight, std=0.5)
    torch.nn.init.normal_(network.linear.bias)
    data = TokenisedPairs.of(PAIRS, load_tokenizer(folder), longest=64)
    inputs = DevicePairs(data, "cpu", padding=0).batch(np.arange(8)).inputs
    with torch.no_grad():
        before = network(inputs)
        after = network.stored()(**inputs).logits
    assert torch.allclose(before, after, atol=2e-4)
    assert before.abs().max() > 0.5


def test_a_class_without_a_known_head_is_refused_unless_its_own_is_asked_for(tiny_folder: Folder) -> None:
    folder = tiny_folder("AlbertModel")
    with pytest.raises(UsageError, match="AlbertForSequenceClassification") as error:
        fine_tune(folder, PAIRS, PAIRS, **FAST)
    assert "own" in error.value.hint
    assert "albert" not in HEADS
    trained = fine_tune(folder, PAIRS, PAIRS, **FAST, head="own")
    assert type(trained.model).__name__ == "AlbertForSequenceClassification"


def test_seeds_decide_everything(body: Path) -> None:
    first, again, other = (fine_tune(body, PAIRS, PAIRS, seed=seed, **FAST) for seed in (3, 3, 4))
    assert all(torch.equal(a, b) for a, b in zip(weights(first.model), weights(again.model), strict=True))
    assert first.history == again.history != other.history


def test_an_interrupted_training_resumes_to_the_same_weights(body: Path, tmp_path: Path) -> None:
    class StopError(Exception):
        pass

    def stop(done: int, total: int, text: str) -> None:
        if text.startswith("epoch 2"):
            raise StopError

    path = tmp_path / "checkpoint"
    with pytest.raises(StopError):
        fine_tune(body, PAIRS, PAIRS, checkpoint=path, progress=stop, **FAST)
    assert path.exists()
    resumed = fine_tune(body, PAIRS, PAIRS, checkpoint=path, **FAST)
    whole = fine_tune(body, PAIRS, PAIRS, **FAST)
    assert all(torch.equal(a, b) for a, b in zip(weights(whole.model), weights(resumed.model), strict=True))
    assert whole.history == resumed.history
    with pytest.raises(UsageError, match="another training"):
        fine_tune(body, PAIRS, PAIRS, checkpoint=path, seed=1, **FAST)


def test_a_map_in_training_is_in_the_table_at_the_end(body: Path, projection: SoftProjection) -> None:
    trained = fine_tune(body, PAIRS, PAIRS, change=projection, **FAST)
    table = trained.model.get_input_embeddings().weight.detach().double().numpy()
    original = transformers.AutoModel.from_pretrained(body).get_input_embeddings().weight.detach().double().numpy()
    assert np.abs(table @ projection.basis.T).max() < 1e-6
    assert np.abs(original @ projection.basis.T).max() > 0.1
    assert np.abs(table - projection(original)).max() > 1e-4  # the table itself was trained
    assert trained.manifest["change"]["when"] == "train+test"
    # The folded model is what was trained: the accuracy under the hook is that of the folder without it.
    assert evaluate(TransformerNLI(trained.model, trained.tokenizer, device="cpu"), PAIRS).accuracy == pytest.approx(
        trained.dev_accuracy
    )


def test_a_map_at_test_time_changes_only_the_table(body: Path, projection: SoftProjection) -> None:
    plain = fine_tune(body, PAIRS, PAIRS, **FAST)
    changed = fine_tune(body, PAIRS, PAIRS, change=projection, when="test", **FAST)
    assert plain.history == changed.history
    folded = fold_into_table(plain.model, plain.tokenizer, projection)
    for (name, a), b in zip(folded.named_parameters(), weights(changed.model), strict=True):
        assert torch.equal(a, b), name
    trained_under_it = fine_tune(body, PAIRS, PAIRS, change=projection, **FAST)
    assert plain.history != trained_under_it.history


def test_the_hook_projects_exactly_under_mixed_precision(body: Path, projection: SoftProjection) -> None:
    model = transformers.AutoModel.from_pretrained(body)
    table = model.get_input_embeddings()
    with hooked(model, "embeddings", projection), torch.autocast("cpu", dtype=torch.bfloat16):
        rows = table(torch.arange(20)).detach().double().numpy()
    assert np.abs(rows @ projection.basis.T).max() < 1e-6


def test_bad_arguments_are_refused(body: Path) -> None:
    with pytest.raises(UsageError, match="seed"):
        fine_tune(body, PAIRS, PAIRS, seed=-1)
    with pytest.raises(UsageError, match="unexpected keyword"):
        fine_tune(body, PAIRS, PAIRS, epoch=3)
    with pytest.raises(UnknownNameError, match="never"):
        fine_tune(body, PAIRS, PAIRS, when="never")
    with pytest.raises(UsageError, match="depends on the word"):
        fine_tune(body, PAIRS, PAIRS, change=WordTable({"he": np.zeros(16)}))
    two_way = LabelledPairs.of(["a"] * 2, ["b"] * 2, ["entailment", "non-entailment"])
    with pytest.raises(UsageError, match="distinguish"):
        fine_tune(body, two_way, PAIRS, **FAST)


def test_batches_hold_every_pair_once_and_stay_within_their_limits() -> None:
    lengths = np.random.default_rng(0).integers(5, 12, 500)
    batches = cut_by_length(lengths, pairs=16, tokens=100, seed=(1, 0))
    assert sorted(np.concatenate(batches).tolist()) == list(range(500))
    assert max(len(rows) for rows in batches) <= 16
    assert max(len(rows) * lengths[rows].max() for rows in batches) <= 100
    mixed = [rows for rows in batches if len(set(lengths[rows])) > 1]
    assert len(mixed) < 0.15 * len(batches)
    again, other = (cut_by_length(lengths, pairs=16, tokens=100, seed=(1, epoch)) for epoch in (0, 1))
    assert all(np.array_equal(a, b) for a, b in zip(batches, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(batches, other, strict=False))


def test_padding_does_not_change_the_logits(body: Path) -> None:
    data = TokenisedPairs.of(PAIRS, load_tokenizer(body), longest=64)
    pairs = DevicePairs(data, "cpu", padding=0)
    network = TrainableClassifier(build_classifier(body, dropout=0.0), "linear").eval()
    rows = np.array([0, 2])
    joint = pairs.batch(rows)
    assert "attention_mask" in joint.inputs
    with torch.no_grad():
        together = network(joint.inputs)
        alone = torch.cat([network(pairs.batch(rows[i : i + 1]).inputs) for i in range(2)])
    assert torch.allclose(together, alone, atol=1e-5)


def test_the_command_writes_folders_that_probe_and_eval_accept(
    body: Path, projection: SoftProjection, tmp_path: Path
) -> None:
    rows = [json.dumps({"premise": p, "hypothesis": h, "label": "enc"[i % 3]}) for i, (p, h) in enumerate(TEXTS)]
    (tmp_path / "pairs.jsonl").write_text("\n".join(rows))
    projection.save(tmp_path / "map.safetensors")
    pairs, out = str(tmp_path / "pairs.jsonl"), tmp_path / "out"
    files = ["--train", pairs, "--dev", pairs, "--test", pairs, "--out", str(out)]
    options = ["--seeds", "2", "--epochs", "1", "--batch", "8", "--device", "cpu", "--json"]
    command = ["nli", "fine-tune", f"hf:{body}", *files, *options, "--map", str(tmp_path / "map.safetensors")]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    models = json.loads(done.stdout)["models"]
    assert [model["file"] for model in models] == ["seed-0", "seed-1"]
    assert models[0]["change"]["sha256"] == projection.digest
    assert sorted(path.name for path in out.iterdir()) == ["seed-0", "seed-1", "train.json"]
    done = CliRunner().invoke(app, ["nli", "eval", f"hf:{out / 'seed-1'}", pairs, "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["results"][0]["accuracy"] == models[1]["test"][0]["accuracy"]


def test_the_command_refuses_what_it_cannot_use(body: Path, tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("a\tb\te\nc\td\tn\n")
    pairs = str(tmp_path / "pairs.tsv")
    command = ["nli", "fine-tune", f"hf:{body}", "--train", pairs, "--dev", pairs, "--out", str(tmp_path / "out")]
    for wrong in (["--when", "never"], ["--head", "tall"], ["--epochs", "0"], ["--dtype", "int8"]):
        done = CliRunner().invoke(app, [*command, *wrong])
        assert done.exit_code in (2, 4), done.output
        assert wrong[1] in done.output
    assert not (tmp_path / "out").exists()
