"""Likelihoods and sentence vectors of transformers against one sentence at a time."""

import json
from pathlib import Path

from operation import Call, DataMissingError, Operation, Sizes

ABOUT = "SYNTHETIC: random weights of true sizes; the first pairs of CrowS-Pairs (EVENHAND_DATA)"
SIZES = {"pairs": 4}
GROWTH = {"pairs": 1}
TINY = {"pairs": 1}
MASKED, CAUSAL = "6x384", "8x576"


def prepare(folder: Path, sizes: Sizes) -> None:
    """Write the place of the pairs and how many are asked."""
    from evenhand import data

    located = data.locate("crows-pairs")
    if located is None:
        raise DataMissingError("CrowS-Pairs is not on this disk; set EVENHAND_DATA")
    (folder / "task.json").write_text(json.dumps({**sizes, "path": str(located)}))
    from encoders import byte_pairs, word_pieces

    # Trained once: the result of training depends on the process.
    whole, _ = _pairs(folder)
    word_pieces(whole.texts).save_pretrained(folder / "pieces")
    byte_pairs(whole.texts).save_pretrained(folder / "bytes")


def _pairs(folder: Path):  # type: ignore[no-untyped-def]
    """Return all pairs, and those that are asked."""
    from evenhand.measures.likelihood.stereotype_pairs import PairSet

    task = json.loads((folder / "task.json").read_text())
    whole = PairSet.resolve(Path(task["path"]))
    return whole, PairSet("few", tuple(list(whole.pairs)[: task["pairs"]]))


def _bert(folder: Path):  # type: ignore[no-untyped-def]
    from transformers import PreTrainedTokenizerFast

    from encoders import bert

    return bert(MASKED, PreTrainedTokenizerFast.from_pretrained(folder / "pieces"), "cpu"), _pairs(folder)[1]


def _llama(folder: Path):  # type: ignore[no-untyped-def]
    from transformers import PreTrainedTokenizerFast

    from encoders import llama

    return llama(CAUSAL, PreTrainedTokenizerFast.from_pretrained(folder / "bytes"), "cpu"), _pairs(folder)[1]


def _pll(folder: Path) -> Call:
    from evenhand.measures.likelihood.crows_pairs import score_pairs
    from evenhand.models.lm.masked import MaskedLM

    transformer, few = _bert(folder)
    view = MaskedLM(transformer)

    def call() -> list[float]:
        scores = score_pairs(view, few, "pll-shared")
        return [*map(float, scores.more), *map(float, scores.less)]

    return call


def _pll_loop(folder: Path) -> Call:
    from encoders import mask_by_mask

    transformer, few = _bert(folder)
    return lambda: [float(value) for value in mask_by_mask(transformer, few).ravel()]


def _causal(folder: Path) -> Call:
    from evenhand.models.lm.causal import CausalLM

    transformer, few = _llama(folder)
    view = CausalLM(transformer)
    return lambda: len(view.log_probabilities(few.texts))


def _causal_loop(folder: Path) -> Call:
    from encoders import two_calls

    transformer, few = _llama(folder)
    return lambda: len(two_calls(transformer, few.texts))


def _sentences(folder: Path) -> Call:
    from evenhand.models.encoders.sentences import TransformerSentences

    transformer, few = _bert(folder)
    view, texts = TransformerSentences(transformer), _many(few)
    return lambda: [float(value) for value in view.encode(texts)[:3, :3].ravel()]


def _many(few) -> list[str]:  # type: ignore[no-untyped-def]
    """Return ten different texts for each one."""
    return [f"{text} {number}" for text in few.texts for number in range(10)]


def _sentence_loop(folder: Path) -> Call:
    import torch

    transformer, few = _bert(folder)
    tokenizer, model, texts = transformer.tokenizer, transformer.model, _many(few)

    def call() -> list[float]:
        rows = []
        with torch.inference_mode():
            for text in texts:
                states = model(**tokenizer(text, return_tensors="pt"), output_hidden_states=True).hidden_states[-1][0]
                rows.append(states)
        return [float(value) for states in rows[:3] for value in states[0, :3]]

    return call


OPERATIONS = {
    "pseudo-likelihood": Operation(
        f"pseudo-log-likelihood of {{pairs}} CrowS-Pairs, BERT of {MASKED}",
        _pll,
        _pll_loop,
        peer_name="transformers, one mask at a time",
        tolerance=1e-4,
        growth=("pairs",),
        warm=True,
    ),
    "causal-likelihood": Operation(
        f"log-probabilities of {{pairs}} CrowS-Pairs, Llama of {CAUSAL}",
        _causal,
        _causal_loop,
        peer_name="transformers, one sentence at a time",
        growth=("pairs",),
        warm=True,
    ),
    "sentence-vectors": Operation(
        f"sentence vectors, 20 texts for each of {{pairs}} pairs, BERT of {MASKED}",
        _sentences,
        _sentence_loop,
        peer_name="transformers, one sentence at a time",
        growth=("pairs",),
        warm=True,
    ),
}
