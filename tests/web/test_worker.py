"""Computations are bounded in time and number, and results are kept within bounds."""

import asyncio
import threading

import pytest

pytest.importorskip("starlette", reason="the extra [web] is not installed")


from evenhand.web.worker import BoundedCache, BusyError, PageWorker, SlowError


def test_a_slow_computation_is_given_up_and_its_result_kept() -> None:
    cache, may_end = BoundedCache(2), threading.Event()
    worker = PageWorker(threads=2, seconds=0.01, waiting=3)

    def slow() -> str:
        return cache.get("key", lambda: str(may_end.wait(30)))

    async def ask() -> None:
        with pytest.raises(SlowError, match=r"longer than 0\.01 seconds"):
            await worker.run(slow)

    asyncio.run(ask())
    may_end.set()
    assert cache.get("key", lambda: "made again") == "True"
    worker.close()


def test_too_many_computations_are_refused() -> None:
    worker, may_end = PageWorker(threads=2, seconds=30, waiting=2), threading.Event()

    async def ask() -> None:
        running = [asyncio.create_task(worker.run(may_end.wait)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(BusyError):
            await worker.run(lambda: 1)
        may_end.set()
        assert await asyncio.gather(*running) == [True, True]
        assert await worker.run(lambda: 1) == 1

    asyncio.run(ask())
    worker.close()


def test_the_cache_keeps_what_was_used_last() -> None:
    cache, made = BoundedCache(2), []
    for key in ("a", "b", "a", "c", "a", "b"):
        cache.get(key, lambda key=key: made.append(key))
    assert made == ["a", "b", "c", "b"]
    assert len(cache) == 2


def test_the_cache_counts_bytes_but_keeps_the_newest() -> None:
    cache = BoundedCache(10, bytes=100)
    for key in range(5):
        cache.get(key, lambda: b"", size=lambda _: 40)
    assert len(cache) == 2
    cache.get("huge", lambda: b"", size=lambda _: 1_000)
    assert len(cache) == 1


def test_a_failure_is_not_kept() -> None:
    cache = BoundedCache(2)
    with pytest.raises(ZeroDivisionError):
        cache.get("key", lambda: 1 / 0)
    assert cache.get("key", lambda: 1) == 1
