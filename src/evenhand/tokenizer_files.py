"""Files of tokenizers that could exhaust time or memory: refused by what they say, or tried in a child process first.

The Rust code that opens a tokenizer and splits text cannot be stopped from Python. Ordinary files hold nothing that
grows: they are looked at and not tried, so they are opened once. A file with expressions that can take exponential
time, or with very many added tokens, is opened and used by a child with limits before this process opens it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from evenhand.errors import FormatError

MOST_GROWTH = 1000  # characters that one character may become; Unicode's own normal forms make 18 of one
MOST_PADDING = 1 << 20  # tokens that a text may be filled up to, or that a template may add to it
MANY_ADDED = 20_000  # added tokens; those of published models have up to about 6,000
MOST_ADDED = 200_000
MANY_REPEATS = 1000  # of {n} in an expression
LONG_WORD = 10_000  # characters; word pieces take time quadratic in it
SECONDS = 20  # of a processor, for opening a file and splitting short texts
MEMORY = 4 << 30  # bytes
HINT = "use the tokenizer that was saved with the model"
QUANTIFIER = re.compile(r"[*+]|\{(\d*)(,?)(\d*)\}")
PIECES = re.compile(r"\((?:\?[:=!>]|\?<[=!])?|\)(?:[*+]|\{\d*,?\d*\})?|[*+]|\{\d*,?\d*\}")
ESCAPE = re.compile(r"\\[pPx]\{[^}]*\}|\\.", re.DOTALL)
CALLS = re.compile(r"(?<!\\)(?:\\\\)*\\[1-9gk]|\(\?(?:R|&|P>|\()")
CHILD = """
import sys
try:
    import resource
    resource.setrlimit(resource.RLIMIT_CPU, (int(sys.argv[2]), int(sys.argv[2]) + 1))
    resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[3]), int(sys.argv[3])))
except ImportError:
    pass
from tokenizers import Tokenizer
try:
    tokenizer = Tokenizer.from_file(sys.argv[1])
    for text in ("She is a nurse, and he isn't.", "a" * 400, " " * 400, "a " * 200, "1" * 400, "a1! " * 100, "-" * 400):
        tokenizer.decode(tokenizer.encode(text).ids)
except BaseException as error:
    usual = isinstance(error, Exception) or type(error).__name__ == "PanicException"
    sys.exit(0 if usual and "memory" not in str(error).lower() and not isinstance(error, MemoryError) else 9)
"""


def check_tokenizer(path: Path, content: Mapping[str, object]) -> None:
    """Raise `FormatError` for a tokenizer.json that would take too much time or memory.

    Args:
        path: the file.
        content: what it holds.
    """
    if problem := _refusal(content):
        raise FormatError(f"{path}: {problem}", hint=HINT)
    if reason := _doubt(content):
        _try(path, reason)


def _refusal(content: Mapping[str, object]) -> str:
    """Return what makes a file unusable; empty if nothing does."""
    for part in ("normalizer", "pre_tokenizer", "decoder"):
        if _growth(content.get(part)) > MOST_GROWTH:
            return f"the replacements of its {part} make more than {MOST_GROWTH:,} characters of one"
    sizes = [value for _, value in _values(content.get("padding")) if isinstance(value, int)]
    if max(sizes, default=0) > MOST_PADDING:
        return f"its padding fills a text up to {max(sizes):,} tokens"
    added = content.get("added_tokens")
    if isinstance(added, list) and len(added) > MOST_ADDED:
        return f"it adds {len(added):,} tokens, at most {MOST_ADDED:,} are supported"
    lists = [len(value) for _, value in _values(content.get("post_processor")) if isinstance(value, list)]
    longest = sorted(lists, reverse=True)[:2]
    if len(longest) == 2 and longest[0] * longest[1] > MOST_PADDING:
        return "its template adds more than a million tokens to a text"
    return ""


def _doubt(content: Mapping[str, object]) -> str:
    """Return why a file is tried before it is opened; empty for ordinary files."""
    added = content.get("added_tokens")
    if isinstance(added, list) and len(added) > MANY_ADDED:
        return f"{len(added):,} added tokens"
    for name in ("normalizer", "pre_tokenizer", "decoder"):
        for key, value in _values(content.get(name)):
            if key == "Regex" and isinstance(value, str) and can_explode(value):
                return f"the expression {value[:60]!r} of its {name}"
    for key, value in _values({name: value for name, value in _items(content.get("model")) if name != "vocab"}):
        if key == "max_input_chars_per_word" and isinstance(value, int) and value > LONG_WORD:
            return f"words of up to {value:,} characters"
    return ""


def can_explode(pattern: str) -> bool:
    r"""Return whether an expression can take time exponential in the length of a text.

    It can where what is repeated without limit holds such a repetition itself, or where a group is called again.

    >>> [can_explode(pattern) for pattern in (r" ?\p{L}+|\s+(?!\S)", "(a+)+$", "(?:a|b)*", r"(a)\1", "a{5000}")]
    [False, True, False, True, True]
    """
    if CALLS.search(pattern):
        return True
    inner = [False]  # for each open group, whether it holds a repetition
    for piece in PIECES.findall(_without_classes(pattern)):
        if piece.startswith("("):
            inner.append(False)
        elif piece.startswith(")"):
            held, repeated = len(inner) > 1 and inner.pop(), QUANTIFIER.fullmatch(piece[1:])
            if held and repeated and _is_long(repeated):
                return True
            inner[-1] |= held or bool(repeated and _is_long(repeated))
        elif found := QUANTIFIER.fullmatch(piece):
            if found[1] and int(found[1][:9]) > MANY_REPEATS:
                return True
            inner[-1] |= _is_long(found)
    return False


def _without_classes(pattern: str) -> str:
    """Return an expression with a letter in place of each escape and each class of characters."""
    plain, depth = ESCAPE.sub("a", pattern), 0
    kept = []
    for letter in plain:
        depth += letter == "["
        if not depth:
            kept.append(letter)
        elif letter == "]":
            depth -= 1
            kept += [] if depth else ["a"]
    return "".join(kept)


def _is_long(found: re.Match[str]) -> bool:
    """Return whether a quantifier repeats without a low limit."""
    if found[0] in "*+":
        return True
    highest = found[3] if found[2] else found[1]
    return not highest or int(highest[:9]) > 10


def _growth(part: object) -> int:
    """Return how many characters a character can become in a step of a tokenizer and the steps inside it."""
    growth, left = 1, [part]
    while left and growth <= MOST_GROWTH:
        value = left.pop()
        if isinstance(value, dict):
            added = value.get("content", value.get("prepend"))
            growth *= (
                max(1, len(added)) if value.get("type") in ("Replace", "Prepend") and isinstance(added, str) else 1
            )
            left += value.values()
        elif isinstance(value, list):
            left += value
    return growth


def _items(value: object) -> list[tuple[str, object]]:
    return [(str(key), item) for key, item in value.items()] if isinstance(value, dict) else []


def _values(part: object) -> Iterator[tuple[str, object]]:
    """Yield every value inside a part, with the name that it has there."""
    left: list[tuple[str, object]] = [("", part)]
    while left:
        name, value = left.pop()
        yield name, value
        left += _items(value)
        left += [("", item) for item in value] if isinstance(value, list) else []


def _try(path: Path, reason: str) -> None:
    """Open and use a file in a child with limits."""
    environment = {
        **os.environ,
        "TOKENIZERS_PARALLELISM": "false",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    command = [sys.executable, "-c", CHILD, str(path), str(SECONDS), str(MEMORY)]
    try:
        done = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=10 * SECONDS, check=False
        )
        failed = done.returncode != 0
    except subprocess.TimeoutExpired:
        failed = True
    if failed:
        raise FormatError(
            f"{path}: opening it and splitting a short text takes more than {SECONDS} seconds or {MEMORY >> 30} GB, "
            f"because of {reason}",
            hint=HINT,
        )
