"""Logs that lm-eval 0.4.13 and inspect 0.3.285 wrote, on sentences of ours (tests/interop/logs/generate.py)."""

from __future__ import annotations

import contextlib
import json
import math
import shutil
import struct
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import evenhand as eh
from evenhand.audit import compare
from evenhand.cli import app
from evenhand.errors import EvenhandError, FormatError, InputMissingError, UsageError
from evenhand.interop.logs.bias_sets import bbq_item_of
from evenhand.interop.logs.inspect import read_inspect
from evenhand.interop.logs.lm_eval import read_lm_eval
from evenhand.interop.logs.run import Fields
from evenhand.measures.likelihood.bbq import choose
from evenhand.measures.likelihood.bbq_items import read_bbq
from evenhand.measures.likelihood.stereoset import choice_measurements, read_stereoset

LOGS = Path(__file__).parent / "logs"
LM_EVAL, BBQ, STEREOSET = LOGS / "lm-eval", LOGS / "inspect" / "bbq.eval", LOGS / "inspect" / "stereoset.json"


def run(*parts: object) -> Any:
    return CliRunner().invoke(app, [str(part) for part in parts])


def results_of(task: str) -> Path:
    (samples,) = LM_EVAL.glob(f"*/samples_{task}_*.jsonl")
    return samples.with_name(samples.name.replace(f"samples_{task}", "results").removesuffix("l"))


def theirs(task: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(results_of(task).read_text())["results"][task]
    return found


def without_samples(task: str, folder: Path) -> Path:
    shutil.copy(results_of(task), folder)
    return folder / results_of(task).name


def with_samples(task: str, folder: Path) -> tuple[Path, Path]:
    file = without_samples(task, folder)
    (samples,) = LM_EVAL.glob(f"*/samples_{task}_*.jsonl")
    return file, Path(shutil.copy(samples, folder))


def test_values_are_those_of_lm_eval_with_intervals_and_tests() -> None:
    audit = read_lm_eval(LM_EVAL).audit()
    assert audit.subjects == ("tiny-gpt2",)
    pairs = audit.get("crows-pairs:lm-eval/crows_pairs_english")
    assert pairs.value == 100 * theirs("crows_pairs_english")["pct_stereotype,none"]
    assert pairs.interval is not None
    assert pairs.p_value == 1.0
    assert pairs.n == 12
    assert audit.get("crows-pairs:gender").value == 0.0
    assert audit.get("winogender:accuracy").value == 100 * theirs("winogender_all")["acc,none"]
    for ours, metric in (("accuracy-ambiguous", "accuracy_amb"), ("disambiguated", "disamb_bias_score")):
        assert audit.get(f"bbq:{ours}-sum").value == 100 * theirs("bbq")[f"{metric},none"]
    assert audit.get("bbq:ambiguous-sum").units


def test_a_record_from_a_log_is_saved_checked_and_reported(tmp_path: Path) -> None:
    done = run("import", "lm-eval", LM_EVAL, "--out", tmp_path / "run")
    assert done.exit_code == 0, done.output
    audit = eh.Audit.load(tmp_path / "run")
    assert audit.concept == "social"
    assert "lm-eval/crows_pairs_english" in (tmp_path / "run" / "report.html").read_text()
    row = "crows-pairs:lm-eval/crows_pairs_english"
    assert run("check", tmp_path / "run", "--max", f"{row}=60").exit_code == 0
    assert run("check", tmp_path / "run", "--max", f"{row}=40").exit_code == 3
    assert run("check", tmp_path / "run", "--baseline", tmp_path / "run").exit_code == 0
    assert run("report", tmp_path / "run", "--format", "markdown").exit_code == 0


def test_two_logs_are_compared_on_the_same_pairs(tmp_path: Path) -> None:
    file, samples = with_samples("crows_pairs_english", tmp_path)
    lines = [json.loads(line) for line in samples.read_text().splitlines()]
    for line in lines:  # a model that prefers the more stereotyping sentence of every pair
        line["filtered_resps"] = [["-1.0", "False"], ["-2.0", "False"]]
    samples.write_text("".join(json.dumps(line) + "\n" for line in lines))
    before = read_lm_eval(results_of("crows_pairs_english")).audit()
    changes = {change.label: change for change in compare(before, read_lm_eval(file).audit())}
    change = changes["crows-pairs:lm-eval/crows_pairs_english"]
    assert (change.before.value, change.after.value, change.paired) == (50.0, 100.0, True)


def test_without_samples_the_standard_error_of_lm_eval_is_used_and_said(tmp_path: Path) -> None:
    found = read_lm_eval(without_samples("crows_pairs_english", tmp_path)).audit()
    row = found.get("crows-pairs")
    error = theirs("crows_pairs_english")["pct_stereotype_stderr,none"]
    assert row.value == 50.0
    assert row.interval == pytest.approx((50 - 196 * error, 50 + 196 * error), rel=1e-4)
    assert row.n == 12
    assert "no samples were logged" in row.note
    assert "no samples were logged" in " ".join(found.manifest["warnings"])
    several = read_lm_eval(without_samples("bbq", tmp_path)).audit()
    assert several.get("bbq:accuracy-disambiguated-sum").value == 50.0
    assert several.get("bbq:accuracy-disambiguated-sum").interval is None


def test_a_value_that_is_not_a_number_is_undefined(tmp_path: Path) -> None:
    file = without_samples("crows_pairs_english", tmp_path)
    content = json.loads(file.read_text())
    content["results"]["crows_pairs_english"]["pct_stereotype,none"] = math.nan
    file.write_text(json.dumps(content))
    row = read_lm_eval(file).audit().get("crows-pairs")
    assert row.value is None
    assert "pct_stereotype" in row.reason


def test_a_limited_run_says_so(tmp_path: Path) -> None:
    file = without_samples("crows_pairs_english", tmp_path)
    content = json.loads(file.read_text())
    content["n-samples"]["crows_pairs_english"] = {"original": 1508, "effective": 12}
    file.write_text(json.dumps(content))
    assert "12 of 1508 samples" in " ".join(read_lm_eval(file).warnings)


def test_results_of_two_models_are_refused(tmp_path: Path) -> None:
    file = without_samples("crows_pairs_english", tmp_path)
    content = json.loads(file.read_text()) | {"model_name": "another"}
    (tmp_path / "results_2026-11-18T00-00-00.json").write_text(json.dumps(content))
    with pytest.raises(UsageError, match="2 models: tiny-gpt2, another"):
        read_lm_eval(tmp_path)


def test_the_newest_results_of_a_task_count(tmp_path: Path) -> None:
    file = without_samples("crows_pairs_english", tmp_path)
    content = json.loads(file.read_text())
    content["results"]["crows_pairs_english"]["pct_stereotype,none"] = 0.75
    file.with_name("results_2027-01-01T00-00-00.0.json").write_text(json.dumps(content))
    assert read_lm_eval(tmp_path).audit().get("crows-pairs").value == 75.0


def test_written_answers_of_bbq_are_those_that_lm_eval_found(tmp_path: Path) -> None:
    file, samples = with_samples("bbq", tmp_path)
    lines = [json.loads(line) for line in samples.read_text().splitlines()]
    for line in lines:  # as bbq_generate logs: a text, and the counts (right, biased, names a person, disambiguated)
        line["filtered_resps"] = ["The grandfather"]
        right = line["doc"]["label"] == 0
        biased = line["doc"]["biased_answers"] == ["The grandfather"]
        counts = [float(right), float(biased), 1.0, line["doc"]["context_condition"] == "disambig"]
        line["amb_bias_score"] = line["disamb_bias_score"] = counts
    samples.write_text("".join(json.dumps(line) + "\n" for line in lines))
    audit = read_lm_eval(file).audit()
    assert audit.get("bbq-chat:ambiguous").value == 0.0  # negative questions are biased, the others are not
    assert audit.get("bbq-chat:accuracy-disambiguated").value == 50.0
    assert audit.get("bbq-chat:accuracy-ambiguous").value == 0.0


def test_parts_of_winogender_have_the_scores_that_they_allow(tmp_path: Path) -> None:
    file, samples = with_samples("winogender_all", tmp_path)
    lines = [line for line in samples.read_text().splitlines() if json.loads(line)["doc"]["gender"] == "female"]
    samples.write_text("\n".join(lines) + "\n")
    audit = read_lm_eval(file).audit()
    assert audit.get("winogender:accuracy-female").n == 8
    assert audit.get("winogender:accuracy-male").reason == "there is no sentence with a male pronoun"
    assert audit.get("winogender:share-correlation").value is None


def test_decisions_are_the_coefficients_of_discrim_eval() -> None:
    audit = read_lm_eval(results_of("discrim_eval_explicit")).audit()
    coefficients = theirs("discrim_eval_explicit")
    for name, metric in (("gender", "female_bias"), ("race", "black_bias")):  # of a mixed model, here of balanced data
        gap = audit.get(f"decisions:lm-eval/discrim_eval_explicit-{name}:gap")
        assert gap.value == pytest.approx(coefficients[f"{metric},none"], abs=1e-3)
        assert "neither of the options" in gap.not_interpretable  # a random model gives both answers next to nothing
    assert audit.get("decisions:lm-eval/discrim_eval_explicit-age:gap").positive == "from 60"


def test_toxigen_is_compared_between_the_groups_that_statements_are_about() -> None:
    audit = read_lm_eval(results_of("toxigen")).audit()
    difference = audit.get("group-metrics:accuracy-difference")
    assert difference.details["groups"] == {"women": 4, "immigrants": 4, "older people": 4}
    assert difference.params["task"] == "toxigen"
    worst = audit.get("group-metrics:worst-group-accuracy").value
    assert worst is not None
    assert worst <= 100 * theirs("toxigen")["acc,none"]


def test_choices_of_inspect_are_scored() -> None:
    audit = read_inspect(BBQ).audit()
    # Letters A B C A A C B B C A C and one refusal, on three templates: see `bbq_rows` in logs/generate.py.
    assert audit.get("bbq-chat:accuracy-ambiguous").value == 50.0
    assert audit.get("bbq-chat:accuracy-disambiguated").value == pytest.approx(100 / 3)
    assert "1 of 12 answers fit none" in audit.get("bbq-chat:ambiguous").note
    found = read_inspect(STEREOSET)
    measured = {m.score: m for _, rows in found.measured for m in rows}
    reported = json.loads(STEREOSET.read_text())["results"]["scores"][0]["metrics"]
    assert measured["inter-ss"].value == reported["stereotype_score"]["value"]
    assert measured["inter-lms"].value == 80.0  # one of five choices is the unrelated text
    assert found.audit().get("stereoset:inter-ss").p_value is not None


def test_an_inspect_log_is_imported_by_the_command(tmp_path: Path) -> None:
    done = run("import", "inspect", BBQ, "-o", tmp_path, "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["manifest"]["subjects"][0]["logged_by"] == "inspect"
    assert (tmp_path / "report.html").is_file()
    assert "bbq" in run("import", "inspect", BBQ, "-o", tmp_path, "--tables").stdout
    assert "crows" in run("import", "lm-eval", LM_EVAL, "-o", tmp_path / "lm", "--tables", "--json").stdout


def test_a_deflated_archive_is_read_too(tmp_path: Path) -> None:
    content = json.loads(STEREOSET.read_text())
    with zipfile.ZipFile(tmp_path / "log.eval", "w", zipfile.ZIP_DEFLATED) as archive:
        header = {name: value for name, value in content.items() if name != "samples"}
        archive.writestr("header.json", json.dumps(header))
        for number, sample in enumerate(content["samples"]):
            archive.writestr(f"samples/{number}_epoch_1.json", json.dumps(sample))
    first, second = read_inspect(tmp_path / "log.eval"), read_inspect(STEREOSET)
    assert first.measured == second.measured


def test_a_run_that_did_not_end_says_so(tmp_path: Path) -> None:
    content = json.loads(STEREOSET.read_text()) | {"status": "cancelled"}
    content["samples"][0]["error"] = {"message": "out of memory"}
    (tmp_path / "log.json").write_text(json.dumps(content))
    warnings = " ".join(read_inspect(tmp_path / "log.json").warnings)
    assert "'cancelled'" in warnings
    assert "1 samples ended with an error" in warnings


def test_samples_without_scores_are_no_wrong_answers(tmp_path: Path) -> None:
    """`inspect eval --no-score` logs answers that nobody read a choice from."""
    content = json.loads(STEREOSET.read_text())
    content["samples"][0]["scores"] = None
    (tmp_path / "log.json").write_text(json.dumps(content))
    assert "1 samples were not scored and are left out" in read_inspect(tmp_path / "log.json").warnings
    for sample in content["samples"]:
        sample["scores"] = {}
    (tmp_path / "log.json").write_text(json.dumps(content))
    with pytest.raises(FormatError, match="no scored samples") as caught:
        read_inspect(tmp_path / "log.json")
    assert "inspect score" in str(caught.value.hint)


def test_repeated_samples_are_one_unit(tmp_path: Path) -> None:
    """Three epochs ask the same questions again, so they do not narrow an interval."""
    content = json.loads(STEREOSET.read_text())
    once = read_inspect(STEREOSET).audit().get("stereoset:inter-ss")
    content["samples"] = [sample | {"epoch": epoch} for epoch in (1, 2, 3) for sample in content["samples"]]
    (tmp_path / "log.json").write_text(json.dumps(content))
    thrice = read_inspect(tmp_path / "log.json").audit().get("stereoset:inter-ss")
    assert (thrice.value, thrice.interval) == (once.value, once.interval)


@pytest.mark.parametrize("name", ["nothing", "folder"])
def test_a_missing_log_is_named(name: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for verb in ("lm-eval", "inspect"):
        done = run("import", verb, tmp_path / name, "-o", tmp_path / "out")
        assert done.exit_code == 4
        assert name in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", "nonsense", '{"results": 3}', '{"results": {"crows_pairs_english": 7}}', "[" * 100_000,
     '{"results": {}, "n-samples": 3}', '{"eval": {"task": "bbq"}}', '{"eval": {"task": "x", "model": "y"}}',
     '{"eval": {"task": "x", "model": "y"}, "samples": 4}', '{"eval": {"task": "x", "model": "y"}, "samples": [4]}'],
)  # fmt: skip
def test_files_that_are_no_logs_end_in_a_sentence(text: str, tmp_path: Path) -> None:
    file = tmp_path / "results_2026-01-01T00-00-00.json"
    file.write_text(text)
    for verb in ("lm-eval", "inspect"):
        done = run("import", verb, file, "-o", tmp_path / "out")
        assert done.exit_code in (2, 4), done.output
        assert done.stderr.startswith("error: ")


@pytest.mark.parametrize(
    ("field", "value"),
    [("doc", None), ("doc", []), ("filtered_resps", None), ("filtered_resps", [["x"], ["y"]]),
     ("filtered_resps", [["-1"]]), ("filtered_resps", [["nan"], ["1"]])],
)  # fmt: skip
def test_a_damaged_sample_is_named_by_its_line(field: str, value: object, tmp_path: Path) -> None:
    file, samples = with_samples("crows_pairs_english", tmp_path)
    lines = samples.read_text().splitlines()
    lines[3] = json.dumps(json.loads(lines[3]) | {field: value})
    samples.write_text("\n".join(lines) + "\n")
    with pytest.raises(FormatError, match="line 4"):
        read_lm_eval(file)


def test_samples_that_were_cut_off_are_named(tmp_path: Path) -> None:
    file, samples = with_samples("bbq", tmp_path)
    samples.write_bytes(samples.read_bytes()[:-700])
    with pytest.raises(FormatError, match="line 12 is not JSON"):
        read_lm_eval(file)


@settings(max_examples=40)
@given(st.integers(0, 34_000), st.binary(min_size=1, max_size=40))
def test_a_damaged_archive_ends_in_a_sentence_or_is_read(place: int, damage: bytes) -> None:
    content = bytearray(BBQ.read_bytes())
    content[place : place + len(damage)] = damage
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "log.eval"
        file.write_bytes(bytes(content))
        with contextlib.suppress(EvenhandError):  # anything else fails the test
            read_inspect(file)


def test_an_entry_that_expands_too_far_is_refused(tmp_path: Path) -> None:
    content = bytearray(BBQ.read_bytes())
    place = content.rfind(b"header.json") - 46  # the entry in the directory at the end; its size is at 24
    content[place + 24 : place + 28] = struct.pack("<I", 3 << 30)
    (tmp_path / "log.eval").write_bytes(bytes(content))
    with pytest.raises(FormatError, match="expands to 3,221,354,293 bytes"):
        read_inspect(tmp_path / "log.eval")


def test_entries_that_expand_too_far_together_are_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "log.eval", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", "{}")
        for number in range(5):
            archive.writestr(f"samples/{number}.json", bytes(8 << 20))
    with pytest.raises(FormatError, match="expands to 41,943,042 bytes, which is too much"):
        read_inspect(tmp_path / "log.eval")


def test_an_encrypted_entry_ends_in_a_sentence(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "log.eval", "w") as archive:
        archive.writestr("header.json", "{}")
    content = bytearray((tmp_path / "log.eval").read_bytes())
    content[6] |= 1
    content[content.rindex(b"PK\1\2") + 8] |= 1
    (tmp_path / "log.eval").write_bytes(bytes(content))
    with pytest.raises(FormatError, match="encrypted"):
        read_inspect(tmp_path / "log.eval")


def test_a_log_without_a_bias_task_is_refused(tmp_path: Path) -> None:
    file = without_samples("crows_pairs_english", tmp_path)
    content = json.loads(file.read_text())
    content["results"] = {"hellaswag": content["results"]["crows_pairs_english"]}
    file.write_text(json.dumps(content))
    done = run("import", "lm-eval", file, "-o", tmp_path / "out")
    assert done.exit_code == 2
    assert "no task about bias: it has hellaswag" in done.stderr
    with pytest.raises(InputMissingError):
        read_lm_eval(tmp_path / "none")


def test_a_row_without_an_answer_chooses_nothing() -> None:
    assert choose(np.array([[1.0, 2.0, 2.0], [np.nan] * 3])).tolist() == [[0.0, 0.5, 0.5], [0.0, 0.0, 0.0]]


@pytest.mark.data
def test_the_biased_answer_found_from_groups_is_that_of_the_metadata() -> None:
    """inspect logs the groups of the answers, not the biased one, which the authors publish in a file of its own."""
    from evenhand import data

    folder = data.locate("bbq")
    if folder is None:
        pytest.skip("bbq is not fetched")
    import csv

    with (folder / "additional_metadata.csv").open(encoding="utf-8") as stream:
        groups = {
            (row["category"], row["question_index"], int(row["example_id"])): row["Known_stereotyped_groups"]
            for row in csv.DictReader(stream)
        }
    agree = known = found = 0
    for category in ("Age", "Religion", "Sexual_orientation"):
        items = {(one.category, one.template, one.example): one for one in read_bbq(folder, (category,))}
        for line in (folder / f"{category}.jsonl").read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            key = row["category"], str(row["question_index"]), int(row["example_id"])
            names = [part.strip() for part in groups.get(key, "").replace(";", ",").split(",") if part.strip()]
            metadata = Fields({**row, "additional_metadata": {"stereotyped_groups": names}}, "row")
            one = bbq_item_of(metadata, items[key].answers, items[key].label, "", "")
            known += items[key].target is not None
            found += one.target is not None
            agree += one.target is not None and one.target == items[key].target
    assert known > 5_000
    assert found > 0.8 * known
    assert agree == found


@pytest.mark.data
def test_choices_of_a_model_that_always_stereotypes(data_folder: Path) -> None:
    from evenhand.measures import info
    from evenhand.measures.call import Call

    examples = read_stereoset(data_folder / "stereoset" / "dev.json")
    rows = {m.score: m for m in choice_measurements(Call(info("stereoset"), query="x"), examples, [0] * len(examples))}
    assert set(rows) == {"intra-lms", "intra-ss", "inter-lms", "inter-ss"}
    assert all(m.value == 100.0 for m in rows.values())
    none = choice_measurements(Call(info("stereoset"), query="x"), examples[:3], [None] * 3)
    assert all(m.value is None and "choose none" in m.reason for m in none)


@pytest.mark.parametrize("value", [10**400, 1e308, -1e300])
def test_numbers_that_are_no_log_likelihood_are_named(value: float, tmp_path: Path) -> None:
    file, samples = with_samples("crows_pairs_english", tmp_path)
    lines = samples.read_text().splitlines()
    lines[3] = json.dumps(json.loads(lines[3]) | {"filtered_resps": [[value, "False"], [-3.0, "False"]]})
    samples.write_text("\n".join(lines) + "\n")
    with pytest.raises(FormatError, match="line 4"):
        read_lm_eval(file)


@pytest.mark.parametrize(("value", "error"), [(0.5, -1.0), (1e308, 0.1), (0.5, 1e300)])
def test_metrics_out_of_range_are_named(value: float, error: float, tmp_path: Path) -> None:
    file = without_samples("crows_pairs_english", tmp_path)
    content = json.loads(file.read_text())
    content["results"]["crows_pairs_english"] = {"pct_stereotype,none": value, "pct_stereotype_stderr,none": error}
    file.write_text(json.dumps(content))
    with pytest.raises(FormatError, match="pct_stereotype is"):
        read_lm_eval(file)


def test_a_task_that_needs_samples_is_left_out_without_them(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no task about bias: it has toxigen") as caught:
        read_lm_eval(without_samples("toxigen", tmp_path)).audit()
    assert "--log_samples" in str(caught.value.hint)


def test_samples_of_two_runs_in_one_file_are_refused_and_missing_ones_counted(tmp_path: Path) -> None:
    file, samples = with_samples("crows_pairs_english", tmp_path)
    whole = samples.read_text()
    samples.write_text(whole * 2)
    with pytest.raises(FormatError, match="line 13: doc_id 0 is there already"):
        read_lm_eval(file)
    samples.write_text("".join(whole.splitlines(keepends=True)[:6]))
    found = read_lm_eval(file)
    assert found.warnings == ["crows_pairs_english: the file has 6 of the 12 samples that lm-eval asked"]
    assert found.audit().get("crows-pairs").n == 6


def test_characters_that_no_file_can_hold_are_escaped(tmp_path: Path) -> None:
    file, samples = with_samples("crows_pairs_english", tmp_path)
    content = json.loads(file.read_text())
    content |= {"model_name": "m\ud800", "lm_eval_version": "\ud800"}
    content["results"]["other\ud800"] = {"acc,none": 1.0}
    file.write_text(json.dumps(content))
    lines = [json.loads(line) for line in samples.read_text().splitlines()]
    for line in lines:
        line["doc"] |= {"bias_type": "age\ud800", "id": f"\ud800{line['doc_id']}"}
    samples.write_text("\n".join(map(json.dumps, lines)))
    audit = read_lm_eval(file).audit()
    audit.save(tmp_path / "run")
    assert eh.Audit.load(tmp_path / "run").to_frame()["subject"].unique().to_list() == ["m\\ud800"]
