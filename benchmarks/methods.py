"""Hard, Double-Hard and HSR on 400,000 x 300 against WEFE 1.0.1, and a streamed map on 2,000,000 x 300, in one run.

    EVENHAND_WEFE_PYTHON=wefe-venv/bin/python python benchmarks/methods.py [FOLDER]

The matrix is random (synthetic, 480 MB); the words are those of the gender lists and made-up ones. Each operation runs
in a fresh process that first loads the matrix; only fit and application are timed, and the peak is the process's own
(VmHWM). WEFE needs an environment of its own (see benchmarks/measures.py); without it only ours is timed.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import evenhand as eh

WORDS, DIM, MANY = 400_000, 300, 2_000_000
PEAK = """
def peak():
    with open("/proc/self/status") as status:
        return int(next(line for line in status if line.startswith("VmHWM")).split()[1]) / 1024
"""
OURS = (
    PEAK
    + """
import json, sys, time
if sys.argv[2] == "double-hard":
    import sklearn.cluster  # imports are not timed on either side
import evenhand as eh
vectors = eh.Vectors.load(sys.argv[1] + "/matrix.npy")
vectors.index
before, start = peak(), time.perf_counter()
fitted = eh.mitigations.get(sys.argv[2])().fit(vectors, eh.concept("gender"))
middle = time.perf_counter()
fitted(vectors)
print("RESULT" + json.dumps([middle - start, time.perf_counter() - middle, before, peak()]))
"""
)
THEIRS = (
    PEAK
    + """
import json, sys, time
import numpy as np
from gensim.models import KeyedVectors
from wefe.word_embedding_model import WordEmbeddingModel
from wefe.debias.hard_debias import HardDebias
from wefe.debias.double_hard_debias import DoubleHardDebias
from wefe.debias.half_sibling_regression import HalfSiblingRegression
task = json.load(open(sys.argv[1] + "/task.json"))
matrix = np.load(sys.argv[1] + "/matrix.npy")
keyed = KeyedVectors(matrix.shape[1])
keyed.add_vectors(task["words"], matrix)
model = WordEmbeddingModel(keyed, "benchmark")
before, start = peak(), time.perf_counter()
if sys.argv[2] == "hard":
    debias = HardDebias(verbose=False).fit(model, task["pairs"], equalize_pairs=task["equalize"])
    middle = time.perf_counter()
    debias.transform(model, ignore=task["specific"], copy=False)
elif sys.argv[2] == "double-hard":
    debias = DoubleHardDebias(verbose=False).fit(model, task["pairs"], bias_representation=["he", "she"])
    middle = time.perf_counter()
    debias.transform(model, copy=False)
else:
    debias = HalfSiblingRegression(verbose=False).fit(model, task["siblings"])
    middle = time.perf_counter()
    debias.transform(model, copy=False)
print("RESULT" + json.dumps([middle - start, time.perf_counter() - middle, before, peak()]))
"""
)
STREAM = (
    PEAK
    + """
import json, sys, time
import numpy as np
import evenhand as eh
from evenhand.mitigations.maps import SoftProjection
vectors = eh.Vectors.load(sys.argv[1])
basis = np.linalg.qr(np.random.default_rng(0).normal(size=(vectors.dim, 10)))[0].T
start = time.perf_counter()
SoftProjection(basis).write(vectors, sys.argv[2])
print("RESULT" + json.dumps([0, time.perf_counter() - start, 0, peak()]))
"""
)


def run(python: str, code: str, *arguments: str) -> list[float]:
    """Seconds of fit and application, memory before and peak in MiB, of a fresh process."""
    done = subprocess.run([python, "-c", code, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    line = next(line for line in done.stdout.splitlines() if line.startswith("RESULT"))
    found: list[float] = json.loads(line.removeprefix("RESULT"))
    return found


def make(folder: Path) -> None:
    """The matrix, its vocabulary, and the word lists as WEFE wants them."""
    gender = eh.concept("gender")
    siblings = [*eh.wordset("gn-glove-female"), *eh.wordset("gn-glove-male")]
    listed = [*gender.specific, *(word for pair in (*gender.pairs, *gender.equalize) for word in pair), *siblings]
    words = [*dict.fromkeys(word for word in listed if word == word.lower()), *(f"made{i}" for i in range(WORDS))][
        :WORDS
    ]
    np.save(folder / "matrix.npy", np.random.default_rng(0).standard_normal((WORDS, DIM), dtype=np.float32))
    (folder / "matrix.vocab").write_text("\n".join(words))
    known = set(words)
    pairs = [list(pair) for pair in gender.pairs if known.issuperset(pair)]
    task = {
        "words": words,
        "pairs": pairs,
        "equalize": [list(pair) for pair in gender.equalize if known.issuperset(pair)],
        "specific": [word for word in gender.specific if word in known],
        "siblings": [word for pair in pairs for word in pair],
    }
    (folder / "task.json").write_text(json.dumps(task))


def make_many(path: Path) -> None:
    """A file larger than one would like in memory, in our own format."""
    from evenhand.models.vectors.formats.safetensors_file import write_stream

    rng = np.random.default_rng(0)
    blocks = (rng.standard_normal((20_000, DIM), dtype=np.float32) for _ in range(MANY // 20_000))
    with path.open("wb") as out:
        write_stream(out, [f"word{i}" for i in range(MANY)], blocks, DIM, source={}, history=())


def main() -> None:
    """Time every method, ours and theirs, and print the table."""
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as name:
        folder, wefe = Path(name), os.environ.get("EVENHAND_WEFE_PYTHON")
        make(folder)
        print("| method | ours s (fit + apply) | WEFE s | ratio | ours peak MiB | WEFE peak MiB |")
        print("|---|--:|--:|--:|--:|--:|")
        for method in ("hard", "double-hard", "hsr"):
            mine = min((run(sys.executable, OURS, name, method) for _ in range(2)), key=lambda r: r[0] + r[1])
            theirs = run(wefe, THEIRS, name, method) if wefe else [float("nan")] * 4
            total, other = mine[0] + mine[1], theirs[0] + theirs[1]
            seconds = f"{total:.2f} ({mine[0]:.2f} + {mine[1]:.2f}) | {other:.1f} | {other / total:.1f}x"
            print(f"| {method} | {seconds} | {mine[3]:.0f} | {theirs[3]:.0f} |", flush=True)
        make_many(folder / "many.safetensors")
        _, seconds, _, peak = run(sys.executable, STREAM, f"{name}/many.safetensors", f"{name}/out.safetensors")
        size = MANY * DIM * 4 / 2**20
        print(f"\nstreamed map of {MANY:,} x {DIM} ({size:.0f} MiB): {seconds:.1f} s, peak {peak:.0f} MiB")


if __name__ == "__main__":
    main()
