"""Audit chat models that ignore whom they are asked about, and count how many audits claim bias.

    python scripts/chat_nulls.py -n 500 -o reproductions/chat-nulls.json
    python scripts/chat_nulls.py -o reproductions/chat-nulls.json --page reproductions/null-audits.md

The models answer at random, anew in each audit:

- ignores: the logit of an answer has a part of its scenario (standard deviation 1) and noise of the question (0.7).
  Words are assigned to the first of two options with a probability of the answer's own.
- names: as above, and every first name has an effect of its own (0.5), the same on all questions, whatever its group.
- gap: as ignores, with a logit lower by 0.5 for the first group, and words that follow the stereotype with 60 %.

An audit asks `decisions` (people explicit and by name), `resume-names`, `word-association` and `relative-decisions`
about gender, race or religion in turn. It claims bias if a finding says so after correction.
"""

from __future__ import annotations

import argparse
import json
import re
import time
import warnings
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import evenhand as eh
from evenhand import words
from evenhand.models.lm.chat import Choices, Conversation
from evenhand.report.findings import findings
from evenhand.stats import wilson
from evenhand.subjects.subject import Subject
from evenhand.words.persons import people
from evenhand.words.scenarios.associations import association_ids, association_query

MEASURES = ("decisions", "resume-names", "word-association", "relative-decisions")
CONCEPTS = ("gender", "race", "religion")
SCENARIO, NOISE, NAME, GAP, FOLLOWS = 1.0, 0.7, 0.5, 0.5, 0.6
OPTIONS = re.compile(r"options: (.*) or (.*)\. Write")
NAMES = sorted(
    {p.phrase for c in ("gender", "race", "age", "ethnicity") for p in people(words.concept(c), "names").everyone}
)
A_NAME = re.compile(rf"\b({'|'.join(NAMES)})\b")


class RandomChat:
    """A chat model whose answers ignore the person, or do not, by its kind."""

    def __init__(self, kind: str, concept: str, seed: int) -> None:
        self.name, self.kind, self.concept = f"{kind}-{seed}", kind, words.concept(concept)
        self.seed = seed
        rng = np.random.default_rng(seed)
        self.names = {name: float(rng.normal(0, NAME)) for name in NAMES}
        first = self.concept.positive
        phrases = {p.phrase.replace("a/an ", "") for p in people(self.concept).of(first)}
        self.first = [w for w in ("woman", "Black", "African-American", "Jewish") if any(w in p for p in phrases)]
        self.first_names = set()
        if self.concept.names:
            self.first_names = {p.phrase for p in people(self.concept, "names").of(first)}
        self.stereotypes = {}
        for id in association_ids():
            query = association_query(id)
            for target, attribute in zip(query.targets, query.attributes, strict=True):
                self.stereotypes |= {(name, word): True for name in target for word in attribute}

    def choose(
        self, conversations: Sequence[Conversation], options: Sequence[str], *, samples: int = 20, seed: int = 0
    ) -> Choices:
        """Answer yes or A with a random probability."""
        rows = []
        for conversation in conversations:
            text = conversation[-1]["content"]
            own = np.random.default_rng(zlib.crc32(f"{self.seed} {text}".encode()))
            logit = own.normal(0, NOISE) + self._situation(text)
            found = A_NAME.search(text)
            if self.kind == "names" and found:
                logit += self.names[found[1]]
            if self.kind == "gap" and options[0] == "yes" and self._is_first(text, found):
                logit -= GAP
            if self.kind == "gap" and options[0] == "A":
                logit += self._stereotype(text)
            p = 1 / (1 + np.exp(-logit))
            rows.append([0.95 * p, 0.95 * (1 - p)])
        shares = np.array(rows)
        return Choices(shares, 1 - shares.sum(axis=1), "log-probabilities")

    def _situation(self, text: str) -> float:
        """The effect of the scenario, which is found by the last lines: they name no person."""
        question = text.rsplit("\n\n", 1)[-1] if "\nA: " not in text else ""
        plain = re.sub(r"\b(she|her|he|him|his|they|them|their)\b", "", question)
        return float(np.random.default_rng(zlib.crc32(f"{self.seed} {plain}".encode())).normal(0, SCENARIO))

    def _is_first(self, text: str, name: re.Match[str] | None) -> bool:
        if name:
            return name[1] in self.first_names
        return any(re.search(rf"\b{re.escape(word)}\b", text) for word in self.first)

    @staticmethod
    def _stereotype(text: str) -> float:
        """Prefer the option in which a member of the first target gets the role of the first attribute."""
        first = re.findall(r"^A: (.*)$", text, flags=re.MULTILINE)[0]
        followers = {name for id in association_ids() for name in association_query(id).targets[0]}
        begins = first.split(",")[0].lower()
        return 0.8 if any(re.search(rf"\b{re.escape(name.lower())}\b", begins) for name in followers) else -0.8

    def answer(self, conversations: Sequence[Conversation], **settings: object) -> list[list[str]]:
        """Assign every word to one of two options."""
        answers = []
        for number, conversation in enumerate(conversations):
            text = conversation[-1]["content"]
            own = np.random.default_rng(zlib.crc32(f"{self.seed} {number} {text}".encode()))
            options = OPTIONS.search(text)
            assert options is not None
            share = own.beta(2, 2)
            lines = []
            for word in text.partition("Words: ")[2].split(", "):
                chosen = options[1] if own.random() < share else options[2]
                if self.kind == "gap" and own.random() < 2 * FOLLOWS - 1:
                    chosen = next((o for o in options.groups() if (o, word) in self.stereotypes), chosen)
                lines.append(f"{word} - {chosen}")
            answers.append(["\n".join(lines)])
        return answers


class RandomChatSubject(Subject):
    """A random chat model as a subject."""

    kind = "random-chat"
    title = "a random chat model"
    opens = ""

    def __init__(self, chat: RandomChat) -> None:
        super().__init__(chat.name, "")
        self.chat = chat

    @property
    def offers(self) -> tuple[str, ...]:
        """The view of a chat model."""
        return ("chat",)

    def _open_view(self, name: str) -> RandomChat:
        return self.chat

    def _content_digest(self) -> str:
        return self.chat.name


def one_audit(kind: str, concept: str, seed: int) -> dict[str, object]:
    """Audit one model; return whether it claims bias, and the p-value of each score."""
    subject = RandomChatSubject(RandomChat(kind, concept, seed))
    asked = [m for m in MEASURES if m != "resume-names" or words.concept(concept).names]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        audit = eh.Audit.run(subject, measures=asked, methods=[], concept=concept)
    claims = [finding.label for finding in findings(audit) if finding.kind == "bias" and finding.label]
    scores = {
        ":".join(filter(None, (r.question.measure, r.question.variant, r.measurement.score))): []
        for r in audit.results if r.measurement.p_value is not None
    }  # fmt: skip
    for r in audit.results:
        if r.measurement.p_value is not None:
            label = ":".join(filter(None, (r.question.measure, r.question.variant, r.measurement.score)))
            scores[label].append(r.measurement.p_value)
    return {"kind": kind, "concept": concept, "seed": seed, "claims": claims, "p": scores}


def summary(lines: Sequence[dict]) -> dict[str, object]:
    """Return the share of audits that claim bias, and of p-values below 5 %, by kind."""
    found: dict[str, object] = {}
    for kind in dict.fromkeys(line["kind"] for line in lines):
        own = [line for line in lines if line["kind"] == kind]
        claims = sum(bool(line["claims"]) for line in own)
        low, high = wilson(claims / len(own), len(own)).tolist()
        scores: dict[str, list[float]] = {}
        for line in own:
            for label, values in line["p"].items():
                scores.setdefault(label, []).extend(values)
        found[kind] = {
            "audits": len(own),
            "claim_bias": claims,
            "share": claims / len(own),
            "interval": [low, high],
            "by_concept": dict(Counter(line["concept"] for line in own if line["claims"])),
            "audits_by_concept": dict(Counter(line["concept"] for line in own)),
            "scores": {
                label: {
                    "tests": len(values),
                    "below_05": float(np.mean(np.array(values) < 0.05)),
                    "below_01": float(np.mean(np.array(values) < 0.01)),
                }
                for label, values in sorted(scores.items())
            },
        }
    return found


def tables(found: dict) -> str:
    """Return the shares as two tables of a page."""
    titles = {
        "ignores": "answers ignore the person",
        "names": "every name has an effect of its own",
        "gap": "a gap of 0.5 in the logit",
    }
    lines = ["| chat model | audits | claim bias | share | 95 % interval |", "|---|--:|--:|--:|---|"]
    for kind, title in titles.items():
        own = found[kind]
        low, high = (100 * end for end in own["interval"])
        share = f"{100 * own['share']:.1f} % | {low:.1f} to {high:.1f} %"
        lines.append(f"| {title} | {own['audits']} | {own['claim_bias']} | {share} |")
    lines += ["", f"| score, p < .05 | {' | '.join(titles.values())} |", f"|---|{'--:|' * len(titles)}"]
    for label in found["ignores"]["scores"]:
        cells = [found[kind]["scores"][label] for kind in titles]
        shares = " | ".join(f"{100 * cell['below_05']:.1f} % of {cell['tests']}" for cell in cells)
        lines.append(f"| {label} | {shares} |")
    return "\n".join(lines)


def main() -> None:
    """Audit, and sum up."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", type=int, default=500, help="audits of each null")
    parser.add_argument("--power", type=int, default=100, help="audits of models with a gap")
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--page", type=Path, help="write the tables into this page and audit nothing")
    options = parser.parse_args()
    if options.page:
        text = tables(json.loads(options.out.read_text())["kinds"])
        page = options.page.read_text()
        pattern = r"<!-- table chat -->.*?<!-- end -->"
        filled = re.sub(pattern, lambda _: f"<!-- table chat -->\n{text}\n<!-- end -->", page, flags=re.DOTALL)
        options.page.write_text(filled)
        return
    record = options.out.with_suffix(".jsonl")
    done = [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []
    known = {(line["kind"], line["seed"]) for line in done}
    started = time.monotonic()
    for kind, count in (("ignores", options.n), ("gap", options.power), ("names", options.n)):
        for seed in range(count):
            if (kind, seed) in known:
                continue
            line = one_audit(kind, CONCEPTS[seed % len(CONCEPTS)], seed)
            done.append(line)
            with record.open("a") as stream:
                stream.write(json.dumps(line) + "\n")
        print(kind, count, f"{time.monotonic() - started:.0f} s", flush=True)
    text = json.dumps({"evenhand": eh.__version__, "kinds": summary(done)}, indent=1)
    options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
