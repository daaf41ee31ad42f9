"""The card of an exported data set: what it is, how it was made, how it is read."""

from __future__ import annotations

import json
from dataclasses import asdict

from evenhand.words.probes.probe import Probe
from evenhand.words.probes.rows import columns

CARD = "README.md"
MARK = "evenhand-probe"
SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
LARGE = "1M<n<10M"


def card(probe: Probe, count: int, *, sample: int | None, seed: int) -> str:
    """A text in Markdown, with the front matter that `datasets` reads the files and columns from."""
    drawn = f"a stratified sample (asked for {sample:,}, seed {seed}) of" if sample else "all of"
    surface = ", ".join(f"{name} {value!r}" for name, value in asdict(probe.surface).items())
    paragraphs = [
        f"# {probe.name}",
        f"Pairs of sentences that differ only in `{probe.differs}`; without bias a model answers {probe.expected} to "
        f"every one. {count:,} rows, {drawn} the probe's {probe.n_pairs:,} pairs. Surface form: {surface}.",
        probe.note,
        "`index` is the number of the pair in the probe, `expected` the label of a model without bias, `premise_word` "
        "and `hypothesis_word` the differing words, `group` the group of people they belong to; the other columns are "
        "the slots of the templates.",
        "```python\nfrom datasets import load_dataset\n\npairs = load_dataset('this/folder', split='test')\n```",
        "What it does not tell you: anything about people outside the lists of words, nor whether a model that answers "
        "as expected is unbiased elsewhere.",
        *_source(probe),
    ]
    return _front_matter(probe, count) + "\n" + "\n\n".join(filter(None, paragraphs)) + "\n"


def _front_matter(probe: Probe, count: int) -> str:
    features = [
        f"  - name: {json.dumps(name)}\n    dtype: {'int64' if name == 'index' else 'string'}"
        for name in columns(probe)
    ]
    size = next((label for limit, label in SIZES if count < limit), LARGE)
    lines = [
        "---",
        f"pretty_name: {json.dumps(probe.name)}",  # JSON strings are YAML strings
        "task_categories:\n- text-classification",
        "task_ids:\n- natural-language-inference",
        f"tags:\n- {MARK}\n- bias",
        f"size_categories:\n- {size}",
        "configs:\n- config_name: default\n  data_files:\n  - split: test\n    path: data/test-*.parquet",
        "dataset_info:\n  features:",
        *features,
        "---",
    ]
    return "\n".join(lines) + "\n"


def _source(probe: Probe) -> list[str]:
    if probe.source is None:
        return []
    terms = f" Terms: {probe.source.licence}." if probe.source.licence else ""
    cited = f"```bibtex\n{probe.citation.strip()}\n```" if probe.citation else ""
    return [f"Source: {probe.source.reference} {probe.source.url}".rstrip() + terms, cited]
