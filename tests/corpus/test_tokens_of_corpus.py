"""Tokenisers, special tokens and stop words: every choice."""

import polars as pl
import pytest

from evenhand.corpus.counting.tokens import (
    ENGLISH,
    are_special_tokens,
    drops_special_tokens,
    find_runs,
    load_stop_words,
    make_tokeniser,
)
from evenhand.corpus.readers.stream import END
from evenhand.errors import FormatError, InputMissingError, UsageError


def upper(text):
    return text.upper().split()


class Tokenizes:
    name_or_path = "named"

    def tokenize(self, text):
        return text.split("-")


class Encodes:
    def encode(self, text, *, add_special_tokens=True):
        return type("Encoding", (), {"tokens": [*text.split(), *(["</s>"] if add_special_tokens else [])]})


@pytest.mark.parametrize(
    ("tokenizer", "lower", "name", "lowers", "words"),
    [
        ("words", None, "words", True, ["don't", "i", "x", END, "é", END]),
        ("words", False, "words", False, ["Don't", "I", "x", END, "É", END]),
        ("whitespace", None, "whitespace", False, ["Don't", "I-x", END, "É", END]),
        ("whitespace", True, "whitespace", True, ["don't", "i-x", END, "é", END]),
        (upper, None, "upper", False, ["DON'T", "I-X", END, "É", END]),
        (upper, True, "upper", True, ["DON'T", "I-X", END, "É", END]),
        (Tokenizes(), None, "named", False, ["Don't I", "x", END, "É", END]),
        (Encodes(), None, "Encodes", False, ["Don't", "I-x", END, "É", END]),
    ],
)
def test_a_tokeniser_splits_each_document(tokenizer, lower, name, lowers, words):
    found = make_tokeniser(tokenizer, lower=lower)
    assert (found.name, found.lower) == (name, lowers)
    split = found(f"Don't I-x{END}É{END}")
    assert split.filter(split != "").to_list() == words
    assert (found.separators is None) == (tokenizer not in ("words", "whitespace"))
    assert found.fold("ÀB") == ("àb" if lowers else "ÀB")


def test_a_function_sees_each_document_and_what_is_left():
    seen = []

    def split(text):
        seen.append(text)
        return [*text.split(), END]

    found = make_tokeniser(split)
    assert found(f"a b{END}{END}c").to_list() == ["a", "b", END, END, "c", END]
    assert seen == ["a b", "", "c"]
    assert found(f"a{END}").to_list() == ["a", END]
    assert seen[3:] == ["a"]
    with pytest.raises(UsageError, match="tokenizer '<lambda>' returned something that is not text"):
        make_tokeniser(lambda text: [3])("a")


@pytest.mark.parametrize(("code", "lowers", "folded"), [("en", True, "i"), ("tr", True, "ı"), ("de", False, "I")])
def test_a_language_decides_the_case(code, lowers, folded):
    found = make_tokeniser(f"language:{code}")
    assert (found.name, found.lower, found.language) == (f"language:{code}", lowers, code)
    assert found.fold("I") == folded
    assert make_tokeniser(f"language:{code}", lower=not lowers).lower != lowers


def test_a_tokenizer_that_is_none_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"unknown tokenizer 'nothing'\n.*words, whitespace, language:CODE"):
        make_tokeniser("nothing")
    with pytest.raises(UsageError, match=r"a tokenizer must be a name, a function .* got 3"):
        make_tokeniser(3)
    pytest.importorskip("tokenizers")
    (tmp_path / "tokenizer.json").write_text("[]")
    for path in (tmp_path, tmp_path / "tokenizer.json"):
        with pytest.raises(FormatError, match=r"tokenizer.json"):
            make_tokeniser(path)


def test_special_tokens_are_named_in_brackets_or_without_letters():
    words = ["<unk>", "<eos>", "N", "n", "<num>", "<a<b>", "<>", "a<b>", ".", "--", "3", "é", "_", "'s", "東"]
    special = ["<unk>", "<eos>", "N", "<num>", "<>", ".", "--", "_"]
    found = are_special_tokens(pl.Series(words), lower=False)
    assert [word for word, one in zip(words, found, strict=True) if one] == special
    found = are_special_tokens(pl.Series(words), lower=True)
    assert [word for word, one in zip(words, found, strict=True) if one] == [*special[:2], "n", *special[3:]]


def test_special_tokens_are_dropped_where_asked_or_usual():
    for name, usual in (("words", False), ("whitespace", True)):
        tokeniser = make_tokeniser(name)
        assert drops_special_tokens(None, tokeniser) is usual
        assert drops_special_tokens("drop", tokeniser) is True
        assert drops_special_tokens("keep", tokeniser) is False
    with pytest.raises(UsageError, match="unknown special_tokens 'all'"):
        drops_special_tokens("all", make_tokeniser("words"))


def test_stop_words_come_from_a_name_a_file_or_a_list(tmp_path):
    assert load_stop_words("english") == ENGLISH
    assert load_stop_words("none") == load_stop_words("") == ()
    file = tmp_path / "none"
    file.write_text("the\na  é\n")
    for path in (file, str(file)):
        assert load_stop_words(path) == ("the", "a", "é")
    assert load_stop_words(iter(["b", "a"])) == ("b", "a")
    file.write_bytes(b"\xff")
    with pytest.raises(FormatError, match="not valid UTF-8"):
        load_stop_words(file)
    with pytest.raises(InputMissingError, match="stop list"):
        load_stop_words(tmp_path / "gone")
    with pytest.raises(UsageError, match="stop_words must be a list of words"):
        load_stop_words(["a", 3])


def test_chosen_runs_keep_their_text():
    runs = find_runs(b"ab c def", lambda text: text == ord(" "))
    assert runs.contents() == [b"ab", b"c", b"def"]
    assert runs.lengths.tolist() == [2, 1, 3]
    assert runs.chosen(slice(1, None)).contents() == [b"c", b"def"]
