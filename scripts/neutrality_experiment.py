"""Why does neutrality not rise? Train NLI models over vectors under the candidates' settings, and probe each model.

    EVENHAND_DATA=folder python scripts/neutrality_experiment.py carry OUT     # what the runs read
    python scripts/neutrality_experiment.py run INPUT OUT [--setting NAME...] [--seconds 500] [--dry]

A setting changes one thing of the base: vectors of length 1, 300 dimensions, longer training, balanced labels, more
pairs, the other architecture. Each trains models over vectors as they are and over vectors without he-she, with the
same seeds. The models of the base also answer the probe with other determiners, with dropout, and over projected
vectors that they were not trained on. A setting is a process of its own; all share the GPU. OUT/<setting>.json is
written after every model, so what a time limit cuts off is missing and nothing else.
"""

import argparse
import hashlib
import json
import multiprocessing
import os
import platform
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
import torch
from lm_experiment import share_gpu
from nli_conditions import occurring
from safetensors.numpy import load_file, save_file

import evenhand as eh
from evenhand import subspaces
from evenhand.measures.inference import probe
from evenhand.models.nli.labelled_pairs import LabelledPairs, evaluate, read_pairs
from evenhand.models.nli.networks import DecomposableNetwork
from evenhand.models.nli.protocol import Probabilities
from evenhand.models.nli.training import train_members
from evenhand.words.probes import probe as find_probe
from evenhand.words.probes.phrases import RELEASED, Surface

PROBE = "gender-occupation"
LABELS = ("entailment", "neutral", "contradiction")
PAIRS = {"train.jsonl.gz": "nli-train/snli.jsonl.gz", "dev.jsonl": "snli/dev.jsonl", "test.jsonl": "snli/test.jsonl"}
OTHER = "nli-train/other.jsonl.gz"
LEFT_OUT = ("mnli_dev_matched", "mnli_dev_mismatched", "mnli_nyu_val5k", "anli_ni")  # evaluation sets elsewhere
BASE: dict[str, Any] = {"epochs": 12, "patience": 4}
SURFACES = {"a": Surface("A/An"), "released": RELEASED}
DROPOUT_PAIRS, AT_ONCE = 60_000, 4_096
RATE = 0.2  # of dropout in training
SEVERAL = 10  # models of the base that are asked more


@dataclass(frozen=True)
class Setting:
    """One candidate: which vectors are compared, with how many seeds, trained how on what.

    Attributes:
        tables: the vectors; the first are those without a projection.
        seeds: number of models over each.
        options: of the training.
        pairs: which pairs are trained on.
        stopping: pairs by which the best epoch is chosen: `dev`, or `train` for the best fit.
        sample: pairs of the probe; None for all.
    """

    tables: tuple[str, ...] = ("original", "linear")
    seeds: int = 10
    options: dict[str, Any] = field(default_factory=dict)
    pairs: str = "snli"
    stopping: str = "dev"
    sample: int | None = None


SETTINGS = {
    "base": Setting(seeds=40),
    "unit": Setting(("unit", "unit-linear", "linear-unit")),
    "300": Setting(("googlenews", "googlenews-linear")),
    "long": Setting(options={"epochs": 40, "patience": 40}, stopping="train"),
    "balanced": Setting(pairs="balanced"),
    "neutral": Setting(pairs="neutral"),
    "more": Setting(pairs="all", seeds=6),
    "bilstm": Setting(options={"architecture": "bilstm"}, seeds=8, sample=120_000),
    "bilstm-300": Setting(
        ("googlenews", "googlenews-linear"), options={"architecture": "bilstm"}, seeds=8, sample=120_000
    ),
}


# Inputs ---------------------------------------------------------------------------------------------------------------


def carry(out: Path) -> None:
    """Write the vectors that occur, with and without he-she, and the pairs."""
    from evenhand.data import fetch

    out.mkdir(parents=True, exist_ok=True)
    data = Path(os.environ["EVENHAND_DATA"])
    for name, source in PAIRS.items():
        (out / name).write_bytes((data / source).read_bytes())
    _write_others(data / OTHER, out / "other.jsonl.gz")
    glove = eh.Vectors.default()
    google = eh.Vectors.load(fetch("googlenews-small"))
    for name, vectors in (("glove", glove), ("googlenews", google)):
        words = occurring(vectors, data)
        matrix = vectors.matrix[[vectors.index[word] for word in words]].astype(np.float16)
        save_file({"matrix": matrix}, out / f"{name}.safetensors", metadata={"words": json.dumps(words)})
        print(f"{name}: {len(words):,} of {len(vectors):,} words occur", flush=True)
    files = sorted(path for path in out.iterdir() if path.name != "sources.json")
    hashes = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    (out / "sources.json").write_text(json.dumps({"files": hashes, "left_out": LEFT_OUT}, indent=1))


def _write_others(source: Path, out: Path) -> None:
    import gzip

    with gzip.open(source, "rt") as lines:
        kept = [line for line in lines if json.loads(line)["source"] not in LEFT_OUT]
    out.write_bytes(gzip.compress("".join(kept).encode(), mtime=0))


def table(folder: Path, name: str) -> eh.Vectors:
    """Return vectors by name: of which kind, scaled to length 1 or not, without he-she or with it."""
    from safetensors import safe_open

    kind = "googlenews" if name.startswith("googlenews") else "glove"
    path = folder / f"{kind}.safetensors"
    with safe_open(path, framework="np") as file:
        words = json.loads(file.metadata()["words"])
    vectors = eh.Vectors(words, load_file(path)["matrix"].astype(np.float32), name=name)
    for step in name.split("-"):
        if step == "unit":
            vectors = _with_matrix(vectors, vectors.matrix / np.linalg.norm(vectors.matrix, axis=1, keepdims=True))
        elif step == "linear":
            direction = subspaces.pairs(vectors, [("she", "he")], k=1).basis[0].astype(np.float32)
            vectors = _with_matrix(vectors, vectors.matrix - np.outer(vectors.matrix @ direction, direction))
    return vectors


def _with_matrix(vectors: eh.Vectors, matrix: np.ndarray) -> eh.Vectors:
    return eh.Vectors(list(vectors.words), np.ascontiguousarray(matrix, dtype=np.float32), name=vectors.name)


def training_pairs(folder: Path, kind: str) -> LabelledPairs:
    """Return the pairs of SNLI; with equally many of each label; half of them neutral; or with the other sets."""
    pairs = read_pairs(folder / "train.jsonl.gz")
    if kind == "snli":
        return pairs
    if kind == "all":
        others = read_pairs(folder / "other.jsonl.gz")
        labels = np.concatenate([pairs.labels, others.labels])
        return _pairs(pairs.premises + others.premises, pairs.hypotheses + others.hypotheses, labels, f"{kind} pairs")
    rng = np.random.default_rng(0)
    counts = np.bincount(pairs.labels, minlength=3)
    sizes = [int(counts.min())] * 3
    if kind == "neutral":
        neutral = LABELS.index("neutral")
        sizes = [int(counts[neutral]) // 2] * 3
        sizes[neutral] = int(counts[neutral])
    rows = np.sort(
        np.concatenate([rng.permutation(np.flatnonzero(pairs.labels == n))[:size] for n, size in enumerate(sizes)])
    )
    premises, hypotheses = ([side[row] for row in rows] for side in (pairs.premises, pairs.hypotheses))
    return _pairs(tuple(premises), tuple(hypotheses), pairs.labels[rows], f"SNLI, {kind}")


def _pairs(premises: Sequence[str], hypotheses: Sequence[str], labels: np.ndarray, source: str) -> LabelledPairs:
    text = "\n".join((*premises, *hypotheses, " ".join(map(str, labels.tolist()))))
    return LabelledPairs(
        tuple(premises), tuple(hypotheses), labels, {}, source, hashlib.sha256(text.encode()).hexdigest()
    )


# Runs -----------------------------------------------------------------------------------------------------------------


def run_setting(name: str, given: argparse.Namespace) -> None:
    """Train the models of one setting, probe them and write their records: one process."""
    torch.set_num_threads(1)
    began, setting = time.monotonic(), SETTINGS[name]
    if given.dry:
        setting = replace(setting, seeds=2, sample=2_000, options={**setting.options, "epochs": 1})
    tables = {kind: table(given.input, kind) for kind in setting.tables}
    pairs, dev = training_pairs(given.input, setting.pairs), read_pairs(given.input / "dev.jsonl")
    test = read_pairs(given.input / "test.jsonl")
    if given.dry:
        pairs, dev, test = pairs.head(1_500), dev.head(500), test.head(500)
    stopping = pairs.head(10_000) if setting.stopping == "train" else dev
    wanted = [(vectors, seed) for vectors in tables.values() for seed in range(setting.seeds)]
    trained = train_members(pairs, stopping, wanted, **{**BASE, **setting.options})
    record: dict[str, Any] = {
        "setting": name,
        "pairs": pairs.to_dict(),
        "labels": np.bincount(pairs.labels, minlength=3).tolist(),
        "training": {key: trained[0].manifest[key] for key in ("settings", "data", "device", "packages", "evenhand")},
        "training_seconds": round(time.monotonic() - began, 1),
        "sample": setting.sample,
        "runs": [],
    }
    print(f"{name}: {len(trained)} models in {record['training_seconds']} s", flush=True)
    for member in sorted(trained, key=lambda one: one.seed):  # so that models to be compared are done together
        model = _over(member.model, member.vectors)
        row = {"vectors": member.vectors.name, "seed": member.seed, "epoch": member.epoch}
        row |= {"epochs": len(member.history), "dev": evaluate(model, dev).accuracy}
        row |= {"test": evaluate(model, test).accuracy, PROBE: _probed(model, find_probe(PROBE), setting.sample)}
        if name == "base" and member.seed < SEVERAL:
            row |= _asked_more(model, member.vectors.name, tables["linear"], setting)
        record["runs"].append(row)
        record["seconds"] = round(time.monotonic() - began, 1)
        _write(record, given.out / f"{name}.json")


def _asked_more(model: Any, vectors: str, projected: eh.Vectors, setting: Setting) -> dict[str, Any]:
    """Return the answers of a model of the base with other determiners, with dropout, and over projected vectors."""
    asked = find_probe(PROBE)
    found = {
        f"determiner-{name}": _probed(model, asked.with_surface(surface), setting.sample)
        for name, surface in SURFACES.items()
    }
    sample = setting.sample or DROPOUT_PAIRS
    found["with-dropout"] = _probed(WithDropout(model, RATE), asked, sample)
    found["without-dropout"] = _probed(WithDropout(model, 0.0), asked, sample)
    if vectors == "original":
        found["projected-at-test"] = _probed(_over(model, projected), asked, setting.sample)
    return found


def _over(model: Any, vectors: eh.Vectors) -> Any:
    """Return a model over vectors, on the GPU where there is one."""
    options = {"lower": model.lower, "normalise": model.normalise, "name": model.name, "device": "auto"}
    return type(model)(model.arrays, vectors, **options)


class WithDropout:
    """A model of decomposable attention that drops numbers when it answers, as in training."""

    def __init__(self, model: Any, rate: float) -> None:
        self.model, self.name = model, f"{model.name}-dropout-{rate:g}"
        arrays = model.arrays
        hidden, dim = arrays["project.weight"].shape
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        torch.manual_seed(0)
        self.network = DecomposableNetwork(1, dim, hidden, rate)
        with torch.no_grad():
            for name, parameter in self.network.named_parameters():
                parameter[0].copy_(torch.as_tensor(np.asarray(arrays[name.replace(".layers.", ".")])))
        self.network.train().to(self.device)

    def out_of_vocabulary(self, words: Iterable[str]) -> tuple[str, ...]:
        """Return the words without a vector."""
        return tuple(self.model.out_of_vocabulary(words))

    def predict(self, premises: Sequence[str], hypotheses: Sequence[str]) -> Probabilities:
        """Return the probabilities of each pair."""
        parts = []
        for start in range(0, len(premises), AT_ONCE):
            sides = [self._padded(texts[start : start + AT_ONCE]) for texts in (premises, hypotheses)]
            with torch.inference_mode():
                logits = self.network(sides[0][0], sides[1][0], sides[0][1], sides[1][1])[0]
            parts.append(logits.float().softmax(-1).cpu().numpy())
        return Probabilities(np.concatenate(parts))

    def _padded(self, texts: Sequence[str]) -> tuple[torch.Tensor, torch.Tensor]:
        rows = [self.model.lookup.sentence(text) for text in texts]
        longest = max(map(len, rows))
        mask = np.array([[place < len(row) for place in range(longest)] for row in rows])
        filled = np.array([[*row, *[row[0]] * (longest - len(row))] for row in rows])
        vectors = self.model.table(filled.ravel()).reshape(*filled.shape, -1)
        return torch.as_tensor(vectors, device=self.device)[None], torch.as_tensor(mask, device=self.device)[None]


def _probed(model: Any, asked: Any, sample: int | None) -> dict[str, Any]:
    """Return the scores of a probe, without intervals over words: what varies here are the seeds."""
    result = probe(model, asked, sample=sample, draws=0, force=True).to_dict()
    kept = {name: result[name] for name in ("n_pairs", "net_neutral", "fraction_neutral", "threshold", "controls")}
    groups = result["groups"].items()
    kept["groups"] = {name: {label: group[label]["value"] for label in LABELS} for name, group in groups}
    return {**kept, "lost": result["coverage"]["missing"]}


def _write(record: dict[str, Any], path: Path) -> None:
    partial = path.with_suffix(".unfinished")
    partial.write_text(json.dumps(record, indent=1) + "\n")
    partial.rename(path)


def run(given: argparse.Namespace) -> None:
    """Run the settings side by side."""
    began = time.monotonic()
    given.out.mkdir(parents=True, exist_ok=True)
    sharing = share_gpu() if not given.dry else "off"
    context = multiprocessing.get_context("spawn")
    processes = {name: context.Process(target=run_setting, args=(name, given)) for name in given.setting}
    for process in processes.values():
        process.start()
    for name, process in processes.items():
        process.join(max(0.0, began + given.seconds - time.monotonic()))
        if process.is_alive():
            process.terminate()
            print(f"{name}: not done in time", flush=True)
        elif process.exitcode:
            print(f"{name}: exit code {process.exitcode}", flush=True)
    about = {
        "input": json.loads((given.input / "sources.json").read_text()),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else "none",
        "mps": sharing,
        "python": platform.python_version(),
        "evenhand": eh.__version__,
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "seconds": round(time.monotonic() - began, 1),
    }
    _write(about, given.out / "about.json")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    stages = parser.add_subparsers(dest="stage", required=True)
    stages.add_parser("carry").add_argument("out", type=Path)
    one = stages.add_parser("run")
    one.add_argument("input", type=Path)
    one.add_argument("out", type=Path)
    one.add_argument("--setting", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    one.add_argument("--seconds", type=float, default=500.0)
    one.add_argument("--dry", action="store_true", help="a few pairs and models, to try the script")
    given = parser.parse_args()
    if given.stage == "carry":
        carry(given.out)
    else:
        run(given)


if __name__ == "__main__":
    main()
