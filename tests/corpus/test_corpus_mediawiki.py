"""Articles of a MediaWiki export: which pages count, and what is left of their markup."""

from __future__ import annotations

import bz2
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.corpus import Corpus, cooccurrence
from evenhand.corpus.readers import ReadLog
from evenhand.corpus.readers.archives import plain
from evenhand.errors import FormatError

PAGE = '  <page>\n    <title>{}</title>\n    <revision>\n      <text xml:space="preserve">{}</text>\n    </revision>\n  </page>\n'
HEAD = '<mediawiki>\n  <siteinfo>\n    <namespaces>\n      <namespace key="2">User</namespace>\n      <namespace key="0" />\n    </namespaces>\n  </siteinfo>\n'


def words(text: str) -> list[str]:
    return plain(text).split()


def documents(path: Path, **options: str) -> list[str]:
    corpus = Corpus(path, format="mediawiki", **options)
    return "".join(corpus.fragments(corpus.shards()[0], ReadLog())).split("\0")[:-1]


@pytest.mark.parametrize(
    ("markup", "left"),
    [
        ("a '''bold''' and ''slanted'' word", "a bold and slanted word"),
        ("a [[link]], [[target|another]] and [[Talk of it (x)|more]]s", "a link, another and mores"),
        ("a {{template|with {{another}} inside}} b", "a b"),
        ("a [[Image:x.jpg|thumb|the [[caption]] of it]] b [[Category:C]] [[fr:Mot]] [[category:d]]", "a b"),
        ("a [http://x.org/y shown text] b [http://x.org] http://x.org/z c", "a shown text b c"),
        ("a <!-- hidden\nlines --> b<ref name=x>source</ref> c <br/> <b>d</b> <ref name=x /> e", "a b c d e"),
        ("a <math>x^2</math> b &amp;nbsp; c", "a b &nbsp; c"),
        ("a\n{| class=x\n|-\n| cell || other\n|}\nb", "a b"),
        ("a\n| left of a table\nb", "a b"),
        ("== Heading ==\n* item", "== Heading == * item"),
        ("[[Star Wars: Episode IV]]", "Star Wars: Episode IV"),
    ],
)
def test_markup_becomes_running_text(markup: str, left: str) -> None:
    assert words(markup) == left.split()


def test_articles_count_and_other_pages_do_not(tmp_path: Path) -> None:
    pages = [("One", "first &lt;!-- x --&gt;&quot;text&quot;\nof [[two]] lines"), ("Old", "#REDIRECT [[One]]")]
    pages += [("User:Me", "about me"), ("Star: A Story", "a story"), ("Template:T", "a template")]
    path = tmp_path / "dump.xml"
    path.write_text(HEAD + "".join(PAGE.format(*page) for page in pages) + "</mediawiki>\n")
    assert [text.split() for text in documents(path)] == [["first", '"text"', "of", "two", "lines"], ["a", "story"]]


def test_windows_do_not_cross_articles(tmp_path: Path) -> None:
    path = tmp_path / "dump.xml.bz2"
    path.write_bytes(bz2.compress((HEAD + PAGE.format("A", "she sings") + PAGE.format("B", "he runs")).encode()))
    counts = cooccurrence(path, 5, format="mediawiki")
    assert counts.count("she", "sings") == 1
    assert counts.count("sings", "he") == 0


def test_a_file_that_stops_inside_an_article_counts_up_to_there(tmp_path: Path) -> None:
    path = tmp_path / "cut"
    path.write_text(HEAD + PAGE.format("A", "whole") + '<title>B</title>\n<text xml:space="preserve">half an\narticle')
    assert [text.split() for text in documents(path)] == [["whole"], ["half", "an", "article"]]
    path.write_text("")
    assert documents(path) == []


def test_broken_utf8_is_named_or_replaced(tmp_path: Path) -> None:
    path = tmp_path / "bad.xml"
    path.write_bytes((HEAD + PAGE.format("A", "caf@")).encode().replace(b"@", b"\xff"))
    with pytest.raises(FormatError, match=r"bad.xml: not valid UTF-8"):
        documents(path)
    assert documents(path, encoding_errors="replace") == ["caf\ufffd"]


@given(st.text(alphabet="ab{}[]|'<>!-=/ \n:", max_size=60))
def test_any_markup_ends_and_plain_text_stays(text: str) -> None:
    plain(text)
    calm = "".join(character for character in text if character in "ab \n")
    assert plain(calm) == calm
