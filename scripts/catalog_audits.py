"""Audit models of the catalog before and after their methods, one process for each stage.

    PYTHONPATH=src python scripts/catalog_audits.py smollm2-135m gte-small --copy "$OUT" --seconds 540 --jobs 9

Models are Hugging Face folders (`evenhand convert`) in runs/catalog/models, data sets lie in runs/catalog/data (--work
names another folder). Each answer is kept in
runs/catalog/results/MODEL/STAGE.json.gz, so a stopped run goes on with the same command. MODEL.json has the numbers of
all stages without their items, and is written anew whenever a stage ends. --copy puts both into another folder; give
that folder as --done to a later run on another machine, which then asks only what is missing. --tiny asks little of
everything, to try the script on any machine. Needs torch, transformers, scipy and scikit-learn, no network.

An encoder is audited as it is, then with methods at its word table (linear, inlp, leace, random), at its last layer
(leace, sentence-debias) and inside all layers (scrubbing). A causal language model is audited as it is, with methods at
its word table (linear) and at its middle layer (linear, leace, random), with self-debias, and after further training on
WikiText-2: as it is (the control), with counterfactual copies, with more dropout. A masked language model is audited as
an encoder is, with self-debias, and after further training.
"""

import argparse
import gzip
import json
import multiprocessing
import os
import platform
import re
import shutil
import sys
import tarfile
import time
import traceback
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

TRAINED = ("fine-tuning", "cda-tuning", "dropout-tuning")
ORIGINAL = "original"
STAGES = "-stages.tar"
CONCEPT, SEED = "gender", 0
VIEWS = ("likelihood", "labels", "sentences", "generation", "vectors")  # in the order of their worth
PREDICTIONS = ("likelihood", "generation")  # all that self-debias changes
NOT_RUN = {"corpus-bias": "counts words with polars, which the machine with the GPU does not have"}
DATA_FOLDER = "data"
WIKITEXT = "wikitext-2-test"
# Options where the default is made for two CPU cores.
OPTIONS: dict[str, dict[str, Any]] = {
    "bbq": {"sample": 480},
    "honest": {"sample": 300},
    "holistic-bias": {"descriptors": 20, "nouns": 12, "templates": 10},
    "counterfactual-text": {"rows": None, "samples": 8},
    "pronoun-share": {"sample": 0},
    "winobias": {"sample": 0},
    "winogender": {"sample": 0},
}
TINY_OPTIONS: dict[str, dict[str, Any]] = {
    "bbq": {"sample": 8},
    "honest": {"sample": 16},
    "holistic-bias": {"descriptors": 3, "nouns": 2, "templates": 2},
    "counterfactual-text": {"rows": 1, "samples": 2},
    "pronoun-share": {"sample": 20},
    "winobias": {"sample": 8},
    "winogender": {"sample": 12},
}
# The last token of every sentence is a full stop, whose vector at layer 0 is the same everywhere.
CAUSAL_OPTIONS: dict[str, dict[str, Any]] = {"layer-bias": {"pooling": "mean"}}
TRAINING = {"steps": 600, "tokens": 8192, "learning_rate": 5e-5}
TINY_TRAINING = {"steps": 3, "tokens": 256, "learning_rate": 5e-5}
TEST_LINES = 400  # of WikiText-2's test part
ITEM_VIEWS = ("likelihood", "labels", "sentences")  # whose items are kept, to compare stages item by item
FEW_ITEMS = 60  # of other views
PACKAGES = ("torch", "transformers", "tokenizers", "numpy", "scipy", "scikit-learn", "safetensors")


class Job(NamedTuple):
    """One stage of one model; everything that a process needs."""

    model: str
    stage: str
    work: Path
    device: str
    precision: str
    tiny: bool
    deadline: float
    threads: int
    gpu_share: float  # of the memory of the GPU; a process that meets its limit halves its batches
    training: dict[str, Any]

    @property
    def file(self) -> Path:
        """Where the answers lie."""
        return self.work / "results" / self.model / f"{self.stage.replace(':', '-')}.json.gz"

    @property
    def folder(self) -> Path:
        """The model."""
        return self.work / "models" / self.model


def stages(folder: Path) -> list[str]:
    """The stages of a model, the most valuable first."""
    config = json.loads((folder / "config.json").read_text())
    layers = int(config["num_hidden_layers"])
    if any("CausalLM" in name for name in config.get("architectures") or ()):
        middle = f"layer:{layers // 2}"
        return [
            ORIGINAL, "cda-tuning", "fine-tuning", "dropout-tuning", "self-debias", f"leace@{middle}",
            f"linear@{middle}", f"random@{middle}", "linear",
        ]  # fmt: skip
    last = f"layer:{layers}"
    if any("MaskedLM" in name for name in config.get("architectures") or ()):
        return [
            ORIGINAL, "cda-tuning", "fine-tuning", "dropout-tuning", "self-debias", "linear", "leace", f"leace@{last}",
            "sentence-debias", "scrubbing", "random",
        ]  # fmt: skip
    return [ORIGINAL, "linear", "leace", "inlp", "sentence-debias", "scrubbing", f"leace@{last}", "random"]


def wikitext(path: Path) -> Iterator[str]:
    """Yield the paragraphs of a part of WikiText-2 as plain text, without sentences that have unknown words."""
    for line in path.read_text(encoding="utf-8").split("\n"):
        if not line.strip() or line.strip().startswith("="):
            continue
        sentences = [part for part in re.split(r"(?<= [.!?]) ", line.strip()) if "<unk>" not in part]
        text = re.sub(r" @([-,.])@ ", r"\1", " ".join(sentences))
        text = re.sub(r" ([,.;:!?)']|n't\b|'s\b)", r"\1", text).replace("( ", "(").replace('" ', '"', 1)
        if len(text.split()) >= 8:
            yield text


def questions_of(job: Job, subject: Any) -> tuple[list[Any], dict[str, str]]:
    """The questions of a default audit with larger samples, and why some are not asked."""
    from evenhand.audit.plan import Plan, Question

    options = (TINY_OPTIONS if job.tiny else OPTIONS) | (CAUSAL_OPTIONS if "generation" in subject.offers else {})
    asked = Plan.default([subject], methods=[], concept=CONCEPT, seed=SEED).for_subject(subject)
    left_out = {q.label(): NOT_RUN[q.measure] for q in asked if q.measure in NOT_RUN}
    kept = [replace(q, options={**q.options, **options.get(q.measure, {})}) for q in asked if q.measure not in NOT_RUN]
    if "likelihood" in subject.offers:
        text = job.work / f"{WIKITEXT}.txt"
        kept.insert(0, Question("perplexity", str(text), variant=""))
    if job.stage == "self-debias":
        left_out |= {q.label(): "self-debias changes predictions only" for q in kept if q.info.view not in PREDICTIONS}
        kept = [q for q in kept if q.info.view in PREDICTIONS]
    return sorted(kept, key=lambda q: VIEWS.index(q.info.view)), left_out


def label_of(question: Any) -> str:
    """The name of a question in the record."""
    return f"perplexity:{WIKITEXT}" if WIKITEXT in question.query else str(question.label())


def changed_subject(job: Job, subject: Any, log: Any) -> tuple[Any, dict[str, Any]]:
    """Fit the method of a stage and return the changed subject with the report of the method."""
    from evenhand import mitigations, words
    from evenhand.audit.runner import apply_chain

    about = words.concept(CONCEPT)
    if job.stage not in TRAINED:
        return apply_chain("" if job.stage == ORIGINAL else job.stage, subject, about, seed=SEED)
    from evenhand.mitigations.training.fine_tuning import TrainedWeights

    out = job.work / "trained" / f"{job.model}-{job.stage}"
    method = mitigations.get(job.stage)(**job.training, seed=SEED, device=job.device)  # type: ignore[call-arg]
    report_file = out / "report.json"
    if report_file.exists():
        change = TrainedWeights(out, json.loads(report_file.read_text()))
    else:
        shutil.rmtree(out, ignore_errors=True)
        texts = list(wikitext(job.work / "data" / "wikitext-2" / "train.txt"))
        change = method.train(job.folder, out, about, texts=texts[:400] if job.tiny else texts)  # type: ignore[attr-defined]
        report_file.write_text(json.dumps(dict(change.report)))
    log(f"trained: loss {change.report['training']['history'][-1]['loss']:.3f}")
    return subject.changed(change), dict(change.report)


def measure(job: Job) -> dict[str, Any]:
    """Ask every question of one stage: one process."""
    import torch

    from evenhand import open as open_subject
    from evenhand import words
    from evenhand.audit.runner import ask, collected_warnings
    from evenhand.measures.registry import as_measurements

    torch.set_num_threads(job.threads)
    if job.device.startswith("cuda"):
        torch.cuda.set_per_process_memory_fraction(job.gpu_share)
    began = time.monotonic()

    def log(text: str) -> None:
        print(f"{job.model} {job.stage} {time.monotonic() - began:6.1f} s  {text}", flush=True)

    record: dict[str, Any] = read(job.file) if job.file.exists() else {"answers": {}, "seconds": 0.0}
    record |= {"model": job.model, "stage": job.stage, "complete": False}
    if record.get("tiny", job.tiny) != job.tiny:
        record["answers"] = {}
    record["tiny"] = job.tiny
    subject = open_subject(f"hf:{job.folder}", device=job.device, precision=job.precision)
    asked, record["not_run"] = questions_of(job, subject)
    record["subject"] = subject.describe()
    missing = [question for question in asked if label_of(question) not in record["answers"]]
    if missing:
        with collected_warnings() as notes:
            changed, record["report"] = changed_subject(job, subject, log)
        record["warnings"] = notes
    about = words.concept(CONCEPT)
    for number, question in enumerate(missing):
        if time.time() > job.deadline:
            log(f"stopped with {len(missing) - number} questions left")
            break
        started = time.monotonic()
        with collected_warnings() as notes:
            try:
                found = as_measurements(ask(question, changed, about, reference=subject, seed=SEED))
            except Exception as error:  # one failing question must not cost the others
                log(f"{label_of(question)} failed: {traceback.format_exc(limit=-2)}")
                record.setdefault("failed", {})[label_of(question)] = f"{type(error).__name__}: {error}"
                continue
        record.setdefault("failed", {}).pop(label_of(question), None)
        keep = question.info.view in ITEM_VIEWS or all(len(m.items) <= FEW_ITEMS for m in found)
        record["answers"][label_of(question)] = {
            "view": question.info.view,
            "family": question.info.family,
            "seconds": round(time.monotonic() - started, 2),
            "warnings": notes,
            "measurements": [m.to_dict() | ({} if keep else {"items": []}) for m in found],
        }
        write(job.file, record)
    record["complete"] = all(label_of(q) in record["answers"] for q in asked)
    record["seconds"] = round(record["seconds"] + time.monotonic() - began, 1)
    write(job.file, record)
    log(f"{len(record['answers'])} of {len(asked)} answered")
    return record


def read(path: Path) -> dict[str, Any]:
    """Read the record of a stage."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        found: dict[str, Any] = json.load(file)
    return found


def write(path: Path, record: dict[str, Any]) -> None:
    """Write a record that is whole at every moment."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".unfinished")
    with gzip.open(partial, "wt", encoding="utf-8", compresslevel=5) as file:
        json.dump(record, file, default=str)
    partial.replace(path)


def write_model(model: str, given: Any) -> None:
    """Write the compact record of a model from the records of its stages, and copy both."""
    from evenhand import __version__, words
    from evenhand.measures import info

    folder = given.work / "results" / model
    records = [read(path) for path in sorted(folder.glob("*.json.gz"))]
    order = stages(given.work / "models" / model)
    records.sort(key=lambda record: order.index(record["stage"]))
    plain: dict[str, Any] = {
        "model": model,
        "concept": CONCEPT,
        "concept_digest": words.concept(CONCEPT).digest,
        "seed": SEED,
        "tiny": given.tiny,
        "evenhand": __version__,
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": machine(given.device) | {"precision": given.precision},
        "subject": records[0]["subject"],
        "training": training(given),
        "stages": {},
    }
    for record in records:
        rows = {}
        for label, answer in record["answers"].items():
            for found in answer["measurements"]:
                name = ":".join(filter(None, (label, found["score"])))
                rows[name] = {
                    "view": answer["view"],
                    "family": answer["family"],
                    "better": info(found["measure"]).better_score(found["score"]),
                    "value": found["value"],
                    "interval": found["interval"],
                    "p_value": found["p_value"],
                    "n": found["n"],
                    "lost": len(found["coverage"]["missing"]) or left_out(found["details"].get("left_out", 0)),
                } | ({"reason": found["reason"]} if found["value"] is None else {})
        plain["stages"][record["stage"]] = {
            key: record.get(key) for key in ("complete", "seconds", "report", "warnings", "not_run", "failed")
        } | {"rows": rows}
    path = folder.parent / f"{model}.json"
    path.write_text(json.dumps(plain, indent=1, default=str) + "\n", encoding="utf-8")
    if given.copy:
        given.copy.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, given.copy / path.name)
        partial = given.copy / f"{model}{STAGES}.unfinished"
        with tarfile.open(partial, "w") as archive:  # few files come back from a machine with a GPU
            for record_file in sorted(folder.glob("*.json.gz")):
                archive.add(record_file, f"{model}/{record_file.name}")
        partial.replace(given.copy / f"{model}{STAGES}")


def left_out(items: Any) -> int:
    """How many items a measure left out, which gives their number or names."""
    return items if isinstance(items, int) else len(items)


def machine(device: str) -> dict[str, Any]:
    """What the numbers were made on."""
    import torch

    name = torch.cuda.get_device_name() if device.startswith("cuda") and torch.cuda.is_available() else "cpu"
    packages = {}
    for package in PACKAGES:
        try:
            packages[package] = version(package)
        except PackageNotFoundError:
            continue
    return {"device": name, "python": platform.python_version(), "packages": packages}


def training(given: Any) -> dict[str, Any]:
    """The settings of further training."""
    return dict(TINY_TRAINING) if given.tiny else TRAINING | {"steps": given.steps}


def bring_back(given: Any) -> None:
    """Put the records of an earlier run where this one looks for them."""
    for path in given.done.glob(f"*{STAGES}"):
        with tarfile.open(path) as archive:
            members = [entry for entry in archive if not (given.work / "results" / entry.name).exists()]
            archive.extractall(given.work / "results", members=members, filter="data")


def jobs_of(given: Any) -> list[Job]:
    """All stages of all models, originals first."""
    threads = max(1, (os.cpu_count() or 1) // given.jobs)
    deadline = time.time() + given.seconds
    found = []
    for model in given.models:
        folder = given.work / "models" / model
        if not (folder / "config.json").is_file():
            print(f"{model}: no folder {folder}, left out", flush=True)
            continue
        for stage in stages(folder):
            if given.only is None or stage in given.only:
                found.append(
                    Job(
                        model,
                        stage,
                        given.work,
                        given.device,
                        given.precision,
                        given.tiny,
                        deadline,
                        threads,
                        given.gpu_share,
                        training(given),
                    )
                )
    return found


def main() -> None:
    """Run what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--work", type=Path, default=Path("runs/catalog"))
    parser.add_argument("--copy", type=Path, help="folder that gets the records as well, such as $OUT")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--done", type=Path, help="folder with records of an earlier --copy")
    parser.add_argument("--steps", type=int, default=TRAINING["steps"], help="of further training")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--seconds", type=float, default=560, help="no question is begun later")
    parser.add_argument("--jobs", type=int, default=9, help="processes")
    parser.add_argument("--gpu-share", type=float, default=0.1, help="of the GPU's memory, for each process")
    parser.add_argument("--only", nargs="*", help="stages")
    parser.add_argument("--tiny", action="store_true")
    given = parser.parse_args()
    os.environ["EVENHAND_DATA"] = str((given.work / DATA_FOLDER).resolve())
    os.environ |= {"EVENHAND_OFFLINE": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    from evenhand.models.device import resolve_device

    given.work, given.device = given.work.resolve(), resolve_device(given.device)
    lines = list(wikitext(given.work / DATA_FOLDER / "wikitext-2" / "test.txt"))[: 8 if given.tiny else TEST_LINES]
    (given.work / f"{WIKITEXT}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    if given.done:
        bring_back(given)
    jobs = jobs_of(given)
    if given.device.startswith("cuda") and given.jobs > 1:
        from lm_experiment import share_gpu

        print("sharing of the GPU:", share_gpu(), flush=True)
    os.environ["OMP_NUM_THREADS"] = str(jobs[0].threads if jobs else 1)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(given.jobs, mp_context=context, max_tasks_per_child=1) as pool:
        running = {pool.submit(measure, job): job for job in jobs}
        for future in as_completed(running):
            job = running[future]
            try:
                future.result()
            except Exception as error:
                print(f"{job.model} {job.stage} FAILED: {error!r}", flush=True)
                traceback.print_exception(error, limit=-6)
            if any((given.work / "results" / job.model).glob("*.json.gz")):
                write_model(job.model, given)


if __name__ == "__main__":
    warnings.simplefilter("ignore", FutureWarning)
    main()
