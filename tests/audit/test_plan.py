"""Plans by hand: which questions a concept brings, names of rows, chains of methods, files, and what is refused.

`asked_questions.json` has the queries of every measure for concepts of several kinds; `RECORD_NUMBERS=1 pytest` on this
file writes it again.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import evenhand as eh
from evenhand import measures, words
from evenhand.audit import Plan, Question
from evenhand.audit.plan import (
    at_site,
    check_chain,
    concept_queries,
    default_methods,
    is_answered,
    method_of,
    require_view,
    split_chain,
    step_parts,
    swept,
)
from evenhand.errors import EvenhandError, UnknownNameError, UsageError
from evenhand.subjects import Subject

RECORD = Path(__file__).with_name("asked_questions.json")


class Stub(Subject):
    """A subject that offers views and has nothing in them."""

    kind, title = "stub", "a stub"

    def __init__(self, name: str, offers: tuple[str, ...] = ("vectors",), likelihood: str = "", **more: Any) -> None:
        super().__init__(name, more.pop("address", ""))
        self._offers, self.likelihood_of = offers, likelihood
        self._groups, self._by_default = more.pop("groups", {}), more.pop("by_default", False)

    @property
    def offers(self) -> tuple[Any, ...]:
        return self._offers

    @property
    def own_groups(self) -> dict[str, tuple[str, ...]]:
        return self._groups

    @property
    def changed_by_default(self) -> bool:  # type: ignore[override]
        return self._by_default

    def _open_view(self, name: Any) -> object:
        raise NotImplementedError

    def _content_digest(self) -> str:
        return self.name


VECTORS = Stub("v", by_default=True)
MASKED = Stub("m", ("vectors", "likelihood"), "masked-lm")
CAUSAL = Stub("c", ("vectors", "likelihood", "text"), "causal-lm")
TABLE = Stub("t", ("outcomes",), groups={"sex": ("f", "m"), "race": ("a", "b")})


@pytest.fixture(autouse=True)
def _no_further_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EVENHAND_DATA", raising=False)


# Questions ----------------------------------------------------------------------------------------------------------


def own_concepts() -> dict[str, eh.Concept]:
    """Concepts of every kind: two and more groups, equal and unequal, with questions or neutral words, other languages."""
    two = {"a": ["x", "y"], "b": ["z", "w"]}
    sets = {"one": ["x", "y"]}, {"u": ["u"], "v": ["v"]}
    return {
        "one group": eh.Concept("c", {"a": ["x"]}),
        "two groups": eh.Concept("c", two),
        "unequal groups": eh.Concept("c", {"a": ["x", "y"], "b": ["z", "w", "q"]}, neutral=["n"]),
        "three groups": eh.Concept("c", {**two, "d": ["u", "v"]}),
        "its queries": eh.Concept("c", two, queries=[
            eh.Query("pair", [["x", "y"], ["z", "w"]], [["u"], ["v"]]), eh.Query("single", *sets),
            eh.Query("unequal", [["x", "y"], ["z"]], [["u"], ["v"]]), eh.Query("three", [["x"], ["y"], ["z"]], [["u"], ["v"]]),
        ]),
        "its probes": eh.Concept("c", two, probes=["mab-explicit"]),
        "other language": eh.Concept("c", two, language="xx"),
        "other language, neutral words": eh.Concept("c", two, language="xx", neutral=["n"]),
    }  # fmt: skip


def asked() -> dict[str, dict[str, str]]:
    """Return the queries of every measure by concept; of all measures that ask the same, one line."""
    concepts = {
        id: eh.concept(id) for id in ("gender", "religion", "gender-de", "gender-fr", "age", "nationality", "race")
    }
    concepts |= {"gender x race": eh.concept("gender x race")} | own_concepts()
    found: dict[str, dict[str, str]] = {}
    for name, concept in concepts.items():
        lines: dict[str, list[str]] = {}
        for id in measures.ids():
            queries = " ".join(
                concept_queries(measures.info(id), concept, [TABLE, Stub("u", groups={"age": ("o", "y")})])
            )
            lines.setdefault(queries, []).append(id)
        found[name] = {queries: " ".join(ids) for queries, ids in lines.items()}
    return found


def test_every_measure_asks_the_recorded_questions_about_a_concept() -> None:
    found = asked()
    if os.environ.get("RECORD_NUMBERS"):
        RECORD.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    known = json.loads(RECORD.read_text(encoding="utf-8"))
    assert found.keys() == known.keys()
    for name, lines in known.items():
        assert found[name] == lines, name


def queries(measure: str, concept: eh.Concept | str, *subjects: Subject) -> tuple[str, ...]:
    about = concept if isinstance(concept, eh.Concept) else eh.concept(concept)
    return concept_queries(measures.info(measure), about, subjects)


def test_what_measures_ask_by_hand() -> None:
    own = own_concepts()
    assert queries("weat", "gender") == ("weat-6", "weat-7", "weat-8", "weat-1", "weat-2", "weat-9")
    assert queries("weat", "age") == ("weat-10", "weat-1", "weat-2", "weat-9")
    assert (
        queries("sembias", "religion")
        == queries("interaction", "religion")
        == queries("occupation-share", "race")
        == ()
    )
    three = tuple(f"c/{group}/pleasant-unpleasant" for group in "abd")
    assert queries("generalised-weat", own["three groups"]) == three
    assert queries("weat", own["three groups"]) == ("c/pleasant-unpleasant", *three, "weat-1", "weat-2", "weat-9")
    assert queries("seat", own["three groups"]) == (*three, "weat-1", "weat-2", "weat-9")
    assert queries("mac", own["three groups"]) == ("c/pleasant-unpleasant", "c/career-family")
    assert queries("rnsb", own["two groups"]) == ("c/pleasant-unpleasant",)
    assert queries("generalised-weat", own["its queries"]) == ("pair", "unequal")
    assert queries("weat", own["its queries"])[:3] == ("pair", "unequal", "three")
    assert queries("mac", own["its queries"])[:4] == ("pair", "single", "unequal", "three")
    assert queries("mab", own["its probes"]) == ("mab-explicit",)
    assert queries("direct-bias", own["two groups"]) == ("bolukbasi2016-professions",)
    assert queries("direct-bias", own["unequal groups"]) == ("neutral",)
    assert queries("direct-bias", own["other language"]) == ("vocabulary",)
    assert queries("neighbours", own["unequal groups"]) == ("vocabulary", "neutral")
    assert queries("neighbours", own["other language"]) == ("vocabulary",)
    assert queries("indirect-bias", own["unequal groups"]) == ()
    assert queries("mweat", "gender-de") == ("occupation-forms-de",)
    assert queries("group-metrics", "gender") == ()
    assert queries("group-metrics", "gender", TABLE, TABLE, Stub("u", groups={"age": ("o",)})) == ("sex", "race", "age")
    assert queries("decision-accuracy", "gender", TABLE) == ("rows",)


@pytest.mark.parametrize(
    ("question", "score", "label"),
    [
        (Question("weat", "weat-6"), "", "weat-6"),
        (Question("weat", "religion/x"), "", "weat:religion/x"),
        (Question("direct-bias", "p", {}, "old"), "s", "direct-bias:p:old:s"),
        (Question("direct-bias", "p", {}, "old", True), "s", "direct-bias:old:s"),
        (Question("weat", "weat-6", {}, "", True), "", "weat-6"),
        (Question("gipe", "vocabulary", only_query=True), "", "gipe"),
    ],
)
def test_names_of_rows(question: Question, score: str, label: str) -> None:
    assert question.label(score) == label


@pytest.mark.parametrize(
    ("measure", "query", "concepts"),
    [
        ("weat", "weat-6", {"gender"}), ("weat", "weat-1", set()), ("gipe", "vocabulary", {"gender", "race"}),
        ("retrieval-skew", "grep-biasir", {"gender"}), ("retrieval-skew", "retrieval-topics", {"gender", "race"}),
        ("word-association", "bai2025-career", {"gender"}), ("word-association", "bai2025-racism", {"race"}),
        ("word-association", "unknown", {"gender", "race"}), ("weat", "unknown", {"gender", "race"}),
    ],
)  # fmt: skip
def test_a_control_asks_about_something_else(measure: str, query: str, concepts: set[str]) -> None:
    assert {name for name in ("gender", "race") if Question(measure, query).asks_about(name)} == concepts


def test_plain_data_leaves_out_what_is_empty() -> None:
    assert Question("weat", "weat-6").to_dict() == {"measure": "weat", "query": "weat-6"}
    whole = Question("direct-bias", "p", {"c": 2.0}, "old-direction", True)
    assert whole.to_dict() == {
        "measure": "direct-bias", "query": "p", "options": {"c": 2.0}, "variant": "old-direction", "only_query": True
    }  # fmt: skip
    usual = {"subjects": [], "methods": [], "concept": "gender", "seed": 0, "skip_failing": False}
    assert Plan(()).to_dict() == {**usual, "question": []}
    plan = Plan((whole,), ("hard",), "race", 3, ("a",), True, 9.0, 8)
    assert list(plan.to_dict().items()) == [
        ("subjects", ["a"]), ("methods", ["hard"]), ("concept", "race"), ("seed", 3), ("skip_failing", True),
        ("budget", 9.0), ("most_tokens", 8), ("question", [whole.to_dict()]),
    ]  # fmt: skip
    assert plan.with_seed(5) == replace(plan, seed=5)


# Default plans ------------------------------------------------------------------------------------------------------


def plan(*subjects: Subject, **given: Any) -> Plan:
    return Plan.default(subjects or (VECTORS,), **given)


def test_the_default_plan_asks_every_measure_of_the_views_that_are_offered() -> None:
    made = plan()
    asked = dict.fromkeys(question.measure for question in made.questions)
    infos = {id: measures.info(id) for id in measures.ids()}
    usual = [id for id, info in infos.items() if info.view == "vectors" and concept_queries(info, eh.concept("gender"))]
    assert list(asked) == usual
    assert (made.methods, made.concept, made.seed, made.subjects) == (("linear", "span"), "gender", 0, ("v",))
    assert (made.skip_failing, made.budget, made.most_tokens) == (False, None, None)
    masked, causal = ({question.measure for question in plan(one).questions} for one in (MASKED, CAUSAL))
    assert masked - causal == {"log-probability", "disco"}
    assert causal - masked == {"corpus-bias"}
    assert not {"bias-by-site"} & masked
    writer = Stub("w", ("generation",))
    assert [question.measure for question in plan(writer).questions] == ["counterfactual-text"]
    judged = plan(writer, judge="hf:x").questions
    assert [(one.measure, dict(one.options)) for one in judged] == [
        ("counterfactual-text", {}), ("judged-generations", {"judge": "hf:x"})
    ]  # fmt: skip
    tables = plan(TABLE, only=["group-metrics"]).questions
    assert [(one.query, one.only_query) for one in tables] == [("sex", False), ("race", False)]


def test_a_plan_hands_on_what_it_is_given() -> None:
    made = plan(
        VECTORS, Stub("w", address="/w.vec"), methods=["hard", "leace@layer:2"], site="layer:1", only=["gipe"],
        concept="religion", seed=4, skip_failing=True, limit=9, budget=60.0,
    )  # fmt: skip
    question = Question("gipe", "vocabulary", {"sample": 9}, only_query=True)
    chains = ("hard@layer:1", "leace@layer:2")
    assert made == Plan((question,), chains, "religion", 4, ("v", "/w.vec"), True, 60.0)
    assert plan(methods=["random"], sweep="k=1,2", only=["gipe"]).methods == ("random(k=1)", "random(k=2)")
    assert plan(methods=[], only=["gipe"], concept=eh.concept("race")).concept == "race"
    named = plan(methods=[], only=["weat"], queries=["weat-7"]).questions
    assert named == (Question("weat", "weat-7"),)
    assert plan(methods=[], only=["weat"], concept="age").questions[0] == Question("weat", "weat-10")
    variants = plan(methods=[], only=["direct-bias"]).questions
    assert [(one.variant, one.only_query) for one in variants] == [("old-direction", True), ("new-direction", True)]
    assert [one.options for one in variants] == list(measures.info("direct-bias").variants.values())
    inference = Stub("i", ("inference", "vectors"))
    whole = plan(inference, only=["mab", "gipe"], full_probes=True).questions
    assert [dict(one.options) for one in whole] == [{"sample": 0}, {}]


def test_plans_that_cannot_be_made() -> None:
    with pytest.raises(UsageError, match="nothing to measure: sembias asks nothing about race"):
        plan(methods=[], only=["sembias"], concept="race")
    with pytest.raises(UsageError, match="for models behind servers"):
        plan(most_tokens=5)
    with pytest.raises(UsageError, match="most_tokens must be above 0"):
        plan(most_tokens=0)
    with pytest.raises(EvenhandError, match="hard debiasing"):
        plan(methods=["hard.leace"], concept=eh.Concept("c", {"a": ["x"]}))
    with pytest.raises(UnknownNameError, match="harder"):
        plan(methods=["harder"])


def test_the_default_methods_are_those_that_can_remove_the_concept() -> None:
    groups = {"a": ["x"], "b": ["y"], "d": ["z"]}
    own = eh.Concept("c", groups, direction=words.Recipe("pairs"))  # it has none, and LEACE needs no direction
    assert default_methods([VECTORS], eh.Concept("c", groups)) == ("linear",)
    assert default_methods([VECTORS], eh.concept("gender")) == ("linear", "span")
    assert default_methods([VECTORS], own) == ("leace",)
    assert default_methods([VECTORS], eh.Concept("c", {"a": ["x"]})) == ()
    assert default_methods([VECTORS, MASKED], eh.concept("gender")) == ()
    check_chain("leace", own)
    with pytest.raises(EvenhandError):
        check_chain("leace.linear", own)
    with pytest.raises(EvenhandError, match="works on"):
        check_chain("cda", eh.concept("gender"), eh.open(eh.Vectors(["she"], [[1.0]])))


# Chains -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("chain", "steps"),
    [
        ("hard", ("hard",)), (" hard . misp ", ("hard", "misp")), ("a(x=(0.5);y=.1).b(z=0.2)", ("a(x=(0.5);y=.1)", "b(z=0.2)")),
        ("a.b@layer:2.c", ("a", "b@layer:2", "c")), ("", ("",)),
    ],
)  # fmt: skip
def test_chains_have_steps(chain: str, steps: tuple[str, ...]) -> None:
    assert split_chain(chain) == steps


@pytest.mark.parametrize(
    ("step", "id", "given"),
    [
        ("leace", "leace", {}), ("leace()", "leace", None), (" leace @ layer:4 ", "leace", {"site": "layer:4"}),
        ("a( x = 1 ; y=2=3)@s", "a", {"x": "1", "y": "2=3", "site": "s"}), ("a(x=)", "a", {"x": ""}),
        ("a(x=b(c))", "a", {"x": "b(c)"}), ("a(x=1\n)", "a", {"x": "1"}), ("a(x=m@y)", "a", {"x": "m@y"}),
    ],
)  # fmt: skip
def test_steps_have_parts(step: str, id: str, given: dict[str, str] | None) -> None:
    if given is None:
        with pytest.raises(UsageError, match="'' in 'leace\\(\\)' is not a parameter"):
            step_parts(step)
        return
    assert step_parts(step) == (id, given)


@pytest.mark.parametrize("step", ["random(k)", "random(=2)", "random( =2)", "random(k=1;)"])
def test_a_parameter_has_a_name_and_a_value(step: str) -> None:
    with pytest.raises(UsageError, match="is not a parameter"):
        step_parts(step)


def test_a_site_goes_to_the_steps_without_one() -> None:
    assert at_site("a.b@x.c(k=1)", "y") == "a@y.b@x.c(k=1)@y"
    assert method_of("leace(seed=3)@layer:2").params()["site"] == "layer:2"
    with pytest.raises(UsageError, match="is not a method"):
        step_parts("a(b)c")


def test_sweeps() -> None:
    assert swept(["random(seed=3)@layer:2"], "k= 1 , ,2") == (
        "random(seed=3;k=1)@layer:2",
        "random(seed=3;k=2)@layer:2",
    )
    assert swept(["random(k=5)"], "k=1") == ("random(k=1)",)
    assert swept(["random.span", "random", "span"], "k=1") == ("random.span", "random(k=1)", "span")
    assert swept(["directional-ablation@layer:1", "steering"], "seed=1") == (
        "directional-ablation(seed=1)@layer:1", "directional-ablation(seed=1;direction=random)@layer:1", "steering(seed=1)",
        "steering(seed=1;direction=random)",
    )  # fmt: skip
    assert swept(["leace"], "seed=1") == ("leace(seed=1)",)
    for text in ("k", "k=", "k= , "):
        with pytest.raises(UsageError, match="names no values"):
            swept(["random"], text)
    with pytest.raises(UsageError, match="no method has a parameter 'k'") as raised:
        swept(["span", "random.random"], "k=1")
    assert raised.value.hint == "`evenhand show METHOD` lists the parameters"


# Subjects -----------------------------------------------------------------------------------------------------------


def test_a_measure_needs_a_subject_with_its_view() -> None:
    weat, table, disco = (measures.info(id) for id in ("weat", "group-metrics", "disco"))
    require_view(weat, [])
    require_view(weat, [TABLE, VECTORS])
    require_view(disco, [CAUSAL, MASKED])
    with pytest.raises(UsageError) as raised:
        require_view(weat, [TABLE, Stub("n", ())])
    assert (
        raised.value.message == "weat needs the view 'vectors'; t (a stub) offers outcomes; n (a stub) offers no view"
    )
    assert raised.value.hint == ""
    with pytest.raises(UsageError) as raised:
        require_view(measures.info("bias-by-site"), [Stub("l", ("labels", "inference"))])
    assert raised.value.hint == "for inference: bias-by-site-inference; for labels: bias-by-site-labels"
    with pytest.raises(UsageError) as raised:
        require_view(table, [Stub("l", ("labels",)), VECTORS])
    assert raised.value.hint == "name labelled texts: `texts=`"
    with pytest.raises(UsageError, match="disco is defined for masked language models only, and c is none"):
        require_view(disco, [CAUSAL])
    cases = ((weat, VECTORS), (weat, TABLE), (disco, MASKED), (disco, CAUSAL))
    assert [is_answered(info, subject) for info, subject in cases] == [True, False, True, False]


def test_a_subject_is_asked_what_it_can_answer() -> None:
    questions = tuple(
        Question(*parts) for parts in (
            ("weat", "weat-6"), ("disco", "names"), ("group-metrics", "sex"), ("group-metrics", "age"), ("decision-accuracy", "rows"),
        )
    )  # fmt: skip
    made = Plan(questions)
    assert made.for_subject(VECTORS) == questions[:1]
    assert made.for_subject(MASKED) == questions[:2]
    assert made.for_subject(CAUSAL) == questions[:1]
    assert made.for_subject(TABLE) == (questions[2], questions[4])


# Files --------------------------------------------------------------------------------------------------------------


def read(text: str, folder: Path) -> Plan:
    (folder / "plan.toml").write_text(text, encoding="utf-8")
    return Plan.read(folder / "plan.toml")


def test_a_plan_as_a_file(tmp_path: Path) -> None:
    questions = (
        Question("direct-bias", "vocabulary", {"how": "old", "c": 2.0, "x": [1, "ä"]}, "old-direction", True),
        Question("weat", "weat-6"),
    )
    made = Plan(questions, ("hard.misp",), "race", 3, ("a b",), True, 9.5, 8)
    assert made.to_toml() == "\n".join([
        "# A plan for `evenhand audit --plan FILE`: subjects x methods x questions.", "", 'subjects = ["a b"]',
        'methods = ["hard.misp"]', 'concept = "race"', "seed = 3", "skip_failing = true", "budget = 9.5", "most_tokens = 8",
        "", "[[question]]", 'measure = "direct-bias"', 'query = "vocabulary"',
        'options = { how = "old", c = 2.0, x = [1, "ä"] }', 'variant = "old-direction"', "only_query = true",
        "", "[[question]]", 'measure = "weat"', 'query = "weat-6"', "",
    ])  # fmt: skip
    whole = replace(made, questions=(Question("direct-bias", "vocabulary", {"how": None, "c": 2.0}), questions[1]))
    options = dict(measures.info("direct-bias").variants["old-direction"])
    text = made.to_toml().replace(', x = [1, "ä"]', "").replace('how = "old", ', "")
    assert read(text, tmp_path) == replace(
        whole, questions=(replace(questions[0], options={**options, "c": 2.0}), questions[1])
    )
    assert read('[[question]]\nmeasure = "weat"\n', tmp_path) == Plan((Question("weat", ""),))
    assert read('budget = "2min"\nmost_tokens = 0\n[[question]]\nmeasure = "weat"\n', tmp_path).budget == 120.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[[question]]\nmeasure = "weat"\ncolour = "red"', "colour"),
        ('[[question]]\nmeasure = "weat"\noptions = { colour = 1 }', "there is no option 'colour'"),
        ('[[question]]\nmeasure = "weat"\noptions = { ddof = "x" }', "ddof"),
        ('[[question]]\nmeasure = "corpus-bias"\noptions = { samples = "x" }', "samples"),
        ('[[question]]\nmeasure = "direct-bias"\nvariant = "odd"', "variant of direct-bias"),
        ("question = [3]", "question"), ("question = []", "the list is empty"), ('methods = ["hard.leach"]\n[[question]]\nmeasure = "weat"', "leach"),
        ('budget = "x"\n[[question]]\nmeasure = "weat"', "not a length of time"), ('seed = "x"\n[[question]]\nmeasure = "weat"', "seed"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_plan(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(EvenhandError, match=message):
        read(text + "\n", tmp_path)


def test_how_much_is_written_is_no_option_of_the_measure(tmp_path: Path) -> None:
    asked = '[[question]]\nmeasure = "corpus-bias"\noptions = { samples = 3, tokens = 4, permutations = 2 }\n'
    assert read(asked, tmp_path).questions[0].options == {"samples": 3, "tokens": 4, "permutations": 2}
    with pytest.raises(EvenhandError, match="no option 'tokens'"):
        read(asked.replace("corpus-bias", "seat").replace(", permutations = 2", ""), tmp_path)


def test_generic_queries_are_asked_where_there_are_no_others() -> None:
    assert not any(words.query(id).concept == "religion" for id in words.ids("query"))
    assert queries("rnd", "religion") == ("religion/pleasant-unpleasant",)
    assert queries("ect", own_concepts()["two groups"]) == ("c/pleasant-unpleasant", "c/career-family")
