//! Writes a data set: `cargo run --release -p punctual-signs --example dataset -- SEED COUNT EASIEST FOLDER`.
//! EASIEST is the least difficulty of its scenes: 0 for training, `camera` for what cameras show.
//!
//! Each sample is the crop of one scene as the runtime would prepare it: captured as RGB8 (even
//! numbers) or NV12 (odd), cut out, resized and normalised by `punctual_kernels::preprocess`. The
//! folder gets `images.u8`, [sample][channel][row][column] with normalised values mapped back to
//! bytes; `labels.u16`, little-endian; `difficulty.f32`, little-endian.
#![forbid(unsafe_code)]

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

use punctual_kernels::preprocess::{PlanarOutput, PreprocessError, PreprocessSpec, Preprocessor};
use punctual_signs::{CAMERA_EASIEST, CROP_SIDE, Scene, to_nv12};
use punctual_types::{Fit, FrameLayout, PixelFormat, Size};

/// Rows and columns of the network's input.
const SIDE: u32 = 96;

/// Cuts crops out of frames of one format.
struct Eye {
    format: PixelFormat,
    preprocessor: Preprocessor,
    rgb: Vec<u8>,
    frame: Vec<u8>,
    copy: Vec<u8>,
    planes: Vec<f32>,
}

impl Eye {
    /// The frame is the crop itself: the surroundings would not be read. `mean` 0 and `std` 1
    /// leave values of 0 to 1.
    fn new(format: PixelFormat) -> Result<Self, PreprocessError> {
        let crop = Size {
            width: CROP_SIDE,
            height: CROP_SIDE,
        };
        let frame = FrameLayout::packed(format, CROP_SIDE, CROP_SIDE);
        let preprocessor = Preprocessor::new(&PreprocessSpec {
            frame,
            crop,
            output: Size {
                width: SIDE,
                height: SIDE,
            },
            channels: 3,
            fit: Fit::Stretch,
            mean: [0.0; 4],
            std: [1.0; 4],
        })?;
        Ok(Self {
            format,
            rgb: vec![0; (CROP_SIDE * CROP_SIDE * 3) as usize],
            frame: vec![0; frame.len()],
            copy: vec![0; preprocessor.copy_len_max()],
            planes: vec![0.0; (3 * SIDE * SIDE) as usize],
            preprocessor,
        })
    }

    fn look(&mut self, scene: &Scene) -> Result<impl Iterator<Item = u8>, PreprocessError> {
        scene.render(scene.crop(), &mut self.rgb);
        let side = CROP_SIDE as usize;
        // The network learns from these two; the other formats carry no other pictures.
        if self.format == PixelFormat::Nv12 {
            to_nv12(&self.rgb, side, side, &mut self.frame);
        } else {
            self.frame.copy_from_slice(&self.rgb);
        }
        let rows = self.preprocessor.crop_rows(0, 0)?;
        rows.copy_from(&self.frame, &mut self.copy);
        let output = PlanarOutput::packed(&mut self.planes, SIDE as usize, SIDE as usize);
        let prepared = self.preprocessor.run(&rows, &self.copy, output);
        prepared.expect("pictures have no numbers that are not finite");
        Ok(self
            .planes
            .iter()
            .map(|value| (value * 255.0).round() as u8))
    }
}

fn write(
    seed: u64,
    count: u64,
    easiest: f32,
    folder: &Path,
) -> Result<(), Box<dyn std::error::Error>> {
    fs::create_dir_all(folder)?;
    let create =
        |name: &str| -> io::Result<_> { Ok(BufWriter::new(File::create(folder.join(name))?)) };
    let mut images = create("images.u8")?;
    let mut labels = create("labels.u16")?;
    let mut difficulty = create("difficulty.f32")?;
    let mut eyes = [Eye::new(PixelFormat::Rgb8)?, Eye::new(PixelFormat::Nv12)?];
    for index in 0..count {
        let scene = Scene::from_difficulty(seed, index, easiest);
        let image: Vec<u8> = eyes[(index % 2) as usize].look(&scene)?.collect();
        images.write_all(&image)?;
        labels.write_all(&(scene.label() as u16).to_le_bytes())?;
        difficulty.write_all(&scene.difficulty().to_le_bytes())?;
    }
    images.flush()?;
    labels.flush()?;
    difficulty.flush()?;
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [seed, count, easiest, folder] = arguments.as_slice() else {
        return usage();
    };
    let easiest = match easiest.as_str() {
        "camera" => Some(CAMERA_EASIEST),
        number => number.parse().ok(),
    };
    let (Ok(seed), Ok(count), Some(easiest)) = (seed.parse(), count.parse(), easiest) else {
        return usage();
    };
    if let Err(error) = write(seed, count, easiest, Path::new(folder)) {
        eprintln!("cannot write the data set: {error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    eprintln!("usage: dataset SEED COUNT EASIEST FOLDER");
    ExitCode::FAILURE
}
