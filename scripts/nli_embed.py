"""Put trained models into the package: measure them as they will be read, and write what was measured into each file.

    EVENHAND_DATA=folder python scripts/nli_embed.py RESULTS    # the OUT of scripts/nli_experiment.py

Accuracies are those of the half-precision weights over the whole embedded vectors, on SNLI dev and test and on HANS.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import evenhand as eh
from evenhand.measures.inference import projected
from evenhand.models.nli import load
from evenhand.models.nli.labelled_pairs import evaluate, read_pairs

EMBEDDED = Path(__file__).parents[1] / "src/evenhand/data/embedded/nli"
SETS = {"snli-dev": "snli/dev.jsonl", "snli-test": "snli/test.jsonl", "hans": "hans/hans.txt"}


def main(results: Path) -> None:
    """Measure and write all six; print their accuracies."""
    data, original = Path(os.environ["EVENHAND_DATA"]), eh.Vectors.default()
    pairs = {name: read_pairs(data / path) for name, path in SETS.items()}
    found: dict[str, Any] = {}
    for condition, vectors in (("original", original), ("projected", projected(original))):
        for seed in range(3):
            name = f"{condition}-{seed}"
            model = load(results / f"{name}.safetensors", vectors, device="numpy", name=name)
            accuracy = {which: round(evaluate(model, some).accuracy, 4) for which, some in pairs.items()}
            model.save(
                EMBEDDED / f"{name}.safetensors", dtype="float16", seed=seed, condition=condition, accuracy=accuracy
            )
            found[name] = accuracy
            print(name, json.dumps(accuracy), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
