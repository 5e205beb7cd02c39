"""`config show|check|import`: the configuration in force, whether it can be used, and one from the matchmaker's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import click
import msgspec
import yaml

from one_preempt.configuration.doubts import doubts
from one_preempt.configuration.sched_conf import Yaml, import_sched_conf
from one_preempt.configuration.settings import (
    LONGEST_FILE,
    Settings,
    SettingsError,
    configuration_path,
    load_settings,
    parse_settings,
)
from one_preempt.configuration.shown_url import without_password
from one_preempt.entrypoints.cli.options import config_option, json_option, write_json
from one_preempt.errors import OnePreemptError
from one_preempt.explanation.explain import JsonObject, JsonValue


@click.group("config")
def config_command() -> None:
    """Show, check or import the configuration."""


@config_command.command("show", short_help="Show every value in force.")
@config_option
@json_option
def config_show(config_path: Path | None, as_json: bool) -> None:
    """Show every value in force: those of the file, and the defaults for the rest."""
    document = shown(load_settings(config_path))
    if as_json:
        write_json(document)
        return
    source = configuration_path(config_path)
    click.echo(f"# {f'from {source}' if source else 'as shipped, no file was found'}")
    click.echo(yaml.safe_dump(document, sort_keys=False, allow_unicode=False), nl=False)


@config_command.command("check", short_help="Check the configuration.")
@config_option
@json_option
def config_check(config_path: Path | None, as_json: bool) -> None:
    """Check the configuration: unknown keys, wrong values, policies that do not exist."""
    from one_preempt.adapters.lease_store.named_database import LeaseStoreError, parsed_url
    from one_preempt.configuration.chosen_policies import policies

    settings = load_settings(config_path)
    policies(settings)
    source = configuration_path(config_path)
    try:
        parsed_url(settings.store.url)
    except LeaseStoreError as error:
        raise SettingsError(f"{source}: store.url: {error}") from None
    if as_json:
        write_json({"file": str(source) if source else None, "ok": True, "doubts": doubts(settings)})
        return
    click.echo(f"{source}: can be used" if source else "there is no configuration file: the values as shipped are used")
    for doubt in doubts(settings):
        click.echo(f"but {doubt}")


@config_command.command("import", short_help="Translate a sched.conf or rank.conf.")
@click.argument("file", type=click.Path(path_type=Path))
@json_option
def config_import(file: Path, as_json: bool) -> None:
    """Translate FILE, a sched.conf or rank.conf of OpenNebula, and print it as a configuration."""
    from one_preempt.configuration.chosen_policies import policies

    with file.open(encoding="utf-8", errors="replace") as stream:
        written = stream.read(LONGEST_FILE + 1)
    if len(written) > LONGEST_FILE:
        raise OnePreemptError(f"{file} is longer than {LONGEST_FILE} characters: is it really the matchmaker's?")
    imported = import_sched_conf(written, str(file))
    document = {key: value for section in imported.sections.items() for key, value in _entries(*section)}
    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=False)
    policies(parse_settings(text, str(file)))
    if as_json:
        write_json({"configuration": document, "notes": list(imported.notes)})
        return
    click.echo(f"# Behaves as {file.name}; everything else is as shipped.")
    click.echo(text, nl=False)
    for note in imported.notes:
        click.echo(note, err=True)


def _entries(section: str, values: Mapping[str, Yaml]) -> Iterable[tuple[str, JsonValue]]:
    """Entries of the whole configuration: those of "" stand at the top."""
    return [(section, dict(values))] if section else list(values.items())


def shown(settings: Settings) -> JsonObject:
    """The settings as plain objects, passwords inside URLs left out."""
    store, opennebula = settings.store, settings.opennebula
    document: JsonObject = msgspec.to_builtins(
        msgspec.structs.replace(
            settings,
            store=msgspec.structs.replace(store, url=without_password(store.url)),
            opennebula=msgspec.structs.replace(
                opennebula, endpoint=opennebula.endpoint and without_password(opennebula.endpoint)
            ),
        )
    )
    return document
