"""Attributes by name, for many hosts, datastores or networks at once.

A name is looked for below several elements of the document; the hit that stands first in the document counts,
as in OpenNebula's own look-up. Every attribute asked for becomes a column once: distinct values are tested,
not hosts, so that an expression costs the same for six hosts and for a thousand.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from one_preempt.core.matching.expressions.column_texts import ColumnTexts
from one_preempt.core.matching.expressions.known_answers import KnownAnswers
from one_preempt.core.model.host import Host
from one_preempt.core.model.infrastructure import Datastore, Network

BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.float32]
Values = tuple[str, ...]
Attributes = Mapping[str, Values]
Number = TypeVar("Number", int, float)

MOST_MASKS = 10_000

_INTEGER = re.compile(r"\s*([+-]?\d{1,18})(?!\d)", re.ASCII)
_NUMBER = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)", re.ASCII)


class Layout(Struct, frozen=True):
    """Where names are looked for: the root element, and the paths below it in document order."""

    root: str
    prefixes: tuple[str, ...]


HOST_LAYOUT = Layout(
    "HOST",
    (
        "",
        "HOST_SHARE/",
        "HOST_SHARE/DATASTORES/",
        "TEMPLATE/",
        "MONITORING/CAPACITY/",
        "MONITORING/SYSTEM/",
        "CLUSTER_TEMPLATE/",
    ),
)
DATASTORE_LAYOUT = Layout("DATASTORE", ("", "TEMPLATE/"))
NETWORK_LAYOUT = Layout("VNET", ("", "TEMPLATE/"))


class Column(Struct):
    """One attribute: row r has the values `distinct[codes[r]]`, or does not have it where the code is -1."""

    codes: npt.NDArray[np.int64]
    distinct: list[Values]
    _numbers: tuple[FloatArray, BoolArray] | None = None
    _integers: tuple[npt.NDArray[np.int64], BoolArray] | None = None
    _first_texts: tuple[ColumnTexts, BoolArray] | None = None
    _all_texts: ColumnTexts | None = None
    _all_integers: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]] | None = None
    _all_numbers: tuple[npt.NDArray[np.int64], FloatArray] | None = None

    def spread(self, verdicts: npt.NDArray[np.bool_]) -> BoolArray:
        """Verdicts on the distinct values as a mask of rows; False where a row has none."""
        spread: BoolArray = np.append(verdicts, False)[self.codes]
        return spread

    @property
    def first_texts(self) -> tuple[ColumnTexts, BoolArray]:
        """The first text of each distinct entry, and where there is one."""
        if self._first_texts is None:
            first = ((entry, values[0]) for entry, values in enumerate(self.distinct) if values)
            present = np.fromiter(map(bool, self.distinct), dtype=np.bool_, count=len(self.distinct))
            self._first_texts = (ColumnTexts(len(self.distinct), first), present)
        return self._first_texts

    @property
    def all_texts(self) -> ColumnTexts:
        """Every text of each distinct entry."""
        if self._all_texts is None:
            pairs = ((entry, text) for entry, values in enumerate(self.distinct) for text in values)
            self._all_texts = ColumnTexts(len(self.distinct), pairs)
        return self._all_texts

    @property
    def integers(self) -> tuple[npt.NDArray[np.int64], BoolArray]:
        """The first whole number of each distinct entry, and where there is one."""
        if self._integers is None:
            found = [_first(leading_integer, values) for values in self.distinct]
            self._integers = (
                np.array([number or 0 for number in found], dtype=np.int64),
                np.array([number is not None for number in found], dtype=np.bool_),
            )
        return self._integers

    def holding(self, value: int | float) -> BoolArray:
        """The distinct entries of which any value is this number; a float is compared in single precision."""
        held = np.zeros(len(self.distinct), dtype=np.bool_)
        if isinstance(value, int):
            if self._all_integers is None:
                entries, integers = _all_of(leading_integer, self.distinct)
                self._all_integers = entries, np.array(integers, dtype=np.int64)
            held[self._all_integers[0][self._all_integers[1] == value]] = True
            return held
        if self._all_numbers is None:
            entries, numbers = _all_of(leading_number, self.distinct)
            with np.errstate(over="ignore"):
                self._all_numbers = entries, np.array(numbers, dtype=np.float64).astype(np.float32)
        held[self._all_numbers[0][self._all_numbers[1] == np.float32(value)]] = True
        return held

    @property
    def numbers(self) -> tuple[FloatArray, BoolArray]:
        """The first number of each distinct entry in single precision, and where there is one."""
        if self._numbers is None:
            found = [_first(leading_number, values) for values in self.distinct]
            with np.errstate(over="ignore"):
                numbers = np.array([number or 0.0 for number in found]).astype(np.float32)
            self._numbers = (numbers, np.array([number is not None for number in found], dtype=np.bool_))
        return self._numbers


class AttributeTable:
    """The attributes of several objects of one kind, one row each.

    `trials` counts what the comparisons that were tested on it took (`column_texts.py`).
    """

    def __init__(self, layout: Layout, rows: Sequence[Attributes]) -> None:
        self.layout = layout
        self._rows = rows
        self._columns: dict[str, Column] = {}
        self._paths_there_are: frozenset[str] | None = None
        self._masks = KnownAnswers[BoolArray](MOST_MASKS)
        self.trials = 0

    def __len__(self) -> int:
        return len(self._rows)

    def column(self, name: str) -> Column | None:
        """The attribute `name`, or None where no row has it. A name that starts with "/" is an absolute path."""
        column = self._columns.get(name)
        if column is None:
            column = self._read(name)
            # Names that nobody has are not kept: users write the expressions.
            if column is not None:
                self._columns[name] = column
        return column

    def remembered(self, key: tuple[str, str, object], test: Callable[[], BoolArray]) -> BoolArray:
        """The rows for which a comparison (name, operator, value) is true: tested once, as many VMs ask the same."""
        return self._masks.of(key, test)

    def numbers(self, name: str) -> FloatArray:
        """The attribute as a number for each row; 0 where a row has none."""
        column = self.column(name)
        if column is None:
            return np.zeros(len(self), dtype=np.float32)
        numbers: FloatArray = np.append(column.numbers[0], np.float32(0))[column.codes]
        return numbers

    def _read(self, name: str) -> Column | None:
        paths = self._paths(name)
        if self._paths_there_are is not None and self._paths_there_are.isdisjoint(paths):
            return None
        codes = np.full(len(self), -1, dtype=np.int64)
        code_of: dict[Values, int] = {}
        for row, attributes in enumerate(self._rows):
            present = [attributes[path] for path in paths if path in attributes]
            if present:
                values = tuple(value for of_path in present for value in of_path)
                codes[row] = code_of.setdefault(values, len(code_of))
        if code_of:
            return Column(codes, list(code_of))
        # Users write the names: whoever asks for one that nobody has may ask for a thousand.
        self._paths_there_are = frozenset().union(*self._rows)
        return None

    def _paths(self, name: str) -> list[str]:
        if name.startswith("/"):
            root = f"/{self.layout.root}/"
            return [name.removeprefix(root)] if name.startswith(root) else []
        return [prefix + name for prefix in self.layout.prefixes]


def host_attributes(host: Host) -> Attributes:
    """What expressions can ask of a host: its document, over the typed fields."""
    return {
        "ID": (str(host.id),),
        "NAME": (host.name,),
        "STATE": (str(int(host.state)),),
        "CLUSTER_ID": (str(host.cluster_id),),
        "CLUSTER": (host.cluster_name,),
        "HOST_SHARE/MAX_CPU": (str(host.max_cpu_centi),),
        "HOST_SHARE/CPU_USAGE": (str(host.cpu_usage_centi),),
        "HOST_SHARE/MAX_MEM": (str(host.max_memory_kib),),
        "HOST_SHARE/MEM_USAGE": (str(host.memory_usage_kib),),
        "HOST_SHARE/RUNNING_VMS": (str(host.running_vms),),
        "VMS/ID": tuple(map(str, host.vm_ids)),
        **host.attributes,
    }


def datastore_attributes(datastore: Datastore) -> Attributes:
    """What expressions can ask of a datastore."""
    return {
        "ID": (str(datastore.id),),
        "NAME": (datastore.name,),
        "CLUSTERS/ID": tuple(map(str, datastore.cluster_ids)),
        "TOTAL_MB": (str(datastore.total_mib),),
        "FREE_MB": (str(datastore.free_mib),),
        "USED_MB": (str(datastore.used_mib),),
        **datastore.attributes,
    }


def network_attributes(network: Network) -> Attributes:
    """What expressions can ask of a network."""
    return {
        "ID": (str(network.id),),
        "NAME": (network.name,),
        "CLUSTERS/ID": tuple(map(str, network.cluster_ids)),
        "USED_LEASES": (str(network.used_leases),),
        **network.attributes,
    }


def leading_integer(text: str) -> int | None:
    """The whole number with which `text` begins."""
    match = _INTEGER.match(text)
    return None if match is None else int(match[1])


def leading_number(text: str) -> float | None:
    """The number with which `text` begins."""
    match = _NUMBER.match(text)
    return None if match is None else float(match[1])


def _all_of(
    read: Callable[[str], Number | None], distinct: Sequence[Values]
) -> tuple[npt.NDArray[np.int64], list[Number]]:
    """All numbers of all entries, and which entry each is of."""
    found = [(entry, read(text)) for entry, values in enumerate(distinct) for text in values]
    numbers = [(entry, number) for entry, number in found if number is not None]
    return np.array([entry for entry, _ in numbers], dtype=np.int64), [number for _, number in numbers]


def _first(read: Callable[[str], Number | None], values: Values) -> Number | None:
    return next((number for number in map(read, values) if number is not None), None)
