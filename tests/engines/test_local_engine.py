"""The local engine: order, bounds, errors, processes that die."""

import os
import sys
from itertools import count, islice

import pytest

from evenhand.engines import Engine, LocalEngine, RayEngine, engine, open_engine
from evenhand.errors import FormatError, UnknownNameError, UsageError, WorkerError


def square(number):
    return number * number


def refuse(number):
    raise FormatError(f"{number} is bad", hint="give another")


def die(number):
    os._exit(1)


@pytest.mark.parametrize("workers", [1, 2])
def test_results_come_in_the_order_of_the_jobs(workers):
    assert list(LocalEngine(workers).map(square, range(9))) == [n * n for n in range(9)]


@pytest.mark.parametrize("workers", [1, 2])
def test_jobs_are_taken_as_they_are_needed(workers):
    taken = []

    def endless():
        for number in count():
            taken.append(number)
            yield number

    results = LocalEngine(workers).map(square, endless())
    assert list(islice(results, 3)) == [0, 1, 4]
    assert len(taken) <= 3 + 2 * workers
    if workers > 1:
        results.close()


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_of_a_job_arrives_as_it_is(workers):
    with pytest.raises(FormatError, match=r"5 is bad\n  hint: give another"):
        list(LocalEngine(workers).map(refuse, [5]))


def test_a_process_that_dies_is_named():
    with pytest.raises(WorkerError, match=r"a worker process ended.*\n.*fewer workers"):
        list(LocalEngine(2).map(die, [1, 2]))


def test_what_cannot_be_sent_is_named_before_anything_starts():
    with pytest.raises(UsageError, match=r"cannot be sent to another process.*\n.*top of a module"):
        list(LocalEngine(2).map(lambda number: number, [1]))


def test_engines_by_name():
    assert engine().workers == 1
    assert engine("local", workers=3).workers == 3
    made = engine("ray", workers=2, address="10.0.0.1:6379")
    assert isinstance(made, RayEngine)
    assert (made.address, made.workers) == ("10.0.0.1:6379", 2)
    with pytest.raises(UnknownNameError, match="there is no engine 'rya'\n  hint: did you mean: ray"):
        engine("rya")
    with pytest.raises(UsageError, match=r"no address.*\n.*`engine='ray'`"):
        engine(address="10.0.0.1:6379")
    for wrong in (LocalEngine, lambda workers: RayEngine(workers=workers)):
        with pytest.raises(UsageError, match="workers must be at least 1, got 0"):
            wrong(0)


class Watched(LocalEngine):
    closed = 0

    def close(self):
        self.closed += 1


def test_an_engine_of_the_caller_stays_open():
    mine: Engine = Watched()
    with open_engine(mine) as used:
        assert used is mine
    assert mine.closed == 0
    with open_engine("local") as made:
        assert list(made.map(square, [3])) == [9]


def test_stdout_is_protected_for_ray_only_while_the_engine_is_open(capfd, monkeypatch):
    module = sys.modules["evenhand.engines.ray"]
    monkeypatch.setattr(module, "RayEngine", lambda address, workers, gpus: Watched())
    with open_engine("ray", protect_stdout=True):
        os.write(1, b"a library speaks\n")
    with open_engine("ray"):
        os.write(1, b"unprotected\n")
    with open_engine("local", protect_stdout=True):
        os.write(1, b"the result\n")
    assert capfd.readouterr() == ("unprotected\nthe result\n", "a library speaks\n")
