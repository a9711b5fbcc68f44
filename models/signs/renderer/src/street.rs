//! A whole frame with several signs, by day or by night, from a seed and an index.

use crate::classes::labels_of;
use crate::colour::{Rgb, byte, mix, scaled};
use crate::place::Place;
use crate::random::Random;
use crate::region::Region;
use crate::sign::Sign;
use crate::stroke::edge;
use crate::weather::Weather;
use crate::{CATEGORIES, FRAME_HEIGHT, FRAME_WIDTH};

/// What a detector is to find: the plate of one sign. Sides in pixels of the frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Object {
    pub left: f32,
    pub top: f32,
    pub right: f32,
    pub bottom: f32,
    /// An index into [`CATEGORIES`].
    pub category: usize,
}

/// A street with up to [`SIGNS_MAX`](Self::SIGNS_MAX) signs.
#[derive(Clone, Debug)]
pub struct Street {
    place: Place,
    /// From far to near.
    signs: Vec<Sign>,
    objects: Vec<Object>,
    light: Light,
    weather: Weather,
    /// How far the camera moves while its shutter is open, in pixels.
    motion: [f32; 2],
}

/// What lights the street and its signs.
#[derive(Clone, Debug)]
struct Light {
    /// Share of its daylight that the street has.
    street: Rgb,
    /// Of the signs: at night they reflect the headlights.
    signs: f32,
    /// Lamps and headlights: centre, radius, colour.
    lamps: Vec<([f32; 2], f32, Rgb)>,
}

/// Share of the frames that are taken at night.
const NIGHT: f32 = 0.3;
/// Radius of the farthest and of the nearest sign, in pixels of the frame.
const RADIUS: (f32, f32) = (11.0, 64.0);
/// A sign that finds no free place after this number of attempts is left out.
const ATTEMPTS: u32 = 20;
/// Pixels that the longest motion blur covers.
const MOTION_MAX: f32 = 10.0;

impl Street {
    pub const SIGNS_MAX: usize = 6;

    /// The frame number `index` of `seed`.
    pub fn new(seed: u64, index: u64) -> Self {
        // Another stream than that of the scene with these numbers.
        let mut random = Random::new(!seed, index);
        let difficulty = random.unit();
        let signs = place_signs(difficulty, &mut random);
        let night = random.chance(NIGHT);
        let middle = [
            random.between(0.2, 0.8) * FRAME_WIDTH as f32,
            random.between(0.2, 0.8) * FRAME_HEIGHT as f32,
        ];
        let length = if random.chance(0.4) {
            MOTION_MAX * difficulty * random.unit()
        } else {
            0.0
        };
        let (sin, cos) = random.between(-0.5, 0.5).sin_cos();
        Self {
            place: Place::new(&mut random),
            objects: signs.iter().map(|(_, object)| *object).collect(),
            signs: signs.into_iter().map(|(sign, _)| sign).collect(),
            light: if night {
                Light::night(&mut random)
            } else {
                Light::day()
            },
            // Slopes of light reach over the whole frame: gentler than over a crop.
            weather: Weather::new(middle, 0.7 * difficulty, &mut random),
            motion: [length * cos, length * sin],
        }
    }

    /// Its signs.
    pub fn objects(&self) -> &[Object] {
        &self.objects
    }

    /// Draws the frame as packed RGB8 rows.
    ///
    /// # Panics
    /// If `rgb` is not of [`Region::rgb8_len`] bytes of [`Region::FRAME`].
    pub fn render(&self, rgb: &mut [u8]) {
        assert_eq!(rgb.len(), Region::FRAME.rgb8_len(), "bytes of a frame");
        let width = FRAME_WIDTH as usize;
        let seen: Vec<Rgb> = (0..width * FRAME_HEIGHT as usize)
            .map(|at| self.colour((at % width) as f32, (at / width) as f32))
            .collect();
        for (at, pixel) in rgb.as_chunks_mut::<3>().0.iter_mut().enumerate() {
            let (x, y) = (at % width, at / width);
            let colour = self.moved(&seen, x, y);
            let colour = self.weather.seen(colour, x as u32, y as u32);
            *pixel = colour.map(|level| byte(level * 255.0));
        }
    }

    /// A point of the street before blur and weather.
    fn colour(&self, x: f32, y: f32) -> Rgb {
        let mut colour = self.light.on_street(self.place.colour(x, y), x, y);
        for sign in &self.signs {
            colour = sign.lit(colour, x, y, self.light.signs);
        }
        colour
    }

    /// The mean along the way of the camera.
    fn moved(&self, seen: &[Rgb], x: usize, y: usize) -> Rgb {
        let [dx, dy] = self.motion;
        let steps = dx.abs().max(dy.abs()).ceil() as i32;
        if steps == 0 {
            return seen[y * FRAME_WIDTH as usize + x];
        }
        let mut sum = [0.0; 3];
        for step in 0..=steps {
            let share = step as f32 / steps as f32 - 0.5;
            let at = |from: usize, way: f32, end: u32| {
                (from as f32 + share * way)
                    .round()
                    .clamp(0.0, (end - 1) as f32) as usize
            };
            let (column, row) = (at(x, dx, FRAME_WIDTH), at(y, dy, FRAME_HEIGHT));
            let colour = seen[row * FRAME_WIDTH as usize + column];
            sum = std::array::from_fn(|channel| sum[channel] + colour[channel]);
        }
        scaled(sum, 1.0 / (steps + 1) as f32)
    }
}

/// One to six signs, one frame in twelve has none: none hides another, the far ones come first.
fn place_signs(difficulty: f32, random: &mut Random) -> Vec<(Sign, Object)> {
    let count = if random.chance(1.0 / 12.0) {
        0
    } else {
        1 + random.below(Street::SIGNS_MAX as u32)
    };
    let mut radii: Vec<f32> = (0..count)
        .map(|_| RADIUS.0 * (RADIUS.1 / RADIUS.0).powf(random.unit().powf(1.3)))
        .collect();
    radii.sort_by(f32::total_cmp);
    let mut placed: Vec<(Sign, Object)> = Vec::new();
    for radius in radii {
        let category = random.below(CATEGORIES.len() as u32) as usize;
        let labels = labels_of(category);
        let label = labels[random.below(labels.len() as u32) as usize];
        for _ in 0..ATTEMPTS {
            let centre = [
                random.between(radius, FRAME_WIDTH as f32 - radius),
                random.between(radius, FRAME_HEIGHT as f32 - radius),
            ];
            let sign = Sign::distant(label, centre, radius, difficulty, random);
            let object = object(&sign, category);
            if placed.iter().all(|(_, other)| apart(&object, other)) {
                placed.push((sign, object));
                break;
            }
        }
    }
    placed
}

fn object(sign: &Sign, category: usize) -> Object {
    let [left, top, right, bottom] = sign.bounds();
    Object {
        left: left.max(0.0),
        top: top.max(0.0),
        right: right.min(FRAME_WIDTH as f32),
        bottom: bottom.min(FRAME_HEIGHT as f32),
        category,
    }
}

/// Whether two signs overlap at most at a corner: by 2 pixels.
fn apart(a: &Object, b: &Object) -> bool {
    let common_x = a.right.min(b.right) - a.left.max(b.left);
    let common_y = a.bottom.min(b.bottom) - a.top.max(b.top);
    common_x < 2.0 || common_y < 2.0
}

impl Light {
    fn day() -> Self {
        Self {
            street: [1.0; 3],
            signs: 1.0,
            lamps: Vec::new(),
        }
    }

    fn night(random: &mut Random) -> Self {
        let level = random.between(0.1, 0.35);
        let lamp = |random: &mut Random| {
            let centre = [
                random.between(0.0, FRAME_WIDTH as f32),
                random.between(0.0, FRAME_HEIGHT as f32),
            ];
            let warm = random.between(0.5, 1.0);
            (
                centre,
                random.between(2.0, 14.0),
                [1.0, 0.6 + 0.4 * warm, warm],
            )
        };
        Self {
            street: [0.8 * level, 0.9 * level, 1.1 * level],
            signs: random.between(0.4, 1.0),
            lamps: (0..random.below(9)).map(|_| lamp(random)).collect(),
        }
    }

    fn on_street(&self, colour: Rgb, x: f32, y: f32) -> Rgb {
        let mut colour = std::array::from_fn(|channel| colour[channel] * self.street[channel]);
        for (centre, radius, paint) in &self.lamps {
            let (dx, dy) = (x - centre[0], y - centre[1]);
            if dx.abs() < 4.0 * radius && dy.abs() < 4.0 * radius {
                let distance = (dx * dx + dy * dy).sqrt();
                let core = edge(distance - radius, 1.5);
                let glow = 0.5 * (1.0 - distance / (4.0 * radius)).max(0.0);
                colour = mix(colour, *paint, core.max(glow));
            }
        }
        colour
    }
}
