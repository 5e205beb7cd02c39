"""Rows of figures as CSV. The same rows give the same bytes."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence

Value = str | int | float | bool | None
Row = Mapping[str, Value]

# A program that opens a table would take what begins so for a formula.
_FORMULA_BEGINS = ("=", "+", "-", "@", "\t", "\r")


def csv_text(rows: Sequence[Row]) -> str:
    """Comma-separated with a header; the columns of all rows in the order in which they first occur."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_cell(row.get(column)) for column in columns] for row in rows)
    return text.getvalue()


def _cell(value: Value) -> Value:
    return "'" + value if isinstance(value, str) and value.startswith(_FORMULA_BEGINS) else value
