"""A booted systemd in a container, with Punctual installed as its package would."""

import contextlib
import os
import queue
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
SUITE = "bookworm"
PROGRAMS = ["systemd-nspawn", "nsenter", "cp"]

# What the unit gives the daemon, which its systemd must have first.
CAPABILITIES = ["CAP_SYS_NICE", "CAP_IPC_LOCK"]

# How long the container may take to boot, and a command in it, in seconds.
BOOT_LIMIT_S = 60
COMMAND_LIMIT_S = 30


class Skip(Exception):
    """This machine cannot do it; says why."""


class Failure(Exception):
    """What was expected did not come to pass."""


def missing_here(cache):
    """Why this machine cannot boot a container, or None."""
    if os.geteuid() != 0:
        return "needs root: a container is booted"
    wanted = PROGRAMS + ([] if (cache / "usr").exists() else ["debootstrap"])
    absent = [name for name in wanted if shutil.which(name) is None]
    return f"needs {', '.join(absent)}" if absent else None


def make_root(cache):
    """A minimal Debian in `cache`, unless it is there; from the distribution's mirror."""
    if (cache / "usr").exists():
        return
    cache.parent.mkdir(parents=True, exist_ok=True)
    fresh = cache.with_suffix(".new")
    shutil.rmtree(fresh, ignore_errors=True)
    command = ["debootstrap", "--variant=minbase", "--include=systemd,systemd-sysv,dbus", SUITE, fresh]
    made = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600)
    if made.returncode != 0:
        raise Skip(f"debootstrap made no root: {made.stdout.strip().splitlines()[-1:]}")
    fresh.rename(cache)


def until(condition, limit_s, what):
    """Looks until `condition()` is true; for states of systemd that nothing announces."""
    end = time.monotonic() + limit_s
    pause = threading.Event()
    while not (found := condition()):
        if time.monotonic() > end:
            raise Failure(f"not within {limit_s} s: {what}")
        pause.wait(0.02)
    return found


class Machine:
    """The container. Everything in it is gone with it."""

    def __init__(self, cache, binaries, client, manifest, profile):
        self.folder = Path(tempfile.mkdtemp(prefix="punctual-systemd-"))
        self.root = self.folder / "root"
        subprocess.run(["cp", "-a", "--reflink=auto", cache, self.root], check=True)
        self.binaries = binaries
        self.client = client
        self.install(manifest, profile)
        self.console = open(self.folder / "console", "wb")
        self.nspawn = None
        self.leader = None

    def install(self, manifest, profile):
        """Files as the package puts them."""
        units = REPOSITORY / "systemd"
        for program in ["punctuald", "punctual"]:
            self.put(self.binaries / program, f"usr/bin/{program}", 0o755)
        self.put(self.client, "usr/bin/steadfast", 0o755)
        for pattern in ["*.service", "*.socket", "*.slice"]:
            for unit in units.glob(pattern):
                self.put(unit, f"usr/lib/systemd/system/{unit.name}")
        for kind in ["sysusers.d", "tmpfiles.d"]:
            self.put(units / kind / "punctual.conf", f"usr/lib/{kind}/punctual.conf")
        self.put(units / "catalog/punctual.catalog", "usr/lib/systemd/catalog/punctual.catalog")
        models = "usr/share/punctual/models"
        self.put(REPOSITORY / "models/signs/signs.punctual", f"{models}/signs.punctual")
        self.put(profile, f"{models}/signs.profile.json")
        self.write("/etc/punctual/manifest.toml", manifest)

    def put(self, source, target, mode=0o644):
        """Copies a file in; a program that runs is replaced, not overwritten."""
        target = self.root / target
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = target.with_name(target.name + ".new")
        shutil.copyfile(source, beside)
        beside.chmod(mode)
        beside.rename(target)

    def write(self, path, text):
        target = self.root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def remove(self, path):
        target = self.root / path.lstrip("/")
        shutil.rmtree(target) if target.is_dir() else target.unlink(missing_ok=True)

    def boot(self):
        """Starts it, and returns when its systemd says that it is up."""
        address = self.folder / "notify"
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        listener.bind(str(address))
        listener.settimeout(BOOT_LIMIT_S)
        command = ["systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--notify-ready=yes",
                   "--console=pipe", f"--capability={','.join(CAPABILITIES)}",
                   # A container without CAP_IPC_LOCK has none of these calls at all.
                   "--system-call-filter=@memlock", "-D", self.root, "-b"]
        self.nspawn = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.console,
                                       stderr=subprocess.STDOUT, start_new_session=True,
                                       env={**os.environ, "NOTIFY_SOCKET": str(address)})
        ready = False
        try:
            while not (ready and self.leader):
                for line in listener.recv(65536).decode().splitlines():
                    name, _, value = line.partition("=")
                    ready |= line == "READY=1"
                    self.leader = int(value) if name == "X_NSPAWN_LEADER_PID" else self.leader
        except TimeoutError:
            raise Skip(f"the container did not boot: {(self.folder / 'console').read_text()[-500:]}")
        finally:
            listener.close()

    def enter(self, *arguments):
        return ["nsenter", "-t", str(self.leader), "-m", "-u", "-i", "-p", "-C", "--", *arguments]

    def run(self, *arguments, succeeds=True, limit_s=COMMAND_LIMIT_S):
        """Runs a command in it; returns its code and all that it said."""
        done = subprocess.run(self.enter(*arguments), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              stdin=subprocess.DEVNULL, text=True, timeout=limit_s)
        if succeeds and done.returncode != 0:
            raise Failure(f"{' '.join(arguments)}: code {done.returncode}: {done.stdout.strip()}")
        return done.returncode, done.stdout

    def systemctl(self, *arguments, succeeds=True):
        return self.run("systemctl", *arguments, succeeds=succeeds)

    def show(self, name, unit="punctuald.service"):
        return self.run("systemctl", "show", "--value", "-p", name, unit)[1].strip()

    def main_pid(self):
        """The daemon's process as the container numbers it."""
        return int(self.show("MainPID"))

    def host_pid(self, inner):
        """How this machine numbers a process of the container."""
        space = os.readlink(f"/proc/{self.leader}/ns/pid")
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and os.readlink(entry / "ns/pid") == space:
                    numbers = re.search(r"^NSpid:(.*)$", (entry / "status").read_text(), re.MULTILINE)
                    if int(numbers.group(1).split()[-1]) == inner:
                        return int(entry.name)
        raise Failure(f"no process {inner} in the container")

    def kill(self, name):
        self.systemctl("kill", "--kill-whom=main", f"--signal={name}", "punctuald.service")

    def journal(self, *matches):
        return self.run("journalctl", "--no-pager", "--boot", *matches)[1]

    def drop_in(self, text):
        """Changes the daemon's unit for one case."""
        self.write("/etc/systemd/system/punctuald.service.d/case.conf", text)
        self.systemctl("daemon-reload")

    @contextlib.contextmanager
    def steadfast(self, task="front"):
        client = Steadfast(self.enter("/usr/bin/steadfast", "/run/punctual/socket", task))
        try:
            yield client
        finally:
            client.end()

    def pristine(self, manifest):
        """As before the first case: nothing runs, nothing is changed."""
        self.systemctl("stop", "punctuald.socket", "punctuald.service", succeeds=False)
        self.remove("/etc/systemd/system/punctuald.service.d")
        self.remove("/var/lib/punctual/last-good")
        self.write("/etc/punctual/manifest.toml", manifest)
        self.systemctl("daemon-reload")
        self.systemctl("reset-failed", succeeds=False)

    def end(self):
        if self.nspawn is not None and self.nspawn.poll() is None:
            # The container's init; with it everything in it.
            with contextlib.suppress(ProcessLookupError, TypeError):
                os.kill(self.leader, signal.SIGKILL)
            try:
                self.nspawn.wait(10)
            except subprocess.TimeoutExpired:
                self.nspawn.kill()
                self.nspawn.wait()
        self.console.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class Steadfast:
    """A client in the container that connects anew whenever the daemon is gone."""

    def __init__(self, command):
        # A session of its own: nsenter is not the client, but its parent.
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
                                        start_new_session=True)
        self.lines = queue.Queue()
        self.seen = []
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            at_ns, _, what = line.strip().partition(" ")
            self.lines.put((int(at_ns), what))

    def wait(self, what, after_ns=0, limit_s=10):
        """The time of the next line that begins with `what` and was said after `after_ns`."""
        end = time.monotonic() + limit_s
        while True:
            try:
                at_ns, said = self.lines.get(timeout=max(0, end - time.monotonic()))
            except queue.Empty:
                last = [said for _, said in self.seen[-3:]]
                raise Failure(f"the client saw no `{what}` within {limit_s} s; last: {last}") from None
            self.seen.append((at_ns, said))
            if at_ns > after_ns and said.startswith(what):
                return at_ns

    def said(self, what):
        """All lines so far that begin with `what`."""
        while not self.lines.empty():
            self.seen.append(self.lines.get())
        return [said for _, said in self.seen if said.startswith(what)]

    def end(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
