"""Requests to one Redfish service, logged in, with timeouts, and with errors that say what to mend."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

import msgspec
import requests
from requests import exceptions as failures
from requests.auth import HTTPBasicAuth
from urllib3.exceptions import HTTPError, LocationParseError

from one_preempt.adapters.power_control.authorities import authorities_fault
from one_preempt.adapters.power_control.controllers import Controller
from one_preempt.adapters.power_control.failure import PowerFailure
from one_preempt.adapters.power_control.secret import obtain
from one_preempt.adapters.power_control.wanted import demand_wanted
from one_preempt.bounded_io.http_deadline import DeadlineAdapter
from one_preempt.configuration.power_control_settings import RedfishSettings, endpoint_fault
from one_preempt.core.model.plain_words import plain_words
from one_preempt.core.model.power import PowerAnswer

SESSIONS_PATH = "/redfish/v1/SessionService/Sessions"
_LONGEST_BODY_BYTES = 1 << 20
_LONGEST_CAUSE = 200
_CHUNK_BYTES = 1 << 16
_NOT_AN_ADDRESS = failures.InvalidURL | LocationParseError | UnicodeError
Document = Mapping[str, Any]


class RedfishSession:
    """A login to one controller, for the few requests of one order. Use it in a `with`, which logs out."""

    def __init__(self, controller: Controller, settings: RedfishSettings) -> None:
        """Raises `PowerFailure` where the address is no URL to send a password to, or `SecretError`."""
        self._place = f"{controller.host}: its baseboard controller at {controller.address}"
        if fault := endpoint_fault(controller.address):
            raise PowerFailure(
                PowerAnswer.MISCONFIGURED, f"{controller.host}: the address of its baseboard controller {fault}"
            )
        ca_file = settings.ca_file if settings.verify_tls else None
        if ca_file is not None and (fault := authorities_fault(ca_file)):
            raise PowerFailure(PowerAnswer.MISCONFIGURED, f"{controller.host}: redfish.ca_file {ca_file} {fault}")
        parts = urlsplit(controller.address)
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self._user = controller.user
        self._password = obtain(controller.password)
        self._settings = settings
        self._logged_in_at: str | None = None
        self._http = requests.Session()
        self._http.trust_env = False  # no proxy, no .netrc, no other certificates than those configured
        self._http.verify = ca_file or settings.verify_tls
        for scheme in ("https://", "http://"):
            self._http.mount(scheme, DeadlineAdapter(settings.read_timeout_s))
        self._http.headers.update({"Accept": "application/json", "OData-Version": "4.0"})

    def __enter__(self) -> RedfishSession:
        try:
            self._log_in()
        except BaseException:
            self._http.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if self._logged_in_at is not None:
                self._request("DELETE", self._logged_in_at)
        except PowerFailure:
            pass  # a session that is left behind ends by itself; the order is what counts
        finally:
            self._http.close()

    def get(self, path: str) -> Document:
        """The document at `path`. Raises `PowerFailure`."""
        demand_wanted()
        return self._request("GET", path)[0]

    def post(self, path: str, content: Mapping[str, str]) -> None:
        """Order something; an answer that does not come leaves open what was done. Raises `PowerFailure`."""
        demand_wanted()
        self._request("POST", path, content, is_order=True)

    def said(self, words: str, longest: int) -> str:
        """The controller's own words, fit to be shown: on one line, and never with the password in them."""
        return plain_words(self._password.hidden_in(words), longest)

    def failure(self, answer: PowerAnswer, what: str) -> PowerFailure:
        """A failure that names the host and its controller first."""
        return PowerFailure(answer, f"{self._place} {what}")

    def _log_in(self) -> None:
        if self._settings.login == "basic":
            self._http.auth = HTTPBasicAuth(self._user.encode(), self._password.reveal().encode())
            return
        login = {"UserName": self._user, "Password": self._password.reveal()}
        _, headers = self._request("POST", SESSIONS_PATH, login)
        token = headers.get("X-Auth-Token")
        if token is None:
            raise self.failure(PowerAnswer.REFUSED, "opens no sessions: write redfish.login: basic")
        self._http.headers["X-Auth-Token"] = token
        self._logged_in_at = self._path_of(headers.get("Location"))

    def _path_of(self, location: str | None) -> str | None:
        """The path of the session to close, where it is one of this service."""
        if location is None:
            return None
        path = location.removeprefix(self._origin)
        return path if path.startswith("/") and not path.startswith("//") else None

    def _request(
        self, method: str, path: str, content: Mapping[str, str] | None = None, *, is_order: bool = False
    ) -> tuple[Document, Mapping[str, str]]:
        if not path.startswith("/") or path.startswith("//"):  # the password goes to nobody else
            raise self.failure(PowerAnswer.REFUSED, "points to another place than itself")
        settings = self._settings
        try:
            with self._http.request(
                method,
                self._origin + path,
                json=content,
                timeout=(settings.connect_timeout_s, settings.read_timeout_s),
                allow_redirects=False,
                stream=True,
            ) as response:
                body = self._body(response)
                status, headers = response.status_code, response.headers
        # What requests raises is an OSError, as what it lets through.
        except (OSError, HTTPError, UnicodeError) as error:
            raise self._connection_failure(error, is_order) from None
        document = _document(body)
        if not 200 <= status < 300:
            raise self._refusal(status, document, is_order)
        return document, headers

    def _body(self, response: requests.Response) -> bytes:
        body = bytearray()
        for chunk in response.iter_content(_CHUNK_BYTES):
            body += chunk
            if len(body) > _LONGEST_BODY_BYTES:
                raise self.failure(PowerAnswer.NO_ANSWER, "sends more than an answer can be")
        return bytes(body)

    def _connection_failure(self, error: Exception, is_order: bool) -> PowerFailure:
        is_unsent = isinstance(error, failures.ConnectTimeout) or _was_not_connected(error)
        if is_order and not is_unsent:
            # The controller may have taken it, whatever went wrong afterwards, and be it in its TLS.
            return self.failure(
                PowerAnswer.NO_ANSWER,
                f"was sent the order and gave no complete answer within {self._settings.read_timeout_s:g} s",
            )
        if isinstance(error, failures.SSLError):
            return self.failure(
                PowerAnswer.MISCONFIGURED,
                "shows a certificate that is not trusted for this name: name the right authority in redfish.ca_file",
            )
        if is_unsent or isinstance(error, _NOT_AN_ADDRESS):
            return self.failure(
                PowerAnswer.UNREACHABLE, "does not answer: look at the address, the network and the controller"
            )
        return self.failure(
            PowerAnswer.UNREACHABLE, f"gave no complete answer within {self._settings.read_timeout_s:g} s"
        )

    def _refusal(self, status: int, document: Document, is_order: bool) -> PowerFailure:
        said = self._reason_in(document)
        if status in (401, 403):
            return self.failure(
                PowerAnswer.DENIED, f"does not let user '{self._user}' do this with this password: correct them{said}"
            )
        if status >= 500:
            answer = PowerAnswer.NO_ANSWER if is_order else PowerAnswer.UNREACHABLE
            return self.failure(answer, f"is in trouble (HTTP status {status}){said}")
        return self.failure(PowerAnswer.REFUSED, f"refuses (HTTP status {status}){said}")

    def _reason_in(self, document: Document) -> str:
        """Where it gives a reason."""
        error = document.get("error")
        said = error.get("message") if isinstance(error, dict) else None
        return f": {self.said(said, _LONGEST_CAUSE)}" if isinstance(said, str) and said else ""


def _was_not_connected(error: Exception) -> bool:
    """Whether nothing can have been sent: urllib3 says so of a connection that was never there."""
    if not isinstance(error, failures.ConnectionError) or not error.args:
        return False
    reason = getattr(error.args[0], "reason", None)
    return type(reason).__name__ in ("NewConnectionError", "NameResolutionError", "ConnectTimeoutError")


def _document(body: bytes) -> Document:
    try:
        content = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
