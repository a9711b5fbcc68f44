//! A client that outlives its daemon: shows one frame after the other, and says what happened when.
//! `systemd/test` kills, stops and upgrades the daemon while this client runs.
//!
//!     cargo run --release -p punctual-client --example steadfast -- /run/punctual/socket front
//!
//! Each line begins with the time, in ns of the monotonic clock: `T connected` for each daemon, `T verdict
//! on-time` (or late, rejected, failed, gone) for each frame, `T alone` when there is no daemon.

use std::error::Error;

use punctual_client::{Client, Crop, Failure, Options, PixelFormat, Verdict, now_ns};
use punctual_platform::output::{self, OutputError};

/// How long to wait for anything before looking around, in ns.
const PATIENCE_NS: u64 = 20_000_000;

fn main() -> std::process::ExitCode {
    output::end_of("steadfast", watch()).into()
}

fn watch() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(socket), Some(task)) = (arguments.next(), arguments.next()) else {
        return Err("usage: steadfast SOCKET TASK".into());
    };
    let mut client = Options::new(&socket, &task, PixelFormat::Rgb8).open(None)?;
    let mut daemons = 0;
    let mut alone = false;
    loop {
        if client.connections() > daemons {
            (daemons, alone) = (client.connections(), false);
            say("connected")?;
        }
        if !client.is_connected() && !alone {
            alone = true;
            say("alone")?;
        }
        show(&mut client)?;
    }
}

/// Submits a frame, unless one is under way, and waits a moment for a verdict.
fn show(client: &mut Client) -> Result<(), Box<dyn Error>> {
    if client.unanswered() == 0
        && let Some(mut slot) = client.slot(Some(now_ns() + PATIENCE_NS))?
    {
        slot.pixels().fill(128);
        slot.submit(now_ns(), None, Crop { x: 0, y: 0 })?;
    }
    if let Some(record) = client.verdict(Some(now_ns() + PATIENCE_NS))? {
        say(match record.verdict {
            Verdict::OnTime => "verdict on-time",
            Verdict::Late => "verdict late",
            Verdict::Rejected(_) => "verdict rejected",
            Verdict::Failed(Failure::DaemonGone) => "verdict gone",
            Verdict::Failed(_) => "verdict failed",
        })?;
    }
    Ok(())
}

fn say(what: &str) -> Result<(), OutputError> {
    output::line(format_args!("{} {what}", now_ns()))
}
