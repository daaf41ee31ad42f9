"""One connection to a server, over which requests are sent one after another.

An audit sends many small requests, and a fast server answers one in less time than a general client takes to send it.
Where no proxy stands between, HTTP is spoken by the standard library, which takes a fifth of the processor time of
httpx; where the environment names proxies, httpx finds the right one. Certificates are those of httpx in both cases.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection, IncompleteRead
from typing import NamedTuple, Protocol
from urllib.parse import quote, urlsplit
from urllib.request import getproxies

MOST_BYTES = 64 << 20  # of one answer; the log-probabilities of a whole vocabulary take 5 to 30 MB


class Received(NamedTuple):
    """What a server sends back. Names of headers are in lower case; content is cut a little above `MOST_BYTES`."""

    status: int
    headers: Mapping[str, str]
    content: bytes


class NoConnectionError(Exception):
    """Nobody answers at this address, or nobody who can be trusted."""


class BrokenConnectionError(Exception):
    """The server went away before its answer was complete."""


class Connection(Protocol):
    """Sends requests, and reconnects where the server closed the connection.

    `exchange` raises the errors above, and `TimeoutError` where no byte comes for too long.
    """

    def exchange(self, method: str, url: str, content: bytes | None) -> Received:
        """Send one request and return its answer."""

    def close(self) -> None:
        """Close the connection; the next request opens it again."""


class Connector:
    """Opens connections to a server.

    Args:
        base: an address on the server.
        headers: sent with every request.
        timeout: seconds without a byte before a request fails.
    """

    def __init__(self, base: str, headers: Mapping[str, str], timeout: float) -> None:
        self.base, self.headers, self.timeout = base, dict(headers), timeout
        self.proxies = bool(getproxies())
        if base.startswith("https:") or self.proxies:
            import httpx

            self.certificates = httpx.create_ssl_context(trust_env=True)
        else:  # nothing is encrypted; reading the certificates would take longer than a hundred requests
            self.certificates = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

    def connect(self) -> Connection:
        """Return a new connection."""
        return _ByProxy(self) if self.proxies else _Direct(self)


class _Direct:
    def __init__(self, to: Connector) -> None:
        parts = urlsplit(to.base)
        self._headers = {"Content-Type": "application/json"} | to.headers
        if parts.scheme == "https":
            self._http: HTTPConnection = HTTPSConnection(
                str(parts.hostname), parts.port, timeout=to.timeout, context=to.certificates
            )
        else:
            self._http = HTTPConnection(str(parts.hostname), parts.port, timeout=to.timeout)

    def exchange(self, method: str, url: str, content: bytes | None) -> Received:
        target = quote(urlsplit(url).path or "/", safe="/%:@!$&'()*+,;=~")
        while True:
            fresh = self._http.sock is None
            if fresh:
                self._open()
            try:
                return self._send(method, target, content)
            except TimeoutError:
                self.close()
                raise
            except (OSError, HTTPException) as error:
                self.close()
                if fresh or not isinstance(error, ConnectionError):
                    raise BrokenConnectionError(str(error) or type(error).__name__) from error
                # A server may close a connection that was quiet for a while. That is no failure: a new one is opened.

    def _open(self) -> None:
        try:
            self._http.connect()
        except TimeoutError:
            raise
        except (OSError, UnicodeError) as error:
            self.close()
            raise NoConnectionError(str(error) or type(error).__name__) from error

    def _send(self, method: str, target: str, content: bytes | None) -> Received:
        self._http.request(method, target, content, self._headers)
        response = self._http.getresponse()
        received = response.read(MOST_BYTES + 1)
        if len(received) > MOST_BYTES:
            self.close()
        elif response.length:
            raise IncompleteRead(received, response.length)
        return Received(response.status, {name.lower(): value for name, value in response.headers.items()}, received)

    def close(self) -> None:
        self._http.close()


class _ByProxy:
    def __init__(self, to: Connector) -> None:
        import httpx

        headers = {"Content-Type": "application/json"} | to.headers
        self._http = httpx.Client(headers=headers, timeout=to.timeout, verify=to.certificates)

    def exchange(self, method: str, url: str, content: bytes | None) -> Received:
        import httpx

        received = bytearray()
        try:
            with self._http.stream(method, url, content=content) as response:
                for part in response.iter_bytes():
                    received += part
                    if len(received) > MOST_BYTES:
                        break
        except httpx.TimeoutException as error:
            raise TimeoutError(str(error)) from error
        except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError) as error:
            raise BrokenConnectionError(str(error) or type(error).__name__) from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise NoConnectionError(str(error) or type(error).__name__) from error
        return Received(response.status_code, dict(response.headers), bytes(received))

    def close(self) -> None:
        self._http.close()
