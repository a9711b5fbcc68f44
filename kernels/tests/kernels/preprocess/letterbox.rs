//! Letterboxes: inside as if resized to the inner size, outside the fill, and places mapped back.

use super::*;

proptest! {
    #![proptest_config(crate::support::cases(200))]

    #[test]
    fn inside_is_the_crop_resized_and_outside_the_fill(
        (stretched, x, y) in geometry(),
        fill in any::<u8>(),
        seed in any::<u64>(),
    ) {
        let normalised = |spec: PreprocessSpec| PreprocessSpec {
            mean: [0.5, 0.25, 0.0, 0.125],
            std: [0.5, 0.25, 2.0, 1.0],
            ..spec
        };
        let stretched = normalised(stretched);
        let frame = bytes(stretched.frame.len(), seed);
        let fit = Fit::Letterbox { fill };
        let place = fit.place(stretched.crop, stretched.output);
        let boxed = PreprocessSpec { fit, ..stretched };
        let ours = run(&mut Preprocessor::new(&boxed).expect("valid"), &frame, x, y);
        let inner = PreprocessSpec { output: place.inner, ..stretched };
        let inner = run(&mut Preprocessor::new(&inner).expect("valid"), &frame, x, y);
        let Size { width, height } = boxed.output;
        let mut inner = inner.iter();
        for channel in 0..boxed.channels as usize {
            let border = (f32::from(fill) / 255.0 - boxed.mean[channel]) / boxed.std[channel];
            for row in 0..height {
                for column in 0..width {
                    let at = (channel as u32 * height + row) * width + column;
                    let ours = ours[at as usize];
                    let is_inside = (place.left..place.left + place.inner.width).contains(&column)
                        && (place.top..place.top + place.inner.height).contains(&row);
                    if is_inside {
                        prop_assert_eq!(Some(&ours), inner.next());
                    } else {
                        prop_assert!((ours - border).abs() < 1e-5, "{ours} is not {border}");
                    }
                }
            }
        }
        prop_assert_eq!(inner.next(), None);
    }
}

#[test]
fn a_bright_spot_is_found_again_in_the_frame() {
    let layout = FrameLayout::packed(PixelFormat::Gray8, 320, 200);
    let spec = PreprocessSpec {
        channels: 1,
        fit: Fit::Letterbox { fill: 0 },
        ..spec(layout, size(160, 120), size(80, 80))
    };
    let (corner, spot) = ((40, 30), (100, 75));
    let mut frame = vec![0; layout.len()];
    for (dx, dy) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
        frame[(spot.1 + dy) * 320 + spot.0 + dx] = 255;
    }
    let planes = run(
        &mut Preprocessor::new(&spec).expect("valid"),
        &frame,
        corner.0,
        corner.1,
    );
    let brightest = (0..planes.len()).max_by(|a, b| planes[*a].total_cmp(&planes[*b]));
    let at = brightest.expect("a plane");
    let (x, y) = ((at % 80) as f32 + 0.5, (at / 80) as f32 + 0.5);
    let (dx, dy) = spec.fit.place(spec.crop, spec.output).to_frame(x, y);
    let found = (corner.0 as f32 + dx, corner.1 as f32 + dy);
    // The spot's centre is where its four pixels meet; a pixel of the input is two of the frame's.
    assert!(
        (found.0 - 101.0).abs() <= 1.0 && (found.1 - 76.0).abs() <= 1.0,
        "{found:?}"
    );
}
