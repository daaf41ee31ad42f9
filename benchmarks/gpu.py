"""What runs on a GPU, ours against a plain loop there, with the arithmetic limit of the same device.

    EVENHAND_DATA=... python benchmarks/gpu.py [--device cuda] [--repeats 5] [--quick] [--out FILE]

For each operation: seconds of ours and of the loop, in turn; the ratio, with its smallest and largest value; the
floating-point operations of our matrix products, counted by torch; the rate of large products in the same format,
measured in the same run; the floor, which is the quotient of the two; and the share of it that is reached. A low share
means that the time goes into launching kernels, into element-wise work or into memory, not into products.

The weights are SYNTHETIC: random numbers of the true sizes. --quick asks little, to try the script on a processor.
"""

import argparse
import json
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from torch.utils.flop_counter import FlopCounterMode

import encoders
import lm
import probes
import transformer_probe
from evenhand import data
from evenhand.measures.likelihood.crows_pairs import score_pairs
from evenhand.measures.likelihood.stereotype_pairs import PairSet
from evenhand.models.encoders.sentences import TransformerSentences
from evenhand.models.lm.awd_lstm.model_folder import settings_of
from evenhand.models.lm.causal import CausalLM
from evenhand.models.lm.masked import MaskedLM
from evenhand.models.nli.protocol import predict_points
from evenhand.models.nli.transformer import TransformerNLI
from evenhand.models.vectors import Vectors
from evenhand.words.probes import probe

HERE = Path(__file__).parent
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}  # of a training step
RATES = ("float32", "bfloat16", "float16")
Row = dict[str, Any]


class Device:
    """Where everything runs: its clock and the rate of its matrix products."""

    def __init__(self, name: str, repeats: int) -> None:
        self.name, self.repeats = name, repeats
        self.rates = {kind: self._rate(getattr(torch, kind)) for kind in RATES}

    def seconds(self, call: Callable[[], object]) -> float:
        """Return the wall time of a call, everything finished."""
        self._wait()
        start = time.perf_counter()
        call()
        self._wait()
        return time.perf_counter() - start

    def alternate(self, ours: Callable[[], object], theirs: Callable[[], object]) -> tuple[list[float], list[float]]:
        """Time both in turn, after one call of each."""
        ours(), theirs()
        pairs = [(self.seconds(ours), self.seconds(theirs)) for _ in range(self.repeats)]
        return [first for first, _ in pairs], [second for _, second in pairs]

    def _wait(self) -> None:
        if self.name.startswith("cuda"):
            torch.cuda.synchronize()

    def _rate(self, dtype: torch.dtype) -> float:
        """Return the operations a second of large products."""
        size = 8192 if self.name.startswith("cuda") else 1024
        left, right = (torch.randn(size, size, device=self.name).to(dtype) for _ in range(2))
        left @ right
        return 2 * size**3 / min(self.seconds(lambda: left @ right) for _ in range(5))


def operations(call: Callable[[], object]) -> int:
    """Return the floating-point operations of all matrix products of a call."""
    with FlopCounterMode(display=False) as counter:
        call()
    return int(counter.get_total_flops())


def timed(
    device: Device,
    name: str,
    ours: Callable[[], object],
    theirs: Callable[[], object],
    *,
    times: float = 1.0,
    precision: str = "float32",
    flops: int | None = None,
    what: str,
) -> Row:
    """Return one row.

    Args:
        device: where it runs.
        name: of the operation.
        ours: our call.
        theirs: the loop.
        times: how many times the work of `theirs` ours does; the rate of the loop is constant.
        precision: of the products.
        flops: operations of ours, where torch cannot count them.
        what: the loop, in words.
    """
    own, loop = device.alternate(ours, theirs)
    ratios = [times * second / first for first, second in zip(own, loop, strict=True)]
    counted = operations(ours) if flops is None else flops
    floor = counted / device.rates[precision]
    row = {
        "operation": name, "ours_s": statistics.median(own), "loop_s": times * statistics.median(loop),
        "ratio": statistics.median(ratios), "ratio_range": [min(ratios), max(ratios)], "loop": what,
        "precision": precision, "tflop": counted / 1e12, "floor_s": floor, "share": floor / statistics.median(own),
    }  # fmt: skip
    print(json.dumps(row), flush=True)
    return row


def probe_rows(device: Device, quick: bool) -> list[Row]:
    """The gender probe through both models over word vectors, all pairs against batches of single pairs."""
    vectors, asked = Vectors.default(), probe("gender-occupation")
    asked = transformer_probe.limited(asked, 4) if quick else asked
    points = probes.evenly(asked, min(60_000, asked.n_pairs))
    rows = []
    for kind in probes.MODELS:
        model = probes.model_over(f"torch:{device.name}" if device.name != "cpu" else "torch", vectors, kind)
        rows.append(
            timed(
                device,
                f"gender probe, {kind}",
                lambda model=model: probes.factorised(model, asked),
                lambda model=model: predict_points(model, asked, points),
                times=asked.n_pairs / len(points[0]),
                what="batches of pairs, each read on its own",
            )
        )
    return rows


def transformer_row(device: Device, quick: bool) -> Row:
    """The same probe through a classifier of BERT-base's size."""
    full = probe("gender-occupation")
    asked = transformer_probe.limited(full, 2 if quick else 60)
    with tempfile.TemporaryDirectory() as folder:
        transformer_probe.make(full, Path(folder), 2 if quick else 12, device.name)
        model = TransformerNLI(folder, device=device.name, name="synthetic")
    texts = asked.texts(probes.evenly(asked, min(20_000, asked.n_pairs)))
    lengths = np.array([len(ids) for ids in transformer_probe.tokenizer(full)(*texts)["input_ids"]])
    width, layers = 768, 2 if quick else 12
    # Twelve width^2 weights a layer read each token, and attention multiplies two matrices of a row for each token.
    one = layers * (2 * 12 * width**2 * lengths.mean() + 4 * width * (lengths**2).mean())
    return timed(
        device,
        f"gender probe, classifier of {layers} x {width}, {asked.n_pairs:,} pairs",
        lambda: probes.factorised(model, asked),
        lambda: model.predict(*texts),
        times=asked.n_pairs / len(texts[0]),
        precision=model.device_model.precision,
        flops=round(asked.n_pairs * one),
        what="batches of pairs of equal length",
    )


def likelihood_rows(device: Device, quick: bool) -> list[Row]:
    """Likelihoods and sentence vectors against one call for each mask or sentence."""
    whole = PairSet.resolve(data.locate("crows-pairs") or _missing())
    few = PairSet("few", tuple(islice(whole.pairs, 2 if quick else 48)))
    rows = []
    for size in ("2x96",) if quick else ("6x384", "12x768"):
        model = encoders.bert(size, encoders.word_pieces(whole.texts), device.name)
        view, sentences = MaskedLM(model), TransformerSentences(model)
        loop = lambda model=model: encoders.mask_by_mask(model, few)  # noqa: E731
        rows += [
            timed(device, f"pseudo-log-likelihood, {size}", lambda view=view: score_pairs(view, few, "pll-shared"),
                  loop, what="one call for each mask"),
            timed(device, f"aul, {size}", lambda view=view: view.unmasked_log_probabilities(few.texts), loop,
                  what="one call for each mask (another measure)"),
            timed(device, f"sentence vectors of all layers, {size}",
                  lambda sentences=sentences: sentences.encode_layers(few.texts),
                  lambda sentences=sentences: [sentences.encode([text]) for text in few.texts],
                  what="one call for each sentence, last layer"),
        ]  # fmt: skip
    size = "2x72" if quick else "30x576"
    causal = encoders.llama(size, encoders.byte_pairs(whole.texts), device.name)
    view = CausalLM(causal)
    rows.append(
        timed(device, f"log-likelihood, causal {size}", lambda: view.log_probabilities(few.texts),
              lambda: encoders.two_calls(causal, few.texts), what="two calls for each sentence")
    )  # fmt: skip
    return rows


def _missing() -> Path:
    raise SystemExit("CrowS-Pairs is not on this disk: evenhand fetch crows-pairs, or set EVENHAND_DATA")


def training_rows(device: Device, quick: bool) -> list[Row]:
    """A step of the language model against the same step with a cell for each token."""
    settings, words = (lm.SMALL, 1_000) if quick else (settings_of("ptb"), 10_000)
    widths = [settings.embedding, *[settings.hidden] * (settings.layers - 1), settings.embedding]
    weights = sum(4 * after * (before + after) for before, after in pairwise(widths))
    tokens = settings.batch * settings.bptt
    # Forward, and twice as much backward: with respect to the inputs and to the weights.
    flops = 3 * 2 * tokens * (weights + words * settings.embedding)
    rows = []
    for precision, dtype in DTYPES.items() if device.name != "cpu" else [("float32", torch.float32)]:
        fused, cells = (lm.made(settings, words, device.name, dtype, way) for way in ("fused", "unfused"))
        rows.append(
            timed(
                device,
                f"training step of the AWD-LSTM, {precision}",
                lambda fused=fused: lm.milliseconds(fused, 0, 20),
                lambda cells=cells: lm.milliseconds(cells, 0, 5),
                times=4.0,
                precision=precision,
                flops=20 * flops,
                what="an LSTM cell for each token; 20 steps",
            )
        )
    return rows


def main() -> None:
    """Time everything and write JSON after each group, so that an interrupted run keeps what it has."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "gpu-limits.json")
    given = parser.parse_args()
    device = Device(given.device, given.repeats)
    result: dict[str, Any] = {
        "command": "python benchmarks/gpu.py",
        "weights": "synthetic: random numbers of the true sizes",
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "device": torch.cuda.get_device_name() if given.device.startswith("cuda") else platform.machine(),
        "teraflop_per_s": {kind: rate / 1e12 for kind, rate in device.rates.items()},
        "repeats": given.repeats,
        "versions": {"python": platform.python_version(), "torch": torch.__version__, "numpy": np.__version__,
                     "transformers": transformers.__version__},
        "rows": [],
    }  # fmt: skip
    groups: tuple[Callable[[Device, bool], list[Row]], ...] = (
        probe_rows, likelihood_rows, training_rows, lambda device, quick: [transformer_row(device, quick)],
    )  # fmt: skip
    for group in groups:
        result["rows"] += group(device, given.quick)
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(json.dumps(transformer_probe.rounded(result), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
