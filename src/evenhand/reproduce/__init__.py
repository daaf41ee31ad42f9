"""The tables and figures of the papers beside ours: published numbers, recorded results, and what is computed.

The numbers of ours come from `measures` and `mitigations`, never from here; printing them belongs to `cli`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from evenhand.errors import UsageError, unknown_name
from evenhand.reproduce.comparison import PaperComparison, PaperTable, Series, recorded
from evenhand.reproduce.published import PAPERS as PAPER_IDS
from evenhand.reproduce.published import Paper, PaperItem, item, items, paper

if TYPE_CHECKING:
    from evenhand.models.vectors import Vectors
    from evenhand.reproduce.inputs import PaperInputs

__all__ = [
    "COMPUTED",
    "PAPERS",
    "PAPER_IDS",
    "Paper",
    "PaperComparison",
    "PaperItem",
    "PaperTable",
    "Reproduction",
    "Series",
    "beside",
    "compute",
    "item",
    "items",
    "paper",
    "papers",
    "tables",
]


@dataclass(frozen=True)
class Reproduction:
    """One table that is computed from vectors or a text: what it shows, the function, and what the function takes."""

    shows: str
    function: str  # module:name inside this folder, imported when the table is asked for
    takes: Literal["vectors", "embeddings", "corpus", "nothing"] = "vectors"


PAPERS: Mapping[str, Mapping[str, Reproduction]] = {
    "ethayarajh2019": {
        "1": Reproduction("nine WEATs with single words: effect size 2 or -2, p 0 or 0.5", "ethayarajh2019:table_1"),
        "2": Reproduction(
            "genderedness of words in a text and in SGNS vectors of it", "genderedness:table_2", "corpus"
        ),
        "contrived": Reproduction("attributes that make any word look biased either way", "ethayarajh2019:contrived"),
        "figure-1": Reproduction("analogies that are left when some words are debiased", "ethayarajh2019:figure_1"),
    },
    "dawkins2021": {
        "5": Reproduction("correlations between the columns of table 6", "dawkins2021:table_5", "nothing"),
        "6": Reproduction("intrinsic measures of a set of embeddings", "dawkins2021:table_6", "embeddings"),
    },
}
# What computes a series of a table or figure (module:name inside this folder, called with the item and the inputs), and
# the options that it takes.
NLI = "--model", "--vectors"
COMPUTED: Mapping[str, tuple[str, ...]] = {
    **{f"dev2019/table-{number}": ("dev2019:neutrality", *NLI) for number in (1, 3, 5, 8, 9)},
    **{f"dev2019/table-{number}": ("dev2019:examples", *NLI) for number in (2, 4, 6)},
    **{f"dev2019/table-{number}": ("dev2019:directions", "--vectors") for number in (7, 12)},
    **{f"bordia2019/table-{number}": ("bordia2019:text_scores", "--model", "--corpus") for number in (1, 2, 3)},
    **{f"bordia2019/table-{number}": ("bordia2019:word_scores", "--model", "--corpus") for number in (5, 6, 7, 8)},
    **{f"dawkins2021/table-{number}": ("dawkins2021:marked_answers", *NLI) for number in (1, 2, 4)},
    "dawkins2021/table-3": ("dawkins2021:quality", "--vectors"),
    "dawkins2021/table-5": ("dawkins2021:correlated",),
    "dawkins2021/table-6": ("dawkins2021:intrinsic_row", "--vectors"),
    "ethayarajh2019/table-1": ("ethayarajh2019:single_words", "--vectors"),
    "ethayarajh2019/table-2": ("genderedness:gendered_words", "--vectors", "--corpus"),
    "ethayarajh2019/figure-1": ("ethayarajh2019:analogies", "--vectors"),
    "ethayarajh2019/section-4": ("ethayarajh2019:contrived_attributes", "--vectors"),
}

WITHOUT_TRAINING = "reproductions/computed.json"  # the record of tables that need no training


def beside(id: str, inputs: PaperInputs | None = None) -> PaperComparison:
    """Return a table or figure of a paper beside ours: what is recorded, and what the inputs let compute.

    Args:
        id: of the table or figure, such as dev2019/table-13.
        inputs: models, vectors or a text; without them only recorded results are shown.
    """
    wanted = item(id)
    computed: list[Series] = []
    missing: list[str] = []
    if inputs is not None and id in COMPUTED:
        module, _, name = COMPUTED[id][0].partition(":")
        found = getattr(import_module(f"{__name__}.{module}"), name)(wanted, inputs)
        if isinstance(found, str):
            missing.append(found)
        else:
            computed += found
    # What is computed now replaces the record of the same, and that of the same table from the embedded inputs.
    again = {one.name for one in computed}
    kept = [
        one
        for one in recorded(id)
        if one.name not in again and not (computed and one.manifest.get("file") == WITHOUT_TRAINING)
    ]
    return PaperComparison(wanted, (*computed, *kept), tuple(missing))


def papers() -> tuple[str, ...]:
    """The ids of the papers with tables that `compute` knows."""
    return tuple(PAPERS)


def tables(paper: str) -> Mapping[str, Reproduction]:
    """The tables of one paper by id."""
    if paper not in PAPERS:
        raise unknown_name("paper", paper, PAPERS)
    return PAPERS[paper]


def compute(paper: str, table: str, *vectors: Vectors, corpus: Any = None, seed: int = 0, **options: Any) -> PaperTable:
    """Compute one table, on the embedded vectors unless others are given.

    A table about a text needs `corpus`, files or an id of the catalog; without vectors they are trained on it.
    """
    if table not in tables(paper):
        raise unknown_name(f"table of {paper}", table, PAPERS[paper])
    wanted = PAPERS[paper][table]
    module, _, name = wanted.function.partition(":")
    function = getattr(import_module(f"{__name__}.{module}"), name)
    found: PaperTable = function(*_given(wanted, f"table {table} of {paper}", vectors, corpus), seed=seed, **options)
    return found


def _given(wanted: Reproduction, what: str, vectors: tuple[Vectors, ...], corpus: Any) -> tuple[Any, ...]:
    if (corpus is None) == (wanted.takes == "corpus"):
        hint = "give one: `corpus='enwik8'`" if corpus is None else "leave out `corpus=`"
        raise UsageError(f"{what} is {'about a text' if corpus is None else 'not about a text'}", hint=hint)
    if wanted.takes == "nothing":
        return ()
    if not vectors and wanted.takes != "corpus":
        from evenhand.models.vectors import Vectors

        vectors = (Vectors.default(),)
    if wanted.takes == "embeddings":
        return ({one.name: one for one in vectors},)
    if len(vectors) > 1:
        raise UsageError(f"{what} is computed on one set of vectors, got {len(vectors)}")
    return (corpus, *vectors) if wanted.takes == "corpus" else vectors
