//! Gray, four channels, and two bytes a sample: against the libraries, and what fits what.

use super::*;

#[test]
fn gray_of_two_bytes_and_four_channels_are_resized_as_by_the_library() {
    let recorded = recorded();
    for (format, channels, cases) in [
        (PixelFormat::Gray16, 1, recorded.gray16),
        (PixelFormat::Rgba8, 4, recorded.rgba),
    ] {
        for case in cases {
            let (crop, output) = (
                size(case.crop[0], case.crop[1]),
                size(case.output[0], case.output[1]),
            );
            let layout = FrameLayout::packed(format, crop.width, crop.height);
            let spec = PreprocessSpec {
                channels,
                ..spec(layout, crop, output)
            };
            let frame = bytes(layout.len(), case.seed);
            let mut preprocessor = Preprocessor::new(&spec).expect("valid");
            let ours = run(&mut preprocessor, &frame, 0, 0);
            let values = values_of(&frame, &layout, channels);
            let reference = resized(&values, crop, 0, 0, crop, output);
            assert_eq!(ours.len(), case.planes.len());
            for ((ours, reference), library) in ours.iter().zip(&reference).zip(&case.planes) {
                assert!((ours - library).abs() <= 1e-5, "{ours} is not {library}");
                assert!((reference - library).abs() <= 1e-5, "{reference}");
            }
        }
    }
}

/// The gray of one pixel.
fn gray(format: PixelFormat, pixel: [u8; 3]) -> u8 {
    let layout = FrameLayout::packed(format, 1, 1);
    let spec = PreprocessSpec {
        channels: 1,
        ..spec(layout, size(1, 1), size(1, 1))
    };
    let mut preprocessor = Preprocessor::new(&spec).expect("valid");
    (run(&mut preprocessor, &pixel, 0, 0)[0] * 255.0).round() as u8
}

#[test]
fn gray_of_colours_is_pillows_and_the_other_librarys_within_a_level() {
    // What Pillow 12 makes of them in mode `L`.
    for [r, g, b, pillow] in [
        [0, 0, 51, 6],
        [12, 200, 99, 132],
        [255, 0, 0, 76],
        [0, 255, 0, 150],
        [0, 0, 255, 29],
        [1, 2, 3, 2],
        [254, 1, 128, 91],
        [77, 78, 80, 78],
    ] {
        assert_eq!(gray(PixelFormat::Rgb8, [r, g, b]), pillow);
        assert_eq!(gray(PixelFormat::Bgr8, [b, g, r]), pillow);
    }
    for [r, g, b, library] in recorded().grays {
        assert!(gray(PixelFormat::Rgb8, [r, g, b]).abs_diff(library) <= 1);
    }
}

#[test]
fn gray16_is_normalised_by_its_own_full_scale() {
    let layout = FrameLayout::packed(PixelFormat::Gray16, 2, 1);
    let spec = PreprocessSpec {
        channels: 1,
        mean: [0.5; 4],
        std: [0.25; 4],
        ..spec(layout, size(2, 1), size(2, 1))
    };
    let mut preprocessor = Preprocessor::new(&spec).expect("valid");
    let planes = run(&mut preprocessor, &[0xff, 0xff, 0x00, 0x40], 0, 0);
    let quarter = (f32::from(0x4000_u16) / 65535.0 - 0.5) / 0.25;
    assert!((planes[0] - 2.0).abs() < 1e-6 && (planes[1] - quarter).abs() < 1e-6);
}

#[test]
fn gray_networks_need_no_chroma() {
    let layout = FrameLayout::packed(PixelFormat::Nv12, 8, 8);
    let spec = PreprocessSpec {
        channels: 1,
        ..spec(layout, size(4, 4), size(4, 4))
    };
    let preprocessor = Preprocessor::new(&spec).expect("valid");
    let rows = preprocessor.crop_rows(1, 1).expect("inside");
    assert_eq!((rows.planes().len(), rows.copy_len()), (1, 16));
}

#[test]
fn each_format_gives_the_channels_that_it_has() {
    for format in PixelFormat::ALL {
        for channels in 0..6 {
            let layout = FrameLayout::packed(format, 2, 2);
            let spec = PreprocessSpec {
                channels,
                ..spec(layout, size(2, 2), size(2, 2))
            };
            let fits = PICTURES.contains(&(format, channels));
            assert_eq!(format.gives(channels), fits);
            // Two rows of a tensor are one channel of two rows.
            let tensor = format == PixelFormat::Tensor && channels == 1;
            let made = Preprocessor::new(&spec);
            assert_eq!(made.is_ok(), fits || tensor, "{format:?} {channels}");
        }
    }
    let layout = FrameLayout::packed(PixelFormat::Rgba8, 2, 2);
    let gray = PreprocessSpec {
        channels: 1,
        ..spec(layout, size(2, 2), size(2, 2))
    };
    let error = Preprocessor::new(&gray).expect_err("no gray of four");
    assert_eq!(
        error.to_string(),
        "frames of rgba8 do not fit a network of 1 channels"
    );
}
