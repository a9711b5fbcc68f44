//! What a client reads of an output.

use serde::{Deserialize, Serialize};

/// The type of an output's values in plain memory.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Element {
    F32,
    /// Rounded towards zero, clamped; 0 of what is no number.
    I32,
    /// A byte, 0 or 1: whether the value is not 0.
    Bool,
    /// A byte of a quantised tensor: it stands for `(byte - zero) * scale`.
    U8 {
        /// What a step is worth.
        scale: f32,
        /// The byte of 0.
        zero: u8,
    },
    /// As [`U8`](Self::U8), signed: the tensor's byte minus 128.
    I8 {
        /// What a step is worth.
        scale: f32,
        /// The byte of 0.
        zero: i8,
    },
}

impl Element {
    /// Bytes of a value.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        match self {
            Self::F32 | Self::I32 => 4,
            Self::Bool | Self::U8 { .. } | Self::I8 { .. } => 1,
        }
    }

    /// As numpy names it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "float32",
            Self::I32 => "int32",
            Self::Bool => "bool",
            Self::U8 { .. } => "uint8",
            Self::I8 { .. } => "int8",
        }
    }

    /// The values of an output in plain memory; a quantised one is what its byte stands for.
    pub fn values(self, bytes: &[u8]) -> impl Iterator<Item = f64> + '_ {
        bytes.chunks_exact(self.bytes() as usize).map(move |value| {
            let four = || [value[0], value[1], value[2], value[3]];
            match self {
                Self::F32 => f64::from(f32::from_ne_bytes(four())),
                Self::I32 => f64::from(i32::from_ne_bytes(four())),
                Self::Bool => f64::from(value[0]),
                Self::U8 { scale, zero } => {
                    (f64::from(value[0]) - f64::from(zero)) * f64::from(scale)
                }
                Self::I8 { scale, zero } => {
                    (f64::from(value[0].cast_signed()) - f64::from(zero)) * f64::from(scale)
                }
            }
        })
    }

    /// The values of an output in plain memory as [`write`](Self::write) was given them: of a quantised tensor the network's
    /// bytes, as the reference interpreter has them.
    pub fn read(self, bytes: &[u8]) -> impl Iterator<Item = f32> + '_ {
        bytes.chunks_exact(self.bytes() as usize).map(move |value| {
            let four = || [value[0], value[1], value[2], value[3]];
            match self {
                Self::F32 => f32::from_ne_bytes(four()),
                Self::I32 => i32::from_ne_bytes(four()) as f32,
                Self::Bool | Self::U8 { .. } => f32::from(value[0]),
                Self::I8 { .. } => f32::from(value[0] ^ 0x80),
            }
        })
    }

    /// Writes a value as the client reads it. Of a quantised tensor the value is the network's byte.
    ///
    /// # Panics
    /// If `to` is not as long as an element.
    pub fn write(self, value: f32, to: &mut [u8]) {
        match self {
            Self::F32 => to.copy_from_slice(&value.to_ne_bytes()),
            Self::I32 => to.copy_from_slice(&(value as i32).to_ne_bytes()),
            Self::Bool => to.copy_from_slice(&[u8::from(value != 0.0)]),
            Self::U8 { .. } => to.copy_from_slice(&[value as u8]),
            Self::I8 { .. } => to.copy_from_slice(&[(value as u8) ^ 0x80]),
        }
    }

    /// Whether it is read from a tensor of bytes.
    #[must_use]
    pub const fn is_quantised(self) -> bool {
        matches!(self, Self::U8 { .. } | Self::I8 { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let (scale, zero) = (0.5, 3);
        for (element, values) in [
            (Element::F32, [-1.5, 0.0, 3.25]),
            (Element::I32, [-7.0, 0.0, 70_000.0]),
            (Element::Bool, [0.0, 1.0, 1.0]),
            (Element::U8 { scale, zero }, [0.0, 128.0, 255.0]),
            (
                Element::I8 {
                    scale,
                    zero: zero as i8,
                },
                [0.0, 128.0, 255.0],
            ),
        ] {
            let size = element.bytes() as usize;
            let mut bytes = vec![0; values.len() * size];
            for (value, to) in values.iter().zip(bytes.chunks_exact_mut(size)) {
                element.write(*value, to);
            }
            let read: std::vec::Vec<f32> = element.read(&bytes).collect();
            assert_eq!(read, values, "{}", element.name());
        }
    }
}
