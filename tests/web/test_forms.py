"""Fields stay within their limits."""

import pytest

pytest.importorskip("starlette", reason="the extra [web] is not installed")


from evenhand.errors import UsageError
from evenhand.web.forms import FormFields, PageLimits

SMALL = PageLimits(fields=4, field=50, words=3, word=6, sentence=20)


def parse(text: str) -> FormFields:
    return FormFields.parse(text, SMALL)


def test_words_are_split_and_kept_once() -> None:
    assert parse("w=a+b,a%0Ac;b").words("w") == ["a", "b", "c"]
    assert parse("").words("w") == []


def test_phrases_and_sentences_keep_their_blanks() -> None:
    assert parse("w=a++b,c%0Ad").phrases("w") == ["a b", "c", "d"]
    assert parse("w=a,+b%0A%0A+c").sentences("w") == ["a, b", "c"]


def test_the_last_value_counts_and_defaults_fill_gaps() -> None:
    assert parse("a=1&a=2").text("a") == "2"
    filled = parse("a=").with_defaults({"a": "x", "b": "y"})
    assert (filled.text("a"), filled.text("b")) == ("", "y")


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("w=a+b+c+d", lambda fields: fields.words("w")),
        ("w=abcdefg", lambda fields: fields.words("w")),
        ("w=" + "a" * 51, lambda fields: fields.text("w")),
        ("w=" + "a+" * 15, lambda fields: fields.sentence("w")),
        ("w=ok%0A" + "a" * 21, lambda fields: fields.sentences("w")),
        ("w=c", lambda fields: fields.choice("w", ["a", "b"], "a")),
        ("w=a&w=c", lambda fields: fields.choices("w", ["a", "b"], most=2)),
        ("w=a&w=b", lambda fields: fields.choices("w", ["a", "b"], most=1)),
        ("w=1e3", lambda fields: fields.number("w", 1, least=1, most=10)),
        ("w=-1", lambda fields: fields.number("w", 1, least=1, most=10)),
        ("w=11", lambda fields: fields.number("w", 1, least=1, most=10)),
        ("w=%D9%A3", lambda fields: fields.number("w", 1, least=1, most=10)),
    ],
)
def test_what_is_outside_the_limits_is_an_error(text: str, read: object) -> None:
    with pytest.raises(UsageError):
        read(parse(text))


def test_broken_forms_are_errors() -> None:
    with pytest.raises(UsageError, match="more than 4 fields"):
        parse("a&b&c&d&e")
    with pytest.raises(UsageError, match="UTF-8"):
        parse("a=%ff")
