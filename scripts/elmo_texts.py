"""Make what scripts/elmo_bilm.py and scripts/elmo_experiment.py read: sentences as word ids, and labelled pairs.

    EVENHAND_DATA=folder python scripts/elmo_texts.py OUT [--enwik8 FILE] [--share 1.0]

OUT gets words.txt.xz (all words, the most frequent first), one `NAME.ids.xz` for each text (word ids, see `pack`), the
SNLI pairs and manifest.json with counts and the hash of each file. Texts for training: WikiText-2, the articles of
enwik8, Penn Treebank, the CNN/Daily Mail subset, and the sentences of the NLI training pairs, without sources that are
evaluation sets elsewhere and without template text. Held out: the validation parts of WikiText-2 and Penn Treebank,
and the sentences of SNLI dev. All texts are tokenised as the NLI models do it; clitics that a text has split off are
joined again, and `<unk>` stays. A sentence is kept once over all texts. --share takes the first part of each text, for
dry runs. enwik8 is read from the cache of `evenhand fetch enwik8` unless its path is given.
"""

import argparse
import csv
import gzip
import hashlib
import itertools
import json
import lzma
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from evenhand.corpus.readers.archives import read_mediawiki
from evenhand.corpus.readers.stream import ReadLog
from evenhand.corpus.readers.text import TextOptions
from evenhand.data import fetch
from evenhand.models.tokenizing import WORD_OR_MARK

PAIRS = {"snli.jsonl.gz": "nli-train/snli.jsonl.gz", "dev.jsonl": "snli/dev.jsonl", "test.jsonl": "snli/test.jsonl"}
LEFT_OUT = {"mnli_dev_matched", "mnli_dev_mismatched", "mnli_nyu_val5k", "anli_ni", "semfrag_synthetic"}
SPECIAL = ("<S>", "</S>", "<unk>")  # the first word ids, as in evenhand's training of a biLM
UNKNOWN = re.compile(rf"<unk>|{WORD_OR_MARK.pattern}")
CLITIC = re.compile(r" (n['’]t|['’](?:s|re|ve|ll|d|m))\b", re.IGNORECASE)
INNER = re.compile(r" @([-,.])@ ")  # WikiText's marks of hyphens and numbers
ENDS = {".", "!", "?"}
LONGEST = 60  # tokens; longer sentences are cut
SHORTEST = 3
MARKUP = re.compile(r"^[*#:;=\s]+|=+\s*$")
XZ = {"preset": 9 | lzma.PRESET_EXTREME}

Sentence = list[str]


class Text(NamedTuple):
    """Sentences as word ids; sentence i has `lengths[i]` words."""

    ids: np.ndarray
    lengths: np.ndarray


def tokens(text: str) -> Sentence:
    """The tokens of a text; `<unk>` is one."""
    return UNKNOWN.findall(CLITIC.sub(r"\1", INNER.sub(r"\1", text)))


def wikitext(path: Path) -> Iterator[Sentence]:
    """Yield the sentences of a WikiText file, without headings."""
    for line in path.read_text(encoding="utf-8").splitlines():
        if (text := line.strip()) and not text.startswith("="):
            yield from sentences(tokens(text))


def treebank(path: Path) -> Iterator[Sentence]:
    """Yield the sentences of Penn Treebank, one per line."""
    for line in path.read_text(encoding="utf-8").splitlines():
        yield from sentences(tokens(line))


def enwik8(path: Path) -> Iterator[Sentence]:
    """Yield the sentences of the articles; lines that are mostly not letters are left out."""
    with path.open("rb") as stream:
        for article in read_mediawiki(stream, "enwik8", TextOptions(format="mediawiki"), ReadLog()):
            for line in article.splitlines():
                text = MARKUP.sub("", line)
                letters = sum(map(str.isalpha, text))
                if letters > 0.7 * len(text) and len(text) > 20:
                    yield from sentences(tokens(text))


def news(path: Path) -> Iterator[Sentence]:
    """Yield the sentences of articles and highlights."""
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            for part in (row["article"], *row["highlights"].splitlines()):
                yield from sentences(tokens(part))


def premises_and_hypotheses(path: Path) -> Iterator[Sentence]:
    """Yield the sentences of labelled pairs."""
    opened = gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8")
    with opened as file:
        for line in file:
            pair = json.loads(line)
            if pair.get("source") not in LEFT_OUT:
                for side in (("premise", "sentence1"), ("hypothesis", "sentence2")):
                    yield from sentences(tokens(next(pair[name] for name in side if name in pair)))


def sentences(words: Sentence) -> Iterator[Sentence]:
    """Yield the sentences of a paragraph: they end at . ! or ? before a capital, but not after an initial."""
    start = 0
    for place, word in enumerate(words):
        following = words[place + 1] if place + 1 < len(words) else ""
        initial = place > start and len(words[place - 1]) == 1 and words[place - 1].isupper()
        closed = word in ENDS and not initial and (following[:1].isupper() or not following[:1].isalnum())
        if not following or (closed and following not in {",", '"', ")", "'"}) or place + 1 - start == LONGEST:
            if place + 1 - start >= SHORTEST:
                yield words[start : place + 1]
            start = place + 1


class Numbering:
    """Numbers words in the order of their first use, and drops sentences that were seen before."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.seen: set[bytes] = set()

    def __call__(self, lines: Iterable[Sentence]) -> tuple[Text, int]:
        """Return the sentences that are new, and the number of the others."""
        ids, lengths, repeated, number = [], [], 0, self.numbers.setdefault
        for line in lines:
            key = hashlib.blake2b(" ".join(line).encode(), digest_size=8).digest()
            if key in self.seen:
                repeated += 1
                continue
            self.seen.add(key)
            lengths.append(len(line))
            ids.append(np.array([number(word, len(self.numbers)) for word in line], np.int32))
        return Text(np.concatenate(ids), np.array(lengths, np.int32)), repeated


def pack(text: Text) -> bytes:
    """Compress a text: the number of sentences, a byte with each length, and ids of one to three bytes.

    An id is written seven bits a byte, highest first; a byte below 128 ends it, so that frequent words are one byte.
    """
    ids = text.ids.astype(np.int64)
    columns = np.stack([ids >> 14 | 128, ids >> 7 & 127 | 128, ids & 127], 1).astype(np.uint8)
    kept = np.stack([ids >= 1 << 14, ids >= 1 << 7, np.ones(len(ids), bool)], 1)
    head = np.array([len(text.lengths)], "<u4").tobytes() + text.lengths.astype(np.uint8).tobytes()
    return lzma.compress(head + columns[kept].tobytes(), **XZ)


def unpack(data: bytes) -> Text:
    """The inverse of `pack`."""
    raw = lzma.decompress(data)
    count = int(np.frombuffer(raw, "<u4", 1)[0])
    lengths = np.frombuffer(raw, np.uint8, count, 4).astype(np.int64)
    coded = np.frombuffer(raw, np.uint8, offset=4 + count)
    last = np.flatnonzero(coded < 128)
    width = np.diff(last, prepend=-1)
    ids = coded[last].astype(np.int32)
    for more in (1, 2):
        longer = width > more
        ids[longer] |= (coded[last[longer] - more].astype(np.int32) & 127) << 7 * more
    return Text(ids, lengths)


def main() -> None:
    """Write everything into one folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--enwik8", type=Path)
    parser.add_argument("--share", type=float, default=1.0)
    given = parser.parse_args()
    data, out = Path(os.environ["EVENHAND_DATA"]), given.out
    out.mkdir(parents=True, exist_ok=True)
    dump = given.enwik8 or Path(fetch("enwik8"))
    news_file = data / "cnn-dailymail-1000/cnn_dailymail_validation_subset.csv"
    # Held-out texts come first: what they share with a training text is dropped there.
    texts = {
        "valid-wikitext": (wikitext(data / "wikitext-2/valid.txt"), 4_000),
        "valid-ptb": (treebank(data / "ptb/ptb.valid.txt"), 3_000),
        "valid-snli": (premises_and_hypotheses(data / "snli/dev.jsonl"), 12_000),
        "train-wikitext": (wikitext(data / "wikitext-2/train.txt"), 90_000),
        "train-ptb": (treebank(data / "ptb/ptb.train.txt"), 42_000),
        "train-news": (news(news_file), 40_000),
        "train-snli": (premises_and_hypotheses(data / "nli-train/snli.jsonl.gz"), 300_000),
        "train-nli": (premises_and_hypotheses(data / "nli-train/other.jsonl.gz"), 500_000),
        "train-enwik8": (enwik8(dump), 700_000),
    }
    numbering, numbered, counts = Numbering(), dict[str, Text](), dict[str, dict[str, int]]()
    for name, (lines, about) in texts.items():
        most = None if given.share == 1 else max(100, int(about * given.share))
        numbered[name], repeated = numbering(itertools.islice(lines, most))
        size = {"sentences": len(numbered[name].lengths), "tokens": len(numbered[name].ids), "repeated": repeated}
        counts[name] = size
        print(name, size, flush=True)
    words = list(numbering.numbers)
    used = Counter[int]()
    for name, text in numbered.items():
        if name.startswith("train"):
            used.update(dict(enumerate(np.bincount(text.ids, minlength=len(words)).tolist())))
    order = sorted((w for w in range(len(words)) if words[w] not in SPECIAL), key=lambda w: (-used[w], words[w]))
    rank = np.empty(len(words), np.int64)
    rank[order] = np.arange(len(SPECIAL), len(SPECIAL) + len(order))
    for special, name in enumerate(SPECIAL):
        if name in numbering.numbers:
            rank[numbering.numbers[name]] = special
    listed = [*SPECIAL, *(words[w] for w in order)]
    (out / "words.txt.xz").write_bytes(lzma.compress("\n".join(listed).encode(), **XZ))
    for name, text in numbered.items():
        packed = pack(Text(rank[text.ids], text.lengths))
        (out / f"{name}.ids.xz").write_bytes(packed)
        print(f"{name}: {len(packed) / 1e6:.2f} MB", flush=True)
    for name, source in PAIRS.items():
        shutil.copyfile(data / source, out / name)
    files = [path for path in sorted(out.iterdir()) if path.name != "manifest.json"]
    hashes = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    enwik = hashlib.sha256(dump.read_bytes()).hexdigest()
    record = {"counts": counts, "words": len(listed), "share": given.share, "sha256": hashes, "enwik8_sha256": enwik}
    (out / "manifest.json").write_text(json.dumps(record, indent=1) + "\n")
    print(f"{sum(path.stat().st_size for path in files) / 1e6:.1f} MB in all")


if __name__ == "__main__":
    main()
