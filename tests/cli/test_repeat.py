"""The command under "How to repeat it" repeats the audit: run in the same folder, it gives the same results."""

from __future__ import annotations

import html
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import evenhand as eh
from evenhand.audit.manifest import OPENING_OPTIONS
from evenhand.cli import app
from evenhand.cli.options import flags
from evenhand.cli.verbs.audit import audit as audit_verb
from evenhand.subjects import SUBJECTS
from evenhand.subjects.subject import without_secrets

WEAT = ("--measure", "weat", "--query", "weat-7")


@pytest.fixture
def folder(tmp_path: Path, glove: eh.Vectors, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a few files, whose names need quotes."""
    monkeypatch.chdir(tmp_path)
    few = glove.head(1_500)
    few.save(tmp_path / "my vectors.vec")
    few.save(tmp_path / "my.npy")
    few.with_matrix(few.matrix * 2).save(tmp_path / "other.vec")
    (tmp_path / "my words.txt").write_text("\n".join(few.words) + "\n")
    (tmp_path / "concept.toml").write_text(
        '[concept.mine.groups]\na = ["king", "man"]\nb = ["queen", "woman"]\n', encoding="utf-8"
    )
    (tmp_path / "plan.toml").write_text(
        'subjects = ["my vectors.vec"]\nmethods = ["linear"]\nseed = 3\n'
        '[[question]]\nmeasure = "weat"\nquery = "weat-7"\noptions = { samples = 200 }\n'
    )
    text = "the nurse said she was tired\nthe doctor said he was busy\nher mother is a nurse\nhis father is a doctor\n"
    (tmp_path / "text.txt").write_text(text * 20)
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps({"text": line}) + "\n" for line in text.splitlines() * 20))
    return tmp_path


def run(arguments: list[str], out: Path) -> dict[str, Any]:
    done = CliRunner().invoke(app, [*arguments, "-o", str(out)], env={"COLUMNS": "80"})
    assert done.exit_code == 0, done.output
    record: dict[str, Any] = json.loads((out / "audit.json").read_text())
    return record


def printed(out: Path) -> list[str]:
    """The command that the page prints, as a shell reads it."""
    found = re.search(r"How to repeat it</h2>\s*<p><code>(.*?)</code>", (out / "report.html").read_text(), re.DOTALL)
    assert found, "the page prints no command"
    program, *arguments = shlex.split(html.unescape(found[1]))
    assert program == "evenhand"
    return arguments


def assert_repeats(first: dict[str, Any], arguments: list[str], out: Path) -> None:
    second = run(arguments, out)
    assert second["results"] == first["results"]
    assert second["stages"] == first["stages"]
    for entry in ("question", "methods", "seed", "concept"):
        assert second["manifest"]["arguments"]["effective"][entry] == first["manifest"]["arguments"]["effective"][entry]
    assert [s["opening"] for s in second["manifest"]["subjects"]] == [
        s["opening"] for s in first["manifest"]["subjects"]
    ]


RUNS = {
    "case": ("audit", "my vectors.vec", "--no-methods", *WEAT, "--case", "exact"),
    "method": ("audit", "my vectors.vec", "-m", "hard", "--method", "linear.span", *WEAT, "--seed", "5"),
    "format": ("audit", "my vectors.vec", "--no-methods", *WEAT, "--format", "fasttext"),
    "vocabulary": ("audit", "my.npy", "--no-methods", *WEAT, "--vocabulary", "my words.txt"),
    "several": ("audit", "my vectors.vec", "other.vec", "-m", "linear", *WEAT, "-q", "weat-8", "--encoding-errors", "replace"),
    "concept": ("audit", "my vectors.vec", "--no-methods", "--measure", "weat", "--concept", "concept.toml"),
    "plan": ("audit", "--plan", "plan.toml"),
    "default": ("audit", "--no-methods", "--measure", "mac"),
    "jobs": ("audit", "my vectors.vec", "-m", "linear", *WEAT, "--jobs", "1"),
    "corpus": ("audit", "corpus:text.txt"),
    "corpus-format": ("audit", "corpus:rows.jsonl", "--format", "jsonl", "--encoding-errors", "replace"),
    "corpus bias": ("corpus", "bias", "text.txt", "--window", "3", "--tokenizer", "whitespace", "--no-lower", "--permutations", "5"),
    "compare": ("compare", "my vectors.vec", "other.vec", "--measure", "weat", "--case", "any", "--seed", "2"),
    "probe": ("probe", "--probe", "mab-explicit", "--sample", "300", "--seed", "4"),
}  # fmt: skip


@pytest.mark.parametrize("arguments", RUNS.values(), ids=RUNS)
def test_the_printed_command_gives_the_same_results(arguments: tuple[str, ...], folder: Path) -> None:
    first = run(list(arguments), folder / "first")
    command = printed(folder / "first")
    assert shlex.split(first["manifest"]["arguments"]["command"])[1:] == command
    assert "first" not in command
    assert_repeats(first, command, folder / "second")


@pytest.mark.parametrize(
    "options",
    [
        ("--no-methods", "--precision", "bfloat16", "--device", "cpu"),
        ("-m", "leace", "--site", "layer:1"),
        ("-m", "linear@embeddings", "--seed", "2"),
    ],
    ids=lambda options: options[1],
)
def test_the_printed_command_of_a_model_gives_the_same_results(
    options: tuple[str, ...], folder: Path, tiny_folder: Any
) -> None:
    model = tiny_folder("BertModel")
    first = run(["audit", f"hf:{model}", "--measure", "seat", "--query", "weat-7", *options], folder / "first")
    (subject,) = first["manifest"]["subjects"]
    precision = "bfloat16" if "bfloat16" in options else "float32"
    assert {"device", "precision"} <= subject["opening"].keys()
    assert subject["opening"]["precision"] == precision
    assert_repeats(first, printed(folder / "first"), folder / "second")


def test_the_printed_command_of_a_sweep_names_its_folder_which_it_needs(
    folder: Path, glove: eh.Vectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    left_out = [id for id in eh.mitigations.ids("vectors") if id not in ("linear", "random")]
    monkeypatch.setattr("evenhand.cli.verbs.debias.slow_methods", lambda: left_out)
    glove.head(300).save(folder / "few.vec")
    first = run(["debias", "few.vec", "--sweep", "--case", "lower"], folder / "first")
    command = printed(folder / "first")
    where = command.index("--out")
    assert_repeats(first, command[:where] + command[where + 2 :], folder / "second")


# From Python -------------------------------------------------------------------------------------------------------

CALLS: dict[str, tuple[Any, dict[str, Any]]] = {
    "measures": ("my vectors.vec", {"methods": ["linear"], "measures": ["weat"], "queries": ["weat-7"]}),
    "queries of the concept": ("my vectors.vec", {"methods": [], "measures": ["weat", "mac"], "seed": 7}),
    "a concept file": ("my vectors.vec", {"methods": [], "measures": ["weat"], "concept": Path("concept.toml")}),
    "the embedded vectors": (None, {"methods": [], "measures": ["weat"], "queries": ["weat-7"]}),
    "several": (["my vectors.vec", "other.vec"], {"measures": ["weat"], "queries": ["weat-7"]}),
    "a failing method": (
        "my vectors.vec",
        {"methods": ["linear", "failing"], "measures": ["weat"], "queries": ["weat-7"], "skip_failing": True},
    ),
}


@pytest.mark.parametrize(("subject", "arguments"), CALLS.values(), ids=CALLS)
def test_the_record_of_a_call_holds_the_command_that_gives_the_same_results(
    subject: Any, arguments: dict[str, Any], folder: Path, glove: eh.Vectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "failing" in arguments["methods"] if arguments.get("methods") else False:
        arguments = {**arguments, "methods": ["linear", "span"]}
        monkeypatch.setattr(eh.mitigations.get("span"), "fit", _fail)
    audit = eh.Audit.run(glove if subject is None else subject, **arguments)
    audit.save(folder / "first")
    audit.to_html(folder / "first" / "report.html")
    first = json.loads((folder / "first" / "audit.json").read_text())
    assert first["manifest"]["arguments"]["call"].startswith("evenhand.Audit.run(")
    second = run(printed(folder / "first"), folder / "second")
    assert second["results"] == first["results"]


def _fail(*args: object, **options: object) -> None:
    raise eh.EvenhandError("cannot be fitted")


def test_options_of_opening_are_in_the_command_of_a_call(folder: Path) -> None:
    subject = eh.open("my vectors.vec", case="exact", format="fasttext")
    audit = eh.Audit.run(subject, methods=[], measures=["weat"], queries=["weat-7"])
    command = audit.manifest["arguments"]["command"]
    assert command == (
        "evenhand audit 'my vectors.vec' --no-methods --measure weat --query weat-7 --concept gender --seed 0 "
        "--case exact --format fasttext"
    )


def test_a_call_that_no_command_repeats_says_why(folder: Path, glove: eh.Vectors, tmp_path: Path) -> None:
    few = glove.head(1_500)
    asked: dict[str, Any] = {"methods": [], "measures": ["weat"], "queries": ["weat-7"]}
    mine = eh.Concept("mine", groups={"a": ["king", "man"], "b": ["queen", "woman"]})
    two = [eh.open("my vectors.vec", case="exact"), eh.open("other.vec")]
    plan = eh.audit.Plan((eh.audit.Question("weat", "weat-7", {"samples": 10}),))
    for audit, why in (
        (eh.Audit.run(few, **asked), "is only in memory"),
        (eh.Audit.run("my vectors.vec", **{**asked, "concept": mine, "queries": []}), "concept mine is an object"),
        (eh.Audit.run(two, **asked), "opened with different values of case"),
        (eh.Audit.run("my vectors.vec", plan=plan), "evenhand audit --plan FILE"),
    ):
        arguments = audit.manifest["arguments"]
        assert arguments["command"] == ""
        assert why in arguments["no_command"]
        text = audit.to_html(tmp_path / "page.html").read_text()
        assert "No command repeats this audit" in text
        assert "evenhand.Audit.run(" in text


def test_what_was_given_and_what_took_effect_is_in_the_record(folder: Path) -> None:
    arguments = run(["audit", "my vectors.vec", "-m", "linear", *WEAT, "--case", "any"], folder / "out")["manifest"][
        "arguments"
    ]
    assert arguments["given"] == {
        "subjects": ["my vectors.vec"], "method": ["linear"], "measure": ["weat"], "query": ["weat-7"], "case": "any",
    }  # fmt: skip
    assert {name: arguments["effective"][name] for name in ("jobs", "memory", "engine", "seed", "concept")} == {
        "jobs": 1, "memory": None, "engine": "local", "seed": 0, "concept": "gender",
    }  # fmt: skip


def test_the_opening_options_of_the_command_are_those_of_the_verb() -> None:
    offered = set(flags(audit_verb))
    known = {name for kind in SUBJECTS.ids() for name in SUBJECTS.get(kind).options}
    assert set(OPENING_OPTIONS) == (offered & known) - {"seed", "samples", "tokens"}  # an audit has these in its plan


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("s3://key:secret@bucket/x.txt", "s3://***@bucket/x.txt"),
        ("https://host/x.txt?token=abc&part=2", "https://host/x.txt?token=***&part=2"),
        ("https://host/x?X-Amz-Signature=abc&api_key=def#name", "https://host/x?X-Amz-Signature=***&api_key=***#name"),
        ("corpus:/data/tokens=5/a@b.txt", "corpus:/data/tokens=5/a@b.txt"),
    ],
)
def test_no_key_goes_into_a_record(address: str, shown: str) -> None:
    assert without_secrets(address) == shown
