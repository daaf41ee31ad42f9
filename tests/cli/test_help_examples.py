"""Every example in a help text runs: what `--help` shows can be typed.

The examples are found in the texts: values with = or @, lists with commas, chains of methods, numbers after "such as".
A new example needs a command here that runs it.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer.main
from typer.testing import CliRunner

import evenhand as eh
from evenhand.cli import app

EXAMPLE = re.compile(
    r"""(?<![\w/<.])(?:
        [a-z][\w.-]*@[\w:-]+(?:=[\d.]*\d)?          # leace@layer:4, weat-6@linear=0.5
        | [a-z][\w.-]*=[\w.,=-]*\w                  # k=2, articles=letter,case=lower
        | "[a-z]+\ x\ [a-z]+"                       # "gender x race"
        | (?<=`)\w+,(?=`)                           # `7,`
        | (?!\d,\d{3}\b)[\w.]+(?:,[\w.]*\w)+        # e,n,c, but not 2,000
        | [a-z]+\.(?!json|html)[a-z]+(?!\w)         # hard.misp
        | (?<=such\ as\ )[a-z]*\d(?:[\w.]*\w)?      # 0.95, enwik8
    )""",
    re.VERBOSE,
)
MODELS = "model"  # a command that needs torch


def examples() -> Iterator[tuple[str, str]]:
    """Yield the verb and each example of its help texts."""

    def walk(command: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
        for name, inner in getattr(command, "commands", {}).items():
            yield from walk(inner, (*path, name))
        if path and not hasattr(command, "commands"):
            yield " ".join(path), command

    for verb, command in walk(typer.main.get_command(app), ()):
        for text in (command.help or "", *(getattr(parameter, "help", "") or "" for parameter in command.params)):
            yield from ((verb, found[0]) for found in EXAMPLE.finditer(text))


NLI = "nli train --train pairs.jsonl --dev pairs.jsonl --vectors my.vec --epochs 1 --hidden 4 --device cpu --out nli"
TUNE = "nli fine-tune hf:bert --train pairs.jsonl --dev pairs.jsonl --epochs 1 --device cpu --out tuned"
CORPUS = "--permutations 0"
COMMANDS = {
    ("audit", "strength=-2,-1,1,2"): f"{MODELS} audit hf:writer -m steering --sweep strength=-2,-1,1,2 --measure perplexity --device cpu -o run",
    ("explain", "e,n,c"): f"{MODELS} explain hf:classifier --labels e,n,c --premise 'He is here.' --pair 'He is.' 'She is.'",
    ("audit", "10min"): "audit my.vec --no-methods --measure weat --budget 10min -o run",
    ("audit", "hard.misp"): "audit my.vec --method hard.misp --measure weat -o run",
    ("audit", "leace@layer:4"): f"{MODELS} audit hf:bert -m leace@layer:4 --measure seat --query weat-6 --device cpu -o run",
    ("audit", '"gender x race"'): "audit my.vec --no-methods --concept 'gender x race' --measure interaction -o run",
    ("audit", "e,n,c"): f"{MODELS} audit hf:classifier --labels e,n,c --no-methods --measure mab --query mab-explicit --limit 60 -o run",
    ("measure", '"gender x race"'): "measure interaction my.vec --concept 'gender x race'",
    ("measure", "ddof=1"): "measure weat my.vec --query weat-6 --set ddof=1",
    ("measure", "e,n,c"): f"{MODELS} measure nli-neutrality hf:classifier --labels e,n,c --query mab-explicit",
    ("debias", "hard.misp"): "debias my.vec --method hard.misp -o out.vec",
    ("debias", "leace@layer:4"): f"{MODELS} debias hf:bert --method leace@layer:4 --hook --device cpu -o out",
    ("debias", "k=2"): "debias my.vec --method linear --set k=2 --set subspace=pairs -o out.vec",
    ("debias", "inlp.iterations=20"): "debias my.vec --method inlp --set inlp.iterations=20 -o out.vec",
    ("debias", '"gender x race"'): "debias my.vec --method leace --concept 'gender x race' -o out.vec",
    ("compare", '"gender x race"'): "compare my.vec my.vec --concept 'gender x race' --measure interaction",
    ("probe", "premise=nurse,doctor"): "probe --only premise=nurse,doctor --sample 100",
    ("probe", "articles=letter,case=lower"): "probe --surface articles=letter,case=lower --sample 100",
    ("probe", "e,n,c"): f"{MODELS} probe hf:classifier --labels e,n,c -p mab-explicit --sample 50",
    ("check", "weat-6=0.5"): "check run --max weat-6=0.5",
    ("check", "weat-6@linear=0.5"): "check run --max weat-6@linear=0.5",
    ("check", "retention=0.9"): "check run --min retention=0.9",
    ("convert", "no,yes"): "",  # an ONNX classifier: tests/models/test_onnx_import.py
    ("reproduce", "enwik8"): "",  # a fetched corpus: tests/reproduce/test_genderedness.py
    ("concept check", '"gender x race"'): "concept check 'gender x race'",
    ("concept show", '"gender x race"'): "concept show 'gender x race'",
    ("corpus bias", "name=word,word"): f"corpus bias text.txt --groups female=she,woman --groups male=he,man {CORPUS}",
    ("corpus bias", "0.95"): f"corpus bias text.txt --decay 0.95 {CORPUS}",
    ("corpus compare", "name=word,word"): "corpus compare text.txt text.txt --groups female=she,woman --groups male=he,man",
    ("corpus compare", "0.95"): "corpus compare text.txt text.txt --decay 0.95",
    ("lm train", "hidden=600"): f"{MODELS} lm train text.txt --valid text.txt --set hidden=600 --epochs 1 --time-limit 0 --device cpu -o lm",
    ("lm train", "0,0.001,0.01,0.1,1"): f"{MODELS} lm train text.txt --valid text.txt --test text.txt --sweep-lambda 0,0.001,0.01,0.1,1 --time-limit 0 --device cpu -o sweep",
    ("nli train", "3,4,7"): f"{MODELS} {NLI} --seeds 3,4,7",
    ("nli train", "7,"): f"{MODELS} {NLI} --seeds 7,",
    ("nli train", "entailment,neutral,contradiction"): f"{MODELS} {NLI} --seeds 1 --labels entailment,neutral,contradiction",
    ("nli fine-tune", "3,4,7"): f"{MODELS} {TUNE} --seeds 3,4,7",
    ("nli fine-tune", "7,"): f"{MODELS} {TUNE} --seeds 7,",
    ("nli fine-tune", "entailment,neutral,contradiction"): f"{MODELS} {TUNE} --seeds 1 --labels entailment,neutral,contradiction",
    ("nli eval", "entailment,neutral,contradiction"): f"{MODELS} nli eval hf:classifier numbers.jsonl --outputs e,n,c --labels entailment,neutral,contradiction",
    ("nli eval", "e,n,c"): f"{MODELS} nli eval hf:classifier pairs.jsonl --outputs e,n,c",
}  # fmt: skip
EXPECTED = {"check": (0, 3), "concept check": (0, 3)}  # a limit that does not hold, or flaws that are shown


def test_every_example_has_a_command() -> None:
    assert sorted(set(examples())) == sorted(COMMANDS)


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory, glove: eh.Vectors) -> Path:
    """Frequent words, and those that the examples ask about."""
    concepts = [eh.concept(name) for name in ("gender", "race")]
    listed = {word for one in concepts for part in (one.groups, one.names) for group in part.values() for word in group}
    listed |= {word for one in concepts for pair in one.pairs for word in pair}
    listed |= {word for id in eh.words.ids("query") for part in (eh.query(id).targets, eh.query(id).attributes)
               for group in part for word in group}  # fmt: skip
    words = list(
        dict.fromkeys([*glove.words[:2000], *sorted(word.lower() for word in listed if word.lower() in glove)])
    )
    small = eh.Vectors(words, np.stack([glove[word] for word in words]))
    return small.save(tmp_path_factory.mktemp("vectors") / "my.vec")


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory, embedded: Path) -> Path:
    """The run that the examples of `check` read."""
    out = tmp_path_factory.mktemp("audited") / "run"
    measures = ("--measure", "weat", "--measure", "retention")
    assert CliRunner().invoke(app, ["audit", str(embedded), "-m", "linear", *measures, "-o", str(out)]).exit_code == 0
    return out


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, embedded: Path) -> Path:
    """A folder with the inputs that the commands name."""
    monkeypatch.chdir(tmp_path)
    Path("my.vec").symlink_to(embedded)
    sentences = "she is a nurse and he is a doctor .\nthe woman saw the man .\nthe girl met her mother .\n"
    (tmp_path / "text.txt").write_text(sentences * 60, encoding="utf-8")
    rows = [
        ("The man ate.", "The man ate.", 0),
        ("The man ate.", "The man slept.", 2),
        ("A girl ate.", "A dog ate.", 1),
    ]
    names = ("entailment", "neutral", "contradiction")
    for file, label in (("pairs", lambda n: names[n]), ("numbers", int)):
        lines = [json.dumps({"premise": p, "hypothesis": h, "label": label(n)}) for p, h, n in rows * 4]
        (tmp_path / f"{file}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(("verb", "example"), [key for key, line in COMMANDS.items() if line])
def test_the_example_runs(
    verb: str, example: str, workplace: Path, tiny_folder: Callable[..., Path], request: pytest.FixtureRequest
) -> None:
    needs, *arguments = shlex.split(COMMANDS[verb, example])
    if needs == MODELS:
        pytest.importorskip("torch")
        pytest.importorskip("transformers")
        sizes = {"bert": {"num_hidden_layers": 5}, "classifier": {"num_labels": 3}, "writer": {}}
        kinds = {"bert": "BertModel", "classifier": "BertForSequenceClassification", "writer": "GPT2LMHeadModel"}
        for name, kind in kinds.items():
            if f"hf:{name}" in arguments:
                options = sizes[name]
                (workplace / name).symlink_to(tiny_folder(kind, **options))
        if "entailment,neutral,contradiction" in arguments:
            shutil.copy(workplace / "numbers.jsonl", workplace / "pairs.jsonl")
    else:
        arguments = [needs, *arguments]
    if verb == "check":
        (workplace / "run").symlink_to(request.getfixturevalue("audited"))
    assert example.strip('"') in [*arguments, "name=word,word"]  # a form, not a value
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "80", "NO_COLOR": "1"})
    assert result.exit_code in EXPECTED.get(verb, (0,)), result.output
