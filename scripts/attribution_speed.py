"""Time attribution of many pairs by layer on this machine: python scripts/attribution_speed.py MODEL --device cuda.

The pairs are those of CrowS-Pairs where it was fetched, otherwise sentences of a template, repeated as often as needed.
Prints one line of JSON: pairs, sites, seconds without loading the model, and whether the patching identities hold.
"""

from __future__ import annotations

import argparse
import json
import platform
import time

import numpy as np

import evenhand as eh
from evenhand import data
from evenhand.measures.likelihood.bias_by_site import pair_set
from evenhand.models.attribution.pairs import explain_pair, site_effects


def main() -> None:
    """Time `site_effects` once, after a small call that warms the device up."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="hf:FOLDER or a GGUF file")
    parser.add_argument("--pairs", type=int, default=1508)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--layers-only", action="store_true", help="without attention:N and mlp:N")
    arguments = parser.parse_args()
    source = "crows-pairs" if data.locate("crows-pairs") else "person-sentences"
    found = [(pair.more, pair.less) for pair in pair_set(source, eh.concept("gender"))[0].pairs]
    pairs = (found * (arguments.pairs // len(found) + 1))[: arguments.pairs]
    view = eh.open(arguments.model, device=arguments.device, precision=arguments.precision).view("likelihood")
    checked = explain_pair(view, "The man is a nurse and likes it.", "The woman is a nurse and likes it.")
    kinds = ("layer",) if arguments.layers_only else ("layer", "attention", "mlp")
    site_effects(view, pairs[:8], kinds)
    started = time.perf_counter()
    result = site_effects(view, pairs, kinds)
    seconds = time.perf_counter() - started
    print(
        json.dumps(
            {
                "model": view.name, "pairs": len(result.pairs), "source": source, "sites": len(result.sites),
                "seconds": round(seconds, 2), "device": view.transformer.device, "precision": arguments.precision,
                "nothing": checked.nothing, "machine": platform.platform(),
                "everything": float(np.abs(checked.whole - checked.difference).max()),
            }
        )
    )  # fmt: skip


if __name__ == "__main__":
    main()
