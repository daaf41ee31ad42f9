"""Train the language models of Bordia & Bowman 2019 side by side on one GPU, and score the text they write.

    python scripts/lm_experiment.py --data DATA --out RUNS [--seconds 540] [--corpora ptb,wikitext-2] [--jobs 26]
    python scripts/lm_experiment.py --data DATA --out RUNS --score [--page docs/reproductions/bordia2019.json]

DATA has the folders ptb, wikitext-2 and cnn-dailymail-1000. The first command needs torch and no polars. It starts one
process for each (corpus, lambda, seed) of PLAN, all at once unless --jobs says otherwise; runs of a corpus agree on
the number of epochs that the slowest can make in the time. Each then measures perplexity and writes 2,000 samples of
500 tokens. RUNS gets runs.json (histories, perplexities, speeds) and a few tar files with the samples as numbers, each
well below 16 MB. Weights are not kept. The second command needs no GPU: it scores the samples and the training texts
with `evenhand.corpus`, writes the page's JSON and prints its tables. --tiny does all of it small, on any machine.
"""

import argparse
import atexit
import csv
import io
import json
import math
import multiprocessing
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import unicodedata
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

import evenhand
from evenhand import words
from evenhand.models.lm import BiasRegulariser, generate, perplexity, train
from evenhand.models.lm.corpus import LMCorpus
from evenhand.models.lm.settings import settings_of
from evenhand.models.lm.vocabulary import EOS, TokenVocabulary


class Plan(NamedTuple):
    """What is trained on a corpus, and the pairs that span its gender subspace."""

    pairs: str
    lambdas: tuple[float, ...]
    seeds: tuple[int, ...]


PLAN = {
    "ptb": Plan("bordia2019-ptb", (0.0, 0.01, 0.1, 1.0), (1111, 1112, 1113)),
    "wikitext-2": Plan("bordia2019-wt2", (0.0, 0.01, 0.1, 1.0), (1111,)),
    "cnn-dailymail": Plan("bordia2019-cnn-dm", (0.0, 0.1, 0.5, 1.0), (1111,)),
}
SAMPLES, TOKENS = 2000, 500
VALIDATION_COLUMNS = 40  # within training, for speed; what is reported is measured with REPORTED_COLUMNS
REPORTED_COLUMNS = 10
RARE = 3  # of the CNN/Daily Mail subset: words of fewer occurrences are <unk>; the paper gives no limit
RESERVE = 75.0  # seconds at the end for perplexity and samples of all runs
TOGETHER = 7  # runs in one tar file: about 10 MB
TINY = {"embedding": 24, "hidden": 40, "layers": 2, "batch": 8, "bptt": 20, "learning_rate": 10.0}


class Job(NamedTuple):
    """One training."""

    corpus: str
    strength: float
    seed: int

    @property
    def name(self) -> str:
        """For files and records."""
        return f"{self.corpus}_{self.strength:g}_{self.seed}"


class Shared(NamedTuple):
    """What the processes have in common."""

    corpora: dict[str, LMCorpus]
    jobs: list[Job]
    ends: list[float]  # when the training of each job ends, on the clock of time.monotonic
    folder: Path
    given: Any
    forecast: Any  # epochs that each job expects to reach


def corpus_of(name: str, data: Path, *, tiny: bool) -> LMCorpus:
    """A corpus of the plan."""
    if name == "cnn-dailymail":
        found = daily_mail(data / "cnn-dailymail-1000" / "cnn_dailymail_validation_subset.csv")
    else:
        found = LMCorpus.folder(data / name)
    if not tiny:
        return found
    return replace(found, train=found.train[:60_000], valid=found.valid[:3_000], test=found.test[:3_000])


def daily_mail(path: Path) -> LMCorpus:
    """1,000 articles: 800 to train, 100 to validate, 100 to test; one sentence a line.

    As far as the paper says: no highlights, ASCII, lower case, numbers as <num>, other symbols stripped. Sentences end
    at . ! or ?. The paper has spaCy's sentences of 219,506 articles, of which it takes one in 100.
    """
    with path.open(encoding="utf-8", newline="") as file:
        articles = [row["article"] for row in csv.DictReader(file)]
    tokens = [[token for line in sentences(article) for token in (*line, EOS)] for article in articles]
    texts = [[token for article in part for token in article] for part in (tokens[:800], tokens[800:900], tokens[900:])]
    vocabulary = TokenVocabulary.of(texts[:1], min_count=RARE, unknown=True)
    train_, valid, test = (vocabulary.encode(text) for text in texts)
    return LMCorpus(train_, valid, test, vocabulary, name="cnn-dailymail-1000", counted="train")


def sentences(article: str) -> list[list[str]]:
    """The words of each sentence."""
    body = article.split("\n@highlight")[0]
    plain = unicodedata.normalize("NFKD", body).encode("ascii", "ignore").decode().lower()
    lines = re.split(r"[.!?]+\s", re.sub(r"\d[\d.,]*\d|\d", " <num> ", plain))
    found = (re.findall(r"<num>|[a-z]+", line) for line in lines)
    return [line for line in found if line]


def term_of(corpus: LMCorpus, pairs: str, strength: float) -> BiasRegulariser:
    """The paper's regulariser for the words of a corpus."""
    return BiasRegulariser.from_words(words.pairs(pairs), corpus.vocabulary.index, strength=strength)


def work(shared: Shared, place: int) -> None:
    """Train, measure, write: one process."""
    torch.set_num_threads(1)
    job, given = shared.jobs[place], shared.given
    corpus = shared.corpora[job.corpus]
    changes = {"eval_batch": VALIDATION_COLUMNS, **(TINY if given.tiny else {})}
    settings = settings_of(job.corpus, **changes)
    term = term_of(corpus, PLAN[job.corpus].pairs, job.strength or 1.0)
    began, marks = time.monotonic(), []
    trained = train(
        corpus,
        settings=settings,
        regulariser=term.on("input") if job.strength else None,
        seed=job.seed,
        device=given.device,
        precision=given.precision,
        epochs=given.epochs,
        time_limit=shared.ends[place] - began,
        stop=lambda history: _agreed(shared, place, began, marks),
    )
    ended = time.monotonic()
    with torch.no_grad():
        energy = float(term.energy(trained.model.encoder.weight))
    found = {
        **job._asdict(),
        "lambda": job.strength,
        "valid_perplexity": perplexity(trained.model, corpus.valid, batch=REPORTED_COLUMNS),
        "test_perplexity": perplexity(trained.model, corpus.test, batch=REPORTED_COLUMNS),
        "subspace_energy": energy,
        "subspace_dimensions": term.k,
        "pairs_lost": len(term.lost),
        "training_seconds": ended - began,
        "tokens_per_second": len(trained.history) * len(corpus.train) / (ended - began),
        "manifest": trained.manifest,
    }
    samples, tokens = (30, 50) if given.tiny else (SAMPLES, TOKENS)
    drawn = generate(trained.model, corpus.vocabulary, samples=samples, tokens=tokens, seed=job.seed)
    found["generation_seconds"] = time.monotonic() - ended
    np.savez_compressed(shared.folder / f"{job.name}.npz", samples=drawn.astype(np.uint16))
    unfinished = shared.folder / f"{job.name}.part"
    unfinished.write_text(json.dumps(found))
    unfinished.rename(shared.folder / f"{job.name}.json")  # from here on the run counts


def _agreed(shared: Shared, place: int, began: float, marks: list[float]) -> bool:
    """Whether this run has as many epochs as the slowest run of its corpus will come to; asked after each epoch."""
    marks.append(time.monotonic())
    each = (marks[-1] - marks[0]) / (len(marks) - 1) if len(marks) > 1 else marks[0] - began
    shared.forecast[place] = len(marks) + math.floor(max(0.0, shared.ends[place] - marks[-1]) / each)
    corpus = shared.jobs[place].corpus
    least = min(shared.forecast[other] for other, job in enumerate(shared.jobs) if job.corpus == corpus)
    return len(marks) >= least


def run(given: Any) -> None:
    """Start the processes, wait, gather."""
    began = time.monotonic()
    names = given.corpora.split(",")
    corpora = {name: corpus_of(name, given.data, tiny=given.tiny) for name in names}
    jobs = [Job(name, strength, seed) for name in names for seed in PLAN[name].seeds for strength in PLAN[name].lambdas]
    jobs = jobs[: given.runs]
    sharing = share_gpu() if given.device != "cpu" and not given.no_mps else "off"
    context = multiprocessing.get_context("fork")  # torch and the texts are loaded once; no process has touched the GPU
    given.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        forecast = context.Array("d", [math.inf] * len(jobs), lock=False)
        shared = Shared(corpora, jobs, _ends(given, began, len(jobs)), Path(folder), given, forecast)
        failed = _processes(context, shared, began + given.seconds)
        records = [json.loads(path.read_text()) for path in sorted(Path(folder).glob("*.json"))]
        files = _pack(Path(folder), given.out)
    took = time.monotonic() - began
    tokens = sum(record["manifest"]["epochs"] * len(corpora[record["corpus"]].train) for record in records)
    about = {
        "seconds": took,
        "side_by_side": min(given.jobs or len(jobs), len(jobs)),
        "mps": sharing,
        "training_tokens": tokens,
        "tokens_per_second_together": tokens / max(1.0, given.seconds - given.reserve),
        "device": records[0]["manifest"]["device_name"] if records else "",
        "evenhand": evenhand.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "corpora": {name: corpus.describe() for name, corpus in corpora.items()},
        "samples": files,
        "failed": failed,
    }
    (given.out / "runs.json").write_text(json.dumps({"about": about, "runs": records}))
    print(f"{len(records)} of {len(jobs)} runs in {took:.0f} s, {tokens:,} tokens; failed: {failed}")
    for record in records:
        line = "{corpus} lambda {lambda} seed {seed}: valid {valid_perplexity:.2f} test {test_perplexity:.2f}"
        print(line.format(**record), f"after {record['manifest']['epochs']} epochs")
    if failed:
        raise SystemExit(1)


def _ends(given: Any, began: float, jobs: int) -> list[float]:
    """Jobs that do not fit beside each other take turns, and share the time."""
    at_once = min(given.jobs or jobs, jobs)
    turn = given.seconds / math.ceil(jobs / at_once)
    return [began + turn * (place // at_once + 1) - given.reserve for place in range(jobs)]


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


def samples_of(folder: Path) -> dict[str, Any]:
    """The samples of every run, by its name."""
    found = {}
    for path in sorted(folder.glob("samples-*.tar")):
        with tarfile.open(path) as tar:
            for member in tar:
                content = tar.extractfile(member)
                if content is not None:
                    found[member.name.removesuffix(".npz")] = np.load(io.BytesIO(content.read()))["samples"]
    return found


def main() -> None:
    """Train, or score."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--corpora", default=",".join(PLAN))
    parser.add_argument("--seconds", type=float, default=540.0)
    parser.add_argument("--reserve", type=float, default=RESERVE)
    parser.add_argument("--jobs", type=int, help="processes at once; all unless given")
    parser.add_argument("--runs", type=int, help="only the first so many runs of the plan")
    parser.add_argument("--epochs", type=int, help="most epochs; those of the paper unless given")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--no-mps", action="store_true")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--score", action="store_true")
    parser.add_argument("--page", type=Path, default=Path("docs/reproductions/bordia2019.json"))
    given = parser.parse_args()
    if given.score:
        from lm_scores import score

        score(given.out, lambda name: corpus_of(name, given.data, tiny=given.tiny), given.page)
    else:
        run(given)


if __name__ == "__main__":
    main()
