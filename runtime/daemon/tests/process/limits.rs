//! Limits below the plan are refused with their figures, before the kernel ends the daemon for them.

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use crate::support::{Folder, MANIFEST};
use punctual_platform::clock;

/// `punctuald` as [`Folder::command`] has it, started by a shell that first does what `before` says.
fn shell(folder: &Folder, before: &str) -> Command {
    let daemon = folder.command();
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{before} && exec \"$@\""), "sh"]);
    shell.arg(daemon.get_program()).args(daemon.get_args());
    shell
}

/// How it ended; none if it serves.
fn outcome(folder: &Folder, before: &str) -> Option<Output> {
    let _ = std::fs::remove_file(folder.path("notify"));
    let manager = UnixDatagram::bind(folder.path("notify")).expect("a socket");
    let look = Some(Duration::from_millis(20));
    manager.set_read_timeout(look).expect("a time limit");
    let mut command = shell(folder, before);
    command
        .env("NOTIFY_SOCKET", folder.path("notify"))
        .stderr(std::process::Stdio::piped());
    let mut child = command.spawn().expect("a shell");
    let limit = clock::now_ns() + crate::support::LIMIT.as_nanos() as u64;
    while child.try_wait().expect("a child").is_none() {
        let mut message = [0; 512];
        let heard = manager.recv(&mut message).unwrap_or(0);
        if message[..heard].starts_with(b"READY=1") {
            child.kill().expect("it runs");
            child.wait().expect("it ends");
            return None;
        }
        assert!(clock::now_ns() < limit, "neither ready nor ended");
    }
    Some(child.wait_with_output().expect("it ended"))
}

/// Raises a limit step by step until the daemon serves: until then it ends with code 5 each time.
fn sweep(flag: &str, steps: impl Iterator<Item = u64>, words: &str) {
    let folder = Folder::with(MANIFEST);
    let mut said = String::new();
    for step in steps {
        let Some(output) = outcome(&folder, &format!("ulimit {flag} {step}")) else {
            assert!(said.contains(words), "the last refusal: {said:?}");
            return;
        };
        said = String::from_utf8_lossy(&output.stderr).into_owned();
        let (code, status) = (output.status.code(), output.status);
        assert_eq!(code, Some(5), "ulimit {flag} {step}: {status} {said}");
    }
    panic!("it does not serve with the highest limit either: {said}");
}

#[test]
fn an_address_space_that_is_too_small_is_refused_with_the_figures() {
    // With less memory the loader cannot even map the unoptimised program, and fails before the daemon runs.
    sweep("-v", (40_000..500_000).step_by(3_001), "RLIMIT_AS");
}

#[test]
fn a_data_segment_that_is_too_small_is_refused_with_the_figures() {
    sweep("-d", (2_000..500_000).step_by(5_001), "RLIMIT_DATA");
}

#[test]
fn too_few_descriptors_are_an_error_of_resources() {
    // The last refusal knows how many there must be; with fewer its own files cannot be read.
    sweep("-n", 8..100, "LimitNOFILE=");
}

/// A control group of our own, with a limit on memory; gone with it.
struct Group(PathBuf);

impl Group {
    /// None where this is not permitted.
    fn with_limit(bytes: u64) -> Option<Self> {
        let own = std::fs::read_to_string("/proc/self/cgroup").ok()?;
        let group = |controllers: &str| {
            let line = own.lines().find_map(|line| {
                let (_, line) = line.split_once(':')?;
                line.strip_prefix(controllers)?.strip_prefix(":/")
            });
            line.map(str::to_owned)
        };
        let places = [
            (
                group("memory"),
                "/sys/fs/cgroup/memory",
                "memory.limit_in_bytes",
            ),
            (group(""), "/sys/fs/cgroup", "memory.max"),
        ];
        let make = |(group, mount, limit): (Option<String>, &str, &str)| {
            let name = format!("punctual-test-{}", std::process::id());
            let made = Self(Path::new(mount).join(group?).join(name));
            std::fs::create_dir(&made.0).ok()?;
            std::fs::write(made.0.join(limit), bytes.to_string()).ok()?;
            Some(made)
        };
        places.into_iter().find_map(make)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn a_control_group_that_may_have_less_than_the_plan_is_refused_with_the_figures() {
    let Some(group) = Group::with_limit(32 << 20) else {
        eprintln!("skipped: this process may make no control group");
        return;
    };
    let folder = Folder::with(MANIFEST);
    let enter = format!("echo $$ > {}/cgroup.procs", group.0.display());
    let output = outcome(&folder, &enter).expect("a refusal");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{said}");
    assert!(
        said.contains("the control group may have 32.0 MiB"),
        "{said}"
    );
    assert!(said.contains("MemoryMax="), "{said}");
}
