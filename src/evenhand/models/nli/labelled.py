"""Labelled pairs of sentences: SNLI, MultiNLI, HANS, and plain JSONL, TSV or CSV files."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import FormatError, UsageError
from evenhand.files import bare_name, existing
from evenhand.models.nli.labelled_rows import READERS, Row
from evenhand.models.nli.probabilities import LABELS
from evenhand.models.nli.text_rows import opened_text

Labels: TypeAlias = NDArray[np.int8]

NOT_ENTAILED = "non-entailment"  # HANS and RTE do not tell neutral from contradiction
PLACES = {label: place for place, label in enumerate((*LABELS, NOT_ENTAILED))}
NAMES = {**PLACES, **{label[0]: PLACES[label] for label in LABELS}}
NAMES |= dict.fromkeys(("not_entailment", "not-entailment", "non_entailment"), PLACES[NOT_ENTAILED])
HANS = ("entailment", NOT_ENTAILED)  # as numbers 0 and 1 in the copies of HANS that have no header
UNDECIDED = ("-", "-1", "")  # no majority among the annotators; -1 where labels are numbers


@dataclass(frozen=True, eq=False)
class LabelledPairs:
    """Premises, hypotheses and labels (places in LABELS; 3 where only non-entailment is known), and what was skipped.

    >>> pairs = LabelledPairs.of(["A man ate."] * 2, ["A person ate.", "A cat slept."], ["entailment", "neutral"])
    >>> len(pairs), pairs.labels.tolist(), pairs.two_way
    (2, [0, 1], False)
    """

    premises: tuple[str, ...]
    hypotheses: tuple[str, ...]
    labels: Labels
    skipped: Mapping[str, int] = field(default_factory=dict)
    source: str = "pairs"
    sha256: str = ""

    @classmethod
    def of(
        cls, premises: Iterable[str], hypotheses: Iterable[str], labels: Iterable[str], *, source: str = "pairs"
    ) -> LabelledPairs:
        """Pairs from memory, with labels by name."""
        rows = zip(premises, hypotheses, labels, strict=True)
        named = [(n, {"premise": p, "hypothesis": h, "label": label}) for n, (p, h, label) in enumerate(rows)]
        return _gathered(named, source, {}, hashlib.sha256(repr(named).encode()).hexdigest())

    def __len__(self) -> int:
        return len(self.premises)

    @property
    def two_way(self) -> bool:
        """Whether all that is known of some pairs is that the hypothesis does not follow."""
        return bool((self.labels == PLACES[NOT_ENTAILED]).any())

    def take(self, rows: Sequence[int] | slice) -> LabelledPairs:
        """Some of the pairs; their digest tells them from the whole."""
        chosen = np.arange(len(self))[rows]
        digest = hashlib.sha256(f"{self.sha256} {chosen.tolist()}".encode()).hexdigest()
        premises, hypotheses = (tuple(side[i] for i in chosen) for side in (self.premises, self.hypotheses))
        return LabelledPairs(premises, hypotheses, self.labels[chosen], self.skipped, self.source, digest)

    def head(self, n: int) -> LabelledPairs:
        """The first n pairs."""
        return self.take(slice(0, n))

    def to_dict(self) -> dict[str, Any]:
        """What the data were, without the data."""
        counts = Counter(self.labels.tolist())
        return {
            "source": self.source,
            "sha256": self.sha256,
            "pairs": len(self),
            "by_label": {label: counts[place] for label, place in PLACES.items() if counts[place]},
            "skipped": dict(self.skipped),
        }


def read_pairs(
    path: str | os.PathLike[str], *, labels: Sequence[str] | None = None, one_class: bool = False
) -> LabelledPairs:
    """Read a file of labelled pairs, compressed or not, its form told by its name (.jsonl, .tsv, .txt, .csv).

    Sentences are found under premise and hypothesis or sentence1 and sentence2, labels under gold_label or label, by
    name in any case or by first letter. Numbers mean different labels in different files: they are refused unless
    `labels` gives their names in order, or the file's name begins with hans, in whose copies 1 is non-entailment. Pairs
    without a decided label or with an empty sentence are skipped and counted.

    Args:
        path: The file.
        labels: Names of the labels 0, 1, 2 or 0, 1, such as `("entailment", "neutral", "contradiction")`.
        one_class: Accept a file in which every pair has the same label.
    """
    file = existing(Path(path), what="file of labelled pairs")
    with file.open("rb") as raw:
        digest = hashlib.file_digest(raw, "sha256").hexdigest()
    order = numbered(HANS if file.name.lower().startswith("hans") else labels)
    found = _gathered(_rows(file), file.name, order, digest, where=str(path))
    if not one_class:
        refuse_one_class(found)
    return found


def numbered(labels: Sequence[str] | None) -> dict[str, int]:
    """Places of labels that a file writes as numbers, from their names in order."""
    if labels is None:
        return {}
    unknown = [label for label in labels if label not in NAMES]
    if isinstance(labels, str) or unknown or not len(set(labels)) == len(labels) > 1:
        raise UsageError(
            f"the order of labels must name two or three of {', '.join(PLACES)}, got {labels!r}",
            hint='such as ("entailment", "neutral", "contradiction") or ("entailment", "non-entailment")',
        )
    return {str(number): NAMES[label] for number, label in enumerate(labels)}


def refuse_one_class(pairs: LabelledPairs) -> None:
    """An error when all pairs have one label: from them nothing can be learnt."""
    if len(kinds := np.unique(pairs.labels)) < 2:
        only = [label for label, place in PLACES.items() if place in kinds]
        raise FormatError(
            f"{pairs.source}: every one of its {len(pairs):,} pairs is labelled {only[0]!r}",
            hint="a model needs pairs of every label: is this a part of a larger file?",
        )


def _rows(path: Path) -> Iterator[tuple[int, Row]]:
    suffix = Path(bare_name(path)).suffix
    if suffix not in READERS:
        raise UsageError(
            f"{path}: labelled pairs are read from {', '.join(READERS)}, not from {suffix or 'a name without suffix'}",
            hint="rename the file after its form",
        )
    with opened_text(path) as text:
        yield from READERS[suffix](text, path)


def _gathered(
    rows: Iterable[tuple[int, Row]], source: str, numbers: Mapping[str, int], sha256: str, *, where: str = ""
) -> LabelledPairs:
    where = where or source
    skipped: Counter[str] = Counter()
    premises, hypotheses, places = [], [], []
    for line, row in rows:
        premise, hypothesis, label = row["premise"].strip(), row["hypothesis"].strip(), row["label"].strip()
        if label in UNDECIDED:
            skipped["no decided label"] += 1
        elif not premise or not hypothesis:
            skipped["empty sentence"] += 1
        else:
            premises.append(premise)
            hypotheses.append(hypothesis)
            places.append(_place(label, numbers, f"{where}:{line}"))
    if not places:
        lost = "; ".join(f"{count:,} skipped: {reason}" for reason, count in skipped.items())
        raise FormatError(
            f"{where}: no labelled pair in it{f' ({lost})' if lost else ''}", hint="is it the right file?"
        )
    return LabelledPairs(tuple(premises), tuple(hypotheses), np.array(places, np.int8), dict(skipped), source, sha256)


def _place(label: str, numbers: Mapping[str, int], where: str) -> int:
    place = NAMES.get(label.lower(), numbers.get(label))
    if place is None:
        number = label.lstrip("-").isdigit()
        raise FormatError(
            f"{where}: unknown label {label!r}",
            hint="numbers mean other labels in other files: say which with labels=(...) or --labels"
            if number and not numbers
            else f"labels are {', '.join(PLACES)}" + (f", or {', '.join(numbers)}" if numbers else ""),
        )
    return place
