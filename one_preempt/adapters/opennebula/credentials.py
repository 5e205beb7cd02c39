"""Where oned is and who we are there, found where every OpenNebula tool looks."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from one_preempt.errors import OnePreemptError

DEFAULT_ENDPOINT = "http://localhost:2633/RPC2"
ONEADMIN_AUTH = Path("/var/lib/one/.one/one_auth")


class CredentialsError(OnePreemptError):
    """No usable credentials or endpoint; the message says which file or variable to mend."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """The session string ``user:password``, which is shown nowhere, and the file it was read from."""

    session: str = field(repr=False)
    file: Path | None = field(default=None, compare=False)

    @property
    def user(self) -> str:
        """The name without the secret."""
        return self.session.partition(":")[0]


def find_credentials(environment: Mapping[str, str] = os.environ, home: Path | None = None) -> Credentials:
    """Read $ONE_AUTH, else ~/.one/one_auth, else oneadmin's own where that may be read. Raises `CredentialsError`."""
    named = environment.get("ONE_AUTH")
    if named:
        return read_auth(Path(named), "the file named by ONE_AUTH")
    own = _home(environment, home) / ".one" / "one_auth"
    if _exists(own):
        return read_auth(own, "the credentials file")
    # On a front-end it is there, and for others than oneadmin no file of theirs.
    if os.access(ONEADMIN_AUTH, os.R_OK):
        return read_auth(ONEADMIN_AUTH, "the credentials file")
    where = f"{own} does not exist"
    if own != ONEADMIN_AUTH:
        where += f", and {ONEADMIN_AUTH} does not, or is not for this user to read"
    raise CredentialsError(
        f"no OpenNebula credentials: {where}; write user:password into {own}, or name the file in ONE_AUTH"
    )


def find_endpoint(environment: Mapping[str, str] = os.environ, home: Path | None = None) -> str:
    """$ONE_XMLRPC, else ~/.one/one_endpoint, else oned's own default. Raises `CredentialsError`."""
    named = environment.get("ONE_XMLRPC", "").strip()
    if named:
        return checked_endpoint(named, "ONE_XMLRPC")
    path = _home(environment, home) / ".one" / "one_endpoint"
    if _exists(path):
        return checked_endpoint(_read(path, "the endpoint file").strip(), str(path))
    return DEFAULT_ENDPOINT


def checked_endpoint(endpoint: str, source: str) -> str:
    """`endpoint` where it is an http or https URL with a host; `source` is named in the error."""
    try:
        parts = urlsplit(endpoint)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        usable = False
    if not usable:
        raise CredentialsError(f"{source} holds no http or https URL; write one like {DEFAULT_ENDPOINT}")
    return endpoint


def _home(environment: Mapping[str, str], home: Path | None) -> Path:
    try:
        return home or Path(environment.get("HOME") or Path.home())
    except RuntimeError:  # a number without a name, as in containers
        return Path("/")


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False


def read_auth(path: Path, what: str) -> Credentials:
    """The credentials in a file; `what` says in errors which file it is. Raises `CredentialsError`."""
    session = _read(path, what).strip()
    user, colon, secret = session.partition(":")
    if not (user and colon and secret) or "\n" in session:
        raise CredentialsError(f"{what}, {path}, does not hold one line user:password; mend it")
    return Credentials(session, path)


def _read(path: Path, what: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise CredentialsError(f"cannot read {what}, {path}: {reason}") from None
