"""A training step of the language model: the fused layers against a loop of cells over time, in one run.

    python benchmarks/lm.py [--device cuda] [--precision fp32 bf16] [--warm 20] [--steps 50]

On a GPU with the sizes of the Penn Treebank (10,000 words, 400-1150-1150-400, batch 40, 70 steps), elsewhere with
small ones. Three ways with the same weights and dropout: `fused` (ours), `unaligned` (ours without the units that are
added for alignment) and `unfused` (each layer a loop of `lstm_cell`). Whole steps: forward, backward, clipping, update;
synchronised. Random text. On a GPU then the fused step with the bias term in both definitions, at the vocabularies and
batches of PTB and WikiText-2, in bf16. Prints one JSON line.
"""

import argparse
import json
import platform
import time
from typing import Any

import numpy as np
import torch

from evenhand.models.lm import BiasRegulariser
from evenhand.models.lm.awd_lstm.corpus import LMCorpus, TokenVocabulary
from evenhand.models.lm.awd_lstm.model_folder import LMSettings, settings_of
from evenhand.models.lm.awd_lstm.network import LSTMLayer, mask
from evenhand.models.lm.awd_lstm.training import TrainingState
from evenhand.reproduce.bordia2019 import DEFINITIONS

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
SMALL = LMSettings(embedding=64, hidden=128, batch=8)
PAIRS = [(2 * pair, 2 * pair + 1) for pair in range(20)]  # about as many as the lists have
SIZES = {"ptb": 10_000, "wikitext-2": 33_278}


def cells(layer: LSTMLayer, values: Any, state: Any, *, drop: float = 0.0, generator: Any = None) -> Any:
    """The layer as a loop over time, as one writes it by hand."""
    hidden = layer.weight_hh * mask(layer.weight_hh, tuple(layer.weight_hh.shape), drop, generator)
    weights = [w.to(values.dtype) for w in (layer.weight_ih, hidden, layer.bias_ih, layer.bias_hh)]
    now, outputs = (state[0][0], state[1][0]), []
    for value in values:
        now = torch._VF.lstm_cell(value, now, *weights)
        outputs.append(now[0])
    return torch.stack(outputs), (now[0][None], now[1][None])


def made(
    settings: LMSettings, words: int, device: str, dtype: Any, way: str = "fused", term: Any = None
) -> TrainingState:
    """A run whose stretches all have the full length."""
    text = np.random.default_rng(0).integers(0, words, settings.batch * (settings.bptt + 1)).astype(np.int32)
    vocabulary = TokenVocabulary(tuple(f"w{i}" for i in range(words)))
    corpus = LMCorpus(text, text, text, vocabulary)
    run = TrainingState(corpus, settings, seed=0, device=device, dtype=dtype, term=term)
    for layer in run.model.layers:
        layer.align = 1 if way != "fused" else None
        if way == "unfused":
            layer.forward = cells.__get__(layer)
    run.start_epoch(1)
    run.lengths, run.starts = [settings.bptt], [0]
    return run


def milliseconds(run: TrainingState, warm: int, steps: int) -> float:
    """Mean wall time of a step."""
    wait = torch.cuda.synchronize if run.text.is_cuda else lambda: None
    for count in range(warm + steps):
        if count == warm:
            wait()
            began = time.perf_counter()
        run.step = 0
        run.advance()
    wait()
    return (time.perf_counter() - began) / steps * 1e3


def terms(device: str, warm: int, steps: int) -> dict[str, dict[str, float]]:
    """A step without the term and with it, in milliseconds."""
    found: dict[str, dict[str, float]] = {}
    for name, words in SIZES.items():
        settings = settings_of(name)
        added = {"without": None} | {
            key: BiasRegulariser(PAIRS, strength=0.01, **options).on("input") for key, options in DEFINITIONS.items()
        }
        found[name] = {
            key: round(milliseconds(made(settings, words, device, torch.bfloat16, term=term), warm, steps), 2)
            for key, term in added.items()
        }
    return found


def main() -> None:
    """Time the three ways in every precision asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", nargs="+", choices=DTYPES)
    parser.add_argument("--warm", type=int)
    parser.add_argument("--steps", type=int)
    given = parser.parse_args()
    gpu = given.device.startswith("cuda")
    settings, words = (settings_of("ptb"), 10_000) if gpu else (SMALL, 1_000)
    warm, steps = given.warm or (20 if gpu else 2), given.steps or (50 if gpu else 8)
    found: dict[str, Any] = {}
    for name in given.precision or (tuple(DTYPES) if gpu else ("fp32",)):
        times = {
            way: milliseconds(made(settings, words, given.device, DTYPES[name], way), warm, steps)
            for way in ("fused", "unaligned", "unfused")
        }
        found[name] = {
            **{f"{way}_ms": round(value, 2) for way, value in times.items()},
            "tokens_per_second": round(settings.batch * settings.bptt / times["fused"] * 1e3),
            "unfused_over_fused": round(times["unfused"] / times["fused"], 2),
        }
    if gpu:
        found["bf16_ms_with_term"] = terms(given.device, warm, steps)
    about = {"device": torch.cuda.get_device_name() if gpu else platform.processor() or platform.machine()}
    sizes = {"words": words, **{name: getattr(settings, name) for name in ("embedding", "hidden", "batch", "bptt")}}
    print(json.dumps({**about, "torch": torch.__version__, "threads": torch.get_num_threads(), **sizes, **found}))


if __name__ == "__main__":
    main()
