"""Recordings and folders that are cut, packed with malice or hold something else: told in a line, in little memory."""

from __future__ import annotations

import gzip
import json
import os
import re
import resource
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from one_preempt.adapters.recorded.recorded_pool_reader import RecordedPoolReader
from one_preempt.adapters.recorded.recording import RecordingError
from one_preempt.entrypoints.cli.command_line import cli

FOLDER = Path(__file__).resolve().parents[1] / "recordings" / "7.4.0"
NAMES = (
    "vmpool.infoextended", "hostpool.info", "hostpool.monitoring", "clusterpool.info", "datastorepool.info",
    "vnpool.info", "vmgrouppool.info", "acl.info", "userpool.info", "grouppool.info", "zone.raftstatus",
    "system.config",
)  # fmt: skip
DOCUMENTS = {name: (FOLDER / f"{name}.xml").read_text() for name in NAMES}
GOOD: dict[str, Any] = {
    "format": "one_preempt recording", "format_version": 1, "observed_at_s": 1_795_000_000, "documents": DOCUMENTS,
}  # fmt: skip
INSTEAD = {
    "nothing": lambda text: "",
    "HTML": lambda text: "<html><body>hello</body></html>",
    "junk": lambda text: "\x00\x01\x1b[31mjunk",
    "half of it": lambda text: text[: len(text) // 2],
    "a DTD": lambda text: '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]>' + text,
    "an empty pool": lambda text: re.sub(r"^\s*<(\w+).*$", r"<\1></\1>", text, flags=re.DOTALL),
    "surrogates": lambda text: text.replace(">", ">\ud800", 1),
    "another pool": lambda text: "<A_POOL><A/></A_POOL>",
    "elements without content": lambda text: re.sub(r">[^<>]+<", "><", text),
    "the largest numbers": lambda text: re.sub(r">\d+<", f">{2**47}<", text),
    "negative numbers": lambda text: re.sub(r">\d+<", ">-7<", text),
    "numbers beyond 64 bits": lambda text: re.sub(r">\d+<", f">{'9' * 30}<", text),
}


def packed(path: Path, content: object) -> Path:
    path.write_bytes(gzip.compress(json.dumps(content).encode(), compresslevel=1))
    return path


def plan(path: Path, *options: str) -> Result:
    result = CliRunner().invoke(cli, ["plan", "--from", str(path), *options], env={"ONE_PREEMPT_CONF": "/dev/null"})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def is_told_in_one_line(result: Result) -> bool:
    lines = result.output.splitlines()
    return result.exit_code == 1 and len(lines) == 1 and lines[0].startswith("Error: ") and lines[0].isprintable()


@pytest.mark.parametrize("instead", INSTEAD.values(), ids=INSTEAD.keys())
@pytest.mark.parametrize("name", NAMES)
def test_a_document_that_holds_something_else_is_told_or_does_without(name: str, instead: Any, tmp_path: Path) -> None:
    changed = {**DOCUMENTS, name: instead(DOCUMENTS[name])}
    result = plan(packed(tmp_path / "file", {**GOOD, "documents": changed}))
    assert is_told_in_one_line(result) or result.exit_code == 0, result.output
    assert "\x1b" not in result.output


@pytest.mark.parametrize("cut", [*range(0, 40, 5), 1000, 20_000, -400, -9, -8, -1])
def test_a_file_cut_anywhere_is_refused(cut: int, tmp_path: Path) -> None:
    whole = packed(tmp_path / "whole", GOOD).read_bytes()
    (tmp_path / "cut").write_bytes(whole[:cut])
    with pytest.raises(RecordingError, match=r"cut off|no recording"):
        RecordedPoolReader(tmp_path / "cut")


CONTENTS: dict[str, object] = {
    "a list": [1],
    "another format": {**GOOD, "format": "tar"},
    "a newer format": {**GOOD, "format_version": "\x1b[31m" * 1000},
    "an instant that is true": {**GOOD, "observed_at_s": False},
    "an instant before time": {**GOOD, "observed_at_s": -1},
    "an instant after time": {**GOOD, "observed_at_s": 10**30},
    "an instant with a point": {**GOOD, "observed_at_s": 1e9},
    "no documents": {**GOOD, "documents": None},
    "documents in a list": {**GOOD, "documents": ["a"]},
    "documents that are numbers": {**GOOD, "documents": dict.fromkeys(DOCUMENTS, 7)},
    "none of the documents": {**GOOD, "documents": {}},
}


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS.keys())
def test_a_file_with_other_content_is_refused(content: object, tmp_path: Path) -> None:
    assert is_told_in_one_line(plan(packed(tmp_path / "file", content)))


RAW = {
    "nothing": b"",
    "not packed": json.dumps(GOOD).encode(),
    "something behind it": gzip.compress(json.dumps(GOOD).encode(), 1) + b"junk",
    "a wrong checksum": gzip.compress(json.dumps(GOOD).encode(), 1)[:-8] + bytes(8),
    "brackets": gzip.compress(b"[" * 1_000_000),
    "an endless number": gzip.compress(
        b'{"format": "one_preempt recording", "format_version": ' + b"9" * 10_000 + b"}"
    ),
}


@pytest.mark.parametrize("content", RAW.values(), ids=RAW.keys())
def test_a_file_that_is_packed_otherwise_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(content)
    assert is_told_in_one_line(plan(tmp_path / "file"))


def test_a_small_file_that_would_unpack_to_gigabytes_is_not_unpacked(tmp_path: Path) -> None:
    block = gzip.compress(bytes(1 << 24))
    (tmp_path / "bomb").write_bytes(block * 200)
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert is_told_in_one_line(plan(tmp_path / "bomb"))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib < 1 << 17


def test_what_begins_like_a_recording_is_unpacked_up_to_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("one_preempt.adapters.recorded.recording.LARGEST_RECORDING", 1 << 20)
    (tmp_path / "bomb").write_bytes(gzip.compress(json.dumps({**GOOD, "x": " " * (1 << 22)}).encode(), 1))
    with pytest.raises(RecordingError, match="is larger than 1048576 bytes"):
        RecordedPoolReader(tmp_path / "bomb")


def test_folders_without_the_pools_or_with_something_else_of_their_names_are_refused(tmp_path: Path) -> None:
    assert is_told_in_one_line(plan(tmp_path))
    for name, text in DOCUMENTS.items():
        (tmp_path / f"{name}.xml").write_text(text)
    (tmp_path / "system.version.txt").write_bytes(b"\xff\x1b[31m" * 1000)
    assert plan(tmp_path, "--json").exit_code == 0
    (tmp_path / "hostpool.info.xml").unlink()
    os.mkfifo(tmp_path / "hostpool.info.xml")
    assert is_told_in_one_line(plan(tmp_path))
    (tmp_path / "hostpool.info.xml").unlink()
    (tmp_path / "hostpool.info.xml").mkdir()
    assert is_told_in_one_line(plan(tmp_path))
