"""Audit a chat model from its file: decisions, BBQ, associations and names, before and after prompts and steering.

    python scripts/chat_audits.py MODEL --out FOLDER --steering FOLDER-OF-steering_experiment [--device cuda]
    python scripts/chat_audits.py MODEL --out FOLDER --bits 4 3 2 --rounded FOLDER [--device cuda]

The first form takes the site and the strength from the records of steering_experiment.py: the largest strength of the
sweep at which the perplexity of neutral text rises by a tenth at most, in both directions, and writes the record
`chat`.

The second form asks the same model at other precisions: as it is, in float32 and in bfloat16, and with its weights
rounded to fewer bits, in float32. It writes a record for each into FOLDER, and the rounded models into `--rounded`.

`scripts/model_pages.py` makes reproductions/chat.md from the records.
"""

from __future__ import annotations

import argparse
import shutil
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from steering_experiment import STRENGTHS, chosen_sites

import evenhand as eh
from evenhand import data
from evenhand.audit import Audit, Plan
from evenhand.audit.plan import Question
from evenhand.models.gguf import convert_gguf

COST = 1.1  # times the perplexity before, at most
BLOCK = 32  # weights that share a scale and an offset
ROUNDED = ("_proj.weight", "lm_head.weight", "embed_tokens.weight")
SETS = ("bai2025-career", "bai2025-power", "bai2025-science")


def questions(*, small: bool = False, written: bool = True) -> tuple[Question, ...]:
    """Return what is asked: all people and documents, 400 items of BBQ, all decisions between two people."""
    every = 24 if small else 0
    asked = [
        Question("decisions", "decision-scenarios", {"naming": "explicit", "sample": every}, "explicit"),
        Question("decisions", "decision-scenarios", {"naming": "names", "sample": every}, "names"),
        Question("resume-names", "resume-documents", {"sample": every}),
        Question("bbq-chat", "bbq", {"sample": 4 if small else 400}),
        *(Question("relative-decisions", name, {"sample": 4 if small else 200}) for name in SETS[: 1 if small else 3]),
    ]
    if written:  # the model writes its answers, token by token
        count = 2 if small else 40
        asked += [Question("word-association", name, {"sample": count}) for name in SETS[: 1 if small else 3]]
    return tuple(asked)


def likelihoods(*, small: bool = False) -> tuple[Question, ...]:
    """Return what is asked of the same model at several precisions beside the conversations."""
    return (
        Question("perplexity", "neutral-text", only_query=True),
        Question("crows-pairs", "crows-pairs-gender", {"sample": 4 if small else 0}),
        *(() if small else (Question("pronoun-share", "occupations-share-of-women", only_query=True),)),
    )


def bearable_strength(audit: Audit, site: str) -> int:
    """Return the largest strength at which perplexity rises by a tenth at most, in both directions; at least 1."""
    label = audit.find_label("perplexity")
    before = audit.get(label).value or 0.0
    kept = {1}
    for size in {abs(strength) for strength in STRENGTHS}:
        stages = [f"steering(strength={sign})@{site}" for sign in (size, -size)]
        values = [audit.get(label, stage).value or np.inf for stage in stages if stage in audit.stage_names]
        if values and max(values) <= COST * before:
            kept.add(size)
    return max(kept)


def chat_methods(strengths: Mapping[str, int]) -> tuple[str, ...]:
    """Return the methods of the audit of answers, each with its control, at each site with its strength."""
    found = ["system-prompt", "system-prompt(control=true)"]
    for site, strength in strengths.items():
        found += [f"steering(strength={sign * strength})@{site}" for sign in (1, -1)]
        found += [f"steering(strength={strength};direction=random;seed={seed})@{site}" for seed in (0, 1)]
        found += [f"directional-ablation@{site}", f"directional-ablation(direction=random;seed=0)@{site}"]
    return tuple(found)


def rounded(weights: NDArray[np.float32], bits: int) -> NDArray[np.float32]:
    """Return weights rounded to 2**bits values in blocks of 32, from the smallest to the largest of a block.

    >>> rounded(np.arange(32, dtype=np.float32)[None], 1)[0, [0, 15, 16, 31]].tolist()
    [0.0, 0.0, 31.0, 31.0]
    """
    blocks = weights.reshape(-1, BLOCK)
    low, high = blocks.min(axis=1, keepdims=True), blocks.max(axis=1, keepdims=True)
    step = (high - low) / np.float32(2**bits - 1)
    places = np.rint(np.divide(blocks - low, step, out=np.zeros_like(blocks), where=step > 0))
    return np.asarray((low + places * step).reshape(weights.shape), dtype=np.float32)


def round_folder(folder: Path, out: Path, bits: int) -> Path:
    """Write a model folder with the weights of its matrices rounded to a number of bits."""
    from safetensors.numpy import load_file, save_file

    out.mkdir(parents=True, exist_ok=True)
    for file in folder.iterdir():
        if file.suffix == ".safetensors":
            arrays = load_file(file)
            changed = {
                name: rounded(array, bits) if name.endswith(ROUNDED) else array for name, array in arrays.items()
            }
            save_file(changed, out / file.name, metadata={"format": "pt"})
        else:
            shutil.copy(file, out / file.name)
    return out


def _rounded(name: str, array: NDArray[np.float32], bits: int) -> NDArray[np.float32]:
    return rounded(array, bits) if name.endswith(ROUNDED) else array


def run(name: str, address: str, plan: Plan, out: Path, device: str, precision: str) -> None:
    """Audit a model and keep the record under a name."""
    started = time.perf_counter()
    subject = eh.open(address, device=device, precision=precision)
    Audit.run(subject, plan=plan, folder=out / name).save(out / name)
    print(f"{name} after {time.perf_counter() - started:.0f} s", flush=True)


def main() -> None:
    """Run the audits; cells that are finished in the folder are read again."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="a GGUF file or a catalog id")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steering", type=Path, help="folder of steering_experiment.py")
    parser.add_argument("--bits", type=int, nargs="*", default=[], help="bits of the rounded weights")
    parser.add_argument("--rounded", type=Path, help="where the rounded models are written")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--small", action="store_true", help="a few items, to try the script")
    arguments = parser.parse_args()
    small, out, device = arguments.small, arguments.out, arguments.device
    if arguments.steering:
        sites, found = (Audit.load(arguments.steering / name) for name in ("sites", "likelihood"))
        methods = chat_methods({site: bearable_strength(found, site) for site in chosen_sites(sites)})
        run("chat", arguments.model, Plan(questions(small=small), methods), out, device, "float32")
    if arguments.rounded:
        path = Path(arguments.model) if Path(arguments.model).exists() else data.fetch(arguments.model)
        plan = Plan((*likelihoods(small=small), *questions(small=small, written=False)))
        full = arguments.rounded / "float32"
        if not full.exists():
            convert_gguf(path, full)
        run("float32", f"hf:{full}", plan, out, device, "float32")
        run("bfloat16", f"hf:{full}", plan, out, device, "bfloat16")
        for bits in arguments.bits:
            folder = round_folder(full, arguments.rounded / f"{bits}-bit", bits)
            run(f"{bits}-bit", f"hf:{folder}", plan, out, device, "float32")


if __name__ == "__main__":
    main()
