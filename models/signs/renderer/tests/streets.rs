//! What the detector's training and the demo rely on: streets follow from their seed, their boxes hold signs.

use punctual_signs::{
    CATEGORIES, Camera, FRAME_HEIGHT, FRAME_WIDTH, Object, Region, Street, Truth, to_nv12,
};
use punctual_types::PixelFormat;

fn rendered(street: &Street) -> Vec<u8> {
    let mut rgb = vec![0; Region::FRAME.rgb8_len()];
    street.render(&mut rgb);
    rgb
}

/// FNV-1a.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// The detector was trained on these pictures. If this fails on purpose, train it again.
/// (Sines differ in the last bit between mathematics libraries, so one platform is checked.)
#[test]
#[cfg(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu"))]
fn the_renderer_still_draws_the_streets_that_the_detector_was_trained_on() {
    let frames = (0..8).flat_map(|index| hash(&rendered(&Street::new(101, index))).to_le_bytes());
    assert_eq!(
        hash(&frames.collect::<Vec<u8>>()),
        8_750_818_421_717_696_282
    );
}

#[test]
fn a_street_follows_from_its_seed_and_index() {
    let frame = |seed, index| hash(&rendered(&Street::new(seed, index)));
    assert_eq!(frame(5, 3), frame(5, 3));
    assert_ne!(frame(5, 3), frame(5, 4));
    assert_ne!(frame(5, 3), frame(6, 3));
}

#[test]
fn signs_lie_in_the_frame_and_none_hides_another() {
    let (mut counts, mut categories) = ([0; Street::SIGNS_MAX + 1], [0; CATEGORIES.len()]);
    for index in 0..2000 {
        let street = Street::new(4, index);
        let objects = street.objects();
        counts[objects.len()] += 1;
        for (number, object) in objects.iter().enumerate() {
            categories[object.category] += 1;
            let Object {
                left,
                top,
                right,
                bottom,
                ..
            } = *object;
            assert!(0.0 <= left && left + 8.0 < right && right <= FRAME_WIDTH as f32);
            assert!(0.0 <= top && top + 8.0 < bottom && bottom <= FRAME_HEIGHT as f32);
            for other in &objects[..number] {
                let wide = right.min(other.right) - left.max(other.left);
                let high = bottom.min(other.bottom) - top.max(other.top);
                assert!(wide < 2.0 || high < 2.0, "street {index}");
            }
        }
    }
    assert!(counts.iter().all(|count| *count > 100), "{counts:?}");
    let mean = categories.iter().sum::<u32>() / CATEGORIES.len() as u32;
    assert!(
        categories
            .iter()
            .all(|count| count.abs_diff(mean) < mean / 5),
        "{categories:?}"
    );
}

#[test]
fn a_camera_of_streets_shows_whole_frames_with_their_objects() {
    let camera = Camera::streets(PixelFormat::Nv12, 7, 2);
    let (width, height) = (FRAME_WIDTH as usize, FRAME_HEIGHT as usize);
    let mut frame = vec![0xa5; camera.layout().len()];
    for number in 0..3 {
        let (shot, street) = (camera.shot(number), Street::new(7, number % 2));
        shot.write(&mut frame);
        assert_eq!(shot.crop(), (0, 0));
        assert_eq!(*shot.truth(), Truth::Objects(street.objects().to_vec()));
        let mut nv12 = vec![0; camera.layout().len()];
        to_nv12(&rendered(&street), width, height, &mut nv12);
        assert_eq!(frame, nv12, "frame {number}");
    }
}

#[test]
fn the_compile_options_name_the_categories_in_their_order() {
    let options = include_str!("../../../streets/streets.toml");
    let (_, list) = options
        .split_once("classes = [")
        .expect("a list of classes");
    let (list, _) = list.split_once(']').expect("its end");
    let names = list.split('"').skip(1).step_by(2);
    assert!(names.eq(CATEGORIES), "streets.toml and CATEGORIES differ");
}
