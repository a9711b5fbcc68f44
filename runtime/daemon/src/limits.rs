//! Limits of this process and of its control group, compared with what the plan takes: beyond them the
//! kernel refuses memory at some later moment, or ends the process.

use std::path::PathBuf;

use punctual_plan::{Plan, PreparedBy, Purpose};
use punctual_platform::control_group::{self, MemoryLimit};
use punctual_platform::limits::{self, MemoryResource};
use punctual_platform::memory;
use punctual_platform::pinned::Pins;

/// Descriptors of a client, in addition to buffers of its own and the pins of its outputs: socket, event, epoll instance;
/// while it is admitted also its three memory files, and two of what waits for it. All places may be in that state at once.
const FILES_A_CLIENT: u64 = 3 + 3 + 2;

/// Descriptors of a port, whether or not its client is there: epoll instance and event.
const FILES_A_PORT: u64 = 2;

/// Descriptors that connections never get: for readers of the metrics, and for what is open for a moment only,
/// such as memory files that are being made.
const FILES_RESERVED: u64 = 4 + crate::pools::READERS_MAX as u64;

/// What the smallest plan takes, in bytes. With less the daemon refuses to start before it reads a plan.
const LEAST_BYTES: u64 = 24 << 20;

/// A limit that the plan does not fit into.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    #[error(
        "{} are needed beside the {} that the process has, and its limit on {resource} is {}: \
         raise the limit, or make the plan smaller (`punctual check` lists what it takes)",
        Mebibytes(*planned), Mebibytes(*used), Mebibytes(*limit)
    )]
    Process {
        resource: MemoryResource,
        /// What the plan takes, or the least of plans, in bytes.
        planned: u64,
        used: u64,
        limit: u64,
    },
    #[error(
        "the plan takes {}, and the control group may have {} ({}): the kernel would end the daemon. \
         Raise MemoryMax= and MemoryHigh= of the unit and its slices, or the container's memory, or make \
         the plan smaller (`punctual check` lists what it takes)",
        Mebibytes(*planned), Mebibytes(*limit), file.display()
    )]
    ControlGroup {
        /// What the plan takes, in bytes.
        planned: u64,
        limit: u64,
        /// The kernel's file with the limit.
        file: PathBuf,
    },
    #[error(
        "{needed} file descriptors are needed for all clients, and the limit is {limit}: raise \
         LimitNOFILE= of the unit, or `ulimit -n`"
    )]
    Files {
        /// With all clients connected, and one in its handshake.
        needed: u64,
        limit: u64,
    },
}

/// Whether any plan at all can be served.
pub fn check_any() -> Result<(), LimitError> {
    if process_limits().next().is_some() {
        // Otherwise each thread that allocates reserves 64 MiB of addresses for a heap of its own.
        memory::share_heap();
    }
    check_process(LEAST_BYTES)
}

/// Whether this plan can be served.
pub fn check(plan: &Plan) -> Result<(), LimitError> {
    // The program is mapped already, so that it is among what the process has.
    let items = plan.memory.items.iter();
    let mapped = items.filter(|item| item.purpose == Purpose::Program);
    let mapped: u64 = mapped.map(|item| item.total_bytes()).sum();
    let planned = plan.memory.total_bytes();
    check_process(planned.saturating_sub(mapped))?;
    check_group(planned, control_group::memory_limit())
}

/// Whether the descriptors are enough for the ports of this plan, which are not open yet, and its clients.
pub fn check_files(plan: &Plan) -> Result<(), LimitError> {
    let Some((limit, open)) = limits::open_files() else {
        return Ok(());
    };
    let ports = FILES_A_PORT * plan.client_slots.len() as u64;
    room(limit, open + ports, clients_files(plan), 1).map(drop)
}

/// How many connections there may be that are not clients (yet): as many as leave room for all clients
/// of the plan, and at most `wanted`. To be called once everything else is open, since it counts open descriptors.
pub fn strangers(plan: &Plan, wanted: usize) -> Result<usize, LimitError> {
    match limits::open_files() {
        Some((limit, open)) => room(limit, open, clients_files(plan), wanted),
        None => Ok(wanted),
    }
}

fn clients_files(plan: &Plan) -> u64 {
    let clients = plan.client_slots.iter();
    let files = clients.map(|client| {
        let task = plan.task(client.task);
        // A device that imports a buffer has a descriptor of its own.
        let holders = match task.arrival.prepared_by {
            PreparedBy::Cores => 1,
            PreparedBy::Gpu => 2,
        };
        let own = if task.entry.import_buffers {
            holders * task.channel.slots
        } else {
            0
        };
        let channel = &task.channel;
        let outputs = channel.description_bytes + channel.area_stride() * u64::from(channel.slots);
        FILES_A_CLIENT + u64::from(own) + Pins::files(outputs as usize) as u64
    });
    files.sum()
}

fn room(limit: u64, open: u64, clients: u64, wanted: usize) -> Result<usize, LimitError> {
    let taken = open + clients + FILES_RESERVED;
    match limit.saturating_sub(taken) {
        0 => Err(LimitError::Files {
            needed: taken + 1,
            limit,
        }),
        left => Ok(wanted.min(usize::try_from(left).unwrap_or(wanted))),
    }
}

fn process_limits() -> impl Iterator<Item = (MemoryResource, u64)> {
    let limits = MemoryResource::ALL.into_iter();
    limits.filter_map(|resource| Some((resource, resource.limit_bytes()?)))
}

fn check_process(planned: u64) -> Result<(), LimitError> {
    for (resource, limit) in process_limits() {
        let used = resource.used_bytes();
        if used.saturating_add(planned) > limit {
            return Err(LimitError::Process {
                resource,
                planned,
                used,
                limit,
            });
        }
    }
    Ok(())
}

fn check_group(planned: u64, limit: Option<MemoryLimit>) -> Result<(), LimitError> {
    match limit {
        Some(MemoryLimit { bytes, file }) if planned > bytes => Err(LimitError::ControlGroup {
            planned,
            limit: bytes,
            file,
        }),
        _ => Ok(()),
    }
}

struct Mebibytes(u64);

impl std::fmt::Display for Mebibytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.1} MiB", self.0 as f64 / f64::from(1 << 20))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_get_the_descriptors_that_clients_leave_and_none_is_too_few() {
        let taken = 20 + 12 + FILES_RESERVED;
        assert_eq!(room(1024, 20, 12, 96), Ok(96));
        assert_eq!(room(taken + 5, 20, 12, 96), Ok(5));
        let needed = taken + 1;
        let none = LimitError::Files {
            needed,
            limit: taken,
        };
        assert_eq!(room(taken, 20, 12, 96), Err(none));
        assert_eq!(room(needed, 20, 12, 96), Ok(1));
    }

    #[test]
    fn a_group_that_may_have_what_the_plan_takes_is_enough_and_a_byte_less_is_not() {
        let group = |bytes| {
            let file = "/sys/fs/cgroup/memory.max".into();
            Some(MemoryLimit { bytes, file })
        };
        assert_eq!(check_group(100 << 20, None), Ok(()));
        assert_eq!(check_group(100 << 20, group(100 << 20)), Ok(()));
        let error = check_group(100 << 20, group((100 << 20) - 1)).unwrap_err();
        let said = error.to_string();
        for words in ["100.0 MiB", "/sys/fs/cgroup/memory.max", "MemoryMax="] {
            assert!(said.contains(words), "{said}");
        }
    }
}
