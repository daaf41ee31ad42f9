"""The options that several verbs share, written once."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenhand.errors import EvenhandWarning, UsageError
from evenhand.printable import printable

if TYPE_CHECKING:
    from evenhand.audit.manifest import Invocation
    from evenhand.engines.engine import Gpus
    from evenhand.models.vectors import Vectors
    from evenhand.subjects import Subject

NOT_REPEATED = ("out", "as_json")  # parameters that say where a result goes, not what it is
SubjectArgument = Annotated[
    str,
    typer.Argument(
        metavar="SUBJECT",
        help="A vector file or catalog id, hf:FOLDER, a GGUF file, an evenhand model, predictions, corpus:PATH.",
        show_default=False,
    ),
]
VectorsArgument = Annotated[
    str, typer.Argument(metavar="VECTORS", help="A vector file, or an id of `evenhand list data`.", show_default=False)
]
RecordFolder = Annotated[
    Path | None,
    typer.Option("--out", "-o", help="Also write an audit record and page here, for check, compare and report."),
]
Jobs = Annotated[int, typer.Option("--jobs", help="Measure in this many processes.")]
Memory = Annotated[
    float | None, typer.Option("--memory", help="Gigabytes the processes may use.", show_default="4/5 of what is free")
]
DeviceOption = Annotated[
    str | None, typer.Option("--device", help="Where a model runs: auto, cpu or cuda.", show_default="auto")
]
PrecisionOption = Annotated[
    str | None, typer.Option("--precision", help="float32, bfloat16 or auto, of a model.", show_default="auto")
]
Labels = Annotated[
    str | None,
    typer.Option("--labels", help="Order of the labels of a Hugging Face model: e,n,c.", show_default="its config"),
]
VectorsForModel = Annotated[
    str | None,
    typer.Option(
        "--vectors",
        help="What an NLI model file reads: word vectors, or the folder of an ELMo model.",
        show_default="the embedded vectors, or the ELMo model beside the file",
    ),
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace a file that evenhand did not write, or that was changed since.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
Seed = Annotated[int, typer.Option("--seed", help="Seed of every random step.")]
EngineOption = Annotated[str, typer.Option("--engine", help="Where parts of the work are done: local, or ray.")]
Address = Annotated[
    str | None,
    typer.Option("--address", help="A Ray cluster.", show_default="RAY_ADDRESS, or one of its own on this machine"),
]
Workers = Annotated[
    int | None,
    typer.Option("--workers", help="Parts worked on at a time.", show_default="local 1; ray all cores"),
]
ConceptOption = Annotated[
    str, typer.Option("--concept", help='What is measured or removed: an id, a file, or "gender x race".')
]
Case = Annotated[
    str | None,
    typer.Option("--case", help="How list words are looked up: auto, exact, lower, any.", show_default="auto"),
]
Format = Annotated[
    str | None,
    typer.Option("--format", help="Format of the vectors, where the file does not tell.", show_default=False),
]
EncodingErrors = Annotated[
    str | None,
    typer.Option(
        "--encoding-errors", help="strict, or replace to read words that are not valid UTF-8.", show_default="strict"
    ),
]
AllowPickle = Annotated[
    bool, typer.Option("--allow-pickle", help="Open gensim's own files, which may run code: only if you trust them.")
]
Vocabulary = Annotated[
    Path | None, typer.Option("--vocabulary", help="File of words for a matrix that has none.", show_default=False)
]


@contextmanager
def notes_on_stderr() -> Iterator[None]:
    """Our warnings as one-line notes, each once, instead of Python's two lines with a path."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", EvenhandWarning)
        yield
    for warning in dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, EvenhandWarning)):
        typer.echo(printable(f"note: {warning}"), err=True)


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Print each of our warnings once, as a one-line note, when it occurs; leave all others to Python."""
    seen: set[str] = set()

    with warnings.catch_warnings():
        usual = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
            if not issubclass(category, EvenhandWarning):
                usual(message, category, *place, **more)
            elif str(message) not in seen:
                seen.add(str(message))
                typer.echo(printable(f"note: {message}"), err=True)

        warnings.simplefilter("always", EvenhandWarning)
        warnings.showwarning = show
        yield


def load(source: str, **options: Any) -> Vectors:
    """Load vectors for a verb, with our warnings as notes."""
    from evenhand.models.vectors import Vectors

    with notes_on_stderr():
        return Vectors.load(source, **{name: value for name, value in options.items() if value is not None})


def open_subjects(addresses: list[str], **options: Any) -> list[Subject]:
    """Open subjects for a verb, with warnings as notes. An option is passed to the kinds that have it."""
    from evenhand.subjects.opening import kind_of_address, open_subject, parse_address

    given = {name: value for name, value in options.items() if value is not None}
    with notes_on_stderr():
        kinds = [kind_of_address(parse_address(address), labels="labels" in given) for address in addresses]
        for name in given:
            if not any(name in kind.options for kind in kinds):
                titles = ", ".join(dict.fromkeys(kind.title for kind in kinds))
                raise UsageError(f"--{name.replace('_', '-')} does not apply to {titles}", hint="leave it out")
        return [
            open_subject(address, **{name: value for name, value in given.items() if name in kind.options})
            for address, kind in zip(addresses, kinds, strict=True)
        ]


def invocation(context: typer.Context) -> Invocation:
    """Return the command as it was given, for the record, without where and how its result is written."""
    from evenhand.audit.manifest import Invocation

    parts, given = ["evenhand", *context.command_path.split()[1:]], {}
    for parameter in context.command.params:
        value, source = context.params.get(parameter.name or ""), context.get_parameter_source(parameter.name or "")
        left_out = parameter.name in NOT_REPEATED and not parameter.required
        if left_out or value is None or source is None or source.name.startswith("DEFAULT"):
            continue
        given[str(parameter.name)] = value
        values = [str(item) for item in (value if isinstance(value, list | tuple) else [value])]
        name = next((name for name in parameter.opts if name.startswith("--")), "")
        if isinstance(value, bool):
            parts.append(name if value else parameter.secondary_opts[0])
        else:
            parts += [part for item in values for part in ([name, item] if name else [item])]
    return Invocation(shlex.join(parts), given)


@contextmanager
def on_engine(
    subjects: list[Subject], engine: str, *, workers: int | None, address: str | None, device: str | None
) -> Iterator[None]:
    """Compute the views of subjects on an engine while a verb measures them; `local` is this process."""
    from evenhand.engines import open_engine

    if engine == "local":
        if workers is not None or address is not None:
            raise UsageError("--workers and --address are for --engine ray", hint="add --engine ray")
        yield
        return
    fitting = [subject for subject in subjects if any(view in subject.on_engine for view in subject.offers)]
    if not fitting:
        titles = ", ".join(dict.fromkeys(subject.title for subject in subjects))
        raise UsageError(f"--engine {engine} is for models; {titles}: measured by this process", hint="leave it out")
    gpus: Gpus = 0 if device == "cpu" else "auto"
    with open_engine(engine, workers=workers, address=address, gpus=gpus, protect_stdout=True) as where:
        for subject in fitting:
            subject.run_on(where)
        try:
            yield
        finally:
            for subject in fitting:
                subject.run_on(None)


Files = Annotated[list[str], typer.Argument(help="Files, folders, globs or addresses.", show_default=False)]
Window = Annotated[int | None, typer.Option(help="Words on each side that count as co-occurring.", show_default="10")]
Decay = Annotated[float | None, typer.Option(help="Instead of a window: weight of one step of distance, such as 0.95.")]
Groups = Annotated[
    list[str] | None,
    typer.Option(
        "--groups",
        help="Id or file of pairs or of a concept; or name=word,word for each group, the positive one first.",
        show_default="bordia2019-cnn-dm",
    ),
]
TokenizerOption = Annotated[
    str, typer.Option("--tokenizer", help="words; whitespace for tokenised text; or a tokenizer.json.")
]
Lower = Annotated[bool | None, typer.Option(help="Lower-case the text.", show_default="yes for words")]
StopWords = Annotated[str, typer.Option(help="Words that are not scored: english, none, or a file.")]
SpecialTokens = Annotated[
    str | None,
    typer.Option(help="drop or keep (score) tokens like <unk>, <eos>, N and $.", show_default="drop for whitespace"),
]
MinCount = Annotated[int, typer.Option(help="Words that occur less often are not scored.")]
Smoothing = Annotated[
    float, typer.Option(help="Added to every count, so that words near one group only are scored too.")
]
Normalisation = Annotated[str, typer.Option(help="conditional, literal (as printed in the paper) or joint.")]
Documents = Annotated[str, typer.Option(help="In plain text: file or line is one document.")]
Field = Annotated[str, typer.Option(help="Field or column with the text (JSONL, CSV, TSV, Parquet, Arrow).")]
FormatOption = Annotated[
    str | None,
    typer.Option(
        "--format", help="text, jsonl, csv, tsv, parquet, arrow, warc or mediawiki.", show_default="by file name"
    ),
]
Encoding = Annotated[str, typer.Option("--encoding-errors", help="strict, or replace for invalid UTF-8.")]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Skip what cannot be read, and count and name it.")]
MaxRecord = Annotated[int, typer.Option("--max-record", help="Longest record or word in MB.", min=1)]
Bootstrap = Annotated[
    int | None,
    typer.Option(help="Resamples for the interval of each word; 0 for none.", show_default="1000 up to 256 MB"),
]
Permutations = Annotated[
    int | None,
    typer.Option(
        help="Permuted labellings for the baseline, at most (fewer if p is clear before); 0 for none.",
        show_default="1999 up to 256 MB",
    ),
]
Top = Annotated[int, typer.Option(help="Words shown for each group.")]
Least = Annotated[int, typer.Option("--least", help="Occurrences that a word needs to be shown; all are scored.")]
OrderOption = Annotated[
    str, typer.Option("--order", help="evidence (z of the log-odds) or ratio (raw score, which favours rare words).")
]
MEGABYTE = 1 << 20


Samples = Annotated[int, typer.Option(help="Number of texts; 2,000 in the paper.")]
Tokens = Annotated[int, typer.Option(help="Tokens per text; 500 in the paper.")]
Temperature = Annotated[float, typer.Option(help="Sampling temperature.")]
Batch = Annotated[int | None, typer.Option(help="Texts sampled at once.", show_default="by device")]
Definition = Annotated[
    str,
    typer.Option(help="Definition of the bias penalty: printed (paper) or released (unit rows, first direction only)."),
]
Reduction = Annotated[str, typer.Option(help="Reduction of the bias penalty over words: sum (paper) or mean.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")]
Precision = Annotated[str, typer.Option(help="auto, float32, bfloat16 or float16.")]
Pairs = Annotated[str | None, typer.Option(help="Word pairs: an id or a file.", show_default="by preset")]
