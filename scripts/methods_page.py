"""Compute the tables of reproductions/methods.md: Dawkins' table 6 on two real sets of vectors, every method.

    python scripts/methods_page.py

Takes the catalog's GoogleNews subset and the first 50,000 words of GloVe 6B 100-d (fetched when they are not here).
Each row takes about half a minute, the methods that train take longer. Writes methods.json with its manifest; finished
rows are kept, so an interrupted run goes on. The tables in the page are printed from that file.
"""

import json
import time
from pathlib import Path

import evenhand as eh
from evenhand import mitigations
from evenhand.audit.manifest import manifest
from evenhand.files import write_text
from evenhand.measures import numbers
from evenhand.reproduce import dawkins2021
from evenhand.subjects import open_subject
from evenhand.words import concept

KEPT = Path(__file__).parents[1] / "reproductions/methods.json"
BASES = {"w2v": ("googlenews-small", None), "GloVe": ("glove-6b-100d-wink", 50_000)}
METHODS = (
    *("hard", "double-hard", "gp", "bam", "oscar", "ran", "inlp"),  # the paper's
    *("linear", "span", "misp", "leace", "rlace", "hsr", "soft"),
)
# The paper's names of our methods, and its settings of one: it runs all iterations of INLP.
NAMES = {"hard": "HD", "double-hard": "DHD", "gp": "GP", "bam": "BAM", "oscar": "OSCaR", "ran": "RAN", "inlp": "INLP"}
PARAMS = {"inlp": {"variant": "released"}}


def main() -> None:
    """Fill what is missing, then print the page's tables."""
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    for base, (source, limit) in BASES.items():
        vectors = eh.Vectors.load(source)
        vectors = vectors.head(limit) if limit else vectors
        record = kept.setdefault(
            base, {"manifest": manifest([open_subject(vectors)], concept("gender"), {"methods": METHODS}), "rows": {}}
        )
        for method in ("", *METHODS):
            if method not in record["rows"]:
                record["rows"][method] = _row(vectors, method)
                write_text(KEPT, json.dumps(kept, indent=1) + "\n")
    for base, record in kept.items():
        print(_table(base, record["rows"]))


def _row(vectors: eh.Vectors, method: str) -> dict[str, object]:
    start = time.perf_counter()
    try:
        changed = _method(method).fit(vectors, "gender")(vectors) if method else vectors
    except eh.EvenhandError as error:
        return {"failed": error.message}
    fitted = time.perf_counter() - start
    found = dawkins2021.intrinsic({"it": changed}, references={"it": vectors})
    kept = eh.measures.retention(changed, "vocabulary", reference=vectors)
    cells = dict(zip(found.columns, found.rows[0], strict=True))
    return {**cells, "kept": kept.value, "seconds": round(fitted, 1)}


def _method(method: str) -> mitigations.Mitigation:
    return mitigations.get(method).with_params(PARAMS.get(method, {}))


def _table(base: str, rows: dict[str, dict[str, object]]) -> str:
    heads = list(dawkins2021.COLUMNS)
    lines = ["| vectors | " + " | ".join(heads) + " | neighbours kept |", "|---|" + "--:|" * (len(heads) + 1)]
    for method, row in rows.items():
        paper = f"{base}.{NAMES.get(method, method)}" if method else base
        published = dict(zip(dawkins2021.HEADINGS, dawkins2021.PUBLISHED.get(paper, ()), strict=False))
        cells = [_cell(row.get(head), published, head) for head in heads]
        why = row.get("failed")
        shown = " | ".join(cells) + f" | {numbers.number(row['kept'])}" if not why else f"not computed: {why}"
        lines.append(f"| {base}{'.' + method if method else ''} | {shown} |")
    return "\n".join(lines)


def _cell(value: float | None, published: dict[str, float | None], head: str) -> str:
    ours = "–" if value is None else f"{value:.3f}"
    return f"{ours} ({numbers.number(published[head])})" if head in published else ours


if __name__ == "__main__":
    main()
