"""The numbers of an audit in MLflow and Weights & Biases: thin, because `Audit.scalars` has them by name."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand.errors import MissingExtraError, require

if TYPE_CHECKING:
    from types import ModuleType

    from evenhand.audit import Audit

PREFIX = "bias"
# What MLflow accepts in the name of a metric. Its names are paths of files, so a value cannot be a folder of others.
REFUSED = re.compile(r"[^\w./: -]")


def metric_names(audit: Audit, prefix: str = PREFIX) -> dict[str, float]:
    """Return the scalars of an audit under names that trackers accept: "bias/weat-6.linear", "bias/weat-6.low"."""
    start = f"{prefix}/" if prefix else ""
    return {
        start + REFUSED.sub("_", name.replace("@", ".")): value for name, value in audit.scalars().items()
    }  # fmt: skip


def log_to_mlflow(audit: Audit, *, step: int | None = None, prefix: str = PREFIX, report: bool = True) -> None:
    """Log the values of an audit as metrics of the active run, and its record and page as artifacts.

    Args:
        audit: the audit.
        step: step of a training.
        prefix: what the names of the metrics begin with.
        report: whether `audit.json` and `report.html` are stored with the run.
    """
    mlflow = _tracker("mlflow")
    mlflow.log_metrics(metric_names(audit, prefix), step=step)
    if report:
        with tempfile.TemporaryDirectory() as folder:
            _write(audit, Path(folder))
            mlflow.log_artifacts(folder, artifact_path=prefix or None)


def log_to_wandb(
    audit: Audit, run: Any = None, *, step: int | None = None, prefix: str = PREFIX, report: bool = True
) -> None:
    """Log the values of an audit to a run of Weights & Biases, with a table of every number, and keep its record.

    Args:
        audit: the audit.
        run: the run; the active one by default.
        step: step of a training.
        prefix: what the names of the values begin with.
        report: whether the record and the page are stored as an artifact.
    """
    wandb = _tracker("wandb")
    target = run if run is not None else wandb.run
    if target is None:
        target = wandb.init()
    frame = audit.to_frame("polars")
    # A column of a table has one type: a value that is undefined stays empty.
    table = wandb.Table(columns=list(frame.columns), data=[list(row) for row in frame.rows()], allow_mixed_types=True)
    name = prefix or PREFIX
    target.log({**metric_names(audit, prefix), f"{name}/audit": table}, step=step)
    if report:
        artifact = wandb.Artifact(f"{name}-audit-{audit.manifest['run']}", type="audit")
        with tempfile.TemporaryDirectory() as folder:
            _write(audit, Path(folder))
            artifact.add_dir(folder)
            target.log_artifact(artifact)


def _write(audit: Audit, folder: Path) -> None:
    audit.save(folder)
    audit.to_html(folder / "report.html")


def _tracker(name: str) -> ModuleType:
    try:
        return require(name, extra=name)
    except MissingExtraError as error:
        raise MissingExtraError(error.message, hint=f"pip install {name}") from error
