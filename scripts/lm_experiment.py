"""Train the language models of Bordia & Bowman 2019 side by side on one GPU.

    python scripts/lm_experiment.py --data DATA --out RUNS --checkpoints KEPT [--seconds 540]
    python scripts/lm_experiment.py --data DATA --out RUNS --checkpoints KEPT [--seconds 540] --finish

DATA as in lm_texts.py. Needs torch and no polars. One process for each (corpus, definition of the term, lambda, seed)
of PLAN, all at once unless --jobs says otherwise; runs of a corpus agree on the number of epochs that the slowest can
make in the time. A command without --finish trains, leaves a checkpoint of each run in KEPT, and the next one goes on
from there. With --finish each run then measures perplexity and writes 2,000 samples of 500 tokens, and RUNS gets
runs.json (histories, perplexities, speeds) and a few tar files with the samples as numbers, each well below 16 MB.
lm_pages.py scores them. --tiny does all of it small, on any machine.
"""

import argparse
import atexit
import json
import math
import multiprocessing
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from lm_texts import corpus_of
from torch.nn import functional

import evenhand
from evenhand import words
from evenhand.models.lm import BiasRegulariser, generate, perplexity, train
from evenhand.models.lm.awd_lstm.corpus import LMCorpus, columns
from evenhand.models.lm.awd_lstm.model_folder import settings_of
from evenhand.reproduce.bordia2019 import DEFINITIONS, PAIRS

SEEDS = (1111, 1112, 1113)


class Plan(NamedTuple):
    """What is trained on a corpus: (definition of the term, lambdas, seeds), and the most epochs."""

    parts: tuple[tuple[str, tuple[float, ...], tuple[int, ...]], ...]
    epochs: int


PLAN = {
    "ptb": Plan(
        (
            ("none", (0.0,), SEEDS),
            ("released", (0.01, 0.1, 1.0), SEEDS),
            ("printed", (0.01,), SEEDS[:1]),  # the strongest that leaves a model intact
        ),
        750,
    ),
    "wikitext-2": Plan((("none", (0.0,), SEEDS[:1]), ("released", (0.01, 0.1, 1.0), SEEDS[:1])), 750),
    # Short, since a text of this size is soon known by heart, and so that the others have the GPU to themselves.
    "cnn-dailymail": Plan((("none", (0.0,), SEEDS[:1]), ("released", (0.1, 0.5, 1.0), SEEDS[:1])), 40),
}
SAMPLES, TOKENS = 2000, 500
VALIDATION_COLUMNS = 40  # within training, for speed; what is reported is measured with REPORTED_COLUMNS
REPORTED_COLUMNS = 10
RESERVE = {True: 90.0, False: 35.0}  # seconds at the end: for perplexity and samples, or for checkpoints only
SAVE_EVERY = 240.0  # seconds; a checkpoint is some 300 MB
TOGETHER = 7  # runs in one tar file: about 10 MB
TINY = {"embedding": 24, "hidden": 40, "layers": 2, "batch": 8, "bptt": 20, "learning_rate": 10.0}
COMMANDS = "commands.json"  # beside the checkpoints: what each command did


class Job(NamedTuple):
    """One training."""

    corpus: str
    definition: str
    strength: float
    seed: int

    @property
    def name(self) -> str:
        """For files and records."""
        return f"{self.corpus}_{self.definition}_{self.strength:g}_{self.seed}"


class Shared(NamedTuple):
    """What the processes have in common."""

    corpora: dict[str, LMCorpus]
    jobs: list[Job]
    ends: list[float]  # when the training of each job ends, on the clock of time.monotonic
    folder: Path
    given: Any
    forecast: Any  # epochs that each job expects to reach


def planned(names: list[str]) -> list[Job]:
    """The jobs of some corpora, one seed after the other."""
    return [
        Job(name, definition, strength, seed)
        for name in names
        for seed in SEEDS
        for definition, strengths, seeds in PLAN[name].parts
        for strength in strengths
        if seed in seeds
    ]


def term_of(corpus: LMCorpus, job: Job, definition: str, strength: float) -> BiasRegulariser:
    """A regulariser for the words of a corpus."""
    pairs, index = words.pairs(PAIRS[job.corpus]), corpus.vocabulary.index
    return BiasRegulariser.from_words(pairs, index, strength=strength, **DEFINITIONS[definition])


def work(shared: Shared, place: int) -> None:
    """Train, and at the end measure and write: one process."""
    torch.set_num_threads(1)
    job, given = shared.jobs[place], shared.given
    corpus = shared.corpora[job.corpus]
    began, marks = time.monotonic(), []
    trained = train(
        corpus,
        settings=settings_of(job.corpus, eval_batch=VALIDATION_COLUMNS, **(TINY if given.tiny else {})),
        regulariser=term_of(corpus, job, job.definition, job.strength).on("input") if job.strength else None,
        seed=job.seed,
        device=given.device,
        precision=given.precision,
        epochs=min(given.epochs or math.inf, PLAN[job.corpus].epochs),
        time_limit=shared.ends[place] - began,
        checkpoint=given.checkpoints / f"{job.name}.safetensors" if given.checkpoints else None,
        save_every=SAVE_EVERY,
        stop=lambda history: _agreed(shared, place, began, marks, len(history)),
    )
    seconds = time.monotonic() - began
    found = {
        **job._asdict(),
        "name": job.name,
        "epochs": len(trained.history),
        "epochs_of_this_command": len(marks),
        "training_seconds_of_this_command": seconds,
    }
    if given.finish:
        found |= measured(trained, corpus, job) | written(trained, corpus, job, shared)
    unfinished = shared.folder / f"{job.name}.part"
    unfinished.write_text(json.dumps(found | {"manifest": trained.manifest}))
    unfinished.rename(shared.folder / f"{job.name}.json")  # from here on the run counts


def measured(trained: Any, corpus: LMCorpus, job: Job) -> dict[str, Any]:
    """Perplexity, and what the term has to do with the weights at the end."""
    terms = {name: term_of(corpus, job, name, 1.0) for name in DEFINITIONS}
    with torch.no_grad():
        energies = {name: float(term.energy(trained.model.encoder.weight)) for name, term in terms.items()}
    return {
        "valid_perplexity": perplexity(trained.model, corpus.valid, batch=REPORTED_COLUMNS),
        "test_perplexity": perplexity(trained.model, corpus.test, batch=REPORTED_COLUMNS),
        "energy": energies["printed"],
        "energies": energies,
        "directions": {name: term.k for name, term in terms.items()},
        "pairs_lost": len(terms["printed"].lost),
        **lengths(trained.model.encoder.weight.detach(), terms["printed"]),
        "gradients": gradients(trained.model, corpus, job),
    }


def lengths(table: Any, term: BiasRegulariser) -> dict[str, float]:
    """The median length of all rows, and of the gendered words' rows."""
    found = table.norm(dim=1)
    return {"row_length": float(found.median()), "gendered_row_length": float(found[term.spared].median())}


def gradients(model: Any, corpus: LMCorpus, job: Job) -> dict[str, float]:
    """Norms of the gradients of cross-entropy, of the term, and of both together, on one stretch of training text."""
    settings = model.settings
    text = columns(corpus.train, settings.batch, model.encoder.weight.device)[: settings.bptt + 1]
    model.train()
    out = model(text[:-1], model.start(text.shape[1]), generator=torch.Generator(text.device).manual_seed(0))
    loss = functional.cross_entropy(out.logits.flatten(0, 1).float(), text[1:].flatten())
    parameters = list(model.parameters())
    one = torch.autograd.grad(loss, parameters)
    both = list(one)
    found = {"loss": _norm(one)}
    if job.strength:
        term = term_of(corpus, job, job.definition, job.strength).on("input")
        other = torch.autograd.grad(term(model), parameters, allow_unused=True)
        both = [a if b is None else a + b for a, b in zip(one, other, strict=True)]
        found["term"] = _norm([b for b in other if b is not None])
    model.eval()
    return {**found, "both": _norm(both), "clip": settings.clip}


def _norm(tensors: Any) -> float:
    return float(torch.stack([tensor.float().square().sum() for tensor in tensors]).sum().sqrt())


def written(trained: Any, corpus: LMCorpus, job: Job, shared: Shared) -> dict[str, Any]:
    """What the model writes, in a file."""
    began = time.monotonic()
    samples, tokens = (30, 50) if shared.given.tiny else (SAMPLES, TOKENS)
    drawn = generate(trained.model, corpus.vocabulary, samples=samples, tokens=tokens, seed=job.seed)
    np.savez_compressed(shared.folder / f"{job.name}.npz", samples=drawn.astype(np.uint16))
    return {"generation_seconds": time.monotonic() - began}


def _agreed(shared: Shared, place: int, began: float, marks: list[float], epochs: int) -> bool:
    """Whether this run has as many epochs as the slowest run of its corpus will come to; asked after each epoch."""
    marks.append(time.monotonic())
    each = (marks[-1] - marks[0]) / (len(marks) - 1) if len(marks) > 1 else marks[0] - began
    shared.forecast[place] = epochs + math.floor(max(0.0, shared.ends[place] - marks[-1]) / each)
    corpus = shared.jobs[place].corpus
    least = min(shared.forecast[other] for other, job in enumerate(shared.jobs) if job.corpus == corpus)
    return epochs >= least


def run(given: Any) -> None:
    """Start the processes, wait, gather."""
    began = time.monotonic()
    names = given.corpora.split(",")
    corpora = {name: corpus_of(name, given.data, tiny=given.tiny) for name in names}
    jobs = planned(names)[: given.runs]
    sharing = share_gpu() if given.device != "cpu" and not given.no_mps else "off"
    context = multiprocessing.get_context("fork")  # torch and the texts are loaded once; no process has touched the GPU
    for folder in filter(None, (given.out, given.checkpoints)):
        folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        forecast = context.Array("d", [math.inf] * len(jobs), lock=False)
        shared = Shared(corpora, jobs, _ends(given, began, len(jobs)), Path(folder), given, forecast)
        failed = _processes(context, shared, began + given.seconds)
        records = [json.loads(path.read_text()) for path in sorted(Path(folder).glob("*.json"))]
        commands = _commands(given, records, corpora)
        files = _pack(Path(folder), given.out) if given.finish else []
    about = {
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "commands": commands,
        "side_by_side": min(given.jobs or len(jobs), len(jobs)),
        "mps": sharing,
        "training_tokens": sum(command["training_tokens"] for command in commands),
        "training_seconds": sum(command["training_seconds"] for command in commands),
        "device": records[0]["manifest"]["device_name"] if records else "",
        "evenhand": evenhand.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "perplexity_columns": REPORTED_COLUMNS,
        "corpora": {name: corpus.describe() for name, corpus in corpora.items()},
        "samples": files,
        "failed": failed,
    }
    name = "runs.json" if given.finish else "progress.json"
    (given.out / name).write_text(json.dumps({"about": about, "runs": records}))
    print(f"{len(records)} of {len(jobs)} runs in {time.monotonic() - began:.0f} s; failed: {failed}")
    for record in records:
        print(_told(record))
    if failed:
        raise SystemExit(1)


def _told(record: dict[str, Any]) -> str:
    history = record["manifest"]["history"]
    now = f"valid {history[-1]['valid_perplexity']:.2f}" if history else "nothing validated"
    test = f" test {record['test_perplexity']:.2f}" if "test_perplexity" in record else ""
    return f"{record['name']}: {record['epochs']} epochs, {now}{test}"


def _commands(given: Any, records: list[dict[str, Any]], corpora: dict[str, LMCorpus]) -> list[dict[str, Any]]:
    """What this command trained, after those before it."""
    path = given.checkpoints / COMMANDS if given.checkpoints else None
    before = json.loads(path.read_text()) if path and path.exists() else []
    tokens = sum(record["epochs_of_this_command"] * len(corpora[record["corpus"]].train) for record in records)
    longest = max((record["training_seconds_of_this_command"] for record in records), default=0.0)
    commands = [*before, {"training_tokens": tokens, "training_seconds": longest, "runs": len(records)}]
    if path:
        path.write_text(json.dumps(commands))
    return commands


def _ends(given: Any, began: float, jobs: int) -> list[float]:
    """Jobs that do not fit beside each other take turns, and share the time."""
    at_once = min(given.jobs or jobs, jobs)
    turn = given.seconds / math.ceil(jobs / at_once)
    reserve = RESERVE[given.finish] if given.reserve is None else given.reserve
    return [began + turn * (place // at_once + 1) - reserve for place in range(jobs)]


def _processes(context: Any, shared: Shared, deadline: float) -> dict[str, str]:
    """Run the jobs, so many at once; what is not done at the deadline is ended. Says who failed and how."""
    waiting, running = list(range(len(shared.jobs))), {}
    limit, failed = shared.given.jobs or len(waiting), {}
    while (waiting or running) and time.monotonic() < deadline:
        while waiting and len(running) < limit:
            place = waiting.pop(0)
            running[place] = context.Process(target=work, args=(shared, place))
            running[place].start()
        time.sleep(0.2)
        for place in [place for place, process in running.items() if not process.is_alive()]:
            if code := running.pop(place).exitcode:
                failed[shared.jobs[place].name] = f"exit code {code}"
                shared.forecast[place] = math.inf
    for place, process in running.items():
        process.terminate()
        failed[shared.jobs[place].name] = "not done in time"
    return failed | {shared.jobs[place].name: "not begun in time" for place in waiting}


def _pack(folder: Path, out: Path) -> list[str]:
    """The samples of some runs in one file each."""
    made = []
    for corpus in PLAN:
        paths = sorted(path.with_name(f"{path.stem}.npz") for path in folder.glob(f"{corpus}_*.json"))
        for number, start in enumerate(range(0, len(paths), TOGETHER)):
            made.append(f"samples-{corpus}-{number}.tar")
            with tarfile.open(out / made[-1], "w") as tar:
                for path in paths[start : start + TOGETHER]:
                    tar.add(path, path.name)
    return made


def share_gpu() -> str:
    """Let kernels of several processes run at the same time, where the driver's service for it can be started."""
    control = shutil.which("nvidia-cuda-mps-control", path=os.environ["PATH"] + ":/usr/local/nvidia/bin:/usr/bin")
    if not control:
        return "not installed"
    place = tempfile.mkdtemp()
    names = {"CUDA_MPS_PIPE_DIRECTORY": place, "CUDA_MPS_LOG_DIRECTORY": place}
    os.environ.update(names)
    atexit.register(subprocess.run, [control], input=b"quit\n", check=False, timeout=20, capture_output=True)
    subprocess.run([control, "-d"], check=False, timeout=20)
    check = [sys.executable, "-c", "import torch; torch.ones(9).cuda().sum().item()"]
    try:
        works = subprocess.run(check, check=False, timeout=60, capture_output=True).returncode == 0
    except subprocess.TimeoutExpired:
        works = False
    if works:
        return "on"
    for name in names:
        del os.environ[name]
    return "did not work"


def arguments(given: list[str] | None = None) -> Any:
    """What the command line says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--checkpoints", type=Path, help="folder; the next command with it goes on")
    parser.add_argument("--finish", action="store_true", help="after training measure perplexity and write samples")
    parser.add_argument("--corpora", default=",".join(PLAN))
    parser.add_argument("--seconds", type=float, default=540.0, help="for everything")
    parser.add_argument("--reserve", type=float, help="seconds of it that are not for training")
    parser.add_argument("--jobs", type=int, help="processes at once; all unless given")
    parser.add_argument("--runs", type=int, help="only the first so many runs of the plan")
    parser.add_argument("--epochs", type=int, help="most epochs, of all commands together")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--no-mps", action="store_true")
    parser.add_argument("--tiny", action="store_true")
    found = parser.parse_args(given)
    if not (found.finish or found.checkpoints):
        parser.error("training is lost without --checkpoints or --finish")
    return found


if __name__ == "__main__":
    run(arguments())
