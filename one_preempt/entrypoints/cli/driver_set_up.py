"""What is right and wrong in the wiring of OpenNebula 7.x's scheduler driver; nothing to say about 6.x."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from lxml.etree import _Element

from one_preempt.adapters.opennebula.xml_document import parse_document
from one_preempt.entrypoints.cli.set_up import Finding, Grade
from one_preempt.explanation.explain import printable

SCHEDULER_FOLDER = Path("/var/lib/one/remotes/scheduler")
# From so many hosts on, the document for its placer takes oned minutes to write.
MANY_HOSTS = 500
LEAST_RETRY_S = 300
LEAST_WINDOW_S = 60
EXECUTABLES = {"-p": "place", "-o": "optimize"}


def judge_driver(
    configuration: bytes, clusters: bytes, host_count: int, folder: Path = SCHEDULER_FOLDER
) -> Iterator[Finding]:
    """Judge one.system.config and one.clusterpool.info; `folder` is where this machine keeps its drivers."""
    root = parse_document(configuration, [], "one.system.config")
    arguments = root.findtext("SCHED_MAD/ARGUMENTS")
    if arguments is None:
        return
    words = arguments.split()
    for option, executable in EXECUTABLES.items():
        if option in words[:-1] and folder.is_dir():
            yield from _judge_executable(folder / words[words.index(option) + 1] / executable)
    if host_count >= MANY_HOSTS:
        yield from _judge_pace(root, "SCHED_RETRY_TIME", LEAST_RETRY_S, host_count)
        yield from _judge_pace(root, "SCHED_MAX_WND_TIME", LEAST_WINDOW_S, host_count)
    for cluster in parse_document(clusters, [], "one.clusterpool.info"):
        if (cluster.findtext("TEMPLATE/ONE_DRS/AUTOMATION") or "").strip().lower() == "full":
            name = printable(cluster.findtext("NAME") or "?", 40)
            mend = "set AUTOMATION to manual or partial in ONE_DRS of the cluster: nobody asks before it moves VMs"
            yield Finding("driver", Grade.WARN, f"DRS of cluster {name} runs by itself and works against us", mend)


def _judge_executable(path: Path) -> Iterator[Finding]:
    if os.access(path, os.X_OK) and path.is_file():
        yield Finding("driver", Grade.OK, f"{printable(str(path))} is there")
        return
    mend = "install it before oned is started again: without it oned refuses to start"
    yield Finding("driver", Grade.FAIL, f"{printable(str(path))} is missing or is not executable", mend)


def _judge_pace(root: _Element, name: str, least_s: int, host_count: int) -> Iterator[Finding]:
    text = (root.findtext(name) or "").strip()
    if text.isdigit() and int(text) < least_s:
        mend = f"raise {name} in oned.conf to {least_s} or more and restart oned: the daemon does not need it"
        said = f"{name} is {text}: with {host_count} hosts oned spends its time on documents for its placer"
        yield Finding("driver", Grade.WARN, said, mend)
