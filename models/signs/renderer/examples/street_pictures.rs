//! Writes pictures of streets with annotations for `punctual calibrate --annotations`:
//! `cargo run --release -p punctual-signs --example street_pictures -- SEED FIRST COUNT FOLDER`.
//!
//! Each is a whole frame, a PPM file; `annotations.json` has the signs that it shows, as COCO's JSON does.
#![forbid(unsafe_code)]

use std::path::Path;
use std::process::ExitCode;
use std::{fs, io};

use punctual_signs::{CATEGORIES, FRAME_HEIGHT, FRAME_WIDTH, Region, Street};

fn write(seed: u64, first: u64, count: u64, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let header = format!("P6\n{FRAME_WIDTH} {FRAME_HEIGHT}\n255\n").into_bytes();
    let mut rgb = vec![0; Region::FRAME.rgb8_len()];
    let (mut images, mut annotations) = (Vec::new(), Vec::new());
    for index in first..first + count {
        let street = Street::new(seed, index);
        street.render(&mut rgb);
        let name = format!("{index:06}.ppm");
        fs::write(folder.join(&name), [&header[..], &rgb].concat())?;
        images.push(format!(
            r#"{{"id": {index}, "file_name": "{name}", "width": {FRAME_WIDTH}, "height": {FRAME_HEIGHT}}}"#
        ));
        annotations.extend(street.objects().iter().map(|object| {
            let (width, height) = (object.right - object.left, object.bottom - object.top);
            format!(
                r#"{{"image_id": {index}, "category_id": {}, "bbox": [{}, {}, {width}, {height}]}}"#,
                object.category, object.left, object.top
            )
        }));
    }
    let categories = CATEGORIES.iter().enumerate();
    let categories = categories.map(|(id, name)| format!(r#"{{"id": {id}, "name": "{name}"}}"#));
    let list = |lines: Vec<String>| lines.join(",\n");
    let annotations = format!(
        "{{\"images\": [\n{}\n],\n\"annotations\": [\n{}\n],\n\"categories\": [\n{}\n]}}\n",
        list(images),
        list(annotations),
        list(categories.collect())
    );
    fs::write(folder.join("annotations.json"), annotations)
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
        eprintln!("cannot write the pictures: {error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    eprintln!("usage: street_pictures SEED FIRST COUNT FOLDER");
    ExitCode::FAILURE
}
