"""A server for ssh on loopback, run as a program: `ssh_server.py FOLDER`.

It lets in the key of FOLDER/client.pub, writes its own to FOLDER/host.pub and what it was asked to
FOLDER/asked, prints its port, and does what the first word says: done, fail, go_down, vanish or hang.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import asyncssh  # type: ignore[import-not-found, unused-ignore]


async def _answer(folder: Path, process: Any) -> None:
    with (folder / "asked").open("a") as asked:
        asked.write(f"{process.get_extra_info('username')}: {process.command}\n")
    match process.command.split()[0]:
        case "done":
            process.exit(0)
        case "fail":
            process.stderr.write("sudo: a password is required\n")
            process.exit(1)
        case "go_down":
            # Whoever still has something to say hears of a broken pipe instead.
            await process.stdin.read()
            process.channel.get_connection().abort()
        case "vanish":
            process.close()
        case "hang":
            await asyncio.sleep(600)


async def _serve(folder: Path) -> None:
    key = asyncssh.generate_private_key("ssh-ed25519")
    (folder / "host.pub").write_text(key.export_public_key().decode())
    server = await asyncssh.listen(
        "127.0.0.1",
        0,
        server_host_keys=[key],
        authorized_client_keys=str(folder / "client.pub"),
        process_factory=lambda process: _answer(folder, process),
    )
    print(server.get_port(), flush=True)  # noqa: T201
    await asyncio.sleep(600)


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1])))
