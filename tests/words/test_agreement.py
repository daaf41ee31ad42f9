"""French sentences agree with their subject: articles, adjectives, participles, and the probe made of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import evenhand as eh
from evenhand.errors import UsageError
from evenhand.models.nli.protocol import Probabilities
from evenhand.words.grammar import agree, article, starts_with_vowel
from evenhand.words.probes import Filler, Probe, Surface, probe
from evenhand.words.template import Template


@pytest.mark.parametrize(
    ("text", "feminine", "masculine"),
    [
        ("Le/La juge est parti(e).", "La juge est partie.", "Le juge est parti."),
        ("Le/La artiste est seul(e).", "L'artiste est seule.", "L'artiste est seul."),
        ("Un/Une artiste heureux/heureuse", "Une artiste heureuse", "Un artiste heureux"),
        ("Ce/Cette élève est venu(e).", "Cette élève est venue.", "Cet élève est venu."),
        ("Le livre du/de la élève", "Le livre de l'élève", "Le livre de l'élève"),
        ("Il parle au/à la ministre.", "Il parle à la ministre.", "Il parle au ministre."),
        ("Le/La haut fonctionnaire", "La haut fonctionnaire", "Le haut fonctionnaire"),
        ("Un beau homme, un vieux ami", "Un bel homme, un vieil ami", "Un bel homme, un vieil ami"),
        ("LE/LA TÉMOIN", "LA TÉMOIN", "LE TÉMOIN"),
        ("rien à accorder", "rien à accorder", "rien à accorder"),
    ],
)
def test_everything_marked_agrees(text: str, feminine: str, masculine: str):
    assert agree(text, "feminine") == feminine
    assert agree(text, "masculine") == masculine


@pytest.mark.parametrize("word", ["homme", "huissier", "historien", "hôtesse", "héroïne", "avocat", "Élève", "œuvre"])
def test_articles_are_elided_before(word: str):
    assert starts_with_vowel(word)


@pytest.mark.parametrize(
    "word", ["héros", "hibou", "handballeur", "harpiste", "hockeyeur", "onze", "yaourt", "maire", "", "huit"]
)
def test_articles_are_not_elided_before(word: str):
    assert not starts_with_vowel(word)


def test_an_unknown_gender_is_refused():
    with pytest.raises(UsageError, match="unknown gender"):
        agree("Le/La", "neuter")
    with pytest.raises(UsageError, match="unknown gender"):
        Filler("chose", gender="f")


def test_a_french_article_needs_a_gender():
    with pytest.raises(UsageError, match="needs the gender"):
        article("juge", "french")


def test_a_filler_without_gender_is_named():
    template = Template("t", "Le/La {subject} est parti(e).", articles="french")
    with pytest.raises(UsageError, match="'ami' has no gender"):
        Probe(
            "p",
            (template,),
            (Filler("ami"),),
            (Filler("femme", gender="feminine"),),
            surface=Surface(articles="french"),
        )


def test_the_gender_of_a_filler_changes_the_digest_and_its_absence_does_not():
    english = probe("gender-occupation")
    assert english.digest == probe("gender-occupation").digest
    template = Template("t", "The {subject} left.")
    plain, marked = (
        Probe("p", (template,), (Filler("a", gender=gender),), (Filler("b"),)) for gender in ("", "feminine")
    )
    assert plain.digest != marked.digest


def test_the_shipped_probe_agrees_in_every_sentence():
    asked = probe("gender-activity-fr")
    assert asked.shape == (32, 40, 6)
    premises, hypotheses = asked.texts(asked.points(0, asked.n_pairs))
    for text in {*premises, *hypotheses}:
        assert "/" not in text
        assert "(" not in text
        assert text[0].isupper()
        feminine = any(word in text for word in ("personne", "femme", "fille", "dame"))
        for forms in (("content", "contente"), ("arrivé", "arrivée"), ("heureux", "heureuse"), ("Cet", "Cette")):
            words = text.replace(".", "").split()
            assert forms[0 if feminine else 1] not in words
    assert "L'individu qui soigne les malades est parti hier." in premises
    assert "La personne qui soigne les malades est partie hier." in premises
    assert "L'homme est parti hier." in hypotheses
    assert "Cette femme a acheté un livre." in hypotheses
    assert "Ce monsieur a acheté un livre." in hypotheses


class Reader:
    """A model that takes grammatical for social gender: entailment where the two sentences agree alike."""

    name = "reader"

    def predict(self, premises, hypotheses):
        feminine = [
            [("personne" in text or "femme" in text or "fille" in text or "dame" in text) for text in texts]
            for texts in (premises, hypotheses)
        ]
        alike = np.equal(*feminine)
        return Probabilities(np.where(alike[:, None], [0.9, 0.05, 0.05], [0.05, 0.05, 0.9]))


class Factorised(Reader):
    """A model that shares phrases, which sentences with agreement do not have."""

    def grids(self, probe):
        raise AssertionError("phrases are not shared")

    def out_of_vocabulary(self, words):
        return tuple(word for word in words if word == "inquiète")


def test_any_model_runs_it():
    result = eh.probe(Reader(), "gender-activity-fr", draws=0)
    assert result.n_pairs == 7_680
    assert result.to_dict()["net_neutral"] == pytest.approx(0.05)
    sampled = eh.probe(Reader(), "gender-activity-fr", sample=480, draws=0)
    assert sampled.to_dict()["net_neutral"] == pytest.approx(0.05)


def test_a_factorised_model_is_asked_pair_by_pair_and_misses_words_in_either_form():
    result = eh.probe(Factorised(), "gender-activity-fr", draws=0)
    assert result.n_pairs == 7_680 - 240
    assert result.coverage.missing == ("inquiet/inquiète",)


def test_a_probe_of_ones_own(tmp_path: Path):
    path = tmp_path / "mine.toml"
    path.write_text(
        '[probe.mine]\ntemplates = [{ text = "Le/La {subject} est tombé(e).", articles = "french" }]\n'
        'premise = [{ words = ["victime"], gender = "feminine" }]\n'
        'hypothesis = [{ words = ["homme"], gender = "masculine" }, { words = ["femme"], gender = "feminine" }]\n',
        encoding="utf-8",
    )
    pair = probe(path).pair(0)
    assert (pair.premise, pair.hypothesis) == ("La victime est tombée.", "L'homme est tombé.")
