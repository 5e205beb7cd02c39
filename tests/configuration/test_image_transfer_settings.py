"""How images come to hosts, as it is configured: what is refused in one clear message, and what is doubtful."""

from __future__ import annotations

import pytest

from one_preempt.configuration.doubts import doubts
from one_preempt.configuration.settings import ImageStagingSettings, SettingsError, parse_settings

COMMAND = "method: command, command: {bring: [/bin/copy, '{image}', '{host}'], list: [/bin/look, '{host}']}"


def staging(text: str) -> ImageStagingSettings:
    return parse_settings(f"image_staging: {{{text}}}", "one_preempt.conf").image_staging


def test_as_shipped_nothing_is_staged() -> None:
    given = parse_settings("", "one_preempt.conf").image_staging
    assert (given.mode, given.transfer.method) == ("off", "none")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mode: enforce", "image_staging.mode: unknown word 'enforce'; there are: act, advise, off"),
        (
            "transfer: {method: tm_cache}",
            "image_staging.transfer.method: unknown word 'tm_cache'; there are: command, none, tm-cache",
        ),
        ("transfer: {megabits: 3}", "image_staging.transfer: unknown key `megabits`"),
        ("transfer: {command: {fetch: [/bin/x]}}", "image_staging.transfer.command: unknown key `fetch`"),
        ("transfer: {tm_cache: {user: me}}", "image_staging.transfer.tm_cache: unknown key `user`"),
        ("transfer: {method: command}", "image_staging.transfer.command.bring is missing: name the program"),
        (
            "transfer: {command: {bring: [copy, '{host}']}}",
            "image_staging.transfer.command.bring must begin with the absolute path of a program",
        ),
        (
            "transfer: {command: {bring: [/bin/copy, '{vm}']}}",
            "transfer.command.bring holds {vm}: only {image}, {source}, {size_mib}, {host}, {destination} are replaced",
        ),
        (
            "transfer: {command: {list: [/bin/look, '{image}']}}",
            "image_staging.transfer.command.list holds {image}: only {host} are replaced",
        ),
        ("transfer: {command: {bring: /bin/copy}}", "image_staging.transfer.command.bring: expected a list, got text"),
        (
            f"pool_mib: 5000, transfer: {{{COMMAND}}}",
            "image_staging.pool_mib needs transfer.command.remove, by which room is made",
        ),
        ("transfer: {at_once: 0}", "image_staging.transfer.at_once: expected a whole number of at least 1"),
        ("transfer: {timeout_s: 0}", "image_staging.transfer.timeout_s: expected a number above 0"),
        ("transfer: {tm_cache: {front_end: 'a b'}}", "image_staging.transfer.tm_cache.front_end: expected the name of"),
        ("transfer: {tm_cache: {ssh_program: ssh}}", "ssh_program: expected the absolute path of a file"),
        ("transfer: {tm_cache: {ssh_user: -l}}", "ssh_user: expected the name of a user"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(text: str, message: str) -> None:
    with pytest.raises(SettingsError) as refused:
        staging(text)
    assert message in str(refused.value)
    assert str(refused.value).startswith("one_preempt.conf: ")


@pytest.mark.parametrize(
    ("text", "doubt"),
    [
        ("mode: act", "image_staging.mode is act and transfer.method is none"),
        (
            "mode: act, transfer: {method: command, command: {bring: [/bin/copy]}}",
            "image_staging.transfer.command.list is empty: what others remove from hosts is taken to be there still",
        ),
        ("ahead_s: 3600", "image_staging.ahead_s has no effect, because image_staging.mode is off"),
        (
            "transfer: {method: tm-cache}",
            "image_staging.transfer.method has no effect, because image_staging.mode is off",
        ),
    ],
)
def test_what_is_probably_not_meant_is_said(text: str, doubt: str) -> None:
    settings = parse_settings(f"image_staging: {{{text}}}", "one_preempt.conf")
    assert [one for one in doubts(settings) if one.startswith(doubt)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "mode: advise",
        "mode: act, transfer: {method: tm-cache}, pool_mib: 5000",
        f"mode: act, transfer: {{{COMMAND}}}",
        "mode: act, pool_mib: 5000, transfer: {method: command, command: {bring: [/a], remove: [/b], list: [/c]}}",
    ],
)
def test_what_is_meant_is_not_doubted(text: str) -> None:
    settings = parse_settings(f"image_staging: {{{text}}}", "one_preempt.conf")
    assert [one for one in doubts(settings) if "image" in one] == []


def test_without_promises_in_the_queue_little_comes_ahead() -> None:
    settings = parse_settings(
        "image_staging: {mode: advise, ahead_s: 60}\ntime: {backfilling: none}", "one_preempt.conf"
    )
    assert [
        one for one in doubts(settings) if one.startswith("image_staging.ahead_s is set and time.backfilling is none")
    ]
