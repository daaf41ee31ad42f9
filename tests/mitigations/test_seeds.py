"""The seed of `fit` decides every random step, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from functools import cache

import numpy as np
import pytest

import evenhand as eh
from evenhand.audit.plan import method_of
from evenhand.audit.runner import apply_chain
from evenhand.errors import MissingExtraError, UsageError
from evenhand.mitigations import get, ids
from evenhand.mitigations.maps import VectorMap
from evenhand.models.vectors import Vectors

SEEDED = {"double-hard", "gp", "inlp", "leace", "oracle-leace", "qleace", "random", "rlace"}
# Parameters under which the seed of a method matters on small vectors, or which make it quick.
PARAMS: dict[str, dict[str, object]] = {
    "gp": {"epochs": 1},
    "inlp": {"iterations": 2, "neutral": 40},
    "leace": {"per_class": 100, "neutral": 40},
    "oracle-leace": {"per_class": 100, "neutral": 40},
    "qleace": {"per_class": 100, "neutral": 40},
    "ran": {"steps": 5},
    "rlace": {"steps": 25},
}
METHODS = sorted(
    set(ids("vectors")) - {"gn-glove"}
)  # GN-GloVe trains from counts; its seed is tested in test_gn_glove.py


@cache
def vectors() -> Vectors:
    """Gender words among random vectors: no cluster is stable, so 2-means depends on its seed."""
    gender = eh.concept("gender")
    known = {word for group in (*gender.groups.values(), *gender.names.values()) for word in group}
    known |= {word for pair in (*gender.pairs, *gender.equalize, *eh.words.pairs("gn-glove-pairs")) for word in pair}
    for name in ("gp-stereotype-female", "gp-stereotype-male", "gp-neutral", "bolukbasi2016-professions"):
        known |= set(eh.words.wordset(name))
    rng = np.random.default_rng(3)
    words = sorted(known)
    return Vectors(words, rng.standard_normal((len(words), 24)).astype(np.float32), name="random")


@cache
def fitted(id: str, seed: int | None) -> VectorMap:
    try:
        return get(id)(**PARAMS.get(id, {})).fit(vectors(), "gender", seed=seed)
    except MissingExtraError as error:
        pytest.skip(f"{id} needs an optional package: {error.message}")


def test_the_seeded_methods_are_those_with_random_steps() -> None:
    assert {id for id in ids("vectors") if get(id).is_seeded()} == SEEDED


COSTLY = ("gp", "double-hard")  # their fits take seconds


def marked(ids: Iterable[str]) -> list[object]:
    return [pytest.param(id, marks=pytest.mark.slow) if id in COSTLY else id for id in ids]


@pytest.mark.parametrize("id", marked(METHODS))
def test_the_seed_changes_the_map_of_seeded_methods_only(id: str) -> None:
    digests = {fitted(id, seed).digest for seed in (0, 1, 2, 3)}
    assert (len(digests) > 1) == (id in SEEDED)


@pytest.mark.parametrize("id", marked(METHODS))
def test_the_same_seed_gives_the_same_bytes(id: str) -> None:
    once = fitted(id, 1)  # skips where an optional package is missing
    again = get(id)(**PARAMS.get(id, {})).fit(vectors(), eh.concept("gender"), seed=1)
    assert again.digest == once.digest
    assert again(vectors()).matrix.tobytes() == once(vectors()).matrix.tobytes()


@pytest.mark.parametrize("id", marked(sorted(SEEDED & set(METHODS))))
def test_the_seed_of_fit_wins_over_the_field_and_is_recorded(id: str) -> None:
    method = get(id)(**PARAMS.get(id, {}), seed=2)
    vm = fitted(id, 1)
    assert method.fit(vectors(), "gender", seed=1).digest == vm.digest
    assert vm.report["seed"] == vm.report["params"]["seed"] == 1
    assert fitted(id, None).report["seed"] == 0
    assert method.seed == 2  # type: ignore[attr-defined]


def test_a_method_without_random_steps_records_no_seed() -> None:
    assert "seed" not in fitted("linear", 1).report
    assert fitted("linear", 1).report == fitted("linear", 2).report


@pytest.mark.parametrize("id", ["leace", "linear"])
def test_a_negative_seed_is_an_error(id: str) -> None:
    with pytest.raises(UsageError, match="seed must be 0 or more, got -1"):
        get(id)().fit(vectors(), "gender", seed=-1)


def test_the_digest_is_the_same_in_another_process() -> None:
    code = (
        "import numpy as np, evenhand as eh\n"
        "v = eh.Vectors(['he', 'she', 'king', 'nurse'], np.arange(12.0).reshape(4, 3) % 5)\n"
        "print(eh.mitigations.HardDebias().fit(v, 'gender').digest)"
    )
    digests = set()
    for hash_seed in ("1", "2"):
        environment = {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": ":".join(filter(None, sys.path))}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        digests.add(done.stdout.strip())
    assert len(digests) == 1
    assert len(digests.pop()) == 64


def test_a_seed_given_in_a_chain_is_not_replaced_by_that_of_the_run() -> None:
    """Random controls of several seeds in one audit had been the same direction five times."""
    named, plain = (method_of(f"random{given}") for given in ("(seed=3)", ""))
    assert named.with_seed(0).params()["seed"] == 3
    assert plain.with_seed(7).params()["seed"] == 7
    first, second = (
        apply_chain(f"random(seed={seed})", eh.open(vectors()), eh.concept("gender"), seed=0)[0].view("vectors")
        for seed in (0, 1)
    )
    assert first != second
