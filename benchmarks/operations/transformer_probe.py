"""Evaluation of the gender probe by a transformer."""

import json
from pathlib import Path

from operation import Call, Operation, Sizes

ABOUT = "SYNTHETIC: a BERT classifier of 768 dimensions with random weights; a part of the gender probe"
# One object makes 984 pairs with one verb.
SIZES = {"objects": 1, "looped_pairs": 100, "layers": 2}
GROWTH = {"objects": 1, "looped_pairs": 10, "layers": 1}
TINY = {"objects": 1, "looped_pairs": 20, "layers": 1}
PAIRS_AN_OBJECT = 984
COMPARED = 20


def prepare(folder: Path, sizes: Sizes) -> None:
    """Write a random classifier with word pieces of the probe."""
    from evenhand.words.probes import probe
    from transformer_probe import make

    make(probe("gender-occupation"), folder / "model", sizes["layers"], "cpu")
    (folder / "task.json").write_text(json.dumps(dict(sizes)))


def _asked(folder: Path):  # type: ignore[no-untyped-def]
    """Return the part of the probe, and the sizes."""
    from evenhand.words.probes import probe
    from transformer_probe import limited

    sizes = json.loads((folder / "task.json").read_text())
    return limited(probe("gender-occupation"), sizes["objects"]), sizes


def _points(asked, count: int):  # type: ignore[no-untyped-def]
    from probes import evenly

    return evenly(asked, min(count, asked.n_pairs))


def _transformer(folder: Path) -> Call:
    import numpy as np

    from evenhand.models.nli.transformer import TransformerNLI

    asked, _ = _asked(folder)
    model = TransformerNLI(folder / "model", precision="float32", device="cpu", name="synthetic")

    def call() -> list[float]:
        found = np.concatenate([grid.probabilities for grid in model.grids(asked)])
        return [float(value) for value in found[tuple(_points(asked, COMPARED))].ravel()]

    return call


def _pair_by_pair(folder: Path) -> Call:
    import torch
    import transformers

    asked, sizes = _asked(folder)
    place = folder / "model"
    model = transformers.AutoModelForSequenceClassification.from_pretrained(place).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(place)
    order = [model.config.label2id[label] for label in ("entailment", "neutral", "contradiction")]

    def answers(points) -> list[float]:  # type: ignore[no-untyped-def]
        found: list[float] = []
        with torch.inference_mode():
            for premise, hypothesis in zip(*asked.texts(points), strict=True):
                logits = model(**tokenizer(premise, hypothesis, return_tensors="pt")).logits[0]
                found += logits.softmax(-1)[order].tolist()
        return found

    def call() -> list[float]:
        answers(_points(asked, sizes["looped_pairs"]))
        return answers(_points(asked, COMPARED))

    return call


def _share(sizes: Sizes) -> float:
    return (sizes["looped_pairs"] + COMPARED) / (PAIRS_AN_OBJECT * sizes["objects"])


OPERATIONS = {
    "probe-transformer": Operation(
        "984 pairs of the gender probe by a transformer of {layers} layers x 768",
        _transformer,
        _pair_by_pair,
        peer_name="transformers, one pair at a time",
        share=_share,
        extrapolated="{looped_pairs:,} pairs timed",
        tolerance=1e-4,
        growth=("objects",),
    ),
}
