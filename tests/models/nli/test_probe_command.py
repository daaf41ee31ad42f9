"""The verb: exported pairs, predictions, model files, JSON on stdout."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import evenhand as eh
from evenhand.cli.verbs.probe import probe
from evenhand.models.nli import LABELS, CallableModel, DecomposableAttention
from evenhand.models.nli.decomposable import random_arrays
from evenhand.subjects.nli_models import parse_labels

app = typer.Typer()
app.command()(probe)
runner = CliRunner()


@pytest.fixture(autouse=True)
def few_controls(monkeypatch):
    monkeypatch.setattr("evenhand.measures.inference.run_probe.CONTROL_PAIRS", 100)


def test_export_predict_and_score(tmp_path):
    pairs, predictions = tmp_path / "pairs.jsonl", tmp_path / "out.jsonl"
    options = ["--probe", "mab-explicit", "--sample", "50"]
    assert runner.invoke(app, ["-", *options, "--export", str(pairs)]).exit_code == 0
    rows = [json.loads(line) for line in pairs.read_text(encoding="utf-8").splitlines()]
    answer = {"entailment": 0.2, "neutral": 0.7, "contradiction": 0.1}
    predictions.write_text("\n".join(json.dumps({**row, **answer}) for row in rows), encoding="utf-8")
    found = json.loads(runner.invoke(app, [str(predictions), *options, "--json"]).stdout)
    assert found["n_pairs"] == 48
    assert found["net_neutral"] == pytest.approx(0.7)
    assert found["threshold"]["0.5"] == 1


def test_a_model_file_over_the_embedded_vectors(tmp_path, glove: eh.Vectors):
    path = DecomposableAttention(random_arrays(glove.dim, 8), glove, name="tiny").save(tmp_path / "tiny.safetensors")
    done = runner.invoke(app, [str(path), "--probe", "mab-explicit", "--sample", "40"])
    assert done.exit_code == 0, done.output
    assert "net neutral" in done.stdout
    assert "tiny" in done.stdout
    assert "sd" not in done.stdout.split("net neutral")[0]


def test_a_model_that_fails_the_controls_is_named_on_the_screen(tmp_path, glove: eh.Vectors):
    weights = random_arrays(glove.dim, 8)
    bias = np.array([0.0, 50.0, 0.0], np.float32)  # always neutral
    path = DecomposableAttention({**weights, "output.bias": bias}, glove, name="constant").save(
        tmp_path / "constant.safetensors"
    )
    done = run(path, "--probe", "mab-explicit", "--sample", "40")
    assert done.exit_code == 0, done.output
    text = " ".join(done.stdout.split())
    assert "warning: not interpretable: accuracy on control-entailment is 0.0 %" in text
    assert text.index("warning:") < text.index("net neutral")
    found = json.loads(run(path, "--probe", "mab-explicit", "--sample", "40", "--json").stdout)
    assert found["interpretable"] is False
    assert "control-contradiction" in found["warning"]


def test_good_models_raise_no_alarm():
    done = run("--sample", "400", "--json")
    assert json.loads(done.stdout)["interpretable"] is True
    assert json.loads(done.stdout)["warning"] == ""


def run(*arguments):
    return runner.invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "80", "NO_COLOR": "1"})


def test_no_argument_asks_the_embedded_models():
    done = run("--sample", "2000")
    assert done.exit_code == 0, done.output
    assert "1,968 of 1,936,512 pairs" in done.stdout
    assert "3 embedded models" in done.stdout
    for words in ("sd", "gap entailment", "gap contradiction", "accuracy on controls", "US English", "→ 1"):
        assert words in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "permutation p over 20 group assignments (minimum 0.1)" in " ".join(done.stdout.split())
    assert "over verb fillers, object fillers, premise fillers, seeds" in " ".join(done.stdout.split())
    assert "seed 0" in done.stderr
    assert "seed 0" not in done.stdout


def test_a_probe_whose_right_answer_is_not_neutral(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(
        '[probe.mine]\nexpected = "entailment"\npremise = ["nurse", "doctor"]\nhypothesis = ["person"]\n'
        'templates = [{ text = "The {subject} ate a/an {food}.", fillers = { food = ["apple"] } }]\n'
    )
    done = run("-p", file)
    assert "accuracy: 1.000" in done.stdout
    assert "→ 1" not in done.stdout
    assert "would score 1" not in done.stdout
    found = json.loads(run("-p", file, "--json").stdout)
    assert (found["expected"], found["accuracy"]) == ("entailment", 1.0)


def test_force_leaves_out_a_control_that_the_vectors_do_not_know(tmp_path, glove: eh.Vectors):
    words = [
        "person",
        "woman",
        "man",
        "lady",
        "guy",
        "girl",
        "gentleman",
        "she",
        "he",
        "ate",
        "apple",
        "meal",
        "the",
        "an",
    ]
    eh.Vectors(words, glove.take(words)[0]).save(tmp_path / "few.txt")
    model = DecomposableAttention(random_arrays(glove.dim, 8), glove).save(tmp_path / "m.safetensors")
    done = run(model, "--vectors", tmp_path / "few.txt", "-p", "mab-explicit", "--force")
    assert done.exit_code == 0, done.output
    assert "control skipped: control-contradiction" in " ".join(done.stderr.split())


def test_compare_adds_the_retrained_models():
    done = run("-p", "mab-explicit", "--sample", "200", "--compare")
    assert done.exit_code == 0, done.output
    for words in ("original", "projected", "difference", "without the he-she direction"):
        assert words in " ".join(done.stdout.split())
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_json_has_every_seed_and_the_differences():
    found = json.loads(run("-p", "mab-explicit", "--sample", "200", "--compare", "--json").stdout)
    assert [one["model"] for one in found["models"]] == ["original-0", "original-1", "original-2"]
    assert [one["model"] for one in found["compared"]["models"]] == ["projected-0", "projected-1", "projected-2"]
    gap = found["differences"]["gap_entailment"]
    assert gap["mean"] == pytest.approx(
        found["compared"]["scores"]["gap_entailment"]["mean"] - found["scores"]["gap_entailment"]["mean"]
    )
    assert found["n_pairs"] == 200
    assert {"sd", "min", "max", "interval", "values"} <= set(found["scores"]["net_neutral"])


def test_several_models_are_seeds_of_one_condition(tmp_path, glove: eh.Vectors):
    paths = [
        DecomposableAttention(random_arrays(glove.dim, 8, seed=seed), glove, name=f"tiny-{seed}").save(
            tmp_path / f"{seed}.safetensors"
        )
        for seed in range(2)
    ]
    found = json.loads(run(*paths, "-p", "mab-explicit", "--sample", "100", "--json").stdout)
    assert [one["model"] for one in found["models"]] == ["tiny-0", "tiny-1"]
    assert len(found["scores"]["net_neutral"]["values"]) == 2


def test_a_map_is_for_test_time_only(tmp_path, glove: eh.Vectors):
    fitted = eh.mitigations.Span().fit(glove, "gender").save(tmp_path / "span.safetensors")
    path = DecomposableAttention(random_arrays(glove.dim, 8), glove, name="tiny").save(tmp_path / "tiny.safetensors")
    plain, mapped = (
        run(path, "-p", "mab-explicit", "--sample", "100", "--json", *extra) for extra in ((), ("--map", fitted))
    )
    assert "test time only" in mapped.stderr
    assert "test time only" in json.loads(mapped.stdout)["read"][0]
    assert json.loads(plain.stdout)["net_neutral"] != json.loads(mapped.stdout)["net_neutral"]


def test_the_note_says_what_the_models_were_trained_on(tmp_path, glove: eh.Vectors):
    span = eh.mitigations.Span().fit(glove, "gender")
    fitted = span.save(tmp_path / "span.safetensors")
    paths = {}
    for name, vectors in (("before", glove), ("after", span(glove))):
        model = DecomposableAttention(random_arrays(glove.dim, 8), vectors, name=name)
        history = [dict(step) for step in vectors.history]
        paths[name] = model.save(tmp_path / f"{name}.safetensors", words={"history": history})

    def note(name, *extra):
        done = run(paths[name], "-p", "mab-explicit", "--sample", "100", "--json", *extra)
        return json.loads(done.stdout)["read"][0]

    assert note("before") == ""
    assert "test time only" in note("before", "--map", fitted)
    assert "trained on vectors mapped by the same map" in note("after", "--map", fitted)
    assert "after span" in note("after")
    assert "give the same `change=`" in note("after")


def test_some_words_thresholds_and_another_surface():
    options = ("-p", "nationality-polarity", "--only", "premise=rude", "--only", "hypothesis=iraqi,thai")
    options += ("--only", "verb=met", "--tau", "0.2", "--tau", "0.9", "--surface", "articles=letter,case=lower")
    found = json.loads(run(*options, "--json").stdout)
    assert found["n_pairs"] == 2 * 89
    assert set(found["threshold"]) == {"0.2", "0.9"}
    rows = found["models"][0]["by_word"]
    assert {row["word"] for row in rows if row["slot"] == "hypothesis"} == {"iraqi", "thai"}
    assert found["models"][0]["top"]["entailment"][0]["premise"].startswith("the rude person met a")


def test_the_released_surface_is_exported(tmp_path):
    out = tmp_path / "pairs.csv"
    options = ("--only", "premise=nurse", "--only", "hypothesis=man", "--surface", "released", "--export", out)
    done = run(*options, "--json")
    assert json.loads(done.stdout) == {"probe": "gender-occupation", "pairs": 1968, "written": str(out)}
    assert "A nurse bought a SUV ." in out.read_text(encoding="utf-8")


def test_a_sample_shows_where_all_pairs_lie():
    few = ("-p", "mab-explicit", "--only", "verb=met,ate")
    assert "95 % range expected over all pairs: net neutral [0." in " ".join(
        run(*few, "--sample", "300").stdout.split()
    )
    assert "range expected" not in run(*few).stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["x.bin"], "not a model file"),
        (["x.safetensors"], "x.safetensors"),
        (["x.safetensors", "--compare"], "--compare is for the embedded models"),
        (["--engine", "slurm"], "no engine 'slurm'"),
        (["--probe", "gender-ocupation"], "gender-occupation"),
        (["--vectors", "missing.txt"], "missing.txt"),
        (["--map", "missing.safetensors"], "missing.safetensors"),
        (["--sample", "1"], "at least 2"),
        (["--only", "premise"], "no name and value"),
        (["--only", "premise=nurze"], "nurse"),
        (["--only", "verbs=met"], "verb"),
        (["--only", "foo=met"], "premise"),
        (["--probe", "gender-occupation+162+162"], "no variant"),
        (["--surface", "tense=past"], "no choice of --surface"),
        (["--surface", "case=upper"], "lower"),
        (["--tau", "1"], "at least 0 and below 1"),
        (["p.jsonl", "--map", "m.safetensors"], "m.safetensors"),
        (["p.csv", "--vectors", "v.txt"], "`vectors=` has no effect"),
        (["p.jsonl", "--labels", "e,n,c"], "Hugging Face"),
    ],
)
def test_misuse_is_told(arguments, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run(*arguments)
    assert done.exit_code != 0
    assert words in str(done.exception)
    assert not done.stdout


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("c,n,e", ("contradiction", "neutral", "entailment")),
        ("Entailment, neutral, c", ("entailment", "neutral", "contradiction")),
    ],
)
def test_order_of_labels(text, order):
    assert parse_labels(text) == order


@pytest.mark.parametrize("text", ["e,n", "e,n,x", "e,e,c", ""])
def test_no_order_of_labels(text):
    with pytest.raises(eh.EvenhandError, match="order of labels"):
        parse_labels(text)


def test_a_hugging_face_folder_gets_the_order_of_labels(tmp_path, monkeypatch):
    given = []

    def from_text(text, **options):
        given.append((text, options))
        return CallableModel(lambda p, h: [[0.2, 0.5, 0.3]] * len(p), LABELS, "tiny-bert")

    monkeypatch.setitem(sys.modules, "evenhand.models.nli.transformer", SimpleNamespace(from_text=from_text))
    (tmp_path / "config.json").write_text("{}")
    for text in (f"hf:{tmp_path}", str(tmp_path)):
        done = run(text, "--labels", "c,e,n", "--device", "cpu", "-p", "mab-explicit", "--sample", "50", "--json")
        assert json.loads(done.stdout)["net_neutral"] == pytest.approx(0.5)
        assert given[-1] == (text, {"device": "cpu", "labels": ("contradiction", "entailment", "neutral")})


@pytest.mark.xdist_group("ray")
def test_a_cluster_gives_the_same_scores(ray_engine):
    options = ("-p", "mab-explicit", "--sample", "200", "--json")
    here, there = (json.loads(run(*options, "--engine", name).stdout) for name in ("local", "ray"))
    assert here == there


@pytest.mark.slow
def test_the_whole_probe_on_all_seeds():
    found = json.loads(run("--json").stdout)
    assert found["n_pairs"] == 1_936_512
    assert len(found["models"]) == 3


def test_the_probe_file_of_the_page_is_a_probe(tmp_path):
    page = Path(__file__).parents[3] / "docs" / "how-to" / "nli-models.md"
    mine = tmp_path / "mine.toml"
    mine.write_text(page.read_text(encoding="utf-8").split("```toml\n")[1].split("```")[0], encoding="utf-8")
    done = run("-p", mine, "--surface", "released", "--json")
    found = json.loads(done.stdout)
    assert found["n_pairs"] == 8
    assert found["groups"] == ["female", "male"]
    assert found["interval_over"] == ["seeds"]
