//! Small networks as people export them, as files with inputs and onnxruntime's outputs: each is exact. They are not part of
//! this repository: where `../shared/cases/networks` is not there, the test says so and ends.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use miniz_oxide::inflate::decompress_to_vec;
use zip::{CompressionMethod, ZipArchive};

use crate::recorded::differences;

struct Array {
    name: String,
    /// Of the first dimension.
    images: usize,
    values: Vec<f32>,
}

impl Array {
    fn of_image(&self, image: usize) -> Vec<f32> {
        let count = self.values.len() / self.images;
        self.values[image * count..][..count].to_vec()
    }
}

/// The arrays of that kind, with the name behind the prefix: of NumPy's archives of arrays of f32.
fn arrays(archive: &mut ZipArchive<File>, prefix: &str) -> Vec<Array> {
    let mut arrays = Vec::new();
    for at in 0..archive.len() {
        let mut file = archive.by_index_raw(at).unwrap();
        let name = file.name().unwrap().into_owned();
        let array = name.strip_suffix(".npy");
        let Some(array) = array.and_then(|array| array.strip_prefix(prefix)) else {
            continue;
        };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        if file.compression() != CompressionMethod::Stored {
            bytes = decompress_to_vec(&bytes).unwrap();
        }
        // "\x93NUMPY", the version 1.0, the length of the header, which is text.
        let header = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
        let text = String::from_utf8_lossy(&bytes[10..header]);
        assert!(
            text.contains("'<f4'") && text.contains("False"),
            "{name}: {text}"
        );
        let values = bytes[header..].as_chunks().0.iter();
        let values = values.copied().map(f32::from_le_bytes).collect();
        let (_, shape) = text.split_once("'shape': (").unwrap();
        let (images, _) = shape.split_once(',').unwrap();
        arrays.push(Array {
            name: array.to_owned(),
            images: images.parse().unwrap(),
            values,
        });
    }
    arrays
}

/// Why the network says anything else than what is recorded of an image; what it needs in order to be compiled at all.
fn check(path: &Path) -> Result<Vec<String>, Vec<String>> {
    let archive = File::open(path.with_extension("npz")).unwrap();
    let mut archive = ZipArchive::new(archive).unwrap();
    let (inputs, outputs) = (arrays(&mut archive, "in:"), arrays(&mut archive, "out:"));
    let mut wrong = Vec::new();
    for image in 0..inputs[0].images {
        let inputs: Vec<_> = inputs.iter().map(|array| array.of_image(image)).collect();
        let outputs = outputs.iter();
        let outputs: Vec<_> = outputs
            .map(|array| (array.name.clone(), array.of_image(image)))
            .collect();
        wrong.extend(differences(path, &inputs, &outputs)?);
    }
    Ok(wrong)
}

#[test]
fn small_networks_say_what_onnxruntime_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/cases/networks");
    let Ok(files) = fs::read_dir(&folder) else {
        println!("skipped: there is no folder {}", folder.display());
        return;
    };
    let mut wrong = Vec::new();
    let mut exact = 0;
    for path in files.map(|file| file.unwrap().path()) {
        if path.extension().is_none_or(|extension| extension != "onnx") {
            continue;
        }
        let name = path.file_stem().unwrap().to_str().unwrap();
        match check(&path) {
            Ok(differences) => {
                exact += usize::from(differences.is_empty());
                wrong.extend(differences);
            }
            Err(why) => wrong.push(format!("{name}: {}", why.join(", "))),
        }
    }
    assert!(exact > 0 && wrong.is_empty(), "{}", wrong.join("\n"));
}
