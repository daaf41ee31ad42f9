"""Write what the registries know into docs/measures and docs/methods, between `<!-- facts -->` and `<!-- end -->`.

    python scripts/registry_pages.py

The text around these blocks is written by hand and kept. A measure or method without a page gets one with the facts
only, and the tests then ask for the sections that are missing.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path

from evenhand import measures, mitigations
from evenhand.data.citations import bibtex, short_citation
from evenhand.measures.registry import ARROWS, FAMILIES, Info

DOCS = Path(__file__).resolve().parents[1] / "docs"
BLOCK = re.compile(r"<!-- (facts|parameters|list) -->\n.*?<!-- end -->", re.DOTALL)
IDEALS = {
    "zero": "zero is ideal",
    "lower": "lower is better",
    "higher": "higher is better",
    "one": "1 is ideal",
    "fifty": "50 % is ideal",
}
VIEWS = {
    "vectors": "word vectors",
    "sentences": "a sentence encoder",
    "likelihood": "a language model",
    "inference": "an NLI model",
    "labels": "a text classifier",
    "text": "a corpus",
    "generation": "a model that writes text",
    "chat": "a chat model",
    "outcomes": "a table of predictions",
}
NEEDS = {"": "", "masked-lm": ", masked only", "causal-lm": ", causal only"}
FAMILY_TITLES = {
    "association": "Association of word sets",
    "geometry": "Geometry of word vectors",
    "sentences": "Sentence encoders",
    "inference": "Inference",
    "likelihood": "Language models",
    "chat": "Answers of chat models",
    "labels": "Classifiers",
    "text": "Text",
    "outcomes": "Decisions about groups",
    "quality": "Quality: what a mitigation costs",
}
GROUPS = {
    "projection": "Projections",
    "erasure": "Erasure",
    "alignment": "Alignment",
    "steering": "Steering",
    "training": "Training",
    "text": "Text",
    "decoding": "Decoding",
    "outcomes": "Decisions",
}


def cell(text: str) -> str:
    """Return text for one cell of a Markdown table."""
    return re.sub(r"(?<!\\)\|", r"\\|", " ".join(text.split()))


def table(rows: list[tuple[str, str]]) -> str:
    """Return a table of two columns without empty rows; its first row is the heading."""
    lines = [f"| {cell(name)} | {cell(value)} |" for name, value in rows if value]
    return "\n".join([lines[0], "|---|---|", *lines[1:]])


def measure_facts(id: str) -> str:
    """Return the facts of a measure: what it takes, which way is better, formula, reading and limits."""
    info = measures.info(id)
    scores = ", ".join(f"`{score}`: {IDEALS[better]}" for score, better in info.scores.items())
    rows = [
        ("id", f"`{info.id}`"),
        ("measures", f"{VIEWS[info.view]}{NEEDS[info.needs]} (view `{info.view}`)"),
        ("better", f"{ARROWS[info.better]} ({IDEALS[info.better]}){'; ' + scores if scores else ''}"),
        ("expected without bias", expected(info)),
        ("concepts", ", ".join(f"`{name}`" for name in info.concepts) or "any"),
        ("asked by default", ", ".join(f"`{name}`" for name in info.queries)),
        ("data set", ", ".join(f"`evenhand fetch {name}`" for name in info.data)),
        ("papers", "; ".join(short_citation(key) for key in info.cites)),
    ]
    formula = f"```text\n{wrapped(info.formula)}\n```"
    return (
        f"{table(rows)}\n\n{formula}\n\n**How to read it.** {info.reading}\n\n**What it does not tell.** {info.limits}"
    )


def expected(info: Info) -> str:
    """Return the value that a measure is tested against, or say that there is none."""
    if isinstance(info.null, float | int):
        return f"{info.null:g}"
    if info.null:
        return ", ".join(f"`{score}` {value:g}" for score, value in info.null.items())
    return "no fixed value: compare with the same measure before, or with the baseline in the details"


def wrapped(text: str, width: int = 100) -> str:
    """Return a formula with a new line after each part that a semicolon or two blanks end, where it is long."""
    if len(text) <= width:
        return text
    return "\n".join(part.strip() for part in re.split(r"(?<=;) |,  |(?<=,) (?=[a-z]\(\w)", text))


def measure_parameters(id: str) -> str:
    """Return the call, the parameters with their defaults, and the BibTeX entries of a measure."""
    function = measures.get(id)
    explained = documented(inspect.getdoc(function) or "")
    rows = []
    for name, parameter in list(inspect.signature(function).parameters.items())[1:]:
        default = "" if parameter.default is parameter.empty else default_text(parameter.default)
        rows.append(f"| `{name}` | {cell(default)} | {cell(explained.get(name, ''))} |")
    call = f"`eh.measures.{function.__name__}({next(iter(inspect.signature(function).parameters))}, ...)`"
    lines = ["## Parameters", "", call, "", "| | default | |", "|---|---|---|", *rows]
    return "\n".join(lines) + "\n\n" + references(measures.info(id).cites)


def default_text(value: object) -> str:
    """Return a default value as code; a long one is shortened."""
    text = repr(value)
    return f"`{text if len(text) <= 40 else text[:36] + ' ...'}`"


def documented(text: str) -> dict[str, str]:
    """Return the meaning of each argument of a Google docstring."""
    found = re.search(r"Args:\n(.*?)(?:\n\n|\Z)", text, re.DOTALL)
    entries = re.findall(r"^ {4}(\w+): (.*?)(?=^ {4}\w|\Z)", found.group(1) + "\n" if found else "", re.DOTALL | re.M)
    return {name: " ".join(meaning.split()) for name, meaning in entries}


def method_facts(id: str) -> str:
    """Return the facts of a method: what it changes, its formula and its limits."""
    method = mitigations.get(id)
    rows = [
        ("id", f"`{id}`"),
        ("works on", " and ".join(target.title for target in method.works_on)),
        ("family", GROUPS[family_of(id)].lower()),
        ("papers", method.citation),
    ]
    explanation = (inspect.getdoc(method) or "").partition("\n\n")[0]
    summary = " ".join(explanation.split())
    formula = f"```text\n{method.formula}\n```"
    return f"{table(rows)}\n\n{summary}\n\n{formula}\n\n**What it does not do.** {method.limits}"


def method_parameters(id: str) -> str:
    """Return the parameters of a method and its BibTeX entries."""
    method = mitigations.get(id)
    rows = [
        f"| `{parameter.name}` | {cell(default_text(parameter.default))} | {cell(parameter.doc)} |"
        for parameter in method.parameters()
    ]
    call = f'`eh.mitigations.get("{id}")(...)` or `eh.mitigations.{method.__name__}(...)`'
    lines = ["## Parameters", "", call, "", "| | default | |", "|---|---|---|", *rows]
    return "\n".join(lines) + "\n\n" + references(method.cites)


def family_of(id: str) -> str:
    """Return the family of a method, which is its folder."""
    return mitigations.get(id).__module__.split(".")[2]


def references(keys: tuple[str, ...]) -> str:
    """Return BibTeX entries under a heading."""
    entries = "\n\n".join(bibtex(key) for key in keys)
    return f"## References\n\n```bibtex\n{entries}\n```" if keys else ""


def measure_list() -> str:
    """Return one table of measures for each family."""
    parts = []
    for family in FAMILIES:
        found = [info for id in measures.ids() if (info := measures.info(id)).family == family]
        rows = [f"| [{info.id}]({info.id}.md) | {info.title} | {ARROWS[info.better]} | {info.view} |" for info in found]
        head = ["| | | better | view |", "|---|---|---|---|"]
        parts.append("\n".join([f"## {FAMILY_TITLES[family]}", "", *head, *rows]))
    return "\n\n".join(parts)


def method_list() -> str:
    """Return one table of methods for each family."""
    parts = []
    for family, title in GROUPS.items():
        found = [mitigations.get(id) for id in mitigations.ids() if family_of(id) == family]
        rows = [f"| [{method.id}]({method.id}.md) | {method.title} | {method.citation} |" for method in found]
        parts.append("\n".join([f"## {title}", "", "| | | |", "|---|---|---|", *rows]))
    return "\n\n".join(parts)


def measure_calls() -> str:
    """Return a directive of mkdocstrings for every measure."""
    functions = [measures.get(id) for id in measures.ids()]
    return "\n\n".join(f"::: {function.__module__}.{function.__name__}" for function in functions)


def method_calls() -> str:
    """Return a directive of mkdocstrings for every method."""
    classes = [mitigations.get(id) for id in mitigations.ids()]
    return "\n\n".join(f"::: {method.__module__}.{method.__name__}" for method in classes)


def filled(text: str, blocks: dict[str, Callable[[], str]]) -> str:
    """Return a page with its blocks written anew."""

    def replace(found: re.Match[str]) -> str:
        name = found.group(1)
        return f"<!-- {name} -->\n\n{blocks[name]()}\n\n<!-- end -->"

    return BLOCK.sub(replace, text)


def skeleton(title: str) -> str:
    """Return a page without text of its own."""
    return f"# {title}\n\n<!-- facts -->\n<!-- end -->\n\n<!-- parameters -->\n<!-- end -->\n"


def pages() -> dict[Path, str]:
    """Return every page of a measure or method as it should be."""
    found = {}
    kinds = (
        ("measures", measures.ids(), measure_facts, measure_parameters, measure_list),
        ("methods", mitigations.ids(), method_facts, method_parameters, method_list),
    )
    for folder, ids, facts, parameters, listing in kinds:
        for id in ids:
            path = DOCS / folder / f"{id}.md"
            title = measures.info(id).title if folder == "measures" else mitigations.get(id).title
            text = path.read_text(encoding="utf-8") if path.exists() else skeleton(title)
            found[path] = filled(
                text, {"facts": lambda id=id, f=facts: f(id), "parameters": lambda id=id, f=parameters: f(id)}
            )
        index = DOCS / folder / "README.md"
        found[index] = filled(index.read_text(encoding="utf-8"), {"list": listing})
    for name, calls in (("measures", measure_calls), ("methods", method_calls)):
        path = DOCS / "api" / f"{name}.md"
        found[path] = filled(path.read_text(encoding="utf-8"), {"list": calls})
    return found


if __name__ == "__main__":
    for path, text in pages().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
