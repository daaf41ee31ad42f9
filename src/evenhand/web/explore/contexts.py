"""A word of a text: which group it co-occurs with more, and where it stands."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from evenhand import corpus, words
from evenhand.corpus.bias import WINDOW
from evenhand.corpus.counting.tokens import WORD
from evenhand.corpus.readers.source import Texts, TextSource
from evenhand.corpus.readers.stream import END, ReadLog
from evenhand.corpus.result import CorpusBias
from evenhand.errors import UsageError
from evenhand.web.fields import FormFields
from evenhand.web.offered import OfferedSubjects, concept_choices
from evenhand.web.worker import BoundedCache

PASTED = "pasted"
SHOWN = 20  # contexts
SCANNED = 20_000_000  # characters of a corpus in which contexts are looked for
TOP = 8
TEXT = """The nurse said she would call the doctor. He was late, and his patients waited.
The engineer showed his plans to the manager, and he liked them. She asked the engineer about the bridge.
The nurse helped her mother, and the doctor helped his father. The teacher read to her class while he wrote.
The manager said he would pay the engineer. The nurse and the teacher told their stories, and she laughed.
A doctor called her friend, a teacher, and she came at once. He thanked the nurse, and his manager smiled."""
TOKEN = re.compile(WORD)
_scored = BoundedCache(8)


def text_choices(offered: OfferedSubjects) -> dict[str, str]:
    """Return the corpora that the server was started with, and the text that the form holds."""
    corpora = {id: name for id, name in offered.names.items() if offered.subject(id).kind == "corpus"}
    return {**corpora, PASTED: "the text below"}


def example(offered: OfferedSubjects, fields: FormFields) -> dict[str, str]:
    """Return a few sentences."""
    first = next(iter(text_choices(offered)))
    return {"source": first, "concept": "gender", "word": "nurse", "text": TEXT}


def answer(offered: OfferedSubjects, fields: FormFields) -> dict[str, object]:
    """Return the score of a word, its contexts, and the words with the most evidence on either side."""
    chosen = fields.choice("source", text_choices(offered), PASTED)
    concept = fields.choice("concept", concept_choices(), "gender")
    word = fields.text("word", most=fields.limits.word).lower()
    if not TOKEN.fullmatch(word):
        raise UsageError("name a single word", hint="letters and digits, without blanks")
    source, result = _score(offered, fields, chosen, concept)
    groups = {member: name for name, members in result.groups.items() for member in members}
    scored = word in result.scores
    row = result.row(word) if scored else None
    return {
        "word": word,
        "result": result,
        "score": result.scores[word] if scored else None,
        "interval": result.interval(word),
        "evidence": float(result.evidence[row]) if row is not None else None,
        "occurrences": int(result.occurrences[row]) if row is not None else None,
        "counts": {
            name: float(result.cooccurrence[place][row]) for place, name in enumerate(result.groups) if row is not None
        },
        "is_group_word": groups.get(word, ""),
        "contexts": list(find_contexts(source, word, groups)),
        "window": WINDOW,
        "shown": SHOWN,
        "positive": [(name, value) for name, value in result.top(TOP)],
        "negative": [(name, value) for name, value in result.top(-TOP)],
    }


def _score(offered: OfferedSubjects, fields: FormFields, chosen: str, concept: str) -> tuple[TextSource, CorpusBias]:
    groups = words.concept(concept)
    if chosen == PASTED:
        text = fields.text("text", most=fields.limits.text)
        documents = [part for part in re.split(r"\n\s*\n", text) if part.strip()]
        if not documents:
            raise UsageError("there is no text", hint="paste some, or choose a corpus")
        source: TextSource = Texts(documents)
        return source, corpus.bias(source, groups, bootstrap=200 if len(documents) > 1 else 0)
    source = offered.subject(chosen).view("text").source()
    size = source.size
    if size is None or size > fields.limits.corpus_bytes:
        raise UsageError(
            f"{source.name} is larger than {fields.limits.corpus_bytes >> 20} MB", hint="use `evenhand corpus bias`"
        )
    key = (offered.subject(chosen).digest, concept)
    return source, _scored.get(key, lambda: corpus.bias(source, groups))


def find_contexts(source: TextSource, word: str, groups: dict[str, str]) -> Iterator[list[tuple[str, str]]]:
    """Yield the first contexts of a word: tokens, each with its role (the word itself, a group, or none)."""
    found = scanned = 0
    for document in _documents(source):
        tokens = TOKEN.findall(document)
        for place, token in enumerate(tokens):
            if token.lower() == word:
                around = range(max(0, place - WINDOW), min(len(tokens), place + WINDOW + 1))
                yield [(tokens[i], "word" if i == place else groups.get(tokens[i].lower(), "")) for i in around]
                found += 1
                if found == SHOWN:
                    return
        scanned += len(document)
        if scanned > SCANNED:
            return


def _documents(source: TextSource) -> Iterable[str]:
    """Yield the documents of a corpus; a long document comes in parts."""
    rest = ""
    for shard in source.shards():
        for fragment in source.fragments(shard, ReadLog(skip_bad=source.skip_bad)):
            *whole, rest = (rest + fragment).split(END)
            yield from whole
            if len(rest) > SCANNED:
                yield rest
                rest = ""
    if rest:
        yield rest
