//! Networks that once got wrong answers without a message, as files with inputs and onnxruntime's outputs. They are not part of
//! this repository: where `../shared/cases/wrong` is not there, the test says so and ends.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use miniz_oxide::inflate::decompress_to_vec;
use zip::{CompressionMethod, ZipArchive};

use crate::recorded::differences;

/// The values of each array of that kind, with the name behind the prefix: of NumPy's archives of arrays of f32.
fn arrays(archive: &mut ZipArchive<File>, prefix: &str) -> Vec<(String, Vec<f32>)> {
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
        arrays.push((array.to_owned(), values));
    }
    arrays
}

#[test]
fn networks_that_were_wrong_say_what_onnxruntime_says_on_every_instruction_set() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/cases/wrong");
    let Ok(files) = fs::read_dir(&folder) else {
        println!("skipped: there is no folder {}", folder.display());
        return;
    };
    let mut wrong = Vec::new();
    let mut networks = 0;
    for path in files.map(|file| file.unwrap().path()) {
        if path.extension().is_none_or(|extension| extension != "onnx") {
            continue;
        }
        let archive = File::open(path.with_extension("npz")).unwrap();
        let mut archive = ZipArchive::new(archive).unwrap();
        let inputs = arrays(&mut archive, "in:").into_iter();
        let inputs: Vec<Vec<f32>> = inputs.map(|(_, values)| values).collect();
        let outputs = arrays(&mut archive, "out:");
        wrong.extend(differences(&path, &inputs, &outputs).expect("it compiles"));
        networks += 1;
    }
    assert!(networks > 0 && wrong.is_empty(), "{}", wrong.join("\n"));
}
