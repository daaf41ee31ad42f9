"""Corpus bias: which words occur with which group in a text (Bordia & Bowman 2019)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from evenhand.corpus import CorpusBias
from evenhand.corpus import bias as corpus_bias_scores
from evenhand.errors import DegenerateError, VocabularyError
from evenhand.measures.measurement import Measurement, undefined
from evenhand.measures.registry import Info, measure
from evenhand.models.vectors import Coverage
from evenhand.subjects.subject import TextView
from evenhand.words import Concept, as_concept

PAIRS_OF_PAPER = "bordia2019-cnn-dm"
PERMUTATIONS = 20
INFO = Info(
    id="corpus-bias",
    title="Corpus bias",
    takes="text",
    better="lower",
    formula="bias(w) = log [c(w,f) / sum c(.,f)] - log [c(w,m) / sum c(.,m)];  mu = mean |bias|,  sigma = sd of bias",
    reading=(
        "mu 0: every word occurs with both groups alike. Compare it with the shuffled baseline in the details: small "
        "texts have a large mu by chance alone."
    ),
    limits=(
        "Counts nearness, not meaning: 'she is not a nurse' counts as 'she is a nurse'. It depends on the size of the "
        "text, so only texts of about the same size compare. Words of the groups are chosen by somebody."
    ),
    cites=("bordia2019",),
    queries=("words",),
    view="text",
    family="text",
)


@measure(INFO)
def corpus_bias(
    view: TextView | str | Path,
    words: str = "words",
    *,
    concept: Concept | str = "gender",
    permutations: int = PERMUTATIONS,
    stop_words: str = "english",
    seed: int = 0,
) -> tuple[Measurement, ...]:
    """Mean absolute bias (mu) and standard deviation (sigma) over the words of a text.

    Args:
        view: a `text` view, or a path.
        words: which words are scored; all of them.
        concept: whose groups are counted. For gender, the pairs of the paper.
        permutations: relabelled texts for the baseline of mu; 0 for none.
        stop_words: words that are not scored: `english`, `none` or a file.
        seed: seed of the relabelling.

    What it does not tell you: what the text says about anybody. See `evenhand show corpus-bias`.
    """
    text = view if isinstance(view, TextView) else TextView(Path(view).name, (str(view),))
    about = as_concept(concept)
    groups: dict[str, Any] = {"lists": PAIRS_OF_PAPER} if about.name == "gender" else {"groups": about}
    stops = stop_words if about.language == "en" else "none"
    fields: dict[str, Any] = {"query": words, "model": text.name, "seed": seed}
    try:
        result = corpus_bias_scores(
            list(text.paths), **groups, stop_words=stops, permutations=permutations, seed=seed, **text.options
        )
    except (VocabularyError, DegenerateError) as error:
        return tuple(
            undefined("corpus-bias", error.message, Coverage(()), score=score, **fields) for score in ("mu", "sigma")
        )
    return measurements(result, fields)


def measurements(result: CorpusBias, fields: dict[str, Any]) -> tuple[Measurement, ...]:
    """Return the measurements of a scored text."""
    base = result.baseline
    details: dict[str, Any] = {"tokens": result.tokens, "hits": dict(result.hits)}
    if base:
        details["shuffled_mu"], details["shuffled_interval"] = base.mu, list(base.interval)
    top = [{"word": word, "value": score} for word, score in result.top(200)]
    coverage = Coverage(())
    shared = {**fields, "positive": result.positive, "params": dict(result.params), "details": details}
    reading = f"a word is {2.718281828**result.mu:.2f} times as likely near one group as near the other, on average"
    mu = Measurement(
        "corpus-bias", float(result.mu), len(result.scores), coverage, score="mu", reading=reading,
        p_value=base.p_value if base else None, items=tuple(top), **shared,
    )  # fmt: skip
    sigma = Measurement(
        "corpus-bias", float(result.sigma), len(result.scores), coverage, score="sigma",
        reading="spread of the signed scores", **shared,
    )  # fmt: skip
    return mu, sigma
