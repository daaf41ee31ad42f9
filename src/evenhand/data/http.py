"""HTTP downloads: streamed, resumable, and complete before they get their final name."""

from __future__ import annotations

import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from email.message import Message
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from evenhand.data.catalog import File
from evenhand.data.fetch import DownloadProgress, silent
from evenhand.data.local_copies import check
from evenhand.errors import FetchError, UsageError

SECONDS_WITHOUT_PROGRESS = 30.0
CHUNK = 1 << 18
RANGE_NOT_SATISFIABLE = 416
LARGEST_PAGE = 100_000_000  # bytes
Handlers = Sequence[urllib.request.BaseHandler]


def download(
    address: str,
    target: Path,
    *,
    expected: File,
    timeout: float | None = None,
    progress: DownloadProgress = silent,
    handlers: Handlers = (),
) -> Path:
    """Download a file.

    The data are written to `<target>.partial`. An interrupted download leaves this file, and the next call resumes it
    if the server still has the same version. A file that fails verification is removed.

    Args:
        address: http(s) address; redirects are followed, from https only to https.
        target: the final path, created when the download is complete and verified.
        expected: size and sha256, as far as known.
        timeout: seconds without data before the download fails; default: `EVENHAND_TIMEOUT`, else 30.
        progress: called after each chunk.
        handlers: of a proxy, certificates or credentials.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(target.name + ".partial")
    limit = default_timeout() if timeout is None else timeout
    with _transfer_errors(limit):
        _fill(partial, address, expected=expected, timeout=limit, progress=progress, handlers=handlers)
    try:
        check(partial, expected)
    except FetchError:
        discard(partial)
        raise
    _tag_file(partial).unlink(missing_ok=True)
    return partial.replace(target)


def read(address: str, *, accept: str, handlers: Handlers = ()) -> tuple[bytes, str, str]:
    """Return a page, its content type, and the address it came from after redirects."""
    limit = default_timeout()
    headers = {"User-Agent": "evenhand", "Accept-Encoding": "identity", "Accept": accept}
    with _transfer_errors(limit), _request(address, headers, limit, handlers) as response:
        body = response.read(LARGEST_PAGE + 1)
        if len(body) > LARGEST_PAGE:
            raise FetchError(f"the page has more than {LARGEST_PAGE:,} bytes")
        return body, response.headers.get("Content-Type", ""), response.url


def without_credentials(address: str) -> str:
    """Return an address without the user name and password in front of its host."""
    parts = urlsplit(address)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def default_timeout() -> float:
    """Return the timeout in seconds: `EVENHAND_TIMEOUT`, else 30."""
    text = os.environ.get("EVENHAND_TIMEOUT", "")
    try:
        seconds = float(text) if text else SECONDS_WITHOUT_PROGRESS
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise UsageError(f"EVENHAND_TIMEOUT is {text!r}", hint="give a number of seconds above 0")
    return seconds


def discard(partial: Path) -> None:
    """Remove a partial file and its tag."""
    partial.unlink(missing_ok=True)
    _tag_file(partial).unlink(missing_ok=True)


def _fill(
    partial: Path, address: str, *, expected: File, timeout: float, progress: DownloadProgress, handlers: Handlers
) -> None:
    try:
        response = _open(partial, address, timeout, handlers)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code != RANGE_NOT_SATISFIABLE or not partial.exists():
            raise
        discard(partial)  # longer than the file on the server: another version
        response = _open(partial, address, timeout, handlers)
    with response:
        start = _start(response, partial)
        total = _total(response, start)
        if expected.size and total is not None and total != expected.size:
            discard(partial)
            raise FetchError(f"the server offers {total:,} bytes, expected {expected.size:,}")
        if not start:
            discard(partial)  # before its tag is replaced: the parts of two versions must not be joined later
        _note_tag(response.headers, partial)
        _receive(response, partial, start=start, total=total, most=expected.size, progress=progress)


def _open(partial: Path, address: str, timeout: float, handlers: Handlers) -> http.client.HTTPResponse:
    # With content encoding, Content-Length and Range would not refer to the bytes of the file.
    headers = {"User-Agent": "evenhand", "Accept-Encoding": "identity", **_range(partial)}
    return _request(address, headers, timeout, handlers)


def _request(address: str, headers: dict[str, str], timeout: float, handlers: Handlers) -> http.client.HTTPResponse:
    opener = urllib.request.build_opener(_SafeRedirects, *handlers)
    request = urllib.request.Request(without_credentials(address), headers=headers)
    response: http.client.HTTPResponse = opener.open(request, timeout=timeout)
    return response


def _range(partial: Path) -> dict[str, str]:
    """Return headers that request the rest of a partial file if the server still has the same version."""
    tag = _tag_file(partial)
    if not (partial.exists() and partial.stat().st_size and tag.exists()):
        return {}
    return {"Range": f"bytes={partial.stat().st_size}-", "If-Range": tag.read_text(encoding="latin-1")}


def _start(response: http.client.HTTPResponse, partial: Path) -> int:
    """Return the offset of the response body: 0 unless the server returned the requested range."""
    if response.status != http.client.PARTIAL_CONTENT:
        return 0
    start = partial.stat().st_size if partial.exists() else 0
    if not response.headers.get("Content-Range", "").startswith(f"bytes {start}-"):
        discard(partial)
        raise FetchError("the server returned a different range than requested")
    return start


def _total(response: http.client.HTTPResponse, start: int) -> int | None:
    length = response.headers.get("Content-Length", "")
    return start + int(length) if length.isdecimal() else None


def _note_tag(headers: Message, partial: Path) -> None:
    tag = headers.get("ETag", "")
    if not tag or tag.startswith("W/"):  # a weak tag does not guarantee identical bytes
        tag = headers.get("Last-Modified", "")
    if tag:
        _tag_file(partial).write_text(tag, encoding="latin-1")
    else:
        _tag_file(partial).unlink(missing_ok=True)


def _tag_file(partial: Path) -> Path:
    return partial.with_name(partial.name + ".tag")


def _receive(
    response: http.client.HTTPResponse, partial: Path, *, start: int, total: int | None, most: int | None,
    progress: DownloadProgress,
) -> None:  # fmt: skip
    done = start
    with partial.open("ab" if start else "wb") as out:
        while chunk := response.read1(CHUNK):
            out.write(chunk)
            done += len(chunk)
            progress(done, total)
            if most and done > most:  # a server that does not say how much it sends may never end
                break
        out.flush()
        os.fsync(out.fileno())
    if most and done > most:
        discard(partial)  # it cannot become the right file
        raise FetchError(f"the server sends more than the expected {most:,} bytes")
    if total is not None and done < total:
        raise FetchError(
            f"the transfer stopped after {done:,} of {total:,} bytes", hint="run the command again to resume"
        )


class _SafeRedirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects to http and https addresses, but not from https to http."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> urllib.request.Request | None:
        scheme, target = (url.partition(":")[0].lower() for url in (req.full_url, newurl))
        if target not in ("http", "https") or (scheme, target) == ("https", "http"):
            fp.close()
            raise FetchError(f"redirected from {scheme} to {newurl}, which is not safe")
        return super().redirect_request(req, fp, code, msg, headers, newurl)  # type: ignore[arg-type]


@contextmanager
def _transfer_errors(timeout: float) -> Iterator[None]:
    """Convert transfer errors into `FetchError`."""
    try:
        yield
    except FetchError:
        raise
    except urllib.error.HTTPError as error:
        error.close()
        reason = str(error.reason).partition("\n")[0]  # urllib describes a redirect loop in several lines
        raise FetchError(f"the server answered {error.code} {reason}".rstrip()) from error
    except TimeoutError as error:
        raise FetchError(f"the server sent nothing for {timeout:g} s", hint="set EVENHAND_TIMEOUT higher") from error
    except urllib.error.URLError as error:
        if isinstance(error.reason, TimeoutError):
            raise FetchError(f"no connection within {timeout:g} s", hint="set EVENHAND_TIMEOUT higher") from error
        raise FetchError(f"no connection ({error.reason})") from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise FetchError(f"the transfer failed ({type(error).__name__}: {error})") from error
