"""Fill the tables of reproductions/null-audits.md from null-audits.json and site-nulls.json.

    python scripts/null_page.py [--with NULL_JSON] [--sites SITE_JSON]

Both are of scripts/null_audits.py. The kinds and concepts of NULL_JSON replace those of the same name. SITE_JSON has
audits that ask bias-by-site alone, and replaces site-nulls.json.
"""

import argparse
import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

from evenhand.stats.bootstrap import wilson

PAGE = Path(__file__).parents[1] / "reproductions" / "null-audits.md"
KEPT = PAGE.with_suffix(".json")
SITES = PAGE.with_name("site-nulls.json")
KINDS = {
    "encoder": "random encoders",
    "masked": "random masked language models",
    "causal": "random causal language models",
    "classifier": "random classifiers",
    "corpus": "corpora, group words drawn at random",
}
CONCEPTS = ("gender", "race", "religion")
COUNTED = ("done", "claiming")
Row = dict[str, Any]


def by_kind(results: list[Row]) -> str:
    """How many audits of each kind claim a bias."""
    lines = [
        "| subject | audits | claim bias | share | 95 % interval | gender, race, religion |",
        "|---|--:|--:|--:|---|---|",
    ]
    for kind, title in KINDS.items():
        rows = {row["concept"]: row for row in results if row["kind"] == kind}
        done, claiming = (sum(row[name] for row in rows.values()) for name in ("done", "claiming"))
        low, high = (100 * wilson(claiming / done, done)).tolist()
        parts = ", ".join(f"{rows[name]['claiming']} of {rows[name]['done']}" for name in CONCEPTS)
        share = f"{100 * claiming / done:.1f} %"
        lines.append(f"| {title} | {done} | {claiming} | {share} | {low:.1f} to {high:.1f} % | {parts} |")
    return "\n".join(lines)


def by_score(results: list[Row]) -> str:
    """The share of small p-values of every score, over all kinds but vectors."""
    found: dict[tuple[str, str], list[tuple[int, float, float]]] = defaultdict(list)
    for row in results:
        for score, shares in row["scores"].items() if row["kind"] in KINDS else ():
            tested = shares["n"] - shares["without_p"]
            found[row["concept"], score].append((tested, shares["p05"], shares["p01"]))
    lines = ["| concept | score | audits | p < .05 | p < .01 |", "|---|---|--:|--:|--:|"]
    for (concept, score), parts in sorted(found.items()):
        n = sum(part[0] for part in parts)
        shares = [f"{100 * sum(part[0] * part[which] for part in parts) / n:.1f} %" for which in (1, 2)]
        lines.append(f"| {concept} | {score} | {n} | {' | '.join(shares)} |")
    return "\n".join(lines)


def by_site(results: list[Row]) -> str:
    """How many audits name a site, by kind, and the share of small p-values of each question."""
    lines = ["| subject | audits | claim a site | share | 95 % interval |", "|---|--:|--:|--:|---|"]
    titles = {**KINDS, "inference": "random inference models"}
    kinds = [kind for kind in titles if any(row["kind"] == kind for row in results)]
    sums = [
        (titles.get(kind, "all"), *(sum(row[n] for row in results if kind in ("", row["kind"])) for n in COUNTED))
        for kind in (*kinds, "")
    ]
    for title, done, claiming in sums:
        low, high = (100 * wilson(claiming / done, done)).tolist()
        lines.append(f"| {title} | {done} | {claiming} | {100 * claiming / done:.1f} % | {low:.1f} to {high:.1f} % |")
    lines += ["", "| subject | concept | question | audits | p < .05 |", "|---|---|---|--:|--:|"]
    for row in results:
        for score, found in row["scores"].items():
            lines.append(
                f"| {titles[row['kind']]} | {row['concept']} | {score} | {found['n']} | {100 * found['p05']:.1f} % |"
            )
    return "\n".join(lines)


def rounded(value: Any) -> Any:
    """Plain data with fewer digits."""
    if isinstance(value, dict):
        return {key: rounded(part) for key, part in value.items()}
    if isinstance(value, list):
        return [rounded(part) for part in value]
    return round(value, 5) if isinstance(value, float) else value


def main() -> None:
    """Merge what is given, then fill the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--with", dest="new", type=Path)
    parser.add_argument("--sites", type=Path)
    given = parser.parse_args()
    kept = json.loads(KEPT.read_text())
    if given.new:
        new = {(row["kind"], row["concept"]): rounded(row) for row in json.loads(given.new.read_text())["results"]}
        kept["results"] = [new.pop((row["kind"], row["concept"]), row) for row in kept["results"]] + list(new.values())
        KEPT.write_text(json.dumps(kept, indent=1) + "\n")
    if given.sites:
        SITES.write_text(json.dumps(rounded(json.loads(given.sites.read_text())), indent=1) + "\n")
    page, sites = PAGE.read_text(), json.loads(SITES.read_text())["results"]
    tables = {"kinds": by_kind(kept["results"]), "scores": by_score(kept["results"]), "sites": by_site(sites)}
    for name, text in tables.items():
        pattern = rf"<!-- table {name} -->.*?<!-- end -->"
        page, count = re.subn(
            pattern, lambda _, n=name, t=text: f"<!-- table {n} -->\n{t}\n<!-- end -->", page, flags=re.DOTALL
        )
        if count != 1:
            raise SystemExit(f"{PAGE}: {count} places for the table {name}")
    PAGE.write_text(page)


if __name__ == "__main__":
    main()
