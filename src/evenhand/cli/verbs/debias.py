"""`evenhand debias`: fit a method, apply it, write the vectors with their history, the model or the corpus."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from evenhand.cli.options import (
    AllowPickle,
    CaseOption,
    ConceptOption,
    DeviceOption,
    Json,
    Overwrite,
    Seed,
    SkipBad,
    SubjectArgument,
    VectorFormat,
    invocation,
    open_subjects,
)
from evenhand.cli.screens.debias import show_changed_model
from evenhand.cli.terminal import escape, note, notes_on_stderr, progress, show, show_json
from evenhand.cli.verbs.debias_corpus import write_corpus
from evenhand.cli.verbs.debias_tuning import train_model
from evenhand.errors import EvenhandError, UsageError, counted
from evenhand.outputs import output_file, require_run_folder

if TYPE_CHECKING:
    from evenhand.audit import Tradeoff
    from evenhand.audit.manifest import Invocation
    from evenhand.mitigations import Mitigation, SiteChange, VectorMap
    from evenhand.models.vectors import Vectors
    from evenhand.subjects import Subject
    from evenhand.subjects.transformer_subject import TransformerSubject
    from evenhand.words import Concept


def debias(
    context: typer.Context,
    subject: SubjectArgument,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            help="Where to write: a vector file, whose suffix says the format; for a model a folder.",
            show_default=False,
        ),
    ],
    method: Annotated[
        str,
        typer.Option(
            "--method",
            "-m",
            help="A method, or several in order: hard.misp; at a site: leace@layer:4.",
            show_default=False,
        ),
    ] = "",
    sweep: Annotated[
        bool, typer.Option("--sweep", help="Try all methods but the slow gp and rank them; OUT is then a folder.")
    ] = False,
    option: Annotated[
        list[str] | None,
        typer.Option("--set", help="A parameter of the method, such as k=2 or inlp.iterations=20.", show_default=False),
    ] = None,
    concept: ConceptOption = "gender",
    save_map: Annotated[
        Path | None,
        typer.Option("--save-map", help="Also write the fitted map or change.", show_default=False),
    ] = None,
    site: Annotated[
        str | None,
        typer.Option(
            "--site",
            help="Where in a model: embeddings, layer:N, attention:N, mlp:N, pooled; `show hf:FOLDER` lists them.",
            show_default="embeddings",
        ),
    ] = None,
    decoder: Annotated[
        str | None,
        typer.Option(
            "--decoder",
            help="untied: an output layer that shares the word table keeps the original. tied: it changes too.",
            show_default="untied",
        ),
    ] = None,
    hook: Annotated[
        bool,
        typer.Option(
            "--hook", help="Keep a map beside the weights if it cannot be folded into them; only evenhand applies it."
        ),
    ] = False,
    device: DeviceOption = None,
    case: CaseOption = None,
    format: VectorFormat = None,
    allow_pickle: AllowPickle = False,
    field: Annotated[
        str | None,
        typer.Option(help="Corpora: field with the text, or several with commas.", show_default="text"),
    ] = None,
    documents: Annotated[
        str | None,
        typer.Option(help="Corpora: whether a plain text file or each line is a document.", show_default="file"),
    ] = None,
    skip_bad: SkipBad = False,
    overwrite: Overwrite = False,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Remove a concept from vectors, a model or a corpus and write the result, or compare all methods."""
    from evenhand import words
    from evenhand.subjects.transformer_subject import TransformerSubject

    _refuse_contradictions(method, sweep=sweep, given={"--set": option, "--save-map": save_map, "--site": site})
    about = words.concept(concept)
    methods = parse_methods(method, option or [], site) if method else []
    for one in methods:
        one.check_concept(about)
    reading = {"field": field, "documents": documents, "skip_bad": skip_bad or None, "format": format}
    opening: dict[str, Any] = {"device": device, "case": case, "format": format, "allow_pickle": allow_pickle}
    if sweep:
        require_run_folder(out)
    with output_file(out, sources=[subject], overwrite=overwrite), output_file(save_map, overwrite=overwrite):
        if write_corpus(subject, methods, about, out, reading, save=save_map, seed=seed, as_json=as_json):
            return
        if train_model(subject, methods, about, out, device=device, save=save_map, seed=seed, as_json=as_json):
            return
        opened = _open(subject, None if sweep else out, **opening)
        if sweep:
            compare_all(opened, out, concept=concept, seed=seed, started=invocation(context), as_json=as_json)
        elif isinstance(opened, TransformerSubject):
            debias_model(opened, methods, about, out, ModelOptions(decoder or "untied", hook, save_map, seed, as_json))
        else:
            _refuse_model_options({"--site": site, "--decoder": decoder, "--hook": hook}, opened)
            _debias_vectors(opened.view("vectors"), methods, about, out, save_map, seed, as_json=as_json)


def _debias_vectors(
    vectors: Vectors,
    methods: list[Mitigation],
    concept: Concept,
    out: Path,
    save_map: Path | None,
    seed: int,
    *,
    as_json: bool,
) -> None:
    """Fit each method on the vectors after the one before, write them, and show what was done."""
    fitted = _written(vectors, methods, concept, out, seed)
    if save_map:
        fitted.save(save_map)
    if as_json:
        shape = {"words": len(vectors), "dimensions": fitted.out_dim_of(vectors.dim)}
        show_json({"out": str(out), **shape, "seed": seed, "report": dict(fitted.report)})
    else:
        _show(dict(fitted.report))
    note(f"wrote {out}, seed {seed}")


def _refuse_contradictions(method: str, *, sweep: bool, given: dict[str, object]) -> None:
    """Raise an error unless there is either a method or a sweep, which has no options of a method."""
    if sweep == bool(method):
        raise UsageError("name a method, or ask for --sweep", hint="`evenhand list methods` shows them")
    names = [name for name, value in given.items() if value] if sweep else []
    if names:
        raise UsageError(
            f"{', '.join(names)} needs --method", hint="a sweep tries every method with its own parameters"
        )


def _open(address: str, out: Path | None, *, allow_pickle: bool, **options: Any) -> Subject:
    """Open what is to be changed; for word vectors, first check that the result can be written."""
    from evenhand.models.vectors.formats import format_for_writing
    from evenhand.subjects.opening import kind_of_address, parse_address

    if out is not None and kind_of_address(parse_address(address)).kind == "vectors":
        format_for_writing(out)  # an impossible name should not cost a long fit
    (opened,) = open_subjects([address], allow_pickle=allow_pickle or None, **options)
    if not opened.can_change:
        raise UsageError(
            f"{opened.name} is {opened.title}; methods change word vectors and transformers",
            hint="name a vector file, a catalog id or hf:FOLDER",
        )
    return opened


@dataclass(frozen=True)
class ModelOptions:
    """How a changed model is written and shown."""

    decoder: str
    hook: bool
    save_map: Path | None
    seed: int
    as_json: bool


def debias_model(
    subject: TransformerSubject, methods: Sequence[Mitigation], concept: Concept, out: Path, options: ModelOptions
) -> None:
    """Fit each method on the model after the one before, write the model, and show what was done."""
    from evenhand.models.encoders.folding import Decoder, require_foldable
    from evenhand.models.encoders.saving import check_target

    if options.decoder not in get_args(Decoder):
        raise UsageError(f"--decoder {options.decoder} is unknown", hint=f"use {' or '.join(get_args(Decoder))}")
    if options.save_map and len(methods) > 1:
        raise UsageError("--save-map writes the change of one method", hint="apply the methods one by one")
    check_target(out, subject.transformer.source)  # what cannot be written should not cost a long fit
    for method in methods if not options.hook else ():
        require_foldable(subject.transformer, method.site or method.default_site)
    changes: list[SiteChange] = []
    with notes_on_stderr():
        for method in methods:
            change = method.fit(subject, concept, seed=options.seed)
            subject = change(subject)
            changes.append(change)
        saved = subject.save(out, decoder="tied" if options.decoder == "tied" else "untied", hook=options.hook)
    if options.save_map:
        changes[0].save(options.save_map)
    if options.as_json:
        reports = [dict(change.report) for change in changes]
        show_json({"out": str(out), "seed": options.seed, **saved.to_dict(), "reports": reports})
    else:
        show_changed_model(changes, saved)
    note(f"wrote {out}, seed {options.seed}")


def _refuse_model_options(given: dict[str, object], subject: Subject) -> None:
    names = [name for name, value in given.items() if value]
    if names:
        raise UsageError(f"{', '.join(names)} applies to a model, and {subject.name} is {subject.title}")


def parse_methods(chain: str, options: list[str], site: str | None = None) -> list[Mitigation]:
    """Return the methods of a chain with their parameters; `method.key=value` sets one of several methods.

    `site` is where the methods act that name no site themselves.
    """
    from evenhand import mitigations
    from evenhand.audit.plan import at_site, split_chain

    steps = [step.partition("@") for step in split_chain(at_site(chain, site) if site else chain)]
    ids = [id for id, _, _ in steps]
    given: dict[str, dict[str, str]] = {id: {} for id in ids}
    for text in options:
        name, sign, value = text.partition("=")
        id, dot, key = name.partition(".")
        if not sign or (dot and id not in given):
            raise UsageError(f"--set {text} is not a parameter", hint="write --set key=value or --set method.key=value")
        if not dot and len(ids) > 1:
            raise UsageError(f"--set {text}: which method?", hint=f"write --set {ids[0]}.{text}")
        given[id if dot else ids[0]][(key if dot else name).strip()] = value
    places = [{"site": where} if at else {} for _, at, where in steps]
    return [mitigations.get(id).with_params({**place, **given[id]}) for id, place in zip(ids, places, strict=True)]


def _written(vectors: Vectors, methods: list[Mitigation], concept: Concept, out: Path, seed: int) -> VectorMap:
    """Fit each method on the result of the one before, write the last result, and return the maps as one."""
    from evenhand.models.vectors.formats import format_for_writing

    with notes_on_stderr():
        fitted = last = methods[0].fit(vectors, concept, seed=seed)
        for one in methods[1:]:
            vectors = last(vectors)
            last = one.fit(vectors, concept, seed=seed)
            fitted = last @ fitted
    if format_for_writing(out).id == "safetensors":
        last.write(vectors, out)  # block by block: the result need not fit into memory
    else:
        last(vectors).save(out)
    return fitted


def _show(report: dict[str, Any]) -> None:
    for step in report.get("chain", [report]):
        name = step.get("method", "method")
        removed, missing = step.get("rank_removed", "?"), len(step.get("words_missing", ()))
        kept = step.get("variance_kept")
        changed, about = step.get("words_changed"), "about " if "measured_on" in step else ""
        show(
            f"[bold]{name}[/]: {removed} {'direction' if removed == 1 else 'directions'} removed"
            + (f", {about}{changed:,} words changed" if changed is not None else "")
            + (f", variance {100 * kept:.1f} % of before" if kept is not None else "")
            + f", {counted(missing, 'list word')} missing"
        )
    show("[dim]Less measured bias is not the absence of bias: `evenhand compare BEFORE AFTER` shows what is left.[/]")


SLOW = ("gp",)  # minutes of training: only when it is named in an audit


def compare_all(subject: Subject, folder: Path, *, concept: str, seed: int, started: Invocation, as_json: bool) -> None:
    """Run the audit of all methods, print the ranking, write record and page."""
    from evenhand import measures, mitigations, words
    from evenhand.audit import Audit, tradeoffs
    from evenhand.audit.plan import concept_queries

    about = words.concept(concept)
    methods = [entry.id for entry in mitigations.listing("vectors") if entry.id not in SLOW]
    fitting, unfit = _fitting(methods, about)
    on_vectors = [measures.info(name) for name in measures.ids() if measures.info(name).view == "vectors"]
    compared = [info for info in on_vectors if info.in_tradeoff or info.family == "quality"]
    asked = [info.id for info in compared if concept_queries(info, about)]
    with progress("sweep") as bar:
        audit = Audit.run(
            subject,
            methods=fitting,
            measures=asked,
            concept=concept,
            seed=seed,
            folder=folder,
            skip_failing=True,
            progress=bar,
            invocation=started,
        )
    places = tradeoffs(audit)
    skipped = unfit | dict(audit.manifest["skipped"]) | dict.fromkeys(SLOW, "minutes of training: name it in an audit")
    saved, page = audit.save(folder), audit.to_html(folder / "report.html")
    if as_json:
        show_json({"ranking": [asdict(place) for place in places], "skipped": skipped, "record": str(saved)})
    else:
        _show_ranking(places, skipped)
    note(f"record {saved}\nreport {page}")


def _fitting(methods: list[str], concept: Concept) -> tuple[list[str], dict[str, str]]:
    """Separate the methods that can work with a concept from those that cannot, with the reasons."""
    from evenhand import mitigations

    unfit: dict[str, str] = {}
    for id in methods:
        try:
            mitigations.get(id)().check_concept(concept)
        except EvenhandError as error:
            unfit[id] = error.message
    return [id for id in methods if id not in unfit], unfit


def _show_ranking(places: list[Tradeoff], skipped: dict[str, str]) -> None:
    from rich.table import Table

    table = Table(box=None, header_style="dim", pad_edge=False)
    for column in ("method", "bias left", "quality kept", "not beaten", "measures"):
        table.add_column(column, justify="left" if column == "method" else "right")
    for place in places:
        shares = (f"{100 * place.bias_left:.0f} %", f"{100 * place.quality_kept:.0f} %")
        table.add_row(place.method, *shares, "yes" if place.on_the_front else "", str(place.measures_used))
    show(table)
    for method, why in skipped.items():
        show(f"[dim]not run: {escape(f'{method}: {why}')}[/]")
    show(
        "[dim]Shares of the original, averaged over the measures that are defined after the method. "
        "A share hides which bias is left: read the report.[/]"
    )
