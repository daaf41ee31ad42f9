"""Counting text of other languages: division into words, case, and the concept's own tokeniser."""

from __future__ import annotations

from pathlib import Path

import pytest

import evenhand as eh
from evenhand.corpus.counting.tokens import make_tokeniser
from evenhand.errors import UsageError


def counted(text: str, tokenizer: str, **options) -> list[str]:
    return make_tokeniser(tokenizer, **options)(text).to_list()


def test_text_is_divided_and_lower_cased_by_language():
    assert counted("IŞIK İçin", "language:tr") == ["ışık", "için"]
    assert counted("IŞIK", "language:tr", lower=False) == ["IŞIK"]
    assert counted("L'Infirmière", "language:fr") == ["l'", "infirmière"]
    assert counted("Die arme Ärztin hat einen Arm", "language:de")[-1] == "Arm"
    assert counted("a\0b\0", "language:fr") == ["a", "\0", "b", "\0"]


def test_an_unknown_code_is_refused():
    with pytest.raises(UsageError, match="language code"):
        make_tokeniser("language:Turkish")


def test_group_words_follow_the_case_of_their_language(tmp_path: Path):
    path = tmp_path / "metin.txt"
    path.write_text("IŞIK kadın güzel\nIRMAK erkek güçlü\n" * 20, encoding="utf-8")
    groups = {"female": ["KADIN"], "male": ["ERKEK"]}
    result = eh.corpus.bias(path, groups=groups, tokenizer="language:tr", stop_words=())
    assert result.hits == {"female": 20, "male": 20}
    assert result.params["tokenizer"] == "language:tr"
    assert "ışık" in result.scores


def test_a_french_concept_counts_french_words(tmp_path: Path):
    path = tmp_path / "texte.txt"
    texts = ("L'infirmière est une femme.\n", "L'ingénieur est un homme.\n")
    path.write_text("".join(text * 30 for text in texts), encoding="utf-8")
    mu, _ = eh.measures.corpus_bias(path, concept="gender-fr", permutations=0)
    assert mu.params["tokenizer"] == "language:fr"
    assert {"infirmière", "ingénieur"} <= {item["word"] for item in mu.items}


def test_japanese_text_has_no_blanks(tmp_path: Path):
    pytest.importorskip("fugashi")
    pytest.importorskip("unidic_lite")
    path = tmp_path / "text.txt"
    path.write_text("女性は歌手です。\n" * 30 + "男性は教授です。\n" * 30, encoding="utf-8")
    mu, _ = eh.measures.corpus_bias(path, concept="gender-ja", permutations=0)
    assert {"歌手", "教授"} <= {item["word"] for item in mu.items}
