"""A picture in SVG, element by element. Coordinates in pixels from the upper left corner."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

from msgspec import Struct, field

# Okabe and Ito's colours, which people with any colour vision tell apart.
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6d31", "#666666")
# Beside its colour a series has dashes and a mark, for prints without colours. The numbers of these have no common
# divisor, so that both together come again later.
_DASHES = ("", "8 3", "2 3", "8 3 2 3")
_SQUARE, _DIAMOND = ((-3, -3), (3, -3), (3, 3), (-3, 3)), ((0, -4.5), (4.5, 0), (0, 4.5), (-4.5, 0))
_UPWARDS, _DOWNWARDS = ((0, -4), (4, 3), (-4, 3)), ((0, 4), (4, -3), (-4, -3))
_HOURGLASS = ((-3.5, -3.5), (3.5, -3.5), (-3.5, 3.5), (3.5, 3.5))
_MARKS = (_SQUARE, _UPWARDS, _DIAMOND, _DOWNWARDS, _HOURGLASS)
INK, FAINT = "#222222", "#dddddd"
FONT_PX = 12
# Wide enough for any letter of that size in a sans-serif font, on average.
LETTER_PX = 6.6


def colour(number: int) -> str:
    """The colour of the n-th series; they repeat."""
    return PALETTE[number % len(PALETTE)]


class Drawing(Struct):
    """Elements in the order in which they are painted. `title` is read out by screen readers."""

    width: float
    height: float
    title: str
    _elements: list[str] = field(default_factory=list)

    def rectangle(self, x: float, y: float, width: float, height: float, fill: str, told: str = "") -> None:
        """A filled rectangle; `told` appears where the pointer rests on it."""
        body = f"><title>{_text(told)}</title></rect>" if told else "/>"
        self._elements.append(
            f'<rect x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}" fill="{fill}"{body}'
        )

    def line(self, x1: float, y1: float, x2: float, y2: float, stroke: str = INK) -> None:
        """A straight line."""
        ends = f'x1="{x1:.2f}" y1="{y1:.2f}" x2="{x2:.2f}" y2="{y2:.2f}"'
        self._elements.append(f'<line {ends} stroke="{stroke}" stroke-width="1"/>')

    def series_line(self, points: Sequence[tuple[float, float]], number: int) -> None:
        """Points joined by lines in the colour and with the dashes of the n-th series."""
        dashes = _DASHES[number % len(_DASHES)]
        stroke = f'stroke="{colour(number)}" stroke-width="1.5"' + (f' stroke-dasharray="{dashes}"' if dashes else "")
        self._elements.append(f'<polyline points="{_joined(points)}" fill="none" {stroke}/>')

    def series_mark(self, x: float, y: float, number: int) -> None:
        """The small mark of the n-th series."""
        corners = [(x + right, y + down) for right, down in _MARKS[number % len(_MARKS)]]
        self._elements.append(f'<polygon points="{_joined(corners)}" fill="{colour(number)}"/>')

    def text(self, x: float, y: float, text: str, anchor: str = "start", turned: bool = False) -> None:
        """A line of text; `anchor` is start, middle or end, `turned` reads from below."""
        turn = f' transform="rotate(-90 {x:.2f} {y:.2f})"' if turned else ""
        self._elements.append(f'<text x="{x:.2f}" y="{y:.2f}" text-anchor="{anchor}"{turn}>{_text(text)}</text>')

    def interval(self, x: float, y_low: float, y_high: float, stroke: str = INK) -> None:
        """An error bar."""
        self.line(x, y_low, x, y_high, stroke)
        for y in (y_low, y_high):
            self.line(x - 4, y, x + 4, y, stroke)

    def svg(self) -> str:
        """The whole document."""
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width:g}" height="{self.height:g}" '
            f'viewBox="0 0 {self.width:g} {self.height:g}" role="img" aria-label={quoteattr(_printable(self.title))} '
            f'font-family="sans-serif" font-size="{FONT_PX}" fill="{INK}">'
            f'<rect width="100%" height="100%" fill="white"/>{"".join(self._elements)}</svg>\n'
        )


def _joined(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.2f},{y:.2f}" for x, y in points)


def _text(text: str) -> str:
    return escape(_printable(text))


def _printable(text: str) -> str:
    """Without characters that XML does not allow."""
    return "".join(letter if letter.isprintable() else " " for letter in text)
