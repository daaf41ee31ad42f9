"""Write docs/reproductions/intrinsic.md: every intrinsic measure on real vectors, beside published numbers.

    EVENHAND_DATA=... python scripts/intrinsic_page.py

Takes the catalog's GoogleNews subset and GloVe 6B 50-d and 100-d (fetched when they are not here) and the similarity
and analogy sets of the EVENHAND_DATA folder. Values and manifest are kept beside the page as JSON; the text above and
below the table is in this file.
"""

import json
from pathlib import Path

import evenhand as eh
from evenhand.files import write_text
from evenhand.report import numbers

PAGE = Path(__file__).parents[1] / "docs/reproductions/intrinsic.md"
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
    "direct-bias, old direction": "0.08 (GoogleNews, professions); Bolukbasi 2016",
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

HEAD = """# Intrinsic measures on real vectors

Every measure of the registry with its default queries and seed 0, on three real sets of vectors. A cell holds the
value, its 95 % interval and the words found of those asked. Made by `scripts/intrinsic_page.py`; all values with their
manifests are in [intrinsic.json](intrinsic.json).
"""
NOTES = """## Why ours and the published numbers differ

- **Other vectors.** Papers use GloVe 840B or Wikipedia GloVe with 300 dimensions, and the whole of GoogleNews. Here
  are GloVe 6B with 50 and 100 dimensions and the 26,423 most frequent lower-case words of GoogleNews. Fewer dimensions
  raise every cosine: direct bias of random words is about sqrt(2 / (pi d)), .046 in 300 and .080 in 100 dimensions.
- **GoogleNews has no first names** in this subset, so WEAT 1, 3, 6 and 10 and MIDB, which rest on names (or, in WEAT
  1, on rare flowers and insects), are undefined: fewer than half of a set's words are left.
- **Where the vectors are the same, the numbers are too**: direct bias of professions on GoogleNews .081 (published
  .08), the neighbour correlation .741 over the whole vocabulary (published .741; the table asks a sample of 2,000
  words), indirect bias softball/receptionist .672 (published .67).
- **Lists.** Professions, names and the gender-specific words come from the released lists; names of MIDB are our
  reconstruction from US birth statistics. SemBias counts only the rows whose words are all there.
- **GIPE** depends on the pool of neighbours, which the papers do not name; ours is the whole restricted vocabulary.
- **Analogies** search the first 30,000 words; questions with a lost word are skipped and counted.
"""


def main() -> None:
    """Run the audits, write the values and the page."""
    audits = {name: eh.Audit.run(eh.Vectors.load(source), methods=[]) for name, source in VECTORS.items()}
    kept = {name: _kept(audit) for name, audit in audits.items()}
    write_text(PAGE.with_suffix(".json"), json.dumps(kept, indent=1) + "\n")
    write_text(PAGE, f"{HEAD}\n{_table(audits)}\n{NOTES}")


def _kept(audit: eh.Audit) -> dict[str, object]:
    rows = {
        result.case.label: {
            "value": result.measurement.value,
            "interval": result.measurement.interval,
            "p": result.measurement.p_value,
            "words": str(result.measurement.coverage),
            "reason": result.measurement.reason,
        }
        for result in audit.results
    }
    return {"manifest": dict(audit.manifest), "rows": rows}


def _table(audits: dict[str, eh.Audit]) -> str:
    labels = dict.fromkeys(case.label for audit in audits.values() for case in audit.cases)
    lines = ["| measure | " + " | ".join(audits) + " | published |", "|---|" + "--:|" * len(audits) + "---|"]
    for label in labels:
        cells = [_cell(audit, label) for audit in audits.values()]
        lines.append(f"| {label} | " + " | ".join(cells) + f" | {PUBLISHED.get(label, '')} |")
    return "\n".join(lines) + "\n"


def _cell(audit: eh.Audit, label: str) -> str:
    if label not in {case.label for case in audit.cases}:
        return ""
    found = audit.get(label)
    if found.status != "ok":
        return "undefined"
    return f"{numbers.number(found.value)} {numbers.interval(found)} ({found.coverage})"


if __name__ == "__main__":
    main()
