"""Energy from power over time: milliwatts times seconds, to kilowatt-hours."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

MJ_PER_KWH = 3_600_000_000


def energy_mj(since_s: npt.NDArray[np.int64], power_mw: npt.NDArray[np.int64], from_s: int, until_s: int) -> int:
    """The energy in millijoules of a power that changes at instants, between two instants.

    `since_s` ascends (equal instants are allowed: the last counts); `power_mw` holds from its instant to the next one,
    the last for ever, nothing before the first. Whole numbers throughout, exact up to 2**63 millijoules.
    """
    if until_s <= from_s or not len(since_s):
        return 0
    begins = np.clip(since_s, from_s, until_s)
    lasting_s = np.diff(begins, append=until_s)
    return int(np.dot(lasting_s, power_mw))


def kwh(energy_of_mj: int) -> float:
    """Millijoules as kilowatt-hours, for people and documents."""
    return energy_of_mj / MJ_PER_KWH
