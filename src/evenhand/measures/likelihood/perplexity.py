"""Perplexity: how well a language model predicts neutral text, the cost side of an audit of language models."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

import numpy as np

from evenhand.arrays import Matrix64, Vector64, texts_of
from evenhand.errors import DegenerateError
from evenhand.files import existing, read_utf8
from evenhand.measures.call import Call, measure
from evenhand.measures.likelihood.scoring import undefined_if_unscorable
from evenhand.measures.measurement import Measurement
from evenhand.measures.registry import Info
from evenhand.models.lm.likelihood import Likelihood, TokenLikelihood
from evenhand.stats import jackknife_interval
from evenhand.stats.units import units

NEUTRAL_TEXT = "neutral-text"
INFO = Info(
    id="perplexity",
    title="Perplexity on neutral text",
    takes="text",
    better="lower",
    formula=(
        "PPL = exp(-sum_i log P(w_i | w_1 ... w_{i-1}) / number of words); masked models: the pseudo-perplexity, with "
        "log P(w_i | all other tokens)"
    ),
    reading=(
        "Lower: the model predicts the text better. Per word, so that models with different tokenizers compare. "
        "Compare the same text only, and never the pseudo-perplexity of a masked model (score pseudo) with the "
        "perplexity of a causal one."
    ),
    limits=(
        "Says nothing about bias: it is what a mitigation may cost. The neutral text is short; give a larger test text "
        "for a precise number. A word-level model maps unknown words to one token, which lowers its perplexity."
    ),
    cites=("bordia2019",),
    queries=(NEUTRAL_TEXT,),
    view="likelihood",
    family="quality",
    definition=2,
    role="cost",
    ticked=("likelihood",),
)


@measure(INFO)
def perplexity(
    call: Call, view: Likelihood, text: str | Path | Sequence[str] = NEUTRAL_TEXT, *, seed: int = 0
) -> Measurement:
    """Perplexity per word of a text under a language model, with an interval over its lines.

    A masked model has a pseudo-perplexity: each token is predicted from all others. It is a score of its own name,
    because no perplexity of a causal model compares with it.

    Args:
        view: a language model, or the `likelihood` view of a subject.
        text: path of a text file, a list of texts, or `neutral-text` for the sentences that come with evenhand. Each
            line is scored by itself.
        seed: recorded only; nothing is drawn at random.
    """
    name, lines = read_lines(text)
    masked = isinstance(view, TokenLikelihood) and view.masked
    score = "pseudo" if masked else ""
    call.describe(name, scores=score)
    words = np.array([len(line.split()) for line in lines], dtype=np.float64)
    with undefined_if_unscorable():
        scores = view.log_probabilities(lines)
    logs = np.asarray(scores.log_probabilities, dtype=np.float64)
    if not words.sum() or not np.isfinite(logs).all():
        raise DegenerateError("the model gives the text no finite probability")

    def by_sums(sums: Matrix64) -> Vector64:
        return np.asarray(np.exp(-sums[:, 0] / sums[:, 1]))

    value = float(np.exp(-logs.sum() / words.sum()))
    return call.measurement(
        value,
        int(words.sum()),
        score=score,
        interval=jackknife_interval(by_sums, np.stack([logs, words], axis=1), scale="log"),
        units=(units("exp-ratio", "line", map(_line_name, lines), words, -logs),),
        reading=f"the model is as unsure as if it chose evenly between {value:.0f} words at each step"
        + (", knowing all other tokens" if masked else ""),
        details={"by_token": scores.perplexity, "tokens": int(np.sum(scores.tokens)), "lines": len(lines)},
    )


def _line_name(line: str) -> str:
    """Return a short name that is the same for the same line; records keep no texts."""
    return hashlib.blake2b(line.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def read_lines(text: str | Path | Sequence[str]) -> tuple[str, list[str]]:
    """Return the name of a text and its lines that hold words."""
    if isinstance(text, str) and text == NEUTRAL_TEXT:
        content = (resources.files("evenhand.words") / "data" / "neutral.txt").read_text(encoding="utf-8")
        name, lines = NEUTRAL_TEXT, content.splitlines()
    elif isinstance(text, str | Path):
        path = existing(Path(text), what="text file")
        name, lines = path.name, read_utf8(path).splitlines()
    else:
        name, lines = "texts", texts_of(text, "text") or list(text)
    return name, [line for line in lines if line.strip()]
