//! The run itself: keeps a given number of clients alive, kills and stops them at random points, and compares the counters.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use hdrhistogram::Histogram;
use punctual_platform::clock::now_ns;
use punctual_platform::poll::Poller;
use punctual_types::Random;

use crate::acceptor::Acceptor;
use crate::crowd::Client;
use crate::error::RigError;
use crate::ledger::Phase;
use crate::orders::{Answers, Orders, Role};
use crate::report::{Report, Times};
use crate::server::Server;

/// How long the rig looks at nothing, at most, in ns.
const ROUND_NS: u64 = 1_000_000;
/// The longest that a client is stopped, in ns.
const STOP_NS_MAX: u64 = 20_000_000;
/// Without any progress for so long something is stuck, in ns.
const STANDSTILL_NS: u64 = 30_000_000_000;
/// Descriptors that one wait of the acceptor reports at most.
const READY: usize = 64;

/// What the clients are let loose on.
#[derive(Clone, Debug)]
pub enum Against {
    /// The daemon's side of the channel, in this process, with counters of its own.
    OwnServer {
        slots: u16,
        /// Pixels of a frame's side.
        side: u32,
    },
    /// A daemon that runs already: only the clients count.
    Daemon {
        socket: PathBuf,
        task: String,
        /// The task's answers are its frames' pixels.
        mirrors: bool,
    },
}

impl Against {
    fn answers(&self) -> Answers {
        match self {
            Self::OwnServer { .. } => Answers::Computed,
            Self::Daemon { mirrors: true, .. } => Answers::Mirrored,
            Self::Daemon { mirrors: false, .. } => Answers::Unknown,
        }
    }
}

#[derive(Clone, Debug)]
pub struct Options {
    /// The least number of submissions.
    pub frames: u64,
    /// The least number of SIGKILLs.
    pub kills: u64,
    pub clients: usize,
    pub hostile: usize,
    pub seed: u64,
    /// A verdict later than this counts as late, in ns.
    pub late_ns: u64,
    pub against: Against,
    /// The program that becomes a client, with its leading arguments.
    pub client: Vec<OsString>,
}

/// Runs, telling `progress` now and then how many submissions and kills there have been.
pub fn run(options: &Options, progress: &mut dyn FnMut(u64, u64)) -> Result<Report, RigError> {
    let mut rig = Rig::new(options)?;
    let began_ns = now_ns();
    let (mut last, mut last_ns) = (0, began_ns);
    while rig.frames < options.frames || rig.report.kills < options.kills {
        rig.round(true)?;
        progress(rig.frames, rig.report.kills);
        let now = now_ns();
        if rig.frames + rig.report.kills != last {
            (last, last_ns) = (rig.frames + rig.report.kills, now);
        } else if now - last_ns > STANDSTILL_NS {
            rig.report.find("standstill", 1);
            break;
        }
    }
    let limit_ns = now_ns() + STANDSTILL_NS;
    for client in rig.crowd.values_mut() {
        client.ask_to_leave()?;
    }
    while !rig.crowd.is_empty() && now_ns() < limit_ns {
        rig.round(false)?;
    }
    let left = rig.crowd.len() as u64;
    rig.report.find("client that would not leave", left);
    rig.report.seconds = (now_ns() - began_ns) as f64 / 1e9;
    Ok(rig.close())
}

struct Rig<'o> {
    options: &'o Options,
    random: Random,
    poller: Poller,
    /// The daemon's side, if it is ours.
    own: Option<(Acceptor, Server)>,
    orders: Orders,
    crowd: BTreeMap<u64, Client>,
    started: u64,
    frames: u64,
    /// Of clients that are buried, against a running daemon.
    frames_of_the_dead: u64,
    /// At how many submissions the next kill is due.
    next_kill: u64,
    freed: Histogram<u64>,
    entry: Histogram<u64>,
    report: Report,
}

impl<'o> Rig<'o> {
    fn new(options: &'o Options) -> Result<Self, RigError> {
        let poller = Poller::new(READY)?;
        let (own, socket, task) = match &options.against {
            Against::Daemon { socket, task, .. } => (None, socket.clone(), task.clone()),
            Against::OwnServer { slots, side } => {
                let name = format!("punctual-torture-{}-{}", std::process::id(), options.seed);
                let path = std::env::temp_dir().join(name);
                let acceptor = Acceptor::open(&path, *slots, *side, &poller)?;
                let server = Server::start(options.seed, Poller::new(READY)?, poller.waker())?;
                (Some((acceptor, server)), path, "torture".to_owned())
            }
        };
        let histogram = || Histogram::new_with_max(60_000_000_000, 3).expect("a minute");
        Ok(Self {
            orders: Orders {
                role: Role::Healthy,
                socket,
                task,
                seed: options.seed,
                late_ns: options.late_ns,
                answers: options.against.answers(),
            },
            options,
            random: Random::new(options.seed).stream("rig", 0),
            poller,
            own,
            crowd: BTreeMap::new(),
            started: 0,
            frames: 0,
            frames_of_the_dead: 0,
            next_kill: 0,
            freed: histogram(),
            entry: histogram(),
            report: Report {
                seed: options.seed,
                ..Report::default()
            },
        })
    }

    fn round(&mut self, full: bool) -> Result<(), RigError> {
        if full {
            self.fill_up()?;
        }
        self.poller.wait(Some(now_ns() + ROUND_NS)).for_each(drop);
        let acceptor_is_idle = self.serve()?;
        self.count()?;
        if full {
            self.disturb()?;
        }
        let now = now_ns();
        for client in self.crowd.values_mut() {
            client.resume(now)?;
            client.reap()?;
        }
        self.bury(acceptor_is_idle)
    }

    /// Starts clients until there are as many as the options ask for.
    fn fill_up(&mut self) -> Result<(), RigError> {
        for (role, wanted) in [
            (Role::Healthy, self.options.clients),
            (Role::Hostile, self.options.hostile),
        ] {
            let alive = |client: &&Client| client.role == role && client.is_alive();
            for _ in self.crowd.values().filter(alive).count()..wanted {
                self.orders.role = role;
                let client = Client::start(&self.options.client, &self.orders)?;
                self.crowd.insert(self.started, client);
                self.started += 1;
            }
        }
        Ok(())
    }

    /// Admits clients and collects connections that have ended. Whether no handshake is pending.
    fn serve(&mut self) -> Result<bool, RigError> {
        let Some((acceptor, server)) = &mut self.own else {
            return Ok(true);
        };
        for admitted in acceptor.answer(&self.poller, now_ns())? {
            // The latest of this process id: earlier ones are dead.
            let client = self.crowd.values_mut().rfind(|c| c.pid() == admitted.pid);
            let healthy = client.filter(|client| client.role == Role::Healthy);
            let counts = healthy.is_some();
            if let Some(client) = healthy {
                client.token = Some(admitted.token);
            }
            server.serve(admitted.token, admitted.channel, counts);
        }
        while let Some(ended) = server.ended() {
            let of = |client: &&mut Client| client.token == Some(ended.token);
            if let Some(client) = self.crowd.values_mut().find(of) {
                client.end(&ended);
                continue;
            }
            self.report
                .find("slot leaked by a hostile client", ended.counts.leaked);
            let name = ended.fault.name();
            *self.report.hostile_faults.entry(name).or_default() += 1;
        }
        Ok(acceptor.is_idle())
    }

    fn count(&mut self) -> Result<(), RigError> {
        if let Some((_, server)) = &self.own {
            self.frames = server.accepted();
            return Ok(());
        }
        self.frames = self.frames_of_the_dead;
        for client in self.crowd.values() {
            if client.role == Role::Healthy {
                self.frames += client.entry()?.begun;
            }
        }
        Ok(())
    }

    /// Kills the client whose turn has come, and stops others.
    fn disturb(&mut self) -> Result<(), RigError> {
        let spacing = (2 * self.options.frames)
            .checked_div(self.options.kills)
            .map_or(0, |n| n.max(1));
        let last_ones = self.frames >= self.options.frames;
        while self.report.kills < self.options.kills && (last_ones || self.frames >= self.next_kill)
        {
            self.next_kill += 1 + self.random.below(spacing);
            if self.random.one_in(2) {
                let until_ns = now_ns() + self.random.below(STOP_NS_MAX);
                if let Some(client) = self.someone() {
                    client.stop(until_ns)?;
                    self.report.stops += 1;
                }
            }
            let Some(client) = self.someone() else {
                break;
            };
            let stopped = client.stopped_until_ns.is_some();
            client.kill()?;
            self.report.kills += 1;
            self.report.kills_while_stopped += u64::from(stopped);
        }
        Ok(())
    }

    fn someone(&mut self) -> Option<&mut Client> {
        let alive = self.crowd.values().filter(|c| c.is_alive()).count() as u64;
        let which = self.random.below(alive.max(1)) as usize;
        self.crowd.values_mut().filter(|c| c.is_alive()).nth(which)
    }

    /// Compares the counters of clients that have ended.
    fn bury(&mut self, acceptor_is_idle: bool) -> Result<(), RigError> {
        let over: Vec<u64> = self
            .crowd
            .iter()
            .filter(|(_, client)| client.is_over(acceptor_is_idle))
            .map(|(&serial, _)| serial)
            .collect();
        for serial in over {
            let Some(client) = self.crowd.remove(&serial) else {
                continue;
            };
            let freed_ns = client.audit(self.own.is_some(), &mut self.report)?;
            let entry = client.entry()?;
            if client.role == Role::Healthy {
                self.frames_of_the_dead += entry.begun;
                if entry.phase != Phase::Outside && entry.entry_ns > 0 {
                    self.entry.saturating_record(entry.entry_ns);
                }
            }
            if let Some(freed_ns) = freed_ns {
                self.freed.saturating_record(freed_ns);
            }
        }
        Ok(())
    }

    fn close(mut self) -> Report {
        self.report.processes = self.started;
        self.report.freed = Times::of(&self.freed);
        self.report.entry = Times::of(&self.entry);
        // Everything that was submitted has its verdict or its excuse.
        let told = self.report.verdicts + self.report.gone;
        self.report.find(
            "submission unaccounted for",
            self.report.submitted.abs_diff(told),
        );
        self.report
    }
}
