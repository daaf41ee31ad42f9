"""Audit a language model before and after steering and ablation, with random controls of the same length.

    python scripts/steering_experiment.py MODEL --out FOLDER [--device cuda]

First, `bias-by-site` on sentences of a template says which layers carry the difference between two groups of people.
The methods act at the last layer that carries half of it, and at the middle layer, which is their default. Then
three measures that share no sentence
with that template are asked before and after: CrowS-Pairs (gender), pronouns by occupation, and perplexity. Every
strength has its controls: random directions of the same length, one for each seed.

FOLDER gets the records `sites` and `likelihood`. `scripts/model_pages.py` makes reproductions/steering.md from them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import evenhand as eh
from evenhand.audit import Audit, Plan
from evenhand.audit.plan import Question

STRENGTHS = (-8, -4, -2, -1, 1, 2, 4, 8)
SEEDS = 5  # random directions for each size of the strength; a random direction turned round is a random direction


def methods(sites: Sequence[str], strengths: tuple[int, ...] = STRENGTHS, seeds: int = SEEDS) -> tuple[str, ...]:
    """Return the methods with their controls at each site."""
    sizes = sorted({abs(strength) for strength in strengths})
    found: list[str] = []
    for site in sites:
        found += [f"steering(strength={strength})@{site}" for strength in strengths]
        found += [
            f"steering(strength={size};direction=random;seed={seed})@{site}" for size in sizes for seed in range(seeds)
        ]
        found.append(f"directional-ablation@{site}")
        found += [f"directional-ablation(direction=random;seed={seed})@{site}" for seed in range(seeds)]
    return tuple(found)


def site_plan(sample: int) -> Plan:
    """Return the plan that asks where in the model the difference is."""
    return Plan((Question("bias-by-site", "person-sentences", {"sample": sample, "parts": "layers"}),))


def chosen_sites(audit: Audit) -> tuple[str, ...]:
    """Return the middle layer, and the last layer at whose output the tokens that differ carry half of the difference.

    The last layer of all is left out: what it writes is normalised and read by the output alone.
    """
    (result,) = audit.results
    layers = [item for item in result.measurement.items if str(item["word"]).startswith("layer:")]
    carrying = [str(item["word"]) for item in layers[:-1] if float(str(item["value"])) >= 0.5]
    return tuple(dict.fromkeys([str(layers[(len(layers) + 1) // 2 - 1]["word"]), *carrying[-1:]]))


def likelihood_plan(sites: Sequence[str], *, small: bool = False) -> Plan:
    """Return the plan of the audit of likelihoods."""
    questions = [Question("perplexity", "neutral-text", only_query=True)]
    questions.append(Question("crows-pairs", "crows-pairs-gender", {"sample": 4 if small else 0}))
    if not small:
        questions.append(Question("pronoun-share", "occupations-share-of-women", only_query=True))
    return Plan(tuple(questions), methods(sites, (4,), 1) if small else methods(sites))


def main() -> None:
    """Run both audits; cells that are finished in the folder are read again."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="a catalog id, a GGUF file or hf:FOLDER")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--small", action="store_true", help="a few items and one strength, to try the script")
    arguments = parser.parse_args()
    subject = eh.open(arguments.model, device=arguments.device, precision=arguments.precision)
    started = time.perf_counter()
    sites = Audit.run(subject, plan=site_plan(6 if arguments.small else 0), folder=arguments.out / "sites")
    sites.save(arguments.out / "sites")
    chosen = chosen_sites(sites)
    print(f"{chosen} after {time.perf_counter() - started:.0f} s", flush=True)
    found = Audit.run(subject, plan=likelihood_plan(chosen, small=arguments.small), folder=arguments.out / "likelihood")
    found.save(arguments.out / "likelihood")
    print(f"likelihood after {time.perf_counter() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
