//! A client that outlives its daemon: shows one frame after the other, connects anew whenever the daemon is
//! gone, and says what happened when. `systemd/test` kills, stops and upgrades the daemon beside it.
//!
//!     cargo run --release -p punctual-client --example steadfast -- /run/punctual/socket front
//!
//! Each line begins with the time, in ns of the monotonic clock: `T connected`, `T verdict on-time` (or late,
//! rejected, failed), `T gone 1` with how many frames got no verdict.

use std::io::Write as _;

use punctual_client::{Client, Crop, Failure, PixelFormat, Verdict, now_ns};
use punctual_platform::clock::sleep_until_ns;

/// How long to wait after a refused connection, in ns.
const PATIENCE_NS: u64 = 2_000_000;

/// A daemon that does not answer within this time, in ns, is asked no further.
const ANSWER_NS: u64 = 30_000_000_000;

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (Some(socket), Some(task)) = (arguments.next(), arguments.next()) else {
        return Err(std::io::Error::other("usage: steadfast SOCKET TASK"));
    };
    loop {
        match Client::connect(&socket, &task, PixelFormat::Rgb8) {
            Ok(mut client) => {
                say("connected")?;
                let lost = show(&mut client);
                say(&format!("gone {lost}"))?;
            }
            Err(_) => sleep_until_ns(now_ns() + PATIENCE_NS),
        }
    }
}

/// One frame at a time, until the daemon is gone. Returns how many frames it left without a verdict.
fn show(client: &mut Client) -> u64 {
    let mut lost = 0;
    loop {
        match client.slot(Some(now_ns() + ANSWER_NS)) {
            Ok(Some(mut slot)) => {
                slot.pixels().fill(128);
                if slot.submit(now_ns(), None, Crop { x: 0, y: 0 }).is_err() {
                    return lost;
                }
            }
            Ok(None) => {}
            Err(_) => return lost,
        }
        let Ok(Some(record)) = client.verdict(Some(now_ns() + ANSWER_NS)) else {
            return lost + client.unanswered();
        };
        if record.verdict == Verdict::Failed(Failure::DaemonGone) {
            lost += 1;
            continue;
        }
        let verdict = match record.verdict {
            Verdict::OnTime => "on-time",
            Verdict::Late => "late",
            Verdict::Rejected(_) => "rejected",
            Verdict::Failed(_) => "failed",
        };
        // Whoever read this is gone, and with it the reason to go on.
        if say(&format!("verdict {verdict}")).is_err() {
            std::process::exit(0);
        }
    }
}

fn say(what: &str) -> std::io::Result<()> {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{} {what}", now_ns())?;
    output.flush()
}
