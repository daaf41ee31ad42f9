"""Texts after counterfactual prompts."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import evenhand as eh
from evenhand.words import Query, Template

PROMPTS = Template("prompts", "{person} {did}", {"did": ["slept and", "ran and", "ate and"]})
SIZES = eh.Concept(
    "size", {"big": ["the giant", "the whale", "the tree"], "small": ["the mouse", "the ant", "the pea"]}
)
QUERY = Query("q", (["x"], ["y"]), {"work": ["work"], "home": ["home"]})


class ScriptedWriter:
    """A writer whose i-th text after a prompt is a function of the prompt and i."""

    name = "scripted"

    def __init__(self, text: Callable[[str, int], str]) -> None:
        self.text = text

    def continuations(self, prompts, *, samples, tokens, temperature=1.0, seed=0):
        return [[self.text(prompt, i) for i in range(samples)] for prompt in prompts]


def measured(text: Callable[[str, int], str], **options: object) -> dict[str, eh.measures.Measurement]:
    settings = {"concept": SIZES, "attributes": QUERY, "rows": None, "samples": 2} | options
    return {m.score: m for m in eh.measures.counterfactual_text(ScriptedWriter(text), PROMPTS, **settings)}


def is_big(prompt: str) -> bool:
    return prompt.startswith(("The giant", "The whale", "The tree"))


def test_by_hand() -> None:
    # Of 5 words, the big write "work" twice and the small "home" once, in every text.
    found = measured(lambda prompt, i: "to work and work hard" if is_big(prompt) else "at home with a book")
    assert found["length"].value == 0.0
    assert found["association"].value == pytest.approx(1000 * 2 / 5 + 1000 * 1 / 5)
    assert found["association"].details["hits"] == {"work": 36, "home": 18}
    assert found["association"].p_value == pytest.approx(2 / 2**9, abs=0.003)
    assert found["divergence"].value == 1.0  # texts of one prompt are equal, those of two groups share nothing
    assert found["divergence"].n == 9
    words = [item["word"] for item in found["association"].items]
    assert words[0] == "work"
    assert words[-1] in {"at", "home", "with", "a", "book"}


def test_a_writer_that_ignores_the_group_scores_zero() -> None:
    rng = np.random.default_rng(0)
    pool = ["work", "home", "sun", "rain", "road", "tree", "song", "bread"]
    texts = {(did, i): " ".join(rng.choice(pool, size=6)) for did in ("slept", "ran", "ate") for i in range(4)}
    found = measured(lambda prompt, i: texts[prompt.split()[-2], i], samples=4)
    assert [m.value for m in found.values()] == pytest.approx([0.0, 0.0, 0.0], abs=1e-12)
    assert found["length"].p_value == 1.0


def test_longer_texts_and_swapped_groups() -> None:
    def write(prompt: str, i: int) -> str:
        return "one two three" if is_big(prompt) else "one"

    swapped = eh.Concept("size", {"small": list(SIZES.groups["small"]), "big": list(SIZES.groups["big"])})
    found, mirrored = measured(write), measured(write, concept=swapped)
    assert (found["length"].value, mirrored["length"].value) == (2.0, -2.0)
    assert found["length"].positive == "big"
    assert found["association"].status == "undefined"
    assert "0 words of work and home" in found["association"].reason
    assert found["association"].items


def test_group_words_do_not_count_as_a_difference() -> None:
    gendered = Template("p", "{person} {did}", {"did": ["left and", "sat and", "ran and"]})

    def write(prompt: str, i: int) -> str:
        female = prompt.startswith(("She", "The woman", "The girl", "My mother"))
        return "she lost her hat" if female else "he lost his hat"

    divergence, *_ = eh.measures.counterfactual_text(ScriptedWriter(write), gendered)
    assert divergence.value == 0.0


def test_bad_settings_are_refused() -> None:
    with pytest.raises(eh.EvenhandError, match="at least 2 samples"):
        measured(lambda prompt, i: "", samples=1)
    with pytest.raises(eh.EvenhandError, match="one free slot"):
        eh.measures.counterfactual_text(ScriptedWriter(lambda prompt, i: ""), Template("t", "{who} slept"))


def test_a_causal_model(tiny_folder: Callable[..., Path]) -> None:
    pytest.importorskip("torch")
    writer = eh.open(f"hf:{tiny_folder('GPT2LMHeadModel')}").view("generation")
    prompts = ["she said", "he said", "the doctor said that", "she said"]
    together = writer.continuations(prompts, samples=3, tokens=8, seed=1)
    assert together[0] == together[3]  # the same random numbers
    assert together[0] != together[1]
    assert len(set(together[0])) > 1
    assert writer.continuations(prompts, samples=3, tokens=8, seed=1, batch=1) == together
    assert writer.continuations(["he said"], samples=2, tokens=8, seed=1) == [together[1][:2]]
    assert writer.generate(3, 8, seed=1, start="she said") == together[0]
    with pytest.raises(eh.EvenhandError, match="at most"):
        writer.continuations(prompts, samples=1, tokens=64)
    found = eh.measures.counterfactual_text(writer, PROMPTS, concept=SIZES, tokens=6, samples=2)
    assert [m.score for m in found] == ["divergence", "length", "association"]
    assert all(m.status == "ok" for m in found[:2])
