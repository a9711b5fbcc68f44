//! Outputs that say the class of each pixel.

use punctual_types::Element;

/// How an output says the class of each pixel.
#[derive(Clone, Copy, Debug)]
pub struct PixelClasses {
    element: Element,
    /// Scores of this number of classes, of which the largest counts; none: the number of the class.
    scores: Option<usize>,
    pub rows: usize,
    pub columns: usize,
}

impl PixelClasses {
    /// None of an output that cannot be such.
    pub fn of(element: Element, shape: &[u32]) -> Option<Self> {
        let (scores, rows, columns) = match (shape, element) {
            (
                &[rows, columns] | &[1, rows, columns],
                // Up to 256 classes are bytes.
                Element::I32 | Element::Bool | Element::U8 { .. },
            ) => (None, rows, columns),
            (&[classes, rows, columns], Element::F32 | Element::U8 { .. } | Element::I8 { .. })
                if classes > 1 =>
            {
                (Some(classes), rows, columns)
            }
            _ => return None,
        };
        Some(Self {
            element,
            scores: scores.map(|classes| classes as usize),
            rows: rows as usize,
            columns: columns as usize,
        })
    }

    /// How many classes have scores; none if the output has numbers of classes.
    pub const fn scored(self) -> Option<usize> {
        self.scores
    }

    /// The class of each pixel, row after row.
    pub fn classes(self, bytes: &[u8]) -> Vec<u32> {
        let mut values = self.element.values(bytes);
        let Some(classes) = self.scores else {
            return values.map(|class| class as u32).collect();
        };
        let pixels = self.rows * self.columns;
        let mut best = vec![(0, f64::NEG_INFINITY); pixels];
        for class in 0..classes as u32 {
            for (best, score) in best.iter_mut().zip(values.by_ref().take(pixels)) {
                // False for what is no number.
                if score > best.1 {
                    *best = (class, score);
                }
            }
        }
        best.into_iter().map(|(class, _)| class).collect()
    }

    /// The column of a place in the network's input, which is `width` wide.
    pub fn column(self, x: f32, width: u32) -> usize {
        cell(x, self.columns, width)
    }

    /// The row of a place in the network's input, which is `height` high.
    pub fn row(self, y: f32, height: u32) -> usize {
        cell(y, self.rows, height)
    }
}

/// The nearest of `cells` that share `pixels`.
pub fn cell(place: f32, cells: usize, pixels: u32) -> usize {
    let cell = f64::from(place) * cells as f64 / f64::from(pixels);
    (cell as usize).min(cells.saturating_sub(1))
}
