"""Make what scripts/elmo_experiment.py reads: sentences for the biLM, labelled pairs, and a manifest.

    EVENHAND_DATA=folder python scripts/elmo_texts.py OUT [--enwik8 FILE]

OUT gets train.txt.xz (WikiText-2, then the articles of enwik8; one sentence of tokens per line), valid.txt
(WikiText-2), the SNLI pairs and manifest.json with the hash of each file. Tokens are those of the NLI models; `<unk>`
of WikiText-2 stays. enwik8 is read from the cache of `evenhand fetch enwik8` unless its path is given.
"""

import argparse
import hashlib
import json
import lzma
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from evenhand.corpus.readers.mediawiki import read_mediawiki
from evenhand.corpus.readers.read_log import ReadLog
from evenhand.corpus.readers.text import TextOptions
from evenhand.data import fetch
from evenhand.models.nli.over_vectors import TOKEN

PAIRS = {"snli.jsonl.gz": "nli-train/snli.jsonl.gz", "dev.jsonl": "snli/dev.jsonl", "test.jsonl": "snli/test.jsonl"}
UNKNOWN = re.compile(rf"<unk>|{TOKEN.pattern}")
ENDS = {".", "!", "?"}
LONGEST = 60  # tokens; longer sentences are cut
SHORTEST = 4
MARKUP = re.compile(r"^[*#:;=\s]+|=+\s*$")


def wikitext(path: Path) -> Iterator[list[str]]:
    """Yield the sentences of a WikiText file, without headings; `@-@` and the like are joined again."""
    for line in path.read_text(encoding="utf-8").splitlines():
        text = line.strip()
        if text and not text.startswith("="):
            text = re.sub(r" @([-,.])@ ", r"\1", text)
            yield from sentences(UNKNOWN.findall(re.sub(r" ('\w+)", r"\1", text)))


def enwik8(path: Path) -> Iterator[list[str]]:
    """Yield the sentences of the articles; lines that are mostly not letters are left out."""
    with path.open("rb") as stream:
        for article in read_mediawiki(stream, "enwik8", TextOptions(format="mediawiki"), ReadLog()):
            for line in article.splitlines():
                text = MARKUP.sub("", line)
                letters = sum(map(str.isalpha, text))
                if letters > 0.7 * len(text) and len(text) > 20:
                    yield from sentences(TOKEN.findall(text))


def sentences(tokens: list[str]) -> Iterator[list[str]]:
    """Yield the sentences of a paragraph: they end at . ! or ? before a capital, but not after an initial."""
    start = 0
    for place, token in enumerate(tokens):
        following = tokens[place + 1] if place + 1 < len(tokens) else ""
        initial = place > start and len(tokens[place - 1]) == 1 and tokens[place - 1].isupper()
        closed = token in ENDS and not initial and (following[:1].isupper() or not following[:1].isalnum())
        if not following or (closed and following not in {",", '"', ")", "'"}) or place + 1 - start == LONGEST:
            if place + 1 - start >= SHORTEST:
                yield tokens[start : place + 1]
            start = place + 1


def write(lines: Iterable[list[str]], out: Path) -> dict[str, int]:
    """Write sentences, each only once; return counts."""
    seen: set[str] = set()
    counts = {"sentences": 0, "tokens": 0, "repeated": 0}
    opened = lzma.open(out, "wt", encoding="utf-8", preset=6) if out.suffix == ".xz" else out.open("w")
    with opened as file:
        for line in lines:
            text = " ".join(line)
            if text in seen:
                counts["repeated"] += 1
                continue
            seen.add(text)
            file.write(text + "\n")
            counts["sentences"] += 1
            counts["tokens"] += len(line)
    return counts


def main() -> None:
    """Write everything into one folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--enwik8", type=Path)
    given = parser.parse_args()
    data, out = Path(os.environ["EVENHAND_DATA"]), given.out
    out.mkdir(parents=True, exist_ok=True)
    wiki = data / "wikitext-2"
    dump = given.enwik8 or Path(fetch("enwik8"))

    def train() -> Iterator[list[str]]:
        yield from wikitext(wiki / "train.txt")
        yield from enwik8(dump)

    counts = {"train.txt.xz": write(train(), out / "train.txt.xz")}
    counts["valid.txt"] = write(wikitext(wiki / "valid.txt"), out / "valid.txt")
    for name, source in PAIRS.items():
        shutil.copyfile(data / source, out / name)
    files = [path for path in sorted(out.iterdir()) if path.name != "manifest.json"]
    hashes = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    enwik = hashlib.sha256(dump.read_bytes()).hexdigest()
    record = {"counts": counts, "sha256": hashes, "enwik8_sha256": enwik, "wikitext-2": "train and valid, all lines"}
    (out / "manifest.json").write_text(json.dumps(record, indent=1) + "\n")
    for path in files:
        print(f"{path.name}: {path.stat().st_size / 1e6:.1f} MB {counts.get(path.name, '')}")


if __name__ == "__main__":
    main()
