//! What clients get of an output, as the numbers that are compared.

use punctual_types::Element;

/// The values of an output's bytes; of a quantised one the network's bytes.
#[must_use]
pub fn values(element: Element, bytes: &[u8]) -> Vec<f32> {
    match element {
        Element::U8 { .. } => bytes.iter().copied().map(f32::from).collect(),
        Element::I8 { .. } => bytes.iter().map(|byte| f32::from(byte ^ 0x80)).collect(),
        plain => plain.values(bytes).map(|value| value as f32).collect(),
    }
}
