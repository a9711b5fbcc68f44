//! Constant tensors, wherever the file keeps their data.

use punctual_types::half;

use super::error::ParseError;
use super::external::External;
use crate::graph::{Constant, Data};
use crate::schema::{TensorProto, data_type};

/// A constant with as many elements as its shape says, or of an unsupported type.
pub(super) fn constant(
    proto: &TensorProto,
    name: &str,
    external: &mut External,
) -> Result<Constant, ParseError> {
    let kind = proto.data_type.unwrap_or_default();
    let dims: Option<Vec<usize>> = proto.dims.iter().map(|&dim| dim.try_into().ok()).collect();
    let elements = dims.as_ref().and_then(|dims| {
        let mut dims = dims.iter();
        dims.try_fold(1_usize, |product, &dim| product.checked_mul(dim))
    });
    let bytes = match kind {
        data_type::FLOAT | data_type::INT32 => 4,
        data_type::INT64 | data_type::DOUBLE => 8,
        data_type::FLOAT16 | data_type::INT16 | data_type::UINT16 => 2,
        data_type::BOOL | data_type::INT8 | data_type::UINT8 => 1,
        other => {
            return Ok(Constant::new(Vec::new(), Data::Other(other)));
        }
    };
    let bytes = (elements.unwrap_or(0) as u64).saturating_mul(bytes);
    let read = external.read(proto, name, bytes)?;
    let raw = read.as_deref().or(proto.raw_data.as_deref());
    let data = decode(proto, kind, raw);
    let found = data.len();
    match dims.filter(|_| elements == Some(found)) {
        Some(dims) => Ok(Constant::new(dims, data)),
        None => Err(ParseError::ConstantSize {
            name: name.to_owned(),
            dims: proto.dims.clone(),
            found,
        }),
    }
}

/// The elements, from raw bytes if there are any, else from the fields of their type.
fn decode(proto: &TensorProto, kind: i32, raw: Option<&[u8]>) -> Data {
    match kind {
        data_type::FLOAT => Data::Floats(raw.map_or_else(
            || proto.float_data.clone(),
            |raw| words(raw, f32::from_le_bytes),
        )),
        // Halves lie in the integers' low bits.
        data_type::FLOAT16 => Data::Floats(match raw {
            Some(raw) => words(raw, |bytes| half::to_f32(u16::from_le_bytes(bytes))),
            None => {
                let halves = proto.int32_data.iter();
                halves.map(|&bits| half::to_f32(bits as u16)).collect()
            }
        }),
        data_type::DOUBLE => Data::Floats(match raw {
            Some(raw) => words(raw, |bytes| f64::from_le_bytes(bytes) as f32),
            None => proto
                .double_data
                .iter()
                .map(|&value| value as f32)
                .collect(),
        }),
        data_type::INT64 => Data::Ints(raw.map_or_else(
            || proto.int64_data.clone(),
            |raw| words(raw, i64::from_le_bytes),
        )),
        data_type::INT32 => Data::Ints(match raw {
            Some(raw) => words(raw, |bytes| i64::from(i32::from_le_bytes(bytes))),
            None => proto.int32_data.iter().copied().map(i64::from).collect(),
        }),
        data_type::UINT8 => Data::Unsigned(match raw {
            Some(raw) => raw.to_vec(),
            None => proto.int32_data.iter().map(|&byte| byte as u8).collect(),
        }),
        data_type::INT8 => Data::Signed(match raw {
            Some(raw) => raw.iter().map(|byte| byte.cast_signed()).collect(),
            None => proto.int32_data.iter().map(|&byte| byte as i8).collect(),
        }),
        data_type::INT16 => Data::Short(match raw {
            Some(raw) => words(raw, i16::from_le_bytes),
            None => proto.int32_data.iter().map(|&short| short as i16).collect(),
        }),
        data_type::UINT16 => Data::UnsignedShort(match raw {
            Some(raw) => words(raw, u16::from_le_bytes),
            None => proto.int32_data.iter().map(|&short| short as u16).collect(),
        }),
        _ => Data::Ints(match raw {
            Some(raw) => raw.iter().copied().map(i64::from).collect(),
            None => proto.int32_data.iter().copied().map(i64::from).collect(),
        }),
    }
}

/// Little-endian words; bytes that fill no word count as none and so show up as a wrong size.
fn words<const N: usize, T>(raw: &[u8], from: impl Fn([u8; N]) -> T) -> Vec<T> {
    let (words, rest) = raw.as_chunks::<N>();
    if rest.is_empty() {
        words.iter().map(|&word| from(word)).collect()
    } else {
        Vec::new()
    }
}
