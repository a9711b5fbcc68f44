//! A server or a client of one way: pinned, at a real-time priority, and otherwise idle until told.

use std::io::{self, BufRead, Write};
use std::path::PathBuf;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use punctual_platform::clock::{now_ns, sleep_until_ns};
use punctual_platform::thread::{current_tid, set_realtime};

use crate::Result;
use crate::ways::{self, Way};

/// As in `benches/one_way.rs`.
const PRIORITY: u8 = 80;
/// A client that has a core to itself wakes so long before a message is due, and then looks at the
/// clock: the timer's own delay is not the channel's.
const EARLY_NS: u64 = 80_000;

/// How both sides wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Wait {
    /// They look again and again.
    Spin,
    /// They sleep until they are woken.
    Sleep,
}

/// Which side a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Side {
    /// Takes messages and answers.
    Server,
    /// Sends messages when they are due.
    Client,
}

/// A process's command line.
#[derive(Clone, Debug, clap::Args)]
pub struct Orders {
    #[arg(long)]
    pub way: Way,
    #[arg(long)]
    pub side: Side,
    #[arg(long)]
    pub wait: Wait,
    /// Bytes of a message
    #[arg(long)]
    pub bytes: usize,
    #[arg(long)]
    pub index: usize,
    #[arg(long)]
    pub clients: usize,
    /// Where sockets lie, and what services are called
    #[arg(long)]
    pub folder: PathBuf,
    /// Between a client's messages
    #[arg(long)]
    pub period_ns: u64,
    #[arg(long)]
    pub core: usize,
    /// Inherited event descriptors: the server's, then one a client
    #[arg(long, value_delimiter = ',')]
    pub events: Vec<i32>,
}

/// Lives until its standard input ends.
pub fn live(orders: &Orders) -> Result<()> {
    // A client or server never outlives the run, not even stopped.
    set_pdeathsig(Signal::SIGKILL)?;
    let mut set = CpuSet::new();
    set.set(orders.core)?;
    sched_setaffinity(Pid::from_raw(0), &set)?;
    if let Err(missing) = set_realtime(current_tid(), PRIORITY) {
        eprintln!("without {missing}: {}", missing.how_to_grant());
    }
    match orders.side {
        Side::Server => ways::serve(orders),
        Side::Client => send_when_told(orders),
    }
}

/// Each line of the standard input is a number of messages to send; what they took goes to the
/// standard output, as pairs of 64-bit ns: one way, round trip.
fn send_when_told(orders: &Orders) -> Result<()> {
    let mut client = ways::connect(orders)?;
    let mut output = io::stdout().lock();
    output.write_all(b"r")?;
    output.flush()?;
    let mut samples = Vec::new();
    for line in io::stdin().lock().lines() {
        let count: u64 = line?.trim().parse()?;
        samples.clear();
        let period = orders.period_ns;
        let begin_ns = now_ns() + 1_000_000 + period * orders.index as u64 / orders.clients as u64;
        for message in 0..count {
            let due_ns = begin_ns + message * period;
            if orders.clients > 1 {
                sleep_until_ns(due_ns);
            } else {
                sleep_until_ns(due_ns.saturating_sub(EARLY_NS));
                while now_ns() < due_ns {
                    std::hint::spin_loop();
                }
            }
            let there_ns = client.exchange(due_ns)?;
            let back_ns = now_ns();
            samples.extend((there_ns - due_ns).to_le_bytes());
            samples.extend((back_ns - due_ns).to_le_bytes());
        }
        output.write_all(&samples)?;
        output.flush()?;
    }
    Ok(())
}
