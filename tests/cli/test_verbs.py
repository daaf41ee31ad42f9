"""The command as a user meets it: results on stdout, the rest on stderr, exit codes, nothing half written."""

import inspect
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import evenhand as eh
from evenhand.cli import app
from evenhand.cli.app import VERBS, functions_of
from evenhand.cli.options import flags

FEW = ("--measure", "weat", "--measure", "direct-bias")


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "80", "NO_COLOR": "1"})


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    assert run("audit", "--method", "linear", *FEW, "-o", folder).exit_code == 0
    return folder


@pytest.fixture
def small(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    words = ["she", "he", "woman", "man", "girl", "boy", "nurse", "doctor", "the"]
    path = tmp_path / "small.txt"
    eh.Vectors(words, rng.normal(size=(len(words), 5))).save(path)
    return path


def test_audit_prints_a_table_that_fits_80_columns(saved: Path) -> None:
    result = run("audit", "--no-methods", *FEW, "-o", saved.parent / "other")
    assert result.exit_code == 0
    assert "weat-6" in result.stdout
    assert max(len(line) for line in result.stdout.splitlines()) <= 80
    assert "report" in result.stderr
    assert "report.html" not in result.stdout


def test_audit_writes_record_and_page(saved: Path) -> None:
    assert sorted(path.name for path in saved.iterdir()) == ["audit.json", "cells", "report.html", "stages"]
    assert (saved / "report.html").read_text().startswith("<!doctype html>")


def test_json_is_the_only_thing_on_stdout(saved: Path, tmp_path: Path) -> None:
    result = run("audit", "--no-methods", *FEW, "-o", tmp_path, "--json")
    document = json.loads(result.stdout)
    assert document["results"][0]["measure"] == "weat"
    assert document["manifest"]["arguments"]["effective"]["seed"] == 0


def test_measure_agrees_with_the_library(glove: eh.Vectors) -> None:
    found = json.loads(run("measure", "weat", "--query", "weat-6", "--set", "ddof=1", "--seed", "4", "--json").stdout)
    assert found["value"] == eh.measures.weat(glove, "weat-6", ddof=1, seed=4).value
    assert found["params"]["ddof"] == 1


def test_measure_reads_a_query_file(tmp_path: Path, glove: eh.Vectors) -> None:
    file = tmp_path / "mine.json"
    sets = {"targets": [["math", "algebra"], ["poetry", "art"]], "attributes": [["he", "man"], ["she", "woman"]]}
    query = eh.Query("mine", **sets)
    file.write_text(json.dumps({"query": {"mine": query.to_dict()}}))
    result = run("measure", "weat", "--query", file, "--json")
    if result.exit_code == 0:
        assert json.loads(result.stdout)["value"] == pytest.approx(eh.measures.weat(glove, query).value)
    else:
        pytest.fail(result.stderr)


@pytest.mark.parametrize(
    "kind",
    ["measures", "methods", "probes", "models", "concepts", "queries", "wordsets", "pairs", "data", "formats"],
)
def test_lists(kind: str) -> None:
    assert len(json.loads(run("list", kind, "--json").stdout)) > 1
    assert run("list", kind).exit_code == 0


@pytest.mark.parametrize(
    "name",
    [
        *("weat", "linear", "gender", "weat-6", "glove-embedded", "glove-6b-50d", "sembias"),
        *("gender-occupation", "nationality-polarity+cross", "embedded", "embedded:projected", "nli-gap"),
    ],
)
def test_show(name: str) -> None:
    assert json.loads(run("show", name, "--json").stdout)
    assert run("show", name).exit_code == 0


def test_a_missing_audit_is_not_taken_for_a_misspelt_name() -> None:
    result = run("show", "runs/nowhere")
    assert result.exit_code != 0
    assert "no saved audit runs/nowhere" in result.stderr
    assert "did you mean" not in result.stderr


def test_a_variant_of_a_probe_shows_itself() -> None:
    text = " ".join(run("show", "nationality-polarity+cross").stdout.split())
    assert "nationality-polarity+cross+printed" in text
    assert "+cross+cross" not in text
    assert "1,912,896" in run("show", "gender-occupation+162").stdout
    assert "A/An {subject} {verb}" in run("show", "mab-explicit").stdout
    assert "none: there is one group" in run("show", "control-entailment").stdout


def test_a_probe_of_ones_own_shows_itself(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(
        '[probe.mine]\npremise = ["nurse"]\nhypothesis = ["woman", "man"]\n'
        'templates = [{ text = "The {subject} ate a/an {food}.", fillers = { food = ["apple"] } }]\n'
    )
    assert "1 x 2 x 1 = 2" in run("show", str(file)).stdout
    assert "The nurse ate an apple." in run("show", f"{file}#mine").stdout


def test_show_prints_bibtex_unbroken() -> None:
    assert (
        "  title = {Semantics derived automatically from language corpora contain human-like biases},"
        in run("show", "weat").stdout
    )


def test_debias_and_compare(small: Path, tmp_path: Path) -> None:
    out, fitted = tmp_path / "after.safetensors", tmp_path / "map.safetensors"
    result = run("debias", small, "--method", "linear", "-o", out, "--save-map", fitted)
    assert result.exit_code == 0
    after = eh.Vectors.load(out)
    assert after.history[0]["method"] == "linear"
    assert np.allclose(eh.VectorMap.load(fitted)(eh.Vectors.load(small)).matrix, after.matrix)
    rows = json.loads(run("compare", small, out, "--measure", "direct-bias", "--json").stdout)["rows"]
    assert rows[0]["label"] == "direct-bias:old-direction"


@pytest.mark.parametrize(
    "suffix", [".vec", ".bin", ".npy", ".safetensors", ".txt.gz", ".txt.zst", ".bin.xz", ".vec.bz2"]
)
def test_convert_keeps_every_bit(small: Path, tmp_path: Path, suffix: str) -> None:
    out = tmp_path / f"out{suffix}"
    assert run("convert", small, out).exit_code == 0
    assert eh.Vectors.load(out) == eh.Vectors.load(small)


def test_report_again(saved: Path, tmp_path: Path) -> None:
    assert run("report", saved, "-o", tmp_path / "again.html").exit_code == 0
    assert (tmp_path / "again.html").read_text() == (saved / "report.html").read_text()


def test_check_exit_codes(saved: Path) -> None:
    assert run("check", saved, "--max", "weat-6=5").exit_code == 0
    broken = run("check", saved, "--max", "weat-6=0.1", "--json")
    assert broken.exit_code == 3
    assert json.loads(broken.stdout)["breaches"][0]["label"] == "weat-6"
    assert run("check", saved).exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["measure", "waet"], 2, "did you mean: weat"),
        (["measure", "weat", "--set", "nonsense=1"], 2, "ddof"),
        (["measure", "weat", "missing.txt"], 4, "missing.txt"),
        (["audit", "missing.txt"], 4, "no data set 'missing"),
        (["audit", "--concept", "nonsense"], 2, "nonsense"),
        (["audit", "--method", "linear.nonsense", "--measure", "weat"], 2, "nonsense"),
        (["debias", "glove-embedded", "--method", "linear", "-o", "out.unknown"], 4, ".safetensors"),
        (["convert", "glove-embedded", "out.json"], 4, "cannot be written"),
        (["list", "nonsense"], 2, "there is no list"),
        (["show", "nonsense-at-all"], 2, "nonsense-at-all"),
        (["fetch"], 2, "--list"),
        (["nonsense"], 2, "nonsense"),
    ],
)
def test_misuse_is_told_and_leaves_nothing(
    arguments: list[str], code: int, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(*arguments)
    assert result.exit_code == code
    assert words in result.stderr
    assert not result.stdout
    assert "Traceback" not in result.stderr
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize("content", [b"", b"\x00\x01\x02" * 50, b"a 1 2 3\nb 1 2\n", b"\xff\xfe 1 2\n", b"a 1 nan\n"])
def test_a_bad_file_is_named_and_leaves_no_output(content: bytes, tmp_path: Path) -> None:
    bad, out = tmp_path / "bad.txt", tmp_path / "out.safetensors"
    bad.write_bytes(content)
    result = run("convert", bad, out)
    assert result.exit_code == 4
    assert "bad.txt" in result.stderr
    assert not out.exists()


def test_vectors_without_any_word_of_the_query(tmp_path: Path) -> None:
    path = tmp_path / "strange.txt"
    path.write_text("qqq 1 2\nzzz 2 1\n")
    found = json.loads(run("measure", "weat", path, "--query", "weat-6", "--json").stdout)
    assert found["status"] == "undefined"
    assert found["value"] is None
    assert "vocabulary" in found["reason"]
    failed = run("debias", path, "--method", "linear", "-o", tmp_path / "out.txt")
    assert failed.exit_code == 4
    assert not (tmp_path / "out.txt").exists()


def test_version_and_help() -> None:
    assert run("--version").stdout.strip() == f"evenhand {eh.__version__}"
    assert "audit" in run("--help").stdout


def command(*arguments: str | Path) -> list[str]:
    code = "import sys; sys.argv[0] = 'evenhand'; from evenhand.cli import main; main()"
    return [sys.executable, "-c", code, *map(str, arguments)]


def test_interrupt_gives_130(tmp_path: Path) -> None:
    process = subprocess.Popen(command("audit", "-o", tmp_path / "run"), stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    while not (tmp_path / "run").exists() and process.poll() is None:
        time.sleep(0.02)
    # A library's C callback may swallow one interrupt; whoever means it presses again.
    while process.poll() is None:
        process.send_signal(signal.SIGINT)
        time.sleep(0.5)
    _, stderr = process.communicate()
    assert process.returncode == 130
    assert b"Traceback" not in stderr


def test_a_closed_pipe_is_no_error() -> None:
    process = subprocess.Popen(command("list", "wordsets"), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert b"Traceback" not in process.stderr.read()
    process.stderr.close()
    process.wait(timeout=60)


@pytest.mark.parametrize("verb", ["convert", "debias"])
def test_a_killed_writer_leaves_the_old_output(verb: str, tmp_path: Path) -> None:
    out = tmp_path / "out.txt"
    out.write_text("old\n")
    extra = ["--overwrite", *(["--method", "linear", "-o", out] if verb == "debias" else [out])]
    for more in (0, 0.1):  # seconds after it began to write
        process = subprocess.Popen(command(verb, "glove-embedded", *extra), env=os.environ, stderr=subprocess.DEVNULL)
        while not (begun := list(tmp_path.glob(".*.partial"))) and process.poll() is None:
            time.sleep(0.005)
        time.sleep(more)
        process.kill()
        process.wait()
        assert begun, "it never began to write"
        for partial in tmp_path.glob(".*.partial"):  # vectors are written in a folder of their own
            shutil.rmtree(partial)
        text = out.read_text()
        assert text == "old\n" or text.count("\n") == len(eh.Vectors.default())


def test_an_ascii_console_shows_what_it_can() -> None:
    result = subprocess.run(
        command("list", "measures"), capture_output=True, env={**os.environ, "PYTHONIOENCODING": "ascii"}
    )
    assert result.returncode == 0, result.stderr
    assert b"weat" in result.stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", [("list", "measures"), ("list", "measures", "--json")])
def test_a_full_disk_under_stdout_is_an_error(arguments: tuple[str, ...]) -> None:
    with Path("/dev/full").open("wb") as full:
        result = subprocess.run(command(*arguments), stdout=full, stderr=subprocess.PIPE)
    assert result.returncode == 1
    assert b"Traceback" not in result.stderr
    assert b"could not be written (No space left on device)" in result.stderr


@pytest.mark.parametrize("arguments", [("list", "methods"), ("list", "methods", "--json"), ("--help",)])
def test_a_closed_stdout_is_an_error(arguments: tuple[str, ...]) -> None:
    result = subprocess.run(["sh", "-c", '"$@" >&-', "sh", *command(*arguments)], stderr=subprocess.PIPE)
    assert result.returncode == 1
    assert result.stderr.decode() == "error: the output could not be written (Bad file descriptor)\n"


def test_a_closed_stdout_is_nothing_to_a_verb_that_writes_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("she 1 2\nhe 2 1\n")
    convert = command("convert", tmp_path / "a.txt", tmp_path / "b.txt")
    result = subprocess.run(["sh", "-c", '"$@" >&-', "sh", *convert], stderr=subprocess.PIPE)
    assert result.returncode == 0, result.stderr
    assert eh.Vectors.load(tmp_path / "b.txt") == eh.Vectors.load(tmp_path / "a.txt")


@pytest.mark.parametrize(
    "verb",
    ["audit NAME -o run", "measure weat NAME", "debias NAME -m linear -o o.vec", "compare NAME NAME", "probe NAME",
     "corpus bias NAME", "show NAME", "report NAME", "check NAME --max a=1", "convert NAME o.vec", "lm generate NAME -o o",
     "nli eval NAME NAME"],
)  # fmt: skip
def test_a_name_that_no_file_can_have(verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(*verb.replace("NAME", "a" * 300).split())
    assert result.exit_code == 4, result.output
    assert isinstance(result.exception, SystemExit)
    assert result.stderr.startswith("error: ")
    assert not result.stdout
    assert list(tmp_path.iterdir()) in ([], [tmp_path / "run"])


def test_measures_of_rated_sets_name_the_sets_to_fetch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EVENHAND_DATA", raising=False)
    rated = run("measure", "similarity")
    assert rated.exit_code == 0
    assert "rg-65" in rated.stdout
    assert "evenhand fetch ws-353" in rated.stderr
    questions = run("measure", "analogy")
    assert questions.exit_code == 2
    assert "evenhand fetch google-analogies msr-analogies" in questions.stderr


def test_shells_can_complete_verbs() -> None:
    environment = os.environ | {"_EVENHAND_COMPLETE": "complete_bash", "COMP_WORDS": "evenhand che", "COMP_CWORD": "1"}
    command = [sys.executable, "-c", "from evenhand.cli import main; import sys; sys.argv = ['evenhand']; main()"]
    result = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert result.stdout.split() == ["check"]
    assert "--install-completion" in run("--help").stdout


def test_the_package_runs_as_a_module() -> None:
    command = [sys.executable, "-m", "evenhand", "--version"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.startswith("evenhand ")


@pytest.mark.parametrize(
    "options",
    [("--format", "pdf"), ("--format", "text"), ("--allow-pickle",), ("--device", "cpu"), ("--labels", "c,n,e")],
)
def test_options_that_do_nothing_are_refused(options: tuple[str, ...]) -> None:
    result = run("measure", "direct-bias", *options)
    assert result.exit_code == 2
    assert "does not apply" in result.stderr


def test_an_option_of_another_verb_is_named_with_its_verb(tmp_path: Path) -> None:
    path = tmp_path / "broken.txt"
    path.write_bytes(b"she 1 2\nh\xff 3 4\nit 5 6\n")
    hinted = run("measure", "direct-bias", path)
    assert "--encoding-errors is an option of `evenhand convert`" in hinted.stderr
    own = run("convert", path, tmp_path / "out.txt")
    assert "encoding-errors" in own.stderr
    assert "is an option of" not in own.stderr


def test_the_options_of_a_verb_are_read_from_its_signature() -> None:
    for verb in VERBS:
        for name, function in functions_of(verb).items():
            printed = run(*name.split(), "--help").stdout
            missing = [option for option in flags(function).values() if option not in printed]
            assert flags(function)
            assert not missing, name


def test_the_help_lists_each_verb_with_its_summary() -> None:
    printed = run("--help").stdout
    for verb, place in VERBS.items():
        assert verb in printed
        for name, function in functions_of(verb).items():
            if name == verb:  # the line is written again in the table, so the help imports no verb
                assert inspect.getdoc(function).partition("\n\n")[0].replace("\n", " ") == place.summary
