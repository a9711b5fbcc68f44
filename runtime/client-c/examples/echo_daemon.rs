//! The least that a daemon can do, as a process: for tests of client libraries that want to kill it.
//! Answers each frame with its first pixel as the class; ends when its standard input does.
//!
//!     cargo run -p punctual-client-c --example echo_daemon -- SOCKET [WIDTH HEIGHT [FORMAT|outputs|each-exit|detections|two-tasks]]

#[path = "../../client/tests/echo_daemon/mod.rs"]
mod echo_daemon;

use std::io::Read as _;

use echo_daemon::EchoDaemon;
use punctual_client::{FrameSpec, OutputTerms, PixelFormat, StreamTerms};

fn main() -> std::io::Result<()> {
    let usage = || std::io::Error::other("usage: echo_daemon SOCKET [WIDTH HEIGHT [FORMAT]]");
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (socket, sides) = arguments.split_first().ok_or_else(usage)?;
    let side = |at: usize, usual: u32| {
        let given = sides.get(at);
        given.map_or(Ok(usual), |text| text.parse().map_err(|_| usage()))
    };
    let (width, height) = (side(0, 64)?, side(1, 48)?);
    let format = match sides.get(2).map(String::as_str) {
        None | Some("outputs" | "each-exit" | "detections" | "two-tasks") => PixelFormat::Rgb8,
        Some(format) => format.parse().map_err(|_| usage())?,
    };
    let (crop_width, crop_height) = match format {
        // Three channels.
        PixelFormat::Tensor => (width, height / 3),
        _ => (32, 32),
    };
    // What a daemon that was killed has left.
    let _ = std::fs::remove_file(socket);
    let start = match sides.get(2).map(String::as_str) {
        Some("outputs") => EchoDaemon::start_giving_outputs,
        Some("each-exit") => EchoDaemon::start_giving_each_exit,
        Some("detections") => EchoDaemon::start_giving_detections,
        Some("two-tasks") => EchoDaemon::start_with_two_tasks,
        _ => EchoDaemon::start_at,
    };
    let daemon = start(
        socket.into(),
        StreamTerms {
            stream: 0,
            slots: 4,
            results: 8,
            frame: FrameSpec::packed(format, width, height),
            outputs: OutputTerms::default(),
            vectors: 0,
            records: 1,
            crop_width,
            crop_height,
        },
    );
    println!("ready");
    std::io::stdin().read_to_end(&mut Vec::new())?;
    daemon.stop();
    Ok(())
}
