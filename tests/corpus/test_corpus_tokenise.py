"""Tokenisers agree with the obvious slow way to do the same."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand import corpus
from evenhand.corpus.counting.tokens import ENGLISH, Vocabulary, load_stop_words, make_tokeniser
from evenhand.corpus.readers.stream import END
from evenhand.errors import FormatError, InputMissingError, UsageError


def words(name, text, **options):
    vocabulary = Vocabulary([END])
    ids = vocabulary.ids(make_tokeniser(name, **options)(text))
    known = vocabulary.words.to_list()
    return [known[i] for i in ids]


@given(st.text(max_size=60))
def test_whitespace_is_what_split_does(text):
    text = text.replace(END, "")
    assert words("whitespace", text) == text.split()


@given(st.text(alphabet="aé東1_'’ -.\n", max_size=40))
def test_words_are_runs_of_letters_joined_by_apostrophes(text):
    assert words("words", text, lower=False) == re.findall(r"\w+(?:['’]\w+)*", text)


def test_words_lower_case_unless_told():
    assert words("words", "She said: DON'T go.") == ["she", "said", "don't", "go"]
    assert words("words", "She", lower=False) == ["She"]
    assert words("whitespace", "She") == ["She"]
    assert words("whitespace", "She", lower=True) == ["she"]


def test_ends_of_documents_survive():
    for name in ("whitespace", "words", str.split):
        assert words(name, f"a{END}{END}b c{END}") == ["a", END, END, "b", "c", END]


def test_groups_and_stop_words_follow_the_case():
    b = corpus.bias(corpus.Texts(["She Nurse The he NURSE"]), {"F": ["SHE"], "M": ["He"]}, stop_words=["THE"])
    assert b.groups == {"F": ("she",), "M": ("he",)}
    assert set(b.scores) == {"nurse"}
    assert b.params["lower"] is True


def test_a_function_and_the_two_kinds_of_tokenizer_objects():
    class Transformer:
        name_or_path = "my-bert"

        def tokenize(self, text):
            return text.split("-")

    class Encoding:
        def __init__(self, text):
            self.tokens = text.split("-")

    class Fast:
        def encode(self, text, add_special_tokens):
            assert not add_special_tokens
            return Encoding(text)

    source = corpus.Texts(["she-nurse-he", "he-nurse"])
    for given_, name in (
        (lambda text: text.split("-"), "<lambda>"),
        (Transformer(), "my-bert"),
        (Fast(), "Fast"),
    ):
        b = corpus.bias(source, {"f": ["she"], "m": ["he"]}, tokenizer=given_)
        assert set(b.scores) == {"nurse"}
        assert b.params["tokenizer"] == name
        assert b.documents == 2


def test_unknown_tokenizers_are_refused():
    with pytest.raises(UsageError, match=r"'spaces'.*\n.*whitespace"):
        make_tokeniser("spaces")
    with pytest.raises(UsageError, match="a tokenizer must be"):
        make_tokeniser(3)
    with pytest.raises(UsageError, match="returned something that is not text"):
        corpus.bias(corpus.Texts(["a"]), {"f": ["she"], "m": ["he"]}, tokenizer=lambda text: [1, 2])


def test_vocabulary_numbers_words_in_order_and_forgets_nothing():
    import polars as pl

    vocabulary = Vocabulary([END, "she"])
    assert vocabulary.ids(pl.Series(["x", "she", "", "y"])).tolist() == [2, 1, 3]
    assert vocabulary.ids(pl.Series(["y", "z"])).tolist() == [3, 4]
    assert vocabulary.words.to_list() == [END, "she", "x", "y", "z"]


def test_load_stop_wordss(tmp_path):
    assert load_stop_words("english") == ENGLISH
    assert {"the", "of", "n't"} <= set(ENGLISH)
    assert len(set(ENGLISH)) == len(ENGLISH)
    assert load_stop_words("none") == load_stop_words(()) == ()
    (tmp_path / "stop.txt").write_text("the of\nand")
    assert load_stop_words(str(tmp_path / "stop.txt")) == ("the", "of", "and")
    with pytest.raises(InputMissingError, match="stop list"):
        load_stop_words("englsh")
    with pytest.raises(UsageError, match="list of words"):
        load_stop_words([1])


def test_a_hugging_face_tokenizer_by_its_file_or_folder(tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel({"?": 0, "she": 1, "he": 2, "nurse": 3}, unk_token="?"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    file = tmp_path / "tokenizer.json"
    made.save(str(file))
    source = corpus.Texts(["she nurse he", "he ran"])
    for given_ in (str(file), str(tmp_path)):
        b = corpus.bias(source, {"f": ["she"], "m": ["he"]}, tokenizer=given_)
        assert set(b.scores) == {"nurse"}
        assert b.params["tokenizer"] == given_
        assert b.lost["zero_count"] == 1
    file.write_text("{}")
    with pytest.raises(FormatError, match=r"tokenizer\.json: not a tokenizer file"):
        make_tokeniser(str(file))
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match=r"unknown tokenizer '.*empty'\n.*tokenizer\.json"):
        make_tokeniser(str(tmp_path / "empty"))


class PanicException(BaseException):
    """What a panic of Rust code is in Python, by its name."""


@pytest.mark.parametrize("method", ["tokenize", "encode"])
@pytest.mark.parametrize("error", [PanicException("called `Option::unwrap()`\nat line 1"), ValueError("no unk token")])
def test_a_tokenizer_that_fails_or_panics_ends_in_a_sentence(method, error):
    def fail(self, text, **options):
        raise error

    tokenizer = type("Broken", (), {method: fail})()
    with pytest.raises(FormatError, match=r"the tokenizer fails \((called `Option::unwrap\(\)`|no unk token)\)"):
        corpus.bias(corpus.Texts(["she he"]), {"f": ["she"], "m": ["he"]}, tokenizer=tokenizer)


def test_an_interrupt_of_a_tokenizer_is_not_a_fault_of_its():
    def stop(self, text):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_tokeniser(type("Slow", (), {"tokenize": stop})())("she")
