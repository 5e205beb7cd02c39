from __future__ import annotations

import pytest

from one_preempt.configuration.shown_url import without_password


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql+psycopg://one:s3cret@db/leases", "postgresql+psycopg://one:***@db/leases"),
        ("postgresql://one:s3cr@et@db/leases", "postgresql://one:***@db/leases"),
        ("postgresql://one:s3c://ret@db/leases", "postgresql://one:***@db/leases"),
        ("postgresql://one:s3c?ret@db/leases?a=b", "postgresql://one:***@db/leases?a=b"),
        ("postgresql:/one:s3cret@db/leases", "postgresql:***@db/leases"),
        ("one:s3cret@db", "one:***@db"),
        ("mysql+pymysql://db/x?user=one&password=s3cret&ssl=1", "mysql+pymysql://db/x?user=one&password=***&ssl=1"),
        ("mysql+pymysql://db/x?PassWd=s3cret", "mysql+pymysql://db/x?PassWd=***"),
    ],
)
def test_a_password_is_not_shown(url: str, shown: str) -> None:
    assert without_password(url) == shown


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:////var/lib/one/one_preempt/leases.db",
        "sqlite:////srv/a@b:c/leases.db",
        "postgresql://one@db/leases",
        "postgresql://db:5432/leases?sslmode=require&flag",
        "http://localhost:2633/RPC2",
        "leases.db",
        "",
    ],
)
def test_what_has_no_password_is_shown_as_it_is(url: str) -> None:
    assert without_password(url) == url
