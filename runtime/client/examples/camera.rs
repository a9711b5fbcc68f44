//! A camera in a few lines: thirty frames a second for five seconds, their verdicts, and a control loop that acts on
//! the newest answer.
//!
//!     cargo run --release -p punctual-client --example camera -- /tmp/punctual.sock camera

use punctual_client::{Client, Crop, Outputs, PixelFormat, Response, Verdict, now_ns};
use punctual_platform::clock::sleep_until_ns;
use punctual_platform::output::{self, OutputError};

const FRAMES: u64 = 150;
const PERIOD_NS: u64 = 1_000_000_000 / 30;
const DEADLINE_NS: u64 = 33_000_000;
/// Of the control loop, for each frame.
const TURNS: u64 = 4;

fn main() -> std::process::ExitCode {
    output::end_of("camera", show()).into()
}

fn show() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(socket), Some(task)) = (arguments.next(), arguments.next()) else {
        return Err("usage: camera SOCKET TASK".into());
    };
    let mut client = Client::connect(&socket, &task, PixelFormat::Rgb8)?;
    let stride = client.frame().row_stride as usize;

    let start = now_ns();
    for turn in 0..TURNS * FRAMES {
        let (frame, captured) = (turn / TURNS, start + turn * PERIOD_NS / TURNS);
        sleep_until_ns(captured);
        if let Some(newest) = client.latest() {
            // A robot steers here: before the verdict, unless the manifest wants one answer.
            let (frame, class) = (newest.sequence, newest.class_name().unwrap_or("an answer"));
            output::line(format_args!("newest: {class}, frame {frame}"))?;
        }
        while let Some(result) = client.try_verdict()? {
            print(&result)?;
        }
        if turn % TURNS != 0 {
            continue;
        }
        let Some(mut slot) = client.slot(Some(0))? else {
            output::line(format_args!("frame {frame}: every slot is still in use"))?;
            continue;
        };
        for (y, row) in slot.pixels().chunks_mut(stride).enumerate() {
            row.fill((y as u64 + frame) as u8); // a real camera copies its pixels here
        }
        slot.submit(captured, Some(captured + DEADLINE_NS), Crop { x: 0, y: 0 })?;
    }
    while client.unanswered() > 0 {
        let Some(result) = client.verdict(Some(now_ns() + 1_000_000_000))? else {
            return Err("a verdict is missing".into());
        };
        print(&result)?;
    }
    Ok(())
}

fn print(result: &Response) -> Result<(), OutputError> {
    let ms = result.finished_ns.saturating_sub(result.captured_ns) as f64 / 1e6;
    match (result.verdict, result.answer) {
        (Verdict::OnTime | Verdict::Late, Some(answer)) => {
            let class = result.class_name().unwrap_or("an answer");
            output::line(format_args!(
                "frame {}: {class} by exit {} after {ms:.2} ms",
                result.sequence, answer.exit
            ))?;
            // What the manifest's `outputs` names; of one class nothing by default.
            for tensor in result.outputs().into_iter().flat_map(Outputs::iter) {
                output::line(format_args!("  {tensor:?}"))?;
            }
            Ok(())
        }
        (verdict, _) => output::line(format_args!("frame {}: {verdict:?}", result.sequence)),
    }
}
