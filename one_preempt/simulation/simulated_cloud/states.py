"""The numbers oned writes for states, life-cycle states, history actions and locks.

The tables repeat those of the scheduler's own model on purpose: a wrong number there must not be wrong here too.
"""

from __future__ import annotations

from enum import IntEnum


class VmState(IntEnum):
    """VM/STATE."""

    __hash__ = int.__hash__  # Enum's own takes the name, in Python

    INIT = 0
    PENDING = 1
    HOLD = 2
    ACTIVE = 3
    STOPPED = 4
    SUSPENDED = 5
    DONE = 6
    POWEROFF = 8
    UNDEPLOYED = 9
    CLONING = 10
    CLONING_FAILURE = 11


class LcmState(IntEnum):
    """VM/LCM_STATE: where an ACTIVE VM is; the ones the simulated cloud passes through, and failures."""

    __hash__ = int.__hash__  # Enum's own takes the name, in Python

    LCM_INIT = 0
    PROLOG = 1
    BOOT = 2
    RUNNING = 3
    MIGRATE = 4
    SAVE_STOP = 5
    SAVE_SUSPEND = 6
    SAVE_MIGRATE = 7
    PROLOG_MIGRATE = 8
    PROLOG_RESUME = 9
    EPILOG_STOP = 10
    EPILOG = 11
    SHUTDOWN = 12
    CLEANUP_RESUBMIT = 15
    UNKNOWN = 16
    HOTPLUG = 17
    SHUTDOWN_POWEROFF = 18
    BOOT_UNKNOWN = 19
    BOOT_POWEROFF = 20
    BOOT_SUSPENDED = 21
    BOOT_STOPPED = 22
    CLEANUP_DELETE = 23
    HOTPLUG_SNAPSHOT = 24
    HOTPLUG_NIC = 25
    HOTPLUG_SAVEAS = 26
    HOTPLUG_SAVEAS_POWEROFF = 27
    HOTPLUG_SAVEAS_SUSPENDED = 28
    SHUTDOWN_UNDEPLOY = 29
    EPILOG_UNDEPLOY = 30
    PROLOG_UNDEPLOY = 31
    BOOT_UNDEPLOY = 32
    HOTPLUG_PROLOG_POWEROFF = 33
    HOTPLUG_EPILOG_POWEROFF = 34
    BOOT_MIGRATE = 35
    BOOT_FAILURE = 36
    BOOT_MIGRATE_FAILURE = 37
    PROLOG_MIGRATE_FAILURE = 38
    PROLOG_FAILURE = 39
    EPILOG_FAILURE = 40
    EPILOG_STOP_FAILURE = 41
    EPILOG_UNDEPLOY_FAILURE = 42
    PROLOG_MIGRATE_POWEROFF = 43
    PROLOG_MIGRATE_POWEROFF_FAILURE = 44
    PROLOG_MIGRATE_SUSPEND = 45
    PROLOG_MIGRATE_SUSPEND_FAILURE = 46
    BOOT_UNDEPLOY_FAILURE = 47
    BOOT_STOPPED_FAILURE = 48
    PROLOG_RESUME_FAILURE = 49
    PROLOG_UNDEPLOY_FAILURE = 50
    PROLOG_MIGRATE_UNKNOWN = 60
    PROLOG_MIGRATE_UNKNOWN_FAILURE = 61
    BACKUP = 69
    BACKUP_POWEROFF = 70


class HostState(IntEnum):
    """HOST/STATE."""

    INIT = 0
    MONITORED = 2
    ERROR = 3
    DISABLED = 4
    OFFLINE = 8


class HostStatus(IntEnum):
    """The argument of one.host.status."""

    ENABLED = 0
    DISABLED = 1
    OFFLINE = 2


class HistoryAction(IntEnum):
    """HISTORY/ACTION: the request that ended, or is about to end, the stay."""

    NONE = 0
    MIGRATE = 1
    LIVE_MIGRATE = 2
    UNDEPLOY = 5
    UNDEPLOY_HARD = 6
    STOP = 9
    SUSPEND = 10
    RESUME = 11
    DELETE = 13
    DELETE_RECREATE = 14
    POWEROFF = 19
    POWEROFF_HARD = 20
    TERMINATE = 27
    TERMINATE_HARD = 28
    MONITOR = 44
    POWEROFF_MIGRATE = 48
    POWEROFF_HARD_MIGRATE = 49


class LockLevel(IntEnum):
    """LOCK/LOCKED. one.vm.lock also takes ALL, which oned stores as USE."""

    USE = 1
    MANAGE = 2
    ADMIN = 3
    ALL = 4


class MigrationType(IntEnum):
    """The last argument of one.vm.migrate: how a running VM leaves its host when it is not moved live."""

    SAVE = 0
    POWEROFF = 1
    POWEROFF_HARD = 2


class DatastoreType(IntEnum):
    """DATASTORE/TYPE."""

    IMAGE = 0
    SYSTEM = 1
    FILE = 2
    BACKUP = 3
