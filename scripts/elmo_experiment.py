"""Dev et al. 2019 inside ELMo: NLI models over a biLM of elmo_bilm.py, with directions removed, and probes of them.

    python scripts/elmo_experiment.py --bilm BILM --data DATA --out OUT [--seconds 1040] [--probe-seconds 300]

BILM holds the packed weights and bilm.json of elmo_bilm.py; DATA the SNLI pairs, train-wikitext.ids.xz, words.txt.xz
and manifest.json of elmo_texts.py. Stages: directions; a trial of learning rates and of the dropout of the mixes; one
stack of all models (elmo_stack.py); accuracy and probes of each model, while there is time. OUT gets elmo.json,
rewritten after each row. --tiny does all of it small, on any machine.

Conditions, removed in training and test: none; he - she or a random direction, from the token vectors before the biLSTM
("embeddings", layer 1 of the paper) or from each layer after the whole pass ("layers", its all layers); the first
principal component of eight demonyms, or the first two of eight adherents, from the token vectors. At last he - she at
test only, over the models trained without. The random direction is the first principal component of 20 random words,
another one for each seed. Each model answers all pairs of the probes of its table.
"""

import argparse
import json
import lzma
import platform
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from elmo_pack import load_packed
from elmo_stack import LayerBatches, Member, MemberDropout, ScheduledStack, encode, read_inputs, train
from elmo_texts import unpack

import evenhand as eh
from evenhand import subspaces
from evenhand.files import write_text
from evenhand.measures.inference import probe
from evenhand.mitigations.maps.coordinates import SoftProjection
from evenhand.models.encoders.elmo.encoder import EMBEDDINGS, Elmo, TokenTable, average_vectors, word_vectors
from evenhand.models.encoders.elmo.files import ElmoOptions
from evenhand.models.encoders.elmo.network import ElmoNetwork
from evenhand.models.nli.elmo import ElmoNLI
from evenhand.models.nli.labelled_pairs import LabelledPairs, evaluate, read_pairs
from evenhand.models.nli.networks import ElmoNLINetwork
from evenhand.models.nli.training import NLITrainingSettings, stack_seed
from evenhand.models.tokenizing import split_words
from evenhand.words import probes

SEEDS = (0, 1, 2, 3, 4)
PAIR = ("he", "she")
# The nine pairs of the paper's stability tables, names with the capital that ELMo expects.
GENDERED = (
    *(("man", "woman"), ("himself", "herself"), ("John", "Mary"), ("father", "mother"), ("boy", "girl")),
    *(("son", "daughter"), ("his", "her"), ("guy", "gal"), ("male", "female")),
)
DEMONYMS = ("American", "Chinese", "Egyptian", "French", "German", "Korean", "Pakistani", "Spanish")
ADHERENTS = ("Atheist", "Baptist", "Catholic", "Christian", "Hindu", "Methodist", "Protestant", "Shia")
GENDER, NATIONALITY, RELIGION = "gender-occupation", "nationality-polarity", "religion-polarity"
# In the order of the rows. Conditions with the same token vectors follow each other, to share what the biLM computes,
# and so do those with maps of layers. The probes are those of the paper's tables, and a control.
TRAINED = {
    "none": (GENDER, NATIONALITY, RELIGION),
    "he-she layers": (GENDER,),
    "random layers": (GENDER,),
    "he-she embeddings": (GENDER,),
    "demonyms embeddings": (NATIONALITY,),
    "adherents embeddings": (RELIGION,),
    "random embeddings": (GENDER, NATIONALITY, RELIGION),
}
AT_TEST = ("he-she embeddings", "he-she layers")
WIKITEXT, SNLI = 80_000, 60_000  # sentences for the averages of words by layer; the paper has 1M of WikiSplit
LONGEST = 40  # words of a premise that is trained on
SETTINGS: dict[str, Any] = {"architecture": "bilstm", "hidden": 400, "batch": 256, "learning_rate": 1e-3}
STATES, DROPOUT = 200, 0.5
RATES = (5e-4, 1e-3, 2e-3, 4e-3)
DROPOUTS = (0.5, 0.2)
TRIAL = 2  # epochs
TINY = {"batch": 32, "hidden": 16}


class Job(NamedTuple):
    """One row of the result: a trained model, and the condition it is tested in."""

    trained: str
    tested: str
    seed: int


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


class StoredElmo(Elmo):
    """An ELMo model that keeps the layers of what it has read in a store that models with the same token vectors share.

    Maps of layers are applied to what is stored.
    """

    def __init__(self, elmo: Elmo, store: dict[tuple[int, bytes], list[torch.Tensor]]) -> None:
        super().__init__(elmo.network, name=elmo.name, maps=elmo.maps)
        self.plain = elmo.with_maps({site: change for site, change in elmo.maps.items() if site == EMBEDDINGS})
        self.store = store

    def batch_layers(self, table: TokenTable, rows: torch.Tensor, lengths: torch.Tensor) -> list[torch.Tensor]:
        """As of `Elmo`."""
        key = (hash(tuple(table.rows)), torch.cat([rows, lengths[:, None]], 1).cpu().numpy().tobytes())
        if key not in self.store:
            self.store[key] = self.plain.batch_layers(table, rows, lengths)
        layers = list(self.store[key])
        for number in range(len(layers)):
            if change := self.maps.get(f"layer:{number}"):
                layers[number] = change(layers[number])
        return layers


def load_elmo(folder: Path, device: str) -> tuple[Elmo, dict[str, Any]]:
    """The biLM and what is recorded of it."""
    record = json.loads((folder / "bilm.json").read_text())
    network = ElmoNetwork(ElmoOptions.from_dict(record["options"]))
    network.load_state_dict({name: torch.from_numpy(array) for name, array in load_packed(folder).items()})
    return Elmo(network.to(device), name="bilm"), record


def some_sentences(data: Path, pairs: LabelledPairs, *, tiny: bool) -> list[list[str]]:
    """Sentences of WikiText-2 and of SNLI, evenly from all."""
    words = lzma.decompress((data / "words.txt.xz").read_bytes()).decode().split("\n")
    text = unpack((data / "train-wikitext.ids.xz").read_bytes())
    ends = np.cumsum(text.lengths)
    chosen = range(0, len(ends), max(1, len(ends) // (150 if tiny else WIKITEXT)))
    wiki = [[words[word] for word in text.ids[ends[n] - text.lengths[n] : ends[n]]] for n in chosen]
    texts = list(dict.fromkeys([*pairs.premises, *pairs.hypotheses]))
    step = max(1, len(texts) // (150 if tiny else SNLI))
    return wiki + [split_words(text) for text in texts[::step]]


def directions(
    elmo: Elmo, frequent: list[str], sentences: list[list[str]]
) -> tuple[dict[tuple[str, str], SoftProjection], dict[str, Any]]:
    """Return the map of each direction and site, and the stability of the directions."""
    counts = Counter(word for sentence in sentences for word in sentence)
    wanted = [*PAIR, *(word for pair in GENDERED for word in pair)]
    full = {
        name: [*some, *(text.split()[1] for text in probes.probe(probe_id).subjects("hypothesis", "the"))]
        for name, some, probe_id in (("demonyms", DEMONYMS, NATIONALITY), ("adherents", ADHERENTS, RELIGION))
    }
    of_groups = [word for words in full.values() for word in words]
    tokens_of = word_vectors(elmo, dict.fromkeys([*wanted, *of_groups]))
    pool = word_vectors(elmo, dict.fromkeys(frequent))
    by_layer = average_vectors(elmo, [w for w in dict.fromkeys([*wanted, *frequent]) if counts[w]], sentences)
    sites = {EMBEDDINGS: (tokens_of, pool)} | {f"layer:{n}": (v, v) for n, v in enumerate(by_layer)}
    maps, stability = dict[tuple[str, str], SoftProjection](), dict[str, Any]()
    for site, (vectors, others) in sites.items():
        gender = subspaces.pair(vectors, *PAIR)
        maps["he-she", site] = SoftProjection(gender.basis)
        for seed in SEEDS:
            maps[f"random-{seed}", site] = SoftProjection(subspaces.random_words(others, seed).basis)
        pairs = [pair for pair in GENDERED if all(word in vectors for word in pair)]
        found = subspaces.stability(vectors, pairs, gender)
        he, she = (vectors[word].astype(np.float64) for word in PAIR)
        rows = np.array([vectors[a].astype(np.float64) - vectors[b] for a, b in pairs])
        cosines = rows @ (he - she) / np.linalg.norm(rows, axis=1) / np.linalg.norm(he - she)
        stability[site] = {
            "ratios": list(found.ratios),
            "cosine": found.cosine,
            "pairs": len(pairs),
            "with_pairs": dict(zip(("-".join(pair) for pair in pairs), cosines.round(3).tolist(), strict=True)),
            "he_she_cosine": float(he @ she / np.linalg.norm(he) / np.linalg.norm(she)),
        }
    for name, k, some in (("demonyms", 1, DEMONYMS), ("adherents", 2, ADHERENTS)):
        removed = subspaces.words(tokens_of, some, k)
        maps[name, EMBEDDINGS] = SoftProjection(removed.basis)
        found = subspaces.stability(tokens_of, full[name], removed)
        about = {"ratios": list(found.ratios), "cosine": found.cosine, "cosine_subspace": found.cosine_subspace}
        stability[f"{EMBEDDINGS} {name}"] = {**about, "words": len(full[name])}
    counted = {word: counts[word] for word in (*wanted, *of_groups)}
    return maps, {"stability": stability, "sentences": len(sentences), "counts": counted}


class Variants:
    """The biLM with the maps of each condition."""

    def __init__(self, base: Elmo, maps: dict[tuple[str, str], SoftProjection]) -> None:
        self.base, self.maps = base, maps

    def __call__(self, condition: str, seed: int) -> Elmo:
        """Random directions differ between seeds."""
        direction, _, where = condition.partition(" ")
        if direction == "none":
            return self.base
        name = f"random-{seed}" if direction == "random" else direction
        sites = self.base.sites[:1] if where == EMBEDDINGS else self.base.sites[1:]
        return self.base.with_maps({site: self.maps[name, site] for site in sites})


def make_stack(
    elmo: Elmo,
    seeds: list[int],
    settings: NLITrainingSettings,
    batches: Sequence[LayerBatches],
    *,
    states: int,
    dropout: float,
) -> ScheduledStack:
    """A stack of new models, which are trained for all epochs."""
    network = ElmoNLINetwork(
        len(seeds), elmo.dim, settings.hidden, layers=elmo.layers + 1, states=states, elmo_dropout=dropout
    )
    torch.manual_seed(stack_seed(seeds))
    return ScheduledStack(network, replace(settings, patience=1_000), seeds, *batches)


def trial(
    elmo: Elmo, data: list[Any], settings: dict[str, Any], states: int, clock: Clock
) -> tuple[float, float, list[dict[str, float]]]:
    """Return the learning rate and the dropout of the mixes that are best on SNLI dev after two epochs, and all."""
    grid = [(rate, dropout) for rate in RATES for dropout in DROPOUTS]
    members = [Member(elmo, 0) for _ in grid]
    inputs = read_inputs(data[0], members, clock.mark)
    options = NLITrainingSettings(**{**settings, "learning_rate": max(RATES)}).resolve()
    batches = [LayerBatches(encoded, inputs, batch=options.batch) for encoded in data[1][:2]]
    stack = make_stack(elmo, [0] * len(grid), options, batches, states=states, dropout=DROPOUT)
    stack.network.elmo_dropout = MemberDropout([dropout for _, dropout in grid]).to(elmo.device)
    stack.factors = torch.tensor([rate / max(RATES) for rate, _ in grid], device=elmo.device)
    train(stack, epochs=TRIAL, report=clock.mark)
    results = [
        {
            "learning_rate": rate,
            "elmo_dropout": dropout,
            "dev": [epoch["dev_accuracy"] for epoch in stack.member_history(number)],
        }
        for number, (rate, dropout) in enumerate(grid)
    ]
    best = max(results, key=lambda result: result["dev"][-1])
    clock.mark(f"trial: {json.dumps(results)}")
    return best["learning_rate"], best["elmo_dropout"], results


def examine(model: ElmoNLI, test: LabelledPairs, wanted: tuple[str, ...], sample: int | None) -> dict[str, Any]:
    """Accuracy and probes of one model."""
    began = time.monotonic()
    accuracy = evaluate(model, test)
    row: dict[str, Any] = {
        "test": {"accuracy": accuracy.accuracy, "interval": list(accuracy.interval), "n": accuracy.n},
        "probes": {name: summary(probe(model, name, sample=sample, draws=0).to_dict()) for name in wanted},
    }
    return {**row, "seconds": round(time.monotonic() - began, 2)}


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


def jobs() -> list[Job]:
    """All rows of the result; at test only comes last."""
    alike = [Job(name, name, seed) for name in TRAINED for seed in SEEDS]
    return alike + [Job("none", name, seed) for name in AT_TEST for seed in SEEDS]


def manifest(given: argparse.Namespace, settings: dict[str, Any]) -> dict[str, Any]:
    """What every number depends on."""
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
    versions = {"python": platform.python_version(), "torch": torch.__version__, "numpy": np.__version__}
    return {
        "input": json.loads((given.data / "manifest.json").read_text()),
        "evenhand": eh.__version__,
        "versions": versions,
        "gpu": gpu,
        "precision": "products in TF32, training in bfloat16" if gpu != "none" else "float32",
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "settings": settings,
        "seeds": list(SEEDS),
        "tiny": given.tiny,
    }


def main() -> None:
    """Run the stages, and write what is finished."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bilm", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=1040.0, help="of this command")
    parser.add_argument("--probe-seconds", type=float, default=300.0, help="of them, left for the probes")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--tiny", action="store_true")
    given = parser.parse_args()
    clock = Clock(given.seconds)
    torch.set_float32_matmul_precision("high")
    given.out.mkdir(parents=True, exist_ok=True)
    settings, states = ({**SETTINGS, **TINY}, 8) if given.tiny else (SETTINGS, STATES)
    settings = {**settings, "device": given.device}
    pairs, dev, test = (read_pairs(given.data / name) for name in ("snli.jsonl.gz", "dev.jsonl", "test.jsonl"))
    if given.tiny:
        pairs, dev, test = pairs.head(300), dev.head(60), test.head(60)
    base, record = load_elmo(given.bilm, given.device)
    clock.mark("biLM")
    maps, found = directions(base, record["frequent"], some_sentences(given.data, pairs, tiny=given.tiny))
    clock.mark(f"directions: {json.dumps({site: one['cosine'] for site, one in found['stability'].items()})}")
    sentences, encoded = encode(pairs, dev)
    short = encoded[0].premise.lengths <= LONGEST
    encoded[0] = take(encoded[0], np.flatnonzero(short))
    rate, dropout, trials = trial(base, [sentences, encoded], settings, states, clock)
    settings = {**settings, "learning_rate": rate}

    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    variants = Variants(base, maps)
    names = [(condition, seed) for condition in TRAINED for seed in SEEDS]
    members = [Member(variants(condition, seed), seed) for condition, seed in names]
    inputs = read_inputs(sentences, members, clock.mark)
    options = NLITrainingSettings(**settings).resolve()
    batches = [LayerBatches(data, inputs, batch=options.batch) for data in encoded]
    stack = make_stack(base, [seed for _, seed in names], options, batches, states=states, dropout=dropout)
    train(stack, seconds=clock.left - given.probe_seconds, report=clock.mark)
    stopping = stack.stopping
    models = {name: stack.network.arrays(number) for number, name in enumerate(names)}
    trained = [
        {
            "trained": condition,
            "seed": seed,
            "dev": float(stopping.best[number]),
            "epoch": int(stopping.best_epoch[number]),
            "history": stack.member_history(number),
            "mixes": ElmoNLI(models[condition, seed], base).mix_shares.tolist(),
        }
        for number, (condition, seed) in enumerate(names)
    ]
    epochs = stack.done
    del stack, batches, inputs
    if torch.cuda.is_available():
        print(f"{torch.cuda.max_memory_allocated() / 2**30:.1f} GiB at most", flush=True)
        torch.cuda.empty_cache()
    result: dict[str, Any] = {
        "manifest": manifest(given, {**settings, "states": states, "elmo_dropout": dropout, "longest": LONGEST}),
        "bilm": {name: record[name] for name in ("options", "settings", "weights", "created", "packed")},
        "directions": found,
        "training": {
            "train": {**pairs.to_dict(), "trained_on": int(short.sum())},
            "dev": dev.to_dict(),
            "test": test.to_dict(),
            "trial": trials,
            "epochs": epochs,
            "members": trained,
        },
        "rows": [],
        "missing": [],
    }
    waiting, store, variant = jobs(), dict[tuple[int, bytes], list[torch.Tensor]](), None
    clock.mark(f"{len(names)} NLI models")
    while waiting and clock.left > 0:
        job = waiting.pop(0)
        elmo = variants(job.tested, job.seed)
        if variant is None or elmo.maps.get(EMBEDDINGS) is not variant.maps.get(EMBEDDINGS):
            store.clear()
        variant = elmo
        model = ElmoNLI(models[job.trained, job.seed], StoredElmo(elmo, store))
        wanted = TRAINED[job.tested] if job.trained == job.tested else (GENDER,)
        row = {**job._asdict(), **examine(model, test, wanted, 500 if given.tiny else None)}
        result["rows"].append(row)
        result["missing"] = ["{trained}, tested {tested}, {seed}".format(**other._asdict()) for other in waiting]
        scores = ", ".join(f"{name} {one['net_neutral']:.3f}" for name, one in row["probes"].items())
        clock.mark(f"{job.trained}, tested {job.tested}, {job.seed}: test {row['test']['accuracy']:.3f}, {scores}")
        result["manifest"]["stages"] = clock.stages
        write_text(given.out / "elmo.json", json.dumps(result, indent=1) + "\n")
    print(f"{len(result['rows'])} rows, missing: {', '.join(result['missing']) or 'none'}", flush=True)


def take(pairs: Any, rows: np.ndarray) -> Any:
    """Some of the encoded pairs."""
    sides = [type(side)(side.words, side.starts[rows], side.lengths[rows]) for side in pairs.sides]
    return type(pairs)(*sides, pairs.labels[rows])


if __name__ == "__main__":
    main()
