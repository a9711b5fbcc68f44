//! What the kernel lets the holder of a descriptor attach to it: signals to a whole process group at each event, leases,
//! and locks. The daemon's thread that causes the event sends the signals.

use std::os::fd::AsRawFd as _;
use std::process::{Child, Command, Stdio};

use nix::unistd::{Pid, setpgid};

use super::{AgentError, Attack, own};

/// Turns of one client.
const STAY: u64 = 20;

/// Admitted clients whose every descriptor has such hooks.
pub fn be_told(attack: &mut Attack<'_>) -> Result<(), AgentError> {
    // Refused where it leads a session, and so its group.
    let _ = setpgid(Pid::from_raw(0), Pid::from_raw(0));
    let group = Group::of(attack.options.count);
    while attack.goes_on(1) {
        let Some(client) = attack.arrived_client() else {
            continue;
        };
        let descriptors = client.files.iter().chain([&client.socket]);
        attack.done.waiters = group.0.len() as u64;
        attack.done.changes += descriptors
            .map(|descriptor| own::hang_hooks(descriptor.as_raw_fd()))
            .sum::<u64>();
        client.say_mapped();
        attack.ring_for_nothing(&client, STAY);
    }
    Ok(())
}

/// Processes of this one's group that do nothing.
struct Group(Vec<Child>);

impl Group {
    /// As many as can be started, at most `count`.
    fn of(count: usize) -> Self {
        let sleeper = |_| {
            let mut sleep = Command::new("sleep");
            sleep.arg("120").stdin(Stdio::null()).stdout(Stdio::null());
            sleep.spawn().ok()
        };
        Self((0..count).map_while(sleeper).collect())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // It sleeps and cannot have ended.
            let _ = child.kill();
        }
        for child in &mut self.0 {
            let _ = child.wait();
        }
    }
}
