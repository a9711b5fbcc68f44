"""A daemon to test against: the least that one can do, in a process that can be killed.

PUNCTUAL_ECHO_DAEMON names it (cargo build -p punctual-client-c --example echo_daemon),
PUNCTUAL_LIBRARY the library.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


class Daemon:
    """A daemon at one path that can be killed and started again."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *sides: str) -> None:
        program = os.environ["PUNCTUAL_ECHO_DAEMON"]
        self._process = subprocess.Popen(
            [program, str(self.socket), *sides], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"

    def kill(self) -> None:
        """As SIGKILL does: no word to anybody."""
        if self._process is None:
            return
        self._process.kill()
        self._process.communicate()
        self._process = None


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    daemon = Daemon(tmp_path / "socket")
    daemon.start()
    yield daemon
    daemon.kill()
