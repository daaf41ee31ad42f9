from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from evenhand.data import File, http
from evenhand.data.http import default_timeout, download
from evenhand.errors import FetchError, UsageError

BODY = bytes(range(256)) * 2000
MakeFile = Callable[[str, bytes], File]


@pytest.fixture
def expected(make_file: MakeFile) -> File:
    return make_file("a.bin", BODY)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "sub" / "a.bin"


def partial(target: Path) -> Path:
    return target.with_name("a.bin.partial")


def leave_partial(target: Path, content: bytes, tag: str = '"v1"') -> None:
    target.parent.mkdir()
    partial(target).write_bytes(content)
    target.with_name("a.bin.partial.tag").write_text(tag)


def only_the_file_is_left(target: Path) -> bool:
    return [path.name for path in target.parent.iterdir()] == [target.name]


def test_a_file_arrives_whole_and_alone(web: Any, target: Path, expected: File) -> None:
    web.serve("/a.bin", BODY)
    assert download(web.url("/a.bin"), target, expected=expected) == target
    assert target.read_bytes() == BODY
    assert only_the_file_is_left(target)


def test_progress_ends_at_the_total(web: Any, target: Path, expected: File) -> None:
    web.serve("/a.bin", BODY)
    steps: list[tuple[int, int | None]] = []
    download(web.url("/a.bin"), target, expected=expected, progress=lambda done, total: steps.append((done, total)))
    assert steps[-1] == (len(BODY), len(BODY))
    assert steps == sorted(steps)


def test_redirects_are_followed(web: Any, target: Path, expected: File) -> None:
    web.redirect("/old", "/older")
    web.redirect("/older", web.url("/a.bin"))
    web.serve("/a.bin", BODY)
    download(web.url("/old"), target, expected=expected)
    assert target.read_bytes() == BODY


def test_a_redirect_loop_ends(web: Any, target: Path, expected: File) -> None:
    web.redirect("/a", "/b")
    web.redirect("/b", "/a")
    with pytest.raises(FetchError, match="302"):
        download(web.url("/a"), target, expected=expected)
    assert len(web.seen) < 30
    assert not target.exists()


@pytest.mark.parametrize("address", ["file:///etc/hostname", "ftp://host.invalid/a.bin", "FTP://host.invalid/a.bin"])
def test_a_redirect_to_another_scheme_is_refused(web: Any, target: Path, expected: File, address: str) -> None:
    web.redirect("/a", address)
    with pytest.raises(FetchError, match=r"302|redirected from http to (?i:ftp)"):
        download(web.url("/a"), target, expected=expected)
    assert not target.exists()


@pytest.mark.parametrize("known", [True, False])
def test_a_truncated_body_is_not_a_file(web: Any, target: Path, expected: File, known: bool) -> None:
    web.serve("/a.bin", BODY[:1000], length=len(BODY))
    with pytest.raises(FetchError, match=r"stopped after 1,000 of 512,000 bytes"):
        download(web.url("/a.bin"), target, expected=expected if known else File("a.bin"))
    assert not target.exists()


def test_a_body_cut_without_a_stated_length_fails_its_check(web: Any, target: Path, expected: File) -> None:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        handler.wfile.write(BODY[:1000])

    web.routes["/a.bin"] = answer
    with pytest.raises(FetchError, match=r"has 1,000 bytes, expected 512,000"):
        download(web.url("/a.bin"), target, expected=expected)
    assert not list(target.parent.iterdir())


def test_a_broken_chunked_body_is_not_a_file(web: Any, target: Path, expected: File) -> None:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        handler.wfile.write(b"400\r\nabc")

    web.routes["/a.bin"] = answer
    with pytest.raises(FetchError):
        download(web.url("/a.bin"), target, expected=expected)
    assert not target.exists()


def test_a_wrong_hash_removes_everything(web: Any, target: Path, expected: File) -> None:
    web.serve("/a.bin", BODY[::-1], ETag='"v1"')
    with pytest.raises(FetchError, match=f"expected {expected.sha256}"):
        download(web.url("/a.bin"), target, expected=expected)
    assert not list(target.parent.iterdir())


def test_a_wrong_size_is_refused_before_the_body(web: Any, target: Path, expected: File) -> None:
    web.serve("/a.bin", BODY + b"more")
    with pytest.raises(FetchError, match="offers 512,004 bytes, expected 512,000"):
        download(web.url("/a.bin"), target, expected=expected)
    assert not list(target.parent.iterdir())


def test_a_server_that_never_answers(web: Any, target: Path, expected: File) -> None:
    web.routes["/a.bin"] = lambda handler: web.release.wait(30)
    with pytest.raises(FetchError, match=r"nothing for 0\.2 s") as caught:
        download(web.url("/a.bin"), target, expected=expected, timeout=0.2)
    assert "EVENHAND_TIMEOUT" in caught.value.hint
    assert not target.exists()


def test_a_server_that_stalls_in_the_middle(
    web: Any, target: Path, expected: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    web.routes["/a.bin"] = stall_after(web, BODY[:5000])
    monkeypatch.setenv("EVENHAND_TIMEOUT", "0.2")
    with pytest.raises(FetchError, match=r"nothing for 0\.2 s"):
        download(web.url("/a.bin"), target, expected=expected)
    assert not target.exists()
    assert partial(target).read_bytes() == BODY[:5000]


def stall_after(web: Any, beginning: bytes) -> Callable[[BaseHTTPRequestHandler], None]:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(BODY)))
        handler.send_header("ETag", '"v1"')
        handler.end_headers()
        handler.wfile.write(beginning)
        handler.wfile.flush()
        web.release.wait(30)

    return answer


@pytest.mark.parametrize("status", [404, 403, 500, 503])
def test_an_error_status_is_reported(web: Any, target: Path, expected: File, status: int) -> None:
    web.routes["/a.bin"] = lambda handler: handler.send_error(status)
    with pytest.raises(FetchError, match=f"answered {status}"):
        download(web.url("/a.bin"), target, expected=expected)
    assert not list(target.parent.iterdir())


def test_an_error_status_without_a_word(web: Any, target: Path, expected: File) -> None:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(500, "")
        handler.end_headers()

    web.routes["/a.bin"] = answer
    with pytest.raises(FetchError, match=r"answered 500$"):
        download(web.url("/a.bin"), target, expected=expected)


def test_nobody_listens(web: Any, target: Path, expected: File) -> None:
    with pytest.raises(FetchError, match="no connection"):
        download("http://127.0.0.1:1/a.bin", target, expected=expected)


def test_a_partial_file_is_gone_on_from(web: Any, target: Path, expected: File) -> None:
    leave_partial(target, BODY[:300_000])
    web.serve_ranges("/a.bin", BODY)
    download(web.url("/a.bin"), target, expected=expected)
    assert target.read_bytes() == BODY
    assert web.seen[0][1]["Range"] == "bytes=300000-"
    assert only_the_file_is_left(target)


def test_without_range_support_it_starts_over(web: Any, target: Path, expected: File) -> None:
    leave_partial(target, b"x" * 300_000)
    web.serve("/a.bin", BODY)
    download(web.url("/a.bin"), target, expected=expected)
    assert target.read_bytes() == BODY


def test_another_version_on_the_server_starts_over(web: Any, target: Path) -> None:
    leave_partial(target, b"x" * 300_000, tag='"v0"')
    web.serve_ranges("/a.bin", BODY)
    download(web.url("/a.bin"), target, expected=File("a.bin"))
    assert target.read_bytes() == BODY


def test_a_partial_file_without_a_tag_starts_over(web: Any, target: Path) -> None:
    leave_partial(target, b"x" * 300_000)
    target.with_name("a.bin.partial.tag").unlink()
    web.serve_ranges("/a.bin", BODY)
    download(web.url("/a.bin"), target, expected=File("a.bin"))
    assert target.read_bytes() == BODY


def test_a_partial_file_longer_than_the_file_starts_over(web: Any, target: Path, expected: File) -> None:
    leave_partial(target, BODY + b"more")
    web.serve_ranges("/a.bin", BODY)
    download(web.url("/a.bin"), target, expected=expected)
    assert target.read_bytes() == BODY
    assert len(web.seen) == 2


def test_a_server_that_sends_another_range_is_not_believed(web: Any, target: Path, expected: File) -> None:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(206)
        handler.send_header("Content-Range", f"bytes 0-{len(BODY) - 1}/{len(BODY)}")
        handler.end_headers()

    leave_partial(target, BODY[:300_000])
    web.routes["/a.bin"] = answer
    with pytest.raises(FetchError, match="a different range"):
        download(web.url("/a.bin"), target, expected=expected)
    assert not list(target.parent.iterdir())


def test_killed_in_the_middle_leaves_no_file_and_goes_on_later(web: Any, target: Path, expected: File) -> None:
    web.routes["/a.bin"] = stall_after(web, BODY[:300_000])
    code = (
        "import sys; from pathlib import Path; from evenhand.data import File; from evenhand.data.http import download;"
        "download(sys.argv[1], Path(sys.argv[2]), expected=File('a.bin'))"
    )
    with subprocess.Popen([sys.executable, "-c", code, web.url("/a.bin"), str(target)]) as process:
        deadline = time.monotonic() + 30
        while not (partial(target).exists() and partial(target).stat().st_size) and time.monotonic() < deadline:
            time.sleep(0.01)
        process.kill()
    assert not target.exists()
    begun = partial(target).stat().st_size
    assert begun
    web.serve_ranges("/a.bin", BODY)
    download(web.url("/a.bin"), target, expected=expected)
    assert target.read_bytes() == BODY
    assert web.seen[-1][1]["Range"] == f"bytes={begun}-"


def test_from_https_only_to_https() -> None:
    from email.message import Message
    from io import BytesIO
    from urllib.request import Request

    from evenhand.data.http import _SafeRedirects

    with pytest.raises(FetchError, match="not safe"):
        _SafeRedirects().redirect_request(
            Request("https://host/a"), BytesIO(), 302, "Found", Message(), "http://host/a"
        )


@pytest.mark.parametrize("value", ["soon", "0", "-1", "inf", "nan"])
def test_a_timeout_that_makes_no_sense(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("EVENHAND_TIMEOUT", value)
    with pytest.raises(UsageError, match="EVENHAND_TIMEOUT"):
        default_timeout()


def test_a_process_that_stops_before_the_first_byte_of_a_new_version_does_not_mix_it_with_the_old_one(
    web: Any, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*arguments: object, **more: object) -> None:
        raise KeyboardInterrupt

    web.serve_ranges("/a.bin", BODY, tag='"v2"')
    leave_partial(target, b"the old version", tag='"v1"')
    with monkeypatch.context() as patched:
        patched.setattr(http, "_receive", stop)
        with pytest.raises(KeyboardInterrupt):
            download(web.url("/a.bin"), target, expected=File("a.bin"))
    download(web.url("/a.bin"), target, expected=File("a.bin"))
    assert target.read_bytes() == BODY
