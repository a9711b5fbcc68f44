//! Crops whose size changes from one to the next, odd ones among them: as of a preprocessor made for each size.

use super::*;

proptest! {
    #![proptest_config(crate::support::cases(300))]

    #[test]
    fn crops_of_any_sizes_one_after_the_other_are_those_of_preprocessors_of_their_own(
        (largest, ..) in geometry(),
        letterbox in any::<bool>(),
        shares in prop::collection::vec(prop::array::uniform4(0.0..1.0), 1..8),
        seed in any::<u64>(),
    ) {
        let fit = if letterbox { Fit::Letterbox { fill: 77 } } else { Fit::Stretch };
        let largest = PreprocessSpec { fit, ..largest };
        let frame = bytes(largest.frame.len(), seed);
        let mut ours = Preprocessor::new(&largest).expect("valid");
        let copy_len_max = ours.copy_len_max();
        for [width, height, x, y] in shares {
            let part = |share: f64, most: u32| (share * f64::from(most + 1)) as u32;
            let crop = size(
                1 + part(width, largest.crop.width - 1),
                1 + part(height, largest.crop.height - 1),
            );
            let x = part(x, largest.frame.width - crop.width);
            let y = part(y, largest.frame.height - crop.height);
            ours.cut(crop).expect("not larger");
            let mut own = Preprocessor::new(&PreprocessSpec { crop, ..largest }).expect("valid");
            prop_assert_eq!(ours.crop_rows(x, y), own.crop_rows(x, y));
            prop_assert_eq!(run(&mut ours, &frame, x, y), run(&mut own, &frame, x, y));
            prop_assert_eq!(ours.copy_len_max(), copy_len_max, "room for the largest");
        }
    }
}

#[test]
fn an_odd_crop_has_the_colours_that_its_pixels_share_with_those_beyond_it() {
    // Columns 0 and 1 share a colour, and 2 and 3; in NV12 also rows 0 and 1, and 2 and 3.
    for format in [PixelFormat::Nv12, PixelFormat::Yuyv, PixelFormat::Uyvy] {
        let layout = FrameLayout::packed(format, 4, 4);
        let frame = bytes(layout.len(), 9);
        let mut preprocessor =
            Preprocessor::new(&spec(layout, layout.size(), size(1, 1))).expect("valid");
        preprocessor.cut(size(1, 1)).expect("smaller");
        for (x, y) in [(0, 0), (1, 0), (2, 1), (3, 2), (3, 3)] {
            let ours = run(&mut preprocessor, &frame, x, y);
            let theirs = pixel_of(&frame, &layout, x as usize, y as usize);
            for (ours, theirs) in ours.iter().zip(theirs) {
                let off = (f64::from(*ours) - theirs).abs();
                assert!(
                    off <= 1.01 / 255.0,
                    "{format:?} ({x}, {y}): {ours} is not {theirs}"
                );
            }
        }
    }
}

#[test]
fn a_size_that_is_refused_changes_nothing() {
    let layout = FrameLayout::packed(PixelFormat::Gray8, 8, 6);
    let mut preprocessor = Preprocessor::new(&spec(layout, size(4, 3), size(2, 2))).expect("valid");
    preprocessor.cut(size(2, 3)).expect("smaller");
    for (crop, words) in [
        (
            size(5, 1),
            "a crop of 5x1 is larger than 4x3, the largest that is prepared for",
        ),
        (
            size(1, 4),
            "a crop of 1x4 is larger than 4x3, the largest that is prepared for",
        ),
        (size(0, 3), "crop is 0x3; each side must be 1 to 16384"),
    ] {
        let error = preprocessor.cut(crop).expect_err("no size");
        assert_eq!(error.to_string(), words);
        let rows = preprocessor.crop_rows(6, 3).expect("inside");
        assert_eq!(rows.crop(), size(2, 3));
    }
    preprocessor.cut(size(4, 3)).expect("the largest again");
}

#[test]
fn a_tensor_is_taken_as_a_whole() {
    let plane = size(4, 3);
    let whole = FrameLayout::tensor(2, plane);
    let spec = PreprocessSpec {
        channels: 2,
        ..spec(whole, plane, plane)
    };
    let mut preprocessor = Preprocessor::new(&spec).expect("valid");
    assert_eq!(preprocessor.cut(whole.size()), Ok(()));
    let error = preprocessor.cut(size(2, 2)).expect_err("a part");
    assert_eq!(
        error.to_string(),
        "no crop of 2x2: a tensor is taken as a whole, 4x6"
    );
}

#[test]
#[should_panic(expected = "rows of another size")]
fn rows_from_before_are_not_taken() {
    let layout = FrameLayout::packed(PixelFormat::Gray8, 8, 6);
    let mut preprocessor = Preprocessor::new(&spec(layout, size(4, 3), size(2, 2))).expect("valid");
    let rows = preprocessor.crop_rows(0, 0).expect("inside");
    preprocessor.cut(size(2, 2)).expect("smaller");
    let mut planes = [0.0; 12];
    let output = PlanarOutput::packed(&mut planes, 2, 2);
    let _ = preprocessor.run(&rows, &[0; 12], output);
}
