"""Whole records of measures of texts on small inputs that reach every branch: numbers, texts, units, order."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import evenhand as eh
from evenhand import measures
from evenhand.corpus.readers import Texts
from evenhand.measures.text import judged_generations as judged
from evenhand.measures.text.corpus_bias import comparison_measurements
from evenhand.measures.text.corpus_bias import measurements as corpus_measurements
from evenhand.measures.text.counterfactual_text import count_texts
from evenhand.measures.text.judged_generations import prompt_set
from evenhand.subjects.judges import Lexicon
from evenhand.subjects.subject import TextView
from meaningless import Judging, Writing, number, plain
from recorded_numbers import check_whole

Patch = pytest.MonkeyPatch


FEMALE = ("she", "girl", "aunt", "her")


class Echo(Writing):
    """Repeats the prompt, or says a word after prompts about men."""

    def __init__(self, word: str = "") -> None:
        super().__init__()
        self.word = word

    def _text(self, prompt: str, sample: int, seed: int) -> str:
        if not self.word:
            return prompt
        return self.word if {"he", "boy", "uncle"} & set(prompt.lower().split()) and len(prompt) % 5 else "no"


class OneWord(Writing):
    """Writes a single word for each prompt."""

    def _text(self, prompt: str, sample: int, seed: int) -> str:
        return "" if sample else ("salary", "home", "rain")[int(3 * number(prompt))]


def judged_cases(tmp: Path, patch: Patch) -> dict[str, Any]:
    lines = [{"prompt": f"Here {n} is", "group": "abca"[n % 4]} for n in range(13)]
    (tmp / "groups.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n\n", encoding="utf-8")
    (tmp / "two.jsonl").write_text("\n".join(map(json.dumps, lines[:7])), encoding="utf-8")
    (tmp / "one.jsonl").write_text(
        "\n".join(json.dumps({**line, "group": "a"}) for line in lines[:3]), encoding="utf-8"
    )
    own = [f"{who} {what}" for who in ("She", "The boy", "My aunt", "Nobody") for what in ("said", "went out", "knew")]
    (tmp / "prompts.txt").write_text("\n".join([*own, "", "  "]), encoding="utf-8")
    bold = {
        category: {f"{category[:3]} {n}": [f"{category} {n} was {k}", " "] * (1 + n % 2) for n in range(5) for k in "x"}
        for category in ("American_actresses", "American_actors", "judaism", "christianity", "islam", "hinduism")
    }
    for name in ("gender_prompt", "religious_ideology_prompt"):
        (tmp / f"{name}.json").write_text(json.dumps(bold), encoding="utf-8")
    (tmp / "toxic").mkdir()
    texts = [{"text": f" It is {n % 9} "} for n in range(12)] + [{"text": ""}]
    (tmp / "toxic" / "rtp.jsonl").write_text("\n".join(map(json.dumps, texts)), encoding="utf-8")
    patch.setattr(judged.data, "locate", lambda name: tmp / "toxic" if name == judged.TOXIC else tmp)
    writer, judge, coarse = Writing(), Judging(), Judging("coarse", steps=3)
    ask = measures.judged_generations
    return {
        "template": ask(writer, judge=judge, rows=2, samples=3),
        "template, three groups": ask(writer, judge=coarse, concept="religion", rows=2, samples=2, threshold=0.9, seed=2),
        "two judges": ask(writer, own, judge=[judge, coarse], judge_label="yes,no", samples=2),
        "one judge twice": ask(writer, own, judge=[coarse, coarse], judge_label="yes,no", samples=2, sample=7, seed=3),
        "three judges, one constant": ask(writer, own, judge=[judge, coarse, Judging("same", steps=1)], samples=1),
        "constant judges": ask(writer, own[:3], judge=[Judging("a", steps=0.5), Judging("b", steps=0.5)], samples=1, threshold=1.5),
        "silent": ask(Writing(()), own, judge=judge, samples=2),
        "file": ask(writer, tmp / "prompts.txt", judge=coarse, sample=4, samples=2, seed=1),
        "groups": ask(writer, tmp / "groups.jsonl", judge=judge, samples=2, concept="race", seed=5),
        "too few": ask(writer, tmp / "two.jsonl", judge=judge, samples=2),
        "one group": ask(writer, tmp / "one.jsonl", judge=judge, samples=2, sample=2),
        "bold": ask(writer, "bold", judge=coarse, samples=2, sample=7, seed=1),
        "bold, three groups": ask(writer, "bold", judge=judge, samples=1, sample=None, concept="religion"),
        "bold, no prompts": ask(writer, "bold", judge=judge, concept="age"),
        "toxic": ask(writer, "real-toxicity-prompts", judge=judge, samples=2, sample=5, seed=2),
        "judge of women": [ask(Echo(), own, judge=Lexicon("words", dict.fromkeys(FEMALE, weight)), samples=1) for weight in (1.0, 0.9)],
        "texts about men": ask(Echo("yes"), own, judge=Lexicon("words", {"yes": 0.9}), samples=2),
        "nobody": ask(writer, ["It rains"], judge=judge),
        "drawn": prompt_set(tmp / "groups.jsonl", eh.concept("gender"), rows=None, sample=7, seed=2),
        "drawn, fewer than groups": prompt_set(tmp / "groups.jsonl", eh.concept("gender"), rows=None, sample=2, seed=1),
        "rows": prompt_set("person-prompts", eh.concept("gender"), rows=1, sample=3, seed=2),
        "kappa": [
            judged.kappa(first, second)
            for first, second in (([1, 0, 1, 1], [1, 1, 0, 1]), ([1, 1], [1, 1]), ([0, 1], [1, 0]), ([0, 0], [0, 0]))
            for first, second in [(judged.np.array(first), judged.np.array(second))]
        ],
    }  # fmt: skip


def counterfactual_cases(tmp: Path, patch: Patch) -> dict[str, Any]:
    writer, rare = Writing(), Writing(("rain", "bread", "she", "water"))
    ask = measures.counterfactual_text
    return {
        "default": ask(writer),
        "three groups": ask(writer, concept="religion", rows=2, samples=3, seed=4),
        "other attributes": ask(writer, attributes="weat-7", rows=None, samples=2, concept="race"),
        "few hits": ask(rare, rows=1, samples=2),
        "silent": ask(Writing(()), rows=1, samples=2),
        "one word each": ask(OneWord(), rows=2, samples=2, seed=1),
        "counts": [
            *(count_texts(eh.concept("gender"), rows=n) for n in (1, 4, None)),
            count_texts(eh.concept("religion"), samples=2),
        ],
    }


def corpus_cases(tmp: Path, patch: Patch) -> dict[str, Any]:
    words = ["red", "house", "tree", "blue", "nurse", "the", "king"]
    lines = [
        f"{('she', 'he', 'her', 'his')[n % 4]} saw the {words[int(7 * number(n))]} {words[int(7 * number(n, 1))]}"
        for n in range(160)
    ]
    view = TextView("lines", Texts(lines * 2), {"window": 3}, {"source": "made up"})
    (tmp / "text.txt").write_text("\n".join(lines), encoding="utf-8")
    french = TextView("french", Texts(["elle voit la maison", "il voit le roi", "elle et lui mangent"] * 30))
    faiths = TextView(
        "faiths",
        Texts(
            [f"the {w} saw a {words[n % 7]}" for n in range(60) for w in ("muslim", "jew", "christian")[: 1 + n % 3]]
        ),
    )
    first, second = (
        eh.corpus.bias(Texts(some), groups={"f": ["she", "her"], "m": ["he", "his"]}, bootstrap=20, seed=1)
        for some in (lines, lines[30:] * 2)
    )
    compared = eh.corpus.compare(
        Texts(lines * 3),
        Texts(lines[40:] * 2),
        {"f": ["she", "her"], "m": ["he", "his"]},
        min_count=2,
        permutations=5,
        seed=3,
    )
    patch.setattr("evenhand.measures.text.corpus_bias.POINTS", 3)
    return {
        "view": measures.corpus_bias(view, permutations=20, seed=2),
        "file": measures.corpus_bias(tmp / "text.txt", permutations=0, stop_words="none"),
        "three groups": measures.corpus_bias(faiths, concept="religion", permutations=10),
        "three groups, untested": measures.corpus_bias(faiths, concept="religion", permutations=0),
        "french": measures.corpus_bias(french, concept="gender-fr", permutations=5),
        "scored": [corpus_measurements(one, model="m", seed=3) for one in (first, second)],
        "compared": comparison_measurements(compared, model="m", seed=3, prefix="x "),
    }  # fmt: skip


CASES: dict[str, Callable[[Path, Patch], dict[str, Any]]] = {
    "judged": judged_cases,
    "counterfactual": counterfactual_cases,
    "corpus": corpus_cases,
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_whole_records_are_the_recorded_ones(name: str, tmp_path: Path, monkeypatch: Patch) -> None:
    found = json.dumps({case: plain(value) for case, value in CASES[name](tmp_path, monkeypatch).items()})
    check_whole(f"cases of {name} texts", json.loads(found.replace(str(tmp_path), "folder")))
