//! `channel-torture`: the long version of what `cargo test` does for seconds.
#![forbid(unsafe_code)]

use std::io::{IsTerminal, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use punctual_platform::clock::now_ns;
use punctual_platform::output;
use punctual_torture::child;
use punctual_torture::orders::Orders;
use punctual_torture::rig::{self, Against, Options};

/// How often progress is shown, in ns.
const PROGRESS_NS: u64 = 1_000_000_000;

/// Kills, stops and attacks clients of the channel, and checks that no other client notices
///
/// Exit codes: 0 nothing was lost, doubled or wrong; 1 something was (the report says what);
/// 2 wrong usage; 3 it could not run or print its report; 141 the reader of standard output closed it.
#[derive(Parser)]
#[command(
    version,
    after_help = "Examples:\n  \
    channel-torture --frames 10000000 --kills 10000 --hostile 1 --json\n  \
    channel-torture --socket /run/punctual/punctuald.sock --task signs --clients 2 --kills 100"
)]
#[command(args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    client: Option<Command>,
    #[command(flatten)]
    torture: Torture,
}

#[derive(Subcommand)]
enum Command {
    /// A process that the program starts itself
    #[command(hide = true)]
    Client(Orders),
}

#[derive(clap::Args)]
struct Torture {
    /// Submissions, at least
    #[arg(long, default_value_t = 1_000_000)]
    frames: u64,
    /// Clients to kill
    #[arg(long, default_value_t = 1_000)]
    kills: u64,
    /// Healthy clients at a time
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=64))]
    clients: u8,
    /// Hostile clients at a time
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=16))]
    hostile: u8,
    /// Seed of all random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Slots of a client
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    slots: u16,
    /// Pixels of a frame's side
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(4..=2048))]
    side: u32,
    /// Verdicts later than this are counted, in ms
    #[arg(long, default_value_t = 100)]
    late_ms: u32,
    /// Test the daemon that listens here, instead of one in this process
    #[arg(long, requires = "task")]
    socket: Option<PathBuf>,
    /// The daemon's task to feed
    #[arg(long, requires = "socket")]
    task: Option<String>,
    /// The task answers with its frames' pixels, in an output "output": each answer is compared with its frame
    #[arg(long, requires = "task")]
    mirrors: bool,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(usage) => {
            return output::usage_code(usage.print(), usage.exit_code(), "channel-torture", 3)
                .into();
        }
    };
    match cli.client {
        Some(Command::Client(orders)) => match child::live(&orders) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => failed(&error),
        },
        None => torture(&cli.torture),
    }
}

fn torture(arguments: &Torture) -> ExitCode {
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return failed(&error),
    };
    let against = match (&arguments.socket, &arguments.task) {
        (Some(socket), Some(task)) => Against::Daemon {
            socket: socket.clone(),
            task: task.clone(),
            mirrors: arguments.mirrors,
        },
        _ => Against::OwnServer {
            slots: arguments.slots,
            side: arguments.side,
        },
    };
    let options = Options {
        frames: arguments.frames,
        kills: arguments.kills,
        clients: arguments.clients.into(),
        hostile: arguments.hostile.into(),
        seed: arguments.seed,
        late_ns: u64::from(arguments.late_ms) * 1_000_000,
        against,
        client: vec![program.into(), "client".into()],
    };
    let report = match rig::run(&options, &mut progress(&options)) {
        Ok(report) => report,
        Err(error) => return failed(&error),
    };
    let printed = if arguments.json {
        match serde_json::to_string_pretty(&report) {
            Ok(json) => output::line(json),
            Err(error) => return failed(&error),
        }
    } else {
        output::line(&report)
    };
    match printed {
        Ok(()) => ExitCode::from(u8::from(!report.is_clean())),
        Err(error) => ExitCode::from(error.end("channel-torture", 3)),
    }
}

/// Says once a second how far it is, on a terminal.
fn progress(options: &Options) -> impl FnMut(u64, u64) + use<> {
    let terminal = std::io::stderr().is_terminal();
    let (frames_max, kills_max) = (options.frames, options.kills);
    let mut next_ns = now_ns() + PROGRESS_NS;
    move |frames, kills| {
        let now = now_ns();
        if terminal && now >= next_ns {
            next_ns = now + PROGRESS_NS;
            // A failure to print it is ignored.
            let _ = write!(
                std::io::stderr(),
                "\r{frames} of {frames_max} submissions, {kills} of {kills_max} kills "
            );
        }
    }
}

fn failed(error: &dyn std::error::Error) -> ExitCode {
    output::note(format_args!("channel-torture: {error}"));
    ExitCode::from(3)
}
