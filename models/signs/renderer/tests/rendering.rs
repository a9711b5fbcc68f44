//! What the demo and the training rely on: scenes follow from their seed, crops hold the sign,
//! formats show the same picture.

use punctual_kernels::preprocess::{PlanarOutput, PreprocessSpec, Preprocessor};
use punctual_signs::{
    CAMERA_EASIEST, CLASSES, CROP_SIDE, Camera, FRAME_HEIGHT, FRAME_WIDTH, Region, Scene, Truth,
};
use punctual_types::{Fit, FrameLayout, PixelFormat, Size};

fn rendered(scene: &Scene, region: Region) -> Vec<u8> {
    let mut rgb = vec![0; region.rgb8_len()];
    scene.render(region, &mut rgb);
    rgb
}

/// FNV-1a.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// The network was trained on these pictures. If this fails on purpose, train it again.
/// (Sines differ in the last bit between mathematics libraries, so one platform is checked.)
#[test]
#[cfg(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu"))]
fn the_renderer_still_draws_what_the_network_was_trained_on() {
    let crops = (0..43).map(|index| {
        let scene = Scene::from_difficulty(1, index, 0.0);
        hash(&rendered(&scene, scene.crop()))
    });
    let all: Vec<u8> = crops.flat_map(u64::to_le_bytes).collect();
    assert_eq!(hash(&all), 14_921_052_079_507_615_114);
}

#[test]
fn a_frame_follows_from_its_seed_and_index() {
    let frame = |seed, index| hash(&rendered(&Scene::new(seed, index), Region::FRAME));
    assert_eq!(frame(5, 3), frame(5, 3));
    assert_ne!(frame(5, 3), frame(5, 4));
    assert_ne!(frame(5, 3), frame(6, 3));
}

#[test]
fn a_pixel_is_the_same_in_whatever_region_it_is_drawn() {
    for index in 0..3 {
        let scene = Scene::new(8, index);
        let (frame, crop) = (rendered(&scene, Region::FRAME), scene.crop());
        let drawn = rendered(&scene, crop);
        for (row, line) in drawn.chunks_exact(crop.width as usize * 3).enumerate() {
            let start = ((crop.y as usize + row) * FRAME_WIDTH as usize + crop.x as usize) * 3;
            assert_eq!(
                line,
                &frame[start..][..line.len()],
                "scene {index}, row {row}"
            );
        }
    }
}

#[test]
fn crops_lie_inside_the_frame_on_even_pixels() {
    let (mut right, mut bottom) = (0, 0);
    for index in 0..2000 {
        let Region {
            x,
            y,
            width,
            height,
        } = Scene::new(3, index).crop();
        assert_eq!((width, height, x % 2, y % 2), (CROP_SIDE, CROP_SIDE, 0, 0));
        assert!(x + width <= FRAME_WIDTH && y + height <= FRAME_HEIGHT);
        (right, bottom) = (right.max(x + width), bottom.max(y + height));
    }
    assert!(
        right > FRAME_WIDTH - 20 && bottom > FRAME_HEIGHT - 20,
        "they reach everywhere"
    );
}

#[test]
fn every_class_comes_once_in_43_scenes_and_in_changing_order() {
    let labels = |from: u64| {
        (from..from + 43)
            .map(|i| Scene::new(2, i).label())
            .collect::<Vec<_>>()
    };
    for from in [0, 43, 86] {
        let mut sorted = labels(from);
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..CLASSES.len()));
    }
    assert_ne!(labels(0), labels(43));
}

#[test]
fn the_compile_options_name_the_classes_in_the_order_of_their_labels() {
    let options = include_str!("../../signs.toml");
    let (_, list) = options
        .split_once("classes = [")
        .expect("a list of classes");
    let names = list.split('"').skip(1).step_by(2);
    assert!(names.eq(CLASSES), "signs.toml and CLASSES differ");
}

#[test]
fn difficulty_is_uniform_from_the_easiest_asked_for() {
    for easiest in [0.0, CAMERA_EASIEST] {
        let all: Vec<f32> = (0..1000)
            .map(|index| Scene::from_difficulty(2, index, easiest).difficulty())
            .collect();
        let mean = all.iter().sum::<f32>() / all.len() as f32;
        assert!(all.iter().all(|d| (easiest..=1.0).contains(d)));
        assert!((mean - (1.0 + easiest) / 2.0).abs() < 0.03, "{mean}");
    }
    assert!(
        Scene::new(2, 5).difficulty() >= CAMERA_EASIEST,
        "what cameras show is not easy"
    );
}

/// The network's input for a camera's shot.
fn prepared(camera: &Camera, number: u64) -> Vec<f32> {
    let size = |side| Size {
        width: side,
        height: side,
    };
    let mut preprocessor = Preprocessor::new(&PreprocessSpec {
        frame: camera.layout(),
        crop: size(CROP_SIDE),
        output: size(96),
        channels: 3,
        fit: Fit::Stretch,
        mean: [0.0; 4],
        std: [1.0; 4],
    })
    .unwrap();
    let shot = camera.shot(number);
    let mut frame = vec![0; camera.layout().len()];
    shot.write(&mut frame);
    let rows = preprocessor
        .crop_rows(shot.crop().0, shot.crop().1)
        .unwrap();
    let mut copy = vec![0; rows.copy_len()];
    rows.copy_from(&frame, &mut copy);
    let mut planes = vec![0.0; 3 * 96 * 96];
    let output = PlanarOutput::packed(&mut planes, 96, 96);
    preprocessor.run(&rows, &copy, output).unwrap();
    planes
}

#[test]
fn cameras_of_all_formats_with_colours_show_the_same_picture() {
    let rgb = Camera::signs(PixelFormat::Rgb8, 4, 5);
    for format in [
        PixelFormat::Nv12,
        PixelFormat::Yuyv,
        PixelFormat::Uyvy,
        PixelFormat::Bgr8,
    ] {
        let other = Camera::signs(format, 4, 5);
        for number in 0..5 {
            assert_eq!(rgb.shot(number).truth(), other.shot(number).truth());
            assert_eq!(rgb.shot(number).crop(), other.shot(number).crop());
            let (a, b) = (prepared(&rgb, number), prepared(&other, number));
            let off: Vec<f32> = a.iter().zip(&b).map(|(a, b)| (a - b).abs()).collect();
            let mean = off.iter().sum::<f32>() / off.len() as f32;
            // Chroma at half the resolution shows at the edges of colours, and nowhere else.
            assert!(mean < 0.012, "{format:?} {number}: mean difference {mean}");
            assert!(off.iter().all(|off| *off < 0.35), "{format:?} {number}");
        }
    }
}

#[test]
fn a_gray_camera_shows_the_luma_of_the_same_picture() {
    let [rgb, gray] = [PixelFormat::Rgb8, PixelFormat::Gray8].map(|f| Camera::signs(f, 4, 2));
    let (colours, grays) = (prepared(&rgb, 1), prepared(&gray, 1));
    let pixels = colours.len() / 3;
    for pixel in 0..pixels {
        let [r, g, b] = [0, 1, 2].map(|plane| colours[plane * pixels + pixel]);
        let luma = 0.299 * r + 0.587 * g + 0.114 * b;
        for plane in 0..3 {
            let gray = grays[plane * pixels + pixel];
            assert!((gray - luma).abs() < 0.004, "pixel {pixel}: {gray}, {luma}");
        }
    }
}

#[test]
fn a_shot_is_its_scene_within_the_crop() {
    let camera = Camera::signs(PixelFormat::Rgb8, 6, 3);
    assert_eq!(
        camera.layout(),
        FrameLayout::packed(PixelFormat::Rgb8, FRAME_WIDTH, FRAME_HEIGHT)
    );
    // Dirty memory: a shot overwrites all of it.
    let mut frame = vec![0xa5; camera.layout().len()];
    for number in [1, 2, 4] {
        let scene = Scene::new(6, number % 3);
        let shot = camera.shot(number);
        assert_eq!(*shot.truth(), Truth::Sign(scene.label()));
        shot.write(&mut frame);
        let (x, y) = shot.crop();
        let expected = rendered(&scene, scene.crop());
        for (row, line) in expected.chunks_exact(CROP_SIDE as usize * 3).enumerate() {
            let start = ((y as usize + row) * FRAME_WIDTH as usize + x as usize) * 3;
            assert_eq!(
                line,
                &frame[start..][..line.len()],
                "shot {number}, row {row}"
            );
        }
    }
    camera.shot(0).write(&mut frame);
    assert_eq!(frame, rendered(&Scene::new(6, 0), Region::FRAME));
}
