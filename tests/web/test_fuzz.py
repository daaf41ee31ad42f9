"""Nonsense gets a page with a plain sentence, never a traceback and never its own markup back."""

from urllib.parse import quote

import pytest

pytest.importorskip("starlette", reason="the extra [web] is not installed")

from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from evenhand.web.application import WebSite
from evenhand.web.explore import TOOLS
from evenhand.web.server import HEADERS, RequestGuard

pytestmark = pytest.mark.xdist_group("page")  # one process makes the runs and opens the server

MARKUP = "<b id=fuzz onload='x'>\"&{{ 12345679*9 }}"
NAMES = [
    "subject",
    "concept",
    "method",
    "words",
    "word",
    "count",
    "query",
    "x",
    "y",
    "a",
    "b",
    "x_name",
    "y_name",
    "premise",
    "hypotheses",
    "fillers",
    "sentence",
    "source",
    "text",
    "run",
    "page",
    "token",
    "measure",
]
VALUES = st.one_of(
    st.sampled_from(
        [
            "",
            "s0",
            "s9",
            "gender",
            "religion",
            "none",
            "linear",
            "nurse",
            "she he",
            "{}",
            "The {} slept.",
            "weat-6",
            "pasted",
            "-1",
            "9" * 30,
            "1e9",
            "\0",
            "\n\n",
            "../../etc/passwd",
            MARKUP,
            "ß" * 70,
            "a," * 100,
            "\u202e",
        ]
    ),
    st.text(max_size=40),
)
PATHS = st.one_of(
    st.sampled_from(["/", "/runs", "/compare", "/explore", "/audits", "/audits/new", "/static/page.js", "//", "/%ff"]),
    st.sampled_from([f"/explore/{tool}" for tool in TOOLS]),
    st.builds("/{}/{}{}".format, st.sampled_from(["runs", "audits", "static", "explore"]), st.text("a./%\0é<", max_size=6),
              st.sampled_from(["", "/report", "/cancel", "/events", "/charts/0/0.svg", "/charts/x/-1.svg"])),
)  # fmt: skip
FIELDS = st.lists(st.tuples(st.one_of(st.sampled_from(NAMES), st.text(max_size=5)), VALUES), max_size=8)
METHODS = st.sampled_from(["GET", "GET", "GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "BREW"])


def survive(
    client: TestClient, site: WebSite, method: str, path: str, fields: list[tuple[str, str]], own: bool
) -> None:
    """Ask, and look at the answer."""
    pairs = [(name, value.encode(errors="replace").decode()) for name, value in fields]
    pairs += [("token", site.token)] if own and path != "/audits" else []
    data = {name: [v for n, v in pairs if n == name] for name, _ in pairs}
    sent = {"data": data} if method == "POST" else {"params": pairs}
    answer = client.request(method, quote(path, safe="/%"), **sent, follow_redirects=False)
    assert answer.status_code < 500 or answer.status_code == 503, (method, path, fields, answer.text)
    assert set(HEADERS) <= set(answer.headers)
    if "html" in answer.headers.get("content-type", ""):
        assert "Traceback" not in answer.text
        assert "<b id=fuzz" not in answer.text
        assert "111111111" not in answer.text
        assert method == "HEAD" or "<h1>" in answer.text


@settings(max_examples=40)
@given(method=METHODS, path=PATHS, fields=FIELDS, own=st.booleans())
def test_nonsense_is_survived(
    client: TestClient, site: WebSite, method: str, path: str, fields: list[tuple[str, str]], own: bool
) -> None:
    survive(client, site, method, path, fields, own)


@pytest.mark.slow
@settings(max_examples=3000)
@given(method=METHODS, path=PATHS, fields=FIELDS, own=st.booleans())
def test_much_nonsense_is_survived(
    client: TestClient, site: WebSite, method: str, path: str, fields: list[tuple[str, str]], own: bool
) -> None:
    survive(client, site, method, path, fields, own)


HEADER_NAMES = st.sampled_from([b"host", b"Host", b"origin", b"sec-fetch-site", b"sec-fetch-mode", b"content-length"])
HEADER_VALUES = st.one_of(st.binary(max_size=12), st.sampled_from([b"localhost", b"127.0.0.1:80", b"http://[", b"0"]))


@given(
    method=st.sampled_from(["GET", "POST", "PUT"]), headers=st.lists(st.tuples(HEADER_NAMES, HEADER_VALUES), max_size=5)
)
def test_any_headers_are_judged(app: RequestGuard, method: str, headers: list[tuple[bytes, bytes]]) -> None:
    refusal = app.refusal({"method": method, "headers": headers, "query_string": b""})
    hosts = [value for name, value in headers if name.lower() == b"host"]
    if refusal is None:
        assert len(hosts) == 1
        assert hosts[0].decode("latin-1").strip().lower().startswith(("localhost", "127.0.0.1"))
        assert method == "GET" or dict(headers).get(b"sec-fetch-site", b"") in (b"", b"same-origin")
