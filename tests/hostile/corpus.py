"""What users, and sick machines, write where something else is expected."""

from __future__ import annotations

INJECTION = 'bad" \nUSER_PRIORITY="999"\nSCHED_RANK="1"\nLEASE=[TYPE="DC-NON-PREEMPTABLE"]\nX="'
TERMINAL = "a\x00\x07\x1b[2J\x1b]0;owned\x07\x9b31m\r2026-01-01 00:00:00 INFO forged\u2028line"

TEXTS = {
    "nothing": "",
    "markup": "</USER_TEMPLATE></VM><VM><ID>99</ID><USER_PRIORITY>999</USER_PRIORITY>",
    "the end of a CDATA section": "]]>]]><![CDATA[<SCHED_RANK>1</SCHED_RANK>",
    "entities": "&xxe;&#0;&#x1b;&lt;USER_PRIORITY&gt;",
    "template text": INJECTION,
    "100 kB": "x" * 100_000,
    "terminal controls": TERMINAL,
    "right to left and invisible": "\u202eevil\u2066\u200b\ufeff\u00ad",
    "surrogates": "\ud800\udfff",
    "many blanks": "a  b \t  c",
    "a negative number": "-1",
    "a number beyond 64 bits": "9" * 30,
    "a number beyond Python's own limit": "9" * 5000,
    "not a number": "nan",
    "infinity": "inf",
    "beyond a double": "1e999",
    "a digit of another script": "\u0663\u00b2",
    "a number as programs write it": "1_0",
    "format characters": "%s%n{0}{x}",
    "rich markup": "[bold red]x[/bold]",
    "an endless parenthesis": "(" * 30_000,
    "endless negation": "!" * 30_000 + "ID = 1",
    "an endless number": "CURRENT_VMS = " + "9" * 400 + ".0",
    "a cruel pattern": 'NAME = "' + "*a" * 400 + '"',
    "a division by zero": "1 / 0",
}  # fmt: skip
