//! A vector in, a tensor out: thirty frames, each with a speed, whose answers are rows of numbers.
//!
//!     cargo run --release -p punctual-client --example vectors -- /tmp/punctual.sock camera
//!
//! The task gives an output `boxes` and takes a vector `speed` of two numbers.

use punctual_client::{Client, Crop, PixelFormat, Response, now_ns};
use punctual_platform::output;

const FRAMES: u8 = 30;

fn main() -> std::process::ExitCode {
    output::end_of("vectors", show()).into()
}

fn show() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(socket), Some(task)) = (arguments.next(), arguments.next()) else {
        return Err("usage: vectors SOCKET TASK".into());
    };
    let mut client = Client::connect(&socket, &task, PixelFormat::Rgb8)?;
    for frame in 0..FRAMES {
        let mut slot = client.slot(None)?.ok_or("waits without a limit")?;
        slot.pixels().fill(frame % 2);
        slot.set_vector("speed", &[1.5, f32::from(frame) / 2.0])?;
        slot.submit(now_ns(), None, Crop { x: 0, y: 0 })?;
        let response = client.verdict(None)?.ok_or("waits without a limit")?;
        print(&response)?;
        // Here the daemon gets the memory of the boxes back.
    }
    Ok(())
}

fn print(response: &Response) -> Result<(), Box<dyn std::error::Error>> {
    let (sequence, verdict) = (response.sequence, response.verdict);
    let Some(outputs) = response.outputs() else {
        return Ok(output::line(format_args!("frame {sequence}: {verdict:?}"))?);
    };
    let boxes = outputs.get("boxes").ok_or("the task gives no boxes")?;
    let [_, columns] = boxes.shape() else {
        return Err("boxes in rows and columns were expected".into());
    };
    let rows = boxes.as_f32()?.chunks(*columns as usize);
    let rows: Vec<String> = rows.map(|row| format!("{row:?}")).collect();
    let class = response.class_name().unwrap_or("no class");
    let rows = rows.join(" ");
    Ok(output::line(format_args!(
        "frame {sequence}: {class}, boxes: {rows}"
    ))?)
}
