"""lm-eval (the language model evaluation harness): read its results and samples, and write tasks that it runs.

A run writes `results_DATE.json`, and with `--log_samples` one `samples_TASK_DATE.jsonl` for each task beside it. A
sample has the row of the data set (`doc`), the continuations that were scored (`arguments`) and their log-likelihoods
(`filtered_resps`), as texts.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from evenhand import measures, words
from evenhand.audit import Question
from evenhand.audit.plan import concept_queries
from evenhand.audit.schema import UNREADABLE
from evenhand.errors import EvenhandError, FormatError, InputMissingError, UsageError, printable, shown
from evenhand.files import limited_lines, open_bytes, write_text
from evenhand.interop.logs import bias_sets
from evenhand.interop.logs.bias_sets import AnswerScores
from evenhand.interop.logs.run import LONGEST_LINE, Fields, LoggedRun, LoggedTask
from evenhand.measures import Measurement
from evenhand.measures.chat.decisions import ask_about
from evenhand.measures.likelihood.bbq_items import BBQItem
from evenhand.stats.multiplicity import NORMAL_95
from evenhand.words import Concept, probes
from evenhand.words.probes import Probe, dataset, probe
from evenhand.words.scenarios.scenario import SHIPPED

TOOL = "lm-eval"
ResultsFile: TypeAlias = dict[str, Any]  # as JSON gives it; what is used of it is checked first
DATE = re.compile(r"_(\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(?:\.\d+)?)\.json$")
LARGEST = 1e12  # of log-likelihoods and metrics; their squares are finite
MOST_FILES = 1_000  # results in one folder
# The coefficients of discrim-eval: against white, against male.
DISCRIMINATED = ("black", "asian", "hispanic", "native_american", "female", "non_binary")
NO_SAMPLES = "lm-eval's value and standard error: no samples were logged, so there is no paired comparison"


@dataclass(frozen=True)
class HarnessSample:
    """One line of a file of samples: the row of the data set, and the scored continuations."""

    number: int
    doc: Fields
    line: Fields

    def likelihoods(self) -> list[float]:
        """Return the log-likelihood of each continuation."""
        given = self.line.values.get("filtered_resps")
        try:
            values = [float(one[0] if isinstance(one, list) else one) for one in given]  # type: ignore[union-attr]
        except (TypeError, ValueError, IndexError, OverflowError):
            raise FormatError(
                f"{self.line.where}: filtered_resps is {shown(given)}, not a list of log-likelihoods",
                hint="the log is damaged, or the task wrote texts instead of scoring choices",
            ) from None
        if bad := [value for value in values if not abs(value) < LARGEST]:
            raise FormatError(f"{self.line.where}: {bad[0]:g} is no log-likelihood", hint="the log is damaged")
        return values

    def of_choices(self, count: int) -> list[float]:
        """Return the log-likelihoods of a sample that has a number of choices."""
        values = self.likelihoods()
        if len(values) != count:
            raise FormatError(f"{self.line.where}: {len(values)} log-likelihoods for {count} choices")
        return values

    def continuations(self) -> list[str]:
        """Return the texts that were scored."""
        arguments = self.line.fields("arguments")
        return [arguments.fields(name).text("arg_1").strip() for name in arguments.values]


LoggedRows: TypeAlias = list[tuple[Question, list[Measurement]]]


def _one(task: LoggedTask, rows: list[Measurement]) -> LoggedRows:
    return [(task.question(rows[0].measure), rows)]


def _crows_pairs(task: LoggedTask, samples: list[HarnessSample]) -> LoggedRows:
    pairs = [bias_sets.pair_of(sample.doc, sample.number) for sample in samples]
    scores = [(more, less) for more, less in (sample.of_choices(2) for sample in samples)]
    return _one(task, bias_sets.crows_pairs(task, pairs, scores))


def _winogender(task: LoggedTask, samples: list[HarnessSample]) -> LoggedRows:
    shares = bias_sets.shares_of_women()
    sentences = [bias_sets.winogender_sentence_of(sample.doc, shares) for sample in samples]
    scores = np.array([sample.of_choices(2) for sample in samples])
    return _one(task, bias_sets.winogender(task, sentences, scores[:, 0] - scores[:, 1]))


def _decisions(task: LoggedTask, samples: list[HarnessSample]) -> LoggedRows:
    return bias_sets.decisions(task, [bias_sets.decision_of(sample.doc, *_yes_and_no(sample)) for sample in samples])


def _own_decisions(task: LoggedTask, samples: list[HarnessSample]) -> LoggedRows:
    return _one(task, bias_sets.own_decisions(task, [(sample.doc, *_yes_and_no(sample)) for sample in samples]))


def _toxigen(task: LoggedTask, samples: list[HarnessSample]) -> LoggedRows:
    rows = []
    for sample in samples:
        yes, no = _yes_and_no(sample)
        rows.append((sample.doc, float(np.exp(yes - np.logaddexp(yes, no)))))
    return _one(task, bias_sets.toxigen(task, rows))


def _yes_and_no(sample: HarnessSample) -> tuple[float, float]:
    """Return the log-probabilities of yes and no; those of two spellings are added, as lm-eval does."""
    by_answer: dict[str, list[float]] = {}
    for text, value in zip(sample.continuations(), sample.likelihoods(), strict=False):
        by_answer.setdefault(text.lower(), []).append(value)
    if "yes" not in by_answer or "no" not in by_answer:
        raise FormatError(f"{sample.line.where}: yes and no were not scored", hint="the log is damaged")
    yes, no = (float(np.logaddexp.reduce(by_answer[name])) for name in ("yes", "no"))
    return yes, no


def _bbq(task: LoggedTask, samples: list[HarnessSample]) -> LoggedRows:
    written = any(_is_written(sample) for sample in samples)
    items, scores = [], []
    for sample in samples:
        doc = sample.doc
        answers = (doc.text("ans0"), doc.text("ans1"), doc.text("ans2"))
        label = doc.index("label", 3)
        item = bias_sets.bbq_item_of(doc, answers, label, doc.text("context"), doc.text("question"))
        items.append(item)
        scores.append(_written_answer(sample, item) if written else _scored_answers(sample, item))
    return _one(task, bias_sets.bbq(task, "bbq-chat" if written else "bbq", items, scores))


def _is_written(sample: HarnessSample) -> bool:
    """Return whether the answer is a text, as of `bbq_generate`."""
    given = sample.line.values.get("filtered_resps")
    return isinstance(given, list) and len(given) == 1


def _scored_answers(sample: HarnessSample, item: BBQItem) -> AnswerScores:
    """Return the score of each answer; lm-eval scores ten ways to say "unknown", of which the best one counts."""
    texts, values = sample.continuations(), sample.likelihoods()
    if len(texts) != len(values):
        raise FormatError(f"{sample.line.where}: {len(values)} log-likelihoods for {len(texts)} choices")
    people = {item.answers[place].strip(): place for place in range(3) if place != item.unknown}
    scores = [-math.inf] * 3
    for text, value in zip(texts, values, strict=True):
        place = people.get(text, item.unknown)
        scores[place] = max(scores[place], value)
    if not all(math.isfinite(score) for score in scores):
        raise FormatError(f"{sample.line.where}: not every answer was scored", hint="the log is damaged")
    return scores[0], scores[1], scores[2]


def _written_answer(sample: HarnessSample, item: BBQItem) -> AnswerScores:
    """Return the answer that lm-eval found in a text, from the counts that it logged for its bias score."""
    name = "disamb_bias_score" if item.condition == "disambig" else "amb_bias_score"
    counts = sample.line.values.get(name)
    if not isinstance(counts, list) or len(counts) != 4:
        raise FormatError(
            f"{sample.line.where}: {name} is {shown(counts)}, not four numbers", hint="the log is damaged"
        )
    right, biased, named = (value == 1 for value in counts[:3])
    other = [place for place in range(3) if place not in (item.unknown, item.target)]
    place = item.label if right else item.target if biased else other[0] if named and len(other) == 1 else None
    return bias_sets.chosen_answer(place)


@dataclass(frozen=True)
class BiasTask:
    """How a bias task is recognised and read: by the fields of its samples, or by its name without them.

    Attributes:
        measure: the measure that it becomes.
        fields: fields that its rows have.
        name: pattern of the names that lm-eval gives it.
        read: from samples to measurements.
        metrics: the metrics of lm-eval with the score and the factor of each, for logs without samples.
    """

    measure: str
    fields: tuple[str, ...]
    name: str
    read: Callable[[LoggedTask, list[HarnessSample]], LoggedRows]
    metrics: tuple[tuple[str, str, float], ...]


TASKS = (
    BiasTask("group-metrics", bias_sets.TOXIGEN_FIELDS, r"toxigen", _toxigen, ()),
    BiasTask("decisions", bias_sets.OWN_DECISION_FIELDS, r"(?!)", _own_decisions, ()),
    BiasTask(
        "crows-pairs", bias_sets.PAIR_FIELDS, r"crows_pairs(_.*)?", _crows_pairs, (("pct_stereotype", "", 100.0),)
    ),
    BiasTask(
        "bbq",
        bias_sets.BBQ_FIELDS,
        r"bbq(_(?!lite).*)?",
        _bbq,
        (
            ("amb_bias_score", "ambiguous-sum", 100.0),
            ("accuracy_amb", "accuracy-ambiguous-sum", 100.0),
            ("disamb_bias_score", "disambiguated-sum", 100.0),
            ("accuracy_disamb", "accuracy-disambiguated-sum", 100.0),
        ),
    ),
    BiasTask(
        "winogender", bias_sets.WINOGENDER_FIELDS, r"winogender(_.*)?", _winogender, (("acc", "accuracy", 100.0),)
    ),
    BiasTask(
        "decisions",
        bias_sets.DECISION_FIELDS,
        r"discrim_eval(_.*)?",
        _decisions,
        tuple((f"{name}_bias", f"gap:{name.replace('_', ' ')}", 1.0) for name in DISCRIMINATED),
    ),
)


def read_lm_eval(path: str | Path) -> LoggedRun:
    """Read the bias tasks of a file of results, or of all results of one model in a folder.

    Where a task is in several results, the newest counts.

    Raises:
        InputMissingError: If there are no results.
        FormatError: If a file is damaged, or none of lm-eval.
        UsageError: If a folder has results of several models.
    """
    results = [(file, _results(file)) for file in _result_files(Path(path))]
    models = {_model(content): file for file, content in results}
    if len(models) > 1:
        raise UsageError(
            f"{path} has results of {len(models)} models: {', '.join(list(models)[:5])}",
            hint=f"name the folder or the file of one, such as {next(iter(models.values()))}",
        )
    files: list[Path] = []
    warnings: list[str] = []
    measured: dict[str, LoggedRows] = {}
    left_out: dict[str, None] = {}
    for file, content in results:
        groups = set(content.get("groups") or {})
        for name in content["results"]:
            if name in measured or name in groups:
                continue
            task = LoggedTask(TOOL, printable(str(content.get("lm_eval_version") or "")), _model(content), name)
            found = _task(task, file, content, warnings)
            if found is None:
                left_out[printable(name)] = None
                continue
            measured[name], read = found
            files += [each for each in (file, *read) if each not in files]
    version = printable(str(results[0][1].get("lm_eval_version") or ""))
    others = [name for name in left_out if name not in measured]
    every = [pair for rows in measured.values() for pair in rows]
    return LoggedRun(TOOL, version, next(iter(models)), every, files, others, warnings)


def _task(
    task: LoggedTask, file: Path, content: ResultsFile, warnings: list[str]
) -> tuple[LoggedRows, list[Path]] | None:
    """Return the questions with their measurements, and the files of samples; None if the task is not read."""
    samples = _samples_file(file, task.task)
    counts = (content.get("n-samples") or {}).get(task.task) or {}
    if isinstance(counts, dict) and counts.get("effective") != counts.get("original"):
        warnings.append(f"{task.task}: lm-eval asked {counts.get('effective')} of {counts.get('original')} samples")
    if samples is None:
        known = next((one for one in TASKS if re.fullmatch(one.name, task.task)), None)
        if known is None:
            return None
        if not known.metrics:
            warnings.append(f"{task.task}: only samples say which group an answer is about; run it with --log_samples")
            return None
        warnings.append(f"{task.task}: {NO_SAMPLES}")
        return _one(task, _aggregated(task, known, content["results"][task.task], counts)), []
    known = None
    kept: dict[object, HarnessSample] = {}
    for sample in _samples(samples):
        known = known or next((one for one in TASKS if sample.doc.has(*one.fields)), None)
        if known is None:
            return None
        number = sample.line.values.get("doc_id", sample.number)
        if isinstance(number, list | dict) or kept.setdefault(number, sample) is not sample:
            raise FormatError(
                f"{sample.line.where}: doc_id {shown(number)} is there already, or no number",
                hint="two runs were written into one file: keep the lines of one",
            )
    if known is None:
        raise FormatError(f"{samples} has no samples", hint="run lm-eval again")
    asked = counts.get("effective") if isinstance(counts, dict) else None
    if asked is not None and asked != len(kept):
        warnings.append(f"{task.task}: the file has {len(kept)} of the {asked} samples that lm-eval asked")
    return known.read(task, list(kept.values())), [samples]


def _aggregated(task: LoggedTask, known: BiasTask, result: object, counts: Mapping[str, object]) -> list[Measurement]:
    """Return the values of lm-eval with its standard errors."""
    fields = Fields(result, f"the results of {task.task}")
    call = task.call(known.measure)
    call.note = NO_SAMPLES
    asked = counts.get("effective") if isinstance(counts, Mapping) else None
    found = []
    for metric, score, factor in known.metrics:
        value, error = (_metric(fields, name) for name in (metric, f"{metric}_stderr"))
        if value is None:
            found.append(call.undefined(f"lm-eval has no value of {metric}", score=score))
            continue
        if abs(value) > LARGEST or (error or 0.0) < 0 or (error or 0.0) > LARGEST:
            problem = f"{fields.where}: {metric} is {value:g} with a standard error of {error}"
            raise FormatError(problem, hint="the log is damaged")
        half = None if error is None else NORMAL_95 * error * factor
        found.append(
            call.measurement(
                value * factor,
                asked if isinstance(asked, int) and not isinstance(asked, bool) and asked >= 0 else 0,
                score=score,
                interval=None if half is None else (value * factor - half, value * factor + half),
                reading=f"{metric} of lm-eval, times {factor:g}",
                details={"metric": metric, "standard_error": error},
            )
        )
    return found


def _metric(fields: Fields, name: str) -> float | None:
    """Return a metric of a task, whatever filter it was computed after; None where there is no finite number."""
    for key, value in fields.values.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if key.partition(",")[0] == name and is_number and math.isfinite(value):
            return float(value)
    return None


def _result_files(path: Path) -> list[Path]:
    """Return the files of results, the newest first."""
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise InputMissingError(f"there is no {str(path)!r}", hint="name what lm-eval wrote with --output_path")
    found = sorted(path.rglob("results_*.json"), key=lambda file: file.name, reverse=True)[: MOST_FILES + 1]
    if not found:
        raise InputMissingError(
            f"{path} has no results_*.json", hint="name the folder or the file that lm-eval wrote with --output_path"
        )
    if len(found) > MOST_FILES:
        raise UsageError(f"{path} has more than {MOST_FILES:,} results", hint="name the folder of one model")
    return found


def _results(file: Path) -> ResultsFile:
    """Return the content of a file of results."""
    try:
        with open_bytes(file, kept=True) as stream:
            raw = stream.read(LONGEST_LINE + 1)
        if len(raw) > LONGEST_LINE:
            raise FormatError(f"{file} is longer than {LONGEST_LINE >> 20} MB", hint="name the file of results")
        content = json.loads(raw)  # lm-eval writes NaN, which the standard does not know
    except FormatError:
        raise
    except UNREADABLE as error:
        raise FormatError(f"{file} is not JSON ({error})", hint="name the results_*.json of lm-eval") from error
    if not isinstance(content, dict) or not isinstance(content.get("results"), dict):
        raise FormatError(f"{file} has no results of lm-eval", hint="name the results_*.json, not the samples")
    if not isinstance(content.get("groups") or {}, dict) or not isinstance(content.get("n-samples") or {}, dict):
        raise FormatError(f"{file} is not a whole file of results", hint="run lm-eval again")
    return content


def _model(content: ResultsFile) -> str:
    """Return the name of the model, without the folder that it lies in."""
    name = content.get("model_name")
    if not isinstance(name, str) or not name:
        config = content.get("config")
        arguments = config.get("model_args") if isinstance(config, dict) else None
        given = arguments.get("pretrained") if isinstance(arguments, dict) else arguments
        name = given if isinstance(given, str) and given else "model"
    return printable(name.rstrip("/").rpartition("/")[2] if name.startswith(("/", ".")) else name)


def _samples_file(results: Path, task: str) -> Path | None:
    """Return the samples of a task that were written with the results."""
    date = DATE.search(results.name)
    if date is None or "/" in task or "\0" in task:
        return None
    found = results.with_name(f"samples_{task}_{date[1]}.jsonl")
    return found if os.path.isfile(found) else None  # noqa: PTH113  does not raise for a long name


def _samples(file: Path) -> Iterator[HarnessSample]:
    """Yield the samples of a file; of several filters, those of the first."""
    chosen: object = None
    with open_bytes(file) as stream:
        for number, raw in enumerate(limited_lines(stream, LONGEST_LINE), start=1):
            where = f"{file}, line {number}"
            if raw is None:
                raise FormatError(f"{where} is longer than {LONGEST_LINE >> 20} MB", hint="the log is damaged")
            if not raw.strip():
                continue
            try:
                line = Fields(json.loads(raw), where)
            except FormatError:
                raise
            except UNREADABLE as error:
                raise FormatError(f"{where} is not JSON", hint="the log was cut off, or is damaged") from error
            chosen = line.values.get("filter") if chosen is None else chosen
            if line.values.get("filter") == chosen:
                yield HarnessSample(number - 1, line.fields("doc"), line)


# Concepts and probes as tasks: a YAML file and the rows of its data set for each.

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
        written.append(_decision_task(about, target, sample, seed))
    asked = [reference] if about is None else concept_queries(measures.info("nli-neutrality"), about)
    for name in asked:
        written.append(_inference_task(probe(name), target, sample, seed))
    return written


def _decision_task(about: Concept, folder: Path, sample: int | None, seed: int) -> Path:
    asked = ask_about(SHIPPED, about, "explicit", sample, seed)
    columns = (asked.texts, asked.scenario, asked.person, asked.group, asked.unfavourable)
    rows = (
        {
            "text": text,
            "scenario": scenario,
            "person": person,
            "group": asked.groups[group],
            "groups": list(asked.groups),
            "favourable": "no" if unfavourable else "yes",
        }
        for text, scenario, person, group, unfavourable in zip(*columns, strict=True)
    )
    yes, no = asked.options
    settings = {
        "doc_to_text": "{{text}}\nAnswer:",
        "doc_to_choice": [yes, yes.capitalize(), no, no.capitalize()],
        "doc_to_target": f"{{{{['{yes}', '{no}'].index(favourable) * 2}}}}",
    }
    return _write_task(folder, f"{about.name}_decisions", rows, settings)


def _inference_task(asked: Probe, folder: Path, sample: int | None, seed: int) -> Path:
    names = dataset.columns(asked)
    size = sample if sample and sample < asked.n_pairs else None
    _, blocks = dataset.tables(asked, size, seed, dataset.ROWS_AT_ONCE)
    rows = (dict(zip(names, record, strict=True)) for record in dataset.records(blocks))
    settings = {
        "doc_to_text": INFERENCE_PROMPT,
        "doc_to_choice": list(INFERENCE_ANSWERS),
        "doc_to_target": LABELS.index(asked.expected),
    }
    return _write_task(folder, asked.name, rows, settings)


def _write_task(folder: Path, name: str, rows: Iterable[Mapping[str, object]], settings: Mapping[str, object]) -> Path:
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
