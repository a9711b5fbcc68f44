//! Watches a process from outside: what it holds, now and then, until it ends or SIGTERM comes.

use std::io::Read as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use nix::unistd::{SysconfVar, sysconf};
use punctual_client::now_ns;

use super::{AgentError, say, signals, told_to_end};
use crate::records::Sample;
use crate::target::child::pause;

/// The longest answer of a metrics socket.
const METRICS_BYTES_MAX: u64 = 4 << 20;

/// The process to sample.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Which process.
    #[arg(long)]
    pid: u32,
    /// Time between two samples, in milliseconds.
    #[arg(long, default_value_t = 1000)]
    every_ms: u64,
    /// One sample only.
    #[arg(long)]
    once: bool,
}

/// Says a sample now and then.
pub fn run(options: &Options) -> Result<(), AgentError> {
    let signals = signals(&[])?;
    let every_ns = options.every_ms.max(1) * 1_000_000;
    let mut due_ns = now_ns();
    while !told_to_end(&signals) {
        if now_ns() < due_ns {
            let left_ms = (due_ns - now_ns()).div_ceil(1_000_000);
            pause(left_ms.min(100) as u16);
            continue;
        }
        due_ns += every_ns;
        let Some(sample) = look(options.pid) else {
            return Ok(());
        };
        say(&sample);
        if options.once {
            break;
        }
    }
    Ok(())
}

/// What a process holds; none if it has ended.
fn look(pid: u32) -> Option<Sample> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    };
    Some(Sample {
        at_ns: now_ns(),
        // Absent when the process has ended and its parent has not waited for it.
        rss_kib: field("VmRSS:")?,
        threads: field("Threads:")?,
        descriptors: std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count() as u64,
        cpu_ms: cpu_ms(&format!("/proc/{pid}/stat"))?,
        ports_cpu_ms: thread_cpu_ms(pid, "port/"),
    })
}

/// What a process or thread has computed for; none if it has ended.
fn cpu_ms(stat: &str) -> Option<u64> {
    let stat = std::fs::read_to_string(stat).ok()?;
    // Behind the name, which may contain anything: utime and stime are the 12th and 13th.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    let per_second = sysconf(SysconfVar::CLK_TCK).ok()??;
    Some((ticks()? + ticks()?) * 1000 / per_second.max(1) as u64)
}

/// What the threads of this name have computed for.
fn thread_cpu_ms(pid: u32, prefix: &str) -> u64 {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task"));
    let threads = threads
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    let named = threads.filter(|path| {
        std::fs::read_to_string(path.join("comm")).is_ok_and(|found| found.starts_with(prefix))
    });
    named
        .filter_map(|path| cpu_ms(&path.join("stat").to_string_lossy()))
        .sum()
}

/// What the daemon whose clients connect at `socket` reports about itself: one line of JSON.
pub fn metrics(socket: &Path) -> Result<String, AgentError> {
    let failed = AgentError::io("the metrics socket");
    let mut path = socket.as_os_str().to_owned();
    path.push(".metrics");
    let stream = UnixStream::connect(&path).map_err(&failed)?;
    stream
        .set_read_timeout(Some(Duration::from_secs(2)))
        .map_err(&failed)?;
    let mut text = String::new();
    stream
        .take(METRICS_BYTES_MAX)
        .read_to_string(&mut text)
        .map_err(&failed)?;
    Ok(text.replace('\n', " "))
}

#[cfg(test)]
mod tests {
    use super::look;

    #[test]
    fn this_very_process_is_seen() {
        let sample = look(std::process::id()).expect("it lives");
        assert!(
            sample.rss_kib > 0 && sample.threads > 0 && sample.descriptors > 2,
            "{sample:?}"
        );
    }

    #[test]
    fn a_process_that_never_was_is_not_seen() {
        assert_eq!(look(u32::MAX), None);
    }
}
