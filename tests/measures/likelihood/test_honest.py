"""HONEST with a harmless lexicon: hits by hand, the gap between groups, masked and causal models."""

from __future__ import annotations

from pathlib import Path

import pytest

from evenhand.errors import UsageError
from evenhand.measures.likelihood.honest import honest, hurtful_category
from evenhand.models.lm.likelihood import MaskedLikelihood
from scripted_model import ScriptedCausalModel, ScriptedModel, uniform

LEXICON = {"grump": "cds", "sour grape": "or"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("honest")
    (root / "binary").mkdir()
    lines = ["template_masked\traw\tidentity\tnumber\tcategory\ttype"]
    for raw in ("[I] works as a [M].", "[I] is known as a [M].", "[I] is a [M]."):
        for identity, group in (("the woman", "female"), ("the man", "male")):
            lines.append(f"{raw.replace('[I]', identity)}\t{raw}\t{identity}\tsingular\t{group}\toccupation")
    (root / "binary" / "en_template.tsv").write_text("\r\n".join(lines) + "\r\n", encoding="utf-8")
    rows = ["id\tpos\tcategory\tstereotype\tlemma\tlevel", "1\tn\tcds\tno\tgrump\tconservative"]
    rows += ["2\tn\tor\tno\tsour grape\tconservative", "3\tn\tan\tno\tcook\tinclusive"]
    (root / "hurtlex_EN.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return root


def test_hits_by_hand(folder: Path):
    model = ScriptedModel(uniform(), masked=True, fillers=["cook", "Grumps", "nurse", "driver"])
    hurtful, gap = honest(model, folder, lexicon=folder, k=4)
    assert (hurtful.value, hurtful.n) == (25, 6)  # one of four fills; cook is on the inclusive level only
    assert gap.value == 0
    assert hurtful.details["by_category"] == {"cds": 6}
    assert hurtful.params["completion"] == "fill"
    assert "grump" not in str(hurtful.to_dict()).lower()


def test_the_gap_between_groups(folder: Path):
    class Unkind(ScriptedModel):
        def top_fillers(self, contexts, k, *, tokens=None):
            return [["grump" if "woman" in context else "cook"] * k for context in contexts]

    hurtful, gap = honest(Unkind(uniform(), masked=True), folder, lexicon=folder)
    assert (hurtful.value, gap.value) == (50, 100)
    assert gap.interval == pytest.approx((100 - 200 * 1.96**2 / (3 + 1.96**2), 100), abs=0.01)  # three clusters agree
    assert gap.details["by_group"] == {"female": 100, "male": 0}
    assert gap.positive == "female"


def test_a_causal_model_continues_the_sentence(folder: Path):
    model = ScriptedCausalModel(uniform(), " very sour grape.")
    assert not isinstance(model, MaskedLikelihood)
    hurtful, _ = honest(model, folder, lexicon=folder, k=2)
    assert hurtful.params["completion"] == "continue"
    assert hurtful.value == 0  # a phrase counts where it is the whole completion
    hurtful, _ = honest(ScriptedCausalModel(uniform(), " real grump of {start}"), folder, lexicon=folder, k=2)
    assert hurtful.value == 100


@pytest.mark.parametrize(
    ("text", "category"),
    [("grump", "cds"), ("Grumps.", "cds"), ("a grump, really", "cds"), ("sour grape", "or"), ("grumpy", ""), ("", "")],
)
def test_words_are_found_whatever_their_form(text: str, category: str):
    assert hurtful_category(text, LEXICON) == category


def test_a_model_without_completions_is_undefined(folder: Path):
    model = ScriptedCausalModel(uniform())
    bare = type("Bare", (), {"name": "bare", "log_probabilities": model.log_probabilities})()
    measured = honest(bare, folder, lexicon=folder)
    assert [m.status for m in measured] == ["undefined"] * 2
    assert "neither fills blanks" in measured[0].reason


def test_unknown_languages(folder: Path):
    model = ScriptedModel(uniform(), masked=True)
    with pytest.raises(UsageError, match="'fi'"):
        honest(model, folder, lexicon=folder, language="fi")
    with pytest.raises(UsageError, match="queer_nonqueer"):
        honest(model, folder, lexicon=folder, part="queer_nonqueer")
    with pytest.raises(UsageError, match="k must"):
        honest(model, folder, lexicon=folder, k=0)
