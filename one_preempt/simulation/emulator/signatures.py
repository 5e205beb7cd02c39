"""The parameters of each method after the session string, checked as oned checks them (errors.json).

A signature is one letter a parameter: i integer, s string, b boolean. Letters after a bar may be left out by the
caller; the value that oned then takes stands in `DEFAULTS`. More parameters than the signature has are ignored.
"""

from __future__ import annotations

from one_preempt.simulation.emulator.wire import Fault

PARAMETER_ERROR = -501
UNKNOWN_METHOD = -506

_POOL = "iii"
SIGNATURES: dict[str, str] = {
    "one.acl.addrule": "sss|s",
    "one.acl.info": "",
    "one.cluster.info": "i|b",
    "one.cluster.optimize": "i",
    "one.cluster.planexecute": "i",
    "one.clusterpool.info": "",
    "one.datastorepool.info": "",
    "one.group.info": "i|b",
    "one.group.quota": "is",
    "one.grouppool.info": "",
    "one.hooklog.info": "iiii",
    "one.hook.allocate": "s",
    "one.hook.delete": "i",
    "one.hookpool.info": _POOL,
    "one.host.allocate": "sssi",
    "one.host.info": "i|b",
    "one.host.status": "ii",
    "one.host.update": "isi",
    "one.hostpool.info": "",
    "one.hostpool.monitoring": "|i",
    "one.image.info": "i|b",
    "one.imagepool.info": _POOL,
    "one.secgrouppool.info": _POOL,
    "one.system.config": "",
    "one.system.version": "",
    "one.template.instantiate": "is|bsb",
    "one.templatepool.info": _POOL,
    "one.user.info": "i|b",
    "one.user.quota": "is",
    "one.userpool.info": "",
    "one.vdcpool.info": "",
    "one.vm.action": "si",
    "one.vm.allocate": "s|b",
    "one.vm.chmod": "iiiiiiiiii",
    "one.vm.chown": "iii",
    "one.vm.deploy": "ii|bis",
    "one.vm.info": "i|b",
    "one.vm.lock": "ii|b",
    "one.vm.migrate": "iib|bii",
    "one.vm.recover": "ii",
    "one.vm.unlock": "i",
    "one.vm.update": "isi",
    "one.vmgroup.info": "i|b",
    "one.vmgrouppool.info": _POOL,
    "one.vmpool.accounting": "iii",
    "one.vmpool.info": "iiii|s",
    "one.vmpool.infoextended": "iiii|s",
    "one.vmpool.infoset": "sb",
    "one.vmpool.monitoring": "i|i",
    "one.vn.info": "i|b",
    "one.vnpool.info": _POOL,
    "one.zone.raftstatus": "",
    "one.zonepool.info": "",
}

DEFAULTS: dict[str, tuple[int | str | bool, ...]] = {
    "one.acl.addrule": ("",),
    "one.cluster.info": (False,),
    "one.group.info": (False,),
    "one.host.info": (False,),
    "one.hostpool.monitoring": (-1,),
    "one.image.info": (False,),
    "one.template.instantiate": (False, "", False),
    "one.user.info": (False,),
    "one.vm.allocate": (False,),
    "one.vm.deploy": (False, -1, ""),
    "one.vm.info": (False,),
    "one.vm.lock": (False,),
    "one.vm.migrate": (False, -1, 0),
    "one.vmgroup.info": (False,),
    "one.vmpool.info": ("",),
    "one.vmpool.infoextended": ("",),
    "one.vmpool.monitoring": (-1,),
    "one.vn.info": (False,),
}

# Methods that a version does not have yet.
ADDED_IN_7 = frozenset({"one.cluster.optimize", "one.cluster.planexecute"})

_KINDS: dict[str, tuple[type, str]] = {
    "i": (int, "integer"),
    "s": (str, "a string"),
    "b": (bool, "boolean"),
}


def is_known(method: str, version: str) -> bool:
    """Whether that version of oned has the method, as far as the emulator goes."""
    return method in SIGNATURES and not (method in ADDED_IN_7 and version.startswith("6."))


def checked_session(parameters: tuple[object, ...]) -> str:
    """The session string, which every method takes first. Raises `Fault` -501."""
    _check("s", parameters, 0)
    return str(parameters[0])


def checked_arguments(method: str, parameters: tuple[object, ...], version: str) -> tuple[int | str | bool, ...]:
    """The parameters after the session string, complete with defaults.

    7.x looks at the last parameter first, 6.x at the first: the fault names the first wrong one in that order.
    """
    required, _, optional = SIGNATURES[method].partition("|")
    given = min(len(parameters) - 1, len(required) + len(optional))
    if given < len(required):
        raise Fault(PARAMETER_ERROR, "Not enough parameters")
    letters = (required + optional)[:given]
    positions = range(given) if version.startswith("6.") else reversed(range(given))
    for position in positions:
        _check(letters[position], parameters, position + 1)
    defaults = DEFAULTS.get(method, ())[given - len(required) :]
    return tuple(_plain(value) for value in parameters[1 : given + 1]) + defaults


def _check(letter: str, parameters: tuple[object, ...], position: int) -> None:
    if position >= len(parameters):
        raise Fault(PARAMETER_ERROR, "Not enough parameters")
    kind, name = _KINDS[letter]
    value = parameters[position]
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise Fault(PARAMETER_ERROR, f"Parameter that is supposed to be {name} is not")


def _plain(value: object) -> int | str | bool:
    assert isinstance(value, (int, str, bool))
    return value
