"""``python -m one_preempt.simulation.emulator.power_command``: a machine of the emulator switched from outside.

For the power control ``command``, and for whatever plays a baseboard controller. Writes ``on`` or ``off``; exit code 1
where the emulator refuses.
"""

from __future__ import annotations

import argparse
import sys
import xmlrpc.client
from pathlib import Path

# Written out, as loading the emulator would take longer than asking it.
METHOD = "one_preempt.emulator.power"


def main() -> int:
    """Read the arguments and ask."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("endpoint", help="URL of the emulator, which was started with --control")
    parser.add_argument("auth_file", type=Path, help="holds user:password")
    parser.add_argument("host", help="its name in OpenNebula")
    parser.add_argument("order", choices=("on", "off", "hard-off", "status"))
    given = parser.parse_args()
    try:
        emulator = xmlrpc.client.ServerProxy(given.endpoint)
        session = given.auth_file.read_text().strip()
        reply = getattr(emulator, METHOD)(session, given.host, given.order)
    except (OSError, xmlrpc.client.Error) as error:
        sys.stderr.write(f"{given.host}: {error}\n")
        return 1
    accepted, answer = reply[:2]
    (sys.stdout if accepted else sys.stderr).write(f"{answer}\n")
    return 0 if accepted else 1


if __name__ == "__main__":
    sys.exit(main())
