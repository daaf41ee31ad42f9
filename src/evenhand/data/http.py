"""Download over HTTP: streamed, resumed where the server allows it, and never half a file under the final name."""

from __future__ import annotations

import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import Message
from pathlib import Path
from typing import IO

from evenhand.data.catalog import File
from evenhand.data.digest import check
from evenhand.data.fetch import DownloadProgress, silent
from evenhand.errors import FetchError, UsageError

SECONDS_WITHOUT_PROGRESS = 30.0
CHUNK = 1 << 18
RANGE_NOT_SATISFIABLE = 416


def download(
    address: str, target: Path, *, expected: File, timeout: float | None = None, progress: DownloadProgress = silent
) -> Path:
    """Fetch one file from the web.

    The bytes gather in `<target>.partial`. An interrupted download leaves that file, and the next one goes on from it
    if the server still has the same version; a file that fails its check is removed.

    Args:
        address: http(s) address; redirects are followed, from https only to https.
        target: the final name, which appears only when all is there and checked.
        expected: size and sha256, as far as they are known.
        timeout: seconds without a byte after which the server counts as hanging; `EVENHAND_TIMEOUT`, else 30.
        progress: called after each chunk.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(target.name + ".partial")
    limit = patience() if timeout is None else timeout
    with _speaking_plainly(limit):
        _fill(partial, address, expected=expected, timeout=limit, progress=progress)
    try:
        check(partial, expected)
    except FetchError:
        discard(partial)
        raise
    _tag_file(partial).unlink(missing_ok=True)
    return partial.replace(target)


def patience() -> float:
    """Seconds to wait for a server that sends nothing."""
    given = os.environ.get("EVENHAND_TIMEOUT", "")
    try:
        seconds = float(given) if given else SECONDS_WITHOUT_PROGRESS
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise UsageError(f"EVENHAND_TIMEOUT is {given!r}", hint="give a number of seconds above 0")
    return seconds


def discard(partial: Path) -> None:
    """Remove a partial file and its tag."""
    partial.unlink(missing_ok=True)
    _tag_file(partial).unlink(missing_ok=True)


def _fill(partial: Path, address: str, *, expected: File, timeout: float, progress: DownloadProgress) -> None:
    try:
        response = _open(partial, address, timeout)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code != RANGE_NOT_SATISFIABLE or not partial.exists():
            raise
        discard(partial)  # longer than what the server has: an older version of the file
        response = _open(partial, address, timeout)
    with response:
        start = _start(response, partial)
        total = _total(response, start)
        if expected.size and total is not None and total != expected.size:
            discard(partial)
            raise FetchError(f"the server offers {total:,} bytes, expected {expected.size:,}")
        _note_tag(response.headers, partial)
        _receive(response, partial, start=start, total=total, progress=progress)


def _open(partial: Path, address: str, timeout: float) -> http.client.HTTPResponse:
    # Compression on the way would make Content-Length and Range speak of other bytes than the file's.
    headers = {"User-Agent": "evenhand", "Accept-Encoding": "identity", **_range(partial)}
    opener = urllib.request.build_opener(_NeverLessSafe)
    response: http.client.HTTPResponse = opener.open(urllib.request.Request(address, headers=headers), timeout=timeout)
    return response


def _range(partial: Path) -> dict[str, str]:
    """Ask for the rest of a partial file, on condition that the server still has the version it began with."""
    tag = _tag_file(partial)
    if not (partial.exists() and partial.stat().st_size and tag.exists()):
        return {}
    return {"Range": f"bytes={partial.stat().st_size}-", "If-Range": tag.read_text(encoding="latin-1")}


def _start(response: http.client.HTTPResponse, partial: Path) -> int:
    """The offset at which the body begins: 0 unless the server answered the range that was asked for."""
    if response.status != http.client.PARTIAL_CONTENT:
        return 0
    start = partial.stat().st_size if partial.exists() else 0
    if not response.headers.get("Content-Range", "").startswith(f"bytes {start}-"):
        discard(partial)
        raise FetchError("the server answered with another range than the one asked for")
    return start


def _total(response: http.client.HTTPResponse, start: int) -> int | None:
    length = response.headers.get("Content-Length", "")
    return start + int(length) if length.isdecimal() else None


def _note_tag(headers: Message, partial: Path) -> None:
    tag = headers.get("ETag", "")
    if not tag or tag.startswith("W/"):  # a weak tag promises the same meaning, not the same bytes
        tag = headers.get("Last-Modified", "")
    if tag:
        _tag_file(partial).write_text(tag, encoding="latin-1")
    else:
        _tag_file(partial).unlink(missing_ok=True)


def _tag_file(partial: Path) -> Path:
    return partial.with_name(partial.name + ".tag")


def _receive(
    response: http.client.HTTPResponse, partial: Path, *, start: int, total: int | None, progress: DownloadProgress
) -> None:
    done = start
    with partial.open("ab" if start else "wb") as out:
        while chunk := response.read1(CHUNK):
            out.write(chunk)
            done += len(chunk)
            progress(done, total)
        out.flush()
        os.fsync(out.fileno())
    if total is not None and done < total:
        raise FetchError(f"the transfer stopped after {done:,} of {total:,} bytes", hint="run it again to go on")


class _NeverLessSafe(urllib.request.HTTPRedirectHandler):
    """Follows redirects, but not from https to plain http."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> urllib.request.Request | None:
        if req.full_url.startswith("https:") and not newurl.startswith("https:"):
            fp.close()
            raise FetchError(f"redirected from https to {newurl}, which is not safe")
        return super().redirect_request(req, fp, code, msg, headers, newurl)  # type: ignore[arg-type]


@contextmanager
def _speaking_plainly(timeout: float) -> Iterator[None]:
    """Turn the many ways in which a transfer can fail into one `FetchError` each."""
    try:
        yield
    except FetchError:
        raise
    except urllib.error.HTTPError as error:
        error.close()
        reason = str(error.reason).partition("\n")[0]  # urllib's words on a redirect loop take several lines
        raise FetchError(f"the server answered {error.code} {reason}".rstrip()) from error
    except TimeoutError as error:
        raise FetchError(f"the server sent nothing for {timeout:g} s", hint="set EVENHAND_TIMEOUT higher") from error
    except urllib.error.URLError as error:
        if isinstance(error.reason, TimeoutError):
            raise FetchError(f"no connection within {timeout:g} s", hint="set EVENHAND_TIMEOUT higher") from error
        raise FetchError(f"no connection ({error.reason})") from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise FetchError(f"the transfer failed ({type(error).__name__}: {error})") from error
