//! Tensors that the client prepared.

use super::*;
use punctual_kernels::preprocess::NotFinite;

/// Two channels of 3 x 2.
fn tensor() -> Preprocessor {
    let plane = size(3, 2);
    let spec = PreprocessSpec {
        channels: 2,
        // What a tensor has instead of a mean is not looked at.
        mean: [f32::NAN; 4],
        ..spec(FrameLayout::tensor(2, plane), plane, plane)
    };
    Preprocessor::new(&spec).expect("valid")
}

fn bytes_of(values: &[f32]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect()
}

#[test]
fn a_tensor_is_copied_as_it_is() {
    let values: Vec<f32> = (0..12).map(|value| value as f32 - 5.5e10).collect();
    let planes = run(&mut tensor(), &bytes_of(&values), 0, 0);
    assert_eq!(planes, values);
}

#[test]
fn values_go_between_the_halos_of_the_input() {
    let mut preprocessor = tensor();
    let values: Vec<f32> = (1..13).map(|value| value as f32).collect();
    let rows = preprocessor.crop_rows(0, 0).expect("all of it");
    let mut input = [0.0; 24];
    let output = PlanarOutput {
        data: &mut input,
        offset: 1,
        row_stride: 5,
        plane_stride: 12,
    };
    let copied = preprocessor.run(&rows, &bytes_of(&values), output);
    assert_eq!(copied, Ok(()));
    let expected = [
        0.0, 1.0, 2.0, 3.0, 0.0, 0.0, 4.0, 5.0, 6.0, 0.0, 0.0, 0.0, 0.0, 7.0, 8.0, 9.0, 0.0, 0.0,
        10.0, 11.0, 12.0, 0.0, 0.0, 0.0,
    ];
    assert_eq!(input, expected);
}

#[test]
fn a_value_that_is_not_finite_is_reported_wherever_it_is() {
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        for at in 0..12 {
            let mut preprocessor = tensor();
            let mut values = [f32::MAX; 12];
            values[at] = bad;
            let rows = preprocessor.crop_rows(0, 0).expect("all of it");
            let mut input = [0.0; 12];
            let output = PlanarOutput::packed(&mut input, 3, 2);
            let copied = preprocessor.run(&rows, &bytes_of(&values), output);
            assert_eq!(copied, Err(NotFinite));
        }
    }
}

#[test]
fn a_tensor_of_another_shape_is_refused() {
    let plane = size(3, 2);
    for (channels, crop, output) in [
        (3, plane, plane),
        (2, size(3, 1), plane),
        (2, plane, size(2, 3)),
        (0, plane, plane),
    ] {
        let spec = PreprocessSpec {
            channels,
            ..spec(FrameLayout::tensor(2, plane), crop, output)
        };
        let error = Preprocessor::new(&spec).expect_err("another shape");
        assert!(
            matches!(error, PreprocessError::TensorSize { .. }),
            "{error}"
        );
    }
}
