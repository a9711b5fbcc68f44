//! Boxes in the camera's frame: thirty frames, and what a detector sees in the crop in their middle.
//!
//!     cargo run --release -p punctual-client --example detector -- /tmp/punctual.sock camera
//!
//! The task gives `detections` and `count`, as Punctual's decoder makes them; `docs/decode.md` has the other heads.

use punctual_client::{Client, Crop, PixelFormat, Response, now_ns};
use punctual_decode::{Detections, Rows};
use punctual_platform::output;

const FRAMES: u8 = 30;

fn main() -> std::process::ExitCode {
    output::end_of("detector", show()).into()
}

fn show() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(socket), Some(task)) = (arguments.next(), arguments.next()) else {
        return Err("usage: detector SOCKET TASK".into());
    };
    let mut client = Client::connect(&socket, &task, PixelFormat::Rgb8)?;
    let last = client.terms().crop_max();
    let crop = Crop {
        x: last.x / 2,
        y: last.y / 2,
    };
    let mut detections = Detections::default();
    for frame in 0..FRAMES {
        let mut slot = client.slot(None)?.ok_or("waits without a limit")?;
        slot.pixels().fill(frame); // a real camera copies its pixels here
        slot.submit(now_ns(), None, crop)?;
        let response = client.verdict(None)?.ok_or("waits without a limit")?;
        print(&response, &mut detections)?;
    }
    Ok(())
}

fn print(response: &Response, found: &mut Detections) -> Result<(), Box<dyn std::error::Error>> {
    let (sequence, verdict) = (response.sequence, response.verdict);
    let (Some(outputs), Some(view)) = (response.outputs(), response.view()) else {
        return Ok(output::line(format_args!("frame {sequence}: {verdict:?}"))?);
    };
    let rows = outputs.get("detections").ok_or("no `detections`")?;
    let count = outputs.get("count").ok_or("no `count`")?.as_i32()?[0];
    Rows { threshold: 0.3 }.decode(rows.as_f32()?, count, found)?;
    view.detections(found); // from pixels of the network's input to pixels of the frame
    for it in found.iter() {
        let class = response.name_of(it.class.into()).unwrap_or("something");
        let (rect, score) = (it.rect, it.score);
        output::line(format_args!(
            "frame {sequence}: {class} {score:.2}: {rect:.1}"
        ))?;
    }
    Ok(())
}
