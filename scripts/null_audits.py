"""Audit subjects without bias and count how many audits claim one: the rate of false findings.

    python scripts/null_audits.py -n 500 --jobs 16 --seconds 3000 -o null.json
    python scripts/null_audits.py --kind masked --concept gender --measure crows-pairs winobias -n 50
    python scripts/null_audits.py --kind inference --concept gender --measure bias-by-site-inference -n 500
    python scripts/null_audits.py --summarise -o null.json

Subjects, each drawn anew from a seed:

- vectors: the embedded vectors with their rows exchanged between words at random.
- encoder, masked, causal, classifier, inference: small transformers with random weights and a tokenizer of whole
  words. Inference models are asked only if they are named (`--kind`).
- corpus: documents of WikiText-2 (`EVENHAND_DATA`), or of random words where it is absent, drawn with replacement; a
  group word is replaced by that of a random group each time it occurs.

An audit asks the default questions about the concept, with no method, as `evenhand audit` does, or the measures that
are named, also those that an audit asks on request only. What can claim no bias is not asked, which saves time and
changes no finding: quality, controls, measures that say only what a method left, and measures of vectors without a
test. An audit claims bias if a finding says so after correction. At most 5 % may. That a classifier decides otherwise
for another group is a fact about the texts asked, which needs no test; facts are counted apart.

Every finished audit is a line of OUTPUT.jsonl. The same command goes on where it was interrupted. OUTPUT.json and
OUTPUT.md sum up all lines.
"""

import argparse
import json
import os
import re
import tempfile
import time
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from importlib import resources
from importlib.metadata import PackageNotFoundError, version
from multiprocessing import get_context
from pathlib import Path
from platform import python_version
from typing import Any

import numpy as np

import evenhand as eh
from evenhand import data, words
from evenhand.audit.plan import Plan, is_answered
from evenhand.audit.significance import role
from evenhand.files import write_text
from evenhand.measures.registry import info
from evenhand.models.nli.protocol import LABELS
from evenhand.report.findings import findings
from evenhand.stats.bootstrap import wilson
from evenhand.subjects import Subject, open_subject

COUNT, LEVEL = 500, 0.05
LEVELS = (LEVEL, 0.01)
CONCEPTS = ("gender", "race", "religion")
COMMON_WORDS = 2_000  # of the embedded vectors, which a tokenizer knows beside those of the questions
DOCUMENTS = 1_500
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
SPREAD = 0.3  # of the weights; with the usual 0.02 a model predicts every word alike
LONGEST = 128
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
TOKEN = re.compile(r"\b[a-z]+\b|\b[0-9]{1,2}\b|[^\w\s]")  # without the ids of data sets
OTHER_LANGUAGES = re.compile(r"french|german|italian|japanese|multilingual|russian|spanish")
PAIRS = "bordia2019-cnn-dm"  # the group words of corpus-bias for gender
UNTESTED = (  # measures without a p-value and without a value expected of nothing, so they claim nothing
    *("analogy-generation", "bat", "direct-bias", "ect", "gipe", "mac", "midb", "proximity-bias", "ripa", "rnsb"),
    *("same", "sembias"),
)


# Subjects ------------------------------------------------------------------------------------------------------------


def shuffled_vectors(seed: int, folder: Path, concept: str) -> Subject:
    """The embedded vectors, dealt to the words at random."""
    vectors = eh.Vectors.default()
    order = np.random.default_rng(seed).permutation(len(vectors))
    return open_subject(eh.Vectors(list(vectors.words), np.asarray(vectors.matrix)[order], name=f"shuffled-{seed}"))


def random_transformer(class_name: str, **more: object) -> Callable[[int, Path, str], Subject]:
    """Return what builds a small transformer with random weights and opens it."""

    def build(seed: int, folder: Path, concept: str) -> Subject:
        import torch
        import transformers

        transformers.utils.logging.disable_progress_bar()
        torch.set_num_threads(1)
        torch.manual_seed(zlib.crc32(f"{class_name} {seed}".encode()))  # no two kinds share their weights
        tokenizer = _tokenizer(causal=class_name.startswith("GPT2"))
        settings: dict[str, Any] = {"vocab_size": len(tokenizer), "initializer_range": SPREAD, **more}
        if class_name.startswith("GPT2"):
            settings |= {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": LONGEST}
            settings |= {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}
        else:
            settings |= {**SIZES, "max_position_embeddings": LONGEST, "pad_token_id": 0}
        model_class = getattr(transformers, class_name)
        path = folder / f"random-{seed}"
        model_class(model_class.config_class(**settings)).eval().save_pretrained(path)
        tokenizer.save_pretrained(path)
        return open_subject(f"hf:{path}")

    return build


@lru_cache(maxsize=2)
def _tokenizer(*, causal: bool) -> Any:
    """Return a tokenizer of whole words in lower case."""
    import tokenizers
    import transformers

    vocabulary = {token: row for row, token in enumerate((*SPECIAL, *_vocabulary()))}
    core = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    core.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    core.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    shared = {"pad_token": "[PAD]", "unk_token": "[UNK]", "model_max_length": LONGEST}
    if causal:
        return transformers.PreTrainedTokenizerFast(
            tokenizer_object=core, bos_token="[CLS]", eos_token="[SEP]", **shared
        )
    core.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=core, cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]", **shared
    )


def _vocabulary() -> list[str]:
    """Return the words of the shipped lists and of the data sets on this disk, and the commonest words."""
    shipped = resources.files("evenhand.words") / "data"
    texts = [
        file.read_text("utf-8")
        for file in shipped.iterdir()
        if file.is_file() and not OTHER_LANGUAGES.search(file.name)
    ]
    for name in ("crows-pairs", "seat", "stereoset", "winobias", "winogender"):
        where = data.locate(name)
        for path in sorted(where.rglob("*") if where and where.is_dir() else [where] if where else []):
            if path.is_file() and path.suffix in (".csv", ".json", ".jsonl", ".tsv", ".txt", ".dev", ".test"):
                texts.append(path.read_text("utf-8", errors="replace"))
    found = {token for text in texts for token in TOKEN.findall(text.lower())}
    return sorted(found | set(TOKEN.findall(" ".join(eh.Vectors.default().words[:COMMON_WORDS]))))


def relabelled_corpus(seed: int, folder: Path, concept: str) -> Subject:
    """Documents drawn with replacement, in which every group word belongs to a random group."""
    rng = np.random.default_rng(seed)
    rows = _group_rows(concept)
    places = {word: (number, group) for number, row in enumerate(rows) for group, word in enumerate(row)}
    documents, source = _documents()

    def relabel(match: re.Match[str]) -> str:
        row = rows[places[match[0].lower()][0]]
        return row[int(rng.integers(len(row)))]

    pattern = re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(places, key=len, reverse=True)))})\b", re.IGNORECASE)
    drawn = [documents[row] for row in rng.integers(len(documents), size=DOCUMENTS)]
    path = folder / f"{source}-{seed}.txt"
    path.write_text("\n".join(pattern.sub(relabel, text) for text in drawn), encoding="utf-8")
    return open_subject(f"corpus:{path}", documents="line")


def _group_rows(concept: str) -> list[tuple[str, ...]]:
    """Return words of all groups that stand for each other."""
    if concept == "gender":
        return [tuple(pair) for pair in words.pairs(PAIRS)]
    groups = list(eh.concept(concept).groups.values())
    return list(zip(*(tuple(word.lower() for word in group) for group in groups), strict=False))


@lru_cache(maxsize=1)
def _documents() -> tuple[list[str], str]:
    """Return paragraphs of WikiText-2, or of random words where it is absent, and what they are."""
    where = data.locate("wikitext-2") or next(
        (path for path in [Path(os.environ.get("EVENHAND_DATA", "")) / "wikitext-2"] if path.is_dir()), None
    )
    if where:
        text = (where / "train.txt").read_text("utf-8")
        return [line.strip() for line in text.splitlines() if len(line.split()) > 20], "wikitext-2"
    rng = np.random.default_rng(0)
    common = [word for word in eh.Vectors.default().words[:COMMON_WORDS] if word.isalpha()]
    common += [word for concept in CONCEPTS for row in _group_rows(concept) for word in row]
    weights = 1 / np.arange(1, len(common) + 1)
    drawn = rng.choice(common, size=(4_000, 60), p=weights / weights.sum())
    return [" ".join(row) for row in drawn.tolist()], "synthetic"


KINDS: dict[str, Callable[[int, Path, str], Subject]] = {
    "vectors": shuffled_vectors,
    "encoder": random_transformer("BertModel"),
    "masked": random_transformer("BertForMaskedLM"),
    "causal": random_transformer("GPT2LMHeadModel"),
    "classifier": random_transformer("BertForSequenceClassification"),
    "inference": random_transformer("BertForSequenceClassification", id2label=dict(enumerate(LABELS))),
    "corpus": relabelled_corpus,
}


# Audits --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Task:
    """One audit."""

    kind: str
    concept: str
    seed: int
    measures: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    limit: int | None = None
    settings: tuple[str, ...] = ()


def audit(task: Task) -> dict[str, Any]:
    """Return what one audit of nothing claims, and the p-value of every score."""
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        subject = KINDS[task.kind](task.seed, Path(folder), task.concept)
        found = eh.Audit.run(subject, plan=null_plan(subject, task))
        told = [finding for finding in findings(found) if finding.kind == "bias" and finding.label]
        return {
            "kind": task.kind,
            "concept": task.concept,
            "seed": task.seed,
            "claims": [(finding.label, finding.p_value) for finding in told if finding.p_value is not None],
            "facts": [finding.label for finding in told if finding.p_value is None],
            "p_values": {
                result.label: result.measurement.p_value
                for result in found.results
                if result.measurement.value is not None
            },
            "seconds": round(time.perf_counter() - started, 2),
        }


def null_plan(subject: Subject, task: Task) -> Plan:
    """Return the default questions that can claim a bias."""
    asked = [name for name in task.measures if is_answered(info(name), subject)]
    plan = Plan.default(
        [subject], methods=[], only=asked, concept=task.concept, seed=task.seed, limit=task.limit or None
    )
    kept = tuple(
        question
        for question in plan.questions
        if role(question, task.concept) in ("bias", "by construction")
        and question.info.role != "left"
        and question.measure not in (*UNTESTED, *task.without)
        and (not task.measures or question.measure in task.measures)
    )
    if not kept:
        raise SystemExit(f"nothing to ask of {task.kind} about {task.concept} with these measures")
    options = dict(setting.split("=", 1) for setting in task.settings)
    return replace(plan, questions=tuple(replace(q, options={**q.options, **options}) for q in kept))


def run(tasks: Sequence[Task], jobs: int, deadline: float) -> Iterator[dict[str, Any]]:
    """Yield the results of audits as they finish; none is begun after the deadline."""
    if jobs == 1:
        for task in tasks:
            if time.monotonic() > deadline:
                return
            yield audit(task)
        return
    left = iter(tasks)
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        running = {pool.submit(audit, task) for task, _ in zip(left, range(jobs), strict=False)}
        while running:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                if time.monotonic() < deadline and (task := next(left, None)) is not None:
                    running.add(pool.submit(audit, task))
                yield future.result()


# Results -------------------------------------------------------------------------------------------------------------


def summary(kind: str, concept: str, results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return how many audits claim something, which measures do, and the p-values by score."""
    n = len(results)
    claiming = sum(bool(result["claims"]) for result in results)
    by_label: dict[str, list[float | None]] = {}
    for result in results:
        for label, p in result["p_values"].items():
            by_label.setdefault(label, []).append(p)
    rows = {}
    for label, values in sorted(by_label.items()):
        p = np.array([value for value in values if value is not None])
        if len(p):
            shares = {f"p{100 * level:02.0f}": float((p < level).mean()) for level in LEVELS}
            rows[label] = {"n": len(values), "without_p": len(values) - len(p), **shares, "least": float(p.min())}
    claims = Counter(label for result in results for label, _ in result["claims"])
    return {
        "kind": kind,
        "concept": concept,
        "done": n,
        "seeds": [min(result["seed"] for result in results), max(result["seed"] for result in results)],
        "claiming": claiming,
        "share": claiming / n,
        "interval": wilson(claiming / n, n).tolist(),
        "with_facts": sum(bool(result["facts"]) for result in results),
        "claims": dict(claims.most_common()),
        "seeds_with_claims": sorted(result["seed"] for result in results if result["claims"]),
        "seconds_of_an_audit": float(np.mean([result["seconds"] for result in results])),
        "scores": rows,
    }


def summaries(results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one summary for each kind and concept."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for result in results:
        groups.setdefault((result["kind"], result["concept"]), []).append(result)
    return [
        summary(kind, concept, groups[kind, concept])
        for kind in KINDS
        for concept in CONCEPTS
        if (kind, concept) in groups
    ]


def table(every: Sequence[dict[str, Any]]) -> str:
    """Return the results as Markdown: claims by kind, then the p-values of every score."""
    lines = [
        "| subject | concept | audits | claim bias | share | 95 % interval | claimed by |",
        "|---|---|--:|--:|--:|---|---|",
    ]
    for one in every:
        by = ", ".join(f"{label} ({count})" for label, count in one["claims"].items())
        low, high = one["interval"]
        lines.append(
            f"| {one['kind']} | {one['concept']} | {one['done']} | {one['claiming']} | "
            f"{100 * one['share']:.1f} % | {100 * low:.1f} to {100 * high:.1f} % | {by} |"
        )
    lines += ["", "| subject | concept | score | audits | p < .05 | p < .01 |", "|---|---|---|--:|--:|--:|"]
    for one in every:
        for label, row in one["scores"].items():
            shares = (f"{100 * row[key]:.1f} %" for key in ("p05", "p01"))
            lines.append(f"| {' | '.join(map(str, (one['kind'], one['concept'], label, row['n'], *shares)))} |")
    return "\n".join(lines) + "\n"


def manifest(arguments: argparse.Namespace, seconds: float) -> dict[str, Any]:
    """Return what the results depend on."""
    versions = {"python": python_version(), "evenhand": eh.__version__}
    for package in ("numpy", "scipy", "scikit-learn", "torch", "transformers"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "absent"
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(seconds, 1),
        "versions": versions,
        "options": {key: value for key, value in vars(arguments).items() if key not in ("output", "summarise")},
        "corpus": _documents()[1] if "corpus" in arguments.kind else None,
        "level": LEVEL,
    }


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the audits of a file; a last line that was cut off is left out."""
    if not path.exists():
        return []
    lines = path.read_text("utf-8").split("\n")
    return [json.loads(line) for line in lines[:-1]]


def write_summary(output: Path, about: dict[str, Any]) -> None:
    """Sum up all audits of a file of lines."""
    every = summaries(read_lines(output.with_suffix(".jsonl")))
    write_text(output, json.dumps({"manifest": about, "results": every}, indent=1) + "\n")
    write_text(output.with_suffix(".md"), table(every))


def main() -> None:
    """Run the audits that are missing and write a summary of all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    usual = [kind for kind in KINDS if kind != "inference"]
    parser.add_argument("--kind", nargs="+", choices=list(KINDS), default=usual)
    parser.add_argument("--concept", nargs="+", choices=CONCEPTS, default=list(CONCEPTS))
    parser.add_argument("--measure", nargs="+", default=[], help="ask these measures only")
    parser.add_argument("--without", nargs="+", default=[], help="leave these measures out")
    parser.add_argument("--limit", type=int, help="the most items that a measure asks")
    parser.add_argument("--set", nargs="+", default=[], help="options of all measures, such as parts=layers")
    parser.add_argument("-n", "--count", type=int, default=COUNT, help="audits of each kind and concept")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no audit after this time")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--summarise", action="store_true", help="only sum up what was done")
    parser.add_argument("-o", "--output", type=Path, required=True, help="a JSON file, beside which OUTPUT.jsonl is")
    arguments = parser.parse_args()
    started, store = time.monotonic(), arguments.output.with_suffix(".jsonl")
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    before = read_lines(store)
    done = {(result["kind"], result["concept"], result["seed"]) for result in before}
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.count)
    # By seed first: what a time limit cuts off is missing from all kinds alike.
    asked = (tuple(arguments.measure), tuple(arguments.without), arguments.limit, tuple(arguments.set))
    tasks = [
        Task(kind, concept, seed, *asked)
        for seed in seeds
        for kind in arguments.kind
        for concept in arguments.concept
        if (kind, concept, seed) not in done
    ]
    if not arguments.summarise:
        write_text(store, "".join(json.dumps(result) + "\n" for result in before))  # without a line that was cut off
        with store.open("a", encoding="utf-8") as lines:
            for result in run(tasks, arguments.jobs, started + arguments.seconds):
                lines.write(json.dumps(result) + "\n")
                lines.flush()
    write_summary(arguments.output, manifest(arguments, time.monotonic() - started))
    print(arguments.output.with_suffix(".md").read_text("utf-8"))


if __name__ == "__main__":
    main()
