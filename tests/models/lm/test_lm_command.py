"""`evenhand lm` as a user meets it, on models of a few thousand numbers."""

import dataclasses
import json
import warnings

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("torch")

from evenhand.audit.schema import content_digest
from evenhand.cli import app
from evenhand.errors import EvenhandError, EvenhandWarning, UsageError, VocabularyError
from evenhand.reproduce import bordia2019
from evenhand.reproduce.bordia2019 import SweepCell, SweepPlan, cells, finished, run_cell

TINY = ["--set", "embedding=8", "--set", "hidden=10", "--set", "layers=2", "--set", "batch=8", "--set", "bptt=20"]
RUN = ["--device", "cpu", "--set", "eval_batch=2", "--set", "learning_rate=5", *TINY]


def sentences(count: int, seed: int) -> str:
    """People and what they do, women more often with nurses; enough words in common for a slope."""
    rng = np.random.default_rng(seed)
    lines = []
    for _ in range(count):
        who = rng.choice(["she", "her", "mother"] if rng.random() < 0.5 else ["he", "him", "father"])
        what = rng.choice(
            ["nurse", "nurse", "doctor"] if who in ("she", "her", "mother") else ["nurse", "doctor", "doctor"]
        )
        verb, where = rng.choice(["saw", "met", "knew", "called"]), rng.choice(["town", "house", "street", "garden"])
        lines.append(f"{who} {verb} the {what} in the {where}")
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    place = tmp_path_factory.mktemp("texts")
    for part, count in (("train", 400), ("valid", 40), ("test", 40)):
        (place / f"{part}.txt").write_text(sentences(count, len(part)))
    return place


def run(*arguments):
    env = {"COLUMNS": "80", "NO_COLOR": "1"}
    return CliRunner().invoke(
        app, ["lm", *(str(argument) for argument in arguments)], env=env | {"EVENHAND_DEBUG": "1"}
    )


@pytest.fixture(scope="module")
def model(texts, tmp_path_factory):
    out = tmp_path_factory.mktemp("model")
    result = run("train", texts, "--out", out, "--epochs", "2", "--lambda", "0.1", *RUN, "--json")
    assert result.exit_code == 0, result.output + str(result.exception)
    return out, json.loads(result.stdout)


def test_train_writes_a_model_and_a_record(model) -> None:
    out, record = model
    assert record["finished"] is True
    assert record["epochs"] == 2
    assert record["test_perplexity"] < 100
    assert "strength=0.1" in record["regulariser"]
    assert record["history"][0]["regulariser"] > 0
    assert {path.name for path in out.iterdir()} == {
        "checkpoint.safetensors", "config.json", "model.safetensors", "vocabulary.txt",
    }  # fmt: skip


def test_the_same_command_resumes(texts, tmp_path, model) -> None:
    _, uninterrupted = model
    command = ["train", texts, "--out", tmp_path, "--lambda", "0.1", *RUN, "--json"]
    json.loads(run(*command, "--epochs", "1").stdout)
    record = json.loads(run(*command, "--epochs", "2").stdout)
    assert record["test_perplexity"] == uninterrupted["test_perplexity"]


def test_a_training_without_time_says_how_to_resume(texts, tmp_path) -> None:
    result = run("train", texts, "--out", tmp_path, "--epochs", "50", *RUN, "--time-limit", "0")
    assert result.exit_code == 0, result.output
    assert "rerun the same command to resume" in result.stderr


def test_generate_is_seeded_and_writes_one_text_per_line(model, tmp_path) -> None:
    out, _ = model
    for name, seed in (("a.txt", 1), ("b.txt", 1), ("c.txt", 2), ("d.jsonl", 1)):
        options = ["--samples", "5", "--tokens", "12", "--seed", seed, "--device", "cpu"]
        result = run("generate", out, *options, "--out", tmp_path / name)
        assert result.exit_code == 0, result.output
    first = (tmp_path / "a.txt").read_text()
    assert [len(line.split()) for line in first.splitlines()] == [12] * 5
    assert first == (tmp_path / "b.txt").read_text() != (tmp_path / "c.txt").read_text()
    records = [json.loads(line)["text"] for line in (tmp_path / "d.jsonl").read_text().splitlines()]
    assert records == first.splitlines()


def test_measure_a_model(model, texts, tmp_path) -> None:
    out, _ = model
    page, kept = tmp_path / "page.html", tmp_path / "kept.txt"
    options = [
        "--pairs",
        "bordia2019-ptb",
        "--samples",
        "60",
        "--tokens",
        "40",
        "--permutations",
        "2",
        "--device",
        "cpu",
    ]
    shared = ["--train", texts / "train.txt", *options]
    result = run("measure", out, *shared, "--test", texts / "test.txt", "--html", page, "--keep", kept, "--json")
    assert result.exit_code == 0, result.output + str(result.exception)
    record = json.loads(result.stdout)
    first, second = record["fixed"]["first"], record["fixed"]["second"]
    assert first["documents"] == second["documents"]
    assert abs(first["tokens"] - second["tokens"]) <= first["documents"]  # all blocks have the mean length of a sample
    assert record["infinite"]["second"]["params"]["decay"] == 0.95
    assert record["fixed"]["second"]["baseline"]["permutations"] == 2
    assert record["perplexity"]["word"] > 1
    assert "fixed ceiling" in record
    told = page.read_text()
    assert "<svg" in told
    assert "Infinite context (decay 0.95)" in told
    again = json.loads(run("measure", kept, *shared, "--json").stdout)  # the texts alone give the same
    assert again["fixed"]["beta"] == record["fixed"]["beta"]


def test_measure_prints_a_table_that_fits(model, texts) -> None:
    out, _ = model
    result = run(
        "measure", out, "--train", texts / "train.txt", "--pairs", "bordia2019-ptb", "--samples", "60", "--tokens", "40",
        "--permutations", "2", "--device", "cpu", "--test", texts / "test.txt",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert max(map(len, result.stdout.splitlines())) <= 80
    for part in (
        "fixed context",
        "infinite context",
        "beta",
        "shuffled labels",
        "training text on itself",
        "perplexity",
    ):
        assert part in result.stdout
    assert "seed 0" in result.stderr


def test_a_sweep_makes_the_table_and_computes_nothing_twice(texts, tmp_path) -> None:
    command = [
        "train", texts, "--out", tmp_path, "--sweep-lambda", "0,0.5", "--seeds", "2", "--epochs", "1", "--samples", "60",
        "--tokens", "40", "--permutations", "0", *RUN,
    ]  # fmt: skip
    result = run(*command)
    assert result.exit_code == 0, result.output + str(result.exception)
    record = json.loads((tmp_path / "sweep.json").read_text())
    assert [(row["strength"], row["seeds"]) for row in record["rows"]] == [(0.0, [1111, 1112]), (0.5, [1111, 1112])]
    row = record["rows"][0]
    values = [cell["fixed"]["beta"]["value"] for cell in record["cells"][:2]]
    assert row["fixed"]["beta"]["mean"] == pytest.approx(np.mean(values))
    assert row["fixed"]["beta"]["sd"] == pytest.approx(np.std(values, ddof=1))
    assert not record["unfinished"]
    page = (tmp_path / "table.md").read_text()
    assert page.count("\n| 0") == 4  # two strengths in two tables
    assert "published" not in page  # this is none of the paper's corpora
    assert "±" in page
    hits = [cell["fixed"]["second"]["hits"]["female"] for cell in record["cells"][:2]]
    assert row["words"]["generated"]["groups"]["female"]["mean"] == pytest.approx(np.mean(hits))
    assert row["words"]["generated"]["beyond_chance"] is None  # nothing was shuffled
    assert "| female words |" in page.replace("| lambda ", "")
    results = list(tmp_path.glob("*/result.json"))
    before = {path: path.stat().st_mtime_ns for path in results}
    assert len(before) == 4
    results[0].unlink()
    assert run(*command).exit_code == 0
    after = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/result.json")}
    assert [after[path] == before[path] for path in results] == [False, True, True, True]
    assert json.loads((tmp_path / "sweep.json").read_text())["rows"] == record["rows"]


@pytest.mark.slow
def test_parallel_cells_equal_sequential_ones(texts, tmp_path) -> None:
    records = []
    for jobs in (1, 2):
        out = tmp_path / str(jobs)
        result = run(
            "train", texts, "--out", out, "--sweep-lambda", "0,0.5", "--epochs", "1", "--samples", "60", "--tokens", "40",
            "--permutations", "0", "--jobs", jobs, *RUN,
        )  # fmt: skip
        assert result.exit_code == 0, result.output + str(result.exception)
        records.append(json.loads((out / "sweep.json").read_text()))
    assert records[0]["rows"] == records[1]["rows"]


def test_a_sweep_out_of_time_says_which_cells_are_missing(texts, tmp_path) -> None:
    result = run(
        "train", texts, "--out", tmp_path, "--sweep-lambda", "0,1", "--epochs", "1", *RUN, "--time-limit", "0", "--json"
    )
    record = json.loads(result.stdout)
    assert set(record["unfinished"]) == {"lambda-0-seed-1111", "lambda-1-seed-1111"}
    assert record["rows"] == []
    assert "no time left" in (tmp_path / "table.md").read_text()


def test_an_edited_result_of_a_sweep_is_not_believed(texts, tmp_path) -> None:
    plan = SweepPlan(
        str(texts / "train.txt"), str(texts / "valid.txt"), str(texts / "test.txt"), pairs="bordia2019-ptb", device="cpu",
    )  # fmt: skip
    content = {"identity": plan.identity(), "record": {"test_perplexity": 20.0}}
    file = tmp_path / "result.json"
    file.write_text(json.dumps({**content, "sha256": content_digest(content)}))
    assert finished(plan, tmp_path) == {"test_perplexity": 20.0}
    assert finished(dataclasses.replace(plan, precision="bfloat16"), tmp_path) is None
    file.write_text(file.read_text().replace("20.0", "10.0"))
    with pytest.warns(EvenhandWarning, match="damaged, edited or written by an earlier version"):
        assert finished(plan, tmp_path) is None


def test_a_failing_cell_is_reported_and_not_stored(texts, tmp_path) -> None:
    plan = SweepPlan(
        str(texts / "train.txt"), str(texts / "valid.txt"), str(texts / "test.txt"), pairs="bordia2019-ptb", epochs=1,
        changes=(("batch", 8), ("embedding", 8), ("eval_batch", 2), ("hidden", 10)), device="cpu", samples=1, tokens=2,
        options=(("reduction", "mean"),),
    )  # fmt: skip
    outcome = run_cell(plan, SweepCell(0.1, 1), tmp_path)  # two tokens have no company with both groups
    assert outcome.reason
    assert not outcome.record
    assert finished(plan, tmp_path / outcome.cell.name) is None


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["train", "x.txt", "--out", "o"], "--valid"),
        (["train", "x.txt", "--valid", "v", "--out", "o", "--set", "hidden"], "--set hidden"),
        (["train", "x.txt", "--valid", "v", "--out", "o", "--set", "hiden=3"], "hiden"),
        (["train", "x.txt", "--valid", "v", "--out", "o", "--set", "hidden=abc"], "hidden=abc"),
        (["train", "x.txt", "--valid", "v", "--out", "o", "--preset", "brown"], "brown"),
        (["train", "x.txt", "--valid", "v", "--out", "o", "--sweep-lambda", "0;1"], "0;1"),
        (["train", "x.txt", "--valid", "v", "--out", "o", "--sweep-lambda", "0,1"], "test text"),
        (["train", "x.txt", "--valid", "v", "--out", "o", "--definition", "relased"], "did you mean: released"),
        (["train", "x.txt", "--valid", "v", "--out", "o", "--reduction", "max"], "no reduction 'max'"),
        (["measure", "x.txt", "--train", "t", "--test", "t"], "which has no perplexity"),
        (["generate", "nothing-here", "--out", "o"], "'nothing-here' is neither a file, a folder nor a catalog id"),
        (["generate", "text.txt", "--out", "o"], "text.txt is word vectors"),
    ],
)
def test_bad_arguments(arguments, says: str, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").touch()
    result = run(*arguments)
    assert isinstance(result.exception, EvenhandError), result.output
    assert says in str(result.exception)


def test_pairs_that_are_not_in_the_vocabulary(texts, tmp_path) -> None:
    pairs = tmp_path / "own.toml"
    pairs.write_text('[pairs.own]\npoles = ["a", "b"]\npairs = [["zebra", "lion"]]\n')
    result = run("train", texts, "--out", tmp_path / "m", "--epochs", "1", "--lambda", "1", "--pairs", pairs, *RUN)
    assert isinstance(result.exception, VocabularyError)
    assert "zebra-lion" in str(result.exception)


def test_untied_embeddings_and_where(texts, tmp_path) -> None:
    options = ["--epochs", "1", "--lambda", "0.1", "--where", "both", *RUN]
    assert "one matrix" in run("train", texts, "--out", tmp_path / "a", *options).stderr
    result = run("train", texts, "--out", tmp_path / "b", *options, "--untied", "--json")
    assert "one matrix" not in result.stderr
    record = json.loads(result.stdout)
    assert record["settings"]["tied"] is False
    assert "where=both" in record["regulariser"]


def test_the_definition_of_the_term_is_chosen_and_recorded(texts, tmp_path) -> None:
    options = ["--epochs", "1", "--lambda", "0.1", "--definition", "released", "--reduction", "mean", *RUN, "--json"]
    told = json.loads(run("train", texts, "--out", tmp_path, *options).stdout)["regulariser"]
    for part in ("normalise=True", "reduction=mean", "detach=False", "variant=released"):
        assert part in told
    sweep = ["--sweep-lambda", "0.1", "--time-limit", "0", "--reduction", "mean", *RUN, "--json"]
    record = json.loads(run("train", texts, "--out", tmp_path / "sweep", *sweep).stdout)
    assert record["plan"]["options"] == [["reduction", "mean"]]
    assert "differs from the printed one: reduction mean." in (tmp_path / "sweep" / "table.md").read_text()


def test_generate_and_measure_with_a_model_of_transformers(texts, tmp_path) -> None:
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    words = sorted(
        {word for part in ("train", "valid", "test") for word in (texts / f"{part}.txt").read_text().split()}
    )
    vocabulary = {word: i for i, word in enumerate(["<s>", *words])}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        core = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<s>"))
        core.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
        transformers.PreTrainedTokenizerFast(tokenizer_object=core, bos_token="<s>").save_pretrained(tmp_path / "m")
        config = transformers.GPT2Config(
            vocab_size=len(vocabulary), n_positions=64, n_embd=8, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=None
        )
        transformers.GPT2LMHeadModel(config).save_pretrained(tmp_path / "m")
        out = tmp_path / "g.jsonl"
        drawn = run(
            "generate", tmp_path / "m", "--samples", "3", "--tokens", "9", "--out", out, "--device", "cpu", "--json"
        )
        assert drawn.exit_code == 0, drawn.output + str(drawn.exception)
        assert json.loads(drawn.stdout)["kind"] == "GPT2LMHeadModel"
        assert len(out.read_text().splitlines()) == 3
        measured = run(
            "measure", tmp_path / "m", "--train", texts / "train.txt", "--samples", "80", "--tokens", "40",
            "--permutations", "0", "--test", texts / "test.txt", "--device", "cpu", "--json",
        )  # fmt: skip
    assert measured.exit_code == 0, measured.output + str(measured.exception)
    record = json.loads(measured.stdout)
    assert record["perplexity"]["token"] > 1
    assert record["fixed"]["second"]["params"]["tokenizer"] == "words"


def test_cells_are_ordered_by_seed() -> None:
    assert cells([0.0, 1.0], [5, 6]) == [SweepCell(0.0, 5), SweepCell(1.0, 5), SweepCell(0.0, 6), SweepCell(1.0, 6)]
    with pytest.raises(UsageError, match="-1"):
        cells([-1.0], [1])


def test_published_rows_are_shown_for_corpora_of_the_paper() -> None:
    assert bordia2019.corpus_of([{"training_tokens": 929_589}], "ptb") == "ptb"
    assert bordia2019.corpus_of([{"training_tokens": 1000}], "ptb") == ""
    assert bordia2019.corpus_of([{"training_tokens": 1000}], "cnn-dailymail") == "cnn-dailymail"
    table = bordia2019.sweep_table([], "wikitext-2")
    assert table.rows[1] == ("published 0", None, "0.70", "0.84", "0.29", "3.48", "4.29", "0.15", "67.67")
    assert {len(rows) for rows in bordia2019.PUBLISHED.values()} == {8, 6}
