"""Dawkins 2021: answers about marked attributes (tables 1, 2, 4), quality of vectors (3), intrinsic measures (5, 6)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from evenhand import measures, mitigations
from evenhand.data import locate
from evenhand.errors import DegenerateError, EvenhandError, UsageError
from evenhand.measures import Measurement
from evenhand.measures.inference import ProbeResult, error, gender_gap
from evenhand.measures.registry import as_measurements
from evenhand.models.vectors import Vectors
from evenhand.reproduce.comparison import Estimate, Key, PaperTable, Series
from evenhand.reproduce.inputs import PaperInputs
from evenhand.reproduce.published import PaperItem, change_row, paper
from evenhand.stats import pearson, spearman

Progress = Callable[[int, int, str], None]
MIN_POINTS = 4  # three points always lie near some line
ERROR = "E"


@dataclass(frozen=True)
class Column:
    """A column of table 6: a measure with the settings of the paper, and the detail that is shown."""

    measure: str
    query: str
    options: Mapping[str, object] = field(default_factory=dict)
    detail: str = ""

    def of(self, measurement: Measurement) -> float | None:
        """Return the number, or None if it is undefined."""
        return measurement.details.get(self.detail) if self.detail else measurement.value


# Settings from the notes under table 6. The paper does not say that 1,500 words are per side; this is our reading.
COLUMNS = {
    "DB": Column("direct-bias", "vocabulary", {"how": "pair"}),
    "MIDB": Column("midb", "vocabulary", {"d": 4}),
    "Clus": Column("clustering", "vocabulary", {"per_side": 1_500, "value": "v-measure", "score": "projection"}),
    "Rec": Column("recoverability", "vocabulary", {"classifiers": ("logistic",), "score": "projection"}),
    "SBdef": Column("sembias", "sembias"),
    "SBstereo": Column("sembias", "sembias", detail="stereotype"),
    "GIPE": Column("gipe", "vocabulary", {"theta": 0.03, "k": 100}),
}
HEADINGS = (*COLUMNS, ERROR)

# In table 6 as printed, E is the error on sentences with explicit gender words (table 1). The paper omits DB where a
# method makes she and he almost equal.
PRINTED = paper("dawkins2021").items
PUBLISHED: Mapping[str, tuple[float | None, ...]] = PRINTED["dawkins2021/table-6"].rows or {}
OTHER_VECTORS = (
    "The paper's vectors have 300 dimensions (GloVe on Wikipedia 2017, word2vec on Google News) and its words are the "
    "50,000 most frequent of both; here each set of vectors has its own vocabulary."
)
CORRELATION_HEADS = (
    *("first", "second", "n", "pearson", "pearson low", "pearson high", "pearson least", "pearson most"),
    *("spearman", "spearman low", "spearman high", "pearson (paper)"),
)
CAUTION = (
    "A correlation over a few embeddings, several of which share a base, is exploratory: consider the interval and the "
    "range when one embedding is left out."
)
EXPLAINED = (
    "Recomputed from the three printed decimals, without pairs that have an undefined value; differences up to .005 "
    "are due to rounding.",
    "Four dimensions of MIDB were chosen in the paper because they maximise its correlation with E (footnote 18).",
)


def published() -> PaperTable:
    """Return table 6 as printed."""
    rows = tuple((name, *values) for name, values in PUBLISHED.items())
    return PaperTable("Dawkins 2021, table 6: intrinsic measures and NLI error E", ("embedding", *HEADINGS), rows)


def table_5(*, seed: int = 0) -> PaperTable:
    """Return table 5 recomputed from the printed table 6, with Spearman correlations, intervals and ranges."""
    return correlations(published(), title="Dawkins 2021, table 5, recomputed from its table 6", seed=seed)


def intrinsic(
    embeddings: Mapping[str, Vectors],
    *,
    references: Mapping[str, Vectors] | None = None,
    errors: Mapping[str, float] | None = None,
    columns: Mapping[str, Column] | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> PaperTable:
    """Return every intrinsic measure of a set of embeddings; takes about half a minute for each.

    Args:
        embeddings: vectors by name.
        references: for a debiased embedding, the original vectors, from which clustering, recoverability and GIPE
            choose their words.
        errors: the error of a model that uses the embedding, as a column E for `correlations`.
        columns: the columns; those of the paper by default.
        seed: seed of the measures.
        progress: called with (done, total, name).
    """
    chosen = columns or COLUMNS
    if missing := sorted({column.measure for column in chosen.values()} - set(measures.ids())):
        raise UsageError(f"measure {missing[0]!r} is not installed", hint="leave its column out: columns={...}")
    rows: list[tuple[object, ...]] = []
    notes: list[str] = []
    for number, (name, vectors) in enumerate(embeddings.items()):
        if progress:
            progress(number, len(embeddings), name)
        cells, undefined = _measure(vectors, (references or {}).get(name), chosen, seed)
        notes += [f"{name}: {reason}" for reason in undefined]
        rows.append((name, *cells, *([errors.get(name)] if errors else [])))
    heads = ("embedding", *chosen, *([ERROR] if errors else []))
    return PaperTable("Intrinsic measures, as in Dawkins 2021, table 6", heads, tuple(rows), tuple(notes))


def correlations(table: PaperTable, *, with_: Sequence[str] = (), title: str = "", seed: int = 0) -> PaperTable:
    """Return Pearson and Spearman correlations of every two columns, each over the embeddings that have both.

    Intervals (low, high) are bootstraps over the embeddings; "least" and "most" are the range of Pearson's r when any
    single embedding is left out.

    Args:
        table: a table with one row per embedding.
        with_: include only pairs with one of these columns, such as the error.
        title: of the result.
        seed: seed of the bootstrap.
    """
    columns = {
        name: [row[index] for row in table.rows] for index, name in enumerate(table.columns) if name != table.columns[0]
    }
    names = [name for name, cells in columns.items() if any(cell is not None for cell in cells)]
    if unknown := [name for name in with_ if name not in names]:
        raise UsageError(f"{table.title} has no column {unknown[0]!r} with numbers", hint=f"it has {', '.join(names)}")
    printed = table == published()
    rows = [
        (
            first,
            second,
            *_correlate(columns[first], columns[second], seed),
            _printed(first, second) if printed else None,
        )
        for index, first in enumerate(names)
        for second in names[index + 1 :]
        if not with_ or {first, second} & set(with_)
    ]
    notes = (CAUTION, *(EXPLAINED if printed else ()))
    return PaperTable(title or f"Correlations: {table.title}", CORRELATION_HEADS, tuple(rows), notes)


def _measure(
    vectors: Vectors, reference: Vectors | None, columns: Mapping[str, Column], seed: int
) -> tuple[list[float | None], list[str]]:
    """Return one row of table 6, with each measure run once, and the reasons for undefined cells."""
    runs: dict[str, Measurement] = {}
    cells: list[float | None] = []
    for column in columns.values():
        key = repr((column.measure, column.query, dict(column.options)))
        if key not in runs:
            function = measures.get(column.measure)
            (runs[key],) = as_measurements(
                function(vectors, column.query, reference=reference, seed=seed, **column.options)
            )
        cells.append(column.of(runs[key]))
    return cells, [f"{run.measure} is undefined: {run.reason}" for run in runs.values() if run.status == "undefined"]


def _correlate(first: Sequence[object], second: Sequence[object], seed: int) -> tuple[object, ...]:
    """Return the number of points, r with interval and range, and rho with interval; None if undefined."""
    both = [two for two in zip(first, second, strict=True) if None not in two]
    try:
        if len(both) < MIN_POINTS:
            raise DegenerateError(f"{len(both)} points are too few for a correlation")
        x, y = np.array(both, dtype=np.float64).T
        r, rho = pearson(x, y), spearman(x, y, seed=seed)
    except DegenerateError:
        return (len(both), *(None,) * 8)
    empty = (None, None)
    spread = r.leave_one_out or empty
    return (r.n, r.value, *(r.interval or empty), *spread, rho.value, *(rho.interval or empty))


def _printed(first: str, second: str) -> float:
    return PRINTED["dawkins2021/table-5"].published()[", ".join(sorted((first, second), key=HEADINGS.index)), "r"]


def correlated(item: PaperItem, inputs: PaperInputs) -> list[Series]:
    """Return table 5 of Dawkins, recomputed from the printed table 6."""
    table = table_5(seed=inputs.seed)
    values = {
        (f"{row['first']}, {row['second']}", "r"): Estimate(
            row["pearson"], given=(row["pearson low"], row["pearson high"])
        )
        for row in table.to_dict()["rows"]
        if row["pearson"] is not None
    }
    return [Series("recomputed from the printed table 6", values, table=table)]


def intrinsic_row(item: PaperItem, inputs: PaperInputs) -> list[Series]:
    """Return table 6 of Dawkins for one set of vectors, without methods."""
    vectors = inputs.only_vectors(item)
    table = intrinsic({vectors.name: vectors}, seed=inputs.seed, progress=inputs.progress)
    (row,) = table.to_dict()["rows"]
    values = {("GloVe", column): Estimate(row[column]) for column in COLUMNS if row[column] is not None}
    return [Series(vectors.name, values, notes=(OTHER_VECTORS, *table.notes))]


PROBES = {"table-1": "mab-explicit", "table-2": "mab-occupations", "table-4": "mab-names"}
LABELS = ("neutral", "entailment", "contradiction")
GROUPS = {"M": "male", "F": "female"}
SETS = {
    "Google": ("analogy", "google-analogies"),
    "MSR": ("analogy", "msr-analogies"),
    "RG": ("similarity", "rg-65"),
    "MTurk": ("similarity", "mturk-287"),
    "MEN": ("similarity", "men"),
    "SL999": ("similarity", "simlex-999"),
}
PROJECTED = "The embedded models without he-she have no counterpart in this table: see `evenhand probe --compare`."


def marked_answers(item: PaperItem, inputs: PaperInputs) -> list[Series]:
    """Return tables 1, 2 and 4: mean answers for both groups, their distance and error."""
    models = inputs.addresses(item, default="GloVe", embedded={"GloVe": "embedded"})
    values: dict[Key, Estimate] = {}
    for row, addresses in models.items():
        results = inputs.answers(addresses, PROBES[item.name]).results
        cells = [dict(_answer_cells(result, explicit=item.name == "table-1")) for result in results]
        values |= {(row, column): Estimate.of(one[column] for one in cells) for column in cells[0]}
    name = "the given models" if inputs.gives(item) else "the embedded models"
    notes = (
        () if inputs.gives(item) else ("Decomposable attention over GloVe 6B, 100 dimensions: three seeds.", PROJECTED)
    )
    return [Series(name, values, notes=notes)]


def _answer_cells(result: ProbeResult, *, explicit: bool) -> Iterator[tuple[str, float]]:
    for short, group in GROUPS.items():
        for label in LABELS:
            yield f"{short} {label}", getattr(result.groups[group].triple, label)
    if result.marked:
        yield "d", result.marked.distance.value
        if not explicit and result.marked.p_value is not None:
            yield "p", result.marked.p_value
        if explicit:
            yield "E", result.marked.error.value
    if explicit:
        yield "M - F entailment", _triple(result, "male")[0] - _triple(result, "female")[0]
        for word in ("he", "she"):
            for label in LABELS:
                yield f"{word} {label}", getattr(result.groups[word].triple, label)
        pronouns = [np.array(_triple(result, word)) for word in ("he", "she")]
        yield "pronouns d", float(gender_gap(*pronouns))
        yield "pronouns E", float(error(*pronouns))


def _triple(result: ProbeResult, group: str) -> tuple[float, float, float]:
    triple = result.groups[group].triple
    return triple.entailment, triple.neutral, triple.contradiction


def quality(item: PaperItem, inputs: PaperInputs) -> list[Series]:
    """Return table 3: analogies and similarities before and after MISP, on the sets that are on this disk."""
    vectors = inputs.only_vectors(item)
    after = mitigations.get_vector_method("misp").with_params({}).fit(vectors, "gender", seed=inputs.seed)(vectors)
    values: dict[Key, Estimate] = {}
    missing = [name for _, name in SETS.values() if locate(name) is None]
    for column, (measure, name) in SETS.items():
        if name in missing:
            continue
        for row, subject in (("GloVe", vectors), ("GloVe.MISP", after)):
            if (estimate := _rated(subject, measure, name, inputs.seed)) is not None:
                values[row, column] = estimate
        if ("GloVe", column) in values and ("GloVe.MISP", column) in values:
            difference = values["GloVe.MISP", column].value - values["GloVe", column].value
            values[change_row("GloVe.MISP", "GloVe"), column] = Estimate(difference)
    notes = [f"Not on this disk: {', '.join(missing)}; `evenhand fetch ID` fetches one."] if missing else []
    return [Series(vectors.name, values, notes=tuple(notes))]


def _rated(vectors: Vectors, measure: str, name: str, seed: int) -> Estimate | None:
    try:
        (found,) = as_measurements(measures.get(measure)(vectors, name, seed=seed))
    except EvenhandError:
        return None
    if found.value is None:
        return None
    interval = (100 * found.interval[0], 100 * found.interval[1]) if found.interval else None
    return Estimate(100 * found.value, given=interval)
