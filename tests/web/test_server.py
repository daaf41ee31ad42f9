"""Who may ask, and what every answer says about itself."""

import pytest

pytest.importorskip("starlette", reason="the extra [web] is not installed")

from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient

from evenhand.web import PageLimits, create_app
from evenhand.web.application import WebSite
from evenhand.web.runs import report_policy
from evenhand.web.server import RequestGuard, host_name

pytestmark = pytest.mark.xdist_group("page")  # one process makes the runs and opens the server

PAGES = ("/runs", "/explore", "/explore/axis", "/audits/new", "/static/page.js", "/nothing", "/compare")


@pytest.mark.parametrize("path", PAGES)
def test_every_answer_has_the_headers(client: TestClient, path: str) -> None:
    headers = client.get(path).headers
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert "script-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"
    assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize("path", PAGES[:4])
def test_pages_have_no_inline_script_or_style(client: TestClient, path: str) -> None:
    text = client.get(path).text.lower()
    assert "<style" not in text
    assert " style=" not in text
    assert text.count("<script") == text.count('<script src="/static/page.js" defer></script>') == 1
    assert " onclick=" not in text


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:8000", "localhost:1", "LOCALHOST", "[::1]:9", "localhost."])
def test_loopback_names_are_answered(client: TestClient, host: str) -> None:
    assert client.get("/explore", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example",
        "evil.example:80",
        "",
        "localhost@evil",
        "[::1].evil.example",
        "localhost:evil.example",
        "[::1]@evil.example",
        "[::1",
    ],
)
def test_other_names_are_refused(client: TestClient, host: str) -> None:
    answer = client.get("/explore", headers={"host": host})
    assert answer.status_code == 421
    assert "host name" in answer.text


def test_a_name_can_be_allowed() -> None:
    client = TestClient(create_app([], hosts=["lab.example"]), base_url="http://lab.example:8000")
    assert client.get("/explore").status_code == 200


def test_two_host_headers_are_refused(app: RequestGuard) -> None:
    scope = {"method": "GET", "headers": [(b"host", b"localhost"), (b"host", b"evil.example")]}
    assert app.refusal(scope)[0] == 421


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:81"},
        {"origin": "http://["},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
    ],
)
def test_forms_of_other_sites_are_refused(client: TestClient, site: WebSite, headers: dict[str, str]) -> None:
    answer = client.post("/explore/contexts", data={"token": site.token}, headers=headers)
    assert answer.status_code == 403
    assert "another site" in answer.text


def test_a_form_needs_the_token(client: TestClient, site: WebSite) -> None:
    own = {"origin": "http://127.0.0.1", "sec-fetch-site": "same-origin"}
    assert client.post("/explore/contexts", data={"token": site.token}, headers=own).status_code == 200
    for data in ({"word": "x"}, {"token": ""}, {"token": site.token[:-1]}, {"token": "é"}):
        assert client.post("/explore/contexts", data=data, headers=own).status_code == 403
        assert client.post("/audits", data=data, headers=own).status_code == 403


def test_other_sites_may_link_but_not_embed(client: TestClient) -> None:
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    assert client.get("/explore", headers=link).status_code == 200
    for changed in ({"sec-fetch-dest": "iframe"}, {"sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"}):
        assert client.get("/explore", headers=link | changed).status_code == 403


def test_large_requests_are_refused(client: TestClient, site: WebSite) -> None:
    limits = PageLimits()
    assert client.post("/audits", content=b"x" * (limits.body + 1)).status_code == 413
    assert client.get("/explore/axis?words=" + "a" * limits.query).status_code == 414
    assert client.get("/explore/axis?" + "a=1&" * (limits.fields + 1)).status_code == 400
    assert client.get("/explore", headers={"content-length": "a"}).status_code == 413


def test_a_body_without_a_length_is_bounded(client: TestClient) -> None:
    parts = (b"x" * 50_000 for _ in range(5))
    headers = {"content-type": "application/x-www-form-urlencoded"}
    answer = client.post("/audits", content=parts, headers=headers)
    assert "content-length" not in answer.request.headers
    assert answer.status_code == 413


def test_only_forms_are_accepted(client: TestClient) -> None:
    assert client.post("/audits", json={"token": "x"}).status_code == 415


def test_an_error_of_the_application_still_has_the_headers() -> None:
    async def fails(scope: object, receive: object, send: object) -> None:
        await PlainTextResponse("no", 500)(scope, receive, send)

    guard = RequestGuard(fails, hosts=["localhost"], limits=PageLimits(), error_page=lambda *_: PlainTextResponse(""))
    assert "content-security-policy" in TestClient(guard, base_url="http://localhost").get("/").headers


def test_an_unexpected_error_is_a_page_without_a_traceback(
    client: TestClient, site: WebSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site.runs, "listing", lambda: 1 / 0)
    answer = client.get("/runs")
    assert answer.status_code == 500
    assert "Something went wrong" in answer.text
    assert "ZeroDivisionError" not in answer.text
    assert "content-security-policy" in answer.headers


def test_the_report_runs_only_its_own_scripts() -> None:
    policy = report_policy("<script>alert(1)</script><p>")
    assert "'sha256-bhHHL3z2vDgxUt0W3dWQOrprscmda2Y5pLsLg4GF+pI='" in policy
    assert "sandbox allow-scripts" in policy
    assert "script-src 'none'" in report_policy("<p>")


@pytest.mark.parametrize(
    ("host", "name"), [("A.b:80", "a.b"), ("[::1]:80", "::1"), ("::1", "::1"), ("[", ""), (":80", ""), ("a.:1", "a")]
)
def test_the_name_of_a_host_header(host: str, name: str) -> None:
    assert host_name(host) == name
