//! Values of outputs: what is written is read.

use punctual_types::Element;

fn read_back(element: Element, values: &[f32]) -> Vec<f64> {
    let bytes = element.bytes() as usize;
    let mut memory = vec![0; values.len() * bytes];
    for (&value, to) in values.iter().zip(memory.chunks_exact_mut(bytes)) {
        element.write(value, to);
    }
    element.values(&memory).collect()
}

#[test]
fn values_are_read_as_they_were_written() {
    assert_eq!(read_back(Element::F32, &[-0.5, 3.0]), [-0.5, 3.0]);
    assert_eq!(read_back(Element::I32, &[-7.9, 1e9]), [-7.0, 1e9]);
    assert_eq!(read_back(Element::Bool, &[0.0, 2.0]), [0.0, 1.0]);
}

#[test]
fn bytes_are_read_as_what_they_stand_for() {
    let (scale, zero) = (0.5, 10);
    let unsigned = Element::U8 { scale, zero };
    assert_eq!(read_back(unsigned, &[0.0, 10.0, 255.0]), [-5.0, 0.0, 122.5]);
    // The network's byte less 128.
    let signed = Element::I8 { scale, zero: -118 };
    assert_eq!(read_back(signed, &[0.0, 10.0, 255.0]), [-5.0, 0.0, 122.5]);
}
