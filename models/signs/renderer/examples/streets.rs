//! Writes a detector's data set: `cargo run --release -p punctual-signs --example streets -- SEED FIRST COUNT FOLDER`.
//!
//! Each sample is a street as the runtime would prepare it: captured as RGB8 (even numbers) or NV12 (odd) and resized to
//! 320x240 by `punctual_kernels::preprocess`. The folder gets `images.u8`, [sample][channel][row][column] with normalised
//! values mapped back to bytes; `objects.f32`, little-endian, five numbers an object: left, top, right, bottom in pixels of
//! the frame, category; `counts.u16`, little-endian: objects of each sample.
#![forbid(unsafe_code)]

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

use punctual_kernels::preprocess::{PlanarOutput, PreprocessError, PreprocessSpec, Preprocessor};
use punctual_signs::{FRAME_HEIGHT, FRAME_WIDTH, Region, Street, to_nv12};
use punctual_types::{Fit, FrameLayout, PixelFormat, Size};

/// The network's input.
const INPUT: Size = Size {
    width: 320,
    height: 240,
};

/// Prepares frames of one format.
struct Intake {
    format: PixelFormat,
    preprocessor: Preprocessor,
    frame: Vec<u8>,
    copy: Vec<u8>,
    planes: Vec<f32>,
}

impl Intake {
    /// `mean` 0 and `std` 1 leave values of 0 to 1.
    fn new(format: PixelFormat) -> Result<Self, PreprocessError> {
        let frame = FrameLayout::packed(format, FRAME_WIDTH, FRAME_HEIGHT);
        let preprocessor = Preprocessor::new(&PreprocessSpec {
            frame,
            crop: Size {
                width: FRAME_WIDTH,
                height: FRAME_HEIGHT,
            },
            output: INPUT,
            channels: 3,
            fit: Fit::Stretch,
            mean: [0.0; 4],
            std: [1.0; 4],
        })?;
        Ok(Self {
            format,
            frame: vec![0; frame.len()],
            copy: vec![0; preprocessor.copy_len_max()],
            planes: vec![0.0; (3 * INPUT.width * INPUT.height) as usize],
            preprocessor,
        })
    }

    fn prepare(&mut self, rgb: &[u8]) -> Result<Vec<u8>, PreprocessError> {
        if self.format == PixelFormat::Nv12 {
            let (width, height) = (FRAME_WIDTH as usize, FRAME_HEIGHT as usize);
            to_nv12(rgb, width, height, &mut self.frame);
        } else {
            self.frame.copy_from_slice(rgb);
        }
        let rows = self.preprocessor.crop_rows(0, 0)?;
        rows.copy_from(&self.frame, &mut self.copy);
        let (width, height) = (INPUT.width as usize, INPUT.height as usize);
        let output = PlanarOutput::packed(&mut self.planes, width, height);
        let prepared = self.preprocessor.run(&rows, &self.copy, output);
        prepared.expect("pictures have no numbers that are not finite");
        let bytes = self
            .planes
            .iter()
            .map(|value| (value * 255.0).round() as u8);
        Ok(bytes.collect())
    }
}

fn write(
    seed: u64,
    first: u64,
    count: u64,
    folder: &Path,
) -> Result<(), Box<dyn std::error::Error>> {
    fs::create_dir_all(folder)?;
    let create =
        |name: &str| -> io::Result<_> { Ok(BufWriter::new(File::create(folder.join(name))?)) };
    let mut images = create("images.u8")?;
    let mut objects = create("objects.f32")?;
    let mut counts = create("counts.u16")?;
    let mut intakes = [
        Intake::new(PixelFormat::Rgb8)?,
        Intake::new(PixelFormat::Nv12)?,
    ];
    let mut rgb = vec![0; Region::FRAME.rgb8_len()];
    for index in first..first + count {
        let street = Street::new(seed, index);
        street.render(&mut rgb);
        images.write_all(&intakes[(index % 2) as usize].prepare(&rgb)?)?;
        for object in street.objects() {
            let sides = [object.left, object.top, object.right, object.bottom];
            for value in sides.into_iter().chain([object.category as f32]) {
                objects.write_all(&value.to_le_bytes())?;
            }
        }
        counts.write_all(&(street.objects().len() as u16).to_le_bytes())?;
    }
    images.flush()?;
    objects.flush()?;
    counts.flush()?;
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [seed, first, count, folder] = arguments.as_slice() else {
        return usage();
    };
    let (Ok(seed), Ok(first), Ok(count)) = (seed.parse(), first.parse(), count.parse()) else {
        return usage();
    };
    if let Err(error) = write(seed, first, count, Path::new(folder)) {
        eprintln!("cannot write the data set: {error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    eprintln!("usage: streets SEED FIRST COUNT FOLDER");
    ExitCode::FAILURE
}
