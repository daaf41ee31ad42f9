"""MLflow and W&B offline, where they are installed, and stand-ins with the same calls where they are not."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import evenhand as eh
from evenhand.errors import MissingExtraError, UsageError
from evenhand.interop.trackers import log_to_mlflow, log_to_wandb, metric_names


@pytest.fixture(scope="module")
def audit(glove: eh.Vectors) -> eh.Audit:
    return eh.Audit.run(glove, methods=["linear"], measures=["weat"], queries=["weat-6"])


def test_names_are_those_that_trackers_accept(audit: eh.Audit) -> None:
    names = metric_names(audit)
    assert names["bias/weat-6.linear"] == audit.get("weat-6", "linear").value
    assert set(metric_names(audit, "")) == {name.removeprefix("bias/") for name in names}


def test_a_missing_tracker_is_named(audit: eh.Audit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(MissingExtraError, match="pip install mlflow"):
        log_to_mlflow(audit)


def test_the_calls_to_mlflow(audit: eh.Audit, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[Any, ...]] = []
    stored: list[str] = []

    def artifacts(folder: str, artifact_path: str | None) -> None:
        stored.extend(sorted(path.name for path in Path(folder).iterdir()))

    stand_in = SimpleNamespace(log_metrics=lambda values, step: calls.append((values, step)), log_artifacts=artifacts)
    monkeypatch.setitem(sys.modules, "mlflow", stand_in)
    log_to_mlflow(audit, step=3)
    assert calls == [(metric_names(audit), 3)]
    assert stored == ["audit.json", "report.html"]


def test_mlflow_keeps_the_values(audit: eh.Audit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(f"file://{tmp_path}/runs")
    with mlflow.start_run() as run:
        log_to_mlflow(audit, step=7)
    kept = mlflow.get_run(run.info.run_id).data.metrics
    assert kept["bias/weat-6"] == pytest.approx(audit.get("weat-6").value)
    assert list(tmp_path.rglob("report.html"))


def test_wandb_keeps_the_values_offline(audit: eh.Audit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_SILENT", "true")
    with wandb.init(mode="offline", dir=str(tmp_path), project="test") as run:
        log_to_wandb(audit, run)
        assert run.summary["bias/weat-6"] == pytest.approx(audit.get("weat-6").value)
    assert list(tmp_path.rglob("*.wandb"))


def test_a_trainer_is_audited_while_it_trains(tiny_folder: Callable[..., Path], tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    from evenhand.interop.trainer import AuditCallback

    folder = tiny_folder("GPT2LMHeadModel")
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokenizer.pad_token = tokenizer.eos_token
    rows = [{"input_ids": (ids := tokenizer("she is a nurse")["input_ids"]), "labels": ids} for _ in range(6)]
    args = transformers.TrainingArguments(
        output_dir=str(tmp_path / "out"), max_steps=3, per_device_train_batch_size=2, use_cpu=True, report_to=[],
        disable_tqdm=True, save_strategy="no", logging_steps=1, learning_rate=0.1, gradient_accumulation_steps=2,
    )  # fmt: skip
    trainer = transformers.Trainer(model=model, args=args, train_dataset=rows, processing_class=tokenizer)
    callback = AuditCallback(every=2, measures=["seat"], folder=tmp_path / "audits", limit=None).attach(trainer)
    trainer.train()
    assert sorted(callback.audits) == [2, 3]  # every second step, and the end
    logged = [entry for entry in trainer.state.log_history if any(name.startswith("bias/") for name in entry)]
    assert [entry["step"] for entry in logged] == [2, 3]
    assert [entry["step"] for entry in trainer.state.log_history if "loss" in entry] == [1, 2, 3]
    first, last = (eh.Audit.load(tmp_path / "audits" / f"step-{step}") for step in (2, 3))
    assert first.manifest["subjects"][0]["sha256"] != last.manifest["subjects"][0]["sha256"]
    assert json.loads((tmp_path / "audits" / "step-3" / "audit.json").read_text())["results"]
    trainer.remove_callback(callback)
    AuditCallback(measures=["weat"], limit=20).attach(trainer)
    with pytest.raises(UsageError, match="asks more than 20 items"):  # before the first step
        trainer.train()
    with pytest.raises(UsageError, match="less than one step"):
        AuditCallback(every=0)
    sharded = SimpleNamespace(deepspeed="config.json")
    with pytest.raises(UsageError, match="sharded"):
        AuditCallback().on_train_begin(sharded, None, None)
