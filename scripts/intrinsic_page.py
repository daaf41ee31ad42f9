"""Write reproductions/intrinsic.md: every intrinsic measure on real vectors, beside published numbers.

    EVENHAND_DATA=... python scripts/intrinsic_page.py

Takes the catalog's GoogleNews subset and GloVe 6B 50-d and 100-d (fetched when they are not here) and the similarity
and analogy sets of the EVENHAND_DATA folder. Values and manifest are kept beside the page as JSON; only the table of
the page is replaced.
"""

import json
from pathlib import Path

import evenhand as eh
from evenhand.files import write_text
from evenhand.measures import numbers

PAGE = Path(__file__).parents[1] / "reproductions/intrinsic.md"
VECTORS = {
    "GoogleNews 26k": "googlenews-small",
    "GloVe 6B 50-d": "glove-6b-50d-kumo",
    "GloVe 6B 100-d": "glove-6b-100d-wink",
}
# Value, vectors, source. Numbers that a paper prints for other vectors than ours say so.
PUBLISHED = {
    "weat-1": "1.50 (GloVe 840B); Caliskan 2017, table 1",
    "weat-2": "1.53 (GloVe 840B); Caliskan 2017, table 1",
    "weat-3": "1.41 (GloVe 840B); Caliskan 2017, table 1",
    "weat-4": "1.50 (GloVe 840B); Caliskan 2017, table 1",
    "weat-5": "1.28 (GloVe 840B); Caliskan 2017, table 1",
    "weat-6": "1.81 (GloVe 840B); Caliskan 2017, table 1",
    "weat-7": "1.06 (GloVe 840B); Caliskan 2017, table 1",
    "weat-8": "1.24 (GloVe 840B); Caliskan 2017, table 1",
    "weat-9": "1.38 (GloVe 840B); Caliskan 2017, table 1",
    "weat-10": "1.21 (GloVe 840B); Caliskan 2017, table 1",
    "direct-bias:old-direction": "0.08 (GoogleNews, professions); Bolukbasi 2016",
    "midb": "-0.032 (GloVe Wikipedia 300-d); Dawkins 2021, table 6",
    "clustering": "0.999 (GoogleNews); Gonen & Goldberg 2019",
    "recoverability": "1.000 (GloVe), .992 (word2vec); Dawkins 2021, table 6",
    "neighbours:vocabulary": ".741 (GoogleNews); Gonen & Goldberg 2019",
    "neighbours:bolukbasi2016-professions": ".747 (GoogleNews), .820 (GloVe); Gonen & Goldberg 2019",
    "gipe": ".115 (GloVe), .021 (word2vec); Dawkins 2021, table 6",
    "sembias": ".802 (GloVe), .830 (word2vec); Dawkins 2021, table 6",
    "similarity:rg-65": ".753 (GloVe 300-d); Dawkins 2021, table 3",
    "similarity:men": ".722 (GloVe 300-d); Dawkins 2021, table 3",
    "similarity:simlex-999": ".349 (GloVe 300-d); Dawkins 2021, table 3",
    "similarity:mturk-287": ".643 (GloVe 300-d); Dawkins 2021, table 3",
    "analogy:google-analogies": ".708 (GloVe 300-d); Dawkins 2021, table 3",
    "analogy:msr-analogies": ".515 (GloVe 300-d); Dawkins 2021, table 3",
}

# WEAT 3 to 5 are about race and WEAT 10 is about age: their rows come from audits of these concepts.
CONCEPTS = {"gender": (), "race": ("weat", "rnd", "rnsb", "mac", "ect"), "age": ("weat", "rnd", "rnsb", "mac", "ect")}
START, END = "<!-- table -->", "<!-- end -->"
Rows = dict[str, eh.Measurement]


def main() -> None:
    """Run the audits, write the values, and fill the table of the page."""
    results = {name: _measure(source) for name, source in VECTORS.items()}
    values = {name: {"manifest": manifest, "rows": _plain(rows)} for name, (manifest, rows) in results.items()}
    write_text(PAGE.with_suffix(".json"), json.dumps(values, indent=1) + "\n")
    head, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
    table = _table({name: rows for name, (_, rows) in results.items()})
    write_text(PAGE, f"{head}{START}\n{table}{END}{rest.partition(END)[2]}")


def _measure(source: str) -> tuple[dict[str, object], Rows]:
    """Audit one set of vectors for every concept; the manifest is that of the audit of gender."""
    subject = eh.open(source)
    rows: Rows = {}
    manifests = []
    for concept, measures in CONCEPTS.items():
        audit = eh.Audit.run(subject, methods=[], concept=concept, measures=measures)
        manifests.append(dict(audit.manifest))
        for result in audit.results:
            m = result.measurement
            label = m.label if m.measure in CONCEPTS["race"] else result.label
            rows.setdefault(label, m)
    return manifests[0], rows


def _plain(rows: Rows) -> dict[str, object]:
    return {
        label: {
            "value": m.value,
            "interval": m.interval,
            "p": m.p_value,
            "words": str(m.coverage),
            "reason": m.reason,
        }
        for label, m in rows.items()
    }


def _table(rows: dict[str, Rows]) -> str:
    labels = dict.fromkeys(label for measured in rows.values() for label in measured)
    lines = ["| measure | " + " | ".join(rows) + " | published |", "|---|" + "--:|" * len(rows) + "---|"]
    for label in labels:
        cells = [_cell(measured.get(label)) for measured in rows.values()]
        lines.append(f"| {label} | " + " | ".join(cells) + f" | {PUBLISHED.get(label, '')} |")
    return "\n".join(lines) + "\n"


def _cell(m: eh.Measurement | None) -> str:
    if m is None or m.value is None:
        return "undefined" if m else ""
    return f"{numbers.number(m.value)} {numbers.interval(m)} ({m.coverage})"


if __name__ == "__main__":
    main()
