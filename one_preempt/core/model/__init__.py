"""The words of the scheduler as values: what was observed, what is known, what is planned.

Everything here is immutable and free of I/O. Units are the last part of a name; CPU is counted in
hundredths of a processor (``cpu_centi``, oned's own unit) so that every comparison is between integers.
"""
