"""A report as one HTML file that needs nothing else: tables and pictures inside it, no scripts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

_STYLE = (
    "body{font-family:sans-serif;max-width:1000px;margin:2em auto;padding:0 1em;color:#222}"
    "table{border-collapse:collapse;margin:1em 0}svg{max-width:100%;height:auto}"
    "td,th{padding:.25em .8em;border-bottom:1px solid #ddd}"
    "td+td,th+th{text-align:right}caption{text-align:left;font-weight:bold;padding:.4em 0}"
)


def html_table(caption: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; the first column is text, the others are numbers."""
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><caption>{escape(caption)}</caption><tr>{head}</tr>{body}</table>"


def html_list(entries: Sequence[str]) -> str:
    """A list; nothing where there is nothing to list."""
    return f"<ul>{''.join(f'<li>{escape(entry)}</li>' for entry in entries)}</ul>" if entries else ""


def html_report(title: str, parts: Iterable[str]) -> str:
    """The document; `parts` are made by the functions of this file, or are SVG pictures."""
    body = "\n".join(parts)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style></head>\n<body><h1>{escape(title)}</h1>\n{body}\n</body></html>\n"
    )
