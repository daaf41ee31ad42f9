"""Text that is safe to print: control characters, terminal escapes and bidirectional controls become visible.

Words, file names and messages of other programs may contain characters that a terminal interprets. `printable` is the
only place that decides which ones; error messages apply it to everything they contain, and so do charts and HTML pages.
"""

from __future__ import annotations

import re

# C0 and C1 controls except tab and line feed, bidirectional controls, line separators, lone surrogates, noncharacters
# that XML forbids: a carriage return overwrites a line, and U+202E reverses the text that follows.
UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufffe\uffff\ud800-\udfff]"
)


def printable(text: str) -> str:
    r"""Return the text with unsafe characters replaced by backslash escapes.

    >>> printable("\x1b[31mred")
    '\\x1b[31mred'
    """
    return (
        UNSAFE.sub(lambda match: match[0].encode("unicode_escape").decode(), text) if not text.isprintable() else text
    )


def escape_markup(text: str) -> str:
    """Return the text made printable, and escaped so that rich does not interpret it as markup."""
    from rich.markup import escape

    text = printable(text)
    body = text.rstrip("\\")
    # A backslash before the markup that follows the text would escape that markup.
    return escape(body) + "\\" * 2 * (len(text) - len(body))


def escape_html(text: str) -> str:
    """Return the text made printable, and escaped for HTML."""
    from html import escape

    return escape(printable(text))
