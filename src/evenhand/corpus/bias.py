"""`corpus.bias`: from files to scores."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from evenhand.arrays import Vector64
from evenhand.corpus import groups as grouping
from evenhand.corpus.counting.count import Plan, Progress, count
from evenhand.corpus.counting.text_stream import PIECE
from evenhand.corpus.counting.tokenise import Tokenizer, tokeniser
from evenhand.corpus.counting.vocabulary import marks_dropped, stop_list
from evenhand.corpus.readers.paths import Paths
from evenhand.corpus.readers.read_log import nothing_read
from evenhand.corpus.readers.source import Source, as_source
from evenhand.corpus.result import Baseline, CorpusBias
from evenhand.corpus.scores.log_ratio import checked_normalisation
from evenhand.corpus.scores.shuffled_baseline import shuffled_means
from evenhand.corpus.scores.word_scores import PARTS, Scored
from evenhand.engines import Engine, opened
from evenhand.errors import UsageError
from evenhand.words.wordset import FrozenMap

WINDOW = 10


def bias(
    paths: Paths | Source,
    groups: grouping.Groups = None,
    *,
    lists: str | Path | None = None,
    window: int | None = None,
    decay: float | None = None,
    tokenizer: Tokenizer = "words",
    lower: bool | None = None,
    stop_words: str | Path | Iterable[str] = (),
    marks: str | None = None,
    min_count: int = 1,
    smoothing: float = 0.0,
    normalisation: str = "conditional",
    bootstrap: int = 0,
    permutations: int = 0,
    seed: int = 0,
    piece: int = PIECE,
    engine: str | Engine = "local",
    progress: Progress = None,
    **reading: Any,
) -> CorpusBias:
    """Score every word of a text by the group whose words it keeps company with (Bordia & Bowman 2019).

    bias(w) = log [c(w,f) / sum_i c(w_i,f)] - log [c(w,m) / sum_i c(w_i,m)], natural logs; above 0 is the first group.
    c(w,g) counts every pair of places of the same document, one with w and one with a word of g, at most `window` apart
    (10 unless said), or all of them with weight decay^distance. Words of the groups and `stop_words` are not scored,
    but they count in the sums, which run over all words of the text. A word that never meets one of the groups has no
    score; `lost` counts such words.

    Args:
        paths: files, folders, globs, addresses, or a `Corpus` or `Texts`.
        groups: name to words (positive group first), or a Concept or Pairs; with three groups or more each is scored
            against the others together (`for_group`).
        lists: id or file of pairs or a concept instead; unless said the corrected CNN/Daily Mail pairs of the paper.
        window: reach of the company on each side.
        decay: weight of one step of distance, for a window without an end; the paper has 0.95.
        tokenizer: `words` (Unicode words), `whitespace` (as the paper), a function, or a Hugging Face tokenizer.
        lower: lower-case text and lists; unless said yes for `words`, no otherwise.
        stop_words: words that are not scored: a list, a file, or `english`.
        marks: `drop` leaves <unk>, <eos>, N, other <...> and tokens without letter or digit unscored, `keep` scores
            them; unless said `drop` for `whitespace`, `keep` otherwise. They stay in windows and sums either way.
        min_count: words that occur less often are not scored.
        smoothing: added to every c(w,g), so that words with one zero count are scored too; those that never
            meet any group still have no score.
        normalisation: `conditional`, `literal` or `joint` (see `corpus.scores`).
        bootstrap: draws over documents for an interval of each word; 0 for none.
        permutations: shuffled labellings for the baseline of mu, in a second pass; 0 for none.
        seed: of draws and shuffles.
        piece: characters worked on at a time; moves memory, not the result.
        engine: `local`, `ray`, or one of `evenhand.engines`; moves speed, not the result.
        progress: called with (done, total, what).
        **reading: documents, field, format, encoding_errors, skip_bad of `Corpus`.

    What it does not tell you: see `CorpusBias`.
    """
    words_of = tokeniser(tokenizer, lower=lower)
    checked_normalisation(normalisation)
    _check(window, decay, min_count, smoothing, piece, bootstrap, permutations)
    named, lists_name = grouping.resolve(groups, lists, lower=words_of.lower)
    stops = tuple(dict.fromkeys(w.lower() if words_of.lower else w for w in stop_list(stop_words)))
    source = as_source(paths, **reading)
    reach = WINDOW if window is None and decay is None else window
    plan = Plan(named, reach, decay, words_of, piece, PARTS if bootstrap else 0)
    dropped = marks_dropped(marks, words_of)
    choices: dict[str, Any] = {"min_count": min_count, "smoothing": smoothing, "normalisation": normalisation}
    params = {
        "window": reach, "decay": decay, "tokenizer": words_of.name, "lower": words_of.lower, "lists": lists_name,
        **choices, "stop_words": len(stops), "marks": "drop" if dropped else "keep", "bootstrap": bootstrap,
        "permutations": permutations, **source.to_dict(),
    }  # fmt: skip
    with opened(engine) as workers:
        counts = count(source, plan, engine=workers, progress=progress)
        if not counts.occurrences[1:].any():
            raise nothing_read(source, counts.account)
        scored = Scored(counts, plan, stops, drop_marks=dropped, seed=seed, params=params, **choices)
        first = scored.result(0, bootstrap)
        if permutations:
            means = shuffled_means(
                source, scored, labellings=permutations, seed=seed, engine=workers, progress=progress
            )
            first = replace(first, baseline=_baseline(first.mu, means))
    others = {name: scored.result(place, bootstrap) for place, name in enumerate(named) if place}
    return replace(first, against=FrozenMap(others))


def _baseline(mu: float, means: Vector64) -> Baseline:
    low, high = np.quantile(means, [0.025, 0.975])
    above = int(np.count_nonzero(means >= mu))
    return Baseline(float(means.mean()), (float(low), float(high)), (above + 1) / (len(means) + 1), len(means))


def _check(window: int | None, decay: float | None, min_count: int, smoothing: float, piece: int, *draws: int) -> None:
    if window is not None and decay is not None:
        raise UsageError("give window or decay, not both", hint="decay=0.95 is the infinite context of the paper")
    if window is not None and window < 1:
        raise UsageError(f"a window reaches at least 1 word, got {window}")
    if decay is not None and not 0 < decay < 1:
        raise UsageError(f"decay lies between 0 and 1, got {decay}", hint="the paper has 0.95")
    if min_count < 1 or piece < 1 or min(draws) < 0:
        raise UsageError("min_count and piece start at 1, bootstrap and permutations at 0")
    if not (np.isfinite(smoothing) and smoothing >= 0):
        raise UsageError(f"smoothing must be a number of at least 0, got {smoothing}")
