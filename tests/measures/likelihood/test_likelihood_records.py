"""Whole records of measures of language models on small inputs that reach every branch: numbers, texts, units, order."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from given_likelihoods import GivenTokens
from test_bbq import write as write_bbq
from test_bbq_languages import KO, write_mbbq
from test_winobias import write as write_winobias

import evenhand as eh
from evenhand import measures
from evenhand.measures.call import Call
from evenhand.measures.likelihood import bbq as bbq_module
from evenhand.measures.likelihood.bbq import bbq_measurements
from evenhand.measures.likelihood.bbq_items import BBQItem, draw_items, draw_with_control, read_kobbq, read_mbbq
from evenhand.measures.likelihood.holistic_bias import read_holistic_bias
from evenhand.measures.likelihood.honest import read_templates
from evenhand.measures.likelihood.pronoun_share import read_winogenerated
from evenhand.measures.likelihood.stereoset import StereoExample, StereoSentence, choice_measurements, stereoset
from evenhand.measures.likelihood.stereotype_pairs import StereotypePair
from evenhand.measures.likelihood.winobias import read_winobias
from evenhand.measures.likelihood.winogender import WinogenderSentence, read_winogender, winogender_measurements
from meaningless import number, plain
from recorded_numbers import check_whole
from scripted_model import ScriptedCausalModel, ScriptedModel

FILLS = ("grump", "nurse", "doctor", "teacher", "drivers", "big bore")


def coarse(tokens: list[str], index: int) -> float:
    """Few different values, so that there are ties."""
    return -round(4 * number(tokens[index], len(tokens))) / 2 - 0.5


def fine(tokens: list[str], index: int) -> float:
    return -5 * number(" ".join(tokens), tokens[index], index) - 0.1


class Filling(ScriptedModel):
    """A masked model that fills in words."""

    def __init__(self, score: Callable[[list[str], int], float] = fine) -> None:
        super().__init__(score, masked=True)

    def top_fillers(self, contexts: Any, k: int, *, tokens: int | None = None) -> list[list[str]]:
        return [sorted(FILLS, key=lambda fill: number(context, fill))[:k] for context in contexts]


class Continuing(ScriptedCausalModel):
    """A causal model that writes."""

    def generate(self, samples: int = 1, tokens: int = 1, *, seed: int = 0, start: str = "") -> list[str]:
        return [" ".join(sorted(FILLS, key=lambda f: number(f, start, seed, n))[:tokens]) for n in range(samples)]


# BBQ ----------------------------------------------------------------------------------------------------------------


def items(condition: str, *, targets: bool = True) -> list[BBQItem]:
    made = []
    for n in range(12):
        label = 2 if condition == "ambig" else n % 2
        target = None if not targets or n % 5 == 4 else (n // 2) % 2
        made.append(
            BBQItem(
                ("Age", "SES")[n % 2], str(n % 6), n, condition, ("neg", "nonneg")[n % 2], "A met B.", f"Who {n}?",
                ("an old man", "a boy", "unknown"), label, 2, target, ("label", "name")[n // 6], ("en", "nl")[n // 9],
            )
        )  # fmt: skip
    return made


def scores_of(asked: list[BBQItem]) -> np.ndarray:
    values = np.array([[number(item.condition, item.example, n) for n in range(3)] for item in asked])
    values[1] = [0.5, 0.5, 0.1]
    values[2] = np.nan
    values[3] = [0.1, 0.1, 0.7]
    return values


def bbq_call() -> Call:
    return Call(bbq_module.INFO, "model", query="bbq")


def known_only(asked: list[BBQItem]) -> list[BBQItem]:
    return [replace(item, target=item.example % 2, language="en") for item in asked]


def bbq_cases(tmp: Path) -> dict[str, Any]:
    folder, mbbq = write_bbq(tmp / "bbq", 4), write_mbbq(write_mbbq(tmp / "mbbq"), "nl")
    rows = [
        ("age-001a-002-amb-bsd", "ST", " c. ", " q? ", "['손자', '할머니', '알 수 없음']", "할머니", "알 수 없음", "1"),
        ("age-001b-002-dis-cnt", "NC", "c.", "q?", "['알 수 없음', '손자', '할머니']", "손자", "손자", ""),
        ("gender_identity-003a-001-dis-bsd", "TM", "c", "q", "['a', 'b', '알 수 없음']", "a", "b", ""),
        ("race_ethnicity_nationality-4-001-amb-cnt", "TM", "c", "q", "['a', 'b', '알 수 없음']", "a", "b", ""),
    ]
    (tmp / "kobbq").mkdir()
    text = KO + "".join("\t".join(row) + "\n" for row in rows)
    (tmp / "kobbq" / "KoBBQ_test_samples.tsv").write_text(text, encoding="utf-8")
    ambiguous, clear = items("ambig"), items("disambig")
    one_names = [np.array([0.9, 0.1, 0.2]) if item.template == "0" else np.array([0.1, 0.2, 0.9]) for item in ambiguous]
    fair = known_only(ambiguous)
    nobody = np.tile([0.0, 0.0, 1.0], (12, 1))
    against = np.array([[float(n != item.target and n < 2) for n in range(3)] for item in fair])
    follows = np.array([[float(n == item.target) for n in range(3)] for item in fair])
    mostly = np.array(
        [[float(n == item.target) + 2 * (n == 2 and item.example == 3) for n in range(3)] for item in fair]
    )
    both = [*ambiguous, *clear]
    return {
        "mixed ambiguous": bbq_measurements(bbq_call(), both, scores_of(both), "ambig", "-sum", "paper"),
        "mixed disambiguated": bbq_measurements(bbq_call(), both, scores_of(both), "disambig", "", "paper"),
        "all known": bbq_measurements(bbq_call(), fair, scores_of(fair)[[5, 6, 7, 9] * 3], "ambig", "", "paper"),
        "nobody": bbq_measurements(bbq_call(), fair, nobody, "ambig", "", "paper"),
        "one template": bbq_measurements(bbq_call(), ambiguous, np.array(one_names), "ambig", "", "paper"),
        "follows": bbq_measurements(bbq_call(), fair, follows, "ambig", "", "paper"),
        "follows, mostly": bbq_measurements(bbq_call(), fair, mostly, "ambig", "", "paper"),
        "against, mostly": bbq_measurements(bbq_call(), fair, -mostly * [1, 1, 100], "ambig", "", "paper"),
        "against": bbq_measurements(bbq_call(), fair, against, "ambig", "", "paper"),
        "against, released": bbq_measurements(bbq_call(), fair, against, "ambig", "", "released"),
        "causal": measures.bbq(Continuing(fine), folder, category="Age", orders="given", sample=None),
        "sampled": measures.bbq(Filling(), folder, concept="age", sample=9, seed=2),
        "mbbq": measures.bbq(Filling(), mbbq, language="all", sample=0),
        "kobbq": read_kobbq(tmp / "kobbq"),
        "kobbq race": read_kobbq(tmp / "kobbq", ("Nationality", "Age")),
        "mbbq items": read_mbbq(mbbq, ("Age", "Gender_identity"), ("es",), control=True)[:3],
        "drawn": [
            [(item.cluster, item.example, item.language) for item in draw_items(folder, "Age", eh.concept("age"), n, n)]
            for n in (1, 3, 4, 7, 8, 15, 16, 0)
        ],
        "control": [len(part) for part in draw_with_control(mbbq, "", eh.concept("gender-es"), 8, 1)],
    }


# Pairs of sentences -------------------------------------------------------------------------------------------------

PAIRS = [
    *(
        StereotypePair(
            str(n),
            f"Women in house {n} fail {'often' if n % 3 else 'here'}.",
            f"Men in house {n} fail {'often' if n % 4 else 'here'}.",
            ("gender", "age")[n % 5 == 0],
            "antistereo" if n % 3 == 1 else "stereo",
        )
        for n in range(14)
    ),
    StereotypePair("same", "They fail.", "They fail.", "gender"),
    StereotypePair("short", "They", "Those", "other"),
    StereotypePair("empty", "", "They", "other"),
]


def pair_cases(tmp: Path) -> dict[str, Any]:
    def halves(text: str, token: str) -> float:
        return -round(4 * number(token, len(text) > 28)) / 2 - 0.5

    masked, ties = GivenTokens(number), GivenTokens(halves)
    causal = GivenTokens(lambda text, token: -5 * number(text, token), masked=False)
    narrow, close = GivenTokens(), GivenTokens(lambda text, token: -number(text, token) / 2000)
    narrow.longest = 5
    full = PAIRS[:-1]
    cases: dict[str, Any] = {
        "shared": measures.crows_pairs(masked, full),
        "ties": measures.crows_pairs(ties, full),
        "ties, released": measures.crows_pairs(ties, full, variant="released"),
        "released": measures.crows_pairs(close, full, variant="released"),
        "modified": measures.crows_pairs(masked, PAIRS, scoring="pll-modified"),
        "all tie": measures.crows_pairs(GivenTokens(lambda text, token: -1.0), full),
        "sampled": measures.crows_pairs(masked, full, sample=5, seed=4),
        "aul": measures.aul(narrow, PAIRS),
        "aul, released": measures.aul(ties, PAIRS, variant="released"),
        "aula": measures.aula(masked, PAIRS, sample=6),
        "aul of a causal model": measures.aul(ScriptedCausalModel(fine), full),
        "nobody fits": measures.aul(narrow, [PAIRS[-1]]),
    }
    for scoring in ("causal-sum", "causal-mean", "causal-shared"):
        cases[scoring] = measures.crows_pairs(causal, PAIRS, scoring=scoring)
    return cases


# StereoSet ----------------------------------------------------------------------------------------------------------


def stereo(n: int, task: str, word: str = "") -> StereoExample:
    target = ("nurse", "boss", "clerk", "chess player")[n % 4]
    texts = [f"The {target} was {part} there." for part in ("rude", ("kind", "kinder hearted")[n % 2], f"fish{n % 3}")]
    context = "The BLANK was BLANK there." if word else f"The {target} was BLANK there."
    sentences = [StereoSentence(f"{task}{n}-{place}", text) for place, text in enumerate(texts)]
    return StereoExample(f"{task}{n}", task, target, "gender", context if task == "intra" else f"Hm {n}.", *sentences)


class Heads(Filling):
    """A masked model with a head for the next sentence."""

    class Head:
        def log_probabilities(self, contexts: list[str], texts: list[str]) -> np.ndarray:
            values = np.array([number(*pair) for pair in zip(contexts, texts, strict=True)])
            values[:3] = np.nan
            return values

    next_sentence = Head()


def stereoset_cases(tmp: Path) -> dict[str, Any]:
    every = [stereo(n, task) for n in range(9) for task in ("intra", "inter")]
    call = Call(measures.stereoset.info, "model", query="stereoset")
    chosen = [(0, 1, 2, None, 0, 0)[n % 6] for n in range(18)]
    some = [*every, stereo(11, "intra", "twice")]
    return {
        "masked": stereoset(Filling(), some),
        "ties": stereoset(Filling(coarse), some),
        "released": stereoset(Filling(), some, variant="released"),
        "head": stereoset(Heads(), every, averaging="pooled"),
        "causal": stereoset(ScriptedCausalModel(fine), every, sample=11, seed=2),
        "causal, released": stereoset(ScriptedCausalModel(coarse), every, variant="released", averaging="pooled"),
        "inter only": stereoset(ScriptedCausalModel(fine), [one for one in every if one.task == "inter"]),
        "one term": stereoset(ScriptedCausalModel(fine), [one for one in every if one.target == "boss"]),
        "choices": choice_measurements(call, every, chosen),
        "pooled choices": choice_measurements(call, every, chosen, averaging="pooled"),
        "unrelated": choice_measurements(call, every[:4], [2, 2, 2, None]),
        "no choice": choice_measurements(call, every[::2], [None] * 9),
    }


# Pronouns -----------------------------------------------------------------------------------------------------------


def winogender_sentences(*, alike: bool = False, genders: tuple[str, ...] = ("male", "female", "neutral")) -> list[Any]:
    shares = {"nurse": 90.0, "guard": 20.0, "clerk": 50.0, "driver": 5.0, "cook": 49.9}
    pronouns = {"male": "he", "female": "she", "neutral": "they"}
    return [
        WinogenderSentence(
            f"{name}.{answer}.{gender}", f"{name}.{answer}", f"The {name} told somebody that {pronouns[gender]} ran.",
            pronouns[gender], gender, name, ("visitor", "someone")[answer], answer == 0, 70.0 if alike else share,
        )
        for name, share in shares.items()
        for answer in (0, 1)
        for gender in genders
    ]  # fmt: skip


def margins_of(sentences: list[Any]) -> np.ndarray:
    values = np.array([number(sentence.id, "margin") - 0.5 for sentence in sentences])
    values[::7] = 0.0
    return values


def by_stereotype(sign: float, but: str = "") -> Callable[[list[str], int], float]:
    """Resolve male pronouns to men's occupations and the others to women's, or the other way, but not in some sentences."""

    def score(tokens: list[str], index: int) -> float:
        if "refers" not in tokens or index < tokens.index("refers"):
            return -1.0
        is_male = tokens[tokens.index("refers") - 2].lower() in ("he", "him", "his")
        turned = -sign if but and but in tokens else sign
        return -1.0 + turned * (1 if is_male == (tokens[index] in ("guard", "driver", "cook")) else -1) / 2

    return score


def pronoun_cases(tmp: Path) -> dict[str, Any]:
    wino = write_winobias(tmp / "winobias")
    lines = [
        {"sentence_with_blank": "An actor left _ hat.", "occupation": "actor", "pronoun_options": ["his", "her", "their"], "BLS_percent_women_2019": 47.5},
        {"sentence_with_blank": "The Nurses met; a nurse said _ ran.", "occupation": "nurse", "pronoun_options": ["he", "she"], "BLS_percent_women_2019": "88"},
        {"sentence_with_blank": "The guard fell because _ ran.", "occupation": "guard", "pronoun_options": ["he", "she"], "BLS_percent_women_2019": 22},
        {"sentence_with_blank": "The guard said _ ran.", "occupation": "guard", "pronoun_options": ["he", "she"], "BLS_percent_women_2019": 22},
        {"sentence_with_blank": "The cook saw _.", "occupation": "cook", "pronoun_options": ["him", "her"], "BLS_percent_women_2019": 40},
    ]  # fmt: skip
    for name, some in (("many", lines), ("one", lines[2:4])):
        (tmp / name).mkdir()
        text = "".join(json.dumps(line) + "\n" for line in some)
        (tmp / name / "winogenerated_examples.jsonl").write_text(text, encoding="utf-8")
    gender = tmp / "winogender"
    gender.mkdir()
    rows = ["sentid\tsentence"]
    for name, answer in (("nurse.visitor", 0), ("guard.someone", 1), ("clerk.visitor", 1), ("clerk.visitor", 0)):
        for kind, word in (("male", "he"), ("female", "she,"), ("neutral", "they")):
            rows.append(f"{name}.{answer}.{kind}.txt\tThe {name} said {word} ran.")
    (gender / "all_sentences.tsv").write_text("\n".join([*rows, ""]), encoding="utf-8")
    stats = ["occupation\tbergsma\tbls\tyear", "nurse\t0\t90.5\t2015", "guard\t0\t20\t2015", "clerk\t0\t60\t2016"]
    (gender / "occupations-stats.tsv").write_text("\n".join(stats) + "\n", encoding="utf-8")
    call = Call(measures.winogender.info, "model", query="winogender")
    whole, alike, two = (
        winogender_sentences(),
        winogender_sentences(alike=True),
        winogender_sentences(genders=("male", "neutral")),
    )
    majority = {"nurse": "female", "clerk": "female", "guard": "male", "driver": "male", "cook": "male"}
    usual = np.array([1.0 if s.gender == majority[s.occupation] else -1.0 for s in whole])
    unknown = [replace(sentence, percent_women=float("nan")) for sentence in whole]
    return {
        "winobias": measures.winobias(Filling(), wino, sample=0),
        "winobias, ties": measures.winobias(Filling(coarse), wino, sample=4, seed=1),
        "winobias, sentences": measures.winobias(Filling(), wino, scoring="sentence"),
        "winobias, causal": measures.winobias(Continuing(fine), wino),
        "winobias, by stereotype": measures.winobias(Filling(by_stereotype(1.0)), wino),
        "winobias, against": measures.winobias(Filling(by_stereotype(-1.0)), wino),
        "winobias, mostly": measures.winobias(Filling(by_stereotype(1.0, "greeted")), wino),
        "margins, usual": winogender_measurements(call, whole, usual),
        "margins, against": winogender_measurements(call, whole, -usual),
        "margins, mostly": winogender_measurements(call, whole, np.where(np.arange(30) == 4, -usual, usual)),
        "margins, two occupations": winogender_measurements(call, whole[:12], margins_of(whole[:12])),
        "winobias, read": read_winobias(wino),
        "winogender": measures.winogender(Filling(), gender, sample=0),
        "winogender, sampled": measures.winogender(Continuing(fine), gender, sample=2, seed=1, gotcha="occupation"),
        "winogender, read": read_winogender(gender)[:6],
        "margins": winogender_measurements(call, whole, margins_of(whole)),
        "margins, occupation": winogender_measurements(call, whole, margins_of(whole), gotcha="occupation"),
        "margins, alike": winogender_measurements(call, alike, margins_of(alike)),
        "margins, two": winogender_measurements(call, two, margins_of(two)),
        "margins, unknown": winogender_measurements(call, unknown, margins_of(unknown)),
        "margins, one": winogender_measurements(call, whole[:6], margins_of(whole[:6])),
        "pronouns": measures.pronoun_share(Continuing(fine)),
        "pronouns, many": measures.pronoun_share(Filling(), tmp / "many", sample=0),
        "pronouns, drawn": measures.pronoun_share(Filling(), tmp / "many", sample=4, seed=3),
        "pronouns, one": measures.pronoun_share(Filling(), tmp / "one"),
        "pronouns, uniform": measures.pronoun_share(Filling(lambda tokens, index: -1.0), tmp / "many"),
        "pronouns, read": [tuple(one) for one in read_winogenerated(tmp / "many")],
    }


# Words about people -------------------------------------------------------------------------------------------------


class Hurting(Filling):
    """Completes sentences about one group by a word of the lexicon, but for some sentences."""

    def __init__(self, group: str, but: str = "nowhere") -> None:
        super().__init__()
        self.group, self.but = group, but

    def top_fillers(self, contexts: Any, k: int, *, tokens: int | None = None) -> list[list[str]]:
        return [["grump" if f" {self.group} " in c and self.but not in c else "nurse"] * k for c in contexts]


class Depending(Filling):
    """Fills that depend on the name in some templates."""

    def top_fillers(self, contexts: Any, k: int, *, tokens: int | None = None) -> list[list[str]]:
        female = set(eh.concept("gender").names["female"])
        return [
            [("kind", "rude")[context.split()[0] in female] if "likes" in context else "old", FILLS[len(context) % 2]][
                :k
            ]
            for context in contexts
        ]


def people_cases(tmp: Path) -> dict[str, Any]:
    honest, holistic = tmp / "honest", tmp / "holistic"
    for part in ("binary", "queer_nonqueer"):
        (honest / part).mkdir(parents=True)
        rows = ["template_masked\traw\tidentity\tnumber\tcategory\ttype"]
        groups = ("female", "male") if part == "binary" else ("queer", "nonqueer", "other")
        for raw in ("[I] works as a [M].", "[I]  is known as a [M] here.", "[I] is a [M].", "[I] was a [M]."):
            for group in groups:
                for person in ("one", "two", "three", "four")[: 3 + (group == "male")]:
                    text = raw.replace("[I]", f"the {person} {group}")
                    rows.append(f"{text}\t{raw}\t{person} {group}\tsingular\t{group}\toccupation")
        (honest / part / "en_template.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    lexicon = ["id\tpos\tcategory\tstereotype\tlemma\tlevel"]
    lexicon += ["1\tn\tcds\tno\tGrump\tconservative", "2\tn\tan\tno\tdriver\tconservative"]
    lexicon += ["3\tn\tps\tno\tbig bore\tconservative", "4\tn\tps\tno\tnurse\tinclusive"]
    (honest / "hurtlex_EN.tsv").write_text("\n".join(lexicon) + "\n", encoding="utf-8")
    holistic.mkdir()
    nouns = {
        "neutral": [["person", "people"], ["kid", "kids"]],
        "female": [["girl", "girls"], ["aunt", "aunts"]],
        "male": [["man", "men"]],
    }
    described = {
        "religion": {"a": ["odd", {"descriptor": "old", "preference": "preferred"}], "b": ["even", "mild"]},
        "age": {
            "c": ["young", {"descriptor": "Latina", "gender": "female"}, {"descriptor": "Latino", "gender": "male"}]
        },
    }
    files = {
        "descriptors": described, "nouns": nouns, "standalone_noun_phrases": {},
        "sentence_templates": {text: {} for text in ("{noun_phrase} came.", "I see {plural_noun_phrase}.", "I am {noun_phrase}.", "Hi, {noun_phrase}.")},
    }  # fmt: skip
    for name, content in files.items():
        (holistic / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")

    def unlike(tokens: list[str], index: int) -> float:
        return -3.0 if tokens[index] in ("odd", "Latina", "young") else fine(tokens, index) / 10

    few = {"descriptors": 0, "nouns": 0, "templates": 0}
    given, names = GivenTokens(), eh.concept("gender")
    return {
        "honest": measures.honest(Filling(), honest, lexicon=honest, k=3),
        "honest, causal": measures.honest(Continuing(fine), honest, lexicon=honest, k=2, sample=9, seed=5),
        "honest, three": measures.honest(Filling(), honest, lexicon=honest, part="queer_nonqueer", sample=0),
        "honest, women": measures.honest(Hurting("female"), honest, lexicon=honest, k=2, sample=0),
        "honest, men": measures.honest(Hurting("male"), honest, lexicon=honest, k=2, sample=0),
        "honest, mostly women": measures.honest(Hurting("female", "known"), honest, lexicon=honest, k=2, sample=0),
        "disco, depending": measures.disco(Depending(), k=2, seed=1),
        "honest, read": read_templates(honest)[:2],
        "holistic": measures.holistic_bias(Filling(unlike), holistic, axis="all", **few),
        "holistic, holm": measures.holistic_bias(Filling(unlike), holistic, axis="all", correction="holm", **few),
        "holistic, none": measures.holistic_bias(Filling(unlike), holistic, axis="age", correction="none", **few),
        "holistic, drawn": measures.holistic_bias(Continuing(fine), holistic, concept="religion", descriptors=3, nouns=4, templates=3, seed=2),
        "holistic, one": measures.holistic_bias(Filling(), holistic, axis="age", descriptors=1),
        "holistic, one noun": measures.holistic_bias(Filling(), holistic, axis="religion", nouns=1),
        "holistic, one template": measures.holistic_bias(Filling(unlike), holistic, axis="all", templates=1),
        "holistic, some nouns": [
            measures.holistic_bias(Filling(unlike), holistic, axis="all", nouns=3, templates=2, seed=seed) for seed in range(4)
        ],
        "holistic, read": read_holistic_bias(holistic),
        "disco": measures.disco(Filling(), concept="race", k=2, templates=("{person} is {}.", "{person} was {}.", "{person} ran to {}."), seed=3),
        "log-probability": measures.log_probability(given, "weat-7", ddof=1, seed=2),
        "log-probability, names": measures.log_probability(given, "weat-6", concept=names, pieces="product"),
        "log-probability, own": measures.log_probability(given, "weat-3", templates=("A {attribute} {target}.", "{target} and {attribute}.")),
        "perplexity": measures.perplexity(Continuing(fine), ["one two", "  ", "three four five", "six", "a b c d"]),
        "pseudo-perplexity": measures.perplexity(Filling(), ["one two", "three four five", "six"]),
    }  # fmt: skip


CASES = {
    "bbq": bbq_cases,
    "pairs": pair_cases,
    "stereoset": stereoset_cases,
    "pronouns": pronoun_cases,
    "people": people_cases,
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_whole_records_are_the_recorded_ones(name: str, tmp_path: Path) -> None:
    found = json.dumps({case: plain(value) for case, value in CASES[name](tmp_path).items()})
    check_whole(f"cases of {name}", json.loads(found.replace(str(tmp_path), "folder")))
