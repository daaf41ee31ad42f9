"""Bordia & Bowman 2019: strength of the regulariser, bias of generated text and perplexity; scores of single words.

`run_cells` trains the models. Each strength and seed is a cell with its own folder. A finished cell is read instead
of computed again, and a stopped training resumes from its checkpoint.
"""

from __future__ import annotations

import hashlib
import json
import statistics
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from evenhand import words
from evenhand.audit.schema import DIGEST, UNREADABLE, content_digest
from evenhand.corpus import Corpus, bias
from evenhand.corpus.comparison import CONTEXTS as REACH
from evenhand.corpus.comparison import against_training, read_samples
from evenhand.corpus.counting.tokens import ENGLISH, SPECIAL_TOKENS
from evenhand.data import catalog, locate
from evenhand.errors import EvenhandError, EvenhandWarning, UsageError, unknown_name
from evenhand.files import existing, open_bytes, write_text
from evenhand.models import lm
from evenhand.models.device import device_kind, resolve_device, resolve_precision
from evenhand.models.model_files import JSONObject
from evenhand.reproduce.comparison import Estimate, Key, PaperTable, Series, estimates
from evenhand.reproduce.inputs import PaperInputs
from evenhand.reproduce.published import PaperItem, paper

if TYPE_CHECKING:
    from evenhand.corpus.result import CorpusBias
    from evenhand.models.lm import BiasRegulariser, LMCorpus, LMSettings, TrainedLM
    from evenhand.models.lm.regulariser import Where


STATISTICS = ("mu", "sigma", "beta")
CONTEXTS = ("fixed", "infinite")
COLUMNS = ("lambda", "seeds", *(f"{context} {name}" for context in CONTEXTS for name in STATISTICS), "perplexity")
# The term as printed in the paper, and as computed by the released code.
DEFINITIONS: Mapping[str, Mapping[str, bool | str]] = {
    "printed": {},
    "released": {"normalise": True, "variant": "released", "detach": False},
}
PAIRS = {"ptb": "bordia2019-ptb", "wikitext-2": "bordia2019-wt2", "cnn-dailymail": "bordia2019-cnn-dm"}

TRAINING = "training text"
# Published: lambda (None: the training text), mu, sigma, beta with the fixed window, with infinite context, perplexity.
PUBLISHED: Mapping[str, tuple[tuple[float | None, ...], ...]] = {
    corpus: tuple(
        (None if row == TRAINING else float(row), *values)
        for row, values in (paper("bordia2019").items[f"bordia2019/table-{number}"].rows or {}).items()
    )
    for number, corpus in enumerate(PAIRS, start=1)
}
TOKENS = {929_589: "ptb", 2_088_628: "wikitext-2"}  # number of training tokens, which identifies a corpus of the paper
NOTES = (
    "mu: mean |bias| of the scored words; sigma: their standard deviation; beta: slope on the training text's scores.",
    "Ours: mean and, after ±, standard deviation over seeds. Published: one run each.",
    "Both texts have the same number of documents with the same mean length, because mu, sigma and beta all change "
    "with the size of a text.",
    "beta of the training text: one half of it on the other, the value to expect from a model that reproduces its "
    "training text exactly; noise keeps it below 1.",
)
WORDS_NOTES = (
    "A text with more group words has less noisy scores and a lower mu, whatever it says about the groups: compare mu "
    "only where these counts are similar, and look at the difference to shuffled labels.",
)


def summary(records: Iterable[JSONObject]) -> list[JSONObject]:
    """Return one row per strength, with mean and standard deviation of every number over the seeds."""
    by_strength: dict[float, list[JSONObject]] = {}
    for record in records:
        by_strength.setdefault(record["strength"], []).append(record)
    return [_row(strength, by_strength[strength]) for strength in sorted(by_strength)]


def _row(strength: float, cells: list[JSONObject]) -> JSONObject:
    measured = {
        context: {name: _mean_and_sd([cell[context][name]["value"] for cell in cells]) for name in STATISTICS}
        for context in CONTEXTS
    }
    rest = {
        name: _mean_and_sd([cell[name] for cell in cells]) for name in ("test_perplexity", "valid_perplexity", "energy")
    }
    seeds = [cell["seed"] for cell in cells]
    words = {text: _word_counts(cells, side) for text, side in (("training", "first"), ("generated", "second"))}
    return {"strength": strength, "seeds": seeds, **measured, **rest, "training": _training(cells), "words": words}


def corpus_of(records: Iterable[JSONObject], preset: str) -> str:
    """Return the corpus of the paper that the models were trained on; empty for any other text.

    CNN/Daily Mail is identified by the preset, because the paper's sample of it is not published.
    """
    sizes = {record["training_tokens"] for record in records}
    corpus = TOKENS.get(sizes.pop(), "") if len(sizes) == 1 else ""
    return corpus or (preset if preset == "cnn-dailymail" else "")


def _training(cells: list[JSONObject]) -> JSONObject:
    """Return the scores of the training text at the size of the generated text; beta is that of its two halves."""
    return {
        context: {
            **{name: _mean_and_sd([cell[context]["first"][name] for cell in cells]) for name in ("mu", "sigma")},
            "beta": _mean_and_sd([cell[f"{context} ceiling"]["beta"]["value"] for cell in cells]),
        }
        for context in CONTEXTS
    }


def _word_counts(cells: list[JSONObject], side: str) -> JSONObject:
    """Return counts of group words and of scored words, and mu minus that of shuffled labels."""
    texts = [cell["fixed"][side] for cell in cells]
    beyond = [text["mu"] - text["baseline"]["mu"] for text in texts if text["baseline"]]
    return {
        "groups": {group: _mean_and_sd([text["hits"][group] for text in texts]) for group in texts[0]["hits"]},
        "scored": _mean_and_sd([text["n"] for text in texts]),
        "beyond_chance": _mean_and_sd(beyond) if beyond else None,
    }


def _mean_and_sd(values: list[float]) -> dict[str, float | None]:
    sd = statistics.stdev(values) if len(values) > 1 else None
    return {"mean": statistics.fmean(values), "sd": sd}


def sweep_table(rows: list[JSONObject], corpus: str = "") -> PaperTable:
    """Return our rows, followed by the published ones if the corpus is one of the paper's."""
    body: list[tuple[object, ...]] = []
    if rows:
        first = rows[0]["training"]
        cells = [format_value(first[context][name]) for context in CONTEXTS for name in STATISTICS]
        body.append(("training text", len(rows[0]["seeds"]), *cells, None))
    for row in rows:
        cells = [format_value(row[context][name]) for context in CONTEXTS for name in STATISTICS]
        body.append((f"{row['strength']:g}", len(row["seeds"]), *cells, format_value(row["test_perplexity"])))
    for strength, *numbers in PUBLISHED.get(corpus, ()):
        label = "training text" if strength is None else f"{strength:g}"
        body.append((f"published {label}", None, *(None if n is None else f"{n:.2f}" for n in numbers)))
    return PaperTable(f"Bordia & Bowman 2019, {corpus or 'own text'}", COLUMNS, tuple(body), NOTES)


def words_table(rows: list[JSONObject]) -> PaperTable:
    """Return how often the models write group words; means compare only where these counts are alike."""
    first = rows[0]["words"]["training"]
    groups = list(first["groups"])
    body = []
    for name, text in [("training text", first), *((f"{r['strength']:g}", r["words"]["generated"]) for r in rows)]:
        counts = [format_value(value, 0) for value in (*text["groups"].values(), text["scored"])]
        body.append((name, *counts, format_value(text["beyond_chance"], 3)))
    columns = ("lambda", *(f"{group} words" for group in groups), "words scored", "fixed mu - shuffled")
    return PaperTable("Group words in the generated texts", columns, tuple(body), WORDS_NOTES)


def markdown(table: PaperTable) -> str:
    """Return the table as Markdown."""
    rule = [":--", *["--:"] * (len(table.columns) - 1)]
    rows = [["" if cell is None else str(cell) for cell in row] for row in table.rows]
    lines = [f"| {' | '.join(row)} |" for row in (table.columns, rule, *rows)]
    return "\n".join([f"# {table.title}", "", *lines, "", *(f"- {text}" for text in table.notes), ""])


def format_value(value: Mapping[str, float | None] | None, digits: int = 2) -> str | None:
    """Return the text of a mean over seeds and, if there are several, their standard deviation."""
    if value is None or value["mean"] is None:
        return None
    sd = f" ± {value['sd']:.{digits}f}" if value["sd"] is not None else ""
    return f"{value['mean']:.{digits}f}{sd}"


Progress: TypeAlias = Callable[[int, int, str], None] | None
REDUCTIONS = ("sum", "mean")
RESULT, CHECKPOINT, SAMPLES, MODEL = "result.json", "checkpoint.safetensors", "samples.txt.zst", "model"


@dataclass(frozen=True)
class SweepPlan:
    """Everything that determines the numbers of a sweep, except strength and seed of each cell."""

    train: str
    valid: str
    test: str
    pairs: str
    preset: str = "ptb"
    changes: tuple[tuple[str, Any], ...] = ()
    epochs: int | None = None
    where: Where = "input"
    options: tuple[tuple[str, Any], ...] = ()
    samples: int = 2000
    tokens: int = 500
    permutations: int = 20
    device: str = "auto"
    precision: str = "auto"

    @property
    def settings(self) -> LMSettings:
        """Sizes and rates of the models."""
        return lm.settings_of(self.preset, **dict(self.changes))

    def corpus(self) -> LMCorpus:
        """Return the three splits of the text as token numbers."""
        return lm.LMCorpus.read(self.train, self.valid, self.test or None)

    def identity(self) -> JSONObject:
        """Return what must be the same for a finished cell to be reused."""
        texts = {name: digest(getattr(self, name)) for name in ("train", "valid", "test")}
        where = resolve_device(self.device)
        resolved = {"device": device_kind(where), "precision": resolve_precision(self.precision, where)}
        values = asdict(self) | texts | resolved | {"pairs_digest": _words_of(self.pairs).digest}
        identity: JSONObject = json.loads(json.dumps(values))  # with the types of a file that is read back
        return identity


def _words_of(pairs: str) -> words.Pairs | words.Concept:
    """Return the pairs, or the concept whose groups are counted."""
    try:
        return words.pairs(pairs)
    except EvenhandError:
        return words.concept(pairs)


@lru_cache(maxsize=64)
def digest(path: str) -> str:
    """Return the hash of a text file, so that a sweep can be moved to another folder or machine."""
    if not path:
        return ""
    with open_bytes(Path(path)) as raw:
        return hashlib.sha256(raw.read()).hexdigest()


@dataclass(frozen=True, order=True)
class SweepCell:
    """One model: a strength of the term and a seed."""

    strength: float
    seed: int

    @property
    def name(self) -> str:
        """Name of its folder."""
        return f"lambda-{self.strength:g}-seed-{self.seed}"


@dataclass(frozen=True)
class SweepOutcome:
    """The record of a cell, or the reason why there is none yet."""

    cell: SweepCell
    record: JSONObject = field(default_factory=dict)
    reason: str = ""


def term_options(definition: str = "printed", reduction: str = "sum") -> tuple[tuple[str, Any], ...]:
    """Return the options of `BiasRegulariser` for a definition, as a plan stores them."""
    for value, option, choices in ((definition, "definition", DEFINITIONS), (reduction, "reduction", REDUCTIONS)):
        if value not in choices:
            raise unknown_name(option, value, choices)
    options = {**DEFINITIONS[definition], **({} if reduction == "sum" else {"reduction": reduction})}
    return tuple(sorted(options.items()))


def cells(strengths: list[float], seeds: list[int]) -> list[SweepCell]:
    """Return all cells ordered by seed, so that an early stop leaves complete rows of the table."""
    wrong = next((value for value in strengths if not 0 <= value < float("inf")), None)
    if wrong is not None or not strengths or not seeds:
        raise UsageError(
            f"strengths must be numbers of at least 0, got {wrong}", hint="such as 0,0.001,0.01,0.1,0.5,0.8,1"
        )
    return [SweepCell(strength, seed) for seed in dict.fromkeys(seeds) for strength in dict.fromkeys(strengths)]


def run_cell(
    plan: SweepPlan, cell: SweepCell, folder: Path, *, deadline: float | None = None, progress: Progress = None
) -> SweepOutcome:
    """Train, sample and measure one cell, or as much of it as fits before the deadline (`time.time()`)."""
    cell_folder = folder / cell.name
    if (record := finished(plan, cell_folder)) is not None:
        return SweepOutcome(cell, record)
    remaining = None if deadline is None else deadline - time.time()
    if remaining is not None and remaining <= 0:
        return SweepOutcome(cell, reason="no time left to start it")
    try:
        corpus = plan.corpus()
        trained = train_cell(plan, cell, corpus, cell_folder / CHECKPOINT, time_limit=remaining, progress=progress)
        trained.save(cell_folder / MODEL)
        if trained.manifest["stopped_by"] != "epochs":
            return SweepOutcome(cell, reason=f"stopped after {trained.manifest['epochs']} epochs")
        record = {**asdict(cell), **_measure(plan, cell, corpus, trained, cell_folder, progress)}
    except EvenhandError as error:
        return SweepOutcome(cell, reason=error.message)
    content = {"identity": plan.identity(), "record": record}
    write_text(cell_folder / RESULT, json.dumps(content | {DIGEST: content_digest(content)}, indent=1) + "\n")
    return SweepOutcome(cell, record)


def finished(plan: SweepPlan, folder: Path) -> JSONObject | None:
    """Return the record of a cell that was finished with the same plan, or None; an edited one is not believed."""
    path = folder / RESULT
    if not path.is_file():
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content.pop(DIGEST) != content_digest(content):
            raise ValueError("the content does not have its digest")
        record: JSONObject | None = content["record"] if content["identity"] == plan.identity() else None
    except (OSError, *UNREADABLE):
        warnings.warn(
            f"{path} was damaged, edited or written by an earlier version, and is computed again",
            EvenhandWarning,
            stacklevel=2,
        )
        return None
    return record


def run_cells(
    plan: SweepPlan,
    cells: list[SweepCell],
    folder: Path,
    *,
    jobs: int = 1,
    time_limit: float | None = None,
    progress: Progress = None,
) -> Iterator[SweepOutcome]:
    """Yield the outcome of every cell as it finishes; `jobs` processes share a device."""
    deadline = None if time_limit is None else time.time() + time_limit
    if jobs < 1:
        raise UsageError(f"jobs must be at least 1, got {jobs}")
    if jobs == 1:
        for cell in cells:
            yield run_cell(plan, cell, folder, deadline=deadline, progress=progress)
        return
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from multiprocessing import get_context

    from evenhand.engines.processes import end_with_parent

    # A device cannot be used in a fork of a process that has used it, so processes are spawned.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=end_with_parent) as pool:
        running = [pool.submit(run_cell, plan, cell, folder, deadline=deadline) for cell in cells]
        try:
            for done, future in enumerate(as_completed(running), start=1):
                yield future.result()
                if progress:
                    progress(done, len(running), "cells")
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def train_cell(
    plan: SweepPlan,
    cell: SweepCell,
    corpus: LMCorpus,
    checkpoint: Path,
    *,
    time_limit: float | None = None,
    progress: Progress = None,
) -> TrainedLM:
    """Train one model, from its checkpoint if there is one; with a strength of 0, no term is computed."""
    term = _term(plan, corpus.vocabulary.index, cell.strength).on(plan.where) if cell.strength else None
    return lm.train(
        corpus, settings=plan.settings, regulariser=term, seed=cell.seed, device=plan.device, precision=plan.precision,
        epochs=plan.epochs, time_limit=time_limit, checkpoint=checkpoint, save_every=60.0, progress=progress,
    )  # fmt: skip


def _term(plan: SweepPlan, index: Mapping[str, int], strength: float) -> BiasRegulariser:
    return lm.BiasRegulariser.from_words(words.pairs(plan.pairs), index, strength=strength, **dict(plan.options))


def _measure(
    plan: SweepPlan, cell: SweepCell, corpus: LMCorpus, trained: TrainedLM, folder: Path, progress: Progress
) -> JSONObject:
    model, vocabulary = trained.model, trained.vocabulary
    samples = lm.generate(
        model, vocabulary, samples=plan.samples, tokens=plan.tokens, seed=cell.seed, progress=progress
    )
    lm.write_samples(folder / SAMPLES, samples, vocabulary)
    comparisons = against_training(
        Corpus([plan.train]), [vocabulary.decode(row) for row in samples], lists=plan.pairs,
        permutations=plan.permutations, seed=cell.seed, ceiling=True, progress=progress,
    )  # fmt: skip
    history = trained.manifest["history"]
    return {
        "training_tokens": len(corpus.train),
        "epochs": trained.manifest["epochs"],
        "best_epoch": trained.manifest["best_epoch"],
        "valid_perplexity": min(epoch["valid_perplexity"] for epoch in history),
        "test_perplexity": lm.perplexity(model, corpus.test),
        "seconds": sum(epoch["seconds"] for epoch in history),
        "device": trained.manifest["device_name"],
        "precision": trained.manifest["precision"],
        **_energy(plan, trained),
        **{name: comparison.to_dict(points=False) for name, comparison in comparisons.items()},
    }


def _energy(plan: SweepPlan, trained: TrainedLM) -> JSONObject:
    """Return ||N B||_F^2 of the trained model, whatever its strength, to show the effect of the term."""
    term = _term(plan, trained.vocabulary.index, 1.0)
    value = float(term.on(plan.where)(trained.model).detach())
    return {"energy": value, "directions": term.k, "pairs_lost": [list(pair) for pair in term.lost]}


CORPORA = {"table-1": "ptb", "table-2": "wikitext-2", "table-3": "cnn-dailymail", "table-5": "wikitext-2"}
CORPORA |= {"table-6": "wikitext-2", "table-7": "cnn-dailymail", "table-8": "cnn-dailymail"}
FILES = {"ptb": "ptb.train.txt", "wikitext-2": "train.txt"}
TEXTS, LENGTH = 2000, 500  # texts that a model writes, and their length, as in the paper
MARKS = {"μ": "mu", "σ": "sigma", "β": "beta"}
SUBSET = "cnn-dailymail-1000"
OTHER_TEXT = "The paper's sample of CNN/Daily Mail is not published: ours is another part, 1,000 articles."
GENERATED = (
    "Generated text beside as much training text, with intervals over documents. Perplexity: of word-level models, on "
    "the test text of the paper's corpus."
)
EXACT = (
    "With infinite context the exact weights give larger scores than the published ones, because words far from every "
    "gendered word get tiny weights."
)


def text_scores(item: PaperItem, inputs: PaperInputs) -> list[Series] | str:
    """Return tables 1 to 3: the training text, and what models write beside as much of the training text."""
    name = CORPORA[item.name]
    source = _source(name, inputs)
    if source is None:
        return _absent(name)
    values: dict[Key, Estimate] = {}
    for context, reach in REACH.items():
        whole = _scored(source, name, **reach)
        values[TRAINING, f"{context} μ"] = Estimate(whole.mu)
        values[TRAINING, f"{context} σ"] = Estimate(whole.sigma)
    by_run: dict[Key, dict[str, float]] = {}
    single: dict[Key, Estimate] = {}
    for row, addresses in inputs.by_row(item, "0.0").items():
        for run, address in enumerate(addresses):
            for column, estimate in _generated(source, name, address, inputs).items():
                by_run.setdefault((row, column), {})[str(run)] = estimate.value
                single[row, column] = estimate
    found = estimates(item, by_run)
    values |= {key: single[key] if one.n == 1 and key in single else one for key, one in found.items()}
    notes = (EXACT, *([OTHER_TEXT] if name == "cnn-dailymail" else []), *([GENERATED] if by_run else []))
    return [Series(_title(name, inputs), values, notes=notes)]


def word_scores(item: PaperItem, inputs: PaperInputs) -> list[Series] | str:
    """Return tables 5 to 8: scores of the printed words in the training text, and in what models write."""
    name = CORPORA[item.name]
    source = _source(name, inputs)
    if source is None:
        return _absent(name)
    found = {"training": _scored(source, name, window=10)}
    for column, addresses in inputs.by_row(item, "0.0").items():
        texts = [text for address in addresses for text in _texts(address, inputs)[0]]
        found[column] = _scored(texts, name, window=10)
    values = {
        (word, column): Estimate(scored.scores[word], n=int(column != "training"))
        for word in item.rows or {}
        for column, scored in found.items()
        if word in scored.scores
    }
    lost = [word for word in item.rows or {} if word not in found["training"].scores]
    notes = [f"Without a score in the training text: {', '.join(lost)}."] if lost else []
    notes += [OTHER_TEXT] if name == "cnn-dailymail" else []
    if not values:
        return f"none of the printed words has a score in {_title(name, inputs)}"
    return [Series(_title(name, inputs), values, notes=tuple(notes))]


def _source(name: str, inputs: PaperInputs) -> Corpus | None:
    """Return the training text: files that are given, or those of the paper's corpus if they are on this disk."""
    if inputs.corpus is None or inputs.corpus in (name, SUBSET):
        folder = locate(SUBSET if name == "cnn-dailymail" else name)
        if folder is None:
            return None
        if name == "cnn-dailymail":
            return Corpus([folder], field="article")
        return Corpus([folder / FILES[name] if folder.is_dir() else folder], documents="file")
    given = [inputs.corpus] if isinstance(inputs.corpus, str) else list(inputs.corpus)
    known = catalog()
    paths = [str(locate(one) or one) if one in known else one for one in given]
    return Corpus(paths)


def _absent(name: str) -> str:
    id = SUBSET if name == "cnn-dailymail" else name
    return f"The text is not on this disk: run `evenhand fetch {id}`, or give a training text with --corpus."


def _title(name: str, inputs: PaperInputs) -> str:
    if inputs.corpus is None:
        return f"scores of {SUBSET if name == 'cnn-dailymail' else name}"
    return f"scores of {inputs.corpus if isinstance(inputs.corpus, str) else ', '.join(inputs.corpus)}"


def _scored(source: Corpus | list[list[str]], name: str, **reach: float | int) -> CorpusBias:
    from evenhand.corpus import Texts

    tokenised = name != "cnn-dailymail"
    given = source if isinstance(source, Corpus) else Texts([" ".join(text) for text in source])
    return bias(
        given, lists=PAIRS[name], tokenizer="whitespace" if tokenised else "words",
        stop_words=(*ENGLISH, *SPECIAL_TOKENS), **reach,  # type: ignore[arg-type]
    )  # fmt: skip


def _texts(address: str, inputs: PaperInputs, test: Path | None = None) -> tuple[list[list[str]], float | None]:
    """Return texts by a model or from a file, and the perplexity of a word-level model on the test text."""
    from evenhand.subjects.language_models import is_model, open_language_model

    if not is_model(address):
        return read_samples(existing(Path(address), what="generated text")), None
    opened = open_language_model(address, device=inputs.device)
    samples, tokens = min(inputs.sample or TEXTS, TEXTS), min(LENGTH, opened.longest)
    texts = [text.split() for text in opened.texts(samples, tokens, seed=inputs.seed, progress=inputs.progress)]
    return texts, float(opened.perplexity(test)["word"]) if test and opened.whitespace else None


def _generated(source: Corpus, name: str, address: str, inputs: PaperInputs) -> dict[str, Estimate]:
    """Return the scores of generated text beside as much training text, each with its interval over documents."""
    texts, perplexity = _texts(address, inputs, _test_text(name, inputs))
    tokenizer = "whitespace" if name != "cnn-dailymail" else "words"
    compared = against_training(
        source, texts, lists=PAIRS[name], tokenizer=tokenizer, seed=inputs.seed, progress=inputs.progress
    )
    found = {
        f"{context} {mark}": Estimate(comparison.value(statistic), None, 1, comparison.interval(statistic))
        for context, comparison in compared.items()
        for mark, statistic in MARKS.items()
    }
    return found if perplexity is None else {**found, "perplexity": Estimate(perplexity, n=1)}


def _test_text(name: str, inputs: PaperInputs) -> Path | None:
    """Return the test text of the paper's corpus; None for other texts and for CNN/Daily Mail, which has no split."""
    folder = locate(name) if name in FILES and inputs.corpus in (None, name) else None
    return folder / FILES[name].replace("train", "test") if folder is not None and folder.is_dir() else None
