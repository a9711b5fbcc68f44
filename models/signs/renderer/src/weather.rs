//! What light, air and sensor do to a picture.

use crate::colour::{Rgb, mix};
use crate::random::{Random, at};
use crate::stroke::edge;

/// Light, haze and noise over a frame.
#[derive(Clone, Debug)]
pub(crate) struct Weather {
    /// Exposure and colour of the light.
    light: Rgb,
    /// Change of brightness a pixel, around the sign.
    slope: [f32; 2],
    centre: [f32; 2],
    /// Beyond this line (unit normal, distance from the centre) lies shadow, this bright.
    shadow: ([f32; 2], f32, f32),
    /// Air between: its colour and its share.
    haze: (Rgb, f32),
    /// Amplitude of a pixel's own noise, and of blotches of 4x4 pixels.
    noise: [f32; 2],
    seed: u64,
}

impl Weather {
    /// Weather around `centre`. `difficulty` 0 to 1 says how bad it may get.
    pub(crate) fn new(centre: [f32; 2], difficulty: f32, random: &mut Random) -> Self {
        let nuisance = |random: &mut Random| difficulty * random.unit();
        let exposure = if random.chance(0.6) {
            1.0 - 0.65 * nuisance(random)
        } else {
            1.0 + 0.6 * nuisance(random)
        };
        let cast = 0.2 * nuisance(random);
        let light = random
            .colour(1.0 - cast, 1.0 + cast)
            .map(|channel| channel * exposure);
        let slope = 0.006 * nuisance(random);
        let (sin, cos) = random.between(0.0, std::f32::consts::TAU).sin_cos();
        let (shadow_sin, shadow_cos) = random.between(0.0, std::f32::consts::TAU).sin_cos();
        let shadow = if random.chance(0.5 * difficulty) {
            random.between(0.35, 0.8)
        } else {
            1.0
        };
        let grey = random.between(0.3, 0.8);
        Self {
            light,
            slope: [slope * cos, slope * sin],
            centre,
            shadow: (
                [shadow_cos, shadow_sin],
                random.between(-40.0, 40.0),
                shadow,
            ),
            haze: ([grey; 3], 0.45 * nuisance(random)),
            noise: [0.03 + 0.18 * nuisance(random), 0.09 * nuisance(random)],
            seed: random.bits(),
        }
    }

    /// The colour that the sensor shows for `colour` at a pixel.
    pub(crate) fn seen(&self, colour: Rgb, x: u32, y: u32) -> Rgb {
        let (dx, dy) = (x as f32 - self.centre[0], y as f32 - self.centre[1]);
        let slope = (1.0 + dx * self.slope[0] + dy * self.slope[1]).clamp(0.4, 1.6);
        let (normal, distance, shade) = self.shadow;
        let lit = edge(dx * normal[0] + dy * normal[1] - distance, 3.0);
        let brightness = slope * (shade + (1.0 - shade) * lit);
        let lit: Rgb = std::array::from_fn(|c| colour[c] * self.light[c] * brightness);
        let hazy = mix(lit, self.haze.0, self.haze.1);
        let grain = unit_noise(at(self.seed, x as i32, y as i32));
        let blotch = unit_noise(at(!self.seed, x as i32 / 4, y as i32 / 4));
        std::array::from_fn(|c| hazy[c] + self.noise[0] * grain[c] + self.noise[1] * blotch[c])
    }
}

/// Three values of -1 to 1 out of 63 bits.
fn unit_noise(bits: u64) -> Rgb {
    let part = |shift: u32| ((bits >> shift) & 0x1f_ffff) as f32 / (1 << 20) as f32 - 1.0;
    [part(0), part(21), part(42)]
}
