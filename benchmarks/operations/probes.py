"""Evaluation of the gender probe by every kind of NLI model."""

import json
from pathlib import Path

from operation import Call, Operation, Sizes, Work

ABOUT = "SYNTHETIC: random weights (times do not depend on them); the embedded GloVe vectors and the gender probe"
# One object makes 984 pairs with each of ten verbs; 0 objects stand for the whole probe.
SIZES = {"objects": 48, "verbs": 10, "looped_pairs": 10_000, "layers": 2}
GROWTH = {"objects": 5, "verbs": 10, "looped_pairs": 100, "layers": 2}
QUICK = {"objects": 1, "verbs": 1, "looped_pairs": 100, "layers": 1}
WHOLE = {"objects": 0}
FEW = {"objects": 1, "verbs": 1, "looped_pairs": 100}
ALL_PAIRS, PAIRS_A_PHRASE = 1_936_512, 984
FLOP_A_PAIR = 0.78e12 / ALL_PAIRS  # of decomposable attention, factorised, over the whole probe
COMPARED = 40
BATCHES = (32, 64, 128, 256)


def prepare(folder: Path, sizes: Sizes) -> None:
    """Write the sizes; the transformer writes its model when it is first asked for."""
    (folder / "task.json").write_text(json.dumps(dict(sizes)))


def _asked(folder: Path):  # type: ignore[no-untyped-def]
    """Return the probe with so many of its objects, and how many pairs a loop is timed on."""
    from evenhand.words.probes import probe

    sizes = json.loads((folder / "task.json").read_text())
    full = probe("gender-occupation")
    if not sizes["objects"]:
        return full, sizes
    fillers = full.templates[0].fillers
    chosen = {"verb": list(fillers["verb"].words), "object": list(fillers["object"].words)}
    return full.restrict(**{name: words[: sizes[f"{name}s"]] for name, words in chosen.items()}), sizes


def _points(asked, count: int):  # type: ignore[no-untyped-def]
    from probes import evenly

    return evenly(asked, min(count, asked.n_pairs))


def _compared(asked):  # type: ignore[no-untyped-def]
    return _points(asked, COMPARED)


def _factorised(backend: str, kind: str):  # type: ignore[no-untyped-def]
    def setup(folder: Path) -> Call:
        from evenhand.models.vectors import Vectors
        from probes import factorised, model_over

        asked, _ = _asked(folder)
        model = model_over(backend, Vectors.default(), kind)
        if backend == "torch":
            import torch  # noqa: F401

        def call() -> list[float]:
            found = factorised(model, asked)
            return [float(value) for value in found[tuple(_compared(asked))].ravel()]

        return call

    return setup


def _loop(kind: str):  # type: ignore[no-untyped-def]
    """Pairs of equal lengths in batches of the best size, dealt to all cores."""

    def setup(folder: Path) -> Call:
        import time

        from evenhand.models.vectors import Vectors
        from probe_loops import AttentionModule, BiLSTMModule, buckets, looped
        from probes import model_over

        asked, sizes = _asked(folder)
        model = model_over("torch", Vectors.default(), kind)
        module = (BiLSTMModule if kind == "bilstm" else AttentionModule)(model).eval()
        points, compared = _points(asked, sizes["looped_pairs"]), _compared(asked)
        parts, count = buckets(model, asked, points), len(points.phrase)
        few, few_count = buckets(model, asked, compared), len(compared.phrase)

        def seconds(batch: int) -> float:
            start = time.perf_counter()
            looped(module, [tuple(side[:1_000] for side in part) for part in parts], batch, count)
            return time.perf_counter() - start

        best = min(BATCHES, key=seconds)

        def call() -> list[float]:
            looped(module, parts, best, count)
            return [float(value) for value in looped(module, few, best, few_count).ravel()]

        return call

    return setup


def _checkpoint(folder: Path, layers: int) -> Path:
    """Return a random classifier with word pieces of the probe, which is written once."""
    from evenhand.words.probes import probe
    from transformer_probe import make

    model = folder.parent / f"transformer-{layers}"
    if not model.exists():
        model.mkdir()
        make(probe("gender-occupation"), model, layers, "cpu")
    return model


def _transformer(folder: Path) -> Call:
    import numpy as np

    from evenhand.models.nli.transformer.model import TransformerNLI

    asked, sizes = _asked(folder)
    model = TransformerNLI(_checkpoint(folder, sizes["layers"]), precision="float32", device="cpu", name="synthetic")

    def call() -> list[float]:
        found = np.concatenate([grid.probabilities for grid in model.grids(asked)])
        return [float(value) for value in found[tuple(_compared(asked))].ravel()]

    return call


def _pair_by_pair(folder: Path) -> Call:
    import torch
    import transformers

    asked, sizes = _asked(folder)
    place = _checkpoint(folder, sizes["layers"])
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
        return answers(_compared(asked))

    return call


def _share(sizes: Sizes) -> float:
    return min(1.0, (sizes["looped_pairs"] + COMPARED) / _pairs(sizes))


def _pairs(sizes: Sizes) -> int:
    return PAIRS_A_PHRASE * sizes["verbs"] * sizes["objects"] or ALL_PAIRS


def _products(sizes: Sizes) -> Work:
    return Work(flop=FLOP_A_PAIR * _pairs(sizes), why="0.4 MFLOP a pair: products that cannot be shared")


_LOOP = {"share": _share, "extrapolated": "{looped_pairs:,} pairs timed", "tolerance": 1e-5, "growth": ("objects",)}
_NAME = "a batched torch loop over the pairs"
OPERATIONS = {
    "probe-decomposable": Operation(
        "gender probe by decomposable attention, numpy, all 1,936,512 pairs",
        _factorised("numpy", "decomposable"),
        _loop("decomposable"),
        peer_name=_NAME,
        work=_products,
        sizes=WHOLE,
        **_LOOP,
    ),
    "probe-decomposable-torch": Operation(
        "the same by torch, 984 x {verbs} x {objects} pairs",
        _factorised("torch", "decomposable"),
        _loop("decomposable"),
        peer_name=_NAME,
        work=_products,
        **_LOOP,
    ),
    "probe-bilstm": Operation(
        "gender probe by the BiLSTM, 984 x {verbs} x {objects} pairs",
        _factorised("torch", "bilstm"),
        _loop("bilstm"),
        peer_name=_NAME,
        **_LOOP,
    ),
    "probe-transformer": Operation(
        "gender probe by a transformer of {layers} layers x 768, 984 pairs",
        _transformer,
        _pair_by_pair,
        peer_name="transformers, one pair at a time",
        sizes=FEW,
        share=_share,
        extrapolated="{looped_pairs:,} pairs timed",
        tolerance=1e-4,
    ),
}
