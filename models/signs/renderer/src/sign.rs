//! One sign: its design, where it stands, and what hides a part of it.

use crate::classes::{Design, Plate, design};
use crate::colour::{Rgb, mix, scaled};
use crate::random::Random;
use crate::stroke::{Stroke, edge};

impl Plate {
    /// Distance to the outline in a frame of -1 to 1, negative inside.
    pub(crate) fn distance(self, [x, y]: [f32; 2]) -> f32 {
        const SIN_60: f32 = 0.866_025_4;
        let diagonal = (x.abs() + y.abs()) * std::f32::consts::FRAC_1_SQRT_2;
        let triangle = |y: f32| y.max(x.abs() * SIN_60 - y * 0.5);
        let outer = match self {
            Self::Disc => (x * x + y * y).sqrt(),
            Self::Octagon => x.abs().max(y.abs()).max(diagonal),
            Self::Triangle => triangle(y),
            Self::TriangleDown => triangle(-y),
            Self::Diamond => diagonal,
            Self::Square => x.abs().max(y.abs()),
        };
        outer - self.inner_radius()
    }

    /// Radius of the largest circle inside.
    pub(crate) fn inner_radius(self) -> f32 {
        match self {
            Self::Disc => 1.0,
            Self::Octagon => 0.95,
            Self::Triangle | Self::TriangleDown => 0.58,
            Self::Diamond => 0.78,
            Self::Square => 0.85,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Sign {
    design: Design,
    strokes: Vec<Stroke>,
    band: Stroke,
    pub(crate) centre: [f32; 2],
    /// Pixels of the frame, before squeezing.
    radius: f32,
    /// Pixels from the centre beyond which there is nothing of the sign.
    reach: f32,
    /// From pixels around the centre to the frame of -1 to 1.
    inverse: [[f32; 2]; 2],
    /// Half the width of an edge, in the frame of -1 to 1.
    softness: f32,
    /// How far paint has faded to grey, 0 to 1.
    faded: f32,
    occluders: Vec<(Stroke, Rgb)>,
}

impl Sign {
    /// A sign of this label at `centre`. `difficulty` 0 to 1 says how bad it may get.
    pub(crate) fn new(
        label: usize,
        centre: [f32; 2],
        difficulty: f32,
        random: &mut Random,
    ) -> Self {
        let design = design(label as u16);
        // Each nuisance is drawn by itself: a hard scene is hard in its own way.
        let nuisance = |random: &mut Random| difficulty * random.unit();
        let radius = 78.0 - 46.0 * nuisance(random) - random.between(0.0, 8.0);
        let blur = 0.8 + 4.0 * nuisance(random);
        let turn = random.between(-1.0, 1.0) * (0.06 + 0.24 * nuisance(random));
        let squeeze = 1.0 - 0.4 * nuisance(random);
        let shear = random.between(-0.25, 0.25) * difficulty;
        let faded = 0.5 * nuisance(random);
        let (sin, cos) = turn.sin_cos();
        // Pixels = radius * rotation * shear * squeeze * p, inverted.
        let inverse = [
            [
                (cos - shear * sin) / (radius * squeeze),
                (sin + shear * cos) / (radius * squeeze),
            ],
            [-sin / radius, cos / radius],
        ];
        let occluders = occluders(difficulty, random);
        Self {
            strokes: design.glyph.strokes(),
            band: Stroke::new([-0.62, 0.62], [0.62, -0.62], 0.085),
            design,
            centre,
            radius,
            reach: 1.35 * radius + blur,
            inverse,
            softness: blur / radius,
            faded,
            occluders,
        }
    }

    /// A smaller sign of this label that touches this one: what a crop around this one may show too.
    pub(crate) fn neighbour(&self, label: usize, difficulty: f32, random: &mut Random) -> Self {
        let mut other = Self::new(label, self.centre, difficulty, random);
        let radius = random.between(0.55, 0.85) * self.radius;
        other.resize(radius);
        let away = random.between(1.0, 1.2) * (self.radius + radius);
        let (sin, cos) = random.between(0.0, std::f32::consts::TAU).sin_cos();
        other.centre = [self.centre[0] + away * cos, self.centre[1] + away * sin];
        other
    }

    /// A sign of this radius, whose blur is that of a lens: a small one is as sharp in pixels as a large one.
    pub(crate) fn distant(
        label: usize,
        centre: [f32; 2],
        radius: f32,
        difficulty: f32,
        random: &mut Random,
    ) -> Self {
        let mut sign = Self::new(label, centre, difficulty, random);
        sign.resize(radius);
        let blur = 0.7 + 1.6 * difficulty * random.unit();
        sign.softness = blur / radius;
        sign.reach = 1.35 * radius + blur;
        sign
    }

    /// Its blur in pixels stays.
    fn resize(&mut self, radius: f32) {
        let shrunk = radius / self.radius;
        self.radius = radius;
        self.reach *= shrunk;
        self.softness /= shrunk;
        self.inverse = self.inverse.map(|row| row.map(|value| value / shrunk));
    }

    /// Left, top, right and bottom of the plate, in pixels.
    pub(crate) fn bounds(&self) -> [f32; 4] {
        let [[a, b], [c, d]] = self.inverse;
        let determinant = a * d - b * c;
        let plate = self.design.plate;
        let mut bounds = [f32::MAX, f32::MAX, f32::MIN, f32::MIN];
        // Every 2.5 degrees: all corners of all plates are among these.
        for step in 0..144 {
            let (sin, cos) = (step as f32 * std::f32::consts::TAU / 144.0).sin_cos();
            // Distances grow in proportion to the way from the centre.
            let away = plate.inner_radius() / (plate.distance([cos, sin]) + plate.inner_radius());
            let (px, py) = (away * cos, away * sin);
            let x = self.centre[0] + (d * px - b * py) / determinant;
            let y = self.centre[1] + (a * py - c * px) / determinant;
            bounds = [
                bounds[0].min(x),
                bounds[1].min(y),
                bounds[2].max(x),
                bounds[3].max(y),
            ];
        }
        bounds
    }

    /// The sign over `behind` at a pixel.
    pub(crate) fn over(&self, behind: Rgb, x: f32, y: f32) -> Rgb {
        self.lit(behind, x, y, 1.0)
    }

    /// The same in a light of its own, as headlights at night.
    pub(crate) fn lit(&self, behind: Rgb, x: f32, y: f32, light: f32) -> Rgb {
        let (dx, dy) = (x - self.centre[0], y - self.centre[1]);
        if dx * dx + dy * dy > self.reach * self.reach {
            return behind;
        }
        let p = self.inverse.map(|[a, b]| a * dx + b * dy);
        let plate = self.design.plate.distance(p);
        let mut colour = behind;
        if plate < self.softness {
            let face = scaled(self.face(p, plate), light);
            colour = mix(behind, face, edge(plate, self.softness));
        }
        for (occluder, paint) in &self.occluders {
            let paint = scaled(*paint, light);
            colour = mix(colour, paint, occluder.coverage(p, self.softness));
        }
        colour
    }

    /// Whether a pixel lies on the plate.
    #[cfg(test)]
    pub(crate) fn covers(&self, x: f32, y: f32) -> bool {
        let (dx, dy) = (x - self.centre[0], y - self.centre[1]);
        let p = self.inverse.map(|[a, b]| a * dx + b * dy);
        self.design.plate.distance(p) < 0.0
    }

    /// Rim, field, glyph and band, `plate` from the outline.
    fn face(&self, p: [f32; 2], plate: f32) -> Rgb {
        let design = &self.design;
        let radius = design.plate.inner_radius();
        let field_radius = radius * (1.0 - design.rim_width);
        let in_field = edge(plate + radius - field_radius, self.softness);
        let mut face = mix(design.rim.rgb(), design.field.rgb(), in_field);
        // The corners of a triangle leave more room than its inner circle.
        let (room, lift) = match design.plate {
            Plate::Triangle => (1.5, 0.03),
            _ => (1.3, 0.0),
        };
        let scale = 1.0 / (room * field_radius);
        let q = [p[0] * scale, (p[1] - lift) * scale];
        let softness = self.softness * scale;
        let ink = self.strokes.iter().fold(0.0_f32, |most, stroke| {
            most.max(stroke.coverage(q, softness))
        });
        face = mix(face, design.ink.rgb(), ink);
        if design.band {
            let band = self.band.coverage(q, softness) * in_field;
            face = mix(face, [0.08, 0.08, 0.09], band);
        }
        let grey = (face[0] + face[1] + face[2]) / 3.0;
        mix(face, [0.25 + 0.5 * grey; 3], self.faded)
    }
}

/// Branches and poles across the sign, leaves over its rim.
fn occluders(difficulty: f32, random: &mut Random) -> Vec<(Stroke, Rgb)> {
    let mut occluders = Vec::new();
    while occluders.len() < 3 && random.chance(0.1 + 0.4 * difficulty) {
        let (sin, cos) = random.between(0.0, std::f32::consts::TAU).sin_cos();
        let stroke = if random.chance(0.5) {
            let away = random.between(0.1, 0.9);
            let half_width = random.between(0.02, 0.04 + 0.08 * difficulty);
            let foot = [away * cos, away * sin];
            Stroke::new(
                [foot[0] - 1.3 * sin, foot[1] + 1.3 * cos],
                [foot[0] + 1.3 * sin, foot[1] - 1.3 * cos],
                half_width,
            )
        } else {
            let away = random.between(0.75, 1.15);
            let at = [away * cos, away * sin];
            Stroke::new(at, at, random.between(0.1, 0.2 + 0.25 * difficulty))
        };
        let paint = [
            random.between(0.05, 0.45),
            random.between(0.1, 0.5),
            random.between(0.03, 0.35),
        ];
        occluders.push((stroke, paint));
    }
    occluders
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CLASSES;

    /// A sign of 64x64 pixels over grey, at the same place for every label.
    fn picture(label: usize) -> Vec<Rgb> {
        let sign = Sign::new(label, [96.0, 96.0], 0.0, &mut Random::new(1, 1));
        let at = |i: usize| (8.0 + (i % 64) as f32 * 2.75, 8.0 + (i / 64) as f32 * 2.75);
        (0..64 * 64)
            .map(|i| sign.over([0.5; 3], at(i).0, at(i).1))
            .collect()
    }

    #[test]
    fn no_two_classes_look_alike() {
        let pictures: Vec<_> = (0..CLASSES.len()).map(picture).collect();
        for (a, first) in pictures.iter().enumerate() {
            for (b, second) in pictures.iter().enumerate().take(a) {
                let differ = |(p, q): (&Rgb, &Rgb)| (0..3).any(|c| (p[c] - q[c]).abs() > 0.3);
                let pixels = first
                    .iter()
                    .zip(second)
                    .filter(|pair| differ(*pair))
                    .count();
                // At least 20 of about 2,000: a glyph's detail of 4x5 pixels.
                assert!(pixels >= 20, "{} and {}: {pixels}", CLASSES[a], CLASSES[b]);
            }
        }
    }

    #[test]
    fn bounds_touch_the_plate_on_all_four_sides() {
        let mut random = Random::new(3, 3);
        for (label, class) in CLASSES.iter().enumerate() {
            let sign = Sign::distant(label, [100.0, 90.0], 40.0, 1.0, &mut random);
            let bounds = sign.bounds();
            let mut seen = [f32::MAX, f32::MAX, f32::MIN, f32::MIN];
            for at in 0..400 * 400 {
                let (x, y) = ((at % 400) as f32 / 2.0, (at / 400) as f32 / 2.0);
                if sign.covers(x, y) {
                    seen = [
                        seen[0].min(x),
                        seen[1].min(y),
                        seen[2].max(x),
                        seen[3].max(y),
                    ];
                }
            }
            // A corner may lie between two of the points.
            let near = seen.iter().zip(bounds).all(|(a, b)| (a - b).abs() < 1.5);
            assert!(near, "{class}: {seen:?}, {bounds:?}");
        }
    }
}
