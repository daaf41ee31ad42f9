"""How much a browser may send and ask for. Every limit of the page is here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PageLimits:
    """Limits of one server.

    Attributes:
        body: bytes of a request body.
        query: characters of the part of an address after the question mark.
        fields: fields of a form or query.
        field: characters of a field.
        text: characters of a pasted text.
        words: words of a list.
        word: characters of a word or a filler.
        sentence: characters of a sentence.
        sentences: sentence pairs, or filled sentences, that a model reads for one answer.
        neighbours: neighbours shown of a word.
        runs: runs listed.
        compared: runs compared at once.
        methods: methods of an audit that the page starts.
        seconds: what an answer may take; the computation goes on, and its result is kept for the next request.
        waiting: computations that run or wait at once.
        body_seconds: time to send a request body.
        audit_seconds: what an audit started here may take.
        cached: fitted methods kept.
        cached_bytes: memory of the changed vectors kept.
        corpus_bytes: size of a corpus that the page scores.
    """

    body: int = 200_000
    query: int = 16_000
    fields: int = 60
    field: int = 4_000
    text: int = 100_000
    words: int = 60
    word: int = 60
    sentence: int = 300
    sentences: int = 240
    neighbours: int = 50
    runs: int = 200
    compared: int = 6
    methods: int = 4
    seconds: float = 15.0
    waiting: int = 12
    body_seconds: float = 10.0
    audit_seconds: float = 900.0
    cached: int = 12
    cached_bytes: int = 1 << 30
    corpus_bytes: int = 256 << 20
