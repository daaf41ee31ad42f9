"""Perplexity: how well a language model predicts neutral text, the cost side of an audit of language models."""

from __future__ import annotations

import tempfile
from importlib import resources
from pathlib import Path
from typing import Any, Protocol

from evenhand.errors import EvenhandError
from evenhand.measures.measurement import Measurement, undefined
from evenhand.measures.registry import Info, measure
from evenhand.models.vectors import Coverage

NEUTRAL_TEXT = "neutral-text"
INFO = Info(
    id="perplexity",
    title="Perplexity on neutral text",
    takes="text",
    better="lower",
    formula="PPL = exp(-sum_i log P(w_i | w_1 ... w_{i-1}) / number of words)",
    reading=(
        "Lower: the model predicts the text better. Per word, so that models with different tokenizers compare. "
        "Compare the same text only."
    ),
    limits=(
        "Says nothing about bias: it is what a mitigation may cost. The neutral text is short; give a larger test text "
        "for a precise number. A word-level model maps unknown words to one token, which lowers its perplexity."
    ),
    cites=("bordia2019",),
    queries=(NEUTRAL_TEXT,),
    view="likelihood",
    family="quality",
)


class PredictsText(Protocol):
    """A language model that predicts a text file."""

    def perplexity(self, path: str | Path) -> dict[str, Any]:
        """Return the perplexity by word, and by token where it differs."""


@measure(INFO)
def perplexity(view: PredictsText, text: str | Path = NEUTRAL_TEXT, *, seed: int = 0) -> Measurement:
    """Perplexity per word of a text under a language model.

    Args:
        view: a language model, or the `likelihood` view of a subject.
        text: path of a text file, or `neutral-text` for the sentences that come with evenhand.
        seed: not used; every measure accepts one.
    """
    name = str(text)
    fields: dict[str, Any] = {"query": name if name == NEUTRAL_TEXT else Path(name).name, "seed": seed}
    try:
        scores = _perplexity(view, name)
    except EvenhandError as error:
        return undefined("perplexity", error.message, Coverage(()), **fields)
    return Measurement(
        "perplexity",
        float(scores["word"]),
        int(scores.get("tokens", 0)),
        Coverage(()),
        reading=f"the model is as unsure as if it chose evenly between {scores['word']:.0f} words at each step",
        details=scores,
        **fields,
    )


def _perplexity(view: PredictsText, name: str) -> dict[str, Any]:
    if name != NEUTRAL_TEXT:
        return view.perplexity(name)
    text = (resources.files("evenhand.words") / "data" / "neutral.txt").read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory(prefix="evenhand-") as folder:
        file = Path(folder) / "neutral.txt"
        file.write_text(text, encoding="utf-8")
        return view.perplexity(file)
