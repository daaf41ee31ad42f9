"""The form in which text passes from readers to tokenisers: one stream in which `END` closes each document."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

END = "\0"  # closes every document; readers let no other NUL through
PIECE = 1 << 20  # characters; larger pieces are no faster, smaller ones cost more calls
BREAKS = (" ", END, "\n", "\t")  # the most frequent one first, see `end_of_words`


def document(text: str) -> str:
    """Return a whole document with its closing mark."""
    return text.replace(END, " ") + END


def cut(fragments: Iterable[str], size: int = PIECE) -> Iterator[str]:
    """Yield the stream in pieces of about `size` characters, at most twice as many, that never end inside a word.

    A stretch without whitespace is held until its end, so that a word is whole however long it is.
    """
    held: list[str] = []
    length, enough = 0, size
    for part in _split(fragments, size):
        if not length and 2 * len(part) >= size and part.endswith(BREAKS):
            yield part  # without a copy
            continue
        held.append(part)
        length += len(part)
        if length < enough:
            continue
        text = "".join(held)
        end = end_of_words(text)
        if end:
            yield text[:end]
        held, length = [text[end:]], len(text) - end
        enough = max(size, 2 * length)  # doubling keeps the cost of a word of 100 MB linear
    if length:
        yield "".join(held)


def end_of_words(text: str, breaks: tuple[str, ...] = BREAKS) -> int:
    """Return the position behind the last break, or 0 if there is none."""
    end = 0
    for mark in breaks:
        end = max(end, 1 + text.rfind(mark, end))  # searches only what lies behind the breaks found before
    return end


def _split(fragments: Iterable[str], size: int) -> Iterator[str]:
    for fragment in fragments:
        if len(fragment) <= 2 * size:
            yield fragment
        else:
            yield from (fragment[start : start + size] for start in range(0, len(fragment), size))
