"""The one way to oned: XML-RPC over one HTTP session, with timeouts that hold and errors that say what to mend."""

from __future__ import annotations

import os
import time
import xmlrpc.client
from collections.abc import Callable
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import TypeVar
from urllib.parse import urlsplit

import requests
from msgspec import Struct
from requests import exceptions as failures
from urllib3.exceptions import HTTPError

from one_preempt.adapters.opennebula.credentials import Credentials, CredentialsError, checked_endpoint
from one_preempt.adapters.opennebula.oned_errors import AuthenticationError
from one_preempt.adapters.opennebula.xml_document import UnreadableDocument
from one_preempt.adapters.opennebula.xmlrpc_reply import Reply, document_in, parse_reply
from one_preempt.bounded_io.http_deadline import DeadlineAdapter
from one_preempt.core.model.plain_words import plain_words
from one_preempt.ports import CloudUnavailable, NothingSent

T = TypeVar("T")
Parameter = str | int | bool
# The method, how many seconds its answer took, and whether one came that could be used. Called in the caller's thread.
OnCall = Callable[[str, float, bool], None]

# Only these may be asked again after a failure: whatever else was sent may have been done.
READ_ONLY_METHODS = frozenset({
    "one.acl.info", "one.clusterpool.info", "one.datastorepool.info", "one.group.info", "one.grouppool.info",
    "one.hookpool.info", "one.host.info", "one.hostpool.info", "one.hostpool.monitoring", "one.image.info",
    "one.imagepool.info", "one.system.config", "one.system.version", "one.template.info", "one.templatepool.info",
    "one.user.info", "one.userpool.info", "one.vm.info", "one.vmgroup.info", "one.vmgrouppool.info",
    "one.vmpool.accounting", "one.vmpool.info", "one.vmpool.infoextended", "one.vmpool.infoset", "one.vn.info",
    "one.vnpool.info", "one.zone.raftstatus", "one.zonepool.info",
})  # fmt: skip
AUTHENTICATION = 0x100
LONGEST_CAUSE = 400
_CHUNK_BYTES = 1 << 20
_LOOPBACK = ("localhost", "::1")
# Where the environment names whose certificates are trusted, as `requests` looks for it.
_AUTHORITIES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


class Limits(Struct, frozen=True):
    """How long and how much: `total_s` bounds a whole answer however slowly it drips.

    A read-only call is tried `attempts` times, with growing pauses, but once where the answer takes too long.
    """

    connect_s: float = 5.0
    idle_s: float = 30.0
    total_s: float = 120.0
    attempts: int = 3
    pause_s: float = 0.2
    reply_bytes: int = 1 << 30


class NoAnswerInTime(CloudUnavailable):
    """The endpoint took too long."""


class OnedTransport:
    """Calls oned's methods. The session string goes along and is never shown."""

    def __init__(
        self,
        endpoint: str,
        credentials: Credentials,
        limits: Limits = Limits(),
        sleep: Callable[[float], None] = time.sleep,
        renew: Callable[[], Credentials] | None = None,
        on_call: OnCall | None = None,
    ) -> None:
        """`renew` reads the credentials again, once oned does not know the present ones any more; `on_call` is told of
        each request, those that are sent again among them."""
        self._url = checked_endpoint(endpoint, "the endpoint")
        self.endpoint = without_secrets(endpoint)
        self.credentials_file = credentials.file
        self._credentials = credentials
        self._limits = limits
        self._sleep = sleep
        self._renew = renew
        self._on_call = on_call
        self._dated: tuple[str, float] | None = None
        self._http = requests.Session()
        self._http.headers.update({"Content-Type": "text/xml", "Accept-Encoding": "identity"})
        self._http.auth = _leave_alone
        if _is_loopback(endpoint):
            # Proxies come from the environment, but never stand between two programs of one machine. Authorities do.
            self._http.trust_env = False
            self._http.verify = next(filter(None, map(os.environ.get, _AUTHORITIES)), True)
        for scheme in ("http://", "https://"):
            self._http.mount(scheme, DeadlineAdapter(limits.total_s))

    def call(self, method: str, *parameters: Parameter) -> Reply:
        """Call and keep all items of the answer.

        Raises:
            CloudUnavailable: No usable answer came; a state-changing call may have been carried out or not.
            NothingSent: That, and surely not: there was no connection.
            OnedError: The answer is an XML-RPC fault. A refusal is no error: see `Reply.checked`.
        """
        reply = self._answer(method, parameters, parse_reply)
        if reply.error_code == AUTHENTICATION and self._renewed():
            return self._answer(method, parameters, parse_reply)
        return reply

    def document(self, method: str, *parameters: Parameter) -> bytes:
        """The text of a successful answer, as UTF-8. Raises as `call`, and `OnedError` where oned refused."""
        try:
            return self._answer(method, parameters, document_in)
        except AuthenticationError:
            if not self._renewed():
                raise
            return self._answer(method, parameters, document_in)

    def another(self) -> OnedTransport:
        """A connection of its own to the same endpoint, for another thread."""
        return OnedTransport(self._url, self._credentials, self._limits, self._sleep, self._renew, self._on_call)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def clock_ahead_s(self) -> int | None:
        """How far ahead of oned's time the machine's clock was at its last answer, in seconds; None: not dated."""
        if self._dated is None:
            return None
        date, at_s = self._dated
        try:
            return round(at_s - parsedate_to_datetime(date).timestamp())
        except (ValueError, TypeError, OverflowError):
            return None

    @property
    def user(self) -> str:
        """The name that oned knows us by."""
        return self._credentials.user

    def _renewed(self) -> bool:
        """Whether other credentials were found; what was refused for the old ones was not carried out."""
        if self._renew is None:
            return False
        former = self._credentials
        with suppress(CredentialsError):
            self._credentials = self._renew()
        return self._credentials != former

    def _answer(self, method: str, parameters: tuple[Parameter, ...], parse: Callable[[bytes], T]) -> T:
        attempts = self._limits.attempts if method in READ_ONLY_METHODS else 1
        for attempt in range(1, attempts):
            try:
                return self._once(method, parameters, parse)
            except NoAnswerInTime:
                raise  # to ask again would only add to the load
            except CloudUnavailable:
                self._sleep(self._limits.pause_s * 2 ** (attempt - 1))
        return self._once(method, parameters, parse)

    def _once(self, method: str, parameters: tuple[Parameter, ...], parse: Callable[[bytes], T]) -> T:
        if self._on_call is None:
            return self._exchange(method, parameters, parse)
        began_s, answered = time.perf_counter(), True
        try:
            return self._exchange(method, parameters, parse)
        except CloudUnavailable:
            answered = False
            raise
        finally:
            self._on_call(method, time.perf_counter() - began_s, answered)

    def _exchange(self, method: str, parameters: tuple[Parameter, ...], parse: Callable[[bytes], T]) -> T:
        limits = self._limits
        request = xmlrpc.client.dumps((self._credentials.session, *parameters), method, encoding="utf-8")
        try:
            with self._http.post(
                self._url,
                data=request.encode(),
                timeout=(limits.connect_s, limits.idle_s),
                allow_redirects=False,
                stream=True,
            ) as response:
                date = response.headers.get("Date")
                self._dated = None if date is None else (date, time.time())
                body = self._body(method, response)
        # requests raises OSErrors of its own, and lets some of urllib3's and the system's through.
        except (OSError, HTTPError, UnicodeError) as error:
            if _is_late(error):
                waited = (
                    f"no complete answer in time ({limits.idle_s:g} s without a byte, or {limits.total_s:g} s in all)"
                )
                raise NoAnswerInTime(
                    str(self._unavailable(method, waited, "is oned overloaded? look at its log"))
                ) from None
            unavailable = self._unavailable(method, *self._told(error))
            raise (NothingSent(str(unavailable)) if _is_unconnected(error) else unavailable) from None
        try:
            return parse(body)
        except UnreadableDocument as error:
            kind = response.headers.get("Content-Type", "none")
            raise self._unavailable(
                method, f"{error} (content type {kind[:60]!r})", "does the URL end in /RPC2, and is oned behind it?"
            ) from None

    def _body(self, method: str, response: requests.Response) -> bytes:
        if response.is_redirect or 300 <= response.status_code < 400:
            raise self._unavailable(
                method, f"it redirects elsewhere (HTTP {response.status_code})", "name the final URL as the endpoint"
            )
        if response.status_code != requests.codes.ok:
            is_elsewhere = response.status_code in (requests.codes.not_found, requests.codes.not_allowed)
            mend = "does the URL end in /RPC2?" if is_elsewhere else "look at oned's log and at proxies in between"
            raise self._unavailable(method, f"it answered HTTP {response.status_code}", mend)
        chunks: list[bytes] = []
        size = 0
        for chunk in response.iter_content(_CHUNK_BYTES):
            size += len(chunk)
            if size > self._limits.reply_bytes:
                raise self._unavailable(
                    method, f"its answer is larger than {self._limits.reply_bytes} bytes", "is it really oned?"
                )
            chunks.append(chunk)
        return b"".join(chunks)

    def _told(self, error: Exception) -> tuple[str, str]:
        """What happened, and what to look at. The texts of `requests` name objects in memory, not causes."""
        match error:
            case failures.ConnectTimeout():
                return f"no connection within {self._limits.connect_s:g} s", "is the machine up and the port open?"
            case failures.SSLError() if "CERTIFICATE_VERIFY_FAILED" in str(error):
                mend = "is that the name in it? If so, name the file of its authority in REQUESTS_CA_BUNDLE"
                return "its certificate is not trusted, or is for another name", mend
            case failures.SSLError():
                return "the TLS handshake failed", "check the certificate and the scheme of the endpoint"
            case failures.ProxyError():
                return "the proxy does not answer", "check http_proxy, https_proxy and no_proxy"
            case failures.ChunkedEncodingError() | failures.ContentDecodingError():
                return (
                    "the connection broke in the middle of the answer",
                    "look at oned's log and at proxies in between",
                )
            case failures.ConnectionError() if "NameResolution" in repr(error):
                return "the name of the machine is unknown", "is the endpoint spelled right, and does DNS work?"
            case failures.ConnectionError() if "NewConnectionError" in repr(error) or "refused" in str(error):
                return "nothing listens there", "does oned run, and is that its endpoint?"
            case failures.ConnectionError():
                return "the connection was closed without an answer", "look at oned's log"
            case OSError(errno=None) if not isinstance(error, requests.RequestException):
                # Only of certificates that are not where they are said to be.
                return str(error) or type(error).__name__, "look at REQUESTS_CA_BUNDLE and CURL_CA_BUNDLE"
            case OSError(strerror=str(why)) if not isinstance(error, requests.RequestException):
                return why, "the fault is of this machine, not of the endpoint"
        return f"the request failed ({type(error).__name__})", "check the endpoint"

    def _unavailable(self, method: str, what: str, mend: str) -> CloudUnavailable:
        return CloudUnavailable(f"{method} at {self.endpoint}: {plain_words(what, LONGEST_CAUSE)}; {mend}")


def _is_late(error: Exception) -> bool:
    """Inside a body `requests` tells of a timeout by the words only."""
    return isinstance(error, failures.ReadTimeout) or (
        isinstance(error, failures.ConnectionError)
        and not isinstance(error, failures.ConnectTimeout)
        and "timed out" in str(error)
    )


def _is_unconnected(error: Exception) -> bool:
    """Was there never a connection over which anything could be sent?"""
    if isinstance(error, failures.ProxyError | failures.SSLError):
        # With either there may have been one before.
        return False
    return isinstance(error, failures.ConnectTimeout) or (
        isinstance(error, failures.ConnectionError)
        and any(name in repr(error) for name in ("NewConnectionError", "NameResolution"))
    )


def _leave_alone(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """Keeps `requests` from taking passwords out of ~/.netrc."""
    return request


def _is_loopback(endpoint: str) -> bool:
    host = urlsplit(endpoint).hostname or ""
    return host in _LOOPBACK or host.startswith("127.")


def without_secrets(endpoint: str) -> str:
    """The endpoint as it may be shown: without a user and password."""
    parts = urlsplit(endpoint)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()
