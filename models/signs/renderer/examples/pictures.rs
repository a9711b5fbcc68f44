//! Writes labelled pictures for `punctual calibrate`:
//! `cargo run --release -p punctual-signs --example pictures -- SEED COUNT FOLDER`.
//!
//! Each is the crop of a scene as hard as those of the demo's cameras, a PPM file in a folder named
//! like its class. Seed 3 is the calibration set of README.md.
#![forbid(unsafe_code)]

use std::path::Path;
use std::process::ExitCode;
use std::{fs, io};

use punctual_signs::{CAMERA_EASIEST, CLASSES, CROP_SIDE, Scene};

/// Into a folder for each class.
pub fn write(seed: u64, count: u64, folder: &Path) -> io::Result<()> {
    let header = format!("P6\n{CROP_SIDE} {CROP_SIDE}\n255\n").into_bytes();
    let mut rgb = vec![0; (CROP_SIDE * CROP_SIDE * 3) as usize];
    for index in 0..count {
        let scene = Scene::from_difficulty(seed, index, CAMERA_EASIEST);
        scene.render(scene.crop(), &mut rgb);
        let class = folder.join(CLASSES[scene.label()]);
        fs::create_dir_all(&class)?;
        fs::write(
            class.join(format!("{index:06}.ppm")),
            [&header[..], &rgb].concat(),
        )?;
    }
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [seed, count, folder] = arguments.as_slice() else {
        return usage();
    };
    let (Ok(seed), Ok(count)) = (seed.parse(), count.parse()) else {
        return usage();
    };
    if let Err(error) = write(seed, count, Path::new(folder)) {
        eprintln!("cannot write the pictures: {error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    eprintln!("usage: pictures SEED COUNT FOLDER");
    ExitCode::FAILURE
}
