//! Clients that mean harm, each a process with a bound in time and a seed for all that is random.
//! They know the channel from `docs/channel.md` alone. `testing/torture` is the thorough one for the
//! rings; these are for what one client can do to the others and to the daemon.

mod baggage;
mod bells;
mod buffers;
mod fuse;
mod hooks;
mod lingering;
mod memory;
mod metrics;
mod openings;
pub(super) mod own;
mod ring;
mod slow;
mod wire;

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signalfd::SignalFd;
use nix::sys::socket::SockType;
use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};
use punctual_client::now_ns;
use punctual_types::Random;

use super::{AgentError, say, signals, told_to_end};
use crate::records::AttackCounts;
use crate::target::child::pause;

/// How often the account is said, in ns.
const SAY_NS: u64 = 200_000_000;

/// What an attacker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    /// Openings that are none: random bytes, too long, half of one.
    Garbage,
    /// Openings that come as late as they may.
    Slow,
    /// Connections that send nothing; `--count` are held, each replaced when it is closed.
    Silent,
    /// Connections that are closed at once, as fast as possible.
    Storm,
    /// Clients that are admitted and disconnect at once.
    Visits,
    /// Openings whose sender is gone before the answer.
    Deserters,
    /// A process group of `--count` is told by signals of whatever happens to the client's descriptors, which it leases and locks.
    Hooks,
    /// Descriptors that are slow to close, instead of an opening.
    BaggageBefore,
    /// With an opening that announces none.
    BaggageUnannounced,
    /// With an opening that announces them, to a task that takes none, or takes them.
    BaggageAnnounced,
    /// In messages behind the opening.
    BaggageBehind,
    /// In place of doorbells, after the welcome.
    BaggageAfter,
    /// At the metrics socket.
    BaggageMetrics,
    /// Files of a FUSE file system that no longer answers, announced.
    BaggageFuse,
    /// Buffers that are none: wrong kinds of descriptors, wrong sizes, wrong numbers of them.
    Buffers,
    /// The doorbell is emptied, filled to its maximum, and made blocking.
    BellMistreated,
    /// Thousands wait for the doorbell.
    BellWatched,
    /// `--count` rings of io_uring wait for the doorbell and the socket, as often as each can.
    BellPolled,
    /// The doorbell is rung without end, for nothing.
    BellRung,
    /// `--count` threads wait for the bell of the results.
    Waiters,
    /// Random words all over the shared memory.
    Scribble,
    /// Holes in the shared memory and in memory of its own.
    Holes,
    /// Slow punches into the shared memory, mapped `--count` times, before and after the client says that it has mapped it.
    SlowHoles,
    /// The shared memory is collapsed into huge pages by a thread that hardly runs.
    Collapse,
    /// The kernel is given every advice about the shared memory, which is locked, synced, mapped and unmapped all the time.
    Advise,
    /// `--count` threads with 128 words each wait in the kernel's queue of the bell of the results.
    Bucket,
    /// Submissions that are refused at once, as fast as the rings allow, from another core than the daemon's.
    Refused,
    /// Pixels and descriptors are rewritten while the daemon reads them.
    Rewrite,
    /// Readers of the metrics that do not read, write, shut down one direction, or stay.
    Metrics,
    /// Garbage, silence and scribbling in turn.
    Mixed,
}

/// The attacked daemon, and the kind of attack.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// The kind of attack.
    #[arg(long, value_enum)]
    kind: Kind,
    /// Where the daemon listens.
    #[arg(long)]
    socket: PathBuf,
    /// A task of its manifest.
    #[arg(long)]
    task: String,
    /// Seed of all random choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Duration, in seconds; absent: until SIGTERM.
    #[arg(long)]
    seconds: Option<f64>,
    /// How many, for kinds that hold several.
    #[arg(long, default_value_t = 8)]
    count: usize,
    /// Run as this user, with a group of the same number and no other.
    #[arg(long)]
    uid: Option<u32>,
    /// An empty folder for a mount.
    #[arg(long, default_value = "mount")]
    folder: PathBuf,
}

/// Attacks until the time is over.
pub fn run(options: &Options) -> Result<(), AgentError> {
    // Every descriptor that the system grants: some attacks are made of them.
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).map_err(AgentError::os("getrlimit"))?;
    setrlimit(Resource::RLIMIT_NOFILE, most, most).map_err(AgentError::os("setrlimit"))?;
    if let Some(uid) = options.uid {
        become_user(uid).map_err(AgentError::os("become another user"))?;
    }
    let mut attack = Attack {
        options,
        signals: signals(&[])?,
        random: Random::new(options.seed),
        done: AttackCounts::default(),
        end_ns: options.seconds.map(|s| now_ns() + (s * 1e9) as u64),
        say_ns: now_ns(),
    };
    let outcome = match options.kind {
        Kind::Garbage => openings::garbage(&mut attack),
        Kind::Slow => openings::slow(&mut attack),
        Kind::Silent => openings::silent(&mut attack),
        Kind::Storm => openings::storm(&mut attack),
        Kind::Visits => openings::visits(&mut attack),
        Kind::Deserters => openings::desert(&mut attack),
        Kind::Hooks => hooks::be_told(&mut attack),
        Kind::BaggageBefore => baggage::at(&mut attack, baggage::Point::Before),
        Kind::BaggageUnannounced => baggage::at(&mut attack, baggage::Point::Unannounced),
        Kind::BaggageAnnounced => baggage::at(&mut attack, baggage::Point::Announced),
        Kind::BaggageBehind => baggage::at(&mut attack, baggage::Point::Behind),
        Kind::BaggageAfter => baggage::at(&mut attack, baggage::Point::After),
        Kind::BaggageMetrics => baggage::at(&mut attack, baggage::Point::Metrics),
        Kind::BaggageFuse => fuse::send_its_files(&mut attack),
        Kind::Buffers => buffers::wrong(&mut attack),
        Kind::BellMistreated => bells::mistreat(&mut attack),
        Kind::BellWatched => bells::watch(&mut attack),
        Kind::BellPolled => bells::poll_by_rings(&mut attack),
        Kind::BellRung => bells::ring(&mut attack),
        Kind::Waiters => bells::wait_in_crowds(&mut attack),
        Kind::Scribble => memory::scribble(&mut attack),
        Kind::Holes => memory::punch_holes(&mut attack),
        Kind::SlowHoles => slow::punch(&mut attack),
        Kind::Collapse => slow::collapse(&mut attack),
        Kind::Advise => slow::advise(&mut attack),
        Kind::Bucket => slow::crowd_the_bucket(&mut attack),
        Kind::Refused => slow::be_refused(&mut attack),
        Kind::Rewrite => memory::rewrite(&mut attack),
        Kind::Metrics => metrics::abuse(&mut attack),
        Kind::Mixed => mixed(&mut attack),
    };
    attack.done.finished = outcome.is_ok();
    say(&attack.done);
    outcome
}

/// Gives up the superuser, for good.
fn become_user(uid: u32) -> nix::Result<()> {
    let (user, group) = (Uid::from_raw(uid), Gid::from_raw(uid));
    setgroups(&[])?;
    setresgid(group, group, group)?;
    setresuid(user, user, user)
}

struct Attack<'a> {
    options: &'a Options,
    signals: SignalFd,
    random: Random,
    done: AttackCounts,
    end_ns: Option<u64>,
    say_ns: u64,
}

impl Attack<'_> {
    /// Whether there is time for another turn; waits a little first, so that this is a bad neighbour
    /// and not a processor hog, which is another role.
    fn goes_on(&mut self, pause_ms: u16) -> bool {
        if now_ns() >= self.say_ns {
            say(&self.done);
            self.say_ns = now_ns() + SAY_NS;
        }
        if pause_ms > 0 {
            pause(pause_ms);
        }
        self.end_ns.is_none_or(|end| now_ns() < end) && !told_to_end(&self.signals)
    }

    /// A connection on which nothing was said yet; counted.
    fn connected(&mut self) -> Option<OwnedFd> {
        let socket = wire::connected(&self.options.socket, SockType::SeqPacket).ok()?;
        self.done.acts += 1;
        Some(socket)
    }

    /// A connection to the metrics socket; counted.
    fn connected_to_metrics(&mut self) -> Option<OwnedFd> {
        let mut path = self.options.socket.clone().into_os_string();
        path.push(".metrics");
        let socket = wire::connected(Path::new(&path), SockType::Stream).ok()?;
        self.done.acts += 1;
        Some(socket)
    }

    /// A client that was sent its memory and has not said that it mapped it; counted.
    fn arrived_client(&mut self) -> Option<wire::Welcomed> {
        let welcomed = wire::Welcomed::unmapped(&self.options.socket, &self.options.task)?;
        self.done.acts += 1;
        self.done.admitted += 1;
        Some(welcomed)
    }

    /// Rings until the time is over, so often at most, and counts whether the daemon ended the client for it.
    fn ring_for_nothing(&mut self, client: &wire::Welcomed, times: u64) {
        for _ in 0..times {
            if !self.goes_on(5) || wire::is_closed(&client.socket, 0) {
                break;
            }
            client.ring();
        }
        self.done.ended += u64::from(wire::is_closed(&client.socket, 0));
    }

    /// A client that is admitted as any other; counted.
    fn admitted_client(&mut self) -> Option<wire::Welcomed> {
        let welcomed = wire::Welcomed::by(&self.options.socket, &self.options.task)?;
        self.done.acts += 1;
        self.done.admitted += 1;
        Some(welcomed)
    }
}

/// As many silent connections as a besieger of every kind holds.
const MUTES: usize = 8;

fn mixed(attack: &mut Attack<'_>) -> Result<(), AgentError> {
    let mut mutes = Vec::new();
    while attack.goes_on(1) {
        match attack.random.below(3) {
            0 => openings::say_garbage(attack),
            1 => {
                mutes.truncate(MUTES - 1);
                let mute = attack.connected();
                mutes.splice(..0, mute);
            }
            _ => memory::scribble_once(attack),
        }
    }
    Ok(())
}
