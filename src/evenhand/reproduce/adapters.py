"""Tables that have more columns than the paper, as series of the numbers that the paper prints."""

from __future__ import annotations

import re

from evenhand.reproduce import dawkins2021, ethayarajh2019
from evenhand.reproduce.comparison import Estimate, Key, Series
from evenhand.reproduce.inputs import PaperInputs
from evenhand.reproduce.published import PaperItem
from evenhand.reproduce.table import PaperTable

RULES = {ethayarajh2019.LISTED: "Bolukbasi's list spared", ethayarajh2019.IN_SAMPLE: "proposed"}
WITHOUT_CORPUS = (
    "Computing this needs a text and minutes: --corpus enwik8, --corpus wikitext-2 or files of your own. "
    "The recorded numbers are shown."
)


def single_words(item: PaperItem, inputs: PaperInputs) -> list[Series]:
    """Return table 1 of Ethayarajh et al.: nine WEATs with single words."""
    vectors = inputs.only_vectors(item)
    table = ethayarajh2019.table_1(vectors, seed=inputs.seed)
    values: dict[Key, Estimate] = {}
    for row in table.to_dict()["rows"]:
        name = f"{row['targets']}: {row['attributes']}"
        if row["statistic"] is not None:
            cells = {"statistic": row["statistic"], "effect size": row["effect"], "p": row["p"]}
            cells["|effect size|"] = abs(row["effect"])
            values |= {(name, column): Estimate(cells[column]) for column in item.columns}
    return [Series(vectors.name, values, notes=table.notes)]


def analogies(item: PaperItem, inputs: PaperInputs) -> list[Series]:
    """Return figure 1 of Ethayarajh et al.: the share of analogies that is left."""
    vectors = inputs.only_vectors(item)
    table = ethayarajh2019.figure_1(vectors, seed=inputs.seed)
    values = {
        (f"{row['analogies']}, {RULES[row['method']]}", "preserved %"): Estimate(row["preserved %"])
        for row in table.to_dict()["rows"]
        if row["threshold"] == str(ethayarajh2019.THRESHOLD)
        and row["method"] in RULES
        and row["preserved %"] is not None
    }
    return [Series(vectors.name, values, table=table)]


def contrived(item: PaperItem, inputs: PaperInputs) -> list[Series]:
    """Return section 4 of Ethayarajh et al.: contrived attributes."""
    vectors = inputs.only_vectors(item)
    return [Series(vectors.name, {}, table=ethayarajh2019.contrived(vectors, seed=inputs.seed))]


def gendered_words(item: PaperItem, inputs: PaperInputs) -> list[Series] | str:
    """Return table 2 of Ethayarajh et al. for a text and vectors of it."""
    from evenhand.reproduce.genderedness import table_2

    if inputs.corpus is None:
        return WITHOUT_CORPUS
    vectors = inputs.only_vectors(item) if inputs.vectors else None
    corpus = inputs.corpus if isinstance(inputs.corpus, str) else list(inputs.corpus)
    table = table_2(corpus, vectors, seed=inputs.seed, progress=inputs.progress)
    return [Series(f"SGNS on {corpus}", genderedness_values(table), table=table)]


def genderedness_values(table: PaperTable) -> dict[Key, Estimate]:
    """Return the numbers of table 2 by group, word and column; the mean change has its interval over words."""
    values: dict[Key, Estimate] = {}
    for row in table.to_dict()["rows"]:
        word = "mean" if row["word"].startswith("mean of") else row["word"]
        for column, name in (("corpus", "corpus"), ("embedding", "vectors"), ("change", "change")):
            if row[name] is not None:
                bounds = re.findall(r"-?[\d.]+", row["interval"] or "") if name == "change" else []
                interval = (float(bounds[0]), float(bounds[1])) if bounds else None
                values[f"{row['group']}: {word}", column] = Estimate(row[name], given=interval)
    return values


def correlated(item: PaperItem, inputs: PaperInputs) -> list[Series]:
    """Return table 5 of Dawkins, recomputed from the printed table 6."""
    table = dawkins2021.table_5(seed=inputs.seed)
    values = {
        (f"{row['first']}, {row['second']}", "r"): Estimate(
            row["pearson"], given=(row["pearson low"], row["pearson high"])
        )
        for row in table.to_dict()["rows"]
        if row["pearson"] is not None
    }
    return [Series("recomputed from the printed table 6", values, table=table)]


def intrinsic(item: PaperItem, inputs: PaperInputs) -> list[Series]:
    """Return table 6 of Dawkins for one set of vectors, without methods."""
    vectors = inputs.only_vectors(item)
    table = dawkins2021.table_6({vectors.name: vectors}, seed=inputs.seed, progress=inputs.progress)
    (row,) = table.to_dict()["rows"]
    values = {("GloVe", column): Estimate(row[column]) for column in dawkins2021.COLUMNS if row[column] is not None}
    return [Series(vectors.name, values, notes=table.notes)]
