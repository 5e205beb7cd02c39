from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from one_preempt.errors import OnePreemptError
from one_preempt.simulation.workload import trace_files
from one_preempt.simulation.workload.swf import SwfField, SwfHeader, SwfLog, format_swf, parse_swf, read_swf, write_swf

SLICE = Path(__file__).parents[2] / "traces" / "haizea-blue-30days.swf.gz"
HEADER = """\
; Version: 2.2
; Acknowledge: \u00c5ke Sandgren
; MaxNodes: 184 (6 interactive + 171 p655 + 7 p690)
; MaxProcs: 1664
; UnixStartTime: 1078300000
; Queue:  0  interactive    
; Queue:  1  express
; Note: a comment: with colons
;
"""  # noqa: W291 logs are padded so
JOB = "{0} 10 5 60 8 0.03 -1 8 120 -1 1 7 3 -1 2 -1 -1 -1"


def parsed(text: str, skip_bad_lines: bool = False) -> SwfLog:
    return parse_swf(io.BytesIO(text.encode()), "log.swf", skip_bad_lines)


def table(log: SwfLog) -> list[list[float]]:
    return [list(job) for job in zip(*(column.tolist() for column in log.columns), strict=True)]


def jobs(*numbers: int) -> str:
    return "".join(JOB.format(number) + "\n" for number in numbers)


def with_field(name: SwfField, value: str) -> str:
    words = JOB.format(1).split()
    words[name] = value
    return " ".join(words)


def test_all_eighteen_fields_are_read() -> None:
    log = parsed("1 2 3 4 5 6.5 7 8 9 10 1 12 13 14 15 16 17 18\n")
    assert table(log) == [[1, 2, 3, 4, 5, 6.5, 7, 8, 9, 10, 1, 12, 13, 14, 15, 16, 17, 18]]
    assert log.column(SwfField.PARTITION).tolist() == [16]


def test_a_column_takes_as_few_bytes_as_its_values_need() -> None:
    log = parsed(jobs(1) + with_field(SwfField.JOB_NUMBER, "40000") + "\n")
    assert [log.columns[name].dtype.itemsize for name in (SwfField.STATUS, SwfField.JOB_NUMBER)] == [1, 4]
    assert log.columns[SwfField.AVERAGE_CPU_TIME].dtype == "float64"


def test_the_header_says_what_the_machine_was() -> None:
    header = parsed(HEADER + jobs(1)).header
    assert header.max_nodes == 184
    assert header.max_procs == 1664
    assert header.unix_start_time == 1078300000
    assert header.queue_names == {0: "interactive", 1: "express"}
    assert header.texts("note") == ("a comment: with colons",)
    assert header.texts("Acknowledge") == ("\u00c5ke Sandgren",)


def test_a_log_without_a_header_says_nothing() -> None:
    header = parsed(jobs(1)).header
    assert (header.max_nodes, header.max_procs, header.unix_start_time) == (None, None, None)
    assert header.queue_names == {}


def test_comments_in_latin_1_are_read_too() -> None:
    log = parse_swf(io.BytesIO("; Acknowledge: \u00c5ke\n".encode("latin-1")), "log.swf")
    assert log.header.texts("Acknowledge") == ("\u00c5ke",)


def test_blank_lines_and_line_ends_of_other_systems_do_not_matter() -> None:
    log = parsed("\n   \n" + JOB.format(1) + "\r\n\n" + "  " + JOB.format(2))
    assert log.column(SwfField.JOB_NUMBER).tolist() == [1, 2]


@pytest.mark.parametrize("blank", [b"\xa0", b"\x1c", b" \x85 "])
def test_lines_of_other_blanks_are_blank_too(blank: bytes) -> None:
    text = blank + b"\n" + JOB.format(1).encode() + b"\n" + blank + b"\n" + JOB.format(2).encode()
    log = parse_swf(io.BytesIO(text), "log.swf")
    assert log.column(SwfField.JOB_NUMBER).tolist() == [1, 2]
    assert not len(parse_swf(io.BytesIO(blank), "log.swf"))


def test_a_byte_order_mark_is_no_part_of_the_first_line() -> None:
    log = parse_swf(io.BytesIO(b"\xef\xbb\xbf; MaxNodes: 4\n" + JOB.format(1).encode()), "log.swf")
    assert (log.header.max_nodes, len(log)) == (4, 1)


def test_an_empty_log_has_no_jobs() -> None:
    assert not len(parsed(""))
    assert not len(parsed("; only a comment"))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (JOB.format(1) + " 5", "19 fields where a job has 18"),
        ("1 2 3", "3 fields where a job has 18: '1 2 3'"),
        (with_field(SwfField.RUN_TIME, "sixty"), r"field 4 \(run time\): 'sixty' is not a number"),
        (with_field(SwfField.RUN_TIME, "1_000"), "'1_000' is not a number"),
        (with_field(SwfField.RUN_TIME, "nan"), r"field 4 \(run time\): .*nan.* is not a"),
        (with_field(SwfField.RUN_TIME, "inf"), r"field 4 \(run time\): .*inf.* is not a"),
        (with_field(SwfField.RUN_TIME, "1e300"), r"field 4 \(run time\): 1e\+300 is not a whole number"),
        (with_field(SwfField.RUN_TIME, "60.5"), r"field 4 \(run time\): 60.5 is not a whole number from -1"),
        (with_field(SwfField.RUN_TIME, "-7"), r"field 4 \(run time\): -7 is not a whole number from -1"),
        (with_field(SwfField.SUBMIT_TIME, "-1"), r"field 2 \(submit time\): -1 is not a whole number from 0"),
        (with_field(SwfField.JOB_NUMBER, "-1"), r"field 1 \(job number\): -1 is not a whole number from 0"),
        (with_field(SwfField.AVERAGE_CPU_TIME, "-3"), r"field 6 \(average cpu time\): -3 is not a number from -1"),
    ],
)
def test_a_bad_line_is_named_by_file_line_and_field(line: str, words: str) -> None:
    text = HEADER + jobs(11) + line + "\n" + jobs(12)
    with pytest.raises(OnePreemptError, match=r"^log\.swf:11: .*" + words):
        parsed(text)
    log = parsed(text, skip_bad_lines=True)
    assert log.column(SwfField.JOB_NUMBER).tolist() == [11, 12]
    assert log.bad_lines == 1


def test_a_job_number_that_comes_again_is_a_bad_line() -> None:
    with pytest.raises(OnePreemptError, match=r"log\.swf:3: field 1 .*: 7 was the number of an earlier job"):
        parsed(jobs(7, 8, 7))
    assert parsed(jobs(7, 8, 7), skip_bad_lines=True).column(SwfField.JOB_NUMBER).tolist() == [7, 8]


def test_partial_runs_repeat_the_number_of_their_job() -> None:
    partial = "".join(with_field(SwfField.STATUS, str(status)) + "\n" for status in (2, 2, 3))
    assert len(parsed(jobs(1) + partial)) == 4


def test_what_a_message_quotes_is_short_and_harmless() -> None:
    with pytest.raises(OnePreemptError) as refused:
        parsed("\x1b[31m" + "z" * 5000 + "\n")
    assert "\x1b" not in str(refused.value)
    assert len(str(refused.value)) < 200


def test_a_file_without_line_ends_is_refused_before_it_fills_the_memory() -> None:
    class Endless:
        def read(self, size: int, /) -> bytes:
            return b"1" * size

    with pytest.raises(OnePreemptError, match="longer than 64 KiB"):
        parse_swf(Endless(), "endless")


@pytest.mark.parametrize("content", [bytes(range(256)) * 20, "1 0 0 60 4\n".encode("utf-16")])
def test_what_is_no_plain_text_is_said_to_be_no_trace(content: bytes) -> None:
    with pytest.raises(OnePreemptError, match=r"log: is binary data or UTF-16\. Name a trace"):
        parse_swf(io.BytesIO(content), "log", skip_bad_lines=True)


def test_a_log_that_begins_with_a_comment_is_read_whatever_is_in_it() -> None:
    assert parse_swf(io.BytesIO(b"; Note: a\0b\n1 2 \0 3\n"), "log", skip_bad_lines=True).bad_lines == 1


def test_whoever_refuses_a_line_names_no_option_that_its_reader_may_lack() -> None:
    with pytest.raises(OnePreemptError, match=r"Mend the line$"):
        parsed("hello\n")


@settings(derandomize=True, max_examples=60, deadline=None)
@given(
    values=st.lists(st.lists(st.integers(-1, 10**12), min_size=18, max_size=18), max_size=12),
    bad_at=st.sets(st.integers(0, 11)),
    block_bytes=st.integers(1, 400),
)
def test_blocks_of_any_size_and_bad_lines_anywhere_give_the_same_jobs(
    values: list[list[int]], bad_at: set[int], block_bytes: int
) -> None:
    lines, expected = [], []
    for index, row in enumerate(values):
        row[:2] = [index, abs(row[1])]
        lines.append("no job" if index in bad_at else " ".join(map(str, row)))
        expected += [] if index in bad_at else [row]
    original, trace_files._BLOCK_BYTES = trace_files._BLOCK_BYTES, block_bytes
    try:
        log = parsed("\n".join(lines), skip_bad_lines=True)
    finally:
        trace_files._BLOCK_BYTES = original
    assert table(log) == expected
    assert log.bad_lines == len(values) - len(expected)


def test_what_is_written_reads_as_what_it_was() -> None:
    log = read_swf(SLICE)
    again = parsed(format_swf(log))
    assert table(again) == table(log)
    assert len(log) == 5545


def test_comments_stay_with_every_copy() -> None:
    assert format_swf(parsed(HEADER + jobs(1, 2))) == HEADER + jobs(1, 2)


@pytest.mark.parametrize("name", ["copy.swf", "copy.swf.gz"])
def test_the_same_log_gives_the_same_bytes(tmp_path: Path, name: str) -> None:
    log = SwfLog(SwfHeader((" MaxNodes: 4",)), parsed(jobs(1)).columns)
    write_swf(log, tmp_path / name)
    first = (tmp_path / name).read_bytes()
    write_swf(log, tmp_path / name)
    assert (tmp_path / name).read_bytes() == first
    assert read_swf(tmp_path / name).header.max_nodes == 4


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(OnePreemptError, match=r"missing\.swf: cannot be read"):
        read_swf(tmp_path / "missing.swf")
    (tmp_path / "cut.swf.gz").write_bytes(gzip.compress(jobs(1, 2).encode())[:-12])
    with pytest.raises(OnePreemptError, match=r"cut\.swf\.gz: cannot be read"):
        read_swf(tmp_path / "cut.swf.gz")
    with pytest.raises(OnePreemptError, match="cannot be written"):
        write_swf(parsed(jobs(1)), tmp_path / "no" / "folder.swf")
