import json

import pytest

from evenhand import words
from evenhand.errors import EvenhandError, FormatError, InputMissingError, UnknownNameError, UsageError

GOOD = """
[source.me]
title = "My own"

[wordset.colours]
note = \"\"\"
Two of
them.\"\"\"
words = ["red", "blue"]

[wordset.more]
words = ["@colours", "green", "@@user"]

[pairs.mine]
poles = ["female", "male"]
pairs = [["she", "he"], ["her", "his"]]

[concept.mine]
limits = "a toy"
direction = { how = "pair", words = ["she", "he"] }
pairs = ["@mine"]
specific = ["@bolukbasi2016-gender-specific-seed", "lass"]
[concept.mine.groups]
female = ["@mine/first"]
male = { words = ["he", "his"], note = "spelt out" }

[query.mine]
targets = [["she"], ["he"]]
[query.mine.attributes]
good = ["@colours"]
bad = ["grey"]
"""


def write(folder, text, name="mine.toml"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_a_file_of_ones_own(tmp_path):
    path = write(tmp_path, GOOD)
    mine = words.concept(path)
    assert mine.name == "mine"
    assert list(mine.groups["female"]) == ["she", "her"]
    assert mine.groups["male"].note == "spelt out"
    assert mine.source.title == "My own"
    assert mine.direction == words.Recipe("pair", ("she", "he"))
    assert mine.pairs.poles == ("female", "male")
    assert len(mine.specific) == 219
    asked = words.query(str(path))
    assert asked.words == ("she", "he", "red", "blue", "grey")
    assert [group.name for group in asked.attributes] == ["good", "bad"]


def test_one_of_several_is_named_after_a_hash(tmp_path):
    path = write(tmp_path, GOOD)
    assert list(words.wordset(f"{path}#more")) == ["red", "blue", "green", "@user"]
    assert words.wordset(f"{path}#colours").note == "Two of them."
    with pytest.raises(UsageError, match="2 records of the kind wordset"):
        words.wordset(path)
    with pytest.raises(UsageError, match=r"0 records of the kind template(.|\n)*\[template.my-id\]"):
        words.template(path)
    with pytest.raises(UnknownNameError, match=r"mine.toml(.|\n)*colours"):
        words.wordset(f"{path}#colour")


def test_json_has_the_same_form(tmp_path):
    plain = {"pairs": {"p": {"pairs": [["a", "b"]]}}, "query": {"q": {"targets": [["a"]], "attributes": {"x": ["y"]}}}}
    path = write(tmp_path, json.dumps(plain), "mine.json")
    assert list(words.pairs(path)) == [("a", "b")]
    assert words.query(path).arity == (1, 1)


# Each: the text, what the error must say (with its line), and a part of the hint.
WRONG = {
    "unknown key": ('\n[wordset.a]\nword = ["x"]\n', "mine.toml:3: wordset.a.word: unknown key", "'words'"),
    "unknown kind": ('[wordsets.a]\nwords = ["x"]\n', "mine.toml:1: wordsets: unknown key", "'wordset'"),
    "missing key": ("[wordset.a]\n", "mine.toml:1: wordset.a: the key 'words' is missing", "add words = a list"),
    "wrong type": ('[wordset.a]\n\nwords = "x"\n', "mine.toml:3: wordset.a.words: must be a list, got 'x'", ""),
    "a number": ("[wordset.a]\nwords = [1]\n", "mine.toml:2: wordset.a.words: the list: 1 is not a word", "quotes"),
    "a huge number": (f"[wordset.a]\nwords = [0x{'f' * 9000}]\n", "wordset.a.words: the list: a huge int", "quotes"),
    "not a table": ("wordset = 3\n", "mine.toml:1: wordset: must be a table, got 3", ""),
    "empty list": ("[wordset.a]\nwords = []\n", "mine.toml:2: wordset.a.words: the list is empty", "fill it"),
    "empty word": ('[wordset.a]\nwords = ["x", ""]\n', "mine.toml:2: wordset.a.words: the list: contains an empty", ""),
    "stray blank": (
        '[wordset.a]\nwords = ["x "]\n',
        "mine.toml:2: wordset.a.words: 'x ' has surrounding white space",
        "verbatim",
    ),
    "repeated word": (
        '[wordset.a]\nwords = ["x", "x"]\n',
        "mine.toml:2: wordset.a.words: 'x' occurs twice",
        "verbatim",
    ),
    "repeated pair": ('[pairs.a]\npairs = [["x","y"],["x","y"]]\n', "pairs.a.pairs: ('x', 'y') occurs twice", ""),
    "duplicate id": ('[wordset.a]\nwords = ["x"]\n[wordset.a]\nwords = ["y"]\n', "mine.toml:3: not valid TOML", "once"),
    "long pair": ('[pairs.a]\npairs = [["x","y","z"]]\n', "mine.toml:2: pairs.a.pairs: the list: a pair is two", ""),
    "three poles": ('[pairs.a]\npoles=["x","y","z"]\npairs=[["x","y"]]\n', "mine.toml:2: pairs.a.poles: pairs 'a'", ""),
    "syntax": ('[wordset.a]\nwords = ["x"\ny\n', "mine.toml:3: not valid TOML", "toml.io"),
    "unfinished": ('[wordset.a]\nwords = ["x"\n', "not valid TOML", "toml.io"),
    "not utf-8": (b'[wordset.a]\nwords = ["\xff"]\n', "mine.toml:2: not UTF-8", "UTF-8"),
    "empty file": ("", "mine.toml:1: holds no record", "[wordset.my-list]"),
    "only a source": ('[source.a]\ntitle = "t"\n', "holds no record", "[wordset.my-list]"),
    "bad source": (
        '[wordset.a]\nsource = "b"\nwords = ["x"]\n',
        "mine.toml:2: wordset.a.source: there is no source",
        "",
    ),
    "no title": ('[source.a]\nyear = 2000\n[wordset.a]\nwords=["x"]\n', "mine.toml:1: source.a.title: a source", ""),
    "wrong year": ('[source.a]\nyear = true\n[wordset.a]\nwords=["x"]\n', "mine.toml:2: source.a.year: must be a", ""),
    "bad reference": (
        '[wordset.a]\nwords = ["@dev2019-verb"]\n',
        "mine.toml:2: wordset.a.words: there is no wordset",
        "verbs",
    ),
    "bad side": (
        '[wordset.a]\nwords = ["@gn-glove-pairs/left"]\n',
        "mine.toml:2: wordset.a.words: '@gn-glove",
        "/first",
    ),
    "circle": (
        '[wordset.a]\nwords=["@b"]\n[wordset.b]\nwords=["@a"]\n',
        "wordset.a: the list includes itself",
        "circle",
    ),
    "ragged rows": (
        '[wordset.a]\ncolumns = ["s"]\nrows = [["x"]]\n',
        "mine.toml:3: wordset.a.rows: a row is a word and 1",
        "",
    ),
    "infinite score": (
        '[wordset.a]\ncolumns = ["s"]\nrows = [["x", inf]]\n',
        "mine.toml:3: wordset.a.rows: scores",
        "",
    ),
    "ragged table": ('[table.a]\ncolumns = ["s"]\nrows = ["x y"]\n', "mine.toml:3: table.a.rows: table 'a': row 1", ""),
    "no attributes": ('[query.a]\ntargets = [["x"]]\n', "mine.toml:1: query.a: query 'a' has no attribute set", ""),
    "flat query": ('[query.a]\ntargets = ["x"]\n', "mine.toml:2: query.a.targets.1: must be a list, got 'x'", ""),
    "recipe": (
        '[concept.a]\ngroups = { b = ["x"] }\n\ndirection = { how = "odd" }\n',
        "mine.toml:4: concept.a.direction.how",
        "two-means",
    ),
    "positive": (
        '[concept.a]\npositive = "z"\ngroups = { b = ["x"] }\n',
        "mine.toml:2: concept.a.positive: concept 'a'",
        "",
    ),
    "template": ('[template.a]\ntext = "{x"\n', "mine.toml:2: template.a.text: template 'a'", "{word}"),
}


@pytest.mark.parametrize("case", WRONG)
def test_errors_name_file_key_and_line(tmp_path, case):
    text, said, hint = WRONG[case]
    path = write(tmp_path, text)
    with pytest.raises(FormatError) as caught:
        words.load_file(path)
    # load_file knows no other file; the shipped lists are behind wordset()
    if case in ("bad reference", "bad side"):
        with pytest.raises(FormatError) as caught:
            words.wordset(path)
    assert said in caught.value.message
    assert hint in caught.value.hint
    assert str(path) in caught.value.message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{\n"wordset": {"a": {"words": ["x"],}}}', "mine.json:2: not valid JSON"),
        ('{"wordset": {\n"a": {"words": ["x"]},\n"a": {"words": ["y"]}}}', "mine.json:3: a: occurs twice"),
        ('{"wordset": {\n"a": {\n"words": []}}}', "mine.json:3: wordset.a.words: the list is empty"),
        ("[1]", "mine.json:1: a word file contains named records"),
        ('{"wordset": {"a": {"words": ["\\ud800"]}}}', "lone surrogate"),
        ("[" * 100_000, "nested too deeply"),
        ('{"wordset": {"a": {"words": [' + "1" * 5000 + "]}}}", "not valid JSON"),
    ],
)
def test_errors_in_json_name_the_line_too(tmp_path, text, said):
    with pytest.raises(FormatError) as caught:
        words.load_file(write(tmp_path, text, "mine.json"))
    assert said in caught.value.message


def test_a_toml_file_nested_too_deeply(tmp_path):
    with pytest.raises(FormatError, match="nested too deeply"):
        words.load_file(write(tmp_path, "a = " + "[" * 100_000))


def test_a_missing_file_a_folder_and_a_foreign_suffix(tmp_path):
    with pytest.raises(InputMissingError, match=r"nowhere\.toml' does not exist"):
        words.concept(tmp_path / "nowhere.toml")
    (tmp_path / "folder.toml").mkdir()
    with pytest.raises(InputMissingError, match="folder"):
        words.concept(tmp_path / "folder.toml")
    with pytest.raises(FormatError, match=r"TOML or JSON(.|\n)*mine.toml"):
        words.load_file(tmp_path / "mine.yaml")


def test_verbatim_keeps_a_list_as_it_is_printed(tmp_path):
    path = write(tmp_path, '[wordset.a]\nverbatim = true\nwords = ["x", "x", "y "]\n')
    assert list(words.wordset(path)) == ["x", "x", "y "]


def test_a_byte_order_mark_and_windows_line_ends_are_harmless(tmp_path):
    path = write(tmp_path, b'\xef\xbb\xbf[wordset.a]\r\nwords = ["x"]\r\n')
    assert list(words.wordset(path)) == ["x"]


def test_every_record_of_a_file_is_checked(tmp_path):
    path = write(tmp_path, '[wordset.a]\nwords = ["x"]\n[pairs.b]\npairs = [["x"]]\n')
    with pytest.raises(EvenhandError, match=r"pairs\.b"):
        words.wordset(path)
