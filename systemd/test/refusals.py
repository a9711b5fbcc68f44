"""What the daemon has to do without, and what it must not do."""

from case import case
from life import expect, nothing_lost, report
from machine import Failure, until

MANIFEST = "/etc/punctual/manifest.toml"
PACKAGE = "usr/share/punctual/models/signs.punctual"


def fails_once(machine, code, words):
    """The start fails with `code`, says why where people look, and is not tried again."""
    machine.systemctl("start", "punctuald.service", succeeds=False)
    expect(machine.show("ActiveState"), "failed", "the daemon")
    expect(machine.show("ExecMainStatus"), str(code), "the code")
    _, status = machine.systemctl("status", "--no-pager", "--full", "punctuald.service", succeeds=False)
    if words not in status:
        raise Failure(f"`systemctl status` does not say {words!r}: {status}")
    closed = lambda: machine.show("ActiveState", "punctuald.socket") == "inactive"
    until(closed, 10, "the socket is closed")
    expect(machine.show("NRestarts"), "0", "the number of restarts")


@case(limit_s=60)
def a_wrong_manifest_fails_once_and_says_why_even_with_a_client_waiting(machine):
    good = (machine.root / MANIFEST.lstrip("/")).read_text()
    machine.write(MANIFEST, good.replace("deadline_ms = 200", "deadline_ms = -200"))
    machine.systemctl("start", "punctuald.socket")
    with machine.steadfast() as client:
        until(lambda: machine.show("ActiveState") == "failed", 10, "the daemon fails")
        fails_once(machine, 3, "deadline_ms")
        machine.write(MANIFEST, good)
        machine.systemctl("restart", "punctuald.service")
        client.wait("verdict")
    return "mended and restarted, the client is answered"


@case(limit_s=60)
def a_manifest_that_was_broken_later_is_told_and_the_last_good_one_served(machine):
    good = (machine.root / MANIFEST.lstrip("/")).read_text()
    machine.systemctl("start", "punctuald.service")
    kept = machine.root / "var/lib/punctual/last-good/current/manifest.toml"
    until(kept.exists, 10, "the configuration is kept")
    expect(kept.read_text(), good, "what was kept")
    package = machine.root / PACKAGE
    machine.write(MANIFEST, good.replace("deadline_ms = 200", "deadline_ms = -200"))
    moved = package.rename(package.with_suffix(".moved"))
    try:
        machine.systemctl("restart", "punctuald.service")
        with machine.steadfast() as client:
            client.wait("verdict")
        status = until(lambda: "clients" in (text := machine.show("StatusText")) and text, 10, "a status")
        if "BY THE LAST GOOD CONFIGURATION" not in status:
            raise Failure(f"the status does not say it: {status}")
        said = machine.journal("-u", "punctuald.service", "-p", "warning")
        if "deadline_ms" not in said or "serving the last one that could" not in said:
            raise Failure(f"the journal does not say it: {said}")
    finally:
        moved.rename(package)
    machine.write(MANIFEST, good)
    machine.systemctl("restart", "punctuald.service")
    expect("LAST GOOD" in machine.show("StatusText"), False, "a corrected configuration is the last good one")
    return f"`{status}`"


@case(limit_s=30)
def a_missing_package_fails_once(machine):
    package = machine.root / PACKAGE
    kept = package.rename(package.with_suffix(".kept"))
    try:
        fails_once(machine, 4, "signs.punctual")
    finally:
        kept.rename(package)


@case(limit_s=30)
def without_a_manifest_nothing_is_started_and_nothing_fails(machine):
    machine.remove(MANIFEST)
    machine.systemctl("start", "punctuald.service")
    expect(machine.show("ActiveState"), "inactive", "the daemon")
    expect(machine.show("ActiveState", "punctuald.socket"), "inactive", "the socket")


@case(limit_s=30)
def without_privileges_it_serves_and_says_so(machine):
    machine.drop_in("[Service]\nCapabilityBoundingSet=\nAmbientCapabilities=\n"
                    "LimitRTPRIO=0\nLimitMEMLOCK=64K\n")
    machine.systemctl("start", "punctuald.service")
    with machine.steadfast() as client:
        client.wait("verdict")
    status = until(lambda: "without" in (text := machine.show("StatusText")) and text, 10, "a status")
    said = machine.journal("-u", "punctuald.service", "-p", "warning")
    for facility in ["SCHED_FIFO", "mlockall"]:
        if facility not in status or facility not in said:
            raise Failure(f"{facility} is missing in `{status}` or in the journal")
    return f"`{status.partition('; ')[2]}`"


@case(limit_s=60)
def a_full_disk_costs_the_report_and_nothing_else(machine):
    machine.run("mount", "-t", "tmpfs", "-o", "size=4k,mode=0755", "full", "/var/lib/punctual")
    try:
        machine.run("sh", "-c", "cat /dev/zero > /var/lib/punctual/filling", succeeds=False)
        machine.systemctl("start", "punctuald.service")
        with machine.steadfast() as client:
            client.wait("verdict on-time")
            machine.systemctl("stop", "punctuald.socket")
            client.wait("alone")
        expect(machine.show("ExecMainStatus"), "5", "the code")
        said = machine.journal("-u", "punctuald.service", "-p", "err")
        if "report" not in said:
            raise Failure(f"the journal does not say it: {said}")
    finally:
        machine.run("umount", "/var/lib/punctual")
    machine.systemctl("start", "punctuald.service")
    machine.systemctl("stop", "punctuald.socket")
    nothing_lost(report(machine))


@case(limit_s=60)
def a_reload_that_cannot_be_served_fails_with_the_reason_and_one_that_can_is_served_by_a_new_process(machine):
    machine.systemctl("start", "punctuald.service")
    before = machine.main_pid()
    good = (machine.root / MANIFEST.lstrip("/")).read_text()
    machine.write(MANIFEST, good.replace("deadline_ms = 200", "deadline_ms = -200"))
    code, _ = machine.systemctl("reload", "punctuald.service", succeeds=False)
    if code == 0:
        raise Failure("the reload succeeded")
    _, status = machine.systemctl("status", "--no-pager", "--full", "punctuald.service", succeeds=False)
    for expected in ["deadline_ms", "continues to serve, unchanged"]:
        if expected not in status:
            raise Failure(f"`systemctl status` does not say {expected!r}: {status}")
    expect(machine.show("ActiveState"), "active", "the daemon")
    expect(machine.main_pid(), before, "the process")
    machine.write(MANIFEST, good)
    with machine.steadfast() as client:
        client.wait("verdict on-time")
        machine.systemctl("reload", "punctuald.service")
        alone = client.wait("alone")
        answered = client.wait("verdict on-time", client.wait("connected", alone))
    if machine.main_pid() in (before, 0):
        raise Failure("the same process serves")
    return f"without a daemon for {(answered - alone) / 1e6:.0f} ms"


@case(limit_s=30)
def the_manifest_can_be_a_credential(machine):
    good = (machine.root / MANIFEST.lstrip("/")).read_text()
    machine.write(MANIFEST, "this is not read")
    machine.write("/etc/secret.toml", good)
    machine.run("chmod", "0600", "/etc/secret.toml")
    machine.drop_in("[Service]\nLoadCredential=\nLoadCredential=manifest.toml:/etc/secret.toml\n")
    machine.systemctl("start", "punctuald.service")
    with machine.steadfast() as client:
        client.wait("verdict")
