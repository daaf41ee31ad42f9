"""The main flows in a real browser: what a reader clicks works, and the console stays silent."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the extra [web] is not installed")

from chromium import PROGRAM, Chromium

import evenhand as eh
from evenhand.subjects import open_subject
from evenhand.web import create_app
from evenhand.web.server import address_of, listen

uvicorn = pytest.importorskip("uvicorn", reason="the extra [web] is not installed")

pytestmark = [
    pytest.mark.xdist_group("page"),
    pytest.mark.skipif(PROGRAM is None, reason="Chromium is not installed (Debian: apt-get install chromium)"),
]


@pytest.fixture(scope="module")
def address(runs: Path, glove: eh.Vectors, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of its own thread, as `evenhand serve` starts it; its last run has more columns than a phone shows."""
    listening = listen("127.0.0.1", 0)
    wide = tmp_path_factory.mktemp("wide") / "wide"
    record = eh.Audit.run(glove, methods=["linear", "span", "hard", "soft", "inlp", "leace"], measures=["weat"]).save(
        wide
    )
    os.utime(record, (1e9, 1e9))
    app = create_app([open_subject("glove-embedded")], [tmp_path_factory.mktemp("new"), runs, wide])
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    yield address_of(listening, "127.0.0.1")
    server.should_exit = True
    thread.join()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    opened = Chromium(tmp_path_factory.mktemp("profile"))
    opened.resize(1000)
    yield opened
    opened.close()


@pytest.fixture(autouse=True)
def silent_console(browser: Chromium) -> Iterator[None]:
    browser.errors.clear()
    yield
    assert browser.errors == []


def test_runs_are_browsed_and_compared(browser: Chromium, address: str) -> None:
    browser.open(address)
    assert "Runs" in browser.text()
    browser.click(".run:nth-of-type(2) h2 a", loads=True)
    assert "Findings" in browser.text()
    browser.wait("[...document.images].every((i) => i.loading === 'lazy')")
    browser.evaluate("document.images[0].scrollIntoView()")
    browser.wait("document.images[0].complete && document.images[0].naturalWidth > 100")
    browser.click('a[href$="/report"]', loads=True)
    assert "How to repeat it" in browser.text()
    browser.click("thead th button")  # the script of the report runs in its sandbox
    browser.open(f"{address}runs")
    for number in (1, 2):
        browser.evaluate(f"document.querySelectorAll('input[name=run]')[{number - 1}].click()")
    browser.click("form button", loads=True)
    assert "2 runs side by side" in browser.text()


def test_forms_answer_while_the_reader_types(browser: Chromium, address: str) -> None:
    browser.open(f"{address}explore")
    browser.click('a[href="/explore/neighbours"]', loads=True)
    browser.type("input[name=word]", "engineer")
    browser.wait("document.querySelector('#result b').textContent === 'engineer'")
    assert "word=engineer" in browser.evaluate("location.search")
    loads = browser.loads
    browser.open(f"{address}explore/association")
    browser.type("textarea[name=x]", "sister mother aunt")
    browser.wait("document.querySelector('#result').innerText.includes('27/27')")
    assert browser.loads == loads + 1  # the page was not loaded again


def test_a_text_is_sent_by_post(browser: Chromium, address: str) -> None:
    browser.open(f"{address}explore/contexts")
    browser.type("input[name=word]", "engineer")
    browser.wait("document.querySelector('#result b').textContent === 'engineer'")
    assert browser.evaluate("document.querySelectorAll('.contexts mark').length") > 2


def test_an_audit_is_started_and_its_cells_arrive(browser: Chromium, address: str) -> None:
    browser.open(f"{address}audits/new")
    browser.evaluate(
        "document.querySelectorAll('input[name=measure]').forEach((i) => { i.checked = i.value === 'ripa' })"
    )
    browser.click("form button", loads=True)
    browser.wait("document.querySelector('#result').dataset.state === 'done'")
    assert "ripa" in browser.text()
    browser.click("#result a", loads=True)
    assert "Score card" in browser.text()


@pytest.mark.parametrize("width", [360, *(pytest.param(width, marks=pytest.mark.slow) for width in (400, 500))])
def test_nothing_is_wider_than_a_phone(browser: Chromium, address: str, width: int) -> None:
    browser.resize(1000)
    browser.open(f"{address}runs")
    run = browser.evaluate("[...document.querySelectorAll('.run h2 a')].at(-1).getAttribute('href')").removeprefix("/")
    browser.resize(width)
    paths = ("runs", run, f"{run}/report", "explore/axis", "explore/association", "explore/inference", "audits/new")
    for path in paths:
        browser.open(f"{address}{path}")
        assert browser.evaluate("document.documentElement.scrollWidth") == width, path
    browser.resize(1000)


def test_the_page_works_without_javascript(browser: Chromium, address: str) -> None:
    browser.send("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(f"{address}explore/neighbours")
        browser.type("input[name=word]", "lawyer")
        browser.click("form button", loads=True)
        assert "lawyer lies at" in browser.text()
    finally:
        browser.send("Emulation.setScriptExecutionDisabled", value=False)


def test_pages_have_labels_headings_and_contrast(browser: Chromium, address: str) -> None:
    for dark in (False, True):
        browser.resize(1000, dark=dark)
        for path in ("explore/association", "explore/inference"):
            browser.open(f"{address}{path}")
            assert browser.evaluate(UNLABELLED) == []
            assert browser.evaluate("document.querySelectorAll('h1').length") == 1
            assert browser.evaluate(PALE) == []
    browser.resize(1000)


UNLABELLED = """[...document.querySelectorAll('input:not([type=hidden]), select, textarea')]
  .filter((field) => !field.closest('label') || !field.closest('label').innerText.trim()).map((field) => field.name)"""
# Text whose contrast with its ground is below 4.5 : 1 (WCAG 2, level AA).
PALE = """(() => {
  const parts = (colour) => (colour.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => { const [x, y, z] = [r, g, b].map((v) => v / 255).map((v) =>
    v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * x + 0.7152 * y + 0.0722 * z; };
  const ground = (e) => { for (; e; e = e.parentElement) { const c = parts(getComputedStyle(e).backgroundColor);
    if (c.length < 4 || c[3] > 0.99) return c; } return [255, 255, 255]; };
  const pale = [];
  for (const e of document.querySelectorAll('p, a, td, th, label, button, h1, h2, h3, li, small, legend, summary')) {
    if (!e.innerText || !e.innerText.trim() || e.disabled) continue;
    const [a, b] = [light(parts(getComputedStyle(e).color)), light(ground(e))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) pale.push(`${e.tagName} ${e.innerText.slice(0, 20)} ${contrast.toFixed(2)}`);
  }
  return pale;
})()"""
