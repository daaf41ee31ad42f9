"""Write docs/reference/concepts.md from the word files: every concept with language, groups, source, limits and counts.

    python scripts/concepts_page.py

The text around the tables is in this script; everything else comes from the files, and a test checks that the page is
current.
"""

from pathlib import Path

from evenhand import words
from evenhand.files import write_text
from evenhand.words import Concept, probes

PAGE = Path(__file__).parents[1] / "docs/reference/concepts.md"
HEAD = """# Concepts

<!-- Written by scripts/concepts_page.py; change the word files or the script. -->

A concept decides which words are removed and which questions an audit asks (`--concept`, default `gender`). {count}
are shipped. `evenhand concept show CONCEPT` prints the words, `evenhand concept check CONCEPT --vectors V` looks them
up. [Own words](../how-to/own-words.md) shows how to write your own.

| concept | language | groups | pairs | first names | queries | probes |
|---|---|---|---|---|---|---|
{table}

The first group is the positive pole of a direction, unless the concept names another. With more than two groups the
sign of a direction means nothing.

**More than two groups.** Measures of any number of groups (`generalised-weat`, `mac`, `rnsb`, `same`) take all of
them. Measures of two groups (`evenhand show weat` says which) are asked about every two, and about each against the
rest: `weat:religion/pleasant-unpleasant:pairwise` and `:one-against-rest`. The value is that of the comparison
furthest from the ideal, the p-value the smallest one after Holm's correction, and the items are all comparisons. In
Python: `eh.measures.pairwise(vectors, "weat", "religion/pleasant-unpleasant", concept="religion")`.

**Intersections.** `--concept "gender x race"` builds the cells of two concepts. {tables} have first names that a
source lists by both groups; any other two concepts make phrases ("Black women") from their adjectives and nouns, and
`"gender x race by phrases"` asks for them. The measure `interaction` tests whether a cell is more than the sum of its
two parts, on word vectors; `sentence-interaction` does so on sentences. Word vectors have no vectors of phrases.

**Generic queries** are built for a concept without queries of its own: its groups as targets, and as attributes
pleasant and unpleasant words (those of `weat-1`) and career and family words (those of `weat-6`). With more than two
groups, WEAT also asks about each group against the others together: `religion/islam/pleasant-unpleasant`.

**Controls.** `weat-1` (flowers and insects), `weat-2` (instruments and weapons) and `weat-9` (mental and physical
disease) belong to no concept. WEAT asks them in every English audit: a method should leave them as they are.

**Not asked.** Measures that are defined for gender only (`sembias`, `occupation-share`, `mab`, `pronoun-share`,
`winobias`, `winogender`, `honest`) are left out of other audits; `bbq` and `holistic-bias` ask the category of the
concept. The inference measures need a probe. `similarity`, `analogy` and the [sentence sets](sentence-sets.md) need
data sets (`evenhand fetch`).

**First names are proxies.** A name carries age, class, origin and fame besides the group it stands for, and nobody's
group follows from a name. Every list here was written in one place at one time, mostly in the US.

## Sources and limits

"""
CELLS = ("gender-x-race", "gender-x-age", "gender-x-ethnicity")


def page() -> str:
    """Return the text of the page."""
    concepts = [words.concept(id) for id in words.ids("concept")]
    crossed = ", ".join(f"`{id.replace('-x-', ' x ')}`" for id in CELLS)
    head = HEAD.format(count=len(concepts), table="\n".join(map(_row, concepts)), tables=crossed)
    return head + "\n\n".join(map(_section, concepts)) + "\n"


def _row(concept: Concept) -> str:
    queries = [id for id in words.ids("query") if words.query(id).concept == concept.name and id.startswith("weat")]
    asked = [id for id in probes.ids() if probes.probe(id).concept == concept.name]
    cells = [
        f"`{concept.name}`",
        concept.language,
        _sizes({name: len(group) for name, group in concept.groups.items()}),
        str(len(concept.pairs)),
        _sizes({name: len(group) for name, group in concept.names.items()}) or "none",
        " ".join(f"`{id}`" for id in queries) or ("generic" if words.generic_ids(concept) else "none"),
        " ".join(f"`{id}`" for id in asked) or "none",
    ]
    return f"| {' | '.join(cells)} |"


def _sizes(sizes: dict[str, int]) -> str:
    return ", ".join(f"{name} {size}" for name, size in sizes.items())


def _section(concept: Concept) -> str:
    sources = {concept.source.reference: concept.source} if concept.source else {}
    for lists in (concept.groups, concept.names, concept.adjectives, concept.nouns):
        sources |= {group.source.reference: group.source for group in lists.values() if group.source}
    listed = "\n".join(
        f"- {source.reference}{f' <{source.url}>' if source.url else ''} Licence: {source.licence.rstrip('.')}."
        for source in sources.values()
    )
    described = _sizes({name: len(group) for name, group in concept.adjectives.items()})
    phrases = f" Adjectives: {described}." if described else ""
    return f"### {concept.name}\n\n{concept.limits}{phrases}\n\n{listed}"


if __name__ == "__main__":
    write_text(PAGE, page())
