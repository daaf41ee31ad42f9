"""Download registry packages with the configuration of the user's pip or npm, and extract members of archives.

Nothing is installed and no code of a package runs: only the archive is downloaded.

pip builds an sdist to learn its metadata, before anything can be checked. Here only the pages of the indexes are read
(the simple repository API, as HTML or JSON), and the file is taken from the address and compared with the hash that
they give. The indexes, proxy and certificates are those of the user's pip configuration.
"""

from __future__ import annotations

import ast
import contextlib
import gzip
import importlib.util
import io
import json
import os
import re
import shutil
import ssl
import stat
import subprocess
import sys
import tarfile
import urllib.request
import zipfile
import zlib
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import IO, cast
from urllib.parse import SplitResult, unquote, urldefrag, urljoin, urlsplit

from evenhand.data import http
from evenhand.data.catalog import DownloadSource, File, is_plain_path
from evenhand.data.local_copies import check
from evenhand.errors import FetchError
from evenhand.files import LEAST_EXPANSION, MAX_EXPANSION, replacing


def download(source: DownloadSource, folder: Path) -> Path:
    """Download the archive of a package into an empty folder and return its path."""
    if source.kind == "pypi" and is_in_sdist(source):
        return download_sdist(source, folder)
    command = pip_command(source) if source.kind == "pypi" else npm_command(source)
    run(command, folder)
    archives = [path for path in folder.iterdir() if path.is_file()]
    if len(archives) != 1:
        raise FetchError(f"expected one archive, got {len(archives)}")
    return archives[0]


def pip_command(source: DownloadSource) -> list[str]:
    """Return the pip command that downloads the wheel; pip builds nothing of a wheel."""
    if importlib.util.find_spec("pip") is None:
        raise FetchError("this Python has no pip", hint="python -m ensurepip")
    quiet = ("--quiet", "--no-input", "--disable-pip-version-check", "--progress-bar", "off")
    # The files are read and never imported, so the Python versions that the package supports do not matter.
    what = ("--no-deps", "--ignore-requires-python", "--only-binary", ":all:", "--dest", ".")
    return [sys.executable, "-m", "pip", "download", *quiet, *what, f"{source.where}=={source.version}"]


def npm_command(source: DownloadSource) -> list[str]:
    """Return the npm command that downloads the package."""
    npm = shutil.which("npm")
    if npm is None:
        raise FetchError("npm is not installed", hint="install Node.js, which includes npm")
    return [npm, "pack", "--silent", "--ignore-scripts", f"{source.where}@{source.version}"]


def is_in_sdist(source: DownloadSource) -> bool:
    """Return True if the path starts with the `name-version` folder of an sdist."""
    return normal(source.member.partition("/")[0]) == normal(f"{source.where}-{source.version}")


def run(command: Sequence[str], folder: Path) -> None:
    """Run a package manager inside a folder; raise `FetchError` with its message if it fails."""
    try:
        process = subprocess.run(
            command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False
        )
    except OSError as error:
        raise FetchError(f"{command[0]} could not be started ({error.strerror})") from error
    if process.returncode:
        raise FetchError(f"{Path(command[0]).name} failed: {error_line(process.stderr or process.stdout)}")


def error_line(output: str) -> str:
    """Return the last error line of a package manager's output, or else its last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"(ERROR:|npm (ERR!|error) \S)", line)]
    return (errors or lines or ["no message"])[-1][:400]


SUFFIXES = (".tar.gz", ".zip", ".tar.bz2", ".tar.xz", ".tgz", ".tar")
JSON_PAGE = "application/vnd.pypi.simple.v1+json"
PAGE_TYPES = f"{JSON_PAGE}, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
SECTIONS = {"global": 0, "download": 1, ":env:": 2}  # what a later one says counts
SECRET = re.compile(r"//[^/@\s]*@")


@dataclass(frozen=True)
class Link:
    """A file that a page offers: its name, its address, and its SHA-256 where the page gives it."""

    name: str
    address: str
    sha256: str = ""


@dataclass(frozen=True)
class PipSettings:
    """What pip is configured to read, and how."""

    indexes: tuple[str, ...] = ()
    pages: tuple[str, ...] = ()
    """Of `find-links`: folders, files and addresses."""
    proxy: str = ""
    certificates: str = ""


def download_sdist(source: DownloadSource, folder: Path) -> Path:
    """Download the sdist of a package into a folder and return its path.

    Raises:
        FetchError: If no index has the file, or it does not have the hash that the index gives.
    """
    settings = pip_settings()
    reasons = []
    for page in (*settings.pages, *(_project_page(index, source.where) for index in settings.indexes)):
        try:
            link = next((link for link in links_of(page, settings) if is_sdist_of(source, link.name)), None)
            if link is not None:
                return _take(link, folder / link.name, settings)
        except FetchError as error:
            reasons.append(f"{SECRET.sub('//', page)}: {error.message}")
    where = "; ".join(reasons) or "no index offers it"
    raise FetchError(f"no sdist of {source.where} {source.version} ({where})", hint="check `pip config list`")


def is_sdist_of(source: DownloadSource, name: str) -> bool:
    """Return True for the file name of the sdist of a package in its version."""
    suffix = next((suffix for suffix in SUFFIXES if name.endswith(suffix)), None)
    return suffix is not None and normal(name.removesuffix(suffix)) == normal(f"{source.where}-{source.version}")


def normal(name: str) -> str:
    """Return a package name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


# Configuration of pip ----------------------------------------------------------------------------------------------


def pip_settings() -> PipSettings:
    """Return the indexes, proxy and certificates that pip is configured with."""
    stated: dict[str, tuple[int, str]] = {}
    for line in _pip("config", "list").splitlines():
        place, _, value = line.partition("=")
        section, _, key = place.rpartition(".")
        with contextlib.suppress(ValueError, SyntaxError):
            rank, text = SECTIONS.get(section, -1), str(ast.literal_eval(value))
            if rank >= stated.get(key, (0, ""))[0]:
                stated[key] = (rank, text)
    texts = {key: text for key, (_, text) in stated.items()}
    indexes: list[str] = []
    if texts.get("no-index", "").lower() not in ("1", "true", "yes", "on"):
        indexes = [texts.get("index-url") or _default_index(), *texts.get("extra-index-url", "").split()]
    return PipSettings(
        tuple(indexes),
        tuple(texts.get("find-links", "").split()),
        texts.get("proxy", ""),
        texts.get("cert", ""),
    )


def _default_index() -> str:
    """Return the index that pip uses where none is configured; its help names it."""
    found = re.search(r"--index-url <url>.*?\(default (\S+?)\)", _pip("download", "--help"), re.DOTALL)
    if found is None:
        raise FetchError("pip does not say which index it uses", hint="set one: pip config set global.index-url URL")
    return found[1]


def _pip(*words: str) -> str:
    if importlib.util.find_spec("pip") is None:
        raise FetchError("this Python has no pip", hint="python -m ensurepip")
    wide = {**os.environ, "COLUMNS": "4000", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}  # so that the help is not wrapped
    done = subprocess.run(
        [sys.executable, "-m", "pip", *words], env=wide, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        errors="replace", check=False,
    )  # fmt: skip
    if done.returncode:
        raise FetchError(f"pip {' '.join(words)} failed")
    return done.stdout


# Pages of indexes --------------------------------------------------------------------------------------------------


def _project_page(index: str, package: str) -> str:
    return f"{index.rstrip('/')}/{normal(package)}/"


def links_of(page: str, settings: PipSettings) -> Iterator[Link]:
    """Yield the files that a page offers: an address, a file, or a folder."""
    address = urlsplit(page)
    if address.scheme in ("http", "https"):
        body, kind, final = http.read(page, accept=PAGE_TYPES, handlers=_handlers(page, settings))
        yield from _allowed(final, parse_page(body, kind, final))
        return
    path = (_local_path(address) if address.scheme == "file" else Path(page).expanduser()).absolute()
    listing = path / "index.html" if path.is_dir() else path
    if listing.is_file():
        yield from _allowed(listing.as_uri(), parse_page(listing.read_bytes(), "text/html", listing.as_uri()))
    elif path.is_dir():
        yield from (Link(file.name, file.as_uri()) for file in sorted(path.iterdir()) if file.is_file())


def _allowed(page: str, links: Sequence[Link]) -> Iterator[Link]:
    """Yield the links that a page may name: a page of the web no local file, one of https no plain http."""
    weaker = {"https": ("https",), "http": ("http", "https"), "file": ("file", "http", "https")}
    return (link for link in links if urlsplit(link.address).scheme in weaker[urlsplit(page).scheme])


def parse_page(body: bytes, kind: str, address: str) -> list[Link]:
    """Return the links of a page of the simple repository API, in HTML or JSON.

    Raises:
        FetchError: If it is neither.
    """
    text = body.decode("utf-8", "replace")
    if kind.partition(";")[0].strip().lower().endswith("json"):
        try:
            files = json.loads(text)["files"]
            return [
                Link(
                    _plain_name(str(file["filename"])), urljoin(address, file["url"]), file["hashes"].get("sha256", "")
                )
                for file in files
            ]
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise FetchError(f"not a page of a package index ({type(error).__name__})") from error
    anchors = _Anchors()
    anchors.feed(text)
    base = urljoin(address, anchors.base)
    links = []
    for href in anchors.found:
        where, fragment = urldefrag(urljoin(base, href))
        digest = fragment.removeprefix("sha256=") if fragment.startswith("sha256=") else ""
        links.append(Link(_plain_name(unquote(urlsplit(where).path).rpartition("/")[2]), where, digest))
    return links


def _plain_name(name: str) -> str:
    """Return a file name, or nothing for what would be a path on this disk."""
    return name if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+!-]*", name) else ""


class _Anchors(HTMLParser):
    """Collects the addresses of a page's links, and its base."""

    def __init__(self) -> None:
        super().__init__()
        self.base, self.found = "", list[str]()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        address = dict(attrs).get("href")
        if tag == "base" and address and not self.base:
            self.base = address
        elif tag == "a" and address:
            self.found.append(address)


# Transfer ----------------------------------------------------------------------------------------------------------


def _take(link: Link, target: Path, settings: PipSettings) -> Path:
    """Copy or download a file and compare its hash."""
    address, expected = urlsplit(link.address), File(link.name, link.sha256)
    if address.scheme == "file":
        shutil.copyfile(_local_path(address), target)
        check(target, expected)
        return target
    return http.download(link.address, target, expected=expected, handlers=_handlers(link.address, settings))


def _local_path(address: SplitResult) -> Path:
    return Path(urllib.request.url2pathname(address.path))


def _handlers(address: str, settings: PipSettings) -> list[urllib.request.BaseHandler]:
    """Return what an opener needs for the user's proxy, certificates, and for the credentials of the indexes."""
    handlers: list[urllib.request.BaseHandler] = []
    if settings.proxy:
        handlers.append(urllib.request.ProxyHandler({"http": settings.proxy, "https": settings.proxy}))
    if settings.certificates and address.startswith("https:"):
        context = ssl.create_default_context(cafile=settings.certificates)
        handlers.append(urllib.request.HTTPSHandler(context=context))
    known = urllib.request.HTTPPasswordMgrWithPriorAuth()
    for index in (address, *settings.indexes, *settings.pages):
        parts = urlsplit(index)
        if parts.username:
            bare = http.without_credentials(index)
            known.add_password(None, bare, unquote(parts.username), unquote(parts.password or ""), True)
    return [*handlers, urllib.request.HTTPBasicAuthHandler(known)]


# RuntimeError: an encrypted zip file. NotImplementedError: an unsupported compression method.
BROKEN = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    EOFError,
    OSError,
    UnicodeDecodeError,
    RuntimeError,
    NotImplementedError,
)


@dataclass(frozen=True)
class Wanted:
    """Target path and expected content of a member."""

    target: Path
    expected: File
    unix_lines: bool = False
    """Write the member without the carriage returns of Windows line ends."""


def extract(packed: Path, wanted: Mapping[str, Wanted]) -> None:
    """Write each wanted member to its target path and verify it.

    Member names are never used as paths on disk and links are refused, so an archive cannot write elsewhere. A member
    `x.gz` is decompressed if its target does not end in `.gz`.
    """
    if unsafe := [member for member in wanted if not is_plain_path(member)]:
        raise FetchError(f"the path {unsafe[0]!r} points outside its archive")
    missing, most = dict(wanted), max(MAX_EXPANSION * packed.stat().st_size, LEAST_EXPANSION)
    with _readable(packed):
        members = _from_zip if zipfile.is_zipfile(packed) else _from_tar
        with closing(members(packed, wanted)) as matches:
            for name, stream in matches:
                if name in missing:
                    _write(stream, name, missing.pop(name), most)
                if not missing:
                    return
    raise FetchError(f"{packed.name} does not contain {next(iter(missing))!r}")


def _from_zip(packed: Path, wanted: Mapping[str, Wanted]) -> Generator[tuple[str, IO[bytes]], None, None]:
    with zipfile.ZipFile(packed) as zipped:
        for info in zipped.infolist():
            if info.filename.rstrip("/") in wanted:
                mode = info.external_attr >> 16
                _require_regular(not info.is_dir() and not stat.S_ISLNK(mode), info.filename)
                with zipped.open(info) as stream:
                    yield info.filename, stream


def _from_tar(packed: Path, wanted: Mapping[str, Wanted]) -> Generator[tuple[str, IO[bytes]], None, None]:
    # Read as a stream, because seeking back would decompress the archive again.
    with tarfile.open(packed, "r|*") as tarred:
        for info in tarred:
            if info.name in wanted:
                _require_regular(info.isreg(), info.name)
                with cast(IO[bytes], tarred.extractfile(info)) as stream:
                    yield info.name, stream


def _require_regular(regular: bool, name: str) -> None:
    if not regular:
        raise FetchError(f"{name!r} in the archive is a link or a folder, not a regular file")


def _write(stream: IO[bytes], member: str, wanted: Wanted, most: int) -> None:
    with replacing(wanted.target) as partial:
        with partial.open("wb") as out:
            if member.endswith(".gz") and wanted.target.suffix != ".gz":
                stream = cast(IO[bytes], gzip.GzipFile(fileobj=stream))
            if wanted.unix_lines:
                stream = io.BytesIO(_bounded(stream, member, wanted.expected.size).replace(b"\r\n", b"\n"))
            _copy(stream, out, limit=wanted.expected.size or most)
            if not wanted.expected.size and out.tell() > most:
                raise FetchError(f"{member!r} in the archive expands to more than {most:,} bytes")
        check(partial, wanted.expected)


def _bounded(stream: IO[bytes], member: str, size: int) -> bytes:
    """Read a member whole; Windows line ends at most double it."""
    content = stream.read(2 * size + 1)
    if len(content) > 2 * size:
        raise FetchError(f"{member!r} in the archive is larger than expected")
    return content


def _copy(stream: IO[bytes], out: IO[bytes], *, limit: int) -> None:
    """Copy the stream, stopping soon after the expected size so that a bomb cannot fill the disk."""
    while out.tell() <= limit and (chunk := stream.read(1 << 20)):
        out.write(chunk)


@contextmanager
def _readable(packed: Path) -> Iterator[None]:
    try:
        yield
    except FetchError:
        raise
    except BROKEN as error:
        raise FetchError(f"{packed.name} could not be unpacked ({type(error).__name__}: {error})") from error
