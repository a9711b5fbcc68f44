//! Depth from one picture, drawn in colours: near is bright, far is dark.
//!
//!     cargo run --release -p punctual-client --example depth -- /tmp/punctual.sock depth street.jpg
//!
//! The task gives an output `depth` of (rows, columns): how near each pixel is, in any unit. The drawing goes to
//! street.depth.png, next to the picture.

use std::error::Error;
use std::f32::consts::TAU;
use std::path::Path;

use image::{Rgb, RgbImage, imageops::FilterType};
use punctual_client::{Crop, Options, PixelFormat, Tensor, View, now_ns};
use punctual_platform::output;

fn main() -> std::process::ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match &arguments[..] {
        [socket, task, picture] => show(Path::new(socket), task, Path::new(picture)),
        _ => Err("usage: depth SOCKET TASK PICTURE".into()),
    };
    output::end_of("depth", done).into()
}

pub fn show(socket: &Path, task: &str, path: &Path) -> Result<(), Box<dyn Error>> {
    // The daemon may still be starting.
    let until_ns = now_ns() + 10_000_000_000;
    let mut client = Options::new(socket, task, PixelFormat::Rgb8).open(Some(until_ns))?;
    let frame = *client.frame();
    let picture =
        image::open(path)?.resize_to_fill(frame.width, frame.height, FilterType::Triangle);
    let picture = picture.to_rgb8();

    let mut slot = client.slot(None)?.ok_or("waits without a limit")?;
    let rows = slot.pixels().chunks_mut(frame.row_stride as usize);
    for (row, pixels) in rows.zip(picture.chunks(3 * frame.width as usize)) {
        row[..pixels.len()].copy_from_slice(pixels);
    }
    // Due as the manifest says.
    slot.submit(now_ns(), None, Crop { x: 0, y: 0 })?;
    let response = client.verdict(None)?.ok_or("waits without a limit")?;
    let ms = response.finished_ns.saturating_sub(response.captured_ns) as f64 / 1e6;
    output::line(format_args!("{:?} after {ms:.1} ms", response.verdict))?;

    let depth = response.outputs().and_then(|outputs| outputs.get("depth"));
    let depth = depth.ok_or("no answer with an output `depth`")?;
    let view = response
        .view()
        .ok_or("the daemon does not say what the network saw")?;
    let drawing = draw(&picture, &depth, &view)?;
    Ok(drawing.save(path.with_extension("depth.png"))?)
}

/// The picture where the network did not look.
fn draw(picture: &RgbImage, depth: &Tensor<'_>, view: &View) -> Result<RgbImage, Box<dyn Error>> {
    let [.., rows, columns] = *depth.shape() else {
        return Err("depth in rows and columns was expected".into());
    };
    let values = depth.as_f32()?;
    let far = values.iter().copied().fold(f32::INFINITY, f32::min);
    let near = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let (seen, input) = (view.bounds(), view.input());
    let mut drawing = picture.clone();
    for (x, y, pixel) in drawing.enumerate_pixels_mut() {
        let (x, y) = (x as f32 + 0.5, y as f32 + 0.5);
        if seen.left < x && x < seen.right && seen.top < y && y < seen.bottom {
            let (x, y) = view.to_input(x, y);
            let row = (y / input.height as f32 * rows as f32) as u32;
            let column = (x / input.width as f32 * columns as f32) as u32;
            let value = values[(row.min(rows - 1) * columns + column.min(columns - 1)) as usize];
            *pixel = colour((value - far) / (near - far).max(f32::MIN_POSITIVE));
        }
    }
    Ok(drawing)
}

/// From black over violet and red to yellow, of a nearness of 0 to 1.
fn colour(near: f32) -> Rgb<u8> {
    let levels = [near.sqrt(), near.powi(3), (TAU * near).sin().max(0.0)];
    Rgb(levels.map(|level| (255.0 * level) as u8))
}
