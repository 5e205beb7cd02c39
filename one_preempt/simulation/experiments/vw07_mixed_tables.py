"""Tables 8.3 to 8.7 of VW07, as printed: seconds to finish all best effort, and utilization of the CPUs.

Tables 8.3, 8.5 and 8.7 have the same four columns of seconds, in pairs. The percentages that they print follow from
these, but for three that lack their minus sign in Table 8.7 and one in Table 8.5.
"""

from __future__ import annotations

from typing import NamedTuple


class Published(NamedTuple):
    """One of 36 workloads: the mean duration of best effort, the part of the nodes that reservations take, how the work
    is divided between both; N without VMs, P with images that are there, T with transfers, R with reuse.

    The utilization of Table 8.4 is without the slow-down of VMs (`n_used`, `p_used`), that of 8.6 with it.
    """

    duration: str
    taken: str
    batch_to_reserved: str
    n_s: int
    p_s: int
    t_s: int
    r_s: int
    n_used: float
    p_used: float
    p_slow_used: float
    t_slow_used: float
    r_slow_used: float


PUBLISHED = (
    Published("long", "000-025", "25-75", 38880, 39000, 39120, 39120, 0.85, 0.85, 0.92, 0.91, 0.91),
    Published("long", "000-025", "50-50", 41160, 41880, 42180, 41760, 0.88, 0.92, 0.93, 0.92, 0.93),
    Published("long", "000-025", "75-25", 41160, 43500, 44640, 43920, 0.91, 0.94, 0.94, 0.92, 0.93),
    Published("long", "025-050", "25-75", 38400, 37200, 37380, 37560, 0.75, 0.77, 0.78, 0.78, 0.78),
    Published("long", "025-050", "50-50", 41820, 39360, 40080, 39420, 0.82, 0.92, 0.94, 0.92, 0.93),
    Published("long", "025-050", "75-25", 41100, 42360, 43260, 42420, 0.88, 0.92, 0.94, 0.92, 0.94),
    Published("long", "050-075", "25-75", 37260, 37020, 37500, 37140, 0.62, 0.62, 0.67, 0.66, 0.66),
    Published("long", "050-075", "50-50", 37320, 37500, 37680, 37620, 0.77, 0.77, 0.83, 0.83, 0.83),
    Published("long", "050-075", "75-25", 42060, 40080, 41100, 40140, 0.83, 0.91, 0.94, 0.92, 0.94),
    Published("long", "075-100", "25-75", 38700, 37020, 37320, 37140, 0.63, 0.66, 0.72, 0.71, 0.71),
    Published("long", "075-100", "50-50", 41160, 37260, 37620, 37440, 0.74, 0.84, 0.89, 0.88, 0.89),
    Published("long", "075-100", "75-25", 45780, 42180, 43500, 42180, 0.78, 0.92, 0.93, 0.9, 0.93),
    Published("medium", "000-025", "25-75", 38700, 39060, 39060, 39540, 0.88, 0.88, 0.9, 0.9, 0.89),
    Published("medium", "000-025", "50-50", 40800, 42900, 44040, 42780, 0.9, 0.92, 0.94, 0.91, 0.94),
    Published("medium", "000-025", "75-25", 40140, 43140, 45660, 42960, 0.93, 0.94, 0.95, 0.89, 0.95),
    Published("medium", "025-050", "25-75", 36840, 36960, 37200, 37140, 0.77, 0.77, 0.79, 0.78, 0.79),
    Published("medium", "025-050", "50-50", 37200, 37020, 39540, 37140, 0.86, 0.87, 0.94, 0.88, 0.93),
    Published("medium", "025-050", "75-25", 41220, 42780, 46740, 42420, 0.88, 0.93, 0.93, 0.85, 0.94),
    Published("medium", "050-075", "25-75", 33420, 33780, 34380, 33960, 0.62, 0.62, 0.64, 0.64, 0.64),
    Published("medium", "050-075", "50-50", 37260, 36780, 38580, 36600, 0.78, 0.8, 0.85, 0.81, 0.85),
    Published("medium", "050-075", "75-25", 40800, 41520, 47040, 41640, 0.87, 0.93, 0.93, 0.83, 0.93),
    Published("medium", "075-100", "25-75", 37380, 36600, 37680, 36660, 0.66, 0.68, 0.73, 0.71, 0.72),
    Published("medium", "075-100", "50-50", 38640, 37860, 40980, 38340, 0.77, 0.81, 0.87, 0.8, 0.86),
    Published("medium", "075-100", "75-25", 40800, 40860, 46080, 41220, 0.83, 0.88, 0.9, 0.8, 0.89),
    Published("short", "000-025", "25-75", 36120, 38700, 40740, 38820, 0.87, 0.86, 0.93, 0.88, 0.93),
    Published("short", "000-025", "50-50", 40860, 43260, 62580, 45420, 0.89, 0.9, 0.93, 0.64, 0.88),
    Published("short", "000-025", "75-25", 41820, 45240, 81720, 47040, 0.9, 0.91, 0.92, 0.51, 0.88),
    Published("short", "025-050", "25-75", 36600, 36540, 38820, 36840, 0.75, 0.75, 0.81, 0.76, 0.8),
    Published("short", "025-050", "50-50", 40380, 41340, 64320, 42960, 0.89, 0.92, 0.93, 0.6, 0.89),
    Published("short", "025-050", "75-25", 41160, 43140, 78180, 46320, 0.89, 0.91, 0.94, 0.52, 0.87),
    Published("short", "050-075", "25-75", 30960, 31020, 32220, 32700, 0.61, 0.61, 0.66, 0.66, 0.66),
    Published("short", "050-075", "50-50", 36900, 37200, 57840, 39900, 0.79, 0.8, 0.86, 0.55, 0.8),
    Published("short", "050-075", "75-25", 39180, 40980, 78600, 43020, 0.87, 0.89, 0.91, 0.48, 0.87),
    Published("short", "075-100", "25-75", 36600, 36600, 43020, 36840, 0.65, 0.65, 0.69, 0.59, 0.68),
    Published("short", "075-100", "50-50", 37740, 37560, 64800, 38700, 0.83, 0.86, 0.9, 0.52, 0.88),
    Published("short", "075-100", "75-25", 41040, 42840, 84540, 44940, 0.87, 0.91, 0.91, 0.46, 0.87),
)
