"""Train NLI models over every condition of scripts/nli_conditions.py, and put every probe to each of them.

    python scripts/nli_experiment.py INPUT OUT [--architecture bilstm] [--only CONDITION...] [--dry]

The members of a stack are trained in one pass; then, with the GPU to itself, a pool of processes evaluates and probes
them. Each finished model is one line of OUT/<architecture>.jsonl, written at once, so that what a time limit cuts off
is missing and nothing else. The six models that are embedded in the package are written to OUT as well.
"""

import argparse
import json
import multiprocessing
import os
import platform
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import load_file

import evenhand as eh
from evenhand.measures.inference import probe
from evenhand.models.nli import load
from evenhand.models.nli.labelled_pairs import evaluate, read_pairs
from evenhand.models.nli.training import train_members

METHODS = ("hard", "double-hard", "gp", "bam", "oscar", "ran", "inlp", "span", "misp", "leace", "rlace", "hsr", "soft")
RANDOM = tuple(f"random-{i}" for i in range(8))
FIVE, TWO, ONE = range(5), range(2), range(1)
# Stacks: conditions with the seeds of their models. A random direction is one of eight draws of the same condition.
PLAN: dict[str, tuple[dict[str, range], ...]] = {
    "decomposable": (
        dict.fromkeys(("original", "linear", *METHODS, "nationality", "religion"), FIVE) | dict.fromkeys(RANDOM, TWO),
        dict.fromkeys(("glove-enwik8", "gn-glove", "gn-glove-wa"), FIVE),
    ),
    "bilstm": (dict.fromkeys(("original", "linear", "nationality", "religion"), FIVE) | dict.fromkeys(RANDOM, ONE),),
}
GENDER = ("gender-occupation", "mab-explicit", "mab-names", "mab-occupations")
OTHERS = {"nationality": ("nationality-polarity",), "religion": ("religion-polarity",)}
EMBEDDED = {"original": "original", "linear": "projected"}
SETTINGS: dict[str, Any] = {"epochs": 12, "patience": 4}


def probes_of(condition: str) -> tuple[str, ...]:
    """What is asked: the probes that the condition should change; of the vectors as they are, all."""
    if condition == "original" or condition in RANDOM:
        return (*GENDER, *OTHERS["nationality"], *OTHERS["religion"])
    return OTHERS.get(condition, GENDER)


def tables(folder: Path, *wanted: str) -> dict[str, eh.Vectors]:
    """The vectors of some conditions over the words that occur; conditions of one stack share their words."""
    found: dict[str, eh.Vectors] = {}
    for words_file, file in (("words.txt", "conditions"), ("gn-glove-words.txt", "gn-glove")):
        if not (folder / words_file).exists():
            continue
        words = (folder / words_file).read_text().split("\n")[:-1]
        stored = load_file(folder / f"{file}.safetensors")
        base = stored.get("original")
        for name in set(wanted) & set(stored):
            array = stored[name]
            affine = base is not None and len(array) == base.shape[1] + 1
            matrix = base @ array[:-1] + array[-1] if affine else array
            found[name] = eh.Vectors(words, matrix.astype(np.float32), name=name)
    return found


def members(folder: Path, out: Path, architecture: str, plan: dict[str, range], dry: bool) -> list[Path]:
    """Train and write the models of one stack."""
    vectors = tables(folder, *plan)
    pairs, dev = read_pairs(folder / "train.jsonl.gz"), read_pairs(folder / "dev.jsonl")
    if dry:
        pairs, dev = pairs.head(2_000), dev.head(500)
    started, written = time.perf_counter(), []
    wanted = [(vectors[name], seed) for name, seeds in plan.items() if name in vectors for seed in seeds]
    settings = {**SETTINGS, "epochs": 1} if dry else SETTINGS
    trained = train_members(pairs, dev, wanted, architecture=architecture, **settings)
    took = time.perf_counter() - started
    print(f"{architecture}: {len(trained)} models in {took:.0f} s", flush=True)
    for member in trained:
        path = out / f"{architecture}.{member.vectors.name}.{member.seed}.safetensors"
        about = {"seed": member.seed, "condition": member.vectors.name, "epoch": member.epoch}
        member.model.save(path, **about, dev_accuracy=member.dev_accuracy, stack=len(trained), seconds=took)
        written.append(path)
    return written


def examine(job: tuple[Path, Path, bool]) -> dict[str, Any]:
    """Accuracy and every probe of one model."""
    path, folder, dry = job
    torch.set_num_threads(1)
    architecture, condition, seed, _ = path.name.split(".")
    model = load(path, tables(folder, condition)[condition])
    row: dict[str, Any] = {"architecture": architecture, "condition": condition, "seed": int(seed)}
    for name in ("dev.jsonl", "test.jsonl", "hans.txt"):
        pairs = read_pairs(folder / name)
        row[name.partition(".")[0]] = evaluate(model, pairs.head(500) if dry else pairs).accuracy
    for name in probes_of(condition):
        started = time.perf_counter()
        found = probe(model, name, sample=3_000 if dry else None, draws=0, force=True)
        row[name] = {**_short(found.to_dict()), "seconds": round(time.perf_counter() - started, 2)}
    return row


def _short(result: dict[str, Any]) -> dict[str, Any]:
    """The scores without their intervals, which come from the seeds here."""
    kept: dict[str, Any] = {name: result[name] for name in ("n_pairs", "net_neutral", "fraction_neutral", "threshold")}
    kept |= {"controls": result["controls"], "lost": result["coverage"]["missing"]}
    labels = ("entailment", "neutral", "contradiction")
    groups = [(name, group) for name, group in (result["groups"] or {}).items() if len(result["groups"]) < 9]
    kept["groups"] = {name: {label: group[label]["value"] for label in labels} for name, group in groups}
    if result["gap"]:
        kept["gap"] = {label: result["gap"][label]["value"] for label in labels}
    if result["marked"]:
        kept["marked"] = {key: result["marked"][key]["value"] for key in ("distance", "error", "sentence_error")}
        kept["marked"]["p_value"] = result["marked"]["p_value"]
    return kept


def manifest(folder: Path) -> dict[str, Any]:
    """What every number depends on."""
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
    versions = {"python": platform.python_version(), "torch": torch.__version__, "numpy": np.__version__}
    made = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return {
        "input": json.loads((folder / "manifest.json").read_text()),
        "evenhand": eh.__version__,
        "versions": versions,
        "gpu": gpu,
        "created": made,
        "settings": SETTINGS,
    }


def main() -> None:
    """Train a stack, probe its models, go on with the next."""
    parser = argparse.ArgumentParser()
    parser.add_argument("input", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--architecture", default="decomposable", choices=PLAN)
    parser.add_argument("--only", nargs="+", help="these conditions")
    parser.add_argument("--jobs", type=int, default=min(7, os.cpu_count() or 1))
    parser.add_argument("--dry", action="store_true")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    about = manifest(given.input)
    (given.out / f"{given.architecture}.manifest.json").write_text(json.dumps(about, indent=1))
    context = multiprocessing.get_context("spawn")
    with (
        tempfile.TemporaryDirectory() as models,
        (given.out / f"{given.architecture}.jsonl").open("w") as lines,
        context.Pool(given.jobs) as pool,
    ):
        for whole in PLAN[given.architecture]:
            plan = {name: seeds for name, seeds in whole.items() if given.only is None or name in given.only}
            paths = members(given.input, Path(models), given.architecture, plan, given.dry) if plan else []
            if given.architecture == "decomposable":
                embed(Path(models), given.input, given.out)
            for row in pool.imap_unordered(examine, [(path, given.input, given.dry) for path in paths]):
                lines.write(json.dumps(row) + "\n")
                lines.flush()


def embed(models: Path, folder: Path, out: Path) -> None:
    """The first three seeds of two conditions, as the package keeps them."""
    vectors = tables(folder, *EMBEDDED)
    for condition, name in EMBEDDED.items():
        for seed in range(3):
            path = models / f"decomposable.{condition}.{seed}.safetensors"
            if path.exists():
                model = load(path, vectors[condition], device="numpy")
                model.save(out / f"{name}-{seed}.safetensors", dtype="float16", seed=seed, condition=name)


if __name__ == "__main__":
    main()
