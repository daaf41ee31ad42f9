"""The tables and figures of the papers beside ours: published numbers, recorded results, and what is computed.

The numbers of ours come from `measures` and `mitigations`, never from here; printing them belongs to `cli`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from evenhand.reproduce.comparison import PaperComparison, PaperTable, Series, recorded
from evenhand.reproduce.published import PAPERS, Paper, PaperItem, item, items, paper

if TYPE_CHECKING:
    from evenhand.reproduce.inputs import PaperInputs

__all__ = [
    "COMPUTED",
    "PAPERS",
    "Paper",
    "PaperComparison",
    "PaperItem",
    "PaperTable",
    "Series",
    "beside",
    "item",
    "items",
    "paper",
]


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
