"""Judges of texts: classifiers by their address, word lists with weights, and judges that packages register."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evenhand import data
from evenhand.arrays import Matrix64, Vector64
from evenhand.errors import FormatError, InputMissingError, UsageError
from evenhand.files import existing, read_utf8
from evenhand.models.encoders.classifier import Classifier, label_index, unit_of
from evenhand.registry import Registry
from evenhand.subjects.opening import open_subject
from evenhand.words import query as find_query

LEXICON = "lexicon"  # in front of the colon of an address
JUDGES: Registry[Callable[[], Classifier]] = Registry("judge", ("evenhand.subjects",), group="evenhand.judges")
WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
CLASSIFIERS = "a classifier (hf:FOLDER), lexicon:FILE, or one of the registered judges"


class Lexicon:
    """Words with weights as a judge: the score of a text is the sum of the weights of its words, at most 1.

    Words with negative weights make a label of their own, `negative`, beside `positive`; a list without them has the
    one label `listed`. Case does not matter, and words are whole words.

    Args:
        name: for reports.
        weights: the weight of each word.
    """

    exclusive = False

    def __init__(self, name: str, weights: Mapping[str, float]) -> None:
        if not weights:
            raise UsageError(f"the word list {name} is empty", hint="write a word and its weight on each line")
        self.name = name
        self.weights = {word.lower(): float(weight) for word, weight in weights.items()}
        signed = any(weight < 0 for weight in self.weights.values())
        self.labels: tuple[str, ...] = ("positive", "negative") if signed else ("listed",)

    def predict(self, texts: Sequence[str], *, tokens: int | None = None) -> Matrix64:
        """Return the score of each label for each text; see `Classifier`."""
        found = [[self.weights.get(word, 0.0) for word in WORD.findall(text.lower())] for text in texts]
        above = [sum(weight for weight in weights if weight > 0) for weights in found]
        below = [-sum(weight for weight in weights if weight < 0) for weights in found]
        columns = [above, below] if len(self.labels) == 2 else [above]
        return np.minimum(np.array(columns, dtype=np.float64).reshape(len(columns), len(texts)).T, 1.0)

    @property
    def digest(self) -> str:
        """Hash of the words and their weights."""
        return hashlib.sha256(repr(sorted(self.weights.items())).encode()).hexdigest()

    @classmethod
    def read(cls, path: Path) -> Lexicon:
        """Read a file with a word on each line, and its weight behind a tab or comma; 1 where there is none.

        Further columns are ignored, so that the lexicon of VADER can be read. Lines that begin with # are comments.
        """
        weights: dict[str, float] = {}
        for number, line in enumerate(read_utf8(existing(path, what="word list")).splitlines(), start=1):
            word, *rest = (part.strip() for part in re.split(r"[\t,]", line))
            if not word or word.startswith("#"):
                continue
            try:
                weights[word] = float(rest[0]) if rest and rest[0] else 1.0
            except ValueError:
                raise FormatError(
                    f"{path}, line {number}: {rest[0]!r} is not a weight", hint="write a word, a tab and a number"
                ) from None
        if not np.isfinite(list(weights.values())).all():
            raise FormatError(f"{path}: a weight is not a finite number", hint="write a word, a tab and a number")
        return cls(path.name, weights)


@JUDGES.register("unpleasant-words")
def unpleasant_words() -> Lexicon:
    """Return the unpleasant words of WEAT 1, which come with evenhand; a stand-in where no classifier is at hand."""
    _, unpleasant = find_query("weat-1").attributes
    return Lexicon("unpleasant-words", dict.fromkeys(unpleasant, 1.0))


@dataclass(frozen=True, eq=False)
class Judge:
    """A classifier and the label whose probability is its verdict."""

    name: str
    classifier: Classifier
    label: str

    @property
    def title(self) -> str:
        """What the score is, in words."""
        return f"P({self.label}) of {self.name}"

    def scores(self, texts: Sequence[str]) -> Vector64:
        """Return the verdict on each text; that on an empty text is 0."""
        full = [text for text in dict.fromkeys(texts) if text.strip()]
        column = label_index(self.classifier, self.label)
        found = dict(zip(full, self.classifier.predict(full)[:, column].tolist(), strict=True)) if full else {}
        return np.array([found.get(text, 0.0) for text in texts], dtype=np.float64)


def open_judge(source: str | Classifier, label: str = "") -> Judge:
    """Open a judge.

    Args:
        source: a classifier; or the id of a registered judge, `lexicon:FILE`, a catalog id, or the address of a subject
            with the view `labels`.
        label: the label whose probability is the verdict; the last one by default.

    Raises:
        UsageError: If the subject has no labels, not this one, or scores instead of probabilities.
    """
    classifier = _classifier(source.strip()) if isinstance(source, str) else source
    if unit_of(classifier) == "score":
        raise UsageError(
            f"{classifier.name} gives scores without a range, and a judge gives probabilities",
            hint=f"use {CLASSIFIERS}",
        )
    chosen = classifier.labels[label_index(classifier, label or None)]
    return Judge(classifier.name, classifier, chosen)


def _classifier(source: str) -> Classifier:
    if source in JUDGES:
        return JUDGES.get(source)()
    if source.startswith(f"{LEXICON}:"):
        return Lexicon.read(_located(source.removeprefix(f"{LEXICON}:")))
    subject = open_subject(source)
    if "labels" not in subject.offers:
        raise UsageError(
            f"{subject.name} is {subject.title}, which labels no texts, so it cannot be a judge",
            hint=f"use {CLASSIFIERS}: {', '.join(JUDGES.ids())}",
        )
    classifier: Classifier = subject.view("labels")
    return classifier


def _located(name: str) -> Path:
    """Return the file of a word list, or of a catalog entry that is one."""
    if name not in data.catalog():
        return Path(name).expanduser()
    found = data.locate(name)
    if found is None:
        raise InputMissingError(f"{name} is in the catalog but not on this disk", hint=f"run `evenhand fetch {name}`")
    return found


def judge_sources(judges: str) -> list[str]:
    """Return the files, folders and ids that decide the verdicts of judges that are written with commas."""
    parts = [part.strip() for part in judges.split(",") if part.strip()]
    bare = [part.partition(":")[2] if ":" in part else part for part in parts]
    return [str(path.absolute()) if (path := Path(name).expanduser()).exists() else name for name in bare]
