"""Keep the results of scripts/neutrality_experiment.py, and fill the tables of reproductions/dev2019-neutrality.md.

    python scripts/neutrality_page.py [FOLDER]    # FOLDER: the output of neutrality_experiment.py

Given results are written to reproductions/neutrality.json. Every table between `<!-- table NAME -->` and `<!-- end -->`
is then written anew from it, and from the earlier models of reproductions/nli.json.
"""

import json
import re
import statistics
import sys
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from scipy import stats

PAGES = Path(__file__).parents[1] / "reproductions"
KEPT, EARLIER = PAGES / "neutrality.json", PAGES / "nli.json"
PAGE = PAGES / "dev2019-neutrality.md"
PROBE = "gender-occupation"
PUBLISHED = 0.093  # the rise of net neutral over GloVe
TITLES = {
    "base": "as before",
    "unit": "length 1, then projected",
    "unit/linear-unit": "projected, then length 1",
    "300": "300 dimensions",
    "balanced": "labels equally frequent",
    "neutral": "half of the pairs neutral",
    "long": "40 epochs",
    "earlier decomposable": "as before, earlier models",
    "earlier bilstm": "BiLSTM, earlier models",
}
QUESTIONS = {
    PROBE: "“The nurse …”, all pairs",
    "determiner-a": "“A nurse …”",
    "determiner-released": "the released templates",
    "without-dropout": "a sample of 60,000 pairs",
    "with-dropout": "the same with dropout of .2",
}
Run = dict[str, Any]


class Comparison(NamedTuple):
    """The models of one setting over vectors as they are and without he-she, by seed."""

    name: str
    before: dict[int, Run]
    after: dict[int, Run]

    @property
    def seeds(self) -> list[int]:
        """The seeds that both have."""
        return sorted(set(self.before) & set(self.after))

    def differences(self, score: str = PROBE) -> list[float]:
        """Return what the projection adds to net neutral, seed by seed."""
        return [neutral(self.after[seed], score) - neutral(self.before[seed], score) for seed in self.seeds]


def neutral(run: Run, question: str = PROBE) -> float:
    """Return the net neutral of a model."""
    return float(run[question]["net_neutral"])


def gap(run: Run) -> float:
    """Return how much more often women are entailed than men."""
    groups = run[PROBE]["groups"]
    return float(groups["female"]["entailment"] - groups["male"]["entailment"])


def keep(folder: Path) -> None:
    """Gather the files of a run into one."""
    settings = {}
    for path in sorted(folder.glob("*.json")):
        if path.name != "about.json":
            record = json.loads(path.read_text())
            settings[record["setting"]] = record
    kept = {"about": json.loads((folder / "about.json").read_text()), "settings": settings}
    text = json.dumps(_rounded(kept), separators=(",", ":")).replace('{"vectors"', '\n{"vectors"')
    KEPT.write_text(text + "\n")


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_rounded(part) for part in value]
    return round(value, 5) if isinstance(value, float) else value


def comparisons(kept: dict[str, Any], earlier: list[Run]) -> Iterator[Comparison]:
    """Yield the comparisons of this experiment and of the earlier models."""
    for name in ("base", "unit", "300", "balanced", "neutral", "long"):
        by_vectors: dict[str, dict[int, Run]] = {}
        for run in kept["settings"][name]["runs"]:
            by_vectors.setdefault(run["vectors"], {})[run["seed"]] = run
        before, *others = by_vectors.values()
        for vectors, after in zip(list(by_vectors)[1:], others, strict=True):
            yield Comparison(f"{name}/{vectors}" if vectors == "linear-unit" else name, before, after)
    for architecture in ("decomposable", "bilstm"):
        found = [{run["seed"]: run for run in _of(earlier, architecture, which)} for which in ("original", "linear")]
        yield Comparison(f"earlier {architecture}", *found)


def _of(runs: Iterable[Run], architecture: str, condition: str) -> list[Run]:
    return [run for run in runs if (run["architecture"], run["condition"]) == (architecture, condition)]


def holm(p_values: list[float]) -> list[float]:
    """Return p-values after Holm's correction."""
    order = sorted(range(len(p_values)), key=lambda row: p_values[row])
    adjusted, largest = [1.0] * len(p_values), 0.0
    for rank, row in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[row]))
        adjusted[row] = largest
    return adjusted


def paired(differences: list[float], claimed: float = 0.0) -> tuple[float, float, float, float]:
    """Return mean, the ends of its 95 % interval and the p-value of a paired t-test of a claimed mean."""
    mean, error = statistics.fmean(differences), statistics.stdev(differences) / len(differences) ** 0.5
    reach = float(stats.t.ppf(0.975, len(differences) - 1)) * error
    return mean, mean - reach, mean + reach, float(2 * stats.t.sf(abs(mean - claimed) / error, len(differences) - 1))


def spread(values: Iterable[float]) -> str:
    """Return mean and standard deviation."""
    every = list(values)
    return f"{statistics.fmean(every):.3f}" + (f" ± {statistics.stdev(every):.3f}" if len(every) > 1 else "")


def probability(value: float) -> str:
    """Return a p-value as text."""
    return "< .001" if value < 0.001 else f"{value:.3f}"


def candidates(kept: dict[str, Any], earlier: list[Run]) -> str:
    """Return net neutral of each setting before and after the projection, with the test of the difference."""
    lines = [
        "| setting | seeds | NN, original | NN, projected | difference | 95 % interval | p | p, Holm "
        "| p of +.093, Holm | rises in |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    every = list(comparisons(kept, earlier))
    tests = [paired(one.differences()) if len(one.seeds) > 1 else None for one in every]
    adjusted = iter(holm([test[-1] for test in tests if test]))
    of_published = iter(
        holm([paired(one.differences(), PUBLISHED)[-1] for one, test in zip(every, tests, strict=True) if test])
    )
    for one, test in zip(every, tests, strict=True):
        cells = [TITLES[one.name], str(len(one.seeds))]
        cells += [spread(neutral(side[seed]) for seed in one.seeds) for side in (one.before, one.after)]
        if test:
            mean, low, high, p = test
            cells += [f"{mean:+.3f}", f"{low:+.3f} to {high:+.3f}"]
            cells += [probability(value) for value in (p, next(adjusted), next(of_published))]
        else:
            cells += [f"{one.differences()[0]:+.3f}", "", "", "", ""]
        cells.append(f"{sum(d > 0 for d in one.differences())} of {len(one.seeds)}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def gaps(kept: dict[str, Any], earlier: list[Run]) -> str:
    """Return the gap of entailment, the test of its change, and the accuracy of each setting."""
    lines = [
        "| setting | gap, original | gap, projected | change of its size | 95 % interval | p, Holm | narrower in "
        "| SNLI test, original | projected |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    every = list(comparisons(kept, earlier))
    changes = [[abs(gap(one.after[seed])) - abs(gap(one.before[seed])) for seed in one.seeds] for one in every]
    adjusted = iter(holm([paired(change)[-1] for change in changes if len(change) > 1]))
    for one, change in zip(every, changes, strict=True):
        cells = [TITLES[one.name]]
        cells += [spread(gap(side[seed]) for seed in one.seeds) for side in (one.before, one.after)]
        cells.append(f"{statistics.fmean(change):+.3f}")
        if len(change) > 1:
            _, low, high, _ = paired(change)
            cells += [f"{low:+.3f} to {high:+.3f}", probability(next(adjusted))]
        else:
            cells += ["", ""]
        cells.append(f"{sum(value < 0 for value in change)} of {len(one.seeds)}")
        cells += [spread(side[seed]["test"] for seed in one.seeds) for side in (one.before, one.after)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def questions(kept: dict[str, Any], earlier: list[Run]) -> str:
    """Return what the models of the base answer when they are asked in other ways."""
    base = next(iter(comparisons(kept, earlier)))
    lines = [
        "| the probe | seeds | NN, original | NN, projected | difference | 95 % interval | p |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for question, title in QUESTIONS.items():
        lines.append(_asked(title, base, base.after, question, question))
    at_test = {seed: run for seed, run in base.before.items() if "projected-at-test" in run}
    lines.append(_asked("projected at test only", base, at_test, PROBE, "projected-at-test"))
    return "\n".join(lines)


def _asked(title: str, base: Comparison, after: dict[int, Run], question: str, other: str) -> str:
    seeds = sorted(set(base.before) & set(after))
    first, second = ([neutral(base.before[s], question) for s in seeds], [neutral(after[s], other) for s in seeds])
    mean, low, high, p = paired([b - a for a, b in zip(first, second, strict=True)])
    cells = [title, str(len(seeds)), spread(first), spread(second), f"{mean:+.3f}", f"{low:+.3f} to {high:+.3f}"]
    return f"| {' | '.join([*cells, probability(p)])} |"


def single_runs(kept: dict[str, Any], earlier: list[Run]) -> str:
    """Return how often one model of each kind, drawn at random, shows a rise."""
    lines = [
        "| setting | pairs of models | any rise | of .05 or more | of .093 or more | largest rise | largest fall |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for one in comparisons(kept, earlier):
        rises = [neutral(b) - neutral(a) for a, b in product(one.before.values(), one.after.values())]
        if len(rises) < 2:
            continue
        shares = (sum(rise >= least for rise in rises) / len(rises) for least in (0.0, 0.05, PUBLISHED))
        cells = [TITLES[one.name], str(len(rises)), *(f"{100 * share:.0f} %" for share in shares)]
        lines.append(f"| {' | '.join([*cells, f'{max(rises):+.3f}', f'{min(rises):+.3f}'])} |")
    return "\n".join(lines)


TABLES = {"candidates": candidates, "gaps": gaps, "questions": questions, "single-runs": single_runs}


def filled(page: str, kept: dict[str, Any], earlier: list[Run]) -> str:
    """Return the page with its tables computed from the results."""
    return re.sub(
        r"<!-- table ([^>]+) -->.*?<!-- end -->",
        lambda found: f"<!-- table {found[1]} -->\n{TABLES[found[1]](kept, earlier)}\n<!-- end -->",
        page,
        flags=re.DOTALL,
    )


def main(given: list[str]) -> None:
    """Keep what is given, then fill the tables."""
    if given:
        keep(Path(given[0]))
    kept, earlier = json.loads(KEPT.read_text()), json.loads(EARLIER.read_text())["runs"]
    PAGE.write_text(filled(PAGE.read_text(), kept, earlier))


if __name__ == "__main__":
    main(sys.argv[1:])
