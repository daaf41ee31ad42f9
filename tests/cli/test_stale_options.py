"""No option of any verb finds a stored result that was computed with another value of it.

Every option of every verb stands in one of these tables. `CHANGES` has two command lines that differ in the option, and
their results must have different keys. `WITHOUT_EFFECT` says why an option changes no stored value. `STORES_NOTHING` has
the verbs that compute their result each time. A new option or verb that stands in none of them fails.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import evenhand as eh
from evenhand.audit import runner
from evenhand.cli import app
from evenhand.errors import UsageError
from evenhand.subjects import open_subject

WHERE = "where the result is written, not what it is"
SHOWN = "how the result is shown, not what it is"
PROCESSES = "how the work is divided; every cell is computed in the same way"
RAY = "which machines compute; with --engine ray the results have a key of their own"
PERMISSION = "whether a file may be opened; what was read from it is hashed"
VEC = ("audit", "{vec}", "--no-methods", "--measure", "weat", "--query", "weat-7")
HF = ("audit", "hf:{bert}", "--no-methods", "--measure", "seat", "--query", "weat-7")
WRITER = ("audit", "hf:{gpt}", "--measure", "corpus-bias")
CHAT = ("audit", "hf:{chat}", "--measure", "corpus-bias")
JUDGED = ("audit", "hf:{gpt}", "--measure", "judged-generations")
TABLE = ("audit", "table:{decisions}", "--group", "sex")
SCORED = ("audit", "table:{scored}")
TEXTS = ("audit", "hf:{labeller}", "--measure", "group-metrics", "--texts")
SWEEP = ("debias", "{vec}", "--sweep", "-o", "{out}")
LM = ("lm", "train", "{text}", "--out", "{out}", "--sweep-lambda", "0,1", "--device", "cpu")

CHANGES: dict[str, dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "audit": {
        "SUBJECTS": (VEC, ("audit", "{other}", *VEC[2:])),
        "--method": (("audit", "{vec}", "-m", "linear", *VEC[3:]), ("audit", "{vec}", "-m", "span", *VEC[3:])),
        "--site": (
            (*HF[:2], "-m", "linear", "--site", "embeddings", *HF[3:]),
            (*HF[:2], "-m", "linear", "--site", "layer:1", *HF[3:]),
        ),
        "--sweep": (
            ("audit", "{vec}", "-m", "random", "--sweep", "k=1,2", *VEC[3:]),
            ("audit", "{vec}", "-m", "random", "--sweep", "k=1,3", *VEC[3:]),
        ),
        "--measure": (VEC, (*VEC, "--measure", "mac", "--query", "weat-7")),
        "--query": (VEC, (*VEC, "--query", "weat-8")),
        "--concept": (VEC, (*VEC, "--concept", "religion")),
        "--full-probes": (
            ("audit", "embedded", "--measure", "nli-neutrality"),
            ("audit", "embedded", "--measure", "nli-neutrality", "--full-probes"),
        ),
        "--plan": (("audit", "{vec}", "--plan", "{plan}"), ("audit", "{vec}", "--plan", "{other_plan}")),
        "--device": ((*HF, "--device", "cpu"), (*HF, "--device", "cuda")),
        "--precision": (HF, (*HF, "--precision", "bfloat16")),
        "--labels": (
            ("audit", "hf:{nli}", "--measure", "nli-neutrality", "--labels", "e,n,c"),
            ("audit", "hf:{nli}", "--measure", "nli-neutrality", "--labels", "c,n,e"),
        ),
        "--vectors": (
            ("audit", "embedded", "--measure", "nli-neutrality"),
            ("audit", "embedded", "--measure", "nli-neutrality", "--vectors", "{vec}"),
        ),
        "--case": ((*VEC, "--case", "exact"), (*VEC, "--case", "any")),
        "--format": (
            ("audit", "corpus:{text}/train.txt", "--format", "text"),
            ("audit", "corpus:{text}/train.txt", "--format", "jsonl"),
        ),
        "--vocabulary": (
            ("audit", "{matrix}", *VEC[2:], "--vocabulary", "{words}"),
            ("audit", "{matrix}", *VEC[2:], "--vocabulary", "{other_words}"),
        ),
        "--limit": (
            ("audit", "embedded", "--measure", "nli-neutrality"),
            ("audit", "embedded", "--measure", "nli-neutrality", "--limit", "500"),
        ),
        "--samples": (WRITER, (*WRITER, "--samples", "7")),
        "--tokens": (WRITER, (*WRITER, "--tokens", "9")),
        "--system": (CHAT, (*CHAT, "--system", "Be fair.")),
        "--judge": (
            (*JUDGED, "--judge", "lexicon:{words}"),
            (*JUDGED, "--judge", "lexicon:{other_words}"),
        ),
        "--judge-label": (
            (*JUDGED, "--judge", "lexicon:{signed}"),
            (*JUDGED, "--judge", "lexicon:{signed}", "--judge-label", "positive"),
        ),
        "--prompts": (CHAT, (*CHAT, "--prompts", "chat")),
        "--group": (TABLE, (*TABLE[:2], "--group", "race")),
        "--label": ((*TABLE, "--label", "y"), (*TABLE, "--label", "other")),
        "--prediction": (TABLE, (*TABLE, "--prediction", "other")),
        "--score": ((*SCORED, "--score", "p"), (*SCORED, "--score", "q")),
        "--threshold": ((*SCORED, "--score", "p"), (*SCORED, "--score", "p", "--threshold", "0.7")),
        "--positive": ((*SCORED, "--score", "p", "--positive", "yes"), (*SCORED, "--score", "p", "--positive", "no")),
        "--texts": ((*TEXTS, "{said}"), (*TEXTS, "{other_said}")),
        "--text-column": ((*TEXTS, "{said}", "--text-column", "text"), (*TEXTS, "{said}", "--text-column", "other")),
        "--positive-label": (
            (*TEXTS, "{said}", "--positive-label", "LABEL_1"),
            (*TEXTS, "{said}", "--positive-label", "LABEL_0"),
        ),
        "--seed": (VEC, (*VEC, "--seed", "1")),
    },
    "debias": {
        "SUBJECT": (SWEEP, ("debias", "{other}", *SWEEP[2:])),
        "--concept": (SWEEP, (*SWEEP, "--concept", "religion")),
        "--case": ((*SWEEP, "--case", "exact"), (*SWEEP, "--case", "any")),
        "--seed": (SWEEP, (*SWEEP, "--seed", "1")),
    },
    "lm train": {
        "TEXT": (LM, ("lm", "train", "{other_text}", *LM[3:])),
        "--valid": (LM, (*LM, "--valid", "{other_text}/test.txt")),
        "--test": (LM, (*LM, "--test", "{other_text}/valid.txt")),
        "--preset": (LM, (*LM, "--preset", "wikitext-2")),
        "--set": (LM, (*LM, "--set", "hidden=8")),
        "--epochs": (LM, (*LM, "--epochs", "1")),
        "--lambda": ((*LM[:5], "--lambda", "1"), (*LM[:5], "--lambda", "0.5")),
        "--sweep-lambda": (LM, (*LM, "--sweep-lambda", "0,2")),
        "--seeds": (LM, (*LM, "--seeds", "2")),
        "--pairs": ((*LM, "--pairs", "{pairs}"), (*LM, "--pairs", "{other_pairs}")),
        "--definition": (LM, (*LM, "--definition", "released")),
        "--reduction": (LM, (*LM, "--reduction", "mean")),
        "--where": (LM, (*LM, "--where", "output", "--untied")),
        "--untied": (LM, (*LM, "--untied")),
        "--samples": (LM, (*LM, "--samples", "3")),
        "--tokens": (LM, (*LM, "--tokens", "30")),
        "--permutations": (LM, (*LM, "--permutations", "2")),
        "--seed": (LM, (*LM, "--seed", "1")),
        "--precision": ((*LM, "--precision", "float32"), (*LM, "--precision", "bfloat16")),
    },
}
WITHOUT_EFFECT: dict[str, dict[str, str]] = {
    "audit": {
        "--budget": "which cells are begun in time; a cell that is left out is not stored",
        "--no-methods": "asks fewer stages; each has a key of its own",
        "--write-plan": "runs nothing",
        "--out": WHERE,
        "--jobs": PROCESSES,
        "--memory": PROCESSES,
        "--engine": "tested below: an engine is part of the key",
        "--address": RAY,
        "--workers": RAY,
        "--encoding-errors": "strict refuses what replace reads; the words that were read are hashed",
        "--allow-pickle": PERMISSION,
        "--key-env": "who asks a server; the answers are those of its model, whose fingerprint is hashed",
        **dict.fromkeys(("--concurrency", "--timeout"), "how fast a server is asked, not what"),
        "--tables": SHOWN,
        "--json": SHOWN,
    },
    "debias": {
        "--out": WHERE,
        "--format": "a format reads vectors as they are, or refuses them; the words and numbers are hashed",
        "--sweep": "the results of a sweep are an audit; without it nothing is stored that is read again",
        "--allow-pickle": PERMISSION,
        "--overwrite": PERMISSION,
        "--json": SHOWN,
        **dict.fromkeys(
            ("--method", "--set", "--save-map", "--site", "--decoder", "--hook", "--device", "--field", "--documents",
             "--skip-bad", "--group", "--label", "--prediction", "--score", "--threshold", "--positive", "--texts",
             "--text-column", "--positive-label"),
            "not of a sweep, which alone stores results that are read again",
        ),
    },
    "lm train": {
        "--out": WHERE,
        "--jobs": PROCESSES,
        "--time-limit": "how much is done now; a training that stopped resumes exactly",
        "--device": "tested below with a GPU that is pretended: the kind of device is part of the identity",
        "--json": SHOWN,
    },
}  # fmt: skip
# Verbs that resume a training: option -> the entry of the fingerprint that a checkpoint must have, or a reason.
FINGERPRINT = {
    "nli train": {
        "--train": "train", "--dev": "dev", "--vectors": "vectors", "--map": "vectors", "--seeds": "seeds",
        "--labels": "train", "--architecture": "architecture", "--patience": "patience", "--hidden": "hidden",
        "--batch": "batch", "--optimiser": "optimiser", "--learning-rate": "learning_rate",
        "--weight-decay": "weight_decay", "--dropout": "dropout", "--intra-attention": "intra_attention",
        "--lower": "lower", "--normalise": "normalise", "--device": "device", "--precision": "precision",
        "--epochs": "reason: the number of epochs may grow", "--out": f"reason: {WHERE}", "--json": f"reason: {SHOWN}",
        "--test": "reason: evaluated after the training, each time", "--max-record": f"reason: {PERMISSION}",
        "--stack": "reason: part of the seeds that are trained at once, which are compared",
        "--dtype": "reason: how the finished model is written",
    },
    "nli fine-tune": {
        "BODY": "body", "--train": "train", "--dev": "dev", "--map": "change", "--when": "change", "--seeds": "seed",
        "--labels": "train", "--epochs": "epochs", "--batch": "batch", "--learning-rate": "learning_rate",
        "--weight-decay": "weight_decay", "--dropout": "dropout", "--head": "head", "--device": "device",
        "--precision": "precision", "--out": f"reason: {WHERE}", "--json": f"reason: {SHOWN}",
        "--test": "reason: evaluated after the training, each time", "--dtype": "reason: how the model is written",
    },
}  # fmt: skip
COMPUTED = "computes its result each time; with --out it writes a record, which it does not read"
STORES_NOTHING = {
    **dict.fromkeys(
        ("measure", "compare", "explain", "probe", "corpus bias", "corpus compare", "lm measure", "nli eval"), COMPUTED
    ),
    **dict.fromkeys(
        ("concept export", "corpus cooccur", "corpus sgns", "lm generate", "convert"),
        "writes a file, and does not read it",
    ),
    **dict.fromkeys(("report", "check", "show"), "reads records, whose content has a digest"),
    **dict.fromkeys(("import lm-eval", "import inspect"), COMPUTED),
    "serve": "every audit of the page has a folder of its own",
    "reproduce": COMPUTED,
    "fetch": "downloads files by their sha256",
    **dict.fromkeys(("list", "concept check", "concept show", "concept list"), "shows what is installed or in a file"),
}


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    for name, sub in getattr(command, "commands", {}).items():
        yield from commands(sub, (*path, name))
    if not hasattr(command, "commands"):
        yield " ".join(path), command


def written(parameter: Any) -> str:
    """An option as it is written, an argument in capitals."""
    if parameter.param_type_name == "argument":
        return str(parameter.name).upper()
    return next(name for name in parameter.opts if name.startswith("--"))


VERBS = dict(commands(typer.main.get_command(app)))


def test_every_verb_and_every_option_is_classified() -> None:
    classified = {
        verb: {**CHANGES.get(verb, {}), **WITHOUT_EFFECT.get(verb, {}), **FINGERPRINT.get(verb, {})}
        for verb in {*CHANGES, *WITHOUT_EFFECT, *FINGERPRINT}
    }
    assert {*classified, *STORES_NOTHING} == set(VERBS)
    assert not classified.keys() & STORES_NOTHING.keys()
    for verb, options in classified.items():
        assert not CHANGES.get(verb, {}).keys() & WITHOUT_EFFECT.get(verb, {}).keys()
        assert set(options) == {written(parameter) for parameter in VERBS[verb].params}, verb


def test_training_compares_what_it_is_said_to_compare() -> None:
    pytest.importorskip("torch")
    from dataclasses import fields

    from evenhand.models.nli.fine_tuning import FineTuningSettings
    from evenhand.models.nli.training import NLITrainingSettings

    known = {
        "nli train": {"train", "dev", "seeds", "vectors", *NLITrainingSettings().to_dict()},
        "nli fine-tune": {
            "body",
            "train",
            "dev",
            "seed",
            "change",
            *(each.name for each in fields(FineTuningSettings)),
        },
    }
    for verb, options in FINGERPRINT.items():
        assert {entry for entry in options.values() if not entry.startswith("reason: ")} <= known[verb]


def test_numeric_labels_read_in_another_order_are_other_data(tmp_path: Path) -> None:
    from evenhand.models.nli.labelled_pairs import read_pairs

    file = tmp_path / "pairs.tsv"
    file.write_text("premise\thypothesis\tlabel\na b\ta c\t0\na\tb\t1\nc\td\t2\n")
    orders = (("entailment", "neutral", "contradiction"), ("contradiction", "neutral", "entailment"))
    assert len({read_pairs(file, labels=order).sha256 for order in orders}) == 2


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, glove: eh.Vectors, tiny_folder: Any) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("files")
    query = eh.query("weat-7")
    asked = [word for words in (*query.targets, *query.attributes) for word in words.words]
    few = glove.restrict([*asked, "she", "he", "nurse", "doctor"])
    other = eh.Vectors(few.words, np.asarray(few.matrix) * 2 + 1)
    np.save(folder / "matrix.npy", few.matrix)
    (folder / "words.txt").write_text("\n".join(few.words) + "\n")
    (folder / "other_words.txt").write_text("\n".join(reversed(few.words)) + "\n")
    for name, word in (("plan", "weat-7"), ("other_plan", "weat-8")):
        (folder / f"{name}.toml").write_text(f'[[question]]\nmeasure = "weat"\nquery = "{word}"\n')
    for name, pair in (("pairs", "he"), ("other_pairs", "him")):
        (folder / f"{name}.toml").write_text(f'[pairs.mine]\npairs = [["she", "{pair}"]]\n')
    for name in ("text", "other_text"):
        (folder / name).mkdir()
        for part in ("train", "valid", "test"):
            (folder / name / f"{part}.txt").write_text(f"{name} {part} she he\n" * 3)
    rows = [("f", "a", 1, 0, 1), ("m", "b", 0, 1, 0), ("f", "b", 1, 1, 1), ("m", "a", 0, 0, 1)]
    decisions = "sex,race,y,other,prediction\n" + "".join(",".join(map(str, row)) + "\n" for row in rows)
    (folder / "signed.txt").write_text("good\t1\nbad\t-1\n")
    (folder / "decisions.csv").write_text(decisions)
    (folder / "said.csv").write_text("text,other,sex,label\nhi,ho,f,1\nyes,no,m,0\n")
    (folder / "other_said.csv").write_text("text,other,sex,label\nhi,ho,f,1\nyes!,no,m,0\n")
    (folder / "scored.csv").write_text("group,label,p,q\nf,yes,0.6,0.4\nm,no,0.8,0.1\nf,no,0.2,0.9\n")
    return {
        **{name: folder / f"{name}.csv" for name in ("said", "other_said")},
        "labeller": lambda: tiny_folder("BertForSequenceClassification", num_labels=2),
        "signed": folder / "signed.txt", "decisions": folder / "decisions.csv", "scored": folder / "scored.csv",
        "vec": few.save(folder / "few.vec"), "other": other.save(folder / "other.vec"),
        "matrix": folder / "matrix.npy",
        **{name: folder / f"{name}.txt" for name in ("words", "other_words")},
        **{name: folder / f"{name}.toml" for name in ("plan", "other_plan", "pairs", "other_pairs")},
        "text": folder / "text", "other_text": folder / "other_text", "out": folder / "out",
        "bert": lambda: tiny_folder("BertModel"),
        "gpt": lambda: tiny_folder("GPT2LMHeadModel"),
        "nli": lambda: tiny_folder("BertForSequenceClassification", num_labels=3),
        "chat": lambda: _with_template(tiny_folder("GPT2LMHeadModel"), folder / "chat"),
    }  # fmt: skip


def _with_template(model: Path, folder: Path) -> Path:
    if not folder.is_dir():
        shutil.copytree(model, folder)
        (folder / "chat_template.jinja").write_text("{% for m in messages %}{{ m.content }} {% endfor %}")
    return folder


class KeysKnownError(UsageError):
    """Ends a command once its keys are known."""


@pytest.fixture
def keys_of(files: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Return a function from a command line to the keys under which its results would be stored."""
    found: list[Any] = []

    def compute(tasks: Any, *args: object, **options: object) -> None:
        found.extend(key for task in tasks for key in task.cells)
        raise KeysKnownError("the keys are known")

    def plan(planned: Any, *args: object, **options: object) -> None:
        found.append([planned.identity(), [argument for argument in args if not isinstance(argument, Path)]])
        raise KeysKnownError("the keys are known")

    monkeypatch.setattr(runner, "_compute", compute)
    monkeypatch.setattr("evenhand.cli.verbs.lm.run_sweep", plan)
    monkeypatch.setattr("evenhand.cli.verbs.lm.train_one", plan)

    def keys(line: tuple[str, ...]) -> list[Any]:
        found.clear()
        parts = list(line)
        for name, value in files.items():
            if any("{" + name + "}" in part for part in parts):
                made = value() if callable(value) else value
                parts = [part.replace("{" + name + "}", str(made)) for part in parts]
        done = CliRunner().invoke(app, parts + ([] if "-o" in parts or "--out" in parts else ["-o", str(tmp_path)]))
        assert "the keys are known" in done.stderr, done.output
        return list(found)

    return keys


@pytest.mark.filterwarnings("ignore::evenhand.EvenhandWarning")
@pytest.mark.parametrize(
    ("verb", "option"), [(verb, option) for verb, options in CHANGES.items() for option in options]
)
def test_another_value_of_an_option_has_other_keys(
    verb: str, option: str, keys_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if option == "--device":  # this machine need not have a GPU: the keys are known before a model is loaded
        monkeypatch.setattr("evenhand.subjects.transformer_subjects.resolve_device", lambda name: name)
    first, second = CHANGES[verb][option]
    before, after = keys_of(first), keys_of(second)
    assert before == keys_of(first)
    assert len(after) > 0
    assert [key for key in after if key not in before], f"{' '.join(second)} finds what {' '.join(first)} stored"
    if option in ("--device", "--precision", "--labels", "--vectors", "--case", "--format", "--vocabulary", "--seed"):
        assert not [key for key in after if key in before]


def test_an_engine_and_a_release_of_a_library_have_other_keys(
    glove: eh.Vectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    subject = open_subject(glove)
    before = subject.opening_digest
    subject.engine = object()  # type: ignore[assignment]
    assert subject.opening_digest != before
    subject.engine = None
    assert subject.opening_digest == before
    monkeypatch.setattr("evenhand.subjects.subject.installed_versions", lambda packages: dict.fromkeys(packages, "0"))
    assert subject.opening_digest != before


def test_a_sweep_of_language_models_on_another_device_has_another_identity(
    keys_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = keys_of((*LM, "--precision", "float32"))
    monkeypatch.setattr("evenhand.reproduce.bordia2019.resolve_device", lambda name: "cuda:1")
    after = keys_of((*LM, "--precision", "float32"))
    assert [entry[0]["device"] for entry in (before[0], after[0])] == ["cpu", "cuda"]


# Options are checked before stored cells are read ------------------------------------------------------------------


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_another_case_is_measured_again(glove: eh.Vectors, tmp_path: Path) -> None:
    query = eh.query("weat-6")
    asked = [glove.find(word) for words in (*query.targets, *query.attributes) for word in words.words]
    file = glove.restrict([word for word in asked if word]).save(tmp_path / "my.vec")
    line = ("audit", file, "--no-methods", "--measure", "weat", "--query", "weat-6", "-o", tmp_path / "q1")
    values = {}
    for case in ("exact", "any"):
        assert run(*line, "--case", case).exit_code == 0
        values[case] = eh.Audit.load(tmp_path / "q1").get("weat-6").value
    assert values["exact"] is None
    assert values["any"] == pytest.approx(eh.measures.weat(glove, "weat-6").value)


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("--precision", "banana", "unknown precision 'banana'"),
        ("--device", "banana", "unknown device 'banana'"),
        ("--device", "cuda:99", "is not available"),
    ],
)
def test_a_wrong_option_of_a_model_is_misuse_although_the_cells_exist(
    option: str, value: str, told: str, tiny_folder: Any, tmp_path: Path
) -> None:
    model = tiny_folder("BertModel")
    line = ("audit", f"hf:{model}", "--measure", "seat", "--query", "weat-7", "-o", tmp_path)
    assert run(*line).exit_code == 0
    done = run(*line, option, value)
    assert done.exit_code == 2
    assert told in done.stderr


@pytest.mark.parametrize(
    ("option", "value"), [("--case", "banana"), ("--format", "banana"), ("--encoding-errors", "x")]
)
def test_a_wrong_option_of_vectors_is_misuse_although_the_cells_exist(
    option: str, value: str, glove: eh.Vectors, tmp_path: Path
) -> None:
    file = glove.head(50).save(tmp_path / "my.vec")
    line = ("audit", file, "--no-methods", "--measure", "weat", "--query", "weat-7", "-o", tmp_path / "run")
    assert run(*line).exit_code == 0
    assert run(*line, option, value).exit_code == 2


def test_the_content_of_a_query_file_and_of_a_data_set_is_in_the_key(tmp_path: Path) -> None:
    """An edit that keeps size and time is noticed too."""
    import os

    from evenhand.audit.cells import query_digest
    from evenhand.audit.plan import Question

    file = tmp_path / "rated.tsv"
    file.write_text("she\the\t9.0\n")
    stat, question = file.stat(), Question("similarity", str(file))
    before = query_digest(question, eh.concept("gender"))
    assert query_digest(question, eh.concept("gender")) == before
    file.write_text("she\the\t1.0\n")
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert query_digest(question, eh.concept("gender")) != before


def test_the_content_of_a_tokenizer_is_in_the_key_of_a_corpus(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("she is here")
    tokenizer = tmp_path / "tokenizer.json"
    digests = []
    for content in ("{}", "[]"):
        tokenizer.write_text(content)
        digests.append(open_subject(f"corpus:{tmp_path / 't.txt'}", tokenizer=str(tokenizer)).opening_digest)
    assert digests[0] != digests[1]


def test_a_judge_with_other_words_under_the_same_name_is_another_judge(keys_of: Any, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    file = tmp_path / "judge.txt"
    command = ("audit", "hf:{gpt}", "--measure", "judged-generations", "--judge", f"lexicon:{file}")
    file.write_text("bad\n")
    first = keys_of(command)
    file.write_text("awful\n")
    assert keys_of(command) != first
