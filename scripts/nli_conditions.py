"""Make what the NLI experiments read: the conditions' vectors cut to the words that occur, and the labelled pairs.

    EVENHAND_DATA=folder python scripts/nli_conditions.py OUT            # conditions of the embedded vectors
    EVENHAND_DATA=folder python scripts/nli_conditions.py OUT gn-glove   # then: GloVe and GN-GloVe trained on enwik8

Conditions are the embedded vectors as they are, every mitigation of gender fitted on them, nationality and religion
projected away, and eight random directions of both kinds that Dev et al. 2019 have. All tables share one vocabulary, so
that models over any of them can be trained in one stack. GN-GloVe has no map for given vectors: it, its form without
the gender coordinate (wa) and plain GloVe are trained on the same counts and form a set of their own. Then, on a GPU:
scripts/nli_experiment.py.
"""

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

import evenhand as eh
from evenhand import corpus, mitigations, subspaces
from evenhand.audit.manifest import manifest
from evenhand.data import fetch
from evenhand.files import write_text
from evenhand.models.tokenizing import split_words
from evenhand.subjects import open_subject
from evenhand.words import as_concept, probes

METHODS = (
    *("linear", "hard", "double-hard", "gp", "bam", "oscar", "ran", "inlp"),
    *("span", "misp", "leace", "rlace", "hsr", "soft"),
)
RANDOM = 8
EPOCHS = 15  # of GloVe and GN-GloVe
PAIRS = {"train.jsonl.gz": "nli-train/snli.jsonl.gz", "dev.jsonl": "snli/dev.jsonl", "test.jsonl": "snli/test.jsonl"}
HANS = "hans/hans.txt"


def conditions(v: eh.Vectors) -> Iterator[tuple[str, eh.Vectors]]:
    """Every condition by name; the names of mitigations are their ids."""
    yield "original", v
    for method in METHODS:
        params = {"variant": "released"} if method == "inlp" else {}  # the paper runs all iterations
        yield method, mitigations.get(method).with_params(params).fit(v, "gender")(v)
    for concept in ("nationality", "religion"):
        yield concept, mitigations.LinearProjection().fit(v, concept)(v)
    for seed in range(RANDOM):
        yield f"random-{seed}", _without(v, subspaces.random_words(v, seed))
        yield f"gaussian-{seed}", _without(v, subspaces.gaussian(v.dim, seed))


def _without(v: eh.Vectors, subspace: subspaces.Subspace) -> eh.Vectors:
    return mitigations.LinearProjection(subspace).fit(v)(v)


def occurring(v: eh.Vectors, data: Path) -> list[str]:
    """The words of the vectors that occur in the pairs or in a probe."""
    import gzip

    found: set[str] = set()
    for name in (*PAIRS.values(), HANS):
        with gzip.open(data / name, "rt") if name.endswith(".gz") else (data / name).open() as lines:
            for line in lines:
                found.update(token.lower() for token in split_words(line))
    for name in probes.ids():
        probe = probes.probe(name)
        for phrase in probe.phrases.all:
            found.update(t.lower() for t in split_words(phrase.before + " " + phrase.after))
            for side in ("premise", "hypothesis"):
                for text in probe.subjects(side, phrase.determiner):
                    found.update(t.lower() for t in split_words(text))
    return [word for word in v.words if word in found]


def main(out: Path) -> None:
    """Write everything into one folder."""
    out.mkdir(parents=True, exist_ok=True)
    data, v = Path(os.environ["EVENHAND_DATA"]), eh.Vectors.default()
    for name, source in {**PAIRS, "hans.txt": HANS}.items():
        shutil.copy(data / source, out / name)
    words = occurring(v, data)
    rows = np.array([v.index[word] for word in words])
    print(f"{len(words):,} of {len(v):,} words occur", flush=True)
    tables: dict[str, np.ndarray] = {}
    base = v.matrix[rows].astype(np.float32)
    for name, changed in conditions(v):
        if changed.words != v.words:
            raise SystemExit(f"{name} changed the vocabulary")
        tables[name] = _compact(base, changed.matrix[rows].astype(np.float32))
        print(name, tables[name].shape, flush=True)
    tables["original"] = base
    save_file(tables, out / "conditions.safetensors")
    write_text(out / "words.txt", "\n".join(words) + "\n")
    files = sorted(path for path in out.iterdir() if path.name != "manifest.json")
    hashes = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    record = {
        **manifest([open_subject(v)], as_concept("gender"), {"methods": METHODS, "random": RANDOM}),
        "files": hashes,
    }
    write_text(out / "manifest.json", json.dumps(record, indent=1) + "\n")


def gn_glove(out: Path) -> None:
    """GloVe, GN-GloVe and GN-GloVe without its gender coordinate (zero here, which is the same to a model)."""
    text = str(fetch("enwik8"))
    counts = corpus.cooccurrence(text, 10, weighting="harmonic", min_count=5, format="mediawiki")
    print(f"{len(counts.words):,} words, {counts.matrix.nnz:,} counts", flush=True)
    plain = mitigations.glove(counts, 100, epochs=EPOCHS)
    neutral = mitigations.GNGloVe(dim=100, epochs=EPOCHS).train(counts, "gender")
    words = [word for word in (out / "words.txt").read_text().split("\n")[:-1] if word in plain]
    tables = {name: _rows(v, words) for name, v in (("glove-enwik8", plain), ("gn-glove", neutral))}
    tables["gn-glove-wa"] = tables["gn-glove"].copy()
    tables["gn-glove-wa"][:, -1] = 0
    save_file(tables, out / "gn-glove.safetensors")
    write_text(out / "gn-glove-words.txt", "\n".join(words) + "\n")
    about = {"counts": dict(counts.params), "words": len(counts.words), "epochs": EPOCHS, "history": neutral.history}
    write_text(out / "gn-glove.json", json.dumps(about, indent=1, default=str) + "\n")


def _rows(v: eh.Vectors, words: list[str]) -> np.ndarray:
    return v.matrix[[v.index[word] for word in words]].astype(np.float16)


def _compact(base: np.ndarray, changed: np.ndarray) -> np.ndarray:
    """The (dim + 1, dim) affine map that turns base into changed, where there is one; else the changed table itself.

    A table is kept in half precision, as the embedded vectors are.
    """
    wide = np.column_stack([base.astype(np.float64), np.ones(len(base))])
    found, *_ = np.linalg.lstsq(wide, changed.astype(np.float64))
    far = np.abs(wide @ found - changed).max()
    return found if far < 1e-5 * np.abs(changed).max() else changed.astype(np.float16)


if __name__ == "__main__":
    (gn_glove if sys.argv[2:] == ["gn-glove"] else main)(Path(sys.argv[1]))
