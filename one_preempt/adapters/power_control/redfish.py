"""Baseboard controllers by Redfish (DMTF DSP0266): HTTPS and JSON."""

from __future__ import annotations

from collections.abc import Sequence

from one_preempt.adapters.power_control.controllers import Controller, Controllers
from one_preempt.adapters.power_control.failure import outcome_of, reading_of
from one_preempt.adapters.power_control.redfish_session import Document, RedfishSession
from one_preempt.configuration.power_control_settings import RedfishSettings
from one_preempt.core.model.power import PowerAnswer, PowerOutcome, PowerReading, PowerStatus

SERVICE_ROOT = "/redfish/v1/"
_MOST_SYSTEMS = 64
_LONGEST_NAME = 60
# In the order of preference. PushPowerButton is left out: it switches off what is on.
_ON = ("On", "ForceOn")
_SOFT_OFF = ("GracefulShutdown",)
_HARD_OFF = ("ForceOff",)
# On the way a system is neither: what it is going to be shows in the next reading.
_STATUSES = {"On": PowerStatus.ON, "Off": PowerStatus.OFF}


class RedfishPowerControl:
    """Implements `PowerControl`, with a login of its own for each order."""

    def __init__(self, controllers: Controllers, settings: RedfishSettings) -> None:
        self._controllers = controllers
        self._settings = settings

    def switch_on(self, host: str) -> PowerOutcome:
        """Reset the system with On, or ForceOn where the controller knows only that."""
        return outcome_of(lambda: self._order(host, _ON))

    def switch_off(self, host: str, hard: bool) -> PowerOutcome:
        """Reset the system with ForceOff or GracefulShutdown; never the one for the other."""
        return outcome_of(lambda: self._order(host, _HARD_OFF if hard else _SOFT_OFF))

    def status(self, host: str) -> PowerReading:
        """Read the system's PowerState."""
        return reading_of(lambda: self._read(host))

    def _order(self, host: str, choices: Sequence[str]) -> str:
        controller = self._controllers.of(host)
        with RedfishSession(controller, self._settings) as session:
            system = _find_system(session, controller)
            action = _mapping(_mapping(system, "Actions"), "#ComputerSystem.Reset")
            target = action.get("target")
            if not isinstance(target, str):
                raise session.failure(PowerAnswer.REFUSED, "offers no reset of this system")
            reset = _chosen_reset(session, action, choices)
            session.post(target, {"ResetType": reset})
        return f"the baseboard controller of {host} took the order '{reset}'"

    def _read(self, host: str) -> tuple[PowerStatus, str]:
        controller = self._controllers.of(host)
        with RedfishSession(controller, self._settings) as session:
            said = _find_system(session, controller).get("PowerState")
            shown = session.said(str(said), _LONGEST_NAME)
        return (
            _STATUSES.get(said, PowerStatus.UNKNOWN) if isinstance(said, str) else PowerStatus.UNKNOWN,
            f"the baseboard controller of {host} says: {shown}",
        )


def _find_system(session: RedfishSession, controller: Controller) -> Document:
    """The one system of the controller, or the one that is named. Raises `PowerFailure`."""
    collection = _path_of(session.get(SERVICE_ROOT).get("Systems"))
    paths = _members(session.get(collection)) if collection is not None else []
    if not paths:
        raise session.failure(PowerAnswer.REFUSED, "knows no systems: is it a Redfish service?")
    if len(paths) == 1 and controller.system is None:
        return session.get(paths[0])
    systems = [session.get(path) for path in paths[:_MOST_SYSTEMS]]
    names = [_names(system) for system in systems]
    chosen = [system for system, known in zip(systems, names, strict=True) if controller.system in known]
    if len(chosen) == 1:
        return chosen[0]
    ids = session.said(", ".join(known[0] for known in names if known), 4 * _LONGEST_NAME)
    raise session.failure(
        PowerAnswer.MISCONFIGURED,
        f"has the systems {ids}: name the right one in hosts.{controller.host}.system",
    )


def _chosen_reset(session: RedfishSession, action: Document, choices: Sequence[str]) -> str:
    """The first of `choices` that the controller allows; the first where it does not say what it allows."""
    allowed = _allowed_resets(session, action)
    if allowed is None:
        return choices[0]
    for choice in choices:
        if choice in allowed:
            return choice
    known = session.said(", ".join(map(str, allowed)), 4 * _LONGEST_NAME)
    raise session.failure(PowerAnswer.REFUSED, f"allows no {' or '.join(choices)}, only {known}")


def _allowed_resets(session: RedfishSession, action: Document) -> list[object] | None:
    """What the action itself lists, or else the document on it that it names."""
    allowed = action.get("ResetType@Redfish.AllowableValues")
    info = action.get("@Redfish.ActionInfo")
    if allowed is None and isinstance(info, str):
        parameters = session.get(info).get("Parameters")
        for parameter in parameters if isinstance(parameters, list) else []:
            if isinstance(parameter, dict) and parameter.get("Name") == "ResetType":
                allowed = parameter.get("AllowableValues")
    return allowed if isinstance(allowed, list) else None


def _mapping(document: Document, key: str) -> Document:
    value = document.get(key)
    return value if isinstance(value, dict) else {}


def _path_of(link: object) -> str | None:
    path = link.get("@odata.id") if isinstance(link, dict) else None
    return path if isinstance(path, str) else None


def _members(collection: Document) -> list[str]:
    members = collection.get("Members")
    paths = map(_path_of, members if isinstance(members, list) else [])
    return [path for path in paths if path is not None]


def _names(system: Document) -> list[str]:
    return [value for key in ("Id", "Name", "UUID") if isinstance(value := system.get(key), str)]
