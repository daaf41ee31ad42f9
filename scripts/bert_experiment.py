"""Fine-tune an encoder for NLI with and without a projection of its word-piece table, and probe each model.

    python scripts/bert_experiment.py nli CARRY OUT [--seeds 5] [--seconds 560] [--done OUT/nli.json]
    python scripts/bert_experiment.py mlm CARRY OUT [--seconds 150]
    python scripts/bert_experiment.py split FOLDER OUT
    python scripts/bert_experiment.py join PARTS NAME BODY FOLDER

CARRY is a folder of scripts/bert_carry.py. `nli` trains one model for every seed and condition (no map; he-she removed
in training and test; a random direction removed in both) in processes side by side on one GPU. A model trained without
a map is also probed with the he-she direction, or a random one, removed at test time. With `--sample`, probes are put
to a sample of their pairs, and to all pairs for the trained models of the first seed. Each finished task is written to
OUT/nli.json at once; with `--done` a later command continues with the tasks that are missing. `mlm` trains a
masked-language-model head. `split` and `join` pass weights through files of limited size.
"""

import argparse
import hashlib
import json
import lzma
import multiprocessing
import os
import platform
import sys
import time
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
import torch
from bert_carry import PACKED, join, split, unpack, write_json
from lm_experiment import share_gpu
from masked_head import train_masked_lm

import evenhand
from evenhand import subspaces
from evenhand.measures.inference import probe
from evenhand.mitigations.maps import SoftProjection
from evenhand.models.encoders.input_table import input_table
from evenhand.models.encoders.transformer import load_model
from evenhand.models.huggingface import load_tokenizer
from evenhand.models.nli.fine_tuning import fine_tune, fold_into_table
from evenhand.models.nli.labelled_pairs import LabelledPairs, evaluate, read_pairs
from evenhand.models.nli.tokenised_pairs import TokenisedPairs
from evenhand.models.nli.transformer import TransformerNLI

PROBE = "gender-occupation"
OTHER_PROBES = ("nationality-polarity", "religion-polarity")
TRAINED = ("none", "he-she", "random")
TEST_ONLY = ("he-she@test", "random@test")
OTHERS = "other-probes"
SETTINGS: dict[str, Any] = {"epochs": 2, "batch": 128, "learning_rate": 1e-4, "longest": 128}
TINY_SETTINGS: dict[str, Any] = {"epochs": 1, "batch": 16, "learning_rate": 1e-4, "longest": 64}
TINY_PAIRS, TINY_SAMPLE = 96, 600
MLM_NAME = "evenhand-minilm-6x384-mlm"
MLM_DATA = "WikiText-2 (training part) and a random part of enwik8, both as plain text"
LABELS = ("entailment", "neutral", "contradiction")


class Task(NamedTuple):
    """One model to train and probe, or one probe of a model that was trained without a map."""

    condition: str
    seed: int

    @property
    def name(self) -> str:
        """For files and records."""
        return f"{self.condition}-{self.seed}"

    @property
    def needs(self) -> str:
        """The name of the trained model that the task reads; empty for a task that trains its own."""
        return "" if self.condition in TRAINED else f"none-{self.seed}"


class Inputs(NamedTuple):
    """What the processes have in common; read before they are forked."""

    given: Any
    body: Path
    train: TokenisedPairs
    dev: TokenisedPairs
    tests: dict[str, LabelledPairs]
    maps: dict[str, SoftProjection]


def planned(given: Any) -> list[Task]:
    """The tasks in the order of their worth: first what the table needs, by seed."""
    seeds = range(given.seeds)
    tasks = [Task(condition, seed) for seed in seeds for condition in TRAINED]
    tasks += [Task(TEST_ONLY[0], seed) for seed in seeds]
    if given.extras:
        tasks += [Task(TEST_ONLY[1], seed) for seed in seeds] + [Task(OTHERS, seed) for seed in seeds]
    return [task for task in tasks if given.only is None or task.condition in given.only]


def maps_of(body: Path, seeds: int) -> dict[str, SoftProjection]:
    """The projections: he-she from the pre-trained table, each word scaled to unit length first, and Gaussian ones."""
    table = input_table(body)
    gender = subspaces.pairs(table, [("she", "he")], k=1, normalise=True)
    found = {"he-she": SoftProjection(gender.basis)}
    return found | {
        f"random-{seed}": SoftProjection(subspaces.gaussian(table.dim, seed).basis) for seed in range(seeds)
    }


def map_of(task: Task, inputs: Inputs) -> SoftProjection | None:
    """The projection of a condition."""
    kind = task.condition.partition("@")[0]
    return inputs.maps.get("he-she" if kind == "he-she" else f"random-{task.seed}" if kind == "random" else "")


def work(inputs: Inputs, task: Task, folder: Path) -> None:
    """Do one task and write its record: one process."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the pool of threads did not survive the fork
    torch.set_num_threads(1)
    began = time.monotonic()
    record: dict[str, Any] = {"condition": task.condition, "seed": task.seed, "data": inputs.given.data}
    if task.needs:
        model, tokenizer = load_model(folder / task.needs).model, load_tokenizer(folder / task.needs)
        if change := map_of(task, inputs):
            model = fold_into_table(model, tokenizer, change)
    else:
        trained = train(inputs, task)
        model, tokenizer = trained.model, trained.tokenizer
        record |= {"training": trained.to_dict(), "training_seconds": round(time.monotonic() - began, 1)}
        if task.condition == "none" or task.name in inputs.given.keep:
            trained.save(folder / f"{task.name}.part", dtype="float16")
            (folder / f"{task.name}.part").rename(folder / task.name)
    nli = TransformerNLI(
        model, tokenizer, device=inputs.given.device, precision=precision(inputs.given), name=task.name
    )
    if task.condition != OTHERS:
        record |= {name: evaluate(nli, pairs).accuracy for name, pairs in inputs.tests.items()}
    sample = TINY_SAMPLE if inputs.given.tiny else inputs.given.sample
    for name in OTHER_PROBES if task.condition == OTHERS else (PROBE,):
        started = time.monotonic()
        found = probe(nli, name, sample=sample, draws=0, force=True)
        record[name] = {**short(found.to_dict()), "seconds": round(time.monotonic() - started, 1)}
    if sample and inputs.given.whole and task.seed == 0 and task.condition in TRAINED and not inputs.given.tiny:
        started = time.monotonic()
        found = probe(nli, PROBE, draws=0, force=True)
        record[f"{PROBE}-all"] = {**short(found.to_dict()), "seconds": round(time.monotonic() - started, 1)}
    record["seconds"] = round(time.monotonic() - began, 1)
    write_json(record, folder / f"{task.name}.json")


def train(inputs: Inputs, task: Task) -> Any:
    """The model of a condition and seed."""
    settings = TINY_SETTINGS if inputs.given.tiny else {**SETTINGS, **_given_settings(inputs.given)}
    return fine_tune(
        inputs.body,
        inputs.train,
        inputs.dev,
        seed=task.seed,
        change=map_of(task, inputs),
        when="train+test",
        device=inputs.given.device,
        **settings,
    )


def _given_settings(given: Any) -> dict[str, Any]:
    options = {"epochs": given.epochs, "learning_rate": given.learning_rate, "batch": given.batch}
    return {name: value for name, value in options.items() if value is not None}


def precision(given: Any) -> str:
    """Half precision on a GPU: the probe's two million pairs would take three times as long otherwise."""
    return given.precision or ("float16" if torch.cuda.is_available() and given.device != "cpu" else "float32")


def short(result: Mapping[str, Any]) -> dict[str, Any]:
    """The scores without intervals over words: what varies here are the seeds."""
    kept = {name: result[name] for name in ("n_pairs", "net_neutral", "fraction_neutral", "threshold", "interpretable")}
    kept["controls"] = result["controls"]
    groups = result["groups"] or {}
    if len(groups) < 9:
        kept["groups"] = {name: {label: group[label]["value"] for label in LABELS} for name, group in groups.items()}
    if result["gap"]:
        ends = {name: result["gap"][name] for name in ("first", "second")}
        kept["gap"] = {**ends, **{label: result["gap"][label]["value"] for label in LABELS}}
    return kept


def run_nli(given: Any) -> None:
    """Read, fork, gather."""
    began = time.monotonic()
    torch.set_num_threads(1)
    given.out.mkdir(parents=True, exist_ok=True)
    given.work.mkdir(parents=True, exist_ok=True)
    inputs, about = read_inputs(given)
    done = json.loads(given.done.read_text())["runs"] if given.done else []
    tasks = missing_tasks(planned(given), {(row["condition"], row["seed"]) for row in done}, given.work)
    sharing = share_gpu() if given.device != "cpu" and not given.no_mps else "off"
    about |= {"jobs": given.jobs, "mps": sharing, "prepared_seconds": round(time.monotonic() - began, 1)}
    print(f"{len(tasks)} tasks after {about['prepared_seconds']} s; MPS {sharing}", flush=True)
    gather = Gathering(given, done, about)
    failed = run_tasks(inputs, tasks, gather, deadline=began + given.seconds)
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    gather.about |= {"created": created, "seconds": round(time.monotonic() - began, 1), "failed": failed}
    gather.write()
    for name in given.keep[:1]:
        if (given.work / name).exists():
            split(given.work / name, given.out)
    print(f"{len(gather.rows)} records in {time.monotonic() - began:.0f} s; failed: {failed}", flush=True)


def read_inputs(given: Any) -> tuple[Inputs, dict[str, Any]]:
    """Unpack the encoder and tokenise the pairs."""
    body, origin = unpack(given.carry, given.work)
    settings = TINY_SETTINGS if given.tiny else SETTINGS
    pairs = {name: read_pairs(given.carry / f"{name}.tsv.xz") for name in ("train", "dev", "test", "hans")}
    if given.data == "all":
        pairs["train"] = joined(pairs["train"], read_pairs(given.carry / "other.tsv.xz"))
    if given.tiny:
        pairs = {name: part.head(TINY_PAIRS) for name, part in pairs.items()}
    tokenizer, _ = load_tokenizer(body), load_model(body, "encoder")  # imports its module before the fork
    tokenised = [TokenisedPairs.of(pairs[name], tokenizer, longest=settings["longest"]) for name in ("train", "dev")]
    about = {
        "body": origin,
        "sources": json.loads((given.carry / "sources.json").read_text()),
        "pairs": {name: part.to_dict() for name, part in pairs.items()},
        "settings": {**settings, **_given_settings(given)},
        "evenhand": evenhand.__version__,
        "packages": {
            "python": platform.python_version(),
            **{p: version(p) for p in ("torch", "transformers", "numpy")},
        },
    }
    tests = {name: pairs[name] for name in ("test", "hans")}
    return Inputs(given, body, *tokenised, tests, maps_of(body, given.seeds)), about


def joined(first: LabelledPairs, second: LabelledPairs) -> LabelledPairs:
    """Two files of pairs as one."""
    digest = hashlib.sha256(f"{first.sha256} {second.sha256}".encode()).hexdigest()
    return LabelledPairs(
        first.premises + second.premises,
        first.hypotheses + second.hypotheses,
        np.concatenate([first.labels, second.labels]),
        {},
        f"{first.source} + {second.source}",
        digest,
    )


def missing_tasks(tasks: list[Task], done: set[tuple[str, int]], folder: Path) -> list[Task]:
    """The tasks without a record, and the trainings whose model they need and this machine does not have."""
    missing = [task for task in tasks if tuple(task) not in done]
    lost = {task.seed for task in missing if task.needs and not (folder / task.needs).exists()}
    again = [Task("none", seed) for seed in sorted(lost) if Task("none", seed) not in missing]
    return again + missing


class Gathering:
    """The records so far, in one file that is always whole."""

    def __init__(self, given: Any, rows: list[dict[str, Any]], about: dict[str, Any]) -> None:
        self.given, self.about = given, about
        self.rows = {(row["condition"], row["seed"]): row for row in rows}
        self.write()

    def add(self, task: Task) -> None:
        """Add the record of a finished task."""
        row = json.loads((self.given.work / f"{task.name}.json").read_text())
        self.about.setdefault("device", row.get("training", {}).get("device", ""))
        self.rows[task.condition, task.seed] = row
        self.write()
        score = row.get(PROBE, {})
        shown = f"test {row['test']:.3f} net neutral {score['net_neutral']:.3f}" if score else ""
        print(f"{task.name}: {row['seconds']} s {shown}", flush=True)

    def write(self) -> None:
        """Write all records."""
        write_json({"about": self.about, "runs": list(self.rows.values())}, self.given.out / "nli.json")


def run_tasks(inputs: Inputs, tasks: list[Task], gather: Gathering, *, deadline: float) -> dict[str, str]:
    """Run the tasks, so many at once; what is not done at the deadline is ended. Says who failed and how."""
    context = multiprocessing.get_context("fork")  # texts are loaded once, and no process has touched the GPU
    folder, waiting, failed = inputs.given.work, list(tasks), {}
    for task in tasks:
        (folder / f"{task.name}.json").unlink(missing_ok=True)
    running: dict[Task, Any] = {}
    if not inputs.given.jobs:
        for task in tasks:
            work(inputs, task, folder)
            gather.add(task)
        return {}
    while (waiting or running) and time.monotonic() < deadline:
        ready = [task for task in waiting if not task.needs or (folder / task.needs).exists()]
        for task in ready[: inputs.given.jobs - len(running)]:
            waiting.remove(task)
            running[task] = context.Process(target=work, args=(inputs, task, folder))
            running[task].start()
        if not running:
            break
        time.sleep(0.1)
        for task in [task for task, process in running.items() if not process.is_alive()]:
            code = running.pop(task).exitcode
            if code == 0:
                gather.add(task)
            else:
                failed[task.name] = f"exit code {code}"
    for task, process in running.items():
        process.terminate()
        failed[task.name] = "not done in time"
    return failed | {task.name: "not begun" for task in waiting}


def run_mlm(given: Any) -> None:
    """Train the masked language model and write it in parts."""
    given.out.mkdir(parents=True, exist_ok=True)
    body, origin = unpack(given.carry, given.work)
    files = {name: lzma.decompress((given.carry / f"{name}.txt.xz").read_bytes()) for name in ("train", "valid")}
    texts = {name: content.decode().split("\n") for name, content in files.items()}
    if given.tiny:
        texts = {name: part[:200] for name, part in texts.items()}
    tiny = {"steps": 3, "batch": 4, "block": 32} if given.tiny else {"steps": given.steps}
    trained = train_masked_lm(
        body,
        texts["train"],
        texts["valid"],
        name=MLM_NAME,
        data=MLM_DATA,
        seed=0,
        time_limit=given.seconds,
        device=given.device,
        progress=_told(),
        **tiny,
    )
    sources = json.loads((given.carry / "sources.json").read_text())
    about = {**trained.to_dict(), "origin": origin, "sources": sources}
    write_json(about, given.out / "mlm.json")
    print(trained.card(), flush=True)
    split(trained.save(given.work / MLM_NAME, dtype="float16"), given.out)


def _told() -> Any:
    """A line of progress every ten seconds."""
    last = [time.monotonic()]

    def tell(step: int, total: int, text: str) -> None:
        if time.monotonic() - last[0] > 10:
            last[0] = time.monotonic()
            print(f"step {step} of {total}, {text}", flush=True)

    return tell


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    stages = parser.add_subparsers(dest="stage", required=True)
    for stage in ("nli", "mlm"):
        one = stages.add_parser(stage)
        one.add_argument("carry", type=Path)
        one.add_argument("out", type=Path)
        one.add_argument("--work", type=Path, default=Path("runs/bert"), help="folder for models")
        one.add_argument("--seconds", type=float, default=560.0 if stage == "nli" else 150.0)
        one.add_argument("--device", default="auto")
        one.add_argument("--tiny", action="store_true", help="a few pairs and steps, to try the script")
        if stage == "mlm":
            one.add_argument("--steps", type=int, default=5000, help="most steps; the time limit may end it earlier")
            continue
        one.add_argument("--data", choices=("snli", "all"), default="snli")
        one.add_argument("--seeds", type=int, default=5)
        one.add_argument("--only", nargs="+", choices=(*TRAINED, *TEST_ONLY, OTHERS), help="these conditions")
        one.add_argument("--no-extras", dest="extras", action="store_false", help="no random@test, no other probes")
        one.add_argument("--done", type=Path, help="nli.json of an earlier command")
        one.add_argument("--keep", nargs="*", default=["none-0", "he-she-0"], help="models to keep; the first is split")
        one.add_argument("--jobs", type=int, default=min(15, os.cpu_count() or 1), help="processes at once; 0: none")
        one.add_argument("--epochs", type=int)
        one.add_argument("--batch", type=int)
        one.add_argument("--learning-rate", type=float)
        one.add_argument("--precision", help="of the probe")
        one.add_argument("--sample", type=int, help="pairs of the probe; all for the trained models of seed 0 besides")
        one.add_argument("--no-whole", dest="whole", action="store_false", help="no probe of all pairs for seed 0")
        one.add_argument("--no-mps", action="store_true")
    parts = stages.add_parser("split")
    parts.add_argument("folder", type=Path)
    parts.add_argument("out", type=Path)
    whole = stages.add_parser("join")
    for name in ("parts", "name", "body", "folder"):
        whole.add_argument(name, type=str if name == "name" else Path)
    return parser.parse_args(given)


def main(given: argparse.Namespace) -> None:
    """Run one stage."""
    if given.stage in ("nli", "mlm") and not (given.carry / PACKED).exists():
        raise SystemExit(f"{given.carry}: no {PACKED}; write the folder with scripts/bert_carry.py")
    if given.stage == "nli":
        run_nli(given)
    elif given.stage == "mlm":
        run_mlm(given)
    elif given.stage == "split":
        split(given.folder, given.out)
    else:
        join(given.parts, given.name, given.body, given.folder)


if __name__ == "__main__":
    main(arguments())
