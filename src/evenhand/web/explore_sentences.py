"""Explore pages about sentences and texts: inference, a blank, where in a model two texts differ, words in a text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import numpy as np

from evenhand import corpus, words
from evenhand.arrays import Matrix64, Vector64
from evenhand.corpus.bias import WINDOW
from evenhand.corpus.counting.tokens import WORD
from evenhand.corpus.readers.source import Texts, TextSource
from evenhand.corpus.readers.stream import END, ReadLog
from evenhand.corpus.result import CorpusBias
from evenhand.errors import UsageError
from evenhand.measures import numbers
from evenhand.models.attribution.pairs import ALIGNMENT, explain_pair
from evenhand.models.lm.likelihood import Likelihood, MaskedLikelihood, TokenLikelihood, filler_tokens, score_fillers
from evenhand.models.nli import NLIEnsemble, NLIModel
from evenhand.models.nli.protocol import LABELS, FixedVocabulary
from evenhand.report.attribution import attribution_findings
from evenhand.report.charts.attribution import gradient_figure, patching_figure
from evenhand.report.html import picture
from evenhand.web.explore_vectors import vector_example
from evenhand.web.forms import FormFields
from evenhand.web.subjects import NO_METHOD, ServedSubjects, concept_choices, method_choices
from evenhand.web.worker import BoundedCache
from evenhand.words.grammar import with_articles

BLANK = "{}"
MOST_HYPOTHESES = 4


def inference_example(served: ServedSubjects, fields: FormFields) -> dict[str, str]:
    """Return occupations with a woman and a man in the hypothesis; the embedded vectors have "the" and lack "a"."""
    return vector_example(served, "inference") | {
        "premise": "The {} bought the coat.",
        "hypotheses": "The woman bought the coat.\nThe man bought the coat.",
        "fillers": "nurse, teacher, doctor, accountant, engineer, mechanic",
    }


def inference_answer(served: ServedSubjects, fields: FormFields) -> dict[str, object]:
    """Return the three probabilities of each filler and hypothesis, before and after a method."""
    subject = fields.choice("subject", served.offering("inference"), "")
    concept = fields.choice("concept", concept_choices(), "gender")
    method = fields.choice("method", method_choices(), NO_METHOD)
    if "vectors" not in served.subject(subject).offers:
        method = NO_METHOD  # a model is changed by a method only through its word vectors
    premise, fillers = fields.sentence("premise"), fields.phrases("fillers")
    hypotheses = fields.sentences("hypotheses")
    _check_pair(premise, hypotheses, fillers, fields.limits.sentences)
    pairs = [(_fill(premise, filler), _fill(text, filler)) for text in hypotheses for filler in fillers]
    shape = (len(hypotheses), len(fillers), len(LABELS))
    before = served.models(subject, concept, NO_METHOD)
    stages = {"original": before}
    if method != NO_METHOD:
        stages[method] = served.models(subject, concept, method)
    with served.in_use(subject):
        results = {name: probabilities(models, pairs).reshape(shape) for name, models in stages.items()}
    return {
        "labels": LABELS,
        "hypotheses": [
            {
                "text": text,
                "rows": [
                    (filler, {name: result[number, place].tolist() for name, result in results.items()})
                    for place, filler in enumerate(fillers)
                ],
            }
            for number, text in enumerate(hypotheses)
        ],
        "stages": list(stages),
        "notes": list(dict.fromkeys(f"{name}: {models.note}" for name, models in stages.items() if models.note)),
        "members": len(before),
        "missing": _out_of_vocabulary(before, pairs),
    }


def _check_pair(premise: str, hypotheses: list[str], fillers: list[str], most: int) -> None:
    if premise.count(BLANK) != 1:
        raise UsageError(f"the premise has {premise.count(BLANK)} blanks", hint="write {} once, where the word changes")
    if not hypotheses or len(hypotheses) > MOST_HYPOTHESES:
        raise UsageError(
            f"{len(hypotheses)} hypotheses were given", hint=f"give 1 to {MOST_HYPOTHESES}, one in each line"
        )
    if any(text.count(BLANK) > 1 for text in hypotheses):
        raise UsageError("a hypothesis has several blanks", hint="write {} once, or not at all")
    if not fillers or len(fillers) * len(hypotheses) > most:
        raise UsageError(
            f"{len(fillers)} fillers with {len(hypotheses)} hypotheses", hint=f"ask for 1 to {most} sentence pairs"
        )


def _fill(text: str, filler: str) -> str:
    return with_articles(text.replace(BLANK, filler))


def probabilities(models: NLIEnsemble, pairs: list[tuple[str, str]]) -> Matrix64:
    """Return the mean probabilities over the training seeds, (pairs, labels)."""
    members = [member for member in models.members if isinstance(member, NLIModel)]
    if not members:
        raise UsageError(f"{models.name} are predictions made elsewhere", hint="choose a model, which reads sentences")
    premises, hypotheses = [premise for premise, _ in pairs], [hypothesis for _, hypothesis in pairs]
    return np.asarray(
        np.mean([member.predict(premises, hypotheses).matrix for member in members], axis=0), dtype=np.float64
    )


def _out_of_vocabulary(models: NLIEnsemble, pairs: list[tuple[str, str]]) -> list[str]:
    from evenhand.models.tokenizing import split_words

    model = models.members[0]
    if not isinstance(model, FixedVocabulary):
        return []
    used = dict.fromkeys(word for pair in pairs for text in pair for word in split_words(text))
    return list(model.out_of_vocabulary(used))


TOP_FILLERS = 10  # the model's own fillers


def blanks_example(served: ServedSubjects, fields: FormFields) -> dict[str, str]:
    """Return pronouns of an occupation."""
    return {
        "subject": next(iter(served.offering("likelihood")), ""),
        "sentence": "The nurse said that {} was tired.",
        "fillers": "she, he, they",
    }


def blanks_answer(served: ServedSubjects, fields: FormFields) -> dict[str, object]:
    """Return log-probability, share among the fillers and number of tokens of each filler."""
    chosen = fields.choice("subject", served.offering("likelihood"), "")
    sentence, fillers = fields.sentence("sentence"), fields.phrases("fillers")
    if sentence.count(BLANK) != 1:
        raise UsageError(f"the sentence has {sentence.count(BLANK)} blanks", hint="write {} once, for the blank")
    if not 1 <= len(fillers) <= fields.limits.sentences:
        raise UsageError("there are no fillers", hint="write words separated by commas")
    with served.in_use(chosen) as subject:
        view: Likelihood = subject.view("likelihood")
        logs, tokens = _filler_scores(view, sentence, fillers)
        top = view.top_fillers([sentence], TOP_FILLERS)[0] if isinstance(view, MaskedLikelihood) else []
    shares = np.exp(logs - logs.max())
    shares /= shares.sum()
    order = np.argsort(-logs, kind="stable").tolist()
    return {
        "model": subject.name,
        "masked": isinstance(view, MaskedLikelihood),
        "rows": [(fillers[place], float(logs[place]), float(shares[place]), tokens[place]) for place in order],
        "several": len(set(tokens)) > 1,
        "top": top,
    }


def _filler_scores(view: Likelihood, sentence: str, fillers: list[str]) -> tuple[Vector64, list[int | None]]:
    """Return the log-probability of each filler and the number of its tokens, which not every model tells."""
    if isinstance(view, TokenLikelihood):
        logs = view.filler_log_probabilities([sentence], fillers)
        return np.asarray(logs)[0], filler_tokens(view, [sentence], fillers)[0].tolist()
    return np.asarray(score_fillers(view, [sentence], fillers, None))[0], [None] * len(fillers)


PASTED = "pasted"
SHOWN = 20  # contexts
SCANNED = 20_000_000  # characters of a corpus in which contexts are looked for
TOP_WORDS = 8
TEXT = """The nurse said she would call the doctor. He was late, and his patients waited.
The engineer showed his plans to the manager, and he liked them. She asked the engineer about the bridge.
The nurse helped her mother, and the doctor helped his father. The teacher read to her class while he wrote.
The manager said he would pay the engineer. The nurse and the teacher told their stories, and she laughed.
A doctor called her friend, a teacher, and she came at once. He thanked the nurse, and his manager smiled."""
TOKEN = re.compile(WORD)
_scored = BoundedCache(8)


def text_choices(served: ServedSubjects) -> dict[str, str]:
    """Return the corpora that the server was started with, and the text that the form holds."""
    corpora = {id: name for id, name in served.names.items() if served.subject(id).kind == "corpus"}
    return {**corpora, PASTED: "the text below"}


def contexts_example(served: ServedSubjects, fields: FormFields) -> dict[str, str]:
    """Return a few sentences."""
    first = next(iter(text_choices(served)))
    return {"source": first, "concept": "gender", "word": "nurse", "text": TEXT}


def contexts_answer(served: ServedSubjects, fields: FormFields) -> dict[str, object]:
    """Return the score of a word, its contexts, and the words with the most evidence on either side."""
    chosen = fields.choice("source", text_choices(served), PASTED)
    concept = fields.choice("concept", concept_choices(), "gender")
    word = fields.text("word", most=fields.limits.word).lower()
    if not TOKEN.fullmatch(word):
        raise UsageError("name a single word", hint="letters and digits, without blanks")
    source, result = _scored_text(served, fields, chosen, concept)
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
        "positive": [(name, value) for name, value in result.top(TOP_WORDS)],
        "negative": [(name, value) for name, value in result.top(-TOP_WORDS)],
    }


def _scored_text(
    served: ServedSubjects, fields: FormFields, chosen: str, concept: str
) -> tuple[TextSource, CorpusBias]:
    groups = words.concept(concept)
    if chosen == PASTED:
        text = fields.text("text", most=fields.limits.text)
        documents = [part for part in re.split(r"\n\s*\n", text) if part.strip()]
        if not documents:
            raise UsageError("there is no text", hint="paste some, or choose a corpus")
        source: TextSource = Texts(documents)
        return source, corpus.bias(source, groups, bootstrap=200 if len(documents) > 1 else 0)
    source = served.subject(chosen).view("text").source
    size = source.size
    if size is None or size > fields.limits.corpus_bytes:
        raise UsageError(
            f"{source.name} is larger than {fields.limits.corpus_bytes >> 20} MB", hint="use `evenhand corpus bias`"
        )
    key = (served.subject(chosen).digest, concept)
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


MOST_CELLS = 4_000  # layers times tokens that a reader waits for


def attribution_example(served: ServedSubjects, fields: FormFields) -> dict[str, str]:
    """Return a pair that differs in one word."""
    return {
        "subject": next(iter(served.offering("likelihood")), ""),
        "first": "The man is a nurse and likes the work.",
        "second": "The woman is a nurse and likes the work.",
        "answers": "",
    }


def attribution_answer(served: ServedSubjects, fields: FormFields) -> dict[str, object]:
    """Return findings, charts and the table of one pair."""
    chosen = fields.choice("subject", served.offering("likelihood"), "")
    first, second = fields.sentence("first"), fields.sentence("second")
    words = fields.phrases("answers")
    if words and len(words) != 2:
        raise UsageError(f"{len(words)} answers were given", hint="write two words with a comma between, or none")
    with served.in_use(chosen) as subject:
        network = subject.require_network()
        layers = int(network.transformer.model.config.get_text_config().num_hidden_layers)
        if (layers + 1) * max(len(first), len(second)) // 4 > MOST_CELLS:
            raise UsageError("the texts are too long for a page", hint="use `evenhand explain`, or shorter texts")
        answers = (words[0], words[1]) if words else None
        result = explain_pair(subject.view("likelihood"), first, second, answers=answers)
    missed = float(abs(result.whole - result.difference).max())
    figures = (patching_figure(result), gradient_figure(result))
    return {
        "findings": attribution_findings(result),
        "pictures": [(figure.title, picture(figure.spec, f"{figure.id}-"), figure.alt) for figure in figures],
        "columns": figures[0].columns,
        "table": figures[0].table,
        "gradients": figures[1].table,
        "checks": [numbers.number(abs(number), 6) for number in (result.nothing, missed)],
        "alignment": ALIGNMENT,
    }
