"""Tasks and results for lm-eval; tests/rivals/test_lm_eval.py runs the tasks for real."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import evenhand as eh
from evenhand.cli import app
from evenhand.errors import UnknownNameError, UsageError
from evenhand.interop.logs.lm_eval import read_lm_eval, write_lm_eval_tasks


def run(*parts: object) -> Any:
    return CliRunner().invoke(app, [str(part) for part in parts])


def settings_of(file: Path) -> dict[str, Any]:
    """The lines of a task; each value is JSON."""
    lines = [line for line in file.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return {key: json.loads(value) for key, _, value in (line.partition(": ") for line in lines)}


def rows_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.with_suffix(".jsonl").read_text(encoding="utf-8").splitlines()]


def test_a_concept_is_its_decisions_and_its_probes(tmp_path: Path) -> None:
    decisions, inference = write_lm_eval_tasks("gender", tmp_path, sample=48)
    settings, rows = settings_of(decisions), rows_of(decisions)
    assert settings["dataset_kwargs"] == {"data_files": {"test": str(decisions.with_suffix(".jsonl"))}}
    assert settings["doc_to_choice"] == ["yes", "Yes", "no", "No"]
    assert len(rows) == 48
    assert {row["group"] for row in rows} == {"female", "male"}
    settings, rows = settings_of(inference), rows_of(inference)
    assert settings["doc_to_choice"][settings["doc_to_target"]] == "neither"
    assert all({"premise", "hypothesis", "group"} <= set(row) for row in rows)
    assert inference.stem == "evenhand_gender_occupation"


def test_a_probe_is_one_task(tmp_path: Path) -> None:
    (only,) = write_lm_eval_tasks("religion-polarity", tmp_path, sample=20)
    assert len(rows_of(only)) == 20
    with pytest.raises(UnknownNameError):
        write_lm_eval_tasks("nothing-of-the-kind", tmp_path)


def test_the_command_keeps_files_of_others(tmp_path: Path) -> None:
    done = run("concept", "export", "religion-polarity", tmp_path, "--sample", "10", "--seed", "1", "--json")
    assert done.exit_code == 0, done.output
    (file,) = json.loads(done.stdout)["tasks"].values()
    Path(file).write_text("mine\n")
    refused = run("concept", "export", "religion-polarity", tmp_path, "--sample", "10")
    assert refused.exit_code != 0
    assert Path(file).read_text() == "mine\n"
    again = run("concept", "export", "religion-polarity", tmp_path, "--sample", "10", "--overwrite")
    assert again.exit_code == 0
    assert "evenhand_religion_polarity" in again.stdout
    assert run("concept", "export", "none-such", tmp_path).exit_code == 2


def test_the_decisions_of_a_log_are_gaps(tmp_path: Path) -> None:
    (file, *_) = write_lm_eval_tasks("gender", tmp_path, sample=48)
    samples = []
    for number, row in enumerate(rows_of(file)):  # yes is e times as likely for women, where it is favourable
        favours = (row["group"] == "female") == (row["favourable"] == "yes")
        values = [-0.5 if favours else -1.5, -9.0, -1.5 if favours else -0.5, -9.0]
        arguments = {
            f"gen_args_{n}": {"arg_0": row["text"], "arg_1": f" {text}"}
            for n, text in enumerate(("yes", "Yes", "no", "No"))
        }
        samples.append(
            {
                "doc_id": number,
                "doc": row,
                "arguments": arguments,
                "filter": "none",
                "filtered_resps": [[str(v), "False"] for v in values],
            }
        )
    task = file.stem
    (tmp_path / "results_2026-01-01T00-00-00.json").write_text(json.dumps({"results": {task: {}}, "model_name": "m"}))
    lines = "".join(json.dumps(sample) + "\n" for sample in samples)
    (tmp_path / f"samples_{task}_2026-01-01T00-00-00.jsonl").write_text(lines)
    gap = read_lm_eval(tmp_path).audit().get("decisions:gap")
    assert gap.value == pytest.approx(2 * 1.0, abs=0.01)
    assert gap.positive == "female"


@pytest.fixture(scope="module")
def audit(glove: eh.Vectors) -> eh.Audit:
    return eh.Audit.run(glove, methods=["linear"], measures=["weat", "rnsb"], queries=["weat-6"])


def test_a_report_is_a_results_file(audit: eh.Audit, tmp_path: Path) -> None:
    audit.save(tmp_path)
    done = run("report", tmp_path, "--format", "lm-eval")
    assert done.exit_code == 0, done.output
    content = json.loads((tmp_path / "lm-eval-results.json").read_text())
    row = content["results"]["weat-6"]
    assert row["value,none"] == audit.get("weat-6").value
    assert row["value,linear"] == audit.get("weat-6", "linear").value
    low, high = audit.get("weat-6").interval or (0.0, 0.0)
    assert row["value_stderr,none"] == pytest.approx((high - low) / 2 / 1.959964, rel=1e-6)
    assert content["n-samples"]["weat-6"]["effective"] == audit.get("weat-6").n
    assert content["higher_is_better"]["weat-6"] == {"value": None}


def test_results_are_of_one_model(glove: eh.Vectors) -> None:
    from evenhand.report.formats import lm_eval_results

    few = glove.head(3000)
    subjects = [few, eh.Vectors(few.words, few.matrix, name="copy")]
    both = eh.Audit.run(subjects, methods=[], measures=["weat"], queries=["weat-6"])
    with pytest.raises(UsageError, match="about one model"):
        lm_eval_results(both)
