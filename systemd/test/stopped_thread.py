"""Stops one thread of another process, as a fault would: by the interface of debuggers, ptrace(2)."""

import ctypes
import os
from pathlib import Path

from machine import Failure, Skip

SEIZE, INTERRUPT = 0x4206, 0x4207
# Waits for threads that are no children of ours.
WALL = 0x40000000


def stop_thread(pid, name):
    """Stops the thread `name` of process `pid`, and waits until it is gone: a process ends only when who
    traces one of its threads has seen that end."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    tids = [int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()
            if (task / "comm").read_text().strip() == name]
    if len(tids) != 1:
        raise Failure(f"{len(tids)} threads of process {pid} are called {name}")
    for request in [SEIZE, INTERRUPT]:
        if libc.ptrace(request, tids[0], None, None) != 0:
            raise Skip(f"this system does not let threads be traced: {os.strerror(ctypes.get_errno())}")
    stopped = True
    while stopped:
        try:
            _, status = os.waitpid(tids[0], WALL)
            stopped = os.WIFSTOPPED(status)
        except ChildProcessError:
            stopped = False
