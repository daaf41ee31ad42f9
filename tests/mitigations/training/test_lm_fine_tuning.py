"""Further training of tiny language models: the loss falls, the seed decides everything, a stopped run is continued."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

import evenhand as eh
from evenhand.cli import app
from evenhand.errors import EvenhandError, FormatError, MissingExtraError, OutputError, UsageError
from evenhand.mitigations import CDATuning, DropoutTuning, FineTuning
from evenhand.mitigations.training.fine_tuning import TrainedWeights

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from evenhand.models.lm import continued_training  # noqa: E402 (needs torch)
from evenhand.models.lm.continued_training import continue_training  # noqa: E402 (needs torch)

TEXTS = ["the nurse is a woman", "he was here", "the doctor and the teacher were there", "she is the queen"] * 60
QUICK = {"steps": 12, "tokens": 128, "block": 16, "learning_rate": 5e-3, "device": "cpu"}
MODELS = ["BertForMaskedLM", "GPT2LMHeadModel"]


@pytest.fixture(params=MODELS)
def folder(request: pytest.FixtureRequest, tiny_folder: Callable[..., Path]) -> Path:
    return tiny_folder(request.param)


def weights(model: object) -> dict[str, object]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}  # type: ignore[attr-defined]


def same(first: dict[str, object], second: dict[str, object]) -> bool:
    return all(torch.equal(first[name], second[name]) for name in first)


def test_the_loss_falls(folder: Path) -> None:
    trained = continue_training(folder, TEXTS, **QUICK | {"steps": 60})
    losses = [part["loss"] for part in trained.history]
    assert losses[-1] < 0.7 * losses[0]
    assert trained.history[-1]["step"] == 60


def test_the_seed_decides_everything(folder: Path) -> None:
    torch.manual_seed(1)
    first = continue_training(folder, TEXTS, seed=3, **QUICK)
    torch.manual_seed(2)
    before = torch.get_rng_state()
    second = continue_training(folder, TEXTS, seed=3, **QUICK)
    assert torch.equal(torch.get_rng_state(), before)
    assert same(weights(first.model), weights(second.model))
    assert first.history == second.history
    other = continue_training(folder, TEXTS, seed=4, **QUICK)
    assert not same(weights(first.model), weights(other.model))


def test_a_stopped_training_is_continued_exactly(folder: Path, tmp_path: Path) -> None:
    whole = continue_training(folder, TEXTS, hidden_dropout=0.3, checkpoint_every=4, **QUICK)
    path = tmp_path / "state.safetensors"

    def stop(step: int, total: int, text: str) -> None:
        if step == 7:
            raise KeyboardInterrupt

    options = QUICK | {"hidden_dropout": 0.3, "checkpoint_every": 4, "checkpoint": path}
    with pytest.raises(KeyboardInterrupt):
        continue_training(folder, TEXTS, progress=stop, **options)
    steps: list[int] = []
    resumed = continue_training(folder, TEXTS, progress=lambda step, total, text: steps.append(step), **options)
    assert steps == [5, 6, 7, 8, 9, 10, 11, 12]
    assert same(weights(whole.model), weights(resumed.model))
    with pytest.raises(UsageError, match="settings was"):
        continue_training(folder, TEXTS, **options | {"steps": 20})


def full_beyond(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the memory be full when more than `rows` blocks are computed at once."""
    compute = continued_training.logits_at

    def logits_at(model: object, which: object, columns: object, *, input_ids: object) -> object:
        if len(input_ids) > rows:  # type: ignore[arg-type]
            raise torch.OutOfMemoryError("full")
        return compute(model, which, columns, input_ids=input_ids)

    monkeypatch.setattr(continued_training, "logits_at", logits_at)


def test_a_batch_that_does_not_fit_is_computed_in_parts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = QUICK | {"steps": 4, "hidden_dropout": 0.0, "attention_dropout": 0.0}
    whole = continue_training(folder, TEXTS, **options)
    full_beyond(3, monkeypatch)
    parts = continue_training(folder, TEXTS, **options)
    assert (whole.manifest["parts_of_a_batch"], parts.manifest["parts_of_a_batch"]) == (1, 4)  # batches of 8 blocks
    first, second = weights(whole.model), weights(parts.model)
    # AdamW moves a weight by the sign of its gradient at first, and the sign of a gradient of almost 0 is rounding.
    differences = torch.cat([(first[name] - second[name]).abs().flatten() for name in first])
    assert (differences > 1e-5).float().mean() < 0.02
    assert parts.history[-1]["loss"] == pytest.approx(whole.history[-1]["loss"], abs=1e-4)


def test_a_block_that_does_not_fit_is_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full_beyond(0, monkeypatch)
    with pytest.raises(EvenhandError, match="single block of 16 tokens does not fit"):
        continue_training(folder, TEXTS, **QUICK)


def test_dropout_is_raised_and_restored(folder: Path, tmp_path: Path) -> None:
    before = json.loads((folder / "config.json").read_text())
    change = DropoutTuning(**QUICK).train(folder, tmp_path / "out", texts=TEXTS)
    used = change.report["training"]["dropout"]
    if before["model_type"] == "bert":
        assert used == {"hidden_dropout_prob": 0.2, "attention_probs_dropout_prob": 0.15}
    else:
        assert used == {"resid_pdrop": 0.15, "embd_pdrop": 0.15, "attn_pdrop": 0.15}
    after = json.loads((tmp_path / "out" / "config.json").read_text())
    assert {name: after[name] for name in used} == {name: before[name] for name in used}
    control = FineTuning(**QUICK).train(folder, tmp_path / "control", texts=TEXTS)
    assert set(control.report["training"]["dropout"].values()) == {before[name] for name in used}
    assert control.digest != change.digest
    own = DropoutTuning(hidden=0.4, attention=0.0, **QUICK).train(folder, tmp_path / "own", texts=TEXTS)
    assert set(own.report["training"]["dropout"].values()) == {0.4, 0.0}


def test_the_folder_loads_in_plain_transformers(folder: Path, tmp_path: Path) -> None:
    FineTuning(**QUICK).train(folder, tmp_path / "out", texts=TEXTS)
    loader = transformers.AutoModelForMaskedLM if "bert" in folder.name else transformers.AutoModelForCausalLM
    model = loader.from_pretrained(tmp_path / "out").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    inputs = tokenizer("the nurse was here", return_tensors="pt")
    assert torch.isfinite(model(input_ids=inputs["input_ids"]).logits).all()
    assert not list(tmp_path.glob(".*"))
    record = json.loads((tmp_path / "out" / "training.json").read_text())
    assert record["settings"]["steps"] == 12
    with pytest.raises(OutputError, match="not an empty folder"):
        FineTuning(**QUICK).train(folder, tmp_path / "out", texts=TEXTS)


def test_cda_trains_on_both_forms(folder: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("\n".join(TEXTS), encoding="utf-8")
    method = CDATuning(text=str(text), **QUICK)
    change = method.train(folder, tmp_path / "out")
    control = FineTuning(text=str(text), **QUICK).train(folder, tmp_path / "control")
    blocks, plain = (report["training"]["blocks"] for report in (change.report, control.report))
    assert 1.5 * plain <= blocks <= 1.8 * plain  # texts without a group word are read once
    assert list(method._texts(eh.concept("gender"), ["she left"])) == ["she left", "he left"]


def test_as_a_change_of_a_subject(folder: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.jsonl"
    text.write_text("".join(json.dumps({"body": one}) + "\n" for one in TEXTS), encoding="utf-8")
    subject = eh.open(f"hf:{folder}")
    change = CDATuning(text=str(text), field="body", **QUICK).fit(subject, "gender", seed=5)
    changed = subject.changed(change)
    assert changed.digest != subject.digest
    scores = [one.view("likelihood").log_probabilities(TEXTS[:4]).log_probabilities for one in (subject, changed)]
    assert scores[1].sum() > scores[0].sum()
    assert not (changed.view("vectors").matrix == subject.view("vectors").matrix).all()
    assert change.report["seed"] == 5
    assert change.folder.exists()
    place = CDATuning(text=str(text), field="body", **QUICK).fit(subject, "gender").folder
    assert not place.exists()  # it goes with the change


def test_what_cannot_be_trained_is_refused(folder: Path, tiny_folder: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="needs a text"):
        FineTuning(**QUICK).train(folder, tmp_path / "out")
    with pytest.raises(UsageError, match="shorter than one block"):
        FineTuning(**QUICK).train(folder, tmp_path / "out", texts=["he"])
    with pytest.raises(UsageError, match="no masked or causal language model"):
        FineTuning(**QUICK).train(tiny_folder("BertModel"), tmp_path / "out", texts=TEXTS)
    with pytest.raises(UsageError, match="is word vectors"):
        CDATuning().fit(eh.open("glove-embedded"), "gender")
    with pytest.raises(UsageError, match="is word vectors"):
        CDATuning().fit(eh.Vectors.default(), "gender")
    with pytest.raises(UsageError, match="steps must be at least 1"):
        continue_training(folder, TEXTS, steps=0)
    with pytest.raises(UsageError, match="unexpected keyword"):
        continue_training(folder, TEXTS, stepps=3)
    llama = tiny_folder("LlamaForCausalLM")
    with pytest.raises(FormatError, match="no hidden dropout"):
        DropoutTuning(hidden=0.2, **QUICK).train(llama, tmp_path / "out", texts=TEXTS)
    assert DropoutTuning(**QUICK)._dropout(llama) == {"attention_dropout": 0.15}


LORA = {"adapter": "lora", "rank": 2, **QUICK, "steps": 4}
ADAPTED = ("query", "value", "q_lin", "v_lin", "q_proj", "v_proj", "c_attn", "Wqkv", ".q.", ".v.")


def check_adapters(method: FineTuning, folder: Path, out: Path) -> int:
    """Train with adapters; return how many numbers were trained, after checking that the rest is as it was."""
    pytest.importorskip("peft")
    change = method.train(folder, out, texts=TEXTS)
    causal = "causal" in folder.name or "lmhead" in folder.name
    kind = transformers.AutoModelForCausalLM if causal else transformers.AutoModelForMaskedLM
    before, after = (weights(kind.from_pretrained(path)) for path in (folder, out))
    assert before.keys() == after.keys()  # merged: no matrix of an adapter is left
    assert not list(out.glob("adapter*"))
    changed = {name: after[name] - before[name] for name in before if not torch.equal(before[name], after[name])}
    assert changed
    for name, difference in changed.items():
        assert any(part in name for part in ADAPTED), name
        assert torch.linalg.matrix_rank(difference, rtol=1e-3) <= 2
    assert change.report["training"]["packages"]["peft"]
    return change.report["training"]["trained_parameters"]


@pytest.mark.parametrize(
    ("method", "class_name"),
    [(CDATuning, "BertForMaskedLM"), (DropoutTuning, "GPT2LMHeadModel"), (FineTuning, "LlamaForCausalLM")],
)
def test_adapters_alone_are_trained_and_merged(
    method: type[FineTuning], class_name: str, tiny_folder: Callable[..., Path], tmp_path: Path
) -> None:
    trained = check_adapters(method(**LORA), tiny_folder(class_name), tmp_path / "out")
    # 3 layers, rank 2: query and value are 16 x 16 each; GPT-2 has query, key and value in one matrix of 16 x 48.
    assert trained == (3 * 2 * (16 + 48) if class_name.startswith("GPT2") else 3 * 2 * 2 * (16 + 16))


@pytest.mark.slow
@pytest.mark.parametrize(
    "class_name",
    ["DistilBertForMaskedLM", "RobertaForMaskedLM", "AlbertForMaskedLM", "MPNetForMaskedLM", "ModernBertForMaskedLM",
     "ElectraForMaskedLM", "DebertaV2ForMaskedLM", "GemmaForCausalLM"],
)  # fmt: skip
def test_adapters_of_every_architecture(class_name: str, tiny_folder: Callable[..., Path], tmp_path: Path) -> None:
    assert check_adapters(FineTuning(**LORA), tiny_folder(class_name), tmp_path / "out") > 0


def test_a_stopped_training_of_adapters_is_continued_exactly(tiny_folder: Callable[..., Path], tmp_path: Path) -> None:
    pytest.importorskip("peft")
    folder, options = tiny_folder("BertForMaskedLM"), LORA | {"checkpoint_every": 2}

    def stop(step: int, total: int, text: str) -> None:
        if step == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        continue_training(folder, TEXTS, progress=stop, checkpoint=tmp_path / "state.safetensors", **options)
    resumed = continue_training(folder, TEXTS, checkpoint=tmp_path / "state.safetensors", **options)
    assert same(weights(continue_training(folder, TEXTS, **options).model), weights(resumed.model))


def test_adapters_need_peft(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)  # as if it were not installed
    with pytest.raises(MissingExtraError, match=r"peft[\s\S]*evenhand\[peft\]"):
        FineTuning(**LORA).train(folder, tmp_path / "out", texts=TEXTS)
    assert not (tmp_path / "out").exists()
    FineTuning(**QUICK | {"steps": 1}).train(folder, tmp_path / "out", texts=TEXTS)  # all weights need no adapter


def test_adapters_without_a_known_projection_are_refused(tiny_folder: Callable[..., Path], tmp_path: Path) -> None:
    pytest.importorskip("peft")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("evenhand.models.lm.continued_training.QUERY_AND_VALUE", (("one", "two"),))
        with pytest.raises(FormatError, match=r"no query and value projections of a known name \(one and two\)"):
            FineTuning(**LORA).train(tiny_folder("BertForMaskedLM"), tmp_path / "out", texts=TEXTS)


def test_the_command(tiny_folder: Callable[..., Path], tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("\n".join(TEXTS), encoding="utf-8")
    settings = [f"{name}={value}" for name, value in ({"text": text} | QUICK | {"steps": 4}).items()]
    arguments = ["debias", f"hf:{tiny_folder('GPT2LMHeadModel')}", "-o", str(tmp_path / "out")]
    options = [part for setting in settings for part in ("--set", setting)]
    saved = ["--save-map", str(tmp_path / "weights")]
    done = CliRunner().invoke(app, [*arguments, "--method", "cda-tuning", *options, "--seed", "2", "--json", *saved])
    assert done.exit_code == 0, done.output
    assert TrainedWeights.load(tmp_path / "weights").report["seed"] == 2
    assert not list(tmp_path.glob(".*"))  # the state of the training
    assert json.loads(done.stdout)["report"]["training"]["seed"] == 2
    assert eh.open(f"hf:{tmp_path / 'out'}").view("likelihood").log_probabilities(["he was"]).tokens.sum() > 0
    refused = CliRunner().invoke(app, [*arguments, "--method", "self-debias"])
    assert "nothing to write" in refused.output
    refused = CliRunner().invoke(app, [*arguments, "--method", "cda-tuning.linear", *saved])
    assert "cda-tuning cannot be combined with other methods in one map" in refused.output
