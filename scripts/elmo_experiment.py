"""Dev et al. 2019 inside ELMo: train a small biLM and NLI models over it, project, and put the probe to each of them.

    python scripts/elmo_experiment.py --data DATA --work WORK --out OUT [--seconds 530] [--bilm-seconds 250]

DATA is what elmo_texts.py writes. Three stages, each of which leaves its result in WORK, so that the same command goes
on where a time limit cut it off: the biLM (WORK/elmo), one stack of NLI models (WORK/models), and accuracy and probe of
each model (WORK/rows). No model is probed after --seconds. OUT gets the biLM in half precision (elmo/ and bilm.json,
which in another WORK replace its training) and elmo.json with what is finished. --tiny does all of it small, on any
machine.

Conditions: none; the direction he - she, or a random one, removed from the token vectors before the biLSTM
("embeddings", layer 1 of the paper) or from each layer after the whole pass ("layers", the paper's all layers), in
training and test; and at test time only, over the models trained without. The random direction is the first principal
component of 20 random words, another one for each seed.
"""

import argparse
import json
import lzma
import multiprocessing
import os
import platform
import shutil
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

import evenhand as eh
from evenhand import subspaces
from evenhand.files import write_text
from evenhand.measures.inference import probe
from evenhand.mitigations.maps import VectorMap
from evenhand.mitigations.maps.linear import SoftProjection
from evenhand.models.encoders.elmo.encoder import EMBEDDINGS, Elmo
from evenhand.models.encoders.elmo.options import ElmoOptions
from evenhand.models.encoders.elmo.sentences import average_vectors, word_vectors
from evenhand.models.encoders.elmo.training import SMALL, BiLMSettings, train_bilm
from evenhand.models.encoders.elmo.training_text import SPECIAL, SentenceCorpus
from evenhand.models.nli.elmo import ElmoNLI
from evenhand.models.nli.evaluation import evaluate
from evenhand.models.nli.labelled_pairs import read_pairs
from evenhand.models.nli.training.elmo import train_over_elmo

SEEDS = (0, 1, 2)
PAIR = ("he", "she")
# The nine pairs of the paper's stability tables, names with the capital that ELMo expects.
GENDERED = (
    *(("man", "woman"), ("himself", "herself"), ("John", "Mary"), ("father", "mother"), ("boy", "girl")),
    *(("son", "daughter"), ("his", "her"), ("guy", "gal"), ("male", "female")),
)
POOL = 2_000  # frequent words, from which the random directions are drawn
SENTENCES = 100_000  # for the averages of words by layer; the paper has 1M sentences of WikiSplit
TRAINED = ("none", "he-she embeddings", "he-she layers", "random embeddings", "random layers")
AT_TEST = ("he-she embeddings", "he-she layers", "random embeddings")
SETTINGS: dict[str, Any] = {"epochs": 14, "patience": 4, "batch": 256}
BILM = BiLMSettings(epochs=20)
TINY_ELMO = ElmoOptions(cells=32, projection=8, filters=((1, 8), (2, 8), (3, 16)), highways=1)
TINY_BILM = BiLMSettings(vocabulary=500, samples=64, tokens=512, epochs=1, warmup=5)
TINY: dict[str, Any] = {"epochs": 1, "batch": 64, "hidden": 16, "states": 8}
PROBE = "gender-occupation"


class Job(NamedTuple):
    """One row of the result: a trained model, and the condition it is tested in."""

    trained: str
    tested: str
    seed: int

    @property
    def name(self) -> str:
        """For files."""
        return f"{self.trained}.{self.tested}.{self.seed}".replace(" ", "-")


class Clock:
    """Seconds since the start, by stage."""

    def __init__(self, limit: float) -> None:
        self.start, self.limit, self.stages = time.monotonic(), limit, dict[str, float]()

    @property
    def left(self) -> float:
        """Seconds left."""
        return self.limit - (time.monotonic() - self.start)

    def mark(self, stage: str) -> None:
        """Note the end of a stage."""
        self.stages[stage] = round(time.monotonic() - self.start, 1)
        print(f"{self.stages[stage]:7.1f} s  {stage}", flush=True)


def bilm(given: argparse.Namespace, clock: Clock) -> dict[str, Any]:
    """Train the biLM, unless an earlier command finished it."""
    record = given.work / "bilm.json"
    if not record.exists():
        corpus = SentenceCorpus.read(given.data / "train.txt.xz", most=1_500 if given.tiny else None)
        valid = SentenceCorpus.read(given.data / "valid.txt", words=corpus.words, most=50 if given.tiny else None)
        clock.mark(f"{len(corpus):,} sentences, {len(corpus.words):,} words")
        trained = train_bilm(
            corpus,
            valid,
            options=TINY_ELMO if given.tiny else SMALL,
            settings=TINY_BILM if given.tiny else BILM,
            seed=0,
            device=given.device,
            time_limit=given.bilm_seconds,
            checkpoint=given.work / "bilm.safetensors",
            progress=every(20),
        )
        clock.mark(f"biLM, perplexity {trained.manifest['valid_perplexity']}")
        trained.elmo.save(given.work / "elmo", dtype="float16", valid_perplexity=trained.manifest["valid_perplexity"])
        write_text(record, json.dumps({**trained.manifest, "frequent": frequent(corpus)}))
    manifest: dict[str, Any] = json.loads(record.read_text())
    return manifest


def frequent(corpus: SentenceCorpus) -> list[str]:
    """The most frequent words of letters."""
    return [word for word in corpus.words[len(SPECIAL) :] if word.isalpha()][:POOL]


def directions(given: argparse.Namespace, clock: Clock) -> dict[str, Any]:
    """Fit every map, write each to WORK/maps, and return the stability of the directions."""
    folder, record = given.work / "maps", given.work / "directions.json"
    if not record.exists():
        folder.mkdir(exist_ok=True)
        elmo = load_elmo(given)
        pool = json.loads((given.work / "bilm.json").read_text())["frequent"]
        sentences = some_sentences(given.data / "train.txt.xz", 300 if given.tiny else SENTENCES)
        counts = Counter(word for sentence in sentences for word in sentence)
        wanted = [*PAIR, *(word for pair in GENDERED for word in pair)]
        occurring = [word for word in dict.fromkeys([*wanted, *pool]) if counts[word]]
        by_site = {EMBEDDINGS: word_vectors(elmo, dict.fromkeys([*wanted, *pool]))}
        by_layer = average_vectors(elmo, occurring, sentences)
        by_site |= {f"layer:{number}": vectors for number, vectors in enumerate(by_layer)}
        stability = {}
        for site, vectors in by_site.items():
            gender = subspaces.pair(vectors, *PAIR)
            projection(gender).save(folder / f"he-she.{site.replace(':', '-')}.safetensors")
            for seed in SEEDS:
                random = subspaces.random_words(vectors, seed)
                projection(random).save(folder / f"random-{seed}.{site.replace(':', '-')}.safetensors")
            pairs = [pair for pair in GENDERED if all(word in vectors for word in pair)]
            found = subspaces.stability(vectors, pairs, gender)
            stability[site] = {"ratios": list(found.ratios), "cosine": found.cosine, "pairs": len(pairs)}
            he, she = (vectors[word].astype(np.float64) for word in PAIR)
            stability[site]["he_she_cosine"] = float(he @ she / np.linalg.norm(he) / np.linalg.norm(she))
        about = {"stability": stability, "sentences": len(sentences), "counts": {word: counts[word] for word in wanted}}
        write_text(record, json.dumps(about))
        clock.mark("directions")
    fitted: dict[str, Any] = json.loads(record.read_text())
    return fitted


def some_sentences(path: Path, count: int) -> list[list[str]]:
    """About so many sentences, evenly from the whole file."""
    with lzma.open(path, "rt", encoding="utf-8") as file:
        lines = file.readlines()
    return [line.split() for line in lines[:: max(1, len(lines) // count)]]


def projection(subspace: subspaces.Subspace) -> SoftProjection:
    """The projection that removes a subspace."""
    return SoftProjection(subspace.basis)


def load_elmo(given: argparse.Namespace) -> Elmo:
    """The biLM as it was saved."""
    return Elmo.load(given.work / "elmo", device=given.device)


def maps(given: argparse.Namespace, condition: str, seed: int, elmo: Elmo) -> dict[str, VectorMap]:
    """The maps of a condition; random directions differ between seeds."""
    direction, _, where = condition.partition(" ")
    if direction == "none":
        return {}
    name = direction if direction == "he-she" else f"random-{seed}"
    sites = elmo.sites[:1] if where == EMBEDDINGS else elmo.sites[1:]
    folder = given.work / "maps"
    return {site: VectorMap.load(folder / f"{name}.{site.replace(':', '-')}.safetensors") for site in sites}


def models(given: argparse.Namespace, clock: Clock) -> dict[str, Any]:
    """Train all NLI models in one stack, unless an earlier command did, and return what their training says."""
    record = given.work / "models.json"
    if not record.exists():
        folder = given.work / "models"
        folder.mkdir(exist_ok=True)
        pairs, dev = read_pairs(given.data / "snli.jsonl.gz"), read_pairs(given.data / "dev.jsonl")
        if given.tiny:
            pairs, dev = pairs.head(400), dev.head(100)
        base, variants = load_elmo(given), dict[tuple[str, int], Elmo]()
        members, names = [], []
        for condition in TRAINED:
            for seed in SEEDS:
                key = (condition, seed if condition.startswith("random") else 0)
                variants.setdefault(key, base.with_maps(maps(given, condition, seed, base)))
                members.append((variants[key], seed))
                names.append((condition, seed))
        trained = train_over_elmo(
            pairs,
            dev,
            members,
            checkpoint=given.work / "nli.safetensors",
            device=given.device,
            progress=every(20),
            **(TINY if given.tiny else SETTINGS),
        )
        rows = []
        for (condition, seed), member in zip(names, trained, strict=True):
            member.model.save(folder / f"{condition.replace(' ', '-')}.{seed}.safetensors")
            shares = member.model.mix_shares.tolist()
            about = {"dev": member.dev_accuracy, "epoch": member.epoch, "history": member.history, "mixes": shares}
            rows.append({"trained": condition, "seed": seed, **about, "seconds": round(member.seconds, 1)})
        about = {"train": pairs.to_dict(), "dev": dev.to_dict(), "members": rows}
        write_text(record, json.dumps(about))
        clock.mark(f"{len(rows)} NLI models")
    loaded: dict[str, Any] = json.loads(record.read_text())
    return loaded


def jobs() -> list[Job]:
    """All rows of the result, first what was trained and tested alike."""
    alike = [Job(name, name, seed) for name in TRAINED for seed in SEEDS]
    return alike + [Job("none", name, seed) for name in AT_TEST for seed in SEEDS]


def examine(work: tuple[argparse.Namespace, Job]) -> dict[str, Any]:
    """Accuracy and probe of one model: runs in a process of its own."""
    given, job = work
    torch.set_num_threads(1)
    start = time.monotonic()
    base = load_elmo(given)
    elmo = base.with_maps(maps(given, job.tested, job.seed, base))
    model = ElmoNLI.load(given.work / "models" / f"{job.trained.replace(' ', '-')}.{job.seed}.safetensors", elmo)
    row: dict[str, Any] = job._asdict()
    for name in ("dev", "test"):
        pairs = read_pairs(given.data / f"{name}.jsonl")
        accuracy = evaluate(model, pairs.head(200) if given.tiny else pairs)
        row[name] = {"accuracy": accuracy.accuracy, "interval": list(accuracy.interval), "n": accuracy.n}
    began = time.monotonic()
    found = probe(model, PROBE, sample=1_000 if given.tiny else None, draws=0)
    row["probe_seconds"] = round(time.monotonic() - began, 2)
    row["probe"] = summary(found.to_dict())
    row["seconds"] = round(time.monotonic() - start, 2)
    return row


def summary(result: dict[str, Any]) -> dict[str, Any]:
    """The scores without their intervals, which come from the seeds."""
    kept: dict[str, Any] = {name: result[name] for name in ("n_pairs", "net_neutral", "fraction_neutral", "threshold")}
    kept["controls"] = result["controls"]
    labels = ("entailment", "neutral", "contradiction")
    kept["groups"] = {
        name: {label: group[label]["value"] for label in labels} for name, group in (result["groups"] or {}).items()
    }
    if result["gap"]:
        kept["gap"] = {label: result["gap"][label]["value"] for label in labels}
    return kept


def rows(given: argparse.Namespace, clock: Clock) -> list[dict[str, Any]]:
    """Examine the models that have no row yet, while there is time, and return all rows."""
    folder = given.work / "rows"
    folder.mkdir(exist_ok=True)
    waiting = [(given, job) for job in jobs() if not (folder / f"{job.name}.json").exists()]
    if waiting and clock.left > 0:
        context = multiprocessing.get_context("spawn")
        with context.Pool(min(given.jobs, len(waiting))) as pool:
            for row in pool.imap(examine, waiting):
                name = Job(row["trained"], row["tested"], row["seed"]).name
                write_text(folder / f"{name}.json", json.dumps(row))
                clock.mark(f"{name}: test {row['test']['accuracy']:.3f}, net neutral {row['probe']['net_neutral']:.3f}")
                if clock.left <= 0:
                    pool.terminate()
                    break
    paths = [folder / f"{job.name}.json" for job in jobs()]
    return [json.loads(path.read_text()) for path in paths if path.exists()]


def every(seconds: float) -> Any:
    """A function that prints progress now and then."""
    last = [0.0]

    def progress(done: int, total: int, what: str) -> None:
        if time.monotonic() - last[0] > seconds:
            last[0] = time.monotonic()
            print(f"    {done:,} of {total:,}: {what}", flush=True)

    return progress


def manifest(given: argparse.Namespace) -> dict[str, Any]:
    """What every number depends on."""
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
    versions = {"python": platform.python_version(), "torch": torch.__version__, "numpy": np.__version__}
    return {
        "input": json.loads((given.data / "manifest.json").read_text()),
        "evenhand": eh.__version__,
        "versions": versions,
        "gpu": gpu,
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "settings": TINY if given.tiny else SETTINGS,
        "seeds": list(SEEDS),
        "tiny": given.tiny,
    }


def main() -> None:
    """Run the stages, and write what is finished."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=530.0, help="of this command")
    parser.add_argument("--bilm-seconds", type=float, default=250.0, help="of training the biLM")
    parser.add_argument("--jobs", type=int, default=min(5, os.cpu_count() or 1), help="models probed at once")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--tiny", action="store_true")
    given = parser.parse_args()
    clock = Clock(given.seconds)
    for folder in (given.work, given.out):
        folder.mkdir(parents=True, exist_ok=True)
    result: dict[str, Any] = {"manifest": manifest(given), "bilm": bilm(given, clock)}
    shutil.copytree(given.work / "elmo", given.out / "elmo", dirs_exist_ok=True)
    shutil.copyfile(given.work / "bilm.json", given.out / "bilm.json")
    result["directions"] = directions(given, clock)
    result["training"] = models(given, clock)
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    result["rows"] = rows(given, clock)
    result["missing"] = [job.name for job in jobs() if job._asdict() not in [_key(row) for row in result["rows"]]]
    write_stages(given, clock, result)
    write_text(given.out / "elmo.json", json.dumps(result, indent=1) + "\n")
    print(f"{len(result['rows'])} rows, missing: {', '.join(result['missing']) or 'none'}", flush=True)


def _key(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in Job._fields}


def write_stages(given: argparse.Namespace, clock: Clock, result: dict[str, Any]) -> None:
    """Add the times of this command to those of earlier ones."""
    record = given.work / "commands.json"
    commands = json.loads(record.read_text()) if record.exists() else []
    commands.append(clock.stages)
    write_text(record, json.dumps(commands))
    result["manifest"]["commands"] = commands


if __name__ == "__main__":
    main()
