"""Commands that read text and write scores, counts, vectors or other text."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable
from pathlib import Path

from fault_scenario import add, command, done, write_corpus
from run_scenarios import digest, read_audit
from vector_scenarios import read_vectors

BIAS = ("corpus", "bias", "texts", "--bootstrap", "0", "--permutations", "0", "-o", "run", "--json")
COMPARE = ("corpus", "compare", "texts/0.txt", "texts/1.txt", "--html", "page.html", "--json")
COOCCUR = ("corpus", "cooccur", "texts", "--out", "counts.safetensors")
SGNS = ("corpus", "sgns", "texts", "--out", "sgns", "--dim", "4", "--epochs", "1", "--min-count", "1")
CDA = ("debias", "corpus:texts", "--method", "cda", "--documents", "line", "-o", "swapped")


def prepared(*arguments: str) -> Callable[[Path], None]:
    """Return a function that runs a command on one text and leaves another for the trials."""

    def prepare(folder: Path) -> None:
        write_corpus(folder, 1)
        done(folder, *arguments)
        write_corpus(folder, 2)

    return prepare


def _read_counts(folder: Path) -> object:
    from evenhand.corpus import Cooccurrence

    found = Cooccurrence.load(folder / "counts.safetensors")
    return [list(found.words), float(found.matrix.sum()), found.occurrences.tolist()]


add("corpus-bias", prepared(*BIAS), command(*BIAS), read_audit, same_bytes=False, shares=True)
add("corpus-compare", prepared(*COMPARE), command(*COMPARE), digest("page.html"), shares=True)
add("cooccurrence", prepared(*COOCCUR), command(*COOCCUR), _read_counts, shares=True)
add(
    "sgns", prepared(*SGNS), command(*SGNS), functools.partial(read_vectors, "sgns/words.safetensors"), needs=("gensim",),
    modules=("gensim",),
)  # fmt: skip


def _read_augmented(folder: Path) -> object:
    from evenhand.corpus.readers import Corpus, ReadLog
    from evenhand.errors import InputMissingError

    record = folder / "swapped" / ".augmentation.json"
    if not record.exists() or len(json.loads(record.read_text())["files"]) < 3:  # what its reader takes for whole
        raise InputMissingError("the corpus is not complete")
    corpus = Corpus(folder / "swapped", documents="line")
    texts = (text for shard in corpus.shards() for text in corpus.fragments(shard, ReadLog(False)))
    return hashlib.sha256("".join(texts).encode()).hexdigest()


def _pair_names() -> object:
    from evenhand.mitigations.text.cda import name_pairs

    return name_pairs()


add("cda-folder", lambda folder: write_corpus(folder, 1), command(*CDA), _read_augmented, kept=False, warm=_pair_names)
add(
    "cda-documents", lambda folder: write_corpus(folder, 1),
    command("debias", "corpus:texts", "--method", "cda", "-o", "swapped"), _read_augmented, kept=False,
    warm=_pair_names,
)  # fmt: skip


def _one_text(folder: Path) -> None:
    write_corpus(folder, 1)
    (folder / "swapped.txt").write_text("an earlier text\n")


add(
    "cda-file", _one_text,
    command("debias", "corpus:texts/0.txt", "--method", "cda", "--documents", "line", "-o", "swapped.txt", "--overwrite"),
    digest("swapped.txt"), shares=True, warm=_pair_names,
)  # fmt: skip
