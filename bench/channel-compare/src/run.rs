//! The run: processes of every way at once, of which one way's are awake at a time, in turns.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use hdrhistogram::Histogram;
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use punctual_platform::clock::{now_ns, sleep_until_ns};

use crate::Result;
use crate::child::Wait;
use crate::report::{Report, Row};
use crate::ways::{HEADER_BYTES, Way};

/// A 640x480 RGB picture.
const FRAME_BYTES: usize = 921_600;
/// Messages of each client in one turn of a way.
const TURN: u64 = 100;
/// How long a server may take to come up, in ns.
const START_NS: u64 = 10_000_000_000;

/// What a run is to be.
#[derive(clap::Args)]
pub struct Arguments {
    /// Turns of each way, of 100 messages a client
    #[arg(long, default_value_t = 50)]
    turns: u64,
    /// Numbers of clients; spinning is measured with one only, and only with two cores or more
    #[arg(long, value_delimiter = ',', default_value = "1,4,16")]
    clients: Vec<usize>,
    /// Leave the processor's idle states alone
    #[arg(long)]
    default_idle: bool,
    /// Write everything here as JSON
    #[arg(long)]
    json: Option<PathBuf>,
    /// Draw the round trips here
    #[arg(long)]
    svg: Option<PathBuf>,
}

/// Measures everything that was asked for, and prints the table.
pub fn run(arguments: &Arguments) -> Result<()> {
    let cores = std::thread::available_parallelism()?.get();
    let awake = (!arguments.default_idle).then(hold_awake).transpose()?;
    let mut report = Report::new(arguments.turns * TURN, cores, awake.is_some());
    for bytes in [HEADER_BYTES, FRAME_BYTES] {
        for wait in [Wait::Spin, Wait::Sleep] {
            for &clients in &arguments.clients {
                if wait == Wait::Spin && 1 + clients > cores {
                    continue;
                }
                eprintln!("{bytes} bytes, {wait:?}, {clients} clients");
                report
                    .rows
                    .extend(measure(arguments, bytes, wait, clients, cores)?);
            }
        }
    }
    println!("{}", report.table());
    if let Some(path) = &arguments.json {
        std::fs::write(path, serde_json::to_string_pretty(&report)?)?;
    }
    if let Some(path) = &arguments.svg {
        std::fs::write(path, report.svg())?;
    }
    Ok(())
}

/// As long as this is open the processor does not sleep deeply.
fn hold_awake() -> Result<File> {
    let mut file = OpenOptions::new()
        .write(true)
        .open("/dev/cpu_dma_latency")?;
    file.write_all(&0_i32.to_ne_bytes())?;
    Ok(file)
}

fn measure(
    arguments: &Arguments,
    bytes: usize,
    wait: Wait,
    clients: usize,
    cores: usize,
) -> Result<Vec<Row>> {
    let folder = std::env::temp_dir().join(format!("punctual-compare-{}", now_ns()));
    std::fs::create_dir(&folder)?;
    let mut groups = Vec::new();
    for way in Way::ALL.into_iter().filter(|way| way.carries(bytes)) {
        groups.push(Group::start(way, &folder, bytes, wait, clients, cores)?);
    }
    for _ in 0..arguments.turns {
        for group in &mut groups {
            group.turn()?;
        }
    }
    let rows = groups.iter().map(|group| Row {
        way: group.way,
        bytes,
        wait,
        clients,
        one_way: (&group.one_way).into(),
        round_trip: (&group.round_trip).into(),
    });
    let rows = rows.collect();
    drop(groups);
    std::fs::remove_dir_all(&folder)?;
    Ok(rows)
}

/// A server and its clients.
struct Group {
    way: Way,
    server: Child,
    clients: Vec<(Child, ChildStdin, ChildStdout)>,
    one_way: Histogram<u64>,
    round_trip: Histogram<u64>,
    /// Inherited by all, and kept open until they are gone.
    _events: Vec<OwnedFd>,
}

impl Group {
    fn start(
        way: Way,
        folder: &Path,
        bytes: usize,
        wait: Wait,
        clients: usize,
        cores: usize,
    ) -> Result<Self> {
        let events = events(way, clients)?;
        let raw: Vec<String> = events.iter().map(|e| e.as_raw_fd().to_string()).collect();
        let command = |side: &str, index: usize, core: usize| -> Result<Command> {
            let mut command = Command::new(std::env::current_exe()?);
            let wait = if wait == Wait::Spin { "spin" } else { "sleep" };
            let way = serde_json::to_string(&way)?;
            let period_ns = period_ns(bytes, wait, clients);
            command.args(["child", "--way", way.trim_matches('"')]);
            command.args(["--side", side, "--wait", wait]);
            command.arg("--folder").arg(folder);
            command.arg(format!("--bytes={bytes}"));
            command.arg(format!("--index={index}"));
            command.arg(format!("--clients={clients}"));
            command.arg(format!("--period-ns={period_ns}"));
            command.arg(format!("--core={core}"));
            if !raw.is_empty() {
                command.arg(format!("--events={}", raw.join(",")));
            }
            Ok(command)
        };
        let histogram = || Histogram::new_with_max(60_000_000_000, 3);
        let server = command("server", 0, cores - 1)?
            .stdin(Stdio::null())
            .spawn()?;
        let mut group = Self {
            way,
            server,
            clients: Vec::new(),
            one_way: histogram()?,
            round_trip: histogram()?,
            _events: events,
        };
        group.wait_for_server(folder)?;
        for index in 0..clients {
            let mut client = command("client", index, 0)?
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()?;
            let orders = client.stdin.take().ok_or("no pipe")?;
            let samples = client.stdout.take().ok_or("no pipe")?;
            group.clients.push((client, orders, samples));
        }
        for (_, _, samples) in &mut group.clients {
            samples.read_exact(&mut [0])?;
        }
        group.signal(Signal::SIGSTOP)?;
        Ok(group)
    }

    /// Until there is something to connect to.
    fn wait_for_server(&self, folder: &Path) -> Result<()> {
        let socket = match self.way {
            Way::Channel => folder.join("channel"),
            Way::Seqpacket => folder.join("seqpacket"),
            Way::Iceoryx2 | Way::Eventfd => return Ok(()),
        };
        let limit_ns = now_ns() + START_NS;
        // A socket that is bound takes a moment until it listens.
        while std::os::unix::net::UnixStream::connect(&socket)
            .is_err_and(|error| error.raw_os_error() != Some(nix::libc::EPROTOTYPE))
        {
            if now_ns() > limit_ns {
                return Err("the server does not come up".into());
            }
            sleep_until_ns(now_ns() + 1_000_000);
        }
        Ok(())
    }

    /// Lets this group run while all others stand still.
    fn turn(&mut self) -> Result<()> {
        self.signal(Signal::SIGCONT)?;
        for (_, orders, _) in &mut self.clients {
            writeln!(orders, "{TURN}")?;
        }
        let mut buffer = vec![0; TURN as usize * 16];
        for (_, _, samples) in &mut self.clients {
            samples.read_exact(&mut buffer)?;
            for pair in buffer.chunks_exact(16) {
                let ns = |at: usize| {
                    let bytes = pair[at..at + 8].try_into().expect("eight of them");
                    u64::from_le_bytes(bytes)
                };
                self.one_way.saturating_record(ns(0));
                self.round_trip.saturating_record(ns(8));
            }
        }
        self.signal(Signal::SIGSTOP)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill(Pid::from_raw(self.server.id().cast_signed()), signal)?)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let children = self.clients.iter_mut().map(|(child, ..)| child);
        for child in children.chain([&mut self.server]) {
            // Gone already, if it failed.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Between a client's messages: what a turn's work takes, several times.
fn period_ns(bytes: usize, wait: &str, clients: usize) -> u64 {
    let each: u64 = match (bytes > HEADER_BYTES, wait) {
        (false, "spin") => 50_000,
        (false, _) => 400_000,
        (true, _) => 1_000_000,
    };
    each * clients as u64
}

/// Two event descriptors a client, for the one way that needs them.
fn events(way: Way, clients: usize) -> Result<Vec<OwnedFd>> {
    let count = if way == Way::Eventfd { 2 * clients } else { 0 };
    let made = (0..count).map(|_| EventFd::from_value_and_flags(0, EfdFlags::EFD_NONBLOCK));
    Ok(made
        .map(|event| event.map(OwnedFd::from))
        .collect::<nix::Result<_>>()?)
}
