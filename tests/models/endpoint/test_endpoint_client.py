"""Requests to a server: bounded, repeated where that helps, kept as they arrive, and secret where they must be."""

from __future__ import annotations

import itertools
import json
import threading
from pathlib import Path

import pytest

pytest.importorskip("httpx")
pytest.importorskip("tenacity")

from evenhand.errors import UsageError
from evenhand.models.endpoint import client as module
from evenhand.models.endpoint import connection
from evenhand.models.endpoint.client import (
    ANSWER_FILE,
    AnswerStore,
    Client,
    EndpointError,
    Request,
    RequestRefusedError,
    check_base,
)
from scripted_server import Asked, Reply, serving

KEY = "sk-very-secret-4711"


def requests(count: int) -> list[Request]:
    return [Request("/ask", {"n": n}) for n in range(count)]


def number(_: Request, answer: dict[str, int]) -> int:
    return answer["n"]


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONGEST_WAIT", 0.01)


def test_answers_come_in_the_order_of_the_requests_and_a_bounded_number_is_under_way() -> None:
    three = threading.Barrier(3, timeout=60)  # each request waits until three are there, so fewer would never end

    def answer(asked: Asked) -> Reply:
        three.wait()
        return Reply({"n": asked.body["n"]})

    with serving({"/v1/ask": answer}) as server:
        client = Client(server.base, concurrency=3)
        assert client.post_all(requests(12), model="m", read=number) == list(range(12))
    assert server.most_at_once == 3


def test_a_connection_stays_open_for_the_next_request() -> None:
    both = threading.Barrier(2, timeout=60)

    def answer(asked: Asked) -> Reply:
        both.wait()
        return Reply({"n": asked.body["n"]})

    with serving({"/v1/ask": answer, "/v1/one": lambda asked: Reply({})}) as server:
        client = Client(server.base, concurrency=2)
        for first in (0, 6, 12):
            client.post_all([Request("/ask", {"n": first + n}) for n in range(6)], model="m", read=number)
            client.get("/one")
    assert len(server.asked) == 21
    assert server.connections == 2


def test_a_connection_that_the_server_closed_meanwhile_is_no_failure() -> None:
    with serving({"/v1/ask": lambda asked: Reply({"n": asked.body["n"]}, hang_up=True)}) as server:
        client = Client(server.base, concurrency=1, attempts=1)
        assert client.post_all(requests(4), model="m", read=number) == [0, 1, 2, 3]
    assert server.connections == 4
    assert client.traffic.repeated == 0


def test_half_an_answer_is_asked_for_again() -> None:
    turns = itertools.count()

    def answer(asked: Asked) -> Reply:
        half = Reply(b'{"n": 1', headers={"content-length": "30"}, hang_up=True)
        return half if next(turns) == 0 else Reply({"n": 1})

    with serving({"/v1/ask": answer}) as server:
        client = Client(server.base)
        assert client.post_all(requests(1), model="m", read=number) == [1]
    assert client.traffic.repeated == 1


def test_a_failure_waits_for_the_answers_under_way(tmp_path: Path) -> None:
    slow_begun = threading.Event()

    def answer(asked: Asked) -> Reply:
        if asked.body["n"] == 0:
            slow_begun.set()
            return Reply({"n": 0}, wait=0.3)
        slow_begun.wait(30)
        return Reply({"error": {"message": "too long"}}, 400)

    with serving({"/v1/ask": answer}) as server, pytest.raises(RequestRefusedError, match="too long"):
        Client(server.base, concurrency=2).post_all(requests(9), model="m", read=number, store=AnswerStore(tmp_path))
    assert len(AnswerStore(tmp_path)) == 1
    assert len(server.posts()) == 2


def test_a_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    routes = {"http://model.invalid/v1/ask": lambda asked: Reply({"n": 3}), "/v1/ask": lambda asked: Reply({"n": 4})}
    with serving(routes) as server:
        monkeypatch.setenv("http_proxy", server.base.removesuffix("/v1"))
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        assert Client("http://model.invalid/v1").post_all(requests(1), model="m", read=number) == [3]
        assert Client(server.base).post_all(requests(1), model="m", read=number) == [4]
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
        with pytest.raises(EndpointError, match="cannot be reached"):
            Client("http://model.invalid/v1").get("/models")


def test_equal_requests_are_sent_once_and_samples_apart() -> None:
    with serving({"/v1/ask": lambda asked: Reply({"n": 5})}) as server:
        same = [Request("/ask", {"n": 1}), Request("/ask", {"n": 1}), Request("/ask", {"n": 1}, number=1)]
        assert Client(server.base).post_all(same, model="m", read=number) == [5, 5, 5]
    assert len(server.posts()) == 2


@pytest.mark.parametrize("status", [429, 500, 503])
def test_failures_that_pass_are_repeated(status: int) -> None:
    turns = itertools.count()

    def answer(asked: object) -> Reply:
        return Reply({"n": 1}) if next(turns) >= 2 else Reply({"error": "busy"}, status, {"retry-after": "0.001"})

    with serving({"/v1/ask": answer}) as server:
        client = Client(server.base)
        assert client.post_all(requests(1), model="m", read=number) == [1]
    assert client.traffic.repeated == 2


def test_the_server_says_how_long_to_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONGEST_WAIT", 30.0)
    assert module._seconds("7") == 7.0
    assert module._seconds("Wed, 21 Oct 2026 07:28:00 GMT") is None
    assert module._seconds("-3") is None


def test_a_connection_that_is_closed_is_opened_again() -> None:
    turns = itertools.count()
    with serving({"/v1/ask": lambda asked: Reply({"n": 1}, close=next(turns) == 0)}) as server:
        assert Client(server.base).post_all(requests(1), model="m", read=number) == [1]


def test_what_never_passes_is_one_sentence_and_keeps_what_arrived(tmp_path: Path) -> None:
    def answer(asked: object) -> Reply:
        return Reply({"n": asked.body["n"]}) if asked.body["n"] < 3 else Reply({"error": {"message": "down"}}, 503)

    with serving({"/v1/ask": answer}) as server:
        client = Client(server.base, concurrency=1, attempts=2)
        with pytest.raises(EndpointError, match="answered 503 2 times: down") as error:
            client.post_all(requests(6), model="m", read=number, store=AnswerStore(tmp_path))
        assert error.value.exit_code == 4
    assert len(AnswerStore(tmp_path)) == 3


def test_kept_answers_are_not_asked_for_again(tmp_path: Path) -> None:
    with serving({"/v1/ask": lambda asked: Reply({"n": asked.body["n"]})}) as server:
        client = Client(server.base)
        client.post_all(requests(4), model="m", read=number, store=AnswerStore(tmp_path))
        again = Client(server.base)
        assert again.post_all(requests(6), model="m", read=number, store=AnswerStore(tmp_path)) == list(range(6))
        assert len(server.posts()) == 6
        assert again.traffic.to_dict()["answers_reused"] == 4
        again.post_all(requests(1), model="another", read=number, store=AnswerStore(tmp_path))
        assert len(server.posts()) == 7


@pytest.mark.parametrize("damage", ["torn", "edited", "noise"])
def test_damaged_answers_are_asked_for_again(tmp_path: Path, damage: str) -> None:
    with serving({"/v1/ask": lambda asked: Reply({"n": asked.body["n"]})}) as server:
        client = Client(server.base, concurrency=1)
        client.post_all(requests(2), model="m", read=number, store=AnswerStore(tmp_path))
        file = tmp_path / ANSWER_FILE
        text = file.read_text()
        if damage == "torn":
            file.write_text(text[:-9])
        elif damage == "edited":
            file.write_text(text.replace('\\"n\\": 1', '\\"n\\": 9'))
        else:
            file.write_text(text + '\x00{"a": [\n[1, 2]\n')
        store = AnswerStore(tmp_path)
        assert client.post_all(requests(2), model="m", read=number, store=store) == [0, 1]
        assert store.damaged == {"torn": 1, "edited": 1, "noise": 2}[damage]
        assert client.post_all(requests(2), model="m", read=number, store=AnswerStore(tmp_path)) == [0, 1]
        assert len(server.posts()) == (2 if damage == "noise" else 3)


def test_a_malformed_answer_is_an_error_and_is_not_kept(tmp_path: Path) -> None:
    def read(_: Request, answer: dict[str, int]) -> int:
        if "n" not in answer:
            raise module.malformed("the server", "a number")
        return answer["n"]

    with serving({"/v1/ask": lambda asked: Reply({"wrong": 1})}) as server, pytest.raises(ValueError, match="a number"):
        Client(server.base).post_all(requests(1), model="m", read=read, store=AnswerStore(tmp_path))
    assert len(AnswerStore(tmp_path)) == 0


@pytest.mark.parametrize("body", [b"<html>", b"", b"[1]", b"[" * 100_000, b"\xff\xfe"])
def test_what_is_not_a_json_object_is_one_sentence(body: bytes) -> None:
    with serving({"/v1/ask": lambda asked: Reply(body)}) as server, pytest.raises(EndpointError, match="JSON"):
        Client(server.base).post("/ask", {})


def test_an_answer_without_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 1000)
    monkeypatch.setattr(connection, "MOST_BYTES", 1000)
    with (
        serving({"/v1/ask": lambda asked: Reply(b"x" * 5000)}) as server,
        pytest.raises(EndpointError, match="more than"),
    ):
        Client(server.base).post("/ask", {})


def test_the_key_goes_to_the_server_and_nowhere_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MY_KEY", KEY)

    def refuse(asked: object) -> Reply:
        return Reply({"error": {"message": f"the key {KEY} is not valid"}}, 401)

    with serving({"/v1/ask": lambda asked: Reply({"n": 1}), "/v1/no": refuse}) as server:
        client = Client(server.base, key_env="MY_KEY")
        client.post_all(requests(1), model="m", read=number, store=AnswerStore(tmp_path))
        assert server.asked[-1].headers["authorization"] == f"Bearer {KEY}"
        with pytest.raises(RequestRefusedError) as error:
            client.post("/no", {})
    assert error.value.status == 401
    assert KEY not in str(error.value)
    assert "MY_KEY" in str(error.value)
    assert KEY not in (tmp_path / ANSWER_FILE).read_text()
    assert KEY not in repr(client)
    assert KEY not in json.dumps(client.traffic.to_dict())


def test_a_missing_key_and_no_key_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_KEY", raising=False)
    with pytest.raises(UsageError, match="NO_KEY"):
        Client("http://127.0.0.1:1/v1", key_env="NO_KEY")
    with serving({"/v1/ask": lambda asked: Reply({}, 401)}) as server:
        with pytest.raises(RequestRefusedError, match="no key was sent"):
            Client(server.base).post("/ask", {})
        assert "authorization" not in server.asked[-1].headers


def test_redirects_are_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    with serving({"/v1/ask": lambda asked: Reply({"n": 1})}) as other:
        redirect = Reply(b"", 307, {"location": f"{other.base}/ask"})
        with serving({"/v1/ask": lambda asked: redirect}) as server, pytest.raises(EndpointError, match="redirects to"):
            Client(server.base, key_env="MY_KEY").post("/ask", {})
    assert other.asked == []


def test_no_server_is_one_sentence() -> None:
    with pytest.raises(EndpointError, match="cannot be reached") as error:
        Client("http://127.0.0.1:9/v1").get("/models")
    assert error.value.exit_code == 4


def test_a_server_without_a_valid_certificate_is_one_sentence() -> None:
    with serving({"/v1/ask": lambda asked: Reply({"n": 1})}) as server:
        with pytest.raises(EndpointError, match="cannot be reached safely") as error:
            Client(server.base.replace("http:", "https:")).post("/ask", {})
        assert error.value.exit_code == 4
        assert "SSL_CERT_FILE" in error.value.hint
        assert server.posts() == []


def test_a_silent_server_is_given_up() -> None:
    with (
        serving({"/v1/ask": lambda asked: Reply({"n": 1}, wait=1.0)}) as server,
        pytest.raises(EndpointError, match=r"nothing for 0\.05 seconds, 2 times"),
    ):
        Client(server.base, timeout=0.05, attempts=2).post("/ask", {})


@pytest.mark.parametrize(
    "base", ["127.0.0.1:8000", "ftp://host/v1", "http://", "http://user:secret@host/v1", "http://host/v1?key=1"]
)
def test_an_address_that_is_none_or_holds_a_secret_is_refused(base: str) -> None:
    with pytest.raises(UsageError) as error:
        check_base(base)
    assert "secret@" not in str(error.value)


def test_a_listener_can_stop_the_work(tmp_path: Path) -> None:
    from evenhand.progress import followed

    class Stop(BaseException):
        pass

    def listener(done: int, total: int, unit: str) -> None:
        raise Stop

    with serving({"/v1/ask": lambda asked: Reply({"n": asked.body["n"]}, wait=0.4)}) as server:
        client = Client(server.base, concurrency=1)
        with followed(listener), pytest.raises(Stop):
            client.post_all(requests(20), model="m", read=number, store=AnswerStore(tmp_path))
        assert 1 <= len(AnswerStore(tmp_path)) < 20
