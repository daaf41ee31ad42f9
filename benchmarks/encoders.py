"""Likelihoods and sentence vectors of transformers against the loops that public codes run, in one run.

    EVENHAND_DATA=... python benchmarks/encoders.py [--device cpu|cuda] [--pairs 24] [--repeats 3] [--threads N]
                                                    [--models 6x384,12x768] [--causal 30x576] [--out FILE]

The weights are SYNTHETIC: random numbers of the true sizes (BERT of 6 x 384 and 12 x 768 with 30,522 word pieces, a
Llama of 30 x 576 with 49,152, which is the size of SmolLM2-135M). The run says how fast the scores are, not what they
are. The texts are the first pairs of CrowS-Pairs; on a GPU all of them are also scored our way.

Rows, each the best of the repeats, ours and theirs in turn:
  pll     exact pseudo-log-likelihood of the shared tokens, against one call for each mask with all logits
  causal  log-probability of each sentence, against two calls: the first token after the beginning, the rest without it
  aul     All Unmasked Likelihood, against the same loop over masks (another measure: what one pass can give)
  seat    sentence vectors of all layers, against those of the last layer
Prints a table and writes JSON.
"""

import argparse
import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from evenhand import data
from evenhand.measures.likelihood.crows_pairs import score_pairs, shared_tokens
from evenhand.measures.likelihood.stereotype_pairs import PairSet
from evenhand.models.encoders.sentences import TransformerSentences
from evenhand.models.encoders.transformer import Transformer
from evenhand.models.lm.causal import CausalLM
from evenhand.models.lm.masked import MaskedLM

PIECES, BYTES = 30_522, 49_152  # vocabularies of BERT and of SmolLM2
SEED = 20
# What the issue asks for: our speed against the loop, by device; seat is a limit on the slowdown.
BARS = {"cpu": {"pll 6x384": 3.5, "pll 12x768": 2.0, "causal": 2.0, "aul": 20.0}, "cuda": {"pll": 10.0}}
SEAT_BAR = 1.3


def word_pieces(texts: Sequence[str]) -> Any:
    """Word pieces trained on the texts; the model has rows for more."""
    core = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    core.normalizer = normalizers.BertNormalizer(lowercase=True)
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    core.train_from_iterator(
        texts, trainers.WordPieceTrainer(vocab_size=8_000, special_tokens=special, show_progress=False)
    )
    ends = [(token, core.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
    core.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ends
    )
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=core, mask_token="[MASK]", **names)


def byte_pairs(texts: Sequence[str]) -> Any:
    """A byte-level tokenizer trained on the texts; its words are whole, as those of a large vocabulary are."""
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    end = "<|endoftext|>"
    core.train_from_iterator(
        texts,
        trainers.BpeTrainer(vocab_size=8_000, special_tokens=[end], initial_alphabet=alphabet, show_progress=False),
    )
    return transformers.PreTrainedTokenizerFast(tokenizer_object=core, bos_token=end, eos_token=end)


def bert(size: str, tokenizer: Any, device: str) -> Transformer:
    """Return a random BERT of so many layers and dimensions."""
    layers, width = map(int, size.split("x"))
    torch.manual_seed(SEED)
    config = transformers.BertConfig(
        vocab_size=PIECES,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=12,
        intermediate_size=4 * width,
        initializer_range=0.05,
    )
    model = transformers.BertForMaskedLM(config).eval().to(device)
    return Transformer(f"synthetic {size}", "masked-lm", model, tokenizer, device, "float32")


def llama(size: str, tokenizer: Any, device: str) -> Transformer:
    """Return a random Llama with the proportions of SmolLM2."""
    layers, width = map(int, size.split("x"))
    torch.manual_seed(SEED)
    config = transformers.LlamaConfig(
        vocab_size=BYTES,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=9,
        num_key_value_heads=3,
        intermediate_size=width * 8 // 3,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
    )
    model = transformers.LlamaForCausalLM(config).eval().to(device)
    return Transformer(f"synthetic {size}", "causal-lm", model, tokenizer, device, "float32")


def mask_by_mask(transformer: Transformer, asked: PairSet) -> np.ndarray:
    """Return the sums over shared tokens from one call for each mask, as public codes compute them."""
    tokenizer, model, device = transformer.tokenizer, transformer.model, transformer.device
    sums = np.zeros((2, len(asked.pairs)))
    for column, pair in enumerate(asked.pairs):
        ids = [tokenizer(text, return_tensors="pt")["input_ids"] for text in (pair.more, pair.less)]
        shared = shared_tokens(*(row[0, 1:-1].numpy() for row in ids))
        for row, positions in enumerate(shared):
            whole = ids[row].to(device)
            for position in positions:
                masked = whole.clone()
                masked[0, position + 1] = tokenizer.mask_token_id
                with torch.no_grad():
                    logits = model(masked).logits[0, position + 1]
                sums[row, column] += logits.log_softmax(-1)[whole[0, position + 1]].item()
    return sums


def two_calls(transformer: Transformer, texts: Sequence[str]) -> np.ndarray:
    """Return the log-probabilities of sentences: the first token after the beginning, the rest without it."""
    tokenizer, model, device = transformer.tokenizer, transformer.model, transformer.device
    first = torch.tensor([[tokenizer.bos_token_id]], device=device)
    sums = []
    for text in texts:
        ids = tokenizer(text, add_special_tokens=False, return_tensors="pt")["input_ids"].to(device)
        with torch.no_grad():
            start = model(first).logits[0, -1].log_softmax(-1)[ids[0, 0]]
            logs = model(ids).logits[0, :-1].log_softmax(-1)
        sums.append((start + logs.gather(-1, ids[0, 1:, None]).sum()).item())
    return np.array(sums)


def best(calls: dict[str, Callable[[], Any]], repeats: int, device: str) -> dict[str, float]:
    """Return the fewest seconds of each call; the calls take turns, so that other load meets all of them."""
    seconds = dict.fromkeys(calls, float("inf"))
    for _ in range(repeats):
        for name, call in calls.items():
            if device.startswith("cuda"):
                torch.cuda.synchronize()
            start = time.perf_counter()
            call()
            if device.startswith("cuda"):
                torch.cuda.synchronize()
            seconds[name] = min(seconds[name], time.perf_counter() - start)
    return seconds


def masked_rows(size: str, whole: PairSet, given: argparse.Namespace) -> list[dict[str, Any]]:
    """Time pll, aul and seat of one size."""
    transformer = bert(size, word_pieces(whole.texts), given.device)
    view, sentences = MaskedLM(transformer), TransformerSentences(transformer)
    few = PairSet("few", tuple(islice(whole.pairs, given.pairs)))
    mask_by_mask(transformer, PairSet("warm", few.pairs[:2]))  # the first call sets the device up
    view.unmasked_log_probabilities(few.texts[:2])
    seconds = best(
        {
            "loop": lambda: mask_by_mask(transformer, few),
            "pll": lambda: score_pairs(view, few, "pll-shared"),
            "aul": lambda: view.unmasked_log_probabilities(few.texts),
            "one layer": lambda: sentences.encode(few.texts),
            "all layers": lambda: sentences.encode_layers(few.texts),
        },
        given.repeats,
        given.device,
    )
    scores = score_pairs(view, few, "pll-shared")
    difference = float(np.abs(np.stack([scores.more, scores.less]) - mask_by_mask(transformer, few)).max())
    row = {"model": size, "pairs": len(few.pairs), "texts": len(few.texts)}
    masks = int(2 * scores.columns["shared"].sum())
    rows = [
        {
            **row,
            "row": "pll",
            "theirs_s": seconds["loop"],
            "ours_s": seconds["pll"],
            "masks": masks,
            "largest_difference": difference,
        },
        {**row, "row": "aul", "theirs_s": seconds["loop"], "ours_s": seconds["aul"]},
        {**row, "row": "seat", "theirs_s": seconds["one layer"], "ours_s": seconds["all layers"]},
    ]
    if given.device.startswith("cuda"):
        rows.append(all_pairs("pll", size, whole, lambda: score_pairs(view, whole, "pll-shared"), given))
    return rows


def causal_rows(size: str, whole: PairSet, given: argparse.Namespace) -> list[dict[str, Any]]:
    """Time the causal model."""
    transformer = llama(size, byte_pairs(whole.texts), given.device)
    view = CausalLM(transformer)
    few = PairSet("few", tuple(islice(whole.pairs, given.pairs)))
    two_calls(transformer, few.texts[:2])
    view.log_probabilities(few.texts[:2])
    seconds = best(
        {"loop": lambda: two_calls(transformer, few.texts), "ours": lambda: view.log_probabilities(few.texts)},
        given.repeats,
        given.device,
    )
    row = {"row": "causal", "model": size, "pairs": len(few.pairs), "texts": len(few.texts)}
    rows = [{**row, "theirs_s": seconds["loop"], "ours_s": seconds["ours"]}]
    if given.device.startswith("cuda"):
        rows.append(all_pairs("causal", size, whole, lambda: score_pairs(view, whole, "causal-sum"), given))
    return rows


def all_pairs(
    row: str, size: str, whole: PairSet, call: Callable[[], Any], given: argparse.Namespace
) -> dict[str, Any]:
    """Time all of CrowS-Pairs our way."""
    seconds = best({"ours": call}, 1, given.device)["ours"]
    return {"row": f"{row}, all pairs", "model": size, "pairs": len(whole.pairs), "ours_s": seconds}


def with_bars(row: dict[str, Any], device: str) -> dict[str, Any]:
    """Add the ratio, the bar that applies, and whether it is met."""
    if "theirs_s" not in row:
        return row
    ratio = row["theirs_s"] / row["ours_s"]
    if row["row"] == "seat":
        return row | {"ratio": ratio, "bar": 1 / SEAT_BAR, "met": ratio >= 1 / SEAT_BAR}
    bars = BARS[device.partition(":")[0]]
    bar = bars.get(f"{row['row']} {row['model']}", bars.get(row["row"]))
    return row | {"ratio": ratio} | ({"bar": bar, "met": ratio >= bar} if bar else {})


def options() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--pairs", type=int, default=24, help="pairs that the loops score")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, help="of torch on a CPU")
    parser.add_argument("--models", default="6x384,12x768")
    parser.add_argument("--causal", default="30x576")
    parser.add_argument("--data", type=Path, help="the CSV file of CrowS-Pairs; by default the fetched one")
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def main() -> None:
    """Time everything, print a table, write JSON."""
    given = options()
    if given.threads:
        torch.set_num_threads(given.threads)
    located = given.data or data.locate("crows-pairs")
    if located is None:
        raise SystemExit("CrowS-Pairs is not on this disk: evenhand fetch crows-pairs, or --data FILE")
    whole = PairSet.resolve(located)
    rows = [row for size in filter(None, given.models.split(",")) for row in masked_rows(size, whole, given)]
    rows += causal_rows(given.causal, whole, given) if given.causal else []
    rows = [with_bars(row, given.device) for row in rows]
    result = {
        "weights": "synthetic: random numbers of the true sizes",
        "rows": rows,
        "device": torch.cuda.get_device_name() if given.device.startswith("cuda") else platform.machine(),
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
    }
    out = given.out or Path(__file__).parent / "results" / f"encoders-{given.device.partition(':')[0]}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"{'row':20} {'model':8} {'pairs':>6} {'theirs s':>9} {'ours s':>9} {'ratio':>7} {'bar':>6}")
    for row in rows:
        theirs, ratio, bar = (f"{row[name]:.2f}" if name in row else "" for name in ("theirs_s", "ratio", "bar"))
        print(
            f"{row['row']:20} {row['model']:8} {row['pairs']:6} {theirs:>9} {row['ours_s']:9.2f} {ratio:>7} {bar:>6}"
            f"{'' if row.get('met', True) else '  not met'}"
        )


if __name__ == "__main__":
    main()
