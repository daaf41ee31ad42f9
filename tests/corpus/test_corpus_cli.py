"""The command `evenhand corpus`."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from evenhand import corpus
from evenhand.cli import app
from evenhand.errors import DegenerateError, UsageError


def run(*arguments):
    env = {"COLUMNS": "80", "NO_COLOR": "1"}
    return CliRunner().invoke(
        app, ["corpus", *(str(argument) for argument in arguments)], env=env | {"EVENHAND_DEBUG": "1"}
    )


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("She is a nurse and he is a doctor .\nHe said the [nurse] left ; she stayed .\n" * 30)
    return path


def test_bias_prints_a_table_that_fits(text):
    result = run("bias", text, "--documents", "line", "--bootstrap", "50", "--permutations", "3")
    assert result.exit_code == 0, result.output
    assert max(map(len, result.stdout.splitlines())) <= 80
    shown = " ".join(result.stdout.split())
    for part in (
        "60 documents",
        "480 tokens",
        "mean |bias|",
        "Above 0: co-occurs more with female",
        "Not scored:",
        "seed 0",
    ):
        assert part in shown
    assert "labels permuted between documents: mean |bias|" in shown
    assert "never seen: actress" in shown


def test_json_is_one_document(text):
    result = run("bias", text, "--json", "--window", "3", "--stop-words", "english", "--groups", "bordia2019-ptb")
    record = json.loads(result.stdout)
    assert record["params"]["window"] == 3
    assert record["params"]["lists"] == "bordia2019-ptb"
    assert "is" not in {item["word"] for item in record["items"]}


def test_own_groups_and_decay(text):
    result = run("bias", text, "--groups", "care=nurse", "--groups", "cure=doctor", "--decay", "0.9", "--json")
    record = json.loads(result.stdout)
    assert record["groups"] == {"care": ["nurse"], "cure": ["doctor"]}
    assert record["params"]["decay"] == 0.9
    refused = run("bias", text, "--groups", "care=nurse", "--groups", "doctor")
    assert isinstance(refused.exception, UsageError)


def test_groups_of_a_file_are_pairs_or_a_concept(text, tmp_path):
    lists = tmp_path / "own.toml"
    lists.write_text('[concept.jobs]\ngroups = { care = ["nurse", "carer"], cure = ["doctor", "medic"] }\n')
    record = json.loads(run("bias", text, "--groups", lists, "--json").stdout)
    assert record["groups"] == {"care": ["nurse", "carer"], "cure": ["doctor", "medic"]}
    lists.write_text('[pairs.jobs]\npoles = ["care", "cure"]\npairs = [["nurse", "doctor"], ["carer", "medic"]]\n')
    assert json.loads(run("bias", text, "--groups", lists, "--json").stdout)["groups"] == record["groups"]
    lists.write_text('[wordset.jobs]\nwords = ["nurse"]\n')
    refused = run("bias", text, "--groups", lists)
    assert "neither one concept nor one list of pairs" in str(refused.exception)
    assert "did you mean: gender" in str(run("bias", text, "--groups", "gendre").exception)


def test_bad_files_are_named_on_stderr(text):
    (text.parent / "b.jsonl").write_text('{"body": "x"}\n')
    result = run("bias", text.parent, "--skip-bad")
    assert result.exit_code == 0, result.output
    counted = run("cooccur", text.parent, "--skip-bad", "--out", text.parent / "counts.safetensors")
    for told in (result.stderr, counted.stderr):
        assert "1 record skipped" in told
        assert "b.jsonl, line 1" in told


def test_too_little_text_is_an_error_and_no_half_table(tmp_path):
    (tmp_path / "a.txt").write_text("she nurse he")
    result = run("bias", tmp_path)
    assert isinstance(result.exception, DegenerateError)
    assert result.stdout == ""


def test_compare_prints_the_regression(text, tmp_path):
    other = tmp_path / "other.txt"
    for path, seed in ((text, 0), (other, 1)):
        path.write_text(" ".join(np.random.default_rng(seed).choice([*"abcdefgh", "she", "he"], size=2000)))
    result = run("compare", text, other, "--window", "2")
    assert result.exit_code == 0, result.output
    assert max(map(len, result.stdout.splitlines())) <= 80
    for part in ("beta", "Theil-Sen", "mean |bias|", "moved most", "outliers removed"):
        assert part in result.stdout
    record = json.loads(run("compare", text, other, "--window", "2", "--json").stdout)
    assert set(record) == {"first", "second", "mu", "sigma", "beta", "errors", "noise_corrected", "points"}
    assert record["beta"]["value"] == record["beta"]["trimmed"]
    assert record["beta"]["words"] == len(record["points"])


def test_compare_gives_intervals_over_documents(text, tmp_path):
    other, page = tmp_path / "other.txt", tmp_path / "page.html"
    for path, seed in ((text, 0), (other, 1)):
        words = np.random.default_rng(seed).choice([*"abcdefgh", "she", "he"], size=(200, 20))
        path.write_text("\n".join(map(" ".join, words)))
    asked = ("compare", text, other, "--window", "2", "--documents", "line")
    record = json.loads(run(*asked, "--json").stdout)
    told = corpus.compare(text, other, window=2, documents="line")
    for name in ("mu", "sigma", "beta"):
        assert record[name]["interval"] == pytest.approx(told.interval(name))
        assert record["errors"][name] > 0
    shown = run(*asked, "--html", page).stdout
    assert max(map(len, shown.splitlines())) <= 80
    for name in ("first_mu", "mu", "first_sigma", "sigma", "beta"):
        low, high = told.interval(name)
        assert f"{told.value(name):.3f} [{low:.2f}, {high:.2f}]" in shown
    assert "95 % intervals over documents" in " ".join(shown.split())
    low, high = told.interval("beta")
    assert f"[{low:.3f}, {high:.3f}]" in page.read_text()
    alone = run("compare", text, other, "--window", "2")
    assert "need two documents or more" in " ".join(alone.stdout.split())
    assert json.loads(run("compare", text, other, "--json").stdout)["beta"]["interval"] is None


def test_only_words_that_lean_to_a_side_are_listed_there(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("she nurse he\nshe nurse\nshe cook\nhe doctor\nhe doctor she\nhe cook\n" * 10)
    lines = run("bias", path, "--window", "1", "--documents", "line").stdout.splitlines()
    female, male = (next(i for i, line in enumerate(lines) if f"leaning {name}" in line) for name in ("female", "male"))
    assert [line.split()[:2] for line in lines[female + 2 : male - 1]] == [["nurse", "+0.69"]]
    assert lines[male + 2].split()[:2] == ["doctor", "-0.69"]
    assert not any(line.startswith("cook") for line in lines)


@pytest.mark.parametrize("blank", ["", " \n\n"])
def test_a_text_without_words_is_named(tmp_path, blank):
    path, out = tmp_path / "empty.txt", tmp_path / "counts.safetensors"
    path.write_text(blank)
    for asked in (("bias", path), ("compare", path, path), ("cooccur", path, "--out", out)):
        refused = run(*asked)
        assert refused.exit_code
        assert "empty.txt: no word was read" in str(refused.exception)
    assert not out.exists()


def test_counts_of_the_command_are_those_of_python(text, tmp_path):
    out = tmp_path / "counts.safetensors"
    run("cooccur", text, "--out", out)
    assert corpus.Cooccurrence.load(out).params["min_count"] == corpus.cooccurrence(text).params["min_count"] == 1


def test_compare_warns_of_unequal_sizes(text, tmp_path):
    words = np.random.default_rng(0).choice([*"abcdefgh", "she", "he"], size=2000)
    text.write_text(" ".join(words[:500]))
    (tmp_path / "long.txt").write_text(" ".join(words))
    assert "differ in size" in run("compare", text, tmp_path / "long.txt", "--window", "2").stderr


@pytest.fixture
def noisy(tmp_path):
    """One frequent word that leans to the first group, and rare words that stand near her once by chance."""
    path = tmp_path / "noisy.txt"
    rng = np.random.default_rng(0)
    lines = [f"she nurse {rng.choice(['x', 'y'])}" if i % 3 else "he nurse x y" for i in range(600)]
    lines += [f"she rare{i} rare{i} rare{i}" for i in range(20)] + [f"he rare{i}" for i in range(20)]
    path.write_text("\n".join(lines))
    return path


def words_of(output, group):
    lines = output.splitlines()
    start = next(i for i, line in enumerate(lines) if f"leaning {group}" in line) + 2
    return [line.split()[0] for line in lines[start:] if line][: lines[start:].index("")]


def test_words_are_in_order_of_evidence_by_default(noisy):
    by_evidence = run("bias", noisy, "--documents", "line", "--window", "3")
    by_ratio = run("bias", noisy, "--documents", "line", "--window", "3", "--order", "ratio")
    assert words_of(by_evidence.stdout, "female")[0] in ("nurse", "x", "y")
    assert words_of(by_ratio.stdout, "female")[0].startswith("rare")
    refused = run("bias", noisy, "--order", "count")
    assert isinstance(refused.exception, UsageError)


def test_counts_intervals_and_baseline_are_shown_by_default(noisy):
    shown = run("bias", noisy, "--documents", "line", "--window", "3").stdout
    record = json.loads(run("bias", noisy, "--documents", "line", "--window", "3", "--json").stdout)
    item = next(item for item in record["items"] if item["word"] == "nurse")
    line = next(line for line in shown.splitlines() if line.startswith("nurse"))
    low, high = item["interval"]
    near = [f"{int(count):,}" for count in item["cooccurrence"].values()]
    assert line.split() == [
        *("nurse", f"{item['bias']:+.2f}", f"{low:+.2f}", "to", f"{high:+.2f}"),
        *(f"{item['evidence']:+.1f}", *near, str(item["count"])),
    ]
    assert record["params"]["permutations"] == 1999
    assert record["baseline"]["decided_after"] <= record["baseline"]["permutations"] <= 1999
    assert "Besag" in record["baseline"]["rule"]
    assert "labels permuted between documents" in " ".join(shown.split())


def test_all_of_three_groups_are_shown(tmp_path):
    path = tmp_path / "three.txt"
    path.write_text("anna sings dances\nbert cooks dances\ncarl runs dances\nanna cooks\nbert runs\ncarl sings\n" * 60)
    groups = [part for name in ("anna", "bert", "carl") for part in ("--groups", f"{name}={name}")]
    shown = run("bias", path, "--documents", "line", "--smoothing", "0.5", *groups).stdout
    assert [sorted(words_of(shown, name)) for name in ("anna", "bert", "carl")] == [
        ["cooks", "sings"],
        ["cooks", "runs"],
        ["runs", "sings"],
    ]


def test_a_text_that_is_too_small_is_reported(text, noisy):
    assert "the text is too small: the words of female occur 60 times" in run("bias", text).stderr
    assert "too small" not in run("bias", noisy, "--documents", "line").stderr
    assert "No p-value: the text is one document" in run("bias", noisy).stdout
