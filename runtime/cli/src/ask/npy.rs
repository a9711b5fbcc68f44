//! Arrays in files of NumPy (format `NPY`, versions 1 to 3): the types that frames, tensors and outputs have.

use std::io::{self, Write as _};
use std::path::Path;

use punctual_client::Tensor;
use punctual_platform::{files, read};
use punctual_types::Element;

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// The largest frame has 64 MiB, as doubles twice that.
const BYTES_MAX: u64 = 256 << 20;
/// Most dimensions of an array that can be a frame, with one for a batch of one.
const RANK_MAX: usize = 4;
/// Written headers end at a multiple of this, as NumPy's do.
const ALIGNMENT: usize = 64;

#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    pub shape: Vec<u32>,
    pub values: Values,
}

/// Bytes and 16 bits are what pictures have; all other numbers become floats.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    U8(Vec<u8>),
    U16(Vec<u16>),
    F32(Vec<f32>),
}

#[derive(Debug, thiserror::Error)]
pub enum NpyError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("it is no array of NumPy, or not all of it: write it with `numpy.save`")]
    Malformed,
    #[error(
        "its values are {descr}: save it with `.astype(\"float32\")`, or as uint8 or uint16 if it is a picture"
    )]
    Type { descr: String },
    #[error("its columns come first: save `numpy.ascontiguousarray(array)`")]
    Order,
    #[error("it has {rank} dimensions, and at most {RANK_MAX} can be a frame or a vector")]
    Rank { rank: usize },
    #[error("its shape {shape:?} takes {expected} bytes, and there are {found}")]
    Length {
        shape: Vec<u32>,
        expected: u64,
        found: usize,
    },
}

/// Whether a file begins as one does.
pub fn is_npy(start: &[u8]) -> bool {
    start.starts_with(MAGIC)
}

pub fn load(path: &Path) -> Result<Array, NpyError> {
    parse(&read::bytes(path, BYTES_MAX)?)
}

fn parse(bytes: &[u8]) -> Result<Array, NpyError> {
    let (header, data) = split(bytes).ok_or(NpyError::Malformed)?;
    let descr = quoted(header, "'descr'").ok_or(NpyError::Malformed)?;
    if after(header, "'fortran_order'").is_some_and(|order| order.starts_with("True")) {
        return Err(NpyError::Order);
    }
    let shape = shape(header)?;
    let elements = shape
        .iter()
        .try_fold(1_u64, |all, side| all.checked_mul(u64::from(*side)));
    let size = element_bytes(descr).ok_or_else(|| NpyError::Type {
        descr: descr.to_owned(),
    })?;
    let expected = elements.and_then(|elements| elements.checked_mul(size));
    if expected != Some(data.len() as u64) {
        return Err(NpyError::Length {
            expected: expected.unwrap_or(u64::MAX),
            found: data.len(),
            shape,
        });
    }
    Ok(Array {
        values: values(descr, data),
        shape,
    })
}

/// The header's text, and what follows it.
fn split(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let rest = bytes.strip_prefix(MAGIC)?;
    let (&[major, _minor], rest) = rest.split_first_chunk()?;
    let (length, rest) = match major {
        1 => {
            let (length, rest) = rest.split_first_chunk::<2>()?;
            (usize::from(u16::from_le_bytes(*length)), rest)
        }
        2 | 3 => {
            let (length, rest) = rest.split_first_chunk::<4>()?;
            (u32::from_le_bytes(*length) as usize, rest)
        }
        _ => return None,
    };
    let (header, data) = rest.split_at_checked(length)?;
    Some((std::str::from_utf8(header).ok()?, data))
}

/// What stands behind a key of the header.
fn after<'h>(header: &'h str, key: &str) -> Option<&'h str> {
    let (_, rest) = header.split_once(key)?;
    Some(rest.trim_start().strip_prefix(':')?.trim_start())
}

fn quoted<'h>(header: &'h str, key: &str) -> Option<&'h str> {
    let (word, _) = after(header, key)?.strip_prefix('\'')?.split_once('\'')?;
    Some(word)
}

fn shape(header: &str) -> Result<Vec<u32>, NpyError> {
    let listed = after(header, "'shape'").and_then(|rest| rest.strip_prefix('('));
    let listed = listed.and_then(|rest| rest.split_once(')'));
    let (listed, _) = listed.ok_or(NpyError::Malformed)?;
    let sides = listed.split(',').map(str::trim);
    let sides: Option<Vec<u32>> = sides
        .filter(|side| !side.is_empty())
        .map(|side| side.parse().ok())
        .collect();
    match sides {
        Some(sides) if sides.len() > RANK_MAX => Err(NpyError::Rank { rank: sides.len() }),
        Some(sides) => Ok(sides),
        None => Err(NpyError::Malformed),
    }
}

fn element_bytes(descr: &str) -> Option<u64> {
    Some(match descr {
        "|u1" | "|b1" | "|i1" => 1,
        "<u2" | "<i2" => 2,
        "<f4" | "<i4" | "<u4" => 4,
        "<f8" | "<i8" | "<u8" => 8,
        _ => return None,
    })
}

/// Of a type that [`element_bytes`] knows.
fn values(descr: &str, data: &[u8]) -> Values {
    let floats = match descr {
        "|u1" | "|b1" => return Values::U8(data.to_vec()),
        "<u2" => return Values::U16(numbers(data, u16::from_le_bytes)),
        "|i1" => numbers(data, |[byte]: [u8; 1]| f32::from(byte.cast_signed())),
        "<i2" => numbers(data, |bytes| f32::from(i16::from_le_bytes(bytes))),
        "<i4" => numbers(data, |bytes| i32::from_le_bytes(bytes) as f32),
        "<u4" => numbers(data, |bytes| u32::from_le_bytes(bytes) as f32),
        "<i8" => numbers(data, |bytes| i64::from_le_bytes(bytes) as f32),
        "<u8" => numbers(data, |bytes| u64::from_le_bytes(bytes) as f32),
        "<f8" => numbers(data, |bytes| f64::from_le_bytes(bytes) as f32),
        _ => numbers(data, f32::from_le_bytes),
    };
    Values::F32(floats)
}

fn numbers<const BYTES: usize, T>(data: &[u8], number: impl Fn([u8; BYTES]) -> T) -> Vec<T> {
    let (numbers, _) = data.as_chunks::<BYTES>();
    numbers.iter().map(|bytes| number(*bytes)).collect()
}

impl Array {
    /// Its values as floats, for what is no picture.
    pub fn floats(self) -> Vec<f32> {
        match self.values {
            Values::U8(bytes) => bytes.into_iter().map(f32::from).collect(),
            Values::U16(words) => words.into_iter().map(f32::from).collect(),
            Values::F32(floats) => floats,
        }
    }

    /// The shape without leading dimensions of one, such as that of a batch.
    pub fn trimmed(&self, rank: usize) -> &[u32] {
        let mut shape = &self.shape[..];
        while let [1, rest @ ..] = shape
            && shape.len() > rank
        {
            shape = rest;
        }
        shape
    }
}

/// Writes an output as it is: of a quantised tensor its bytes.
pub fn save(path: &Path, tensor: &Tensor<'_>) -> io::Result<()> {
    let descr = match tensor.element() {
        Element::F32 => "<f4",
        Element::I32 => "<i4",
        Element::Bool => "|b1",
        Element::U8 { .. } => "|u1",
        Element::I8 { .. } => "|i1",
    };
    let header = header(descr, tensor.shape());
    files::write_whole_with(path, |file| {
        file.write_all(&header)?;
        file.write_all(tensor.bytes())
    })
}

fn header(descr: &str, shape: &[u32]) -> Vec<u8> {
    let sides: String = shape.iter().map(|side| format!("{side}, ")).collect();
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({sides}), }}");
    // Magic, version and length take ten bytes, the last line break one.
    let padding = ALIGNMENT - (text.len() + 11) % ALIGNMENT;
    text.extend(std::iter::repeat_n(' ', padding % ALIGNMENT));
    text.push('\n');
    let length = (text.len() as u16).to_le_bytes();
    [&MAGIC[..], &[1, 0], &length, text.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(descr: &str, shape: &[u32], data: &[u8]) -> Vec<u8> {
        [&header(descr, shape), data].concat()
    }

    #[test]
    fn what_is_written_is_read_as_it_was() {
        for (descr, data, values) in [
            ("<f4", &1.5_f32.to_le_bytes()[..], Values::F32(vec![1.5])),
            ("<f8", &(-2.0_f64).to_le_bytes(), Values::F32(vec![-2.0])),
            ("<i8", &(-3_i64).to_le_bytes(), Values::F32(vec![-3.0])),
            ("|i1", &[255], Values::F32(vec![-1.0])),
            ("<u2", &[1, 2], Values::U16(vec![513])),
            ("|u1", &[7], Values::U8(vec![7])),
        ] {
            let bytes = array(descr, &[1, 1], data);
            assert_eq!((bytes.len() - data.len()) % ALIGNMENT, 0);
            let shape = vec![1, 1];
            assert_eq!(parse(&bytes).expect(descr), Array { shape, values });
        }
    }

    #[test]
    fn a_leading_dimension_of_one_may_be_left_out() {
        let array = parse(&array("|u1", &[1, 1, 2], &[1, 2])).expect("an array");
        assert_eq!(array.trimmed(2), [1, 2]);
        assert_eq!(array.trimmed(1), [2]);
        assert_eq!(array.trimmed(3), [1, 1, 2]);
    }

    #[test]
    fn arrays_that_cannot_be_used_are_refused_with_what_to_do() {
        let said = |bytes: &[u8]| parse(bytes).expect_err("refused").to_string();
        assert!(said(&array("<c8", &[1], &[0; 8])).contains("astype"));
        assert!(said(&array("|O", &[1], &[0; 8])).contains("astype"));
        assert!(said(&array("<f4", &[2], &[0; 4])).contains("8 bytes, and there are 4"));
        assert!(said(&array("<f4", &[u32::MAX; 4], &[])).contains("there are 0"));
        assert!(said(&array("<f4", &[1; 5], &[0; 4])).contains("5 dimensions"));
        let columns = String::from_utf8_lossy(&header("|u1", &[1])[10..]).replace("False", "True ");
        let columns = [
            &MAGIC[..],
            &[1, 0, columns.len() as u8, 0],
            columns.as_bytes(),
        ]
        .concat();
        assert!(said(&columns).contains("ascontiguousarray"));
    }

    #[test]
    fn no_cut_or_damaged_file_panics() {
        let whole = array("<f4", &[2, 2], &[0; 16]);
        for length in 0..whole.len() {
            parse(&whole[..length]).expect_err("not all of it");
        }
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..2_000 {
            let mut damaged = whole.clone();
            damaged[random.usize(..whole.len())] = random.u8(..);
            let _ = parse(&damaged);
        }
    }
}
