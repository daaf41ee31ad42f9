"""A small client of Chromium's DevTools protocol over its pipe, with the standard library alone."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import time
from pathlib import Path
from typing import Any

PATIENCE = 30.0  # seconds; a crowded machine is not a bug
PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Chromium:
    """A headless browser with one tab. Errors of the console are collected in `errors`."""

    def __init__(self, profile: Path) -> None:
        if PROGRAM is None:
            raise RuntimeError("there is no Chromium on this machine")
        read_in, write_in = os.pipe()
        read_out, write_out = os.pipe()
        # Above the two descriptors that the browser reads and writes, which must not be overwritten.
        theirs = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 20) for end in (read_in, write_out)]
        self._write, self._read = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 20) for end in (write_in, read_out))
        for end in (read_in, write_in, read_out, write_out):
            os.close(end)
        arguments = [
            PROGRAM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
            "--disable-extensions", "--disable-background-networking", "--disable-component-update", "--mute-audio",
            "--hide-scrollbars", "--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank",
        ]  # fmt: skip
        self.pid = os.posix_spawn(
            PROGRAM,
            arguments,
            {**os.environ, "HOME": str(profile)},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, theirs[0], 3),
                (os.POSIX_SPAWN_DUP2, theirs[1], 4),
                (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
            ],
            setpgroup=0,
        )
        for end in theirs:
            os.close(end)
        self._buffer, self._number, self._session = b"", 0, ""
        self.errors: list[str] = []
        self.loads = 0
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and return its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._write, data) :]
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            answer = self._receive(deadline)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return dict(answer["result"])
        raise TimeoutError(method)

    def _receive(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, *_ = select.select([self._read], [], [], max(0.0, deadline - time.monotonic()))
            data = os.read(self._read, 1 << 20) if ready else b""
            if not data:
                raise TimeoutError("Chromium does not answer")
            self._buffer += data
        text, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        self._note(message)
        return message

    def _note(self, message: dict[str, Any]) -> None:
        method, params = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.errors.append(str(params["exceptionDetails"].get("exception", params["exceptionDetails"])))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "assert"):
            self.errors.append(str(params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        elif method == "Page.loadEventFired":
            self.loads += 1

    def open(self, address: str) -> None:
        """Open an address and wait until it is loaded."""
        before = self.loads
        self.send("Page.navigate", url=address)
        self._wait_for_load(before)

    def _wait_for_load(self, before: int) -> None:
        deadline = time.monotonic() + PATIENCE
        while self.loads == before:
            self._receive(deadline)

    def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression."""
        result = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(str(result["exceptionDetails"]))
        return result["result"].get("value")

    def wait(self, condition: str) -> None:
        """Wait until an expression is true."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            with contextlib.suppress(RuntimeError):  # the page may be changing
                if self.evaluate(f"Boolean({condition})"):
                    return
            time.sleep(0.05)
        raise TimeoutError(f"{condition}: {self.text()[:2000]}")

    def text(self) -> str:
        """Return what the page shows."""
        return str(self.evaluate("document.body.innerText"))

    def click(self, selector: str, *, loads: bool = False) -> None:
        """Click the middle of an element with the mouse; `loads` waits for the page it leads to."""
        place = self.evaluate(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); "
            "if (!e) return null; e.scrollIntoView({block: 'center', behavior: 'instant'}); "
            "const r = e.getClientRects()[0]; return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        if place is None:
            raise LookupError(selector)
        before = self.loads
        for kind in ("mousePressed", "mouseReleased"):
            self.send(
                "Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", buttons=1, clickCount=1
            )
        if loads:
            self._wait_for_load(before)

    def type(self, selector: str, text: str) -> None:
        """Replace the content of a field by typing."""
        self.click(selector)
        self.evaluate(f"document.querySelector({json.dumps(selector)}).select()")
        self.send("Input.insertText", text=text)

    def resize(self, width: int, height: int = 900, *, dark: bool = False) -> None:
        """Set the size of the window and the colour scheme."""
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = "dark" if dark else "light"
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def screenshot(self, path: Path, *, whole: bool = True) -> None:
        """Write the page as a PNG picture."""
        data = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(data))

    def close(self) -> None:
        """End the browser."""
        with contextlib.suppress(Exception):
            self._session = ""
            self.send("Browser.close")
        for end in (self._write, self._read):
            os.close(end)
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            if os.waitpid(self.pid, os.WNOHANG)[0]:
                return
            time.sleep(0.02)
        os.killpg(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
