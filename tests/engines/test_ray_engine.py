"""Ray on this machine: the same results as the local engine, retried when a worker dies."""

import os
import socket
import subprocess
import sys
from itertools import count, islice
from pathlib import Path
from types import SimpleNamespace

import pytest

from evenhand.engines import RayEngine, ResidentFunction
from evenhand.errors import FormatError, UsageError, WorkerError

pytest.importorskip("ray")
pytestmark = pytest.mark.xdist_group("ray")


def test_results_come_in_the_order_of_the_jobs(ray_engine):
    factor = 3
    assert list(ray_engine.map(lambda number: factor * number, range(20))) == [3 * n for n in range(20)]


def test_jobs_are_taken_as_they_are_needed_and_given_up(ray_engine):
    taken = []

    def endless():
        for number in count():
            taken.append(number)
            yield number

    results = ray_engine.map(str, endless())
    assert list(islice(results, 3)) == ["0", "1", "2"]
    assert len(taken) <= 3 + 2 * 2
    results.close()


def test_an_error_of_a_job_arrives_as_it_is(ray_engine):
    def refuse(number):
        raise FormatError(f"{number} is bad", hint="give another")

    with pytest.raises(FormatError, match=r"^5 is bad\n  hint: give another$") as caught:
        list(ray_engine.map(refuse, [5]))
    assert type(caught.value) is FormatError


def dying(times: int, folder: Path):
    """A job that takes its worker down the first `times` times."""

    def job(number):
        if number == 1:
            tries = len(list(folder.iterdir()))
            (folder / str(tries)).touch()
            if tries < times:
                os._exit(1)
        return number * number

    return job


def test_a_job_whose_worker_dies_is_repeated(ray_engine, tmp_path):
    assert list(ray_engine.map(dying(1, tmp_path), range(4))) == [0, 1, 4, 9]
    assert len(list(tmp_path.iterdir())) == 2


def test_a_job_that_always_kills_its_worker_is_an_error(ray_engine, tmp_path):
    with pytest.raises(WorkerError, match=r"after 4 attempts.*\n.*memory"):
        list(ray_engine.map(dying(99, tmp_path), range(2)))
    assert len(list(tmp_path.iterdir())) == 4


def test_workers_keep_a_function_between_two_calls(ray_engine, tmp_path):
    class Loaded:
        """Leaves a file whenever a process receives it."""

        def __setstate__(self, state):
            vars(self).update(state)
            (Path(self.folder) / os.urandom(8).hex()).touch()

        def __call__(self, number):
            return number + self.added

    loaded = Loaded()
    loaded.folder, loaded.added = str(tmp_path), 3
    kept = ResidentFunction(loaded)
    for _ in range(3):
        assert list(ray_engine.map(kept, range(4))) == [3, 4, 5, 6]
    assert 1 <= len(list(tmp_path.iterdir())) <= 2  # at most once for each of the two workers


def test_a_gpu_is_reserved_where_the_cluster_has_one():
    resources = {"CPU": 8.0, "GPU": 2.0}
    cluster = SimpleNamespace(cluster_resources=lambda: resources)
    engine = RayEngine(gpus="auto")
    assert (engine._gpus(cluster), engine._at_once(cluster)) == (1, 2 * 2)
    resources["GPU"] = 0.0
    assert (engine._gpus(cluster), engine._at_once(cluster)) == (0, 2 * 8)
    assert RayEngine(gpus=0.5)._gpus(cluster) == 0.5


def test_what_a_worker_cannot_import_is_named(ray_engine):
    with pytest.raises(WorkerError, match=r"No module named 'test_ray_engine'\)\n.*importable on the workers"):
        list(ray_engine.map(_refused, [1]))


def test_a_worker_with_another_version_is_refused(ray_engine, monkeypatch):
    monkeypatch.setattr("evenhand.engines.ray._version", lambda: "0.0.0")
    with pytest.raises(UsageError, match=r"the worker has evenhand .*, the caller 0\.0\.0"):
        list(ray_engine.map(str, [1]))


def test_a_cluster_that_was_there_stays(ray_engine):
    import ray

    list(ray_engine.map(str, [1]))
    other = RayEngine(workers=1)
    assert list(other.map(str, range(4))) == list("0123")
    other.close()
    assert ray.is_initialized()


def test_no_cluster_at_the_address(monkeypatch):
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(WorkerError, match=rf"no Ray cluster at '{address}' \(.*refused\)\n.*`address=`"):
            list(RayEngine(address).map(str, [1]))
    monkeypatch.setattr("ray.init", _refused)
    with pytest.raises(WorkerError, match=r"no Ray cluster at 'auto' \(nobody there\)\n.*RAY_AUTH_TOKEN"):
        list(RayEngine("auto").map(str, [1]))


def _refused(**options):
    raise ConnectionError("a long story\nnobody there")


SCRIPT = """
import json, os, sys, threading, time
from pathlib import Path
from evenhand.engines import open_engine
from evenhand.errors import WorkerError

mode, mark = sys.argv[1], Path(sys.argv[2])

def dies_once(number):
    if not mark.exists():
        mark.touch()
        os._exit(1)
    time.sleep(2)  # long enough for Ray to report the death
    return number

def waits(number):
    mark.touch()
    time.sleep(600)

def kill_ray():
    import psutil
    while not mark.exists():
        time.sleep(0.2)
    for child in psutil.Process().children(recursive=True):
        try:
            child.kill()
        except psutil.NoSuchProcess:
            pass

if mode == "killed":
    threading.Thread(target=kill_ray, daemon=True).start()
try:
    with open_engine("ray", workers=1, protect_stdout=True) as engine:
        results = list(engine.map(dies_once if mode == "dies" else waits, [1, 2]))
except WorkerError as error:
    results = error.message
print(json.dumps(results))
"""


def run_script(mode: str, mark: Path) -> str:
    """Run the script in a process of its own and return its stdout; it must end by itself."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, mode, str(mark)],
        capture_output=True,
        text=True,
        timeout=150,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    return done.stdout


@pytest.mark.slow
def test_stdout_holds_nothing_but_the_document_when_a_worker_dies(tmp_path):
    assert run_script("dies", tmp_path / "mark") == "[1, 2]\n"


@pytest.mark.slow
def test_a_cluster_that_is_killed_is_an_error_at_once(tmp_path):
    """Ray itself would retry for minutes."""
    pytest.importorskip("psutil")
    assert "no longer answers" in run_script("killed", tmp_path / "mark")
