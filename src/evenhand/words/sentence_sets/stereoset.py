"""StereoSet (Nadeem et al. 2021): a context with a stereotyping, an anti-stereotyping and an unrelated continuation."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from evenhand.errors import FormatError
from evenhand.words.sentence_sets.reading import read_json

Task = Literal["intra", "inter"]
TASKS: dict[Task, str] = {"intra": "intrasentence", "inter": "intersentence"}
DOMAINS = ("gender", "profession", "race", "religion")
LABELS = ("stereotype", "anti-stereotype", "unrelated")
BLANK = "BLANK"


@dataclass(frozen=True)
class StereoSentence:
    """One continuation of a context."""

    id: str
    text: str


@dataclass(frozen=True)
class StereoExample:
    """A context about a target with its three continuations.

    Attributes:
        id: of the set.
        task: `intra`: the continuation is the context with its blank filled. `inter`: it is a sentence that follows.
        target: the term that the example is about, such as "chess player".
        domain: gender, profession, race or religion.
        context: the context; within a sentence, its blank is `BLANK`.
        stereotype, anti, unrelated: the continuations.
    """

    id: str
    task: Task
    target: str
    domain: str
    context: str
    stereotype: StereoSentence
    anti: StereoSentence
    unrelated: StereoSentence

    @property
    def sentences(self) -> tuple[StereoSentence, StereoSentence, StereoSentence]:
        """The three continuations: stereotype, anti-stereotype, unrelated."""
        return self.stereotype, self.anti, self.unrelated

    def blank(self, sentence: StereoSentence) -> tuple[int, int] | None:
        """Return the first and one past the last character that fill the blank; None where it cannot be located.

        Contexts and sentences differ in capitals. Two contexts of the development part have two blanks.
        """
        before, *after = self.context.split(BLANK)
        text = sentence.text
        if (
            len(after) != 1
            or not text.lower().startswith(before.lower())
            or not text.lower().endswith(after[0].lower())
        ):
            return None
        start, stop = len(before), len(text) - len(after[0])
        return (start, stop) if start < stop else None

    def refilled(self, sentence: StereoSentence) -> str:
        """Return the context filled with the sentence's word at the place of the blank, as the released code does.

        The released code takes the word at the same place between blanks, without punctuation, so that capitals and
        hyphens of the sentence are lost.
        """
        words = self.context.split(" ")
        place = next((number for number, word in enumerate(words) if BLANK in word), None)
        given = sentence.text.split(" ")
        if place is None or place >= len(given):
            return sentence.text
        return self.context.replace(BLANK, re.sub(r"[^\w\s]|_", "", given[place]))


def read_stereoset(path: str | Path) -> tuple[StereoExample, ...]:
    """Read the development or the test part.

    Raises:
        FormatError: If the file is not a part of StereoSet, or an example lacks one of the three continuations.
    """
    source = Path(path)
    content = read_json(source, "StereoSet file")
    try:
        parts = content["data"]
        return tuple(_example(item, task, source) for task, name in TASKS.items() for item in parts[name])
    except (ValueError, KeyError, TypeError) as error:
        raise FormatError(f"{source} is not a part of StereoSet ({error})", hint="fetch it again") from error


def _example(item: Any, task: Task, source: Path) -> StereoExample:
    by_label = {entry["gold_label"]: StereoSentence(entry["id"], entry["sentence"]) for entry in item["sentences"]}
    if missing := [label for label in LABELS if label not in by_label]:
        raise FormatError(f"{source}: the example {item['id']} has no sentence labelled {missing[0]!r}")
    sentences = [by_label[label] for label in LABELS]
    return StereoExample(item["id"], task, item["target"], item["bias_type"], item["context"], *sentences)
