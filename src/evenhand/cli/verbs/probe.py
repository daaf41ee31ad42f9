"""`evenhand probe`: does an inference model draw conclusions from group words?"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenhand.cli.options import (
    MEGABYTE,
    Address,
    EngineOption,
    Json,
    MaxRecord,
    Overwrite,
    RecordFolder,
    Seed,
    Workers,
    invocation,
    notes_on_stderr,
)
from evenhand.cli.screens.terminal import note, progress, show, show_json, write_record
from evenhand.errors import UsageError, unknown_name
from evenhand.files import require_folder
from evenhand.outputs import output_file, require_run_folder

if TYPE_CHECKING:
    from evenhand.audit.manifest import Invocation
    from evenhand.engines import Engine
    from evenhand.measures.inference import SeedsResult
    from evenhand.subjects.nli_models import NLISubject
    from evenhand.words.probes import Probe


def probe(
    context: typer.Context,
    model: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MODEL]...",
            help="A model file (.safetensors), a Hugging Face folder (hf:FOLDER), predictions (.jsonl, .csv), embedded "
            "or embedded:projected; several are seeds of one condition. Default: the three embedded models.",
        ),
    ] = None,
    which: Annotated[
        str, typer.Option("--probe", "-p", help="A probe: an id of `evenhand list probes`, or a file.")
    ] = "gender-occupation",
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only",
            help="Some words of a slot, such as premise=nurse,doctor; may be repeated.",
            show_default=False,
        ),
    ] = None,
    surface: Annotated[
        str | None,
        typer.Option(
            help="How sentences are written: released (as the code of Dev et al. has them), or choices with commas "
            "between, such as articles=letter,case=lower.",
            show_default="as the probe says",
        ),
    ] = None,
    tau: Annotated[
        list[float] | None, typer.Option("--tau", help="A threshold of T:tau; may be repeated.", show_default="0.5 0.7")
    ] = None,
    compare: Annotated[
        bool,
        typer.Option("--compare", help="Also the embedded models retrained without the he-she direction."),
    ] = False,
    vectors: Annotated[
        str, typer.Option("--vectors", help="The vectors that the model reads, or the folder of its ELMo model.")
    ] = "glove-embedded",
    map_file: Annotated[
        Path | None,
        typer.Option(
            "--map",
            help="A fitted map, applied to the vectors first: at test time only, unless the model was trained with it.",
            show_default=False,
        ),
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option("--labels", help="Order of the labels of a Hugging Face model: e,n,c.", show_default="its config"),
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option(
            "--sample", help="Ask about a stratified sample of about so many pairs.", show_default="all pairs"
        ),
    ] = None,
    max_record: MaxRecord = 128,
    device: Annotated[str, typer.Option("--device", help="numpy, torch, torch:cuda or auto.")] = "auto",
    engine: EngineOption = "local",
    address: Address = None,
    workers: Workers = None,
    force: Annotated[bool, typer.Option("--force", help="Go on though many fillers are not in the vectors.")] = False,
    export: Annotated[
        Path | None,
        typer.Option(
            "--export",
            help="Only write the pairs: .jsonl, .csv, .parquet, or without suffix a folder that "
            "datasets.load_dataset reads; no model is asked.",
        ),
    ] = None,
    overwrite: Overwrite = False,
    out: RecordFolder = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Ask a model about sentences that differ in one word, and score its answers."""
    from evenhand.cli.screens.probe import tables
    from evenhand.engines import open_engine
    from evenhand.measures.inference import compare as compare_results
    from evenhand.mitigations import VectorMap
    from evenhand.subjects.nli_models import open_models
    from evenhand.words import probes

    asked = restricted_probe(which, only=only or [], surface=surface)
    if export:
        with output_file(export, overwrite=overwrite):
            count = probes.export(asked, export, sample=sample, seed=seed)
        if as_json:
            show_json({"probe": asked.name, "pairs": count, "written": str(export)})
        note(f"wrote {count:,} pairs to {export}")
        return
    _check_compare(compare, model)
    if out and (only or surface):
        raise UsageError("--out records whole probes", hint="leave out --only and --surface")
    if out:
        require_folder(out)
        require_run_folder(out)
    change = VectorMap.load(map_file) if map_file else None
    options = {"sample": sample, "seed": seed, "force": force, **({"thresholds": tau} if tau else {})}
    addresses = [model or ["embedded"], *([["embedded:projected"]] if compare else [])]
    with notes_on_stderr(), open_engine(engine, workers=workers, address=address, protect_stdout=True) as where:
        open_one = partial(open_models, vectors=vectors, change=change, device=device, labels=labels)
        subjects = [open_one(some, max_record=max_record * MEGABYTE) for some in addresses]
        results = [_run(where, subject, asked, options) for subject in subjects]
    comparison = compare_results(*results) if compare else None
    if out:  # before the output, whose reader may go away
        _write_record(subjects, results, asked, sample, seed, out, invocation(context))
    if as_json:
        difference = comparison.to_dict() if comparison else {}
        compared = {"compared": difference["after"], "differences": difference["differences"]} if comparison else {}
        show_json({**results[0].to_dict(), **compared, "read": [subject.ensemble.note for subject in subjects]})
    else:
        show(*tables(results, comparison))
    for subject in subjects:
        if subject.ensemble.note:
            note(f"note: {subject.ensemble.note}")
    note(f"seed {seed}")


def _check_compare(compare: bool, models: list[str] | None) -> None:
    """Raise if there is nothing to compare with: only the embedded models come in two conditions."""
    if compare and (models or ["embedded"]) not in (["embedded"], ["embedded:original"]):
        raise UsageError(
            f"--compare is for the embedded models, not for {', '.join(models or [])}",
            hint="probe your own models before and after with --out, then `evenhand compare RUN_A RUN_B`",
        )


def _run(engine: Engine, subject: NLISubject, asked: Probe, options: dict[str, Any]) -> SeedsResult:
    """Put the probe to all models of one subject."""
    from evenhand.measures.inference import probe_seeds

    with progress(asked.name) as bar:
        return probe_seeds(
            subject.ensemble.members, asked, condition=subject.name, engine=engine, progress=bar, **options
        )


def _write_record(
    subjects: list[NLISubject], results: list[SeedsResult], asked: Probe, sample: int | None, seed: int, out: Path,
    started: Invocation,
) -> None:  # fmt: skip
    """Write the scores as an audit, so that `check`, `compare` and `report` read them."""
    from evenhand.audit import Audit, Plan, Question

    whole = sample is None or sample >= asked.n_pairs
    for subject, result in zip(subjects, results, strict=True):
        for controls in (True, False):
            subject.ensemble.results[asked, None if whole else sample, seed, controls] = result
    names = ["nli-neutrality", *(["nli-gap", "mab"] if results[0].groups else [])]
    size = {"sample": 0 if whole else sample}
    questions = tuple(Question(name, asked.name, size, only_query=True) for name in names)
    plan = Plan(questions, concept=asked.concept or "gender", seed=seed)
    record = Audit.run(subjects, plan=plan, invocation=started)
    write_record(record, out)


RELEASED = "released"


def restricted_probe(which: str, *, only: list[str], surface: str | None) -> Probe:
    """The probe of that id or file, restricted and rewritten as the options say."""
    from evenhand.words.probes import probe

    found = probe(which)
    if only:
        chosen = dict(_pair(text, "--only", "premise=nurse,doctor") for text in only)
        found = found.restrict(**{slot: [word.strip() for word in words.split(",")] for slot, words in chosen.items()})
    return _written(found, surface) if surface else found


def _written(found: Probe, text: str) -> Probe:
    """`released`, or choices such as `articles=letter,case=lower`."""
    from evenhand.words.probes import RELEASED as AS_RELEASED
    from evenhand.words.probes.phrases import CHOICES

    if text == RELEASED:
        return found.with_surface(AS_RELEASED)
    choices: dict[str, Any] = dict(_pair(part, "--surface", "articles=letter,case=lower") for part in text.split(","))
    for name in choices:
        if name not in CHOICES:
            raise unknown_name("choice of --surface", name, CHOICES)
    return found.with_surface(**choices)


def _pair(text: str, option: str, example: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip() or not value:
        raise UsageError(f"{option} {text}: no name and value", hint=f"write {option} {example}")
    return name.strip(), value
