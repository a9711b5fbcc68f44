//! What stands behind the sign: sky, ground, and clutter that looks a little like signs.

use crate::classes::{Paint, Plate};
use crate::colour::{Rgb, mix, scaled};
use crate::random::{Random, at};
use crate::region::Region;
use crate::stroke::edge;
use crate::{FRAME_HEIGHT, FRAME_WIDTH};

#[derive(Clone, Debug)]
struct Thing {
    plate: Plate,
    centre: [f32; 2],
    radius: [f32; 2],
    paint: Rgb,
    softness: f32,
}

/// A street without its sign.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    texture: u64,
    horizon: f32,
    sky: Rgb,
    ground: Rgb,
    contrast: f32,
    things: Vec<Thing>,
}

const THINGS: u32 = 36;

impl Place {
    pub(crate) fn new(random: &mut Random) -> Self {
        let blue = random.between(0.0, 0.3);
        let bright = random.between(0.45, 0.75);
        Self {
            texture: random.bits(),
            horizon: random.between(0.3, 0.7) * FRAME_HEIGHT as f32,
            sky: [
                bright - 0.5 * blue,
                bright - 0.2 * blue,
                bright + 0.6 * blue,
            ],
            ground: random.colour(0.15, 0.5),
            contrast: random.between(0.1, 0.5),
            things: (0..THINGS).map(|_| Thing::new(random)).collect(),
        }
    }

    /// This place with only the things that show within a region: enough for [`Self::colour`] at the region's pixels.
    pub(crate) fn visible(&self, region: Region) -> Place {
        let mut visible = self.clone();
        visible.things.retain(|thing| thing.touches(region));
        visible
    }

    pub(crate) fn colour(&self, x: f32, y: f32) -> Rgb {
        let share = edge(self.horizon - y, 20.0);
        let mut colour = mix(self.sky, self.ground, share);
        for thing in &self.things {
            colour = thing.over(colour, x, y);
        }
        let coarse = value_noise(self.texture, x / 41.0, y / 29.0);
        let fine = value_noise(!self.texture, x / 9.0, y / 7.0);
        scaled(colour, 1.0 + self.contrast * (0.65 * coarse + 0.35 * fine))
    }
}

impl Thing {
    fn new(random: &mut Random) -> Self {
        const PLATES: [Plate; 6] = [
            Plate::Square,
            Plate::Disc,
            Plate::Square,
            Plate::Triangle,
            Plate::Square,
            Plate::Diamond,
        ];
        const PAINTS: [Paint; 4] = [Paint::Red, Paint::Blue, Paint::White, Paint::Yellow];
        let plate = PLATES[random.below(PLATES.len() as u32) as usize];
        let paint = if random.chance(0.25) {
            let paint = PAINTS[random.below(PAINTS.len() as u32) as usize];
            scaled(paint.rgb(), random.between(0.5, 1.0))
        } else {
            random.colour(0.08, 0.75)
        };
        let size = random.between(8.0, 70.0);
        Self {
            plate,
            centre: [
                random.between(0.0, FRAME_WIDTH as f32),
                random.between(0.0, FRAME_HEIGHT as f32),
            ],
            radius: [
                size * random.between(0.3, 1.0),
                size * random.between(0.3, 1.6),
            ],
            paint,
            softness: random.between(0.02, 0.2),
        }
    }

    /// Pixels from the centre beyond which there is nothing, by axis.
    fn reach(&self) -> [f32; 2] {
        self.radius.map(|radius| 1.4 * radius)
    }

    fn touches(&self, region: Region) -> bool {
        let [x, y] = self.reach();
        let (left, top) = (region.x as f32, region.y as f32);
        self.centre[0] + x >= left
            && self.centre[0] - x <= left + region.width as f32
            && self.centre[1] + y >= top
            && self.centre[1] - y <= top + region.height as f32
    }

    fn over(&self, behind: Rgb, x: f32, y: f32) -> Rgb {
        let (dx, dy) = (x - self.centre[0], y - self.centre[1]);
        let [reach_x, reach_y] = self.reach();
        if dx.abs() > reach_x || dy.abs() > reach_y {
            return behind;
        }
        let p = [dx / self.radius[0], dy / self.radius[1]];
        let share = edge(self.plate.distance(p), self.softness);
        mix(behind, self.paint, share)
    }
}

/// Smooth noise of -1 to 1 with a lattice of 1.
fn value_noise(seed: u64, x: f32, y: f32) -> f32 {
    let (column, row) = (x.floor(), y.floor());
    let corner = |dx: i32, dy: i32| {
        let bits = at(seed, column as i32 + dx, row as i32 + dy);
        (bits >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    let smooth = |t: f32| t * t * (3.0 - 2.0 * t);
    let (u, v) = (smooth(x - column), smooth(y - row));
    let line = |dy: i32| corner(0, dy) + (corner(1, dy) - corner(0, dy)) * u;
    let (top, bottom) = (line(0), line(1));
    top + (bottom - top) * v
}
