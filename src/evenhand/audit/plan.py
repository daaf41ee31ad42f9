"""What an audit does, decided before anything runs: subjects, methods, and the questions put to each stage."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from evenhand import measures, mitigations, words
from evenhand.audit.schema import option_problem, type_problem
from evenhand.audit.workload import check_sizes, judged, limited, seconds_of, with_texts
from evenhand.errors import EvenhandError, UsageError, unknown_name
from evenhand.measures.registry import Info
from evenhand.mitigations.method import check_methods
from evenhand.subjects import Subject
from evenhand.words import Concept, Intersection
from evenhand.words.catalog import SEPARATOR, queries_about
from evenhand.words.document import TomlTable, read_document
from evenhand.words.probes import probe

DEFAULT_METHODS = ("linear", "span")
FALLBACK_METHODS = ("leace",)  # needs groups only, where the others need pairs
VOCABULARY = "vocabulary"
EVERYTHING = 0  # as a sample size: all pairs of a probe
MODELS = {"masked-lm": "masked language models", "causal-lm": "causal language models"}


@dataclass(frozen=True)
class Question:
    """One measure with one query, and options where the default is not meant. It becomes a row of the report."""

    measure: str
    query: str
    options: Mapping[str, Any] = field(default_factory=dict)
    variant: str = ""
    only_query: bool = False
    """Whether the measure asks nothing else about the concept, so its row needs no query in its name."""

    @property
    def info(self) -> Info:
        """The description of the measure."""
        return measures.info(self.measure)

    def label(self, score: str = "") -> str:
        """Return the name of the row in tables and in `check`: short, stable, without commas."""
        name = self.query if self.query.startswith(self.measure) else f"{self.measure}:{self.query}"
        name = self.measure if self.only_query and not self.query.startswith(self.measure) else name
        return ":".join(filter(None, (name, self.variant, score)))

    def asks_about(self, concept: str) -> bool:
        """Return whether the query asks about a concept; controls without one say nothing about its removal."""
        asked = self.info.query_concepts.get(self.query)
        if asked is None and self.info.find_query and (found := self.info.find_query(self.query)):
            asked = found.concept
        if asked is None and self.query in words.ids("query"):
            asked = words.query(self.query).concept
        return asked is None or asked == concept

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON and TOML, without empty fields."""
        plain: dict[str, Any] = {"measure": self.measure, "query": self.query}
        if self.options:
            plain["options"] = dict(self.options)
        if self.variant:
            plain["variant"] = self.variant
        return plain | ({"only_query": True} if self.only_query else {})


@dataclass(frozen=True)
class Plan:
    """The whole audit as data."""

    questions: tuple[Question, ...]
    methods: tuple[str, ...] = ()
    concept: str = "gender"
    seed: int = 0
    subjects: tuple[str, ...] = ()
    skip_failing: bool = False
    """Whether a method that cannot be fitted is recorded and left out, instead of ending the run."""
    budget: float | None = None
    """Seconds after which no cell begins; those left out are named in the record, and a later run measures them."""
    most_tokens: int | None = None
    """Tokens of servers that may be spent, in place of seconds."""

    @classmethod
    def default(
        cls,
        subjects: Sequence[Subject],
        *,
        methods: Iterable[str] | None = None,
        site: str | None = None,
        sweep: str | None = None,
        only: Iterable[str] = (),
        queries: Iterable[str] = (),
        concept: str | Path | Concept = "gender",
        seed: int = 0,
        skip_failing: bool = False,
        full_probes: bool = False,
        limit: int | None = None,
        samples: int | None = None,
        tokens: int | None = None,
        budget: float | None = None,
        judge: str | None = None,
        judge_label: str | None = None,
        most_tokens: int | None = None,
    ) -> Plan:
        """Build the plan that asks every fitting measure the questions of the concept.

        Args:
            subjects: what is audited; measures whose view none of them offers are left out.
            methods: method ids, chains as "hard.misp", and "leace@layer:4" at a site of a transformer; None for the
                default methods if all subjects are word vectors.
            site: where in a transformer the methods act that do not name a site themselves.
            sweep: values of a parameter, "strength=-2,2": each method that has it is tried with all of them, and its
                control beside it.
            only: measure ids; empty for all.
            queries: query ids for the measures in `only`, instead of the concept's.
            concept: what is measured and removed.
            seed: seed of every random step.
            skip_failing: record a method that cannot be fitted and go on without it.
            full_probes: ask inference models about all pairs of a probe instead of a sample.
            limit: the most items that a measure asks which can draw a sample of them.
            samples: texts that a language model writes, for measures of text; 200 by default.
            tokens: the largest number of tokens in each of them; 100 by default.
            budget: seconds after which no cell begins.
            judge: who rates what models write: addresses with commas, see `judged_generations`.
            judge_label: the label that is rated, for each judge, with commas.
            most_tokens: tokens that servers may read and write; a cell that would take more does not begin.
        """
        check_sizes(limit=limit, samples=samples, tokens=tokens, budget=budget, most_tokens=most_tokens)
        if most_tokens and not any(subject.rehearsal() for subject in subjects):
            raise UsageError(
                "a budget in tokens is for models behind servers, and none is audited",
                hint="give a time, such as 10min",
            )
        about = words.concept(concept)
        views = {view for subject in subjects for view in subject.asked_by_default}
        chains = default_methods(subjects, about) if methods is None else tuple(methods)
        chains = tuple(at_site(chain, site) for chain in chains) if site else chains
        chains = swept(chains, sweep) if sweep else chains
        for chain in chains:
            check_chain(chain, about)
        chosen = list(only) or [
            name
            for name in measures.ids()
            if (info := measures.info(name)).view in views
            and not info.on_request
            and any(is_answered(info, subject) for subject in subjects)
            and (not info.asked_if or judge is not None)
        ]
        for name in chosen:
            require_view(measures.info(name), subjects)
        questions = tuple(
            question
            for name in chosen
            for question in _questions(measures.info(name), about, queries, full_probes, subjects)
        )
        questions = limited(questions, limit) if limit else questions
        questions = with_texts(questions, subjects, samples, tokens)
        questions = judged(questions, judge, judge_label)
        if not questions:
            raise UsageError(
                f"nothing to measure: {', '.join(chosen) or 'no measure'} asks nothing about {about.name}",
                hint="name a query (`queries=`), or measure something else",
            )
        reference = concept if not isinstance(concept, Concept) else concept.name
        addresses = tuple(subject.address or subject.name for subject in subjects)
        return cls(questions, chains, str(reference), seed, addresses, skip_failing, budget, most_tokens)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        plain: dict[str, Any] = {"subjects": list(self.subjects), "methods": list(self.methods)}
        plain |= {"concept": self.concept, "seed": self.seed, "skip_failing": self.skip_failing}
        plain |= {"budget": self.budget} if self.budget else {}
        plain |= {"most_tokens": self.most_tokens} if self.most_tokens else {}
        return plain | {"question": [question.to_dict() for question in self.questions]}

    def to_toml(self) -> str:
        """Return the plan as the text of a plan file."""
        plain = self.to_dict()
        lines = ["# A plan for `evenhand audit --plan FILE`: subjects x methods x questions.", ""]
        lines += [f"{key} = {_toml(plain[key])}" for key in plain if key != "question"]
        for question in plain["question"]:
            lines += ["", "[[question]]", *(f"{key} = {_toml(value)}" for key, value in question.items())]
        return "\n".join(lines) + "\n"

    @classmethod
    def read(cls, path: str | Path) -> Plan:
        """Read a plan file; every unknown name in it is an error that says where."""
        document = read_document(Path(path))
        top = TomlTable(document, (), document.data)
        top.only("subjects", "methods", "concept", "seed", "skip_failing", "budget", "most_tokens", "question")
        items = top.items("question")
        if problem := type_problem(items, list[dict[str, Any]], ""):
            raise top.error("question", problem)
        questions = [
            _question(TomlTable(document, ("question", str(n)), item)) for n, item in enumerate(items, start=1)
        ]
        with top.at("concept"):
            about = words.concept(top.text("concept", "gender"))
        methods = tuple(top.texts("methods")) if top.table.get("methods") else ()
        with top.at("methods"):
            for chain in methods:
                check_chain(chain, about)
        subjects = tuple(top.texts("subjects")) if top.table.get("subjects") else ()
        with top.at("budget"):
            budget = seconds_of(str(top.table["budget"])) if "budget" in top.table else None
        return cls(
            tuple(questions), methods, top.text("concept", "gender"), top.value("seed", int, 0), subjects,
            top.flag("skip_failing"), budget, top.value("most_tokens", int, 0) or None,
        )  # fmt: skip

    def for_subject(self, subject: Subject) -> tuple[Question, ...]:
        """Return the questions that a subject can answer; of outcomes, those about groups that it has."""
        answered = [question for question in self.questions if is_answered(question.info, subject)]
        return tuple(q for q in answered if not _asks_groupings(q.info) or q.query in subject.own_groups)

    def with_seed(self, seed: int) -> Plan:
        """Return the same plan with another seed."""
        return replace(self, seed=seed)


def default_methods(subjects: Sequence[Subject], concept: Concept) -> tuple[str, ...]:
    """Return the methods of a default audit that can work with the concept; none for models, which are only measured.

    Measuring a model takes minutes for each method, so its methods must be named.
    """
    if not all(subject.changed_by_default for subject in subjects):
        return ()
    fitting = tuple(chain for chain in DEFAULT_METHODS if _can_remove(chain, concept))
    return fitting or tuple(chain for chain in FALLBACK_METHODS if _can_remove(chain, concept))


def _can_remove(chain: str, concept: Concept) -> bool:
    try:
        check_chain(chain, concept)
    except EvenhandError:
        return False
    return True


def check_chain(chain: str, concept: Concept, subject: Subject | None = None) -> None:
    """Raise if a method of a chain is unknown or cannot work with concept or subject, before anything is fitted."""
    methods = [method_of(step) for step in split_chain(chain)]
    for method in methods:
        method.check_concept(concept)
    if subject is not None:
        check_methods(methods, subject, concept)


def split_chain(chain: str) -> tuple[str, ...]:
    """Return the steps of "hard.misp" or "linear@layer:4" in the order they are applied.

    >>> split_chain("steering(strength=0.5)@layer:4.leace")
    ('steering(strength=0.5)@layer:4', 'leace')
    """
    steps, depth = [""], 0
    for letter in chain:
        depth += (letter == "(") - (letter == ")")
        if letter == "." and depth == 0:
            steps.append("")
        else:
            steps[-1] += letter
    return tuple(step.strip() for step in steps)


STEP = re.compile(r"(?P<id>[^(@]*)(?:\((?P<params>.*)\))?(?:@(?P<site>.*))?", re.DOTALL)


def step_parts(step: str) -> tuple[str, dict[str, str]]:
    """Return the method of a step and its parameters as text: "steering(strength=2;seed=1)@layer:4".

    >>> step_parts("steering(strength=2)@layer:4")
    ('steering', {'strength': '2', 'site': 'layer:4'})
    """
    match = STEP.fullmatch(step)
    if match is None:
        raise UsageError(f"{step!r} is not a method", hint="write METHOD, METHOD@SITE or METHOD(NAME=VALUE)@SITE")
    given: dict[str, str] = {}
    for text in (match["params"] or "").split(";") if match["params"] is not None else ():
        name, sign, value = text.partition("=")
        if not sign or not name.strip():
            raise UsageError(f"{text!r} in {step!r} is not a parameter", hint="write METHOD(NAME=VALUE;NAME=VALUE)")
        given[name.strip()] = value.strip()
    return match["id"].strip(), given | ({"site": match["site"].strip()} if match["site"] is not None else {})


def method_of(step: str) -> mitigations.Mitigation:
    """Return the method of a step: "leace", "leace@layer:4" at a site, "steering(strength=2)" with a parameter."""
    id, given = step_parts(step)
    return mitigations.get(id).with_params(given)


def at_site(chain: str, site: str) -> str:
    """Return a chain whose methods act at a site, except those that name one already."""
    steps = split_chain(chain)
    return ".".join(step if "site" in step_parts(step)[1] else f"{step}@{site}" for step in steps)


def swept(chains: Sequence[str], text: str) -> tuple[str, ...]:
    """Return each method once for every value of a parameter that it has: "strength=-2,2".

    A method with a control gets it for every value too: a random direction, or shuffled labels. Methods without the
    parameter stay as they are.
    """
    name, sign, listed = text.partition("=")
    values = [value.strip() for value in listed.split(",") if value.strip()]
    if not sign or not values:
        raise UsageError(f"{text!r} names no values", hint="write NAME=VALUE,VALUE, such as strength=-2,-1,1,2")
    found: list[str] = []
    for chain in chains:
        id, given = step_parts(chain) if len(split_chain(chain)) == 1 else ("", {})
        known = {parameter.name for parameter in mitigations.get(id).parameters()} if id else set()
        if name not in known:
            found.append(chain)
            continue
        controls: list[dict[str, str]] = [{}]
        controls += [{"direction": "random"}] if "direction" in known and "pooling" in known else []
        found += [_step(id, given | {name: value} | more) for more in controls for value in values]
    if not any(f"{name}=" in chain for chain in found):
        raise UsageError(f"no method has a parameter {name!r}", hint="`evenhand show METHOD` lists the parameters")
    return tuple(found)


def _step(id: str, given: Mapping[str, str]) -> str:
    params = ";".join(f"{name}={value}" for name, value in given.items() if name != "site")
    return f"{id}({params})" + (f"@{given['site']}" if "site" in given else "")


def require_view(info: Info, subjects: Sequence[Subject]) -> None:
    """Raise if no subject offers the view that a measure takes."""
    if subjects and not any(info.view in subject.offers for subject in subjects):
        offers = "; ".join(f"{s.name} ({s.title}) offers {', '.join(s.offers) or 'no view'}" for s in subjects)
        kin = [measures.info(name) for name in measures.ids() if name.startswith(f"{info.id}-")]
        hints = [f"for {each.view}: {each.id}" for each in kin if any(each.view in s.offers for s in subjects)]
        if info.view == "outcomes" and any("labels" in subject.offers for subject in subjects):
            hints.append("name labelled texts: `texts=`")
        raise UsageError(f"{info.id} needs the view {info.view!r}; {offers}", hint="; ".join(hints))
    if subjects and not any(is_answered(info, subject) for subject in subjects):
        raise UsageError(
            f"{info.id} is defined for {MODELS[info.needs]} only, and {subjects[0].name} is none",
            hint="measure something else: evenhand list measures",
        )


def is_answered(info: Info, subject: Subject) -> bool:
    """Return whether a subject offers the view of a measure, from the kind of model that the measure needs."""
    return info.view in subject.offers and info.needs in ("", subject.likelihood_of)


def _asks_groupings(info: Info) -> bool:
    """Return whether a measure asks about the groups that a subject names itself."""
    return info.view == "outcomes" and not info.default_queries()


def concept_queries(info: Info, concept: Concept, subjects: Sequence[Subject] = ()) -> tuple[str, ...]:
    """Return what a measure asks about a concept: its own questions, else generic ones, and untagged controls.

    A measure of outcomes asks about each grouping that the subjects name themselves.
    """
    if _asks_groupings(info):
        return tuple(dict.fromkeys(grouping for subject in subjects for grouping in subject.own_groups))
    if info.concepts and concept.name not in info.concepts:
        return ()
    if info.crossed and not isinstance(concept, Intersection):
        return ()
    if info.takes == "query":
        return _query_ids(info, concept)
    if info.takes == "words":
        return _word_lists(info, concept)
    if info.takes == "probe":
        own = concept.probes or [id for id in info.default_queries() if probe(id).concept == concept.name]
        return tuple(own)
    queries = info.default_queries()
    return tuple(id for id in queries if info.query_concepts.get(id, concept.name) == concept.name)


def _query_ids(info: Info, concept: Concept) -> tuple[str, ...]:
    about = {}
    for id in info.default_queries():
        about[id] = info.query(id, concept).concept
    tagged = [id for id in about if about[id] == concept.name]
    controls = [id for id in about if not about[id]] if concept.language == "en" else []
    own = [query.name for query in concept.queries]
    if concept.language != "en" and not own:  # the queries that a measure names are English
        own = list(queries_about(concept.name))
    has_shipped = not set(tagged).isdisjoint(words.ids("query")) or any(queries_about(concept.name))
    if not own and not has_shipped:
        own = [id for id in words.generic_ids(concept) if _is_asked(info, id, concept)]
    fitting = [id for id in own if _fits(info, words.concept_query(id, concept).arity)]
    return tuple(dict.fromkeys([*fitting, *tagged, *controls]))


def _is_asked(info: Info, id: str, concept: Concept) -> bool:
    """Return whether a measure is asked a generic query: all groups together, or each group against the others."""
    prefix, _, attributes = id.rpartition(SEPARATOR)
    single = prefix != concept.name
    if single:
        return info.one_against_rest and attributes == info.generic[0]
    if len(concept.groups) > 2 and _is_tabulated(info):
        return attributes == info.generic[0]
    return attributes in info.generic


def _is_tabulated(info: Info) -> bool:
    """Return whether a measure of two groups is asked about every two of many; encoders would read texts too often."""
    return info.arity[0] == 2 and info.view == "vectors"


def _fits(info: Info, arity: tuple[int, int]) -> bool:
    if info.matched_sets and arity[0] != arity[1]:
        return False
    if _is_tabulated(info) and arity[0] > 2:
        return info.arity[1] in (None, arity[1])
    return all(wanted in (None, given) for wanted, given in zip(info.arity, arity, strict=True))


def _word_lists(info: Info, concept: Concept) -> tuple[str, ...]:
    """The vocabulary for any language; shipped English lists, or the concept's own neutral words, instead of them."""
    if not info.default_queries():
        return ()
    lists = [name for name in info.default_queries() if name == VOCABULARY or concept.language == "en"]
    if len(concept.neutral):
        lists = [NEUTRAL if name != VOCABULARY else name for name in info.default_queries()]
    return tuple(dict.fromkeys(lists)) or (VOCABULARY,)


NEUTRAL = "neutral"  # as a query: the neutral words of the concept


def _questions(
    info: Info, concept: Concept, queries: Iterable[str], full_probes: bool, subjects: Sequence[Subject] = ()
) -> list[Question]:
    usual = concept_queries(info, concept, subjects)
    asked = tuple(queries) or usual
    options = {"sample": EVERYTHING} if full_probes and info.view == "inference" else {}
    variants = info.variants or {"": {}}
    return [
        Question(info.id, query, {**settings, **options}, variant, only_query=usual == (query,))
        for query in asked
        for variant, settings in variants.items()
    ]


def _question(entry: TomlTable) -> Question:
    entry.only("measure", "query", "options", "variant", "only_query")
    with entry.at("measure"):
        info = measures.info(entry.text("measure"))
    variant = entry.text("variant", "")
    if variant and variant not in info.variants:
        with entry.at("variant"):
            raise unknown_name(f"variant of {info.id}", variant, info.variants)
    given = entry.child("options")
    for name, value in given.table.items():
        if info.view == "text" and name in ("samples", "tokens"):  # how much a model writes: `workload.with_texts`
            given.value(name, int)
            continue
        if problem := option_problem(measures.get(info.id), name, value):
            raise given.error(name, problem)
    options = dict(info.variants.get(variant, {})) | dict(given.table)
    return Question(info.id, entry.text("query", ""), options, variant, entry.flag("only_query"))


def _toml(value: object) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
