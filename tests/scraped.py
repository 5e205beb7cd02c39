"""Metrics as Prometheus reads them: a page taken over HTTP, and its samples by name and labels."""

from __future__ import annotations

import socket
from http.client import HTTPConnection

from prometheus_client.parser import text_string_to_metric_families

PATIENCE_S = 60
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def free_port() -> int:
    """A port of loopback at which nobody listens now."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def fetched(port: int, method: str = "GET", path: str = "/metrics") -> tuple[int, str, str]:
    """The status, the content type and the body of an answer."""
    connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.headers["Content-Type"], answer.read().decode()
    finally:
        connection.close()


def samples_of(page: str) -> Samples:
    """Every sample of a page, each of which is there once."""
    found: Samples = {}
    for family in text_string_to_metric_families(page):
        assert family.documentation, family.name
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in found, key
            found[key] = sample.value
    return found


def value(samples: Samples, name: str, **labels: str) -> float | None:
    """One sample; None where there is none."""
    return samples.get((f"one_preempt_{name}", tuple(sorted(labels.items()))))


def by_label(samples: Samples, name: str, label: str) -> dict[str, float]:
    """The samples of a family that are not 0, by one of its labels; those that differ in others are added up."""
    found: dict[str, float] = {}
    for (of, labels), number in samples.items():
        if of == f"one_preempt_{name}" and number:
            word = dict(labels)[label]
            found[word] = found.get(word, 0) + number
    return found
