"""`evenhand audit`: every fitting measure on one or more subjects, before and after each method, and one page."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenhand.cli.options import (
    ConceptOption,
    EngineChoice,
    Json,
    Measures,
    Opening,
    Seed,
    TablesOption,
    given_flags,
    invocation,
    with_groups,
)
from evenhand.cli.terminal import escape, note, progress, show, show_json
from evenhand.errors import UsageError
from evenhand.files import write_text
from evenhand.outputs import require_run_folder

if TYPE_CHECKING:
    from evenhand.audit import Plan
    from evenhand.subjects import Subject


@dataclass(frozen=True)
class PlanOptions:
    """What an audit asks, where no plan file says it."""

    method: Annotated[
        list[str] | None,
        typer.Option(
            "--method",
            "-m",
            help="A method, or a chain such as hard.misp; parameters stand in brackets behind it; may be repeated.",
            show_default="linear, span for word vectors",
        ),
    ] = None
    site: Annotated[
        str | None,
        typer.Option(
            "--site",
            help="Where in a transformer the methods act: embeddings, layer:N, attention:N, mlp:N, pooled. "
            "A method may name its own: -m leace@layer:4.",
            show_default="embeddings",
        ),
    ] = None
    sweep: Annotated[
        str | None,
        typer.Option(
            "--sweep",
            help="Try each method with several values of a parameter, and its control: strength=-2,-1,1,2.",
            show_default=False,
        ),
    ] = None
    no_methods: Annotated[bool, typer.Option("--no-methods", help="Only measure; apply no method.")] = False
    measure: Measures = None
    query: Annotated[
        list[str] | None,
        typer.Option(
            "--query", "-q", help="What the chosen measures are asked; may be repeated.", show_default="the concept's"
        ),
    ] = None
    concept: ConceptOption = "gender"
    full_probes: Annotated[
        bool, typer.Option("--full-probes", help="Ask inference models about all pairs, not a sample.")
    ] = False
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit", help="Ask at most this many items of a measure that can draw a sample.", show_default=False
        ),
    ] = None
    samples: Annotated[
        int | None, typer.Option("--samples", help="Texts that a language model writes.", show_default="200")
    ] = None
    tokens: Annotated[
        int | None, typer.Option("--tokens", help="Tokens of each text that it writes.", show_default="100")
    ] = None
    budget: Annotated[
        str | None,
        typer.Option(
            "--budget",
            help="Begin no cell after this time, such as 10min, or none that would take a server beyond this many "
            "tokens, such as '50k tokens'; a later run adds what is left out.",
            show_default=False,
        ),
    ] = None

    judge: Annotated[
        list[str] | None,
        typer.Option(
            "--judge",
            help="Who rates what a model writes: hf:FOLDER, lexicon:FILE or unpleasant-words; may be repeated.",
            show_default=False,
        ),
    ] = None
    judge_label: Annotated[
        list[str] | None,
        typer.Option("--judge-label", help="The label that the judge rates, such as toxic.", show_default="its last"),
    ] = None

    def plan(self, subjects: list[Subject], *, seed: int) -> Plan:
        """Return the plan that these options describe."""
        from evenhand.audit import Plan
        from evenhand.audit.workload import budget_of

        seconds, most_tokens = budget_of(self.budget) if self.budget else (None, None)
        return Plan.default(
            subjects, methods=() if self.no_methods else self.method, site=self.site, sweep=self.sweep,
            only=self.measure or (), queries=self.query or (), concept=self.concept, seed=seed,
            full_probes=self.full_probes, limit=self.limit, samples=self.samples, tokens=self.tokens, budget=seconds,
            most_tokens=most_tokens,
            judge=",".join(self.judge) if self.judge else None,
            judge_label=",".join(self.judge_label) if self.judge_label else None,
        )  # fmt: skip


@with_groups
def audit(
    context: typer.Context,
    subjects: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SUBJECT",
            help="What to audit: a vector file or catalog id, hf:FOLDER, a GGUF file, openai:URL#MODEL, an evenhand "
            "NLI model or language model, predictions, corpus:PATH, table:FILE. Several are ranked. Default: the "
            "embedded GloVe vectors.",
            show_default=False,
        ),
    ] = None,
    *,
    asked: PlanOptions,
    plan: Annotated[
        Path | None, typer.Option("--plan", help="A plan file, instead of the options above.", show_default=False)
    ] = None,
    write_plan: Annotated[
        Path | None, typer.Option("--write-plan", help="Write the plan to a file and stop.", show_default=False)
    ] = None,
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", help="Folder for the record, its cells and report.html; finished cells are reused."
        ),
    ] = Path("runs/latest"),
    jobs: Annotated[int, typer.Option("--jobs", help="Measure in this many processes.")] = 1,
    memory: Annotated[
        float | None,
        typer.Option("--memory", help="Gigabytes the processes may use.", show_default="4/5 of what is free"),
    ] = None,
    engine: EngineChoice,
    opening: Opening,
    seed: Seed = 0,
    tables: TablesOption = False,
    as_json: Json = False,
) -> None:
    """Measure subjects before and after each method; print the findings and write one page."""
    from evenhand.audit import Audit, Plan

    running = {
        "--jobs": jobs != 1,
        "--memory": memory is not None,
        "--engine": engine.engine != "local",
        "--tables": tables,
    }
    _refuse_options_without_effect(
        planned=[*given_flags(asked), *(["--seed"] if seed else [])] if plan else [],
        running=[flag for flag, given in running.items() if given] if write_plan else [],
    )
    _refuse_contradictions(asked, plan=plan, memory=memory, jobs=jobs, engine=engine.engine)
    if not write_plan:
        require_run_folder(out)
    given = Plan.read(plan) if plan else None
    opened = opening.subjects(subjects or (list(given.subjects) if given else []) or ["glove-embedded"])
    _refuse_concept(context, opened)
    made = given or asked.plan(opened, seed=seed)
    if asked.full_probes and not any(question.info.view == "inference" for question in made.questions):
        raise UsageError("--full-probes is for inference models, and no question of this audit asks one")
    if write_plan:
        _write_plan(made, write_plan, as_json)
        return
    _note_replaced(out, opened, made)
    started = invocation(context)
    with engine.views_of(opened, device=opening.device), progress("audit") as bar:
        record = Audit.run(
            opened, plan=made, folder=out, jobs=jobs, memory=memory, progress=bar, announce=note, invocation=started
        )
    saved, page = record.save(out), record.to_html(out / "report.html")
    if as_json:
        show_json(record.to_dict())
    else:
        from evenhand.report.terminal import audit_summary, audit_tables

        names = ", ".join(f"{subject.name} ({subject.title})" for subject in opened)
        show(f"[bold]{escape(names)}[/], concept {escape(record.concept)}, seed {record.seed}", "")
        show(*(audit_tables if tables else audit_summary)(record))
    for text in record.manifest["warnings"]:
        note(f"note: {text}")
    note(f"record {saved}\nreport {page}")


def _refuse_options_without_effect(planned: list[str], running: list[str]) -> None:
    """Raise an error for options that a plan file replaces, and for those of a run that does not take place."""
    if planned:
        raise UsageError(f"--plan replaces {', '.join(planned)}", hint="edit the plan file")
    if running:
        raise UsageError(
            f"--write-plan runs nothing, so {', '.join(running)} has no effect", hint="give it when you run the plan"
        )


def _refuse_contradictions(
    asked: PlanOptions, *, plan: Path | None, memory: float | None, jobs: int, engine: str
) -> None:
    """Raise an error for options that say different things, or nothing without another one."""
    if asked.no_methods and asked.method:
        raise UsageError("--method and --no-methods contradict each other", hint="leave one of them out")
    if asked.limit is not None and asked.full_probes:
        raise UsageError("--limit and --full-probes contradict each other", hint="leave one of them out")
    if asked.sweep and not asked.method and not plan:
        raise UsageError("--sweep varies a parameter of methods, and none was named", hint="add --method steering")
    if asked.site and not asked.method and not plan:
        raise UsageError("--site says where methods act, and no method was named", hint="add --method leace")
    if memory is not None and jobs == 1:
        raise UsageError("--memory limits the processes of --jobs, and there is one", hint="add --jobs 2, for example")
    if jobs != 1 and engine != "local":
        raise UsageError("--jobs divides the cells, --engine the texts of each cell", hint="leave one of them out")


def _refuse_concept(context: typer.Context, subjects: list[Subject]) -> None:
    """Raise an error for a concept where the subjects name their groups themselves."""
    from evenhand.audit.manifest import name_own_groups

    source = context.get_parameter_source("concept")
    if source is not None and source.name != "DEFAULT" and name_own_groups(subjects):
        raise UsageError("--concept does not apply: a table names its groups itself", hint="name a column: --group")


def _write_plan(plan: Plan, path: Path, as_json: bool) -> None:
    write_text(path, plan.to_toml())
    if as_json:
        show_json(plan.to_dict())
    note(f"plan {path}; run it with `evenhand audit --plan {path}`")


def _planned_concept(before: dict[str, Any]) -> str:
    """Return the concept that a run was asked about; a table names its own groups, whatever was asked."""
    effective = before["arguments"]["effective"].get("concept", "")
    return str(before["concept"]["name"] if before["concept"]["name"] == effective or not effective else effective)


def _note_replaced(out: Path, subjects: list[Subject], plan: Plan) -> None:
    """Say when the record of another audit will be replaced; its cells are kept."""
    file = out / "audit.json"
    try:
        before = json.loads(file.read_text(encoding="utf-8"))["manifest"]
        names = [subject["name"] for subject in before["subjects"]]
        same = names == [subject.name for subject in subjects] and _planned_concept(before) == plan.concept
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return
    if not same:
        note(f"note: replacing the record of {', '.join(names)} in {out}; name another folder with --out to keep it")
