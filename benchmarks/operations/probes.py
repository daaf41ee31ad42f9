"""Evaluation of the gender probe by NLI models over word vectors."""

import json
from pathlib import Path

from operation import Call, Operation, Sizes, Work

ABOUT = "SYNTHETIC: random weights (times do not depend on them); the embedded GloVe vectors and the gender probe"
# One object makes 984 pairs with each of ten verbs; 0 objects stand for the whole probe.
SIZES = {"objects": 48, "verbs": 10, "looped_pairs": 10_000}
GROWTH = {"objects": 5, "verbs": 10, "looped_pairs": 100}
TINY = {"objects": 1, "verbs": 1, "looped_pairs": 100}
WHOLE = {"objects": 0}
ALL_PAIRS, PAIRS_A_PHRASE = 1_936_512, 984
# Of the factorised evaluation of the whole probe, as benchmarks/probe_floor.py counts it from the shapes.
FLOP_A_PAIR = {"decomposable": 0.917e12 / ALL_PAIRS, "bilstm": 3.084e12 / ALL_PAIRS}
COMPARED = 40
BATCHES = (32, 64, 128, 256)


def prepare(folder: Path, sizes: Sizes) -> None:
    """Write the sizes."""
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


def _share(sizes: Sizes) -> float:
    return min(1.0, (sizes["looped_pairs"] + COMPARED) / _pairs(sizes))


def _pairs(sizes: Sizes) -> int:
    return PAIRS_A_PHRASE * sizes["verbs"] * sizes["objects"] or ALL_PAIRS


def _products(kind: str):  # type: ignore[no-untyped-def]
    each = FLOP_A_PAIR[kind]

    def work(sizes: Sizes) -> Work:
        return Work(flop=each * _pairs(sizes), why=f"{each / 1e6:.2f} MFLOP a pair: products that cannot be shared")

    return work


_LOOP = {"share": _share, "extrapolated": "{looped_pairs:,} pairs timed", "tolerance": 1e-5, "growth": ("objects",)}
_NAME = "a batched torch loop over the pairs"
OPERATIONS = {
    "probe-decomposable": Operation(
        "gender probe by decomposable attention, numpy, all 1,936,512 pairs",
        _factorised("numpy", "decomposable"),
        _loop("decomposable"),
        peer_name=_NAME,
        work=_products("decomposable"),
        sizes=WHOLE,
        **_LOOP,
    ),
    "probe-decomposable-torch": Operation(
        "the same by torch, 984 x {verbs} x {objects} pairs",
        _factorised("torch", "decomposable"),
        _loop("decomposable"),
        peer_name=_NAME,
        work=_products("decomposable"),
        **_LOOP,
    ),
    "probe-bilstm": Operation(
        "gender probe by the BiLSTM, 984 x {verbs} x {objects} pairs",
        _factorised("torch", "bilstm"),
        _loop("bilstm"),
        peer_name=_NAME,
        work=_products("bilstm"),
        **_LOOP,
    ),
}
