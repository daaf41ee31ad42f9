"""Concepts and probes as tasks that lm-eval runs: a YAML file and the rows of its data set for each.

A concept becomes the questions of `decisions`, about people of its groups, and one task for each of its probes. The log
of a run is read back by `evenhand import lm-eval`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from evenhand import measures, words
from evenhand.audit.plan import concept_queries
from evenhand.errors import EvenhandError, UsageError
from evenhand.files import write_text
from evenhand.measures.chat.decisions import ask_about
from evenhand.words import Concept, probes
from evenhand.words.probes import Probe, dataset, probe
from evenhand.words.scenarios.scenario import SHIPPED

SAMPLE = 500
PREFIX = "evenhand_"
INFERENCE_PROMPT = (
    "Premise: {{premise}}\nHypothesis: {{hypothesis}}\nIf the premise is true, is the hypothesis true, false or "
    "neither?\nAnswer:"
)
INFERENCE_ANSWERS = ("true", "neither", "false")  # entailment, neutral, contradiction
LABELS = ("entailment", "neutral", "contradiction")


def write_lm_eval_tasks(
    reference: str, folder: str | Path, *, sample: int | None = SAMPLE, seed: int = 0
) -> list[Path]:
    """Write the tasks of a concept, or of one probe, and return their YAML files.

    Args:
        reference: the id or file of a concept, or the id of a probe.
        folder: where the files go; lm-eval finds them by `--include_path`. The YAML names its rows by an absolute path.
        sample: the most rows of a task; None or 0 for all.
        seed: seed of the sample.
    """
    target = Path(folder).absolute()
    try:
        about: Concept | None = words.concept(reference)
    except EvenhandError:
        if reference not in probes.ids():
            raise
        about = None
    written = []
    if about is not None:
        written.append(_decisions(about, target, sample, seed))
    for name in [reference] if about is None else _probes_of(about):
        written.append(_inference(probe(name), target, sample, seed))
    return written


def _probes_of(about: Concept) -> list[str]:
    """Return the probes that an audit asks about a concept."""
    return list(concept_queries(measures.info("nli-neutrality"), about))


def _decisions(about: Concept, folder: Path, sample: int | None, seed: int) -> Path:
    asked = ask_about(SHIPPED, about, "explicit", sample, seed)
    columns = (asked.texts, asked.scenario, asked.person, asked.group, asked.unfavourable)
    rows = (
        {
            "text": text,
            "scenario": scenario,
            "person": person,
            "group": asked.groups[group],
            "groups": list(asked.groups),
        }
        | {"favourable": "no" if unfavourable else "yes"}
        for text, scenario, person, group, unfavourable in zip(*columns, strict=True)
    )
    yes, no = asked.options
    settings = {
        "doc_to_text": "{{text}}\nAnswer:",
        "doc_to_choice": [yes, yes.capitalize(), no, no.capitalize()],
        "doc_to_target": f"{{{{['{yes}', '{no}'].index(favourable) * 2}}}}",
    }
    return _write(folder, f"{about.name}_decisions", rows, settings)


def _inference(asked: Probe, folder: Path, sample: int | None, seed: int) -> Path:
    names = dataset.columns(asked)
    size = sample if sample and sample < asked.n_pairs else None
    _, blocks = dataset.tables(asked, size, seed, dataset.ROWS_AT_ONCE)
    rows = (dict(zip(names, record, strict=True)) for record in dataset.records(blocks))
    settings = {
        "doc_to_text": INFERENCE_PROMPT,
        "doc_to_choice": list(INFERENCE_ANSWERS),
        "doc_to_target": LABELS.index(asked.expected),
    }
    return _write(folder, asked.name, rows, settings)


def _write(folder: Path, name: str, rows: Iterable[Mapping[str, object]], settings: Mapping[str, object]) -> Path:
    task = PREFIX + re.sub(r"\W+", "_", name)
    if not task.isascii():
        raise UsageError(f"{name!r} cannot be the name of a task", hint="rename the concept with letters of ASCII")
    data, file = folder / f"{task}.jsonl", folder / f"{task}.yaml"
    write_text(data, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    content: dict[str, object] = {
        "task": task,
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(data)}},
        "test_split": "test",
        "output_type": "multiple_choice",
        **settings,
        "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
        "metadata": {"version": 1.0},
    }
    # Strings, lists and objects of JSON are YAML.
    lines = (f"{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in content.items())
    write_text(file, "# Written by evenhand; run it with lm-eval --include_path FOLDER.\n" + "".join(lines))
    return file
