"""URLs as they may be shown: in messages, in the log, by `config show`."""

from __future__ import annotations

HIDDEN = "***"


def without_password(url: str) -> str:
    """`url` without what may be a password: what stands before its last @, or in its query; also where it is no URL."""
    credentials, at, place = url.rpartition("@")
    scheme, separator, named = credentials.partition("://") if "://" in credentials else ("", "", credentials)
    user, colon, _password = named.partition(":")
    shown = f"{scheme}{separator}{user}:{HIDDEN}@" if colon else credentials + at
    address, mark, query = place.partition("?")
    return f"{shown}{address}{mark}{'&'.join(map(_parameter, query.split('&')))}"


def _parameter(text: str) -> str:
    name, equals, _value = text.partition("=")
    return f"{name}={HIDDEN}" if equals and "pass" in name.lower() else text
