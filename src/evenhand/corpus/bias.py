"""`corpus.bias`: score the words of a text by the groups they co-occur with.

`CorpusOptions` is one frozen object shared by `bias`, `compare`, the jackknife and the CLI.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TypeAlias, Unpack

import numpy as np

from evenhand.corpus.counting.count import CountingPlan, count
from evenhand.corpus.counting.tokens import Tokeniser, Tokenizer, drops_special_tokens, load_stop_words, make_tokeniser
from evenhand.corpus.readers.paths import Paths
from evenhand.corpus.readers.source import ReadArguments, TextSource, as_source
from evenhand.corpus.readers.stream import PIECE, no_words_error
from evenhand.corpus.result import Baseline, CorpusBias
from evenhand.corpus.shuffled_baseline import REACHED, RULE, PermutedMeans, permuted_means
from evenhand.corpus.word_scores import FOLDS, UNIT, Scorer, check_normalisation
from evenhand.engines import Engine, open_engine
from evenhand.errors import DegenerateError, UnknownNameError, UsageError, unknown_name
from evenhand.progress import Progress
from evenhand.words import Concept, Pairs, WordSet, concept, ids, pairs
from evenhand.words.wordset import FrozenMap, checked_words

WINDOW = 10
LISTS = "bordia2019-cnn-dm"  # the paper's corrected list for lower-cased running text

Groups: TypeAlias = "Mapping[str, WordSet | Iterable[str]] | Concept | Pairs | None"


@dataclass(frozen=True)
class CorpusOptions:
    """Everything that determines the scores of a text, apart from the text itself.

    The fields are the keyword arguments of `corpus.bias`. Invalid values raise `UsageError` on construction.
    """

    groups: Groups = None
    lists: str | Path | None = None
    window: int | None = None
    """Words on each side; 10 unless `window` or `decay` is given."""
    decay: float | None = None
    tokenizer: Tokenizer = "words"
    lower: bool | None = None
    """None lower-cases for the tokenizer `words` only."""
    stop_words: str | Path | Iterable[str] = ()
    special_tokens: str | None = None
    """`drop` or `keep`; None drops special tokens for the tokenizer `whitespace` only."""
    min_count: int = 1
    smoothing: float = 0.0
    normalisation: str = "conditional"
    bootstrap: int | None = 0
    """Resamples for the interval of each word; None chooses by the size of the text."""
    permutations: int | None = 0
    """The most permuted labellings for the baseline of mu; None chooses by the size of the text."""
    seed: int = 0
    piece: int = PIECE
    """Characters processed at a time; affects memory only."""

    def __post_init__(self) -> None:
        self._check_numbers()
        if self.window is None and self.decay is None:
            object.__setattr__(self, "window", WINDOW)
        if not isinstance(self.stop_words, (str, Path)):
            object.__setattr__(self, "stop_words", tuple(self.stop_words))
        check_normalisation(self.normalisation)
        # Evaluate these now so that a wrong name is reported before any text is read.
        _ = self.tokeniser, self.drop_special_tokens, self.stop_list, self._named_groups

    def _check_numbers(self) -> None:
        if self.window is not None and self.decay is not None:
            raise UsageError("give window or decay, not both", hint="decay=0.95 is the infinite context of the paper")
        if self.window is not None and self.window < 1:
            raise UsageError(f"window must be at least 1, got {self.window}")
        if self.decay is not None and not 0 < self.decay < 1:
            raise UsageError(f"decay must lie between 0 and 1, got {self.decay}", hint="the paper uses 0.95")
        for name, lowest in (("min_count", 1), ("piece", 1), ("bootstrap", 0), ("permutations", 0), ("seed", 0)):
            value = getattr(self, name)
            if value is not None and value < lowest:
                raise UsageError(f"{name} must be at least {lowest}, got {value}")
        if not (np.isfinite(self.smoothing) and self.smoothing >= 0):
            raise UsageError(f"smoothing must be a number of at least 0, got {self.smoothing}")

    @cached_property
    def tokeniser(self) -> Tokeniser:
        """The tokeniser that `tokenizer` and `lower` select."""
        return make_tokeniser(self.tokenizer, lower=self.lower)

    @cached_property
    def drop_special_tokens(self) -> bool:
        """True if <unk>, <eos>, N and tokens without a letter or digit are not scored."""
        return drops_special_tokens(self.special_tokens, self.tokeniser)

    @cached_property
    def stop_list(self) -> tuple[str, ...]:
        """The stop words, lower-cased if the text is, each once."""
        words = load_stop_words(self.stop_words)
        return tuple(dict.fromkeys(map(self.tokeniser.fold, words)))

    @property
    def group_words(self) -> dict[str, tuple[str, ...]]:
        """Group name to its distinct words, the positive group first."""
        return self._named_groups[0]

    @property
    def lists_name(self) -> str:
        """The name of the word lists."""
        return self._named_groups[1]

    @cached_property
    def _named_groups(self) -> tuple[dict[str, tuple[str, ...]], str]:
        return resolve_groups(self.groups, self.lists, fold=self.tokeniser.fold)

    def plan(self, *, folds: int = 0, unit: int | None = None) -> CountingPlan:
        """Return what to count; with `folds`, also separately for each fold of the text."""
        log_labels = bool(self.permutations)
        return CountingPlan(
            self.group_words, self.window, self.decay, self.tokeniser, self.piece, folds, unit, log_labels
        )

    def to_dict(self) -> dict[str, object]:
        """Return the options as plain data for the record."""
        return {
            "window": self.window,
            "decay": self.decay,
            "tokenizer": self.tokeniser.name,
            "lower": self.tokeniser.lower,
            "lists": self.lists_name,
            "min_count": self.min_count,
            "smoothing": self.smoothing,
            "normalisation": self.normalisation,
            "stop_words": len(self.stop_list),
            "special_tokens": "drop" if self.drop_special_tokens else "keep",
            "bootstrap": self.bootstrap,
            "permutations": self.permutations,
        }


def resolve_groups(
    groups: Groups, lists: str | Path | None, *, fold: Callable[[str], str]
) -> tuple[dict[str, tuple[str, ...]], str]:
    """Return the distinct words of each group, the positive group first, and the name of the lists."""
    if groups is not None and lists is not None:
        raise UsageError(
            "give groups or lists, not both", hint="lists names shipped pairs; groups holds your own words"
        )
    source = _load_lists(lists or LISTS) if groups is None else groups
    name = str(lists or LISTS) if groups is None else getattr(source, "name", "own words")
    distinct = {group: _distinct_words(words, group, fold) for group, words in _sides(source).items()}
    _check_groups(distinct)
    return distinct, name


def _load_lists(name: str | Path) -> Concept | Pairs:
    """Load a concept or a list of pairs by its id, or from a word file that holds exactly one."""
    reasons = []
    for load in (concept, pairs):
        try:
            return load(name)
        except (UsageError, UnknownNameError) as error:
            reasons.append(error.message)
    if "." not in Path(name).name:
        raise unknown_name("concept or list of pairs", str(name), (*ids("concept"), *ids("pairs")))
    raise UsageError(f"neither one concept nor one list of pairs: {'; '.join(reasons)}", hint="select one: FILE#ID")


def _sides(groups: Groups) -> Mapping[str, WordSet | Iterable[str]]:
    if isinstance(groups, Pairs):
        return {groups.poles[0]: groups.first, groups.poles[1]: groups.second}
    if isinstance(groups, Concept):
        others = [name for name in groups.groups if name != groups.positive]
        return {name: groups.groups[name] for name in (groups.positive, *others)}
    if isinstance(groups, Mapping):
        return groups
    raise UsageError(
        f"groups must map a name to its words, got {type(groups).__name__}",
        hint='write groups={"female": ["she", ...], "male": ["he", ...]}',
    )


def _distinct_words(words: WordSet | Iterable[str], group: str, fold: Callable[[str], str]) -> tuple[str, ...]:
    checked = checked_words(words, what=f"group {group!r}")
    return tuple(dict.fromkeys(map(fold, checked)))


def _check_groups(groups: Mapping[str, tuple[str, ...]]) -> None:
    if len(groups) < 2:
        raise UsageError(f"a comparison needs at least 2 groups, got {len(groups)}", hint="add the other group")
    owner: dict[str, str] = {}
    for group, words in groups.items():
        if not words:
            raise UsageError(f"group {group!r} has no words")
        for word in words:
            if owner.setdefault(word, group) != group:
                raise UsageError(f"{word!r} is in group {owner[word]!r} and in group {group!r}", hint="keep it in one")


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
        normalisation: `conditional`, `literal` or `joint` (see `corpus.word_scores`).
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
    if not result.n:
        return []
    far = float(np.mean(result.cooccurrence.min(axis=0) < NEGLIGIBLE))
    if far <= MOST_NEGLIGIBLE:
        return []
    near = result.with_cooccurrence(1.0)
    instead = f"; over the {near.n:,} words with a weight of at least 1 it is {near.mu:.3f}" if near.n else ""
    length = result.tokens / result.documents
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
