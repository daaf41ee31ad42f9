"""Dev et al. from models and vectors: neutrality (tables 1, 3, 5, 8, 9), examples (2, 4, 6), directions (7, 12)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from evenhand.reproduce.comparison import Estimate, Key, Series
from evenhand.reproduce.inputs import PaperInputs
from evenhand.reproduce.published import PaperItem, change_row
from evenhand.words import concept, pairs, wordset

if TYPE_CHECKING:
    from evenhand.measures.inference import SeedsResult, Spread
    from evenhand.measures.inference.run_probe import LabelName
    from evenhand.models.vectors import Vectors

SCORES = {"NN": "net_neutral", "FN": "fraction_neutral", "T:0.5": "T:0.5", "T:0.7": "T:0.7"}
GENDER, NATIONALITY, RELIGION = "gender-occupation", "nationality-polarity", "religion-polarity"
PROBES = {"table-1": GENDER, "table-2": GENDER, "table-3": NATIONALITY, "table-4": NATIONALITY, "table-5": RELIGION}
PROBES |= {"table-6": RELIGION, "table-8": GENDER}
AT_TEST = "embedded models, projected at test only"
NOT_RETRAINED = "The direction is removed when the models are asked. The paper trains its models again."
TOKEN_VECTORS = (
    "To compute this table, give the token vectors of an encoder in a file, or an ELMo model: "
    "`evenhand reproduce dev2019/table-12 --vectors elmo:FOLDER`."
)
HIGHEST: Mapping[LabelName, str] = {
    "entailment": "highest entailment of any pair",
    "contradiction": "highest contradiction of any pair",
}
LISTS = {
    "Gendered": ("gender", "dev2019-gendered"),
    "Demonyms": ("nationality", "dev2019-demonyms"),
    "Adherents": ("religion", "dev2019-adherents"),
}


def neutrality(item: PaperItem, inputs: PaperInputs) -> list[Series]:
    """Return tables 1, 3, 5, 8 and 9: neutrality by row, and the paired differences of rows.

    The embedded models have no counterpart that was trained without nationality or religion, so for table 9 they are
    asked over projected vectors.
    """
    at_test = item.name == "table-9" and not inputs.gives(item)
    results = {
        row: inputs.answers(addresses, _probe(item, row), without=_concept(row) if at_test else "")
        for row, addresses in _models(item, inputs).items()
    }
    values: dict[Key, Estimate] = {
        (row, column): _estimate(result.scores[name])
        for row, result in results.items()
        for column, name in SCORES.items()
    }
    for after, before in item.changes:
        if after in results and before in results:
            values |= _changes(change_row(after, before), results[before], results[after])
    notes = _notes(item, inputs, results.values())
    return [Series(f"the {AT_TEST}", values, notes=(*notes, NOT_RETRAINED)) if at_test
            else Series(_name(item, inputs), values, notes=notes)]  # fmt: skip


def examples(item: PaperItem, inputs: PaperInputs) -> list[Series]:
    """Return tables 2, 4 and 6: what the models answer to the printed pairs, and the most certain answer of all."""
    (addresses,) = _models(item, inputs).values()
    members = inputs.open(addresses).members
    printed = [row for row in item.rows or {} if row not in HIGHEST.values()]
    premises, hypotheses = zip(*(_sentences(row, PROBES[item.name]) for row in printed), strict=True)
    predicted = [member.predict(premises, hypotheses).matrix for member in members if hasattr(member, "predict")]
    values: dict[Key, Estimate] = {}
    for place, row in enumerate(printed):
        for column, label in (("entailment", 0), ("contradiction", 2)):
            values[row, column] = Estimate.of(float(one[place, label]) for one in predicted)
    asked = inputs.answers(addresses, PROBES[item.name])
    for answer, row in HIGHEST.items():
        values[row, answer] = Estimate.of(result.extremes[answer][0][1] for result in asked.results)
    pair = asked.first.top("entailment", 1)[0]
    notes = (*_notes(item, inputs, [asked]), f"The most certain pair here: {pair['premise']} → {pair['hypothesis']}")
    return [Series(_name(item, inputs), values, notes=notes)]


def directions(item: PaperItem, inputs: PaperInputs) -> list[Series] | str:
    """Return table 7 or 12: singular values of full lists relative to the first, and the cosine with what is removed.

    Table 12 is about ELMo, so the embedded vectors do not stand in for given ones.
    """
    from evenhand.errors import EvenhandError

    if item.name == "table-12" and not inputs.vectors:
        return TOKEN_VECTORS
    vectors = inputs.only_vectors(item)
    values: dict[Key, Estimate] = {}
    notes = [
        "Ratios of singular values. The paper does not say whether its ratios are of singular values or variances."
    ]
    for row, (name, full) in LISTS.items():
        try:
            found = _stability(vectors, name, full)
        except EvenhandError as error:
            notes.append(f"{row}: {error}")
            continue
        values |= {(row, column): Estimate(value) for column, value in found.items()}
    return [Series(vectors.name, values, notes=tuple(notes))]


def _stability(vectors: Vectors, name: str, full: str) -> Mapping[str, float]:
    from evenhand.subspaces import learn, stability

    removed = learn(vectors, concept(name))
    listed = pairs(full).pairs if name == "gender" else wordset(full)
    found = stability(vectors, listed, removed)
    return {**dict(zip(("2nd", "3rd", "4th"), found.ratios, strict=False)), "cosine": found.cosine}


def _models(item: PaperItem, inputs: PaperInputs) -> dict[str, tuple[str, ...]]:
    """Return the models by row; the embedded ones come with and without the projection of he-she."""
    first = next(iter(item.rows or {}))
    if item.name == "table-9":
        embedded = dict.fromkeys(item.rows or {}, "embedded")
    elif item.name == "table-8":
        embedded = {"original": "embedded", "projected": "embedded:projected"}
    else:
        embedded = {first: "embedded"}
    found = inputs.addresses(item, default=first, embedded=embedded)
    return {first: found[first]} if item.name in ("table-2", "table-4", "table-6") else found


def _probe(item: PaperItem, row: str) -> str:
    if item.name == "table-9":
        return NATIONALITY if row.startswith("nationality") else RELIGION
    return PROBES[item.name]


def _concept(row: str) -> str:
    """Return what is removed in a row of table 9."""
    return row.partition(" ")[0] if row.endswith(" projected") else ""


def _estimate(spread: Spread) -> Estimate:
    return Estimate(spread.mean, spread.sd, len(spread.values), spread.interval)


def _changes(row: str, before: SeedsResult, after: SeedsResult) -> dict[Key, Estimate]:
    from evenhand.measures.inference import compare

    differences = compare(before, after).differences
    return {(row, column): _estimate(differences[name]) for column, name in SCORES.items()}


def _sentences(row: str, probe_name: str) -> tuple[str, str]:
    """Return premise and hypothesis of a printed row such as "banker spoke to crew: man"."""
    from evenhand.words.probes import probe

    phrase, _, hypothesis = row.partition(": ")
    premise, _, rest = phrase.partition(" ")
    verb = max((verb for verb in wordset("dev2019-verbs") if rest.startswith(f"{verb} ")), key=len)
    asked = probe(probe_name).restrict(
        premise=premise, hypothesis=hypothesis.lower(), verb=verb, object=rest.removeprefix(f"{verb} ")
    )
    pair = asked.pair(0)
    return pair.premise, pair.hypothesis


def _name(item: PaperItem, inputs: PaperInputs) -> str:
    return "the given models" if inputs.gives(item) else "the embedded models"


def _notes(item: PaperItem, inputs: PaperInputs, results: Iterable[SeedsResult]) -> tuple[str, ...]:
    asked = [result for result in results if result.first.params["sample"]]
    sampled = (
        f"A sample of {asked[0].first.n_pairs:,} of {asked[0].first.params['all_pairs']:,} pairs." if asked else ""
    )
    about = (
        "" if inputs.gives(item) else "Decomposable attention over GloVe 6B, 100 dimensions: three seeds for each row."
    )
    return tuple(text for text in (about, sampled) if text)
