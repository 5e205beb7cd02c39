from __future__ import annotations

import os
from pathlib import Path

import pytest

from one_preempt.adapters.opennebula import credentials as found
from one_preempt.adapters.opennebula.credentials import CredentialsError, find_credentials, find_endpoint


@pytest.fixture(autouse=True)
def no_oneadmin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the user oneadmin, absent until a test writes it."""
    path = tmp_path / "oneadmin_auth"
    monkeypatch.setattr(found, "ONEADMIN_AUTH", path)
    return path


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_credentials_are_looked_for_where_every_tool_of_opennebula_looks(tmp_path: Path, no_oneadmin: Path) -> None:
    write(no_oneadmin, "oneadmin:a\n")
    assert find_credentials({}, tmp_path).session == "oneadmin:a"
    write(tmp_path / ".one" / "one_auth", "alice:b\n")
    assert find_credentials({"HOME": str(tmp_path)}).session == "alice:b"
    named = write(tmp_path / "elsewhere", "bob:c:d\n")
    assert find_credentials({"ONE_AUTH": str(named)}, tmp_path).session == "bob:c:d"


def test_no_credentials_anywhere_is_told_with_the_places_looked_at(tmp_path: Path, no_oneadmin: Path) -> None:
    with pytest.raises(CredentialsError) as caught:
        find_credentials({}, tmp_path)
    assert str(tmp_path / ".one" / "one_auth") in str(caught.value)
    assert str(no_oneadmin) in str(caught.value)
    assert "ONE_AUTH" in str(caught.value)


def test_oneadmin_is_told_the_one_place_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / ".one" / "one_auth"
    monkeypatch.setattr(found, "ONEADMIN_AUTH", own)
    with pytest.raises(CredentialsError) as caught:
        find_credentials({}, tmp_path)
    assert str(caught.value).count(str(own)) == 2, "where it was looked for, and where to write them"


def test_a_user_without_credentials_is_not_sent_to_those_of_oneadmin(
    tmp_path: Path, no_oneadmin: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(no_oneadmin, "oneadmin:a\n")
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(CredentialsError, match=f"write user:password into {tmp_path}/.one/one_auth"):
        find_credentials({}, tmp_path)


def test_a_user_without_a_home_is_told_as_others_are(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", nowhere)
    assert find_endpoint({}) == found.DEFAULT_ENDPOINT
    with pytest.raises(CredentialsError, match="ONE_AUTH"):
        find_credentials({})


@pytest.mark.parametrize("text", ["", "canary", "canary:", ":canary", "a:canary\nb:canary"])
def test_a_malformed_file_is_named_without_its_content(text: str, tmp_path: Path) -> None:
    named = write(tmp_path / "auth", text)
    with pytest.raises(CredentialsError, match="user:password") as caught:
        find_credentials({"ONE_AUTH": str(named)}, tmp_path)
    assert str(named) in str(caught.value)
    assert "canary" not in str(caught.value)


def test_a_file_named_by_the_variable_must_exist_and_be_text(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="No such file"):
        find_credentials({"ONE_AUTH": str(tmp_path / "none")}, tmp_path)
    with pytest.raises(CredentialsError, match="Is a directory"):
        find_credentials({"ONE_AUTH": str(tmp_path)}, tmp_path)
    (tmp_path / "binary").write_bytes(b"a:\xff\xfe")
    with pytest.raises(CredentialsError, match="not UTF-8"):
        find_credentials({"ONE_AUTH": str(tmp_path / "binary")}, tmp_path)


def test_the_password_is_in_no_representation(tmp_path: Path) -> None:
    auth = find_credentials({"ONE_AUTH": str(write(tmp_path / "auth", "alice:canary"))}, tmp_path)
    assert auth.user == "alice"
    assert "canary" not in f"{auth} {auth!r}"


def test_the_endpoint_comes_from_the_variable_the_file_or_the_default(tmp_path: Path) -> None:
    assert find_endpoint({}, tmp_path) == "http://localhost:2633/RPC2"
    write(tmp_path / ".one" / "one_endpoint", "https://one.example.org/RPC2\n")
    assert find_endpoint({}, tmp_path) == "https://one.example.org/RPC2"
    assert find_endpoint({"ONE_XMLRPC": "http://10.0.0.1:2633/RPC2"}, tmp_path) == "http://10.0.0.1:2633/RPC2"


@pytest.mark.parametrize("endpoint", ["localhost:2633", "ftp://x/RPC2", "http://", "http://x:port/", "http://[::1"])
def test_an_endpoint_that_is_no_url_is_told(endpoint: str, tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="ONE_XMLRPC holds no http or https URL"):
        find_endpoint({"ONE_XMLRPC": endpoint}, tmp_path)
