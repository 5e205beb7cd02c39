from __future__ import annotations

import copy
import os
import pickle
import traceback
from pathlib import Path

import pytest

from one_preempt.adapters.power_control.secret import LONGEST_SECRET_BYTES, Secret, SecretError, obtain, read_secret

WORD = "hunter-two"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "password"
    file.write_text(WORD + "\n")
    file.chmod(0o600)
    return file


def test_a_secret_shows_itself_only_when_asked_to() -> None:
    secret = Secret(WORD)
    assert secret.reveal() == WORD
    for shown in (repr(secret), str(secret), f"{secret}", f"{secret!s:>20}", repr([secret]), repr({"key": secret})):
        assert WORD not in shown
    assert not hasattr(secret, "__dict__")


def test_a_secret_is_neither_pickled_nor_copied() -> None:
    for write in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError):
            write(Secret(WORD))


def test_what_somebody_says_is_told_without_the_secret() -> None:
    assert Secret("a.*").hidden_in("not a.* but 'a.*', ab") == "not *** but '***', ab"


def test_secrets_are_equal_by_what_they_hold() -> None:
    assert Secret(WORD) == Secret(WORD)
    assert Secret(WORD) != Secret("another")
    assert Secret(WORD) != WORD
    assert len({Secret(WORD), Secret(WORD)}) == 1


@pytest.mark.parametrize("ending", ["", "\n", "\r\n"])
def test_the_one_line_of_a_private_file_is_the_secret(file: Path, ending: str) -> None:
    file.write_bytes(f"{WORD} ü{ending}".encode())
    assert read_secret(file).reveal() == f"{WORD} ü"


def test_a_file_is_read_afresh_each_time(file: Path) -> None:
    assert obtain(file) == Secret(WORD)
    file.write_text("changed\n")
    assert obtain(file) == Secret("changed")
    assert obtain(Secret(WORD)) == Secret(WORD)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601, 0o644])
def test_a_file_that_others_can_reach_is_refused_with_the_mend(file: Path, mode: int) -> None:
    file.chmod(mode)
    with pytest.raises(SecretError, match=f"chmod 600 {file}"):
        read_secret(file)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_of_somebody_else_is_refused(file: Path) -> None:
    os.chown(file, 12345, -1)
    with pytest.raises(SecretError, match="belongs to somebody else"):
        read_secret(file)


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"two\nlines\n", b"\n\n", b"nul\0", b"\xff\xfe", b"x" * (LONGEST_SECRET_BYTES + 1)]
)
def test_what_is_no_single_line_is_refused_and_not_shown(file: Path, content: bytes) -> None:
    file.write_bytes(WORD.encode() + content if content.strip(b"\n") else content)
    with pytest.raises(SecretError) as refused:
        read_secret(file)
    assert WORD not in "".join(traceback.format_exception(refused.value))
    assert str(file) in str(refused.value)


def test_what_is_no_plain_file_is_refused_at_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    for path in (pipe, tmp_path, tmp_path / "missing"):
        with pytest.raises(SecretError, match=str(path)):
            read_secret(path)


@pytest.mark.parametrize("text", ["", "two\nlines", "nul\0"])
def test_a_given_secret_is_one_line_too(text: str) -> None:
    with pytest.raises(SecretError):
        Secret(text)
