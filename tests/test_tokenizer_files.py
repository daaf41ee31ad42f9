"""Tokenizer files of a few bytes that would take hours or all memory are refused; ordinary ones are opened once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evenhand import tokenizer_files
from evenhand.errors import FormatError
from evenhand.tokenizer_files import can_explode, check_tokenizer

USUAL = [
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}]*[\p{Ll}\p{M}]+(?i:'s|'t)?|\p{N}{1,3}|\s+",
    r"\p{N}{1,3}(?=(?:\p{N}{3})*(?:\P{N}|$))",
    " {2,}",
    r"[^\[\](\\]+",
]
EXPLODING = [
    "(a+)+$", r"(\s*\w+)*x", "((a|b)+c?)+", r"(?:a{1,50})*b", r"(a)\1", "a{5000}", "(?:(?:a)*)*", r"(?>a+)+b",
    r"(?<n>a|\g<n>b)", r"([^x]+)*y",
]  # fmt: skip


@pytest.mark.parametrize("pattern", USUAL)
def test_usual_expressions_are_not_tried(pattern: str) -> None:
    assert not can_explode(pattern)


@pytest.mark.parametrize("pattern", EXPLODING)
def test_expressions_that_can_take_exponential_time_are_known(pattern: str) -> None:
    assert can_explode(pattern)


def tokenizer(path: Path, **parts: Any) -> Path:
    content: dict[str, Any] = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
        "pre_tokenizer": {"type": "Whitespace"}, "post_processor": None, "decoder": None,
        "model": {"type": "WordLevel", "vocab": {"[UNK]": 0, "she": 1}, "unk_token": "[UNK]"},
    }  # fmt: skip
    path.write_text(json.dumps(content | parts))
    return path


def check(path: Path) -> None:
    check_tokenizer(path, json.loads(path.read_text()))


def split(pattern: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def test_an_ordinary_file_starts_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizer_files.subprocess, "run", lambda *a, **k: pytest.fail("a process was started"))
    for number, pattern in enumerate(USUAL):
        check(tokenizer(tmp_path / f"{number}.json", pre_tokenizer=split(pattern)))


def test_a_file_that_takes_no_time_is_tried_and_accepted(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    check(tokenizer(tmp_path / "t.json", pre_tokenizer=split(r"(?:[a-z]+ ?)+")))


@pytest.mark.parametrize(("limit", "value"), [("SECONDS", 1), ("MEMORY", 1 << 27)])
def test_a_file_that_takes_too_much_is_refused(
    limit: str, value: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tokenizers")
    monkeypatch.setattr(tokenizer_files, limit, value)
    added = [
        {"id": row, "content": f"{row:06}{'xyz' * 6}", "single_word": False, "lstrip": True, "rstrip": True,
         "normalized": True, "special": False}
        for row in range(190_000)
    ]  # fmt: skip
    path = tokenizer(tmp_path / "t.json", added_tokens=added)
    with pytest.raises(FormatError, match=r"takes more than \d+ seconds or \d GB, because of 190,000 added tokens"):
        check(path)


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ({"added_tokens": [{}] * 200_001}, "adds 200,001 tokens"),
        ({"padding": {"strategy": {"Fixed": 1 << 40}, "direction": "Right"}}, "padding fills a text"),
        ({"padding": {"strategy": "BatchLongest", "pad_to_multiple_of": 1 << 30}}, "padding fills a text"),
        ({"post_processor": {"type": "TemplateProcessing", "single": [1] * 2000, "special_tokens": {"x": {"ids": [0] * 2000}}}},
         "template adds more than a million"),
    ],
)  # fmt: skip
def test_files_that_declare_too_much_are_refused(parts: dict[str, Any], says: str, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=says):
        check(tokenizer(tmp_path / "t.json", **parts))


def test_tokenizers_of_corpora_are_checked_alike(tmp_path: Path) -> None:
    from evenhand.corpus.counting.tokens import make_tokeniser

    steps = [{"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 50}] * 5
    path = tokenizer(tmp_path / "tokenizer.json", normalizer={"type": "Sequence", "normalizers": steps})
    with pytest.raises(FormatError, match=r"make more than 1,000 characters of one"):
        make_tokeniser(path)
