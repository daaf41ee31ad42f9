"""The result is the same to the last bit in this process, in two processes and on a Ray cluster."""

import json
import os

import numpy as np
import pytest
from typer.testing import CliRunner

from evenhand import corpus
from evenhand.cli import app
from evenhand.corpus.readers import source as source_module
from evenhand.engines import LocalEngine
from evenhand.errors import FormatError

GROUPS = {"f": ["she", "her"], "m": ["he", "him"], "n": ["they"]}
REACHES = {
    "window": {"window": 3},
    "decay": {"decay": 0.95},
    "draws": {"decay": 0.9, "bootstrap": 50, "permutations": 5, "seed": 7},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A file that is cut, files that are gathered, one of them packed."""
    path = tmp_path_factory.mktemp("texts")
    rng = np.random.default_rng(0)
    words = [*(word for group in GROUPS.values() for word in group), *(f"w{n}" for n in range(50))]

    def line():
        return " ".join(rng.choice(words, size=rng.integers(0, 30)))

    (path / "a.txt").write_text("\n".join(line() for _ in range(60)))
    for name in "bc":
        (path / f"{name}.jsonl").write_text("\n".join(json.dumps({"text": line()}) for _ in range(8)))
    return path


@pytest.fixture(autouse=True)
def small_shards(monkeypatch):
    monkeypatch.setattr(source_module, "SHARD", 900)


def same(one, other):
    assert other.words == one.words
    for name in ("values", "cooccurrence", "occurrences"):
        assert getattr(other, name).tobytes() == getattr(one, name).tobytes()
    assert json.dumps(other.to_dict()) == json.dumps(one.to_dict())


def scored(folder, engine, **reach):
    return corpus.bias(folder, GROUPS, documents="line", engine=engine, **reach)


def counted(folder, engine):
    return corpus.cooccurrence(
        folder, 4, weighting="harmonic", min_count=3, documents="line", tokenizer=str.split, engine=engine
    )


def same_counts(one, other):
    assert other.words == one.words
    assert other.params == one.params
    assert other.occurrences.tolist() == one.occurrences.tolist()
    for part in ("data", "indices", "indptr"):
        assert getattr(other.matrix, part).tobytes() == getattr(one.matrix, part).tobytes()


def test_the_corpus_has_several_shards(folder):
    shards = corpus.Corpus(folder, documents="line").shards()
    assert len(shards) > 4
    assert {len(shard) for shard in shards} == {1, 2} or len(shards[-1]) == 1


@pytest.mark.parametrize("reach", REACHES.values(), ids=REACHES)
def test_scores_in_two_processes_equal_those_of_one(folder, reach):
    same(scored(folder, "local", **reach), scored(folder, LocalEngine(2), **reach))


@pytest.mark.xdist_group("ray")
@pytest.mark.parametrize(
    "reach",
    [
        pytest.param(reach, marks=pytest.mark.slow, id=id) if "decay" in id else pytest.param(reach, id=id)
        for id, reach in REACHES.items()
    ],
)
def test_scores_on_ray_equal_those_of_one_process(folder, ray_engine, reach):
    same(scored(folder, "local", **reach), scored(folder, ray_engine, **reach))


@pytest.mark.xdist_group("ray")
def test_counts_on_ray_equal_those_of_one_process(folder, ray_engine):
    same_counts(counted(folder, "local"), counted(folder, ray_engine))


@pytest.mark.xdist_group("ray")
def test_a_worker_that_dies_does_not_change_the_sums(folder, ray_engine, tmp_path):
    mark = tmp_path / "died"

    def mortal(text):
        if "w7" in text and not mark.exists():
            mark.touch()
            os._exit(1)
        return text.split()

    found = scored(folder, ray_engine, decay=0.95, tokenizer=mortal)
    assert mark.exists()
    same(scored(folder, "local", decay=0.95, tokenizer=mortal), found)


@pytest.mark.xdist_group("ray")
def test_bad_input_on_a_worker_is_named(folder, ray_engine, tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "she ran and he ran"}\n{"body": "x"}\n')
    with pytest.raises(FormatError, match=r"a\.jsonl, line 2: no field 'text'.*\n.*skip_bad=True"):
        scored(tmp_path, ray_engine)
    paths = [folder, tmp_path]
    b = corpus.bias(paths, GROUPS, engine=ray_engine, skip_bad=True)
    assert b.read_log["bad_records"] == 1


@pytest.mark.xdist_group("ray")
def test_the_command_takes_an_engine(folder, ray_engine):
    list(ray_engine.map(str, [1]))  # a cluster that is there is used

    def run(*options):
        arguments = ["bias", str(folder), "--groups", "f=she", "--groups", "m=he", "--documents", "line", "--json"]
        done = CliRunner().invoke(app, ["corpus", *arguments, *options])
        assert done.exit_code == 0, done.output
        return done.stdout

    assert run() == run("--workers", "2") == run("--engine", "ray")


@pytest.mark.xdist_group("ray")
def test_the_command_that_counts_pairs_takes_an_engine(folder, ray_engine, tmp_path):
    list(ray_engine.map(str, [1]))
    written = []
    for options in ((), ("--engine", "ray")):
        out = tmp_path / f"{len(written)}.safetensors"
        done = CliRunner().invoke(
            app, ["corpus", "cooccur", str(folder), "--out", str(out), "--weighting", "dynamic", *options]
        )
        assert done.exit_code == 0, done.output
        written.append(corpus.Cooccurrence.load(out))
    same_counts(*written)
