"""Make what scripts/bert_experiment.py reads: an encoder in half precision, labelled pairs and text, compressed.

    EVENHAND_DATA=folder python scripts/bert_carry.py nli OUT              # encoder, SNLI pairs, dev, test, HANS
    EVENHAND_DATA=folder python scripts/bert_carry.py all OUT              # the same with the other pairs
    EVENHAND_DATA=folder python scripts/bert_carry.py mlm OUT              # encoder, WikiText-2 and part of enwik8
    EVENHAND_DATA=folder python scripts/bert_carry.py nli OUT BODY         # another encoder: its folder

The machine with the GPU receives few megabytes, so everything is as small as it can be without loss beyond float16. The
bytes of float16 numbers are stored in two planes: that of signs and exponents can be compressed by a third. An encoder
given by its folder is rounded to the precision of bfloat16, and word pieces that occur in no text are left out. The
functions that split a trained model into files of limited size and join them again are here as well.
"""

import gzip
import hashlib
import json
import lzma
import os
import random
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

BODY = "all-minilm-l6-v2"
TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
PAIRS = {"train": "nli-train/snli.jsonl.gz", "dev": "snli/dev.jsonl", "test": "snli/test.jsonl"}
OTHER = "nli-train/other.jsonl.gz"
# Parts of MultiNLI's and ANLI's own evaluation sets, which stay out of training.
LEFT_OUT = ("mnli_dev_matched", "mnli_dev_mismatched", "mnli_nyu_val5k", "anli_ni")
HANS = "hans/hans.txt"
ENWIK8_BYTES = 18_000_000  # of plain text: what fits beside the encoder
SHORTEST = 200  # characters of an article
PART = 15 * 2**20  # bytes of a file that comes back
PACKED = "body.safetensors"
DROPPED_BITS = 2  # of float16's ten, where the other pairs have to fit as well
MANY = 50_000_000  # weights, beyond which better compression takes minutes
LARGE_DROPPED_BITS = 3  # what is left is the precision of bfloat16


def pack(folder: Path, out: Path, *, drop: int = 0, texts: Iterable[str] = ()) -> None:
    """Write the encoder without its pooler, in float16 rounded by `drop` bits, as two planes of bytes.

    With texts, the vectors of word pieces that occur in none of them are 0.
    """
    weights = load_file(folder / "model.safetensors")
    if texts:
        table = weights["embeddings.word_embeddings.weight"]
        table[sorted(set(range(len(table))) - used_pieces(folder, texts))] = 0
    kept = {name: w for name, w in weights.items() if w.dtype.kind == "f" and not name.startswith("pooler.")}
    bits = np.concatenate([w.astype("<f2").ravel() for w in kept.values()]).view("<u2")
    if drop:
        bits = ((bits + (1 << (drop - 1))) >> drop << drop).astype("<u2")  # sign and magnitude: rounds away from 0
    preset = 0 if len(bits) > MANY else 6
    planes = [lzma.compress(part.tobytes(), preset=preset) for part in bits.view(np.uint8).reshape(-1, 2).T]
    low, high = (np.frombuffer(part, np.uint8) for part in planes)
    shapes = json.dumps({name: list(w.shape) for name, w in kept.items()})
    digest = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    about = {"shapes": shapes, "name": folder.name, "sha256_of_original": digest, "dropped_bits": str(drop)}
    save_file({"low": low, "high": high}, out / PACKED, metadata=about)
    for name in ("config.json", *TOKENIZER):
        shutil.copy(folder / name, out / name)


def used_pieces(folder: Path, texts: Iterable[str]) -> set[int]:
    """Return the word pieces that occur in some text or in a probe, with those of pronouns and all special tokens."""
    from transformers import AutoTokenizer

    from evenhand.models.nli.transformer import sentences
    from evenhand.words import probes

    tokenizer = AutoTokenizer.from_pretrained(folder)
    every = [*texts, "he she him her"]
    for name in ("gender-occupation", "control-entailment", "control-contradiction"):
        probe = probes.probe(name)
        phrases = np.arange(probe.shape[0])
        every += [*sentences(probe, "premise", phrases), *sentences(probe, "hypothesis", phrases)]
    return {piece for ids in tokenizer(every)["input_ids"] for piece in ids} | set(tokenizer.all_special_ids)


def unpack(carried: Path, folder: Path) -> tuple[Path, dict[str, str]]:
    """Write the encoder as a folder of transformers under its name; return it, and where it comes from."""
    with safe_open(carried / PACKED, framework="np") as file:
        about, low, high = dict(file.metadata()), file.get_tensor("low"), file.get_tensor("high")
    out = folder / about["name"]
    out.mkdir(parents=True, exist_ok=True)
    planes = [np.frombuffer(lzma.decompress(part.tobytes()), np.uint8) for part in (low, high)]
    flat = np.stack(planes, axis=1).ravel().view("<f2")
    weights, start = {}, 0
    for name, shape in json.loads(about["shapes"]).items():
        size = int(np.prod(shape))
        weights[name] = flat[start : start + size].reshape(shape).copy()
        start += size
    save_file(weights, out / "model.safetensors", metadata={"format": "pt"})
    for name in ("config.json", *TOKENIZER):
        shutil.copy(carried / name, out / name)
    return out, {key: about[key] for key in ("name", "sha256_of_original", "dropped_bits")}


def split(folder: Path, out: Path) -> None:
    """Write the weights of a model folder in parts, and its other records in one file of JSON."""
    out.mkdir(parents=True, exist_ok=True)
    weights = (folder / "model.safetensors").read_bytes()
    for number, start in enumerate(range(0, len(weights), PART)):
        (out / f"{folder.name}.{number:02d}").write_bytes(weights[start : start + PART])
    texts = {name: (folder / name).read_text() for name in ("config.json", "training.json", "README.md")
             if (folder / name).exists()}  # fmt: skip
    write_json({"sha256": hashlib.sha256(weights).hexdigest(), "files": texts}, out / f"{folder.name}.json")


def join(parts: Path, name: str, body: Path, folder: Path) -> None:
    """Put a model folder together from its parts and the tokenizer of its encoder."""
    folder.mkdir(parents=True, exist_ok=True)
    record = json.loads((parts / f"{name}.json").read_text())
    weights = b"".join(path.read_bytes() for path in sorted(parts.glob(f"{name}.[0-9][0-9]")))
    if hashlib.sha256(weights).hexdigest() != record["sha256"]:
        raise SystemExit(f"{parts}: the parts of {name} are not complete")
    (folder / "model.safetensors").write_bytes(weights)
    for file, text in record["files"].items():
        (folder / file).write_text(text)
    for file in TOKENIZER:
        shutil.copy(body / file, folder / file)


def write_json(content: Mapping[str, Any], path: Path) -> None:
    """Write a file that is whole at every moment."""
    partial = path.with_suffix(".unfinished")
    partial.write_text(json.dumps(content, indent=1) + "\n")
    partial.rename(path)


def rows(path: Path) -> Iterator[dict[str, str]]:
    """The labelled pairs of a file of JSON lines."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
        yield from (json.loads(line) for line in lines if line.strip())


def write_pairs(pairs: Iterable[tuple[str, str, str]], path: Path) -> int:
    """Write a compressed table; return the number of pairs."""
    lines = [
        "\t".join(" ".join(part.split()) for part in pair) for pair in (("premise", "hypothesis", "label"), *pairs)
    ]
    path.write_bytes(lzma.compress(("\n".join(lines) + "\n").encode(), preset=9))
    return len(lines) - 1


def sides(row: dict[str, str]) -> tuple[str, str, str]:
    """Premise, hypothesis and label under either of their names."""
    return (
        row.get("premise") or row["sentence1"],
        row.get("hypothesis") or row["sentence2"],
        row.get("gold_label") or row["label"],
    )


def hans(path: Path) -> Iterator[tuple[str, str, str]]:
    """The pairs of HANS."""
    from evenhand.models.nli.labelled_pairs import read_pairs

    pairs = read_pairs(path)
    labels = ("entailment", "neutral", "contradiction", "non-entailment")
    for premise, hypothesis, label in zip(pairs.premises, pairs.hypotheses, pairs.labels.tolist(), strict=True):
        yield premise, hypothesis, labels[label]


def wikitext(path: Path) -> list[str]:
    """The paragraphs of a part of WikiText-2, without the marks of its tokeniser."""
    text = path.read_text(encoding="utf-8").replace("<unk>", "[UNK]")
    text = re.sub(r" @([-,.])@ ", r"\1", text)
    text = re.sub(r" ([,.;:!?)'])", r"\1", text)
    lines = (line.strip() for line in text.split("\n"))
    return [line for line in lines if line and not line.startswith("=")]


def enwik8(size: int) -> list[str]:
    """Articles of enwik8 in random order, without markup, up to a number of bytes."""
    from evenhand.corpus.readers.archives import read_mediawiki
    from evenhand.corpus.readers.stream import ReadLog
    from evenhand.corpus.readers.text import TextOptions
    from evenhand.data import fetch

    with fetch("enwik8").open("rb") as stream:
        articles = [" ".join(text.split()) for text in read_mediawiki(stream, "enwik8", TextOptions(), ReadLog())]
    articles = [article for article in articles if len(article) >= SHORTEST]
    random.Random(0).shuffle(articles)
    kept, bytes_ = [], 0
    for article in articles:
        bytes_ += len(article.encode())
        if bytes_ > size:
            break
        kept.append(article)
    return kept


def main(kind: str, out: Path, body: Path | None = None) -> None:
    """Write one folder."""
    from evenhand.data import fetch

    out.mkdir(parents=True, exist_ok=True)
    data, sources = Path(os.environ["EVENHAND_DATA"]), {}
    if body:
        sources_read = [*PAIRS.values(), *([OTHER] if kind == "all" else [])]
        read = [sides(row)[:2] for source in sources_read for row in rows(data / source)]
        read += [pair[:2] for pair in hans(data / HANS)]
        pack(body, out, drop=LARGE_DROPPED_BITS, texts={text for pair in read for text in pair})
    else:
        pack(Path(fetch(BODY)), out, drop=DROPPED_BITS if kind == "all" else 0)
    if kind == "mlm":
        texts = {name: wikitext(data / "wikitext-2" / f"{name}.txt") for name in ("train", "valid")}
        articles = enwik8(ENWIK8_BYTES)
        for name, lines in {"train": [*texts["train"], *articles], "valid": texts["valid"]}.items():
            (out / f"{name}.txt.xz").write_bytes(lzma.compress(("\n".join(lines) + "\n").encode(), preset=9))
        sources = {"wikitext-2": len(texts["train"]), "enwik8 articles": len(articles)}
    else:
        for name, source in PAIRS.items():
            pairs = [sides(row) for row in rows(data / source)]
            sources[source] = write_pairs(pairs, out / f"{name}.tsv.xz")
        if kind == "all":
            others = (sides(row) for row in rows(data / OTHER) if row["source"] not in LEFT_OUT)
            sources[OTHER] = write_pairs(others, out / "other.tsv.xz")
        sources[HANS] = write_pairs(hans(data / HANS), out / "hans.tsv.xz")
    record = {"kind": kind, "counts": sources, "left_out": LEFT_OUT if kind == "all" else ()}
    write_json(record, out / "sources.json")
    total = sum(path.stat().st_size for path in out.iterdir())
    print(f"{out}: {total / 2**20:.1f} MiB; {sources}")


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4) or sys.argv[1] not in ("nli", "all", "mlm"):
        sys.exit(__doc__)
    main(sys.argv[1], *map(Path, sys.argv[2:]))
