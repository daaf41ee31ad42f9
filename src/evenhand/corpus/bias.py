"""`corpus.bias`: score the words of a text by the groups they co-occur with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Unpack

import numpy as np

from evenhand.corpus.counting.count import count
from evenhand.corpus.counting.text_stream import PIECE
from evenhand.corpus.counting.tokenise import Tokenizer
from evenhand.corpus.options import CorpusOptions, Groups
from evenhand.corpus.readers.paths import Paths
from evenhand.corpus.readers.read_log import no_words_error
from evenhand.corpus.readers.source import ReadArguments, TextSource, as_source
from evenhand.corpus.result import Baseline, CorpusBias
from evenhand.corpus.scores.shuffled_baseline import REACHED, RULE, PermutedMeans, permuted_means
from evenhand.corpus.scores.word_scores import FOLDS, UNIT, Scorer
from evenhand.engines import Engine, open_engine
from evenhand.errors import DegenerateError
from evenhand.progress import Progress
from evenhand.words.wordset import FrozenMap

RESAMPLES, LABELLINGS = 1000, 1999  # where `bootstrap` and `permutations` are chosen automatically,
AFFORDABLE = 256 << 20  # for texts of up to this many stored bytes
NEGLIGIBLE, MOST_NEGLIGIBLE = 0.01, 0.1  # a weight near a group, and the share of words that may have less
ENOUGH_HITS = 100  # occurrences of a group's words; with fewer, most scores are noise


def bias(
    paths: Paths | TextSource,
    groups: Groups = None,
    *,
    lists: str | Path | None = None,
    window: int | None = None,
    decay: float | None = None,
    tokenizer: Tokenizer = "words",
    lower: bool | None = None,
    stop_words: str | Path | Iterable[str] = (),
    special_tokens: str | None = None,
    min_count: int = 1,
    smoothing: float = 0.0,
    normalisation: str = "conditional",
    bootstrap: int | None = 0,
    permutations: int | None = 0,
    seed: int = 0,
    piece: int = PIECE,
    engine: str | Engine = "local",
    progress: Progress | None = None,
    **reading: Unpack[ReadArguments],
) -> CorpusBias:
    """Score every word of a text by the group it co-occurs with more (Bordia & Bowman 2019).

    bias(w) = log [c(w,f) / sum_i c(w_i,f)] - log [c(w,m) / sum_i c(w_i,m)], natural logs; above 0 is the first group.
    c(w,g) counts the pairs of positions of one document that hold w and a word of g and are at most `window` apart
    (default 10), or all such pairs with weight decay^distance. Group words and `stop_words` are not scored but count
    in the sums, which run over all words of the text. A word that never co-occurs with one of the groups has no score;
    `lost` counts such words.

    Args:
        paths: files, folders, globs, addresses, or a `Corpus` or `Texts`.
        groups: name to words (positive group first), or a Concept or Pairs. Each of three or more groups is scored
            against all others together (`for_group`).
        lists: id or file of pairs or of a concept, instead of groups; the default is the corrected CNN/Daily Mail list.
        window: number of words on each side.
        decay: weight of one step of distance, for an unlimited window; the paper uses 0.95.
        tokenizer: `words` (Unicode words), `whitespace` (as in the paper), `language:CODE` (by the rules of a
            language), a function, or a Hugging Face tokenizer.
        lower: lower-case text and lists; the default is True for `words` and False otherwise.
        stop_words: words that are not scored: a list, a file, or `english`.
        special_tokens: `drop` does not score <unk>, <eos>, N, other <...> and tokens without a letter or digit;
            `keep` scores them. The default is `drop` for `whitespace` and `keep` otherwise. They stay in windows and
            sums either way.
        min_count: words that occur less often are not scored.
        smoothing: added to every c(w,g), so that words with one zero count are scored too; words that co-occur with no
            group still have no score.
        normalisation: `conditional`, `literal` or `joint` (see `corpus.scores.log_ratio`).
        bootstrap: resamples of the text for an interval of each word; 0 for none, None to choose by the text's size.
        permutations: the most permuted labellings for the baseline of mu, in a second pass; fewer are drawn if the
            p-value is clear before. 0 for none, None to choose by the text's size.
        seed: seed of resampling and permuting.
        piece: characters processed at a time; affects memory, not the result.
        engine: `local`, `ray`, or an object of `evenhand.engines`; affects speed, not the result.
        progress: called with (done, total, description).
        **reading: documents, field, format, encoding_errors, skip_bad and max_record of `Corpus`.

    For what the scores do not tell, see `CorpusBias`.
    """
    options = CorpusOptions(
        groups=groups, lists=lists, window=window, decay=decay, tokenizer=tokenizer, lower=lower,
        stop_words=stop_words, special_tokens=special_tokens, min_count=min_count, smoothing=smoothing,
        normalisation=normalisation, bootstrap=bootstrap, permutations=permutations, seed=seed, piece=piece,
    )  # fmt: skip
    return score_corpus(as_source(paths, **reading), options, engine=engine, progress=progress)


def score_corpus(
    source: TextSource, options: CorpusOptions, *, engine: str | Engine = "local", progress: Progress | None = None
) -> CorpusBias:
    """Score the words of a corpus under the given options."""
    chosen = _choose_draws(source, options)
    plan = chosen.plan(folds=FOLDS if chosen.bootstrap else 0, unit=UNIT)
    params = {**chosen.to_dict(), **source.to_dict()}
    with open_engine(engine) as workers:
        counts = count(source, plan, engine=workers, progress=progress)
        if not counts.occurrences[1:].any():
            raise no_words_error(source, counts.read_log)
        scorer = Scorer(counts, plan, chosen, params=params, name=source.name)
        results = [scorer.result(index) for index in range(len(plan.groups))]
        notes = _notes(results[0], options, chosen)
        if chosen.permutations:
            try:
                observed = np.array([result.mu for result in results])
                permuted = permuted_means(source, scorer, observed, engine=workers, progress=progress)
                results = [
                    replace(result, baseline=_baseline(permuted, index, chosen.permutations))
                    for index, result in enumerate(results)
                ]
            except DegenerateError as error:
                if options.permutations is not None:
                    raise
                notes.append(error.message)
    others = dict(zip(list(plan.groups)[1:], results[1:], strict=True))
    return replace(results[0], against=FrozenMap(others), notes=tuple(notes))


def _choose_draws(source: TextSource, options: CorpusOptions) -> CorpusOptions:
    """Replace automatic numbers of draws by the default, or by 0 for a text that is too large."""
    affordable = source.size is not None and source.size <= AFFORDABLE
    bootstrap, permutations = (RESAMPLES, LABELLINGS) if affordable else (0, 0)
    return replace(
        options,
        bootstrap=bootstrap if options.bootstrap is None else options.bootstrap,
        permutations=permutations if options.permutations is None else options.permutations,
    )


def _notes(result: CorpusBias, options: CorpusOptions, chosen: CorpusOptions) -> list[str]:
    notes = [
        f"the text is too small: the words of {name} occur {hits:,} times; below {ENOUGH_HITS} most scores are noise"
        for name, hits in result.hits.items()
        if hits < ENOUGH_HITS
    ]
    if options.decay is not None:
        notes += _far_words(result, options.decay)
    skipped = [
        what
        for what, wanted, number in (
            ("intervals (`bootstrap=1000`)", options.bootstrap, chosen.bootstrap),
            ("the baseline (`permutations=1999`)", options.permutations, chosen.permutations),
        )
        if wanted is None and not number
    ]
    if skipped:
        notes.append(f"not computed for a text of more than {AFFORDABLE >> 20} MB: {' and '.join(skipped)}")
    return notes


def _far_words(result: CorpusBias, decay: float) -> list[str]:
    """Return that mu rests on words far from a group, if it does.

    With a decay every word of a document has some weight near every group. The log ratio of weights such as 1e-30 is
    the difference of two distances, and grows without limit with the length of the document; with permuted labels too.
    """
    weights = result.cooccurrence.min(axis=0) if result.n else np.empty(0)
    far = float(np.mean(weights < NEGLIGIBLE)) if result.n else 0.0
    if far <= MOST_NEGLIGIBLE:
        return []
    near = result.with_cooccurrence(1.0)
    instead = f"; over the {near.n:,} words with a weight of at least 1 it is {near.mu:.3f}" if near.n else ""
    length = result.tokens / max(result.documents, 1)
    return [
        f"mu and its baseline measure distances, not associations: {100 * far:.0f} % of the scored words have a weight "
        f"below {NEGLIGIBLE} near a group (decay {decay}, documents of {length:,.0f} words on average){instead}: mark "
        "the documents, or use a window"
    ]


def _baseline(permuted: PermutedMeans, group: int, most: int) -> Baseline:
    means = permuted.values[:, group]
    scored = means[np.isfinite(means)]
    low, high = np.quantile(scored, [0.025, 0.975])
    test = permuted.tests[group] if permuted.tests else None
    return Baseline(
        float(scored.mean()),
        (float(low), float(high)),
        test.p_value if test else None,
        len(means),
        decided_after=test.draws if test else None,
        reached=test.reached if test else None,
        rule=RULE.format(reached=REACHED, most=most) if test else "",
    )
