"""The options of the verbs that no other test uses: each changes what its help says it changes.

`scripts/option_table.py` finds the options that are used nowhere; a test here, or elsewhere, closes the gap.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import evenhand as eh
from evenhand.cli import app
from evenhand.corpus import Cooccurrence
from evenhand.engines import RayEngine

SENTENCES = "She is a nurse , and he is a doctor . The woman saw the man near <unk> .\nThe girl met her mother .\n"
WEAT = ("--query", "weat-6", "--json")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "80", "NO_COLOR": "1"})


def ok(*arguments: object) -> Any:
    """Run a command and return its JSON document, or nothing if it prints none."""
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout) if "--json" in arguments else None


@pytest.fixture
def small(glove: eh.Vectors) -> eh.Vectors:
    """The words of weat-6 and of the concept gender, in lower case as GloVe has them."""
    query, gender = eh.query("weat-6"), eh.concept("gender")
    listed = [word for group in (*query.targets, *query.attributes) for word in group]
    listed += [word for pair in gender.pairs for word in pair] + ["a", "nurse", "doctor", "engineer", "teacher"]
    words = list(dict.fromkeys(word.lower() for word in listed if word.lower() in glove))
    return eh.Vectors(words, np.stack([glove[word] for word in words]))


@pytest.fixture
def vectors(small: eh.Vectors, tmp_path: Path) -> Path:
    return small.save(tmp_path / "my.vec")


@pytest.fixture
def capitals(small: eh.Vectors, tmp_path: Path) -> Path:
    """Vectors whose words are in capitals, which only some ways of looking up find."""
    return eh.Vectors([word.upper() for word in small.words], small.matrix).save(tmp_path / "capitals.vec")


@pytest.fixture
def bad_bytes(small: eh.Vectors, tmp_path: Path) -> Path:
    path = small.save(tmp_path / "bad.txt")
    path.write_bytes(path.read_bytes() + b"caf\xe9" + b" 1" * small.dim + b"\n")
    return path


@pytest.fixture
def pickled(small: eh.Vectors, tmp_path: Path) -> Path:
    models = pytest.importorskip("gensim.models")
    kept = models.KeyedVectors(vector_size=small.dim)
    kept.add_vectors(list(small.words), np.asarray(small.matrix, dtype=np.float32))
    kept.save(str(tmp_path / "v.kv"))
    return tmp_path / "v.kv"


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(SENTENCES * 30, encoding="utf-8")
    return path


@pytest.fixture
def records(tmp_path: Path) -> Path:
    """JSON lines in a file whose name does not tell, with a field of their own, a bad byte and a broken record."""
    path = tmp_path / "records.data"
    lines = [json.dumps({"body": line}) for line in (SENTENCES * 10).splitlines()]
    path.write_bytes("\n".join(lines).encode() + b'\n{"body": "she caf\xe9"}\nbroken\n')
    return path


def test_case_decides_which_words_are_found(capitals: Path, tmp_path: Path) -> None:
    assert ok("measure", "weat", capitals, "--case", "exact", *WEAT)["status"] == "undefined"
    value = ok("measure", "weat", capitals, "--case", "any", *WEAT)["value"]
    assert value == pytest.approx(1.7, abs=0.3)
    audited = ok("audit", capitals, "--no-methods", "--measure", "weat", "--case", "any", *WEAT, "-o", tmp_path / "a")
    assert audited["results"][0]["value"] == pytest.approx(value)
    out = tmp_path / "out.vec"
    assert run("debias", capitals, "-m", "linear", "--case", "exact", "-o", out).exit_code == 4
    ok("debias", capitals, "-m", "linear", "--case", "any", "-o", out)
    rows = ok("compare", capitals, out, "--case", "any", "--measure", "weat", "--seed", "3", "--json")["rows"]
    assert [row["before"]["seed"] for row in rows if row["label"] == "weat-6"] == [3]
    assert run("concept", "check", "gender", "--vectors", capitals, "--case", "exact").exit_code == 3
    assert "0 problems" in run("concept", "check", "gender", "--vectors", capitals, "--case", "any").stdout


def test_reproduce_looks_words_up_by_case_and_takes_a_seed(glove: eh.Vectors, tmp_path: Path) -> None:
    shared = ("reproduce", "ethayarajh2019", "--table", "1", "--seed", "1", "--json")

    def statistics(*options: object) -> dict[str, float]:
        (table,) = ok(*shared, *options)
        return {n["row"]: n["value"] for n in table["numbers"] if n["column"] == "statistic"}

    embedded = statistics()
    listed = [word for row in embedded for part in row.split(": ") for word in part.split(" / ")]
    words = [word for word in dict.fromkeys(listed) if word in glove]
    capitals = eh.Vectors([word.upper() for word in words], np.stack([glove[word] for word in words]))
    capitals.save(tmp_path / "capitals.vec")
    found = statistics("--vectors", tmp_path / "capitals.vec", "--case", "any")
    assert found == pytest.approx(embedded, abs=1e-3)
    assert statistics("--vectors", tmp_path / "capitals.vec", "--case", "exact") == {}


def test_words_that_are_not_utf_8_are_replaced(bad_bytes: Path, tmp_path: Path) -> None:
    few = ("--no-methods", "--measure", "weat", *WEAT, "-o", tmp_path / "run")
    assert run("audit", bad_bytes, *few).exit_code == 4
    assert ok("audit", bad_bytes, "--encoding-errors", "replace", *few)["results"][0]["status"] == "ok"
    assert run("convert", bad_bytes, tmp_path / "a.bin").exit_code == 4
    ok("convert", bad_bytes, tmp_path / "a.bin", "--encoding-errors", "replace")
    assert "caf\ufffd" in eh.Vectors.load(tmp_path / "a.bin")


def test_gensim_files_open_only_if_they_are_trusted(pickled: Path, tmp_path: Path) -> None:
    trusted = ("--allow-pickle", "--measure", "weat")
    assert run("audit", pickled, "--no-methods", "--measure", "weat", "-o", tmp_path / "a").exit_code == 4
    ok("audit", pickled, "--no-methods", *trusted, "-o", tmp_path / "a")
    ok("debias", pickled, "-m", "linear", "--allow-pickle", "-o", tmp_path / "out.vec")
    ok("compare", pickled, tmp_path / "out.vec", *trusted)
    ok("convert", pickled, tmp_path / "all.txt", "--allow-pickle")
    assert len(eh.Vectors.load(tmp_path / "all.txt")) == len(eh.Vectors.load(tmp_path / "out.vec"))


def test_a_matrix_without_words_and_a_format_that_the_name_does_not_tell(small: eh.Vectors, tmp_path: Path) -> None:
    np.save(tmp_path / "m.npy", small.matrix)
    (tmp_path / "names").write_text("".join(f"{word}\n" for word in small.words), encoding="utf-8")
    few = ("--no-methods", "--measure", "weat", *WEAT, "-o", tmp_path / "run")
    audited = ok("audit", tmp_path / "m.npy", "--vocabulary", tmp_path / "names", *few)
    assert audited["results"][0]["status"] == "ok"
    small.save(tmp_path / "plain.vec")
    hidden = (tmp_path / "plain.vec").rename(tmp_path / "hidden.json")  # .json is another format
    assert run("audit", hidden, *few).exit_code == 4
    assert ok("audit", hidden, "--format", "fasttext", *few)["results"][0]["status"] == "ok"
    ok("debias", hidden, "--format", "fasttext", "-m", "linear", "-o", tmp_path / "out.vec")
    ok(
        "convert",
        hidden,
        tmp_path / "out.data",
        "--format",
        "fasttext",
        "--to",
        "glove",
        "--limit",
        "7",
        "--max-record",
        "1",
    )
    assert eh.Vectors.load(tmp_path / "out.data", format="glove").words == small.words[:7]
    long = tmp_path / "long.vec"
    long.write_text(f"{'x' * 10_000_000} 1 2\nhe 1 2\n", encoding="utf-8")
    assert run("convert", long, tmp_path / "b.txt", "--max-record", "2").exit_code == 4
    ok("convert", long, tmp_path / "b.txt", "--max-record", "16")


def test_measure_takes_a_reference_a_concept_and_a_format(vectors: Path, pickled: Path, tmp_path: Path) -> None:
    ok("debias", vectors, "-m", "linear", "-o", tmp_path / "after.vec")
    kept = ok("measure", "retention", tmp_path / "after.vec", "--reference", vectors, "--json")
    assert kept["value"] < ok("measure", "retention", vectors, "--reference", vectors, "--json")["value"]
    asked = [ok("measure", "weat", "glove-embedded", "--concept", name, "--json") for name in ("race", "gender")]
    race, gender = ({row["query"] for row in document["measurements"]} for document in asked)
    assert race != gender
    hidden = vectors.rename(tmp_path / "hidden.json")
    first = ok("measure", "weat", hidden, "--format", "fasttext", *WEAT)["value"]
    assert ok("measure", "weat", pickled, "--allow-pickle", *WEAT)["value"] == pytest.approx(first, abs=1e-4)


def test_the_seed_and_the_size_of_probes_are_in_the_plan(tmp_path: Path) -> None:
    sampled, full = tmp_path / "sampled.toml", tmp_path / "full.toml"
    ok("audit", "glove-embedded", "--no-methods", "--write-plan", sampled)
    ok("audit", "glove-embedded", "--no-methods", "--full-probes", "--seed", "7", "--write-plan", full)
    assert sampled.read_text() != full.read_text()
    assert "seed = 7" in full.read_text()


def test_compare_asks_about_another_concept(vectors: Path) -> None:
    rows = ok("compare", vectors, vectors, "--concept", "religion", "--measure", "mac", "--json")["rows"]
    assert {row["before"]["query"] for row in rows} != {"gender"}


def test_outputs_are_replaced_on_request(vectors: Path, text: Path, tmp_path: Path) -> None:
    out = tmp_path / "mine.html"
    out.write_text("mine", encoding="utf-8")
    ok("corpus", "compare", text, text, "--html", out, "--overwrite")
    assert out.read_text() != "mine"
    counts = tmp_path / "mine.safetensors"
    counts.write_text("mine", encoding="utf-8")
    ok("corpus", "cooccur", text, "--out", counts, "--overwrite")
    pairs = tmp_path / "mine.jsonl"
    pairs.write_text("mine", encoding="utf-8")
    ok("probe", "--sample", "50", "--export", pairs, "--overwrite")
    assert len(pairs.read_text().splitlines()) > 10


def test_the_figure_of_one_subject(vectors: Path, tmp_path: Path) -> None:
    ok("audit", vectors, "glove-embedded", "--no-methods", "--measure", "weat", "-o", tmp_path / "run")
    figure = tmp_path / "f.json"
    figure.write_text("mine", encoding="utf-8")
    ok("report", tmp_path / "run", "--figure", "effect-sizes", "--subject", "my.vec", "-o", figure, "--overwrite")
    assert json.loads(figure.read_text())
    assert (
        run("report", tmp_path / "run", "--figure", "effect-sizes", "--subject", "other", "-o", figure).exit_code != 0
    )


def test_check_limits_a_stage_and_an_interval_and_writes_for_ci(vectors: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    ok("audit", vectors, "--method", "linear", "--measure", "weat", "--query", "weat-6", "-o", folder)
    assert run("check", folder, "--max", "weat-6=1.75").exit_code in (0, 3)
    assert run("check", folder, "--max", "weat-6=1.9", "--stage", "original").exit_code == 0
    assert run("check", folder, "--max", "weat-6=0.01", "--stage", "original").exit_code == 3
    shown = run("check", folder, "--max", "weat-6=1.9", "--by", "interval", "--format", "junit")
    assert "<testsuite" in shown.stdout


BIAS = ("--groups", "f=she,woman,girl,mother", "--groups", "m=he,man", "--permutations", "0", "--json")


def test_how_a_text_is_read_and_scored(text: Path) -> None:
    def words(document: dict[str, Any]) -> set[str]:
        return {item["word"] for item in document["items"]}

    plain = ok("corpus", "bias", text, *BIAS, "--special-tokens", "drop")
    read = ("--tokenizer", "whitespace", "--no-lower", "--special-tokens", "keep", "--documents", "line")
    split = ok("corpus", "bias", text, *BIAS, *read, "--seed", "5")
    assert {"<unk>", "The"} <= words(split)
    assert not {"<unk>", "The"} & words(plain)
    assert split["seed"] == 5
    rare = ok("corpus", "bias", text, *BIAS, "--min-count", "40", "--normalisation", "joint", "--max-record", "1")
    assert words(rare) < words(plain)
    assert rare["params"]["normalisation"] == "joint"
    shown = run("corpus", "bias", text, *BIAS[:-1], "--top", "1", "--least", "35", "--stop-words", "english")
    assert shown.exit_code == 0
    assert len(shown.stdout) < len(run("corpus", "bias", text, *BIAS[:-1], "--top", "10", "--least", "1").stdout)


def test_how_records_are_read(records: Path, tmp_path: Path) -> None:
    reading = ("--format", "jsonl", "--field", "body", "--encoding-errors", "replace", "--skip-bad")
    assert run("corpus", "bias", records, *BIAS, *reading[:-1]).exit_code == 4
    found = ok(
        "corpus",
        "bias",
        records,
        *BIAS,
        "--format",
        "jsonl",
        "--field",
        "body",
        "--encoding-errors",
        "replace",
        "--skip-bad",
    )
    assert found["bad_records"] == 1
    other = ("--format", "jsonl", "--field", "body", "--encoding-errors", "replace", "--skip-bad", "--max-record", "1")
    groups = ("--groups", "f=she,woman", "--groups", "m=he,man")
    compared = ok("corpus", "compare", records, records, *groups, *other, "--json")
    assert compared["first"]["bad_records"] == 1
    counts = ok("corpus", "cooccur", records, "--out", tmp_path / "c.safetensors", *other, "--json")
    assert counts["params"]["bad_records"] == 1


def test_how_two_texts_are_compared(text: Path) -> None:
    groups = ("--groups", "f=she,woman,girl,mother", "--groups", "m=he,man")
    found = ok("corpus", "compare", text, text, *groups, "--tokenizer", "whitespace", "--no-lower", "--stop-words", "english",
               "--special-tokens", "keep", "--min-count", "2", "--seed", "4", "--json")  # fmt: skip
    params = found["second"]["params"]
    assert (params["tokenizer"], params["lower"], params["min_count"]) == ("whitespace", False, 2)
    assert (params["special_tokens"], found["second"]["seed"]) == ("keep", 4)
    assert params["stop_words"] > 0
    shown = run("corpus", "compare", text, text, *groups, "--top", "1", "--least", "1")
    longer = run("corpus", "compare", text, text, *groups, "--top", "9", "--least", "1")
    assert len(shown.stdout) < len(longer.stdout)
    assert run("corpus", "compare", text, text, *groups, "--workers", "2").exit_code == 0


def test_how_pairs_of_words_are_counted(text: Path, tmp_path: Path) -> None:
    wide, narrow = tmp_path / "wide.safetensors", tmp_path / "narrow.safetensors"
    ok("corpus", "cooccur", text, "--out", wide, "--window", "9")
    found = ok("corpus", "cooccur", text, "--out", narrow, "--window", "1", "--min-count", "40", "--tokenizer", "whitespace",
               "--no-lower", "--documents", "line", "--workers", "2", "--json")  # fmt: skip
    assert found["words"] < len(Cooccurrence.load(wide).words)
    assert found["pairs"] < Cooccurrence.load(wide).matrix.nnz
    assert "She" in Cooccurrence.load(narrow).words or "The" in Cooccurrence.load(narrow).words


def test_word2vec_is_trained_as_the_options_say(records: Path, tmp_path: Path) -> None:
    pytest.importorskip("gensim")
    read = ("--format", "jsonl", "--field", "body", "--encoding-errors", "replace", "--skip-bad", "--max-record", "1")
    made = ("--dim", "8", "--window", "2", "--negative", "3", "--epochs", "2", "--min-count", "5", "--sample", "0.01")
    more = (
        "--ns-exponent",
        "1",
        "--workers",
        "1",
        "--tokenizer",
        "whitespace",
        "--no-lower",
        "--documents",
        "line",
        "--seed",
        "7",
    )
    out = tmp_path / "sgns"
    found = ok("corpus", "sgns", records, "--out", out, *read, *made, *more, "--json")
    assert found["dimensions"] == 8
    assert {name: found["params"][name] for name in ("window", "negative", "epochs", "min_count")} == {
        "window": 2, "negative": 3, "epochs": 2, "min_count": 5,
    }  # fmt: skip
    (out / "words.safetensors").write_bytes(b"mine")
    assert run("corpus", "sgns", records, "--out", out, *read, *made, *more).exit_code == 1
    ok("corpus", "sgns", records, "--out", out, *read, *made, *more, "--overwrite")


def test_debias_skips_records_that_cannot_be_read(records: Path, tmp_path: Path) -> None:
    shared = ("debias", f"corpus:{records}", "-m", "cda", "--format", "jsonl", "--field", "body", "-o")
    lines = records.read_bytes().splitlines()
    records.write_bytes(b"\n".join([*lines[:4], b"broken"]) + b"\n")
    assert run(*shared, tmp_path / "a.jsonl").exit_code == 4
    assert (
        ok(
            "debias",
            f"corpus:{records}",
            "-m",
            "cda",
            "--format",
            "jsonl",
            "--field",
            "body",
            "--skip-bad",
            "-o",
            tmp_path / "a.jsonl",
            "--json",
        )["bad_records"]
        == 1
    )


def test_a_probe_reads_long_records_only_if_told(tmp_path: Path) -> None:
    path = tmp_path / "said.jsonl"
    pairs = tmp_path / "pairs.jsonl"
    ok("probe", "-p", "mab-explicit", "--export", pairs)
    rows = [json.loads(line) for line in pairs.read_text().splitlines()]
    said = [{**row, "entailment": 0.1, "neutral": 0.8, "contradiction": 0.1, "note": "x" * 3000} for row in rows]
    path.write_text("".join(json.dumps(row) + "\n" for row in said), encoding="utf-8")
    assert ok("probe", path, "-p", "mab-explicit", "--max-record", "1", "--json")["n_pairs"] == len(rows)


SLOW = pytest.mark.slow


@pytest.mark.xdist_group("ray")
@pytest.mark.parametrize(
    "verb",
    [
        "bias",
        pytest.param("compare", marks=SLOW),
        pytest.param("cooccur", marks=SLOW),
        pytest.param("probe", marks=SLOW),
    ],
)
def test_verbs_on_a_cluster_of_a_given_address(verb: str, text: Path, tmp_path: Path, ray_engine: RayEngine) -> None:
    ray = pytest.importorskip("ray")
    list(ray_engine.map(str, [1]))
    address = ray.get_runtime_context().gcs_address
    groups = ("--groups", "f=she,woman", "--groups", "m=he,man", "--json")
    if verb == "bias":
        assert ok("corpus", "bias", text, *groups) == ok(
            "corpus", "bias", text, *groups, "--engine", "ray", "--address", address, "--workers", "2"
        )
    elif verb == "compare":
        assert ok("corpus", "compare", text, text, *groups) == ok(
            "corpus", "compare", text, text, *groups, "--engine", "ray", "--address", address, "--workers", "2"
        )
    elif verb == "cooccur":
        counted = ok(
            "corpus",
            "cooccur",
            text,
            "--out",
            tmp_path / "c.safetensors",
            "--engine",
            "ray",
            "--address",
            address,
            "--json",
        )
        assert counted["words"] == ok("corpus", "cooccur", text, "--out", tmp_path / "d.safetensors", "--json")["words"]
    else:
        asked = ("-p", "mab-explicit", "--sample", "50", "--json")
        assert ok("probe", *asked) == ok("probe", *asked, "--engine", "ray", "--address", address, "--workers", "2")
