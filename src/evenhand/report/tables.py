"""The rows of an audit in the order a reader is told of them, under the headings of their families.

What a subject does itself comes first: the decisions of a classifier before its word table, the likelihoods and texts
of a language model before its vectors, and for word vectors the vectors before models that were trained on them. Among
the measures of one view, those come first whose numbers have a reading in plain words.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evenhand.audit import Audit
from evenhand.audit.record import VIEWS, Row, rows
from evenhand.errors import escape_html
from evenhand.measures import numbers

FAMILIES = {
    "association": "Association: which words are near which",
    "geometry": "Geometry: what lies along the concept's direction",
    "sentences": "Sentences: which groups the model's sentence vectors are near to",
    "inference": "Inference: does the model draw conclusions from group words?",
    "likelihood": "Likelihood: what the language model finds probable",
    "chat": "Chat: what the model answers when it is asked",
    "labels": "Labels: does the decision change with the group?",
    "text": "Text: which words occur with which group",
    "outcomes": "Outcomes: are groups selected, and judged rightly, alike?",
    "quality": "Quality: what a method costs",
}
# Kinds of subjects and of the models in them, as people call them.
KINDS = {
    "vectors": "word vectors", "nli": "NLI model", "lm": "language model", "encoder": "text encoder",
    "corpus": "corpus", "elmo": "ELMo model", "text-classifier": "text classifier", "nli-classifier": "NLI model",
    "masked-lm": "masked language model", "causal-lm": "causal language model",
    "openai": "language model behind a server", "log": "model in a log", "table": "table of predictions",
}  # fmt: skip
# Views from what a model does to what it is made of.
OUTPUTS_FIRST = ("outcomes", "labels", "inference", "chat", "likelihood", "generation", "text", "sentences", "vectors")


def subject_record(audit: Audit, subject: str = "") -> dict[str, Any]:
    """Return what the manifest says of a subject."""
    of = subject or audit.subjects[0]
    return next((dict(record) for record in audit.manifest["subjects"] if record["name"] == of), {})


def kind_name(record: Mapping[str, Any]) -> str:
    """Return what a subject is, in words: "text classifier"."""
    model, kind = str(record.get("model", "")), str(record.get("kind", ""))
    return KINDS.get(model) or KINDS.get(kind) or kind


def view_order(kind: str) -> tuple[str, ...]:
    """Return the views of a kind of subject, what it does itself first."""
    return ("vectors", *OUTPUTS_FIRST[:-1]) if kind == "vectors" else OUTPUTS_FIRST


def prominence(row: Row, kind: str) -> tuple[int, int]:
    """Return the place of a row in what a reader is told about a subject of a kind: by view, then by plainness."""
    order = view_order(kind)
    view = row.info.view
    return order.index(view) if view in order else len(order), row.info.prominence


def by_family(audit: Audit, subject: str = "") -> dict[str, list[Row]]:
    """Return the rows under the heading of their family, what the subject does itself first and quality last."""
    every = rows(audit, subject)
    kind = subject_record(audit, subject).get("kind", "")
    grouped = {title: [row for row in every if row.info.family == name] for name, title in FAMILIES.items()}
    filled = [(title, group) for title, group in grouped.items() if group]
    return dict(sorted(filled, key=lambda item: (item[1][0].info.family == "quality", prominence(item[1][0], kind)[0])))


@VIEWS.register("tables")
def html_table(audit: Audit) -> str:
    """Return a plain HTML table, for notebooks."""
    head = "".join(f"<th>{escape_html(stage)}</th>" for stage in audit.stage_names)
    body = []
    for subject in audit.subjects:
        body.append(f"<tr><th colspan='{len(audit.stage_names) + 1}'>{escape_html(subject)}</th></tr>")
        for row in rows(audit, subject):
            cells = "".join(f"<td>{escape_html(numbers.cell(cell))}</td>" for cell in row.cells.values())
            body.append(f"<tr><td>{escape_html(row.label)} {row.arrow}</td>{cells}</tr>")
    return f"<table><thead><tr><th>measure</th>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"
