//! Round-ended lines, and a pen that collects them.

/// A round-ended line. `half_width` and coordinates are in the glyph's frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stroke {
    from: [f32; 2],
    along: [f32; 2],
    /// `1 / |along|^2`, or zero for a dot.
    inverse_length2: f32,
    half_width: f32,
}

impl Stroke {
    pub(crate) fn new(from: [f32; 2], to: [f32; 2], half_width: f32) -> Self {
        let along = [to[0] - from[0], to[1] - from[1]];
        let length2 = along[0] * along[0] + along[1] * along[1];
        Self {
            from,
            along,
            inverse_length2: if length2 > 0.0 { 1.0 / length2 } else { 0.0 },
            half_width,
        }
    }

    /// How much of a point is covered, 0 to 1, with edges `softness` to either side: a stroke that
    /// is thinner than its blur pales.
    pub(crate) fn coverage(&self, [x, y]: [f32; 2], softness: f32) -> f32 {
        let (dx, dy) = (x - self.from[0], y - self.from[1]);
        let t = ((dx * self.along[0] + dy * self.along[1]) * self.inverse_length2).clamp(0.0, 1.0);
        let (dx, dy) = (dx - t * self.along[0], dy - t * self.along[1]);
        let distance = (dx * dx + dy * dy).sqrt();
        edge(distance - self.half_width, softness) - edge(distance + self.half_width, softness)
    }
}

/// 1 inside (negative distance), 0 outside, a ramp of `softness` to either side.
pub(crate) fn edge(distance: f32, softness: f32) -> f32 {
    (0.5 - 0.5 * distance / softness).clamp(0.0, 1.0)
}

/// Collects the strokes of one glyph.
#[derive(Debug, Default)]
pub(crate) struct Pen {
    pub(crate) strokes: Vec<Stroke>,
    pub(crate) width: f32,
}

impl Pen {
    pub(crate) fn line(&mut self, points: &[[f32; 2]]) -> &mut Self {
        for pair in points.windows(2) {
            self.strokes.push(Stroke::new(pair[0], pair[1], self.width));
        }
        self
    }

    pub(crate) fn dot(&mut self, at: [f32; 2], radius: f32) -> &mut Self {
        self.strokes.push(Stroke::new(at, at, radius));
        self
    }

    pub(crate) fn thick(&mut self, from: [f32; 2], to: [f32; 2], half_width: f32) -> &mut Self {
        self.strokes.push(Stroke::new(from, to, half_width));
        self
    }

    /// A circle as a polygon of 12 sides.
    pub(crate) fn circle(&mut self, [x, y]: [f32; 2], radius: f32) -> &mut Self {
        const SIDES: usize = 12;
        let corner = |side: usize| {
            let (sin, cos) = (side as f32 * std::f32::consts::TAU / SIDES as f32).sin_cos();
            [x + radius * cos, y + radius * sin]
        };
        for side in 0..SIDES {
            self.line(&[corner(side), corner(side + 1)]);
        }
        self
    }

    /// An arrow head at `tip`, pointing along the unit vector `(dx, dy)`.
    pub(crate) fn head(&mut self, [x, y]: [f32; 2], [dx, dy]: [f32; 2], size: f32) -> &mut Self {
        let back = |side: f32| [x - size * (dx + side * dy), y - size * (dy - side * dx)];
        self.line(&[back(1.0), [x, y], back(-1.0)])
    }

    /// A digit, 0 to 8, in a box of this centre and half size.
    pub(crate) fn digit(&mut self, digit: u16, centre: f32, half: [f32; 2]) -> &mut Self {
        let outline = DIGITS[usize::from(digit)];
        let points: Vec<[f32; 2]> = outline
            .iter()
            .map(|[x, y]| [centre + x * half[0], y * half[1]])
            .collect();
        self.line(&points)
    }

    pub(crate) fn person(&mut self, [x, y]: [f32; 2], size: f32) -> &mut Self {
        let at = |dx: f32, dy: f32| [x + dx * size, y + dy * size];
        self.dot(at(0.0, -0.85), 0.17 * size)
            .line(&[at(0.0, -0.55), at(0.0, 0.15), at(-0.35, 0.95)])
            .line(&[at(0.0, 0.15), at(0.4, 0.9)])
            .line(&[at(-0.45, 0.05), at(0.0, -0.5), at(0.45, -0.05)])
    }

    pub(crate) fn car(&mut self, x: f32) -> &mut Self {
        self.thick([x - 0.2, 0.15], [x + 0.2, 0.15], 0.16)
            .thick([x - 0.12, -0.14], [x + 0.12, -0.14], 0.1)
            .dot([x - 0.22, 0.36], 0.1)
            .dot([x + 0.22, 0.36], 0.1)
    }
}

/// Outlines of the digits 0 to 8 in a box of -1 to 1; no limit has a 9.
const DIGITS: [&[[f32; 2]]; 9] = [
    &[
        [-0.5, -1.0],
        [0.5, -1.0],
        [1.0, -0.5],
        [1.0, 0.5],
        [0.5, 1.0],
        [-0.5, 1.0],
        [-1.0, 0.5],
        [-1.0, -0.5],
        [-0.5, -1.0],
    ],
    &[[-0.6, -0.5], [0.1, -1.0], [0.1, 1.0]],
    &[
        [-1.0, -0.5],
        [-0.5, -1.0],
        [0.5, -1.0],
        [1.0, -0.5],
        [0.8, 0.0],
        [-1.0, 1.0],
        [1.0, 1.0],
    ],
    &[
        [-1.0, -0.7],
        [-0.4, -1.0],
        [0.5, -1.0],
        [1.0, -0.5],
        [0.3, -0.05],
        [1.0, 0.5],
        [0.5, 1.0],
        [-0.4, 1.0],
        [-1.0, 0.7],
    ],
    &[[0.5, 1.0], [0.5, -1.0], [-1.0, 0.4], [1.0, 0.4]],
    &[
        [1.0, -1.0],
        [-0.8, -1.0],
        [-0.9, -0.1],
        [0.4, -0.2],
        [1.0, 0.3],
        [0.5, 1.0],
        [-0.4, 1.0],
        [-1.0, 0.7],
    ],
    &[
        [0.8, -0.9],
        [0.1, -1.0],
        [-0.8, -0.4],
        [-1.0, 0.4],
        [-0.5, 1.0],
        [0.5, 1.0],
        [1.0, 0.45],
        [0.5, -0.1],
        [-0.5, -0.1],
        [-1.0, 0.4],
    ],
    &[[-1.0, -1.0], [1.0, -1.0], [-0.2, 1.0]],
    &[
        [0.0, -0.05],
        [-0.8, -0.5],
        [-0.4, -1.0],
        [0.4, -1.0],
        [0.8, -0.5],
        [0.0, -0.05],
        [1.0, 0.5],
        [0.5, 1.0],
        [-0.5, 1.0],
        [-1.0, 0.5],
        [0.0, -0.05],
    ],
];
