"""Commands that write vectors and maps."""

from __future__ import annotations

import functools
import hashlib
import json
from pathlib import Path

import numpy as np
from fault_scenario import WORDS, add, command, done, write_vectors

DEBIAS = ("debias", "in.txt", "--overwrite", "--method", "linear", "-o", "out.vec", "--save-map", "map.safetensors")


def read_vectors(name: str, folder: Path) -> object:
    """Return words, the digest of the numbers and the history of a vector file."""
    from evenhand import Vectors

    found = Vectors.load(folder / name, cache=False)
    history = json.loads(json.dumps([dict(step) for step in found.history], default=str))
    return [list(found.words), hashlib.sha256(np.asarray(found.matrix).tobytes()).hexdigest(), history]


def _converted(target: str, folder: Path) -> None:
    write_vectors(folder / "in.txt", 1, WORDS[:7])
    done(folder, "convert", "in.txt", target)
    write_vectors(folder / "in.txt", 2)


for _target in ("out.npy", "out.safetensors", "out.vec.gz", "out.bin"):
    add(
        f"convert-{_target.partition('.')[2]}", functools.partial(_converted, _target),
        command("convert", "in.txt", _target, "--overwrite"), functools.partial(read_vectors, _target),
    )  # fmt: skip


def _debiased(folder: Path) -> None:
    write_vectors(folder / "in.txt", 1)
    done(folder, *DEBIAS)
    write_vectors(folder / "in.txt", 2)


def _read_map(folder: Path) -> object:
    from evenhand import VectorMap

    return VectorMap.load(folder / "map.safetensors").digest


add("debias-vectors", _debiased, command(*DEBIAS), functools.partial(read_vectors, "out.vec"))
add("debias-map", _debiased, command(*DEBIAS), _read_map)
add(
    "debias-npy", functools.partial(_converted, "out.npy"),
    command("debias", "in.txt", "--overwrite", "--method", "linear", "-o", "out.npy"), functools.partial(read_vectors, "out.npy"),
)  # fmt: skip
