//! One picture, from a seed and an index.

use crate::colour::byte;
use crate::place::Place;
use crate::random::Random;
use crate::region::Region;
use crate::sign::Sign;
use crate::weather::Weather;
use crate::{CLASSES, CROP_SIDE, FRAME_HEIGHT, FRAME_WIDTH};

/// The least difficulty of a camera's scenes. The network learns from all of them; what is easier
/// than this, every exit gets right.
pub const CAMERA_EASIEST: f32 = 0.7;

/// A street with one sign in it.
#[derive(Clone, Debug)]
pub struct Scene {
    label: usize,
    difficulty: f32,
    crop: Region,
    place: Place,
    sign: Sign,
    /// Another sign next to it. The one in the middle counts.
    neighbour: Option<Sign>,
    weather: Weather,
}

impl Scene {
    /// The picture number `index` of `seed`, as hard as a camera's are: [`CAMERA_EASIEST`] to 1.
    pub fn new(seed: u64, index: u64) -> Self {
        Self::from_difficulty(seed, index, CAMERA_EASIEST)
    }

    /// The picture number `index` of `seed`, of a difficulty uniform from `easiest` to 1 (and 0 to 1
    /// itself). Every class comes equally often: the labels of 43 pictures in a row all differ.
    pub fn from_difficulty(seed: u64, index: u64, easiest: f32) -> Self {
        let mut random = Random::new(seed, index);
        let classes = CLASSES.len() as u64;
        let shift = Random::new(seed, index / classes).bits() % classes;
        // 12 and 43 have no common divisor: a step that visits every label, but not in their order.
        let label = ((index % classes * 12 + shift) % classes) as usize;
        let difficulty = random.between(easiest.clamp(0.0, 1.0), 1.0);
        // Even, so that a crop's chroma is its own.
        let crop = Region {
            x: 2 * random.below((FRAME_WIDTH - CROP_SIDE) / 2 + 1),
            y: 2 * random.below((FRAME_HEIGHT - CROP_SIDE) / 2 + 1),
            width: CROP_SIDE,
            height: CROP_SIDE,
        };
        let middle = |start: u32| start as f32 + CROP_SIDE as f32 / 2.0;
        let centre = [
            middle(crop.x) + random.between(-10.0, 10.0),
            middle(crop.y) + random.between(-10.0, 10.0),
        ];
        let sign = Sign::new(label, centre, difficulty, &mut random);
        let neighbour = random.chance(0.5).then(|| {
            let label = random.below(classes as u32) as usize;
            sign.neighbour(label, difficulty, &mut random)
        });
        Self {
            label,
            difficulty,
            crop,
            place: Place::new(&mut random),
            sign,
            neighbour,
            weather: Weather::new(centre, difficulty, &mut random),
        }
    }

    /// The sign's class: an index into [`CLASSES`].
    pub fn label(&self) -> usize {
        self.label
    }

    /// 0 (near, sharp, well lit) to 1 (as bad as it gets).
    pub fn difficulty(&self) -> f32 {
        self.difficulty
    }

    /// The square that holds the sign. Its corner lies on even pixels.
    pub fn crop(&self) -> Region {
        self.crop
    }

    /// Draws a region as packed RGB8 rows.
    ///
    /// # Panics
    /// If `rgb` is not of [`Region::rgb8_len`] bytes.
    pub fn render(&self, region: Region, rgb: &mut [u8]) {
        assert_eq!(rgb.len(), region.rgb8_len(), "bytes of {region:?}");
        let place = self.place.visible(region);
        let pixels = rgb.as_chunks_mut::<3>().0;
        for (row, line) in pixels.chunks_exact_mut(region.width as usize).enumerate() {
            let y = region.y + row as u32;
            for (column, pixel) in line.iter_mut().enumerate() {
                let x = region.x + column as u32;
                let (px, py) = (x as f32, y as f32);
                let mut colour = place.colour(px, py);
                if let Some(neighbour) = &self.neighbour {
                    colour = neighbour.over(colour, px, py);
                }
                colour = self.sign.over(colour, px, py);
                *pixel = self
                    .weather
                    .seen(colour, x, y)
                    .map(|level| byte(level * 255.0));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crop_holds_the_sign_but_for_a_corner() {
        for index in 0..2000 {
            let scene = Scene::new(1, index);
            let (x, y) = (scene.crop.x as f32, scene.crop.y as f32);
            let side = CROP_SIDE as f32;
            let border = (0..CROP_SIDE).flat_map(|i| {
                let i = i as f32;
                [(x + i, y), (x + i, y + side), (x, y + i), (x + side, y + i)]
            });
            let cut = border.filter(|(x, y)| scene.sign.covers(*x, *y)).count();
            assert!(
                cut <= 24,
                "scene {index}: the border cuts {cut} pixels of the plate"
            );
            let [middle_x, middle_y] = scene.sign.centre;
            assert!(scene.sign.covers(middle_x, middle_y));
        }
    }

    #[test]
    fn half_of_the_signs_have_a_neighbour_and_none_is_hidden_by_it() {
        let scenes: Vec<Scene> = (0..1000).map(|index| Scene::new(1, index)).collect();
        let neighbours = scenes.iter().filter_map(|scene| {
            let neighbour = scene.neighbour.as_ref()?;
            let [x, y] = scene.sign.centre;
            assert!(
                !neighbour.covers(x, y),
                "beside the sign, not in the middle"
            );
            Some(neighbour)
        });
        assert!((450..550).contains(&neighbours.count()));
    }
}
