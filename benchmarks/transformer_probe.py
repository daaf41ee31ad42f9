"""A BERT-base-sized classifier over the whole gender probe: time in half precision, and agreement with float32.

    python benchmarks/transformer_probe.py [--sample 100000] [--whole-float32] [--device auto] [--batch TOKENS]
                                           [--precision auto] [--limit-phrases N] [--layers 12]

The weights are SYNTHETIC: a BERT of random numbers from a fixed seed, whose three outputs are the directions in which
its sentence vectors differ most from pair to pair, as those of a trained classifier do. The run therefore says how fast
the probe is and how well number formats agree; it says nothing about bias. The word pieces are made from the words of
the probe: words of up to eight letters whole, longer ones in two.

All pairs go through `TransformerNLI` in float16 (float32 without a GPU) and are scored, with intervals. A stratified
sample is asked again pair by pair, in both formats; with --whole-float32 so are all pairs, in float32. --limit-phrases
asks about a few phrases only, to try the script. Prints one JSON line, and a fuller one after --whole-float32.
"""

import argparse
import json
import os
import platform
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

try:
    import zstandard  # noqa: F401
except ImportError:  # nothing compressed is read here, and a machine with a GPU may lack it
    sys.modules["zstandard"] = ModuleType("zstandard")
    sys.modules["zstandard"].ZstdError = ValueError  # type: ignore[attr-defined]

import torch
import transformers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from evenhand.measures.inference import ProbeResult
from evenhand.measures.inference import probe as run
from evenhand.models.nli import LABELS, Grid, Probabilities
from evenhand.models.nli.transformer import TransformerNLI
from evenhand.words.probes import Probe, probe, stratified

VOCABULARY = 30_522
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".")
WHOLE = 8
SEED = 20
SPREAD = 2.0  # of the logits over pairs, with half of it in favour of neutral: answers of all kinds occur
FITTED_PAIRS = 1_024
BARS = {"seconds": 300.0, "score_difference": 0.002}


def words(asked: Probe) -> list[str]:
    """All words of the sentences, in lower case."""
    fillers = [filler.word for side in (asked.premise, asked.hypothesis) for filler in side]
    slots = [word for template in asked.templates for each in template.fillers.values() for word in each]
    texts = [template.text for template in asked.templates]
    found = " ".join([*fillers, *slots, *texts, "a an the"]).lower()
    return sorted(set("".join(sign if sign.isalpha() else " " for sign in found).split()))


def tokenizer(asked: Probe) -> Any:
    """Word pieces over the words of the probe, filled up to BERT's size."""
    letters = [mark + chr(letter) for mark in ("", "##") for letter in range(ord("a"), ord("z") + 1)]
    known = words(asked)
    pieces = [piece for w in known for piece in ((w,) if len(w) <= WHOLE else (w[:5], "##" + w[5:]))]
    used = list(dict.fromkeys([*SPECIAL, *letters, "-", "##-", *pieces]))
    vocabulary = {
        token: row for row, token in enumerate([*used, *(f"[unused{n}]" for n in range(len(used), VOCABULARY))])
    }
    made = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    ends = [(token, vocabulary[token]) for token in ("[CLS]", "[SEP]")]
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1", special_tokens=ends
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        model_max_length=512,
    )


def classifier(asked: Probe, pieces: Any, layers: int, device: str) -> Any:
    """Random weights; the last layer reads off the three main directions of the pooled vectors of some pairs."""
    torch.manual_seed(SEED)
    config = transformers.BertConfig(
        vocab_size=VOCABULARY,
        num_hidden_layers=layers,
        id2label=dict(enumerate(LABELS)),
        label2id={label: row for row, label in enumerate(LABELS)},
    )
    model = transformers.BertForSequenceClassification(config).eval().to(device)
    listen_to_words(model)
    pooled = vectors_of(model, asked, pieces, device)
    centre = pooled.mean(0)
    _, sizes, directions = torch.linalg.svd(pooled - centre, full_matrices=False)
    # the first direction is that of neutral against the rest; signs are fixed, for a decomposition leaves them open
    directions = directions[:3] * directions[:3].sum(1, keepdim=True).sign()
    weight = directions * (SPREAD * len(pooled) ** 0.5 / sizes[:3, None])
    with torch.no_grad():
        model.classifier.weight.copy_(weight[[1, 0, 2]])
        model.classifier.bias.copy_(-(weight[[1, 0, 2]] @ centre) + torch.tensor([0, SPREAD / 2, 0], device=device))
    return model.cpu()


def listen_to_words(model: Any) -> None:
    """Weaker positions and stronger values of the attention, as training makes them.

    At its first random numbers a BERT gives nearly the same vector for all pairs, and what little differs drowns in the
    rounding of any format.
    """
    with torch.no_grad():
        for table in (model.bert.embeddings.position_embeddings, model.bert.embeddings.token_type_embeddings):
            table.weight.mul_(0.1)
        for layer in model.bert.encoder.layer:
            layer.attention.self.value.weight.mul_(4)
            layer.attention.output.dense.weight.mul_(4)


def vectors_of(model: Any, asked: Probe, pieces: Any, device: str) -> torch.Tensor:
    """The pooled vectors of a sample of pairs."""
    texts = asked.texts(stratified(asked, min(FITTED_PAIRS, asked.n_pairs // 2), seed=SEED).points)
    found = []
    with torch.inference_mode():
        for start in range(0, len(texts[0]), 64):
            some = pieces(*(side[start : start + 64] for side in texts), return_tensors="pt", padding=True).to(device)
            found.append(model.bert(**some).pooler_output)
    return torch.cat(found).clone()


class Kept:
    """The model, keeping its answers to the whole probe: 23 MB for two million pairs."""

    def __init__(self, model: TransformerNLI) -> None:
        self.model, self.name = model, model.name
        self.grids_so_far: list[np.ndarray] = []

    def predict(self, premises: Any, hypotheses: Any) -> Probabilities:
        """Passed on."""
        return self.model.predict(premises, hypotheses)

    def grids(self, asked: Probe) -> Iterator[Grid]:
        """Passed on, and kept: the probe comes part by part, each numbered from 0, but all in their order."""
        for grid in self.model.grids(asked):
            self.grids_so_far.append(grid.probabilities)
            yield grid

    @property
    def answers(self) -> np.ndarray:
        """(phrases, premises, hypotheses, labels)."""
        return np.concatenate(self.grids_so_far)


def clocked(call: Any) -> tuple[Any, float]:
    """The result and the seconds it took."""
    start = time.perf_counter()
    found = call()
    return found, time.perf_counter() - start


def whole(model: TransformerNLI, asked: Probe) -> tuple[ProbeResult, np.ndarray, float]:
    """Scores, answers and seconds of the whole probe, scoring and intervals included."""
    kept = Kept(model)
    result, seconds = clocked(lambda: run(kept, asked, controls=False))
    return result, kept.answers, seconds


def scores(answers: np.ndarray) -> dict[str, float]:
    """NN, FN, T:0.5 and T:0.7 of answers in any shape."""
    rows = answers.reshape(-1, len(LABELS))
    neutral = rows[:, 1].astype(np.float64)
    said = rows.argmax(1) == 1
    return {"NN": neutral.mean(), "FN": said.mean(), "T:0.5": (neutral > 0.5).mean(), "T:0.7": (neutral > 0.7).mean()}


def apart(first: dict[str, float], second: dict[str, float]) -> float:
    """The largest difference of any score."""
    return max(abs(first[name] - second[name]) for name in first)


def limited(asked: Probe, phrases: int | None) -> Probe:
    """The probe with one verb and so many of its objects, at most those it has."""
    if phrases is None:
        return asked
    fillers = asked.templates[0].fillers
    return asked.restrict(verb=fillers["verb"].words[0], object=list(fillers["object"].words[:phrases]))


def options() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=100_000)
    parser.add_argument("--whole-float32", action="store_true")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--precision", default="auto", help="of the timed run: float16 where there is a GPU")
    parser.add_argument("--batch", type=int, help="tokens at once")
    parser.add_argument("--limit-phrases", type=int)
    parser.add_argument("--layers", type=int, default=12)
    return parser.parse_args()


def main() -> None:
    """Time the whole probe, then compare."""
    given = options()
    full = probe("gender-occupation")
    asked = limited(full, given.limit_phrases)
    device = "cuda" if given.device == "auto" and torch.cuda.is_available() else given.device.replace("auto", "cpu")
    with tempfile.TemporaryDirectory() as folder:
        _, making = clocked(lambda: make(full, Path(folder), given.layers, device))
        how = {"device": device, "batch": given.batch, "name": "synthetic-bert-base"}
        fast, loading = clocked(lambda: TransformerNLI(folder, precision=given.precision, **how))
        exact = TransformerNLI(folder, precision="float32", **how)
    drawn = stratified(asked, min(given.sample, asked.n_pairs - 1), seed=SEED).points
    texts = asked.texts(drawn)
    fast.predict(*(side[:2_000] for side in texts))  # the first call sets the device up
    result, answers, seconds = whole(fast, asked)
    peak = torch.cuda.max_memory_allocated() / 2**20 if device.startswith("cuda") else None
    plain, plain_seconds = clocked(lambda: fast.predict(*texts).matrix)
    reference, reference_seconds = clocked(lambda: exact.predict(*texts).matrix)
    sampled = {"fast": scores(plain), "float32": scores(reference)}
    found = {
        "weights": "synthetic: random BERT, outputs along the main directions of its pooled vectors; not about bias",
        "pairs": asked.n_pairs,
        "sample": len(plain),
        "precision": fast.device_model.precision,
        "batch_tokens": fast.device_model.tokens,
        "seconds": {"make": making, "load": loading, "whole_probe": seconds},
        "pairs_per_s": {
            "whole_probe": asked.n_pairs / seconds,
            "pair_by_pair": len(plain) / plain_seconds,
            "pair_by_pair_float32": len(plain) / reference_seconds,
        },
        "scores": {"whole": scores(answers), "sample": sampled["fast"], "sample_float32": sampled["float32"]},
        "net_neutral_interval": result.neutrality.net_neutral.interval,
        "score_difference": {"sample": apart(sampled["fast"], sampled["float32"])},
        "largest_probability_difference": {
            "ways": float(np.abs(answers[tuple(drawn)] - plain).max()),
            "float32": float(np.abs(plain - reference).max()),
        },
        "mean_probability_difference": float(np.abs(plain - reference).mean()),
        "probability_spread": np.std(reference, axis=0).tolist(),
        "peak_gpu_mb": peak,
    }
    tell(found, given, device)
    if given.whole_float32:
        _, exact_answers, exact_seconds = whole(exact, asked)
        found["seconds"]["whole_probe_float32"] = exact_seconds
        found["scores"]["whole_float32"] = scores(exact_answers)
        found["score_difference"]["whole"] = apart(scores(answers), scores(exact_answers))
        found["largest_probability_difference"]["whole_float32"] = float(np.abs(answers - exact_answers).max())
        tell(found, given, device)


def tell(found: dict[str, Any], given: argparse.Namespace, device: str) -> None:
    """One line: what was found so far, whether the bars are met, and where it ran."""
    seconds, difference = found["seconds"]["whole_probe"], max(found["score_difference"].values())
    met = {
        "seconds": given.limit_phrases is None and seconds < BARS["seconds"],
        "score_difference": bool(difference <= BARS["score_difference"]),
    }
    print(json.dumps(rounded({**found, "bars_met": met, **surroundings(device)})), flush=True)


def make(asked: Probe, folder: Path, layers: int, device: str) -> None:
    """Write the model and its tokenizer."""
    pieces = tokenizer(asked)
    classifier(asked, pieces, layers, device).save_pretrained(folder)
    pieces.save_pretrained(folder)


def surroundings(device: str) -> dict[str, Any]:
    """Where it ran."""
    return {
        "peak_host_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "device": torch.cuda.get_device_name() if device.startswith("cuda") else platform.machine(),
        "cores": os.cpu_count(),
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "numpy": np.__version__,
        },
    }


def rounded(value: Any) -> Any:
    """Five digits are enough."""
    if isinstance(value, dict):
        return {key: rounded(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(part) for part in value]
    return float(f"{value:.5g}") if isinstance(value, float) else value


if __name__ == "__main__":
    main()
