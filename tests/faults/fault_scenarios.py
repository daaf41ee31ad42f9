"""Commands that write, each on a small input, with what an earlier command left and how the result is read."""

from __future__ import annotations

import functools
import gzip
import hashlib
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

WORDS = ("she", "he", "woman", "man", "nurse", "doctor", "cook", "pilot", "her", "him", "home", "work", "art", "code")
PAIRS = [(f"a {x} works", f"a {y} works", ("entailment", "neutral", "contradiction")[n % 3])
         for n, (x, y) in enumerate(zip(WORDS, WORDS[1:] + WORDS[:1], strict=True))]  # fmt: skip


@dataclass(frozen=True)
class Scenario:
    """A command that writes.

    Attributes:
        name: of the scenario.
        prepare: writes the inputs and an earlier result into a folder.
        run: the command; it is called in the folder and returns an exit code.
        read: what a reader gets from the result, as plain data; an error if there is none.
        kept: whether `prepare` left an earlier result, which must stay readable until the new one replaces it.
        same_bytes: whether a repeated run writes the same bytes; records hold times.
        ignores_errors: whether the command succeeds although it cannot write, as a cache does.
        modules: imported before the trials, so that each trial does not import them.
        needs: a package without which the scenario is left out.
    """

    name: str
    prepare: Callable[[Path], None]
    run: Callable[[Path], int]
    read: Callable[[Path], object]
    kept: bool = True
    same_bytes: bool = True
    ignores_errors: bool = False
    modules: tuple[str, ...] = ()
    needs: str = ""


SCENARIOS: dict[str, Scenario] = {}


def command(*arguments: str) -> Callable[[Path], int]:
    """Return a call of the command line in the folder of the trial."""

    def run(folder: Path) -> int:
        from evenhand.cli import app

        try:
            app(list(arguments))
        except SystemExit as stop:
            code = stop.code
        else:
            code = 0
        for thread in threading.enumerate():  # as the interpreter does at its end
            if thread is not threading.current_thread() and not thread.daemon:
                thread.join()
        return int(code or 0)

    return run


def add(
    name: str,
    prepare: Callable[[Path], None],
    run: Callable[[Path], int],
    read: Callable[[Path], object],
    **more: object,
) -> None:
    """Register a scenario."""
    SCENARIOS[name] = Scenario(name, prepare, run, read, **more)  # type: ignore[arg-type]


def write_vectors(path: Path, seed: int, words: tuple[str, ...] = WORDS) -> None:
    """Write vectors as plain text, without evenhand."""
    rows = np.random.default_rng(seed).standard_normal((len(words), 20))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "".join(f"{word} {' '.join(f'{x:.5f}' for x in row)}\n" for word, row in zip(words, rows, strict=True))
    )


def read_vectors(name: str, folder: Path) -> object:
    """Return words, the sum of the numbers and the history of a vector file."""
    from evenhand import Vectors

    found = Vectors.load(folder / name, cache=False)
    history = json.loads(json.dumps([dict(step) for step in found.history], default=str))
    return [list(found.words), hashlib.sha256(np.asarray(found.matrix).tobytes()).hexdigest(), history]


def _converted(target: str, folder: Path) -> None:
    write_vectors(folder / "in.txt", 1, WORDS[:7])
    if command("convert", "in.txt", target)(folder):
        raise RuntimeError("the earlier result could not be written")
    write_vectors(folder / "in.txt", 2)


for _target in ("out.npy", "out.safetensors", "out.vec.gz", "out.bin"):
    add(
        f"convert-{_target.partition('.')[2]}", functools.partial(_converted, _target),
        command("convert", "in.txt", _target), functools.partial(read_vectors, _target),
    )  # fmt: skip


def _debiased(folder: Path) -> None:
    write_vectors(folder / "in.txt", 1)
    command(*DEBIAS)(folder)
    write_vectors(folder / "in.txt", 2)


def _read_debiased(folder: Path) -> object:
    return read_vectors("out.vec", folder)


def _read_map(folder: Path) -> object:
    from evenhand import VectorMap

    return VectorMap.load(folder / "map.safetensors").digest


DEBIAS = ("debias", "in.txt", "--method", "linear", "-o", "out.vec", "--save-map", "map.safetensors")
add("debias-vectors", _debiased, command(*DEBIAS), _read_debiased)
add("debias-map", _debiased, command(*DEBIAS), _read_map)

AUDIT = (
    "audit",
    "in.txt",
    "--measure",
    "direct-bias",
    "--measure",
    "ripa",
    "--measure",
    "clustering",
    "-m",
    "linear",
    "-m",
    "hard",
    "-o",
    "run",
)


def _audited(folder: Path) -> None:
    write_vectors(folder / "in.txt", 1)
    command(*AUDIT)(folder)
    write_vectors(folder / "in.txt", 2)


def read_audit(folder: Path) -> object:
    """Return the values of an audit."""
    from evenhand import Audit

    found = Audit.load(folder / "run")
    rows = [
        [r.label, r.stage, r.measurement.value, r.measurement.interval, r.measurement.reason] for r in found.results
    ]
    return json.loads(json.dumps([found.manifest["subjects"][0]["sha256"], rows]))


add("audit", _audited, command(*AUDIT), read_audit, same_bytes=False)


def _reported(folder: Path) -> None:
    write_vectors(folder / "in.txt", 1)
    command(*AUDIT)(folder)
    (folder / "r.html").write_text("an earlier page")


def _read_page(folder: Path) -> object:
    text = (folder / "r.html").read_text(encoding="utf-8")
    return "whole" if text.rstrip().endswith("</html>") else text[:30]


add("report", _reported, command("report", "run", "--out", "r.html"), _read_page)


def write_corpus(folder: Path, seed: int) -> None:
    """Write three files of text."""
    rng = np.random.default_rng(seed)
    (folder / "texts").mkdir(exist_ok=True)
    for number in range(3):
        lines = [" ".join(rng.choice(WORDS, 12)) for _ in range(200)]
        (folder / "texts" / f"{number}.txt").write_text("\n".join(lines) + "\n")


def _counted(*arguments: str) -> Callable[[Path], None]:
    def prepare(folder: Path) -> None:
        write_corpus(folder, 1)
        command(*arguments)(folder)
        write_corpus(folder, 2)

    return prepare


BIAS = ("corpus", "bias", "texts", "--bootstrap", "0", "--permutations", "0", "-o", "run", "--json")
add("corpus-bias", _counted(*BIAS), command(*BIAS), read_audit, same_bytes=False)
COOCCUR = ("corpus", "cooccur", "texts", "--out", "counts.safetensors")


def _read_counts(folder: Path) -> object:
    from evenhand.corpus import Cooccurrence

    found = Cooccurrence.load(folder / "counts.safetensors")
    return [list(found.words), float(found.matrix.sum()), found.occurrences.tolist()]


add("cooccurrence", _counted(*COOCCUR), command(*COOCCUR), _read_counts)


def _read_texts(folder: Path) -> object:
    from evenhand.corpus.readers import Corpus, ReadLog

    corpus = Corpus(folder / "swapped", documents="line")
    return hashlib.sha256(
        "".join(text for shard in corpus.shards() for text in corpus.fragments(shard, ReadLog(False))).encode()
    ).hexdigest()


CDA = ("debias", "corpus:texts", "--method", "cda", "--documents", "line", "-o", "swapped")


def _read_augmented(folder: Path) -> object:
    from evenhand.errors import InputMissingError

    record = (
        json.loads((folder / "swapped" / ".augmentation.json").read_text()) if (folder / "swapped").exists() else {}
    )
    if len(record.get("files", ())) < 3:  # what a reader of the record takes for whole
        raise InputMissingError("the corpus is not complete")
    return _read_texts(folder)


add("cda-folder", lambda folder: write_corpus(folder, 1), command(*CDA), _read_augmented, kept=False)


def _one_text(folder: Path) -> None:
    write_corpus(folder, 1)
    (folder / "swapped.txt").write_text("an earlier text\n")


add(
    "cda-file", _one_text,
    command("debias", "corpus:texts/0.txt", "--method", "cda", "--documents", "line", "-o", "swapped.txt"),
    lambda folder: hashlib.sha256((folder / "swapped.txt").read_bytes()).hexdigest(),
)  # fmt: skip


def _exported(folder: Path) -> None:
    command("probe", "--probe", "mab-explicit", "--sample", "100", "--export", "pairs", "--seed", "1")(folder)


def _read_pairs(folder: Path) -> object:
    import polars as pl

    from evenhand.errors import InputMissingError

    if not (folder / "pairs" / "README.md").exists():
        raise InputMissingError("there is no data set")
    return pl.read_parquet(folder / "pairs" / "data" / "*.parquet").hash_rows().sum()


add(
    "probe-export",
    _exported,
    command("probe", "--probe", "mab-explicit", "--sample", "200", "--export", "pairs"),
    _read_pairs,
)


def _load_cached(folder: Path) -> int:
    import os

    from evenhand import Vectors
    from evenhand.models.vectors import cache

    os.environ["EVENHAND_CACHE"] = str(folder / "cache")
    for _ in range(2):
        Vectors.load(folder / "big.txt.gz")
        cache.settle()
    return 0


def _big(folder: Path) -> None:
    write_vectors(folder / "big.txt", 1, tuple(f"w{n}" for n in range(3000)))
    (folder / "big.txt.gz").write_bytes(gzip.compress((folder / "big.txt").read_bytes(), 1))


def _read_cached(folder: Path) -> object:
    import os

    from evenhand import Vectors
    from evenhand.models.vectors import cache

    os.environ["EVENHAND_CACHE"] = str(folder / "cache")
    found = Vectors.load(folder / "big.txt.gz")
    cache.settle()
    return [len(found), float(np.asarray(found.matrix, np.float64).sum())]


add("vector-cache", _big, _load_cached, _read_cached, ignores_errors=True)

BODY = bytes(range(256)) * 4000


def _entry() -> object:
    import os

    from evenhand.data import CatalogEntry, File
    from evenhand.data.catalog import parse

    file = File("set.txt", hashlib.sha256(BODY).hexdigest(), len(BODY))
    facts = {"title": "A set", "kind": "corpus", "licence": "CC0-1.0", "citation": "nobody"}
    return CatalogEntry(id="a-set", files=(file,), sources=(parse(os.environ["FAULT_SERVER"]),), **facts)


def _fetch(folder: Path) -> int:
    import os

    from evenhand.data.fetch import obtain
    from evenhand.errors import EvenhandError

    os.environ.update(EVENHAND_CACHE=str(folder / "cache"), no_proxy="*")
    os.environ.pop("EVENHAND_OFFLINE", None)
    try:
        obtain(_entry())
    except EvenhandError as error:
        return error.exit_code
    return 0


def _read_fetched(folder: Path) -> object:
    import os

    from evenhand.data.fetch import obtain

    os.environ["EVENHAND_CACHE"] = str(folder / "cache")
    return hashlib.sha256(obtain(_entry(), offline=True).copy.path.read_bytes()).hexdigest()


add("fetch", lambda folder: None, _fetch, _read_fetched, kept=False)

LM = ("lm", "train", "texts", "-o", "lm", "--epochs", "2", "--set", "hidden=8", "--set", "embedding=8", "--set", "layers=1",
      "--set", "batch=4", "--set", "bptt=8", "--device", "cpu", "--seed", "1")  # fmt: skip


def _lm_texts(folder: Path) -> None:
    write_corpus(folder, 1)
    for number, name in enumerate(("train", "valid", "test")):
        (folder / "texts" / f"{number}.txt").rename(folder / "texts" / f"{name}.txt")


def _read_lm(folder: Path) -> object:
    from evenhand.models.lm.awd_lstm.model_folder import load

    model, vocabulary, manifest = load(folder / "lm")
    digest = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest()
    return [digest, list(vocabulary.words), manifest["epochs"]]


add("lm-train", _lm_texts, command(*LM), _read_lm, kept=False, same_bytes=False, modules=("torch",), needs="torch")
NLI = ("nli", "train", "--train", "pairs.jsonl", "--dev", "pairs.jsonl", "--out", "nli", "--vectors", "in.txt", "--seeds", "2",
       "--epochs", "2", "--hidden", "4", "--batch", "4", "--device", "cpu")  # fmt: skip


def _nli_texts(folder: Path) -> None:
    write_vectors(folder / "in.txt", 1)
    rows = [json.dumps({"premise": p, "hypothesis": h, "label": label}) for p, h, label in PAIRS]
    (folder / "pairs.jsonl").write_text("\n".join(rows) + "\n")


def _read_nli(folder: Path) -> object:
    from evenhand.errors import InputMissingError
    from evenhand.models.nli.model_file import read

    if not (folder / "nli" / "train.json").exists():
        raise InputMissingError("the training is not complete")
    files = [read(folder / "nli" / f"seed-{seed}.safetensors") for seed in (0, 1)]
    return [hashlib.sha256(b"".join(array.tobytes() for array in file.arrays.values())).hexdigest() for file in files]


add("nli-train", _nli_texts, command(*NLI), _read_nli, kept=False, same_bytes=False, modules=("torch",), needs="torch")
