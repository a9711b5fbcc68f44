//! Reads arrays of floats from files of numpy, as far as recorded cases need it.

use std::path::Path;

/// The arrays of a file, by name.
pub fn read(path: &Path) -> Vec<(String, Vec<f32>)> {
    let file = std::fs::read(path).expect("a file of arrays");
    let mut arrays = Vec::new();
    let mut at = 0;
    // The directory at the end has a record for each member.
    while let Some(found) = find(&file[at..], b"PK\x01\x02") {
        let record = &file[at + found..];
        let name = &record[46..46 + short(record, 28)];
        let name = String::from_utf8_lossy(name).into_owned();
        let (method, bytes) = (short(record, 10), word(record, 20));
        let local = &file[word(record, 42)..];
        let data = &local[30 + short(local, 26) + short(local, 28)..][..bytes];
        let array = match method {
            0 => data.to_vec(),
            8 => miniz_oxide::inflate::decompress_to_vec(data).expect("deflated data"),
            other => panic!("{name} is compressed by method {other}"),
        };
        let name = name.strip_suffix(".npy").unwrap_or(&name).to_owned();
        arrays.push((name, floats(&array)));
        at += found + 46;
    }
    arrays
}

/// The values of an array of `f32` in C order.
fn floats(array: &[u8]) -> Vec<f32> {
    let head = String::from_utf8_lossy(&array[10..10 + short(array, 8)]);
    assert!(head.contains("'<f4'") && head.contains("False"), "{head}");
    let words = array[10 + short(array, 8)..].as_chunks::<4>().0.iter();
    words.map(|word| f32::from_le_bytes(*word)).collect()
}

fn find(bytes: &[u8], pattern: &[u8]) -> Option<usize> {
    bytes.windows(pattern.len()).position(|own| own == pattern)
}

fn short(bytes: &[u8], at: usize) -> usize {
    u16::from_le_bytes([bytes[at], bytes[at + 1]]).into()
}

fn word(bytes: &[u8], at: usize) -> usize {
    short(bytes, at) + (short(bytes, at + 2) << 16)
}
