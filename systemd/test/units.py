"""The units as systemd reads them."""

import re
from fnmatch import fnmatch
import tomllib

from case import case
from machine import REPOSITORY, Failure

# What a service alone must stay below.
EXPOSURE_MAX = 1.5

# Under which names of /proc/devices the drivers of boards register what CUDA opens: by the sources of nvgpu, nvmap and host1x,
# and by the open kernel modules.
GPU_NODES = {
    "Xavier, JetPack 5": ["17000000.gv11b", "nvhost", "nvmap"],
    "Orin, JetPack 5": ["17000000.ga10b", "nvhost", "nvmap"],
    "Orin, JetPack 6": ["17000000.gpu", "host1x-fence", "nvmap", "drm"],
    "Thor, PC": ["nvidia", "nvidia-uvm", "nvidia-caps", "drm"],
}


@case(limit_s=20)
def systemd_has_no_complaint_about_the_units(machine):
    units = ["punctuald.service", "punctuald.socket", "punctual.slice", "punctual-metrics.service"]
    for name in ["gpu", "idle", "coredump"]:
        text = (REPOSITORY / "systemd/drop-ins" / f"{name}.conf").read_text()
        machine.write(f"/etc/systemd/system/punctuald.service.d/{name}.conf", text)
    # Without manual pages, which a package brings and this root does not have.
    _, said = machine.run("systemd-analyze", "verify", "--man=no", *units)
    ours = [line for line in said.splitlines() if "punctual" in line]
    if ours:
        raise Failure("\n".join(ours))


@case(limit_s=30)
def the_exposure_is_what_the_budget_says(machine):
    folder = REPOSITORY / "systemd"
    budget = tomllib.loads((folder / "exposure.toml").read_text())
    found = {}
    for service, figures in budget.items():
        found[service] = {}
        for name in figures:
            drop_in = "" if name == "alone" else (folder / "drop-ins" / f"{name}.conf").read_text()
            machine.write(f"/etc/systemd/system/{service}.service.d/case.conf", drop_in)
            command = ["systemd-analyze", "security", "--offline=yes", "--no-pager", f"{service}.service"]
            _, said = machine.run(*command)
            found[service][name] = float(re.search(r"exposure level.*: ([0-9.]+)", said).group(1))
    if found != budget:
        raise Failure(f"exposure.toml says {budget}, systemd-analyze {found}")
    for service, figures in found.items():
        if figures["alone"] > EXPOSURE_MAX:
            raise Failure(f"{service}: {figures['alone']} is above {EXPOSURE_MAX}")
    return str(found)


@case(limit_s=5)
def the_gpus_drop_in_allows_the_nodes_of_every_board_and_no_others(machine):
    text = (REPOSITORY / "systemd/drop-ins/gpu.conf").read_text()
    allowed = re.findall(r"^DeviceAllow=char-(\S+) rw$", text, re.MULTILINE)
    for board, names in GPU_NODES.items():
        for name in names:
            if not any(fnmatch(name, pattern) for pattern in allowed):
                raise Failure(f"{board}: {name} is matched by none of {allowed}")
    for name in ["video4linux", "mem", "input", "ttyTHS", "gpiochip", "i2c"]:
        if any(fnmatch(name, pattern) for pattern in allowed):
            raise Failure(f"{name} is allowed, too")


@case(limit_s=20)
def user_and_folders_come_from_sysusers_and_tmpfiles(machine):
    _, user = machine.run("getent", "passwd", "punctual")
    if "nologin" not in user:
        raise Failure(f"a user that can log in: {user}")
    _, groups = machine.run("id", "-nG", "punctual")
    if not {"video", "render"} <= set(groups.split()):
        raise Failure(f"the nodes of a GPU are not the user's to open: {groups}")
    _, folder = machine.run("stat", "-c", "%U:%G %a", "/run/punctual")
    if folder.strip() != "punctual:punctual-clients 2750":
        raise Failure(f"/run/punctual: {folder}")
    if "punctual-clients" in groups.split():
        raise Failure("the daemon's user is a member of its clients' group")
