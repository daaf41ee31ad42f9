"""The options that several verbs share, each declared once: single options, and groups of options.

A group is a frozen dataclass whose fields are options. A verb takes a group as one keyword argument, and `with_groups`
puts the options of the group in its place on the command line. A verb that has only some options of a group names
them: `Annotated[Opening, Only("device", "case")]`; the other fields keep their defaults.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast, get_type_hints

import typer
from typer.models import OptionInfo

from evenhand.cli.terminal import notes_on_stderr
from evenhand.errors import UsageError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from evenhand.audit.manifest import Invocation
    from evenhand.corpus import Corpus, CorpusOptions
    from evenhand.corpus.readers.source import ReadArguments
    from evenhand.engines import Engine
    from evenhand.models.vectors import Vectors
    from evenhand.subjects import Subject

MEGABYTE = 1 << 20
NOT_REPEATED = ("out", "as_json")  # parameters that say where a result goes, not what it is
Verb = Callable[..., None]


class Only:
    """The options of a group that a verb has, in the order of the group."""

    def __init__(self, *names: str) -> None:
        self.names = names


def with_groups(verb: Verb) -> Verb:
    """Replace each parameter of a verb that is a group of options by the options of the group."""
    parameters: list[inspect.Parameter] = []
    groups: dict[str, tuple[Callable[..., object], list[str]]] = {}
    hints = get_type_hints(verb, include_extras=True)
    for name, parameter in inspect.signature(verb).parameters.items():
        group, marks = getattr(hints[name], "__origin__", hints[name]), getattr(hints[name], "__metadata__", ())
        if not isinstance(group, type) or not dataclasses.is_dataclass(group):
            parameters.append(parameter.replace(annotation=hints[name], kind=parameter.KEYWORD_ONLY))
            continue
        chosen = next((mark.names for mark in marks if isinstance(mark, Only)), ())
        options = [field for field in dataclasses.fields(group) if not chosen or field.name in chosen]
        groups[name] = (group, [field.name for field in options])
        of_group = get_type_hints(group, include_extras=True)
        parameters += [
            inspect.Parameter(
                field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=of_group[field.name]
            )
            for field in options
        ]

    @functools.wraps(verb)
    def run(**given: object) -> None:
        for name, (group, options) in groups.items():
            given[name] = group(**{option: given.pop(option) for option in options if option in given})
        verb(**given)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters} | {"return": None}
    return run


@functools.cache
def flags(verb: Callable[..., object]) -> Mapping[str, str]:
    """Return the options of a verb or group by parameter, as they are written: encoding_errors, --encoding-errors."""
    found = {}
    for parameter, hint in get_type_hints(verb, include_extras=True).items():
        for item in getattr(hint, "__metadata__", ()):
            if isinstance(item, OptionInfo):
                declared = [item.default, *(item.param_decls or ())]  # in Annotated the first name is in `default`
                written = (name for name in declared if isinstance(name, str) and name.startswith("--"))
                found[parameter] = next(written, f"--{parameter.replace('_', '-')}")
    return found


def given_flags(group: DataclassInstance) -> list[str]:
    """Return the options of a group whose values are not the defaults."""
    written = flags(type(group))
    return [written[f.name] for f in dataclasses.fields(group) if getattr(group, f.name) not in (f.default, [], "")]


SubjectArgument = Annotated[
    str,
    typer.Argument(
        metavar="SUBJECT",
        help="A vector file or catalog id, hf:FOLDER, a GGUF file, openai:URL#MODEL, an evenhand model, predictions, "
        "corpus:PATH, table:FILE.",
        show_default=False,
    ),
]
Files = Annotated[list[str], typer.Argument(help="Files, folders, globs or addresses.", show_default=False)]
ConceptOption = Annotated[
    str, typer.Option("--concept", help='What is measured or removed: an id, a file, or "gender x race".')
]
Measures = Annotated[
    list[str] | None, typer.Option("--measure", help="Only these measures; may be repeated.", show_default="all")
]
RecordFolder = Annotated[
    Path | None,
    typer.Option("--out", "-o", help="Also write an audit record and page here, for check, compare and report."),
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace a file that evenhand did not write, or that was changed since.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
TablesOption = Annotated[bool, typer.Option("--tables", help="Print every number, not only the findings.")]
Seed = Annotated[int, typer.Option("--seed", help="Seed of every random step.")]
DeviceOption = Annotated[
    str | None, typer.Option("--device", help="Where a model runs: auto, cpu or cuda.", show_default="auto")
]
KeyEnv = Annotated[
    str | None,
    typer.Option("--key-env", help="Environment variable with the key of a server.", show_default="no key"),
]
LabelOrder = Annotated[
    str | None,
    typer.Option("--labels", help="Order of the labels of a Hugging Face model: e,n,c.", show_default="its config"),
]
CaseOption = Annotated[
    str | None,
    typer.Option("--case", help="How list words are looked up: auto, exact, lower, any.", show_default="auto"),
]
VectorFormat = Annotated[
    str | None,
    typer.Option("--format", help="Format of the vectors, where the file does not tell.", show_default=False),
]
EncodingErrorsOption = Annotated[
    str | None,
    typer.Option(
        "--encoding-errors", help="strict, or replace to read words that are not valid UTF-8.", show_default="strict"
    ),
]
VocabularyFile = Annotated[
    Path | None, typer.Option("--vocabulary", help="File of words for a matrix that has none.", show_default=False)
]
AllowPickle = Annotated[
    bool, typer.Option("--allow-pickle", help="Open gensim's own files, which may run code: only if you trust them.")
]
TokenizerOption = Annotated[
    str, typer.Option("--tokenizer", help="words; whitespace for tokenised text; or a tokenizer.json.")
]
Lower = Annotated[bool | None, typer.Option(help="Lower-case the text.", show_default="yes for words")]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Skip what cannot be read, and count and name it.")]
MaxRecord = Annotated[int, typer.Option("--max-record", help="Longest record or word in MB.", min=1)]


GroupColumns = Annotated[
    list[str] | None,
    typer.Option(
        "--group",
        help="Column of a table or of --texts that names groups; may be repeated. Several with commas are crossed.",
        show_default="guessed",
    ),
]
LabelColumn = Annotated[
    str | None,
    typer.Option("--label", help="Column of a table or of --texts with what is true.", show_default="guessed"),
]
TextsFile = Annotated[
    Path | None,
    typer.Option(
        "--texts",
        help="A table of labelled texts (CSV, TSV, JSONL, Parquet) that a classifier is asked about.",
        show_default=False,
    ),
]
TextsColumn = Annotated[
    str | None, typer.Option("--text-column", help="Column of --texts with the texts.", show_default="guessed")
]
PositiveLabel = Annotated[
    str | None,
    typer.Option(
        "--positive-label",
        help="The label of the classifier that counts as positive.",
        show_default="--positive, or the last of two",
    ),
]
PredictionColumn = Annotated[
    str | None, typer.Option("--prediction", help="Column of a table with the decisions.", show_default="guessed")
]
ScoreColumn = Annotated[
    str | None, typer.Option("--score", help="Column of a table with scores.", show_default="guessed")
]
ThresholdOption = Annotated[
    float | None,
    typer.Option("--threshold", help="Score from which a row is selected.", show_default="0.5, or the predictions"),
]
PositiveValue = Annotated[
    str | None,
    typer.Option("--positive", help="The value of labels and decisions that is positive.", show_default="1, yes, true"),
]


@dataclasses.dataclass(frozen=True)
class Opening:
    """How subjects are opened."""

    device: DeviceOption = None
    precision: Annotated[
        str | None, typer.Option("--precision", help="float32, bfloat16 or auto, of a model.", show_default="auto")
    ] = None
    labels: LabelOrder = None
    vectors: Annotated[
        str | None,
        typer.Option(
            "--vectors",
            help="What an NLI model file reads: word vectors, or the folder of an ELMo model.",
            show_default="the embedded vectors, or the ELMo model beside the file",
        ),
    ] = None
    case: CaseOption = None
    format: VectorFormat = None
    encoding_errors: EncodingErrorsOption = None
    vocabulary: VocabularyFile = None
    allow_pickle: AllowPickle = False
    system: Annotated[
        str | None, typer.Option("--system", help="System prompt of every conversation.", show_default="none")
    ] = None
    prompts: Annotated[
        str | None,
        typer.Option(
            "--prompts",
            help="How prompts are put to a model: plain, as the beginning of a text; chat, in a message that asks to "
            "continue it; message, as the message.",
            show_default="plain where the model continues texts",
        ),
    ] = None
    key_env: KeyEnv = None
    concurrency: Annotated[
        int | None, typer.Option("--concurrency", help="Requests to a server at a time.", show_default="8")
    ] = None
    timeout: Annotated[
        float | None,
        typer.Option("--timeout", help="Seconds without a byte before a request is repeated.", show_default="120"),
    ] = None

    group: GroupColumns = None
    label: LabelColumn = None
    prediction: PredictionColumn = None
    score: ScoreColumn = None
    threshold: ThresholdOption = None
    positive: PositiveValue = None
    texts: TextsFile = None
    text_column: TextsColumn = None
    positive_label: PositiveLabel = None

    def subjects(self, addresses: list[str], **more: object) -> list[Subject]:
        """Open subjects; `more` are options that only one verb has."""
        given: dict[str, object] = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        given |= {"allow_pickle": self.allow_pickle or None, "group": ";".join(self.group) if self.group else None}
        return open_subjects(addresses, **given | more)


def open_subjects(addresses: list[str], **options: object) -> list[Subject]:
    """Open subjects for a verb, with warnings as notes. An option is passed to the kinds that have it."""
    from evenhand.subjects.opening import kind_of_address, open_subject, parse_address

    given = {name: value for name, value in options.items() if value is not None}
    with notes_on_stderr():
        kinds = [kind_of_address(parse_address(address), labels="labels" in given) for address in addresses]
        for name in given:
            if not any(name in kind.options for kind in kinds):
                titles = ", ".join(dict.fromkeys(kind.title for kind in kinds))
                raise UsageError(f"`{name}=` does not apply to {titles}", hint="leave it out")
        opened = []
        for address, kind in zip(addresses, kinds, strict=True):
            own = {name: value for name, value in given.items() if name in kind.options}
            opened.append(open_subject(address, **own))
        return opened


@dataclasses.dataclass(frozen=True)
class EngineChoice:
    """Where parts of the work are done."""

    engine: Annotated[str, typer.Option("--engine", help="Where parts of the work are done: local, or ray.")] = "local"
    address: Annotated[
        str | None,
        typer.Option("--address", help="A Ray cluster.", show_default="RAY_ADDRESS, or one of its own on this machine"),
    ] = None
    workers: Annotated[
        int | None,
        typer.Option("--workers", help="Parts worked on at a time.", show_default="local 1; ray all cores"),
    ] = None

    def open(self) -> AbstractContextManager[Engine]:
        """Open the engine for work that a verb divides itself."""
        from evenhand.engines import open_engine

        return open_engine(self.engine, address=self.address, workers=self.workers, protect_stdout=True)

    @contextmanager
    def views_of(self, subjects: list[Subject], *, device: str | None) -> Iterator[None]:
        """Compute the views of subjects on the engine while a verb measures them; `local` is this process."""
        from evenhand.engines import open_engine

        if self.engine == "local":
            if self.workers is not None or self.address is not None:
                raise UsageError("--workers and --address are for --engine ray", hint="add --engine ray")
            yield
            return
        fitting = [subject for subject in subjects if any(view in subject.on_engine for view in subject.offers)]
        if not fitting:
            titles = ", ".join(dict.fromkeys(subject.title for subject in subjects))
            raise UsageError(
                f"--engine {self.engine} is for models; {titles}: measured by this process", hint="leave it out"
            )
        opened = open_engine(
            self.engine, workers=self.workers, address=self.address, gpus=0 if device == "cpu" else "auto",
            protect_stdout=True,
        )  # fmt: skip
        with opened as where:
            for subject in fitting:
                subject.run_on(where)
            try:
                yield
            finally:
                for subject in fitting:
                    subject.run_on(None)


@dataclasses.dataclass(frozen=True)
class Reading:
    """How the files of a corpus are read."""

    documents: Annotated[str, typer.Option(help="In plain text: file or line is one document.")] = "file"
    field: Annotated[str, typer.Option(help="Field or column with the text (JSONL, CSV, TSV, Parquet, Arrow).")] = (
        "text"
    )
    format: Annotated[
        str | None,
        typer.Option(
            "--format", help="text, jsonl, csv, tsv, parquet, arrow, warc or mediawiki.", show_default="by file name"
        ),
    ] = None
    encoding_errors: Annotated[str, typer.Option("--encoding-errors", help="strict, or replace for invalid UTF-8.")] = (
        "strict"
    )
    skip_bad: SkipBad = False
    max_record: MaxRecord = 128

    def arguments(self) -> ReadArguments:
        """Return the options as `Corpus` takes them: the longest record in bytes."""
        return cast("ReadArguments", dataclasses.asdict(self) | {"max_record": self.max_record * MEGABYTE})

    def corpus(self, files: Iterable[str]) -> Corpus:
        """Return the files as a corpus."""
        from evenhand.corpus import Corpus

        return Corpus(list(files), **self.arguments())


@dataclasses.dataclass(frozen=True)
class Counting:
    """Which words of a corpus are counted, and near which words."""

    groups: Annotated[
        list[str] | None,
        typer.Option(
            "--groups",
            help="Id or file of pairs or of a concept; or name=word,word for each group, the positive one first.",
            show_default="bordia2019-cnn-dm",
        ),
    ] = None
    window: Annotated[
        int | None, typer.Option(help="Words on each side that count as co-occurring.", show_default="10")
    ] = None
    decay: Annotated[
        float | None, typer.Option(help="Instead of a window: weight of one step of distance, such as 0.95.")
    ] = None
    tokenizer: TokenizerOption = "words"
    lower: Lower = None
    stop_words: Annotated[str, typer.Option(help="Words that are not scored: english, none, or a file.")] = "none"
    special_tokens: Annotated[
        str | None,
        typer.Option(
            help="drop or keep (score) tokens like <unk>, <eos>, N and $.", show_default="drop for whitespace"
        ),
    ] = None
    min_count: Annotated[int, typer.Option(help="Words that occur less often are not scored.")] = 1

    def options(self, **more: Any) -> CorpusOptions:
        """Return the options of a corpus measurement; `more` are those that only one verb has."""
        from evenhand.corpus import CorpusOptions

        own, lists = parse_groups(self.groups or [])
        return CorpusOptions(**dataclasses.asdict(self) | {"groups": own, "lists": lists} | more)


def parse_groups(values: list[str]) -> tuple[dict[str, list[str]] | None, str | None]:
    """Return the words of own groups, written name=word,word, or else the id or file of lists."""
    if not values:
        return None, None
    if len(values) == 1 and "=" not in values[0]:
        return None, values[0]
    parts = [text.partition("=") for text in values]
    if any(not name or not sign for name, sign, _ in parts):
        raise UsageError(
            f"--groups {' '.join(values)}: neither one id nor groups of words",
            hint="write --groups gender, or --groups old=old,elderly --groups young=young,youth",
        )
    return {name.strip(): [w.strip() for w in words.split(",") if w.strip()] for name, _, words in parts}, None


def load(source: str, **options: Any) -> Vectors:
    """Load vectors for a verb, with our warnings as notes."""
    from evenhand.models.vectors import Vectors

    with notes_on_stderr():
        return Vectors.load(source, **{name: value for name, value in options.items() if value is not None})


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
