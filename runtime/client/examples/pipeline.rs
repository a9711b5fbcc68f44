//! Boxes of a detector, and the class of each by a second network: thirty frames for a pipeline of the manifest.
//!
//!     cargo run --release -p punctual-client --example pipeline -- /tmp/punctual.sock streets
//!
//! The boxes come first, then each crop's answer, then the verdict on the whole frame.

use punctual_client::{Client, Crop, PixelFormat, Response, now_ns};
use punctual_platform::output;

const FRAMES: u8 = 30;

fn main() -> std::process::ExitCode {
    output::end_of("pipeline", show()).into()
}

fn show() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(socket), Some(task)) = (arguments.next(), arguments.next()) else {
        return Err("usage: pipeline SOCKET TASK".into());
    };
    let mut client = Client::connect(&socket, &task, PixelFormat::Rgb8)?;
    for frame in 0..FRAMES {
        let mut slot = client.slot(None)?.ok_or("waits without a limit")?;
        slot.pixels().fill(frame); // a real camera copies its pixels here
        slot.submit(now_ns(), None, Crop { x: 0, y: 0 })?;
        loop {
            let response = client.answer(None)?.ok_or("waits without a limit")?;
            print(&response)?;
            if response.is_final {
                break;
            }
        }
    }
    Ok(())
}

fn print(response: &Response) -> Result<(), Box<dyn std::error::Error>> {
    let (sequence, verdict) = (response.sequence, response.verdict);
    let task = response.task_name().unwrap_or("its task");
    let said = response.class_name().unwrap_or("no class");
    let text = match response.part {
        Some(part) => {
            let (x, y) = (part.crop.x, part.crop.y);
            format!("frame {sequence}, {task} at ({x}, {y}): {said}, {verdict:?}")
        }
        None if response.is_final => {
            let (parts, left_out) = (response.parts().len(), response.left_out);
            format!("frame {sequence}: {verdict:?}, {parts} parts, {left_out} left out")
        }
        None => format!("frame {sequence}, {task}: boxes"),
    };
    Ok(output::line(format_args!("{text}"))?)
}
