//! Pictures as exporters take them: in bytes, with the channels last, normalised by the network itself.

use punctual_compile::schema::attribute::{int, ints};
use punctual_compile::schema::{TensorProto, ValueInfoProto, data_type};
use punctual_types::Random;

use super::{Drawing, Input, Numbers};

/// The name of the first input, unless it is tokens.
pub(crate) const PICTURE: &str = "x";

/// How a file takes a picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Picture {
    /// (rows, columns, channels) instead of (channels, rows, columns).
    pub channels_last: bool,
    /// Whether it is one of bytes; else of floats.
    pub bytes: bool,
    /// A value of the file is (pixel / 255 - mean) / std.
    pub mean: f32,
    pub std: f32,
}

/// What a network does first to a picture.
#[derive(Clone, Copy)]
enum Step {
    /// From bytes to floats.
    Convert,
    /// To (channels, rows, columns).
    Turn,
    /// Red, green and blue in the other order.
    Reverse,
    /// The function of the value and a number, or one a channel, in units of the full scale.
    Combine(&'static str, &'static [f32]),
    /// The same with the number first.
    Mirror(f32),
}

const MEAN: &[f32] = &[0.485, 0.456, 0.406, 0.5];
const STD: &[f32] = &[0.229, 0.224, 0.225, 0.25];

/// Normalisations, in units of the full scale, as exporters and authors write them.
const NORMALISATIONS: &[&[Step]] = &[
    &[],
    &[Step::Combine("Sub", &[0.5]), Step::Combine("Div", &[0.5])],
    &[Step::Combine("Mul", &[2.0]), Step::Combine("Add", &[-1.0])],
    &[Step::Combine("Sub", MEAN), Step::Combine("Div", STD)],
    &[Step::Combine("Sub", MEAN)],
    &[Step::Mirror(1.0)],
];

/// A picture on its way through the steps.
struct Taken {
    name: String,
    sizes: [i64; 3],
    channels_last: bool,
}

impl Drawing {
    /// Now and then a picture of these dimensions (channels, rows, columns) as an exporter takes it; whether it did.
    pub(super) fn draw_picture(&mut self, dims: &[i64]) -> bool {
        let &[1 | 3 | 4, _, _] = dims else {
            return false;
        };
        let own = Random::new(self.seed).stream("picture", 0);
        // What other networks are drawn from stays as it is.
        let random = std::mem::replace(&mut self.random, own);
        let takes = self.random.one_in(2);
        if takes {
            self.picture([dims[0], dims[1], dims[2]]);
        }
        self.random = random;
        takes
    }

    fn picture(&mut self, [channels, rows, columns]: [i64; 3]) {
        let bytes = self.random.one_in(2);
        let of_floats = [(0.0, 1.0), (0.5, 0.25), (0.0, 1.0 / 255.0)];
        let (mean, std) = if bytes {
            (0.0, 1.0 / 255.0)
        } else {
            self.one_of(&of_floats)
        };
        let picture = Picture {
            channels_last: self.random.one_in(2),
            bytes,
            mean,
            std,
        };
        let sizes = [channels, rows, columns];
        let mut taken = Taken {
            name: PICTURE.to_owned(),
            sizes,
            channels_last: picture.channels_last,
        };
        let kind = if bytes {
            data_type::UINT8
        } else {
            data_type::FLOAT
        };
        let dims = taken.dims();
        let all = [self.batch]
            .into_iter()
            .chain(dims.iter().copied().map(Some));
        let declared = ValueInfoProto::tensor(PICTURE, kind, all);
        self.graph.input.push(declared);
        let numbers = Numbers::Picture(picture);
        self.inputs.push(Input {
            name: taken.name.clone(),
            dims,
            numbers,
        });
        for step in self.steps_on(picture, channels) {
            self.step(&mut taken, step);
        }
        let is_input = taken.name == PICTURE;
        let value = self.value(taken.name, sizes.to_vec());
        self.values[value].input = is_input.then_some(0);
    }

    /// What is done to a picture, in an order that exporters write.
    fn steps_on(&mut self, picture: Picture, channels: i64) -> Vec<Step> {
        let mut steps = self.one_of(NORMALISATIONS).to_vec();
        if picture.std < 0.01 {
            let to_one = [
                Step::Combine("Div", &[255.0]),
                Step::Combine("Mul", &[1.0 / 255.0]),
            ];
            steps.insert(0, self.one_of(&to_one));
        }
        if picture.bytes {
            steps.insert(0, Step::Convert);
        }
        let mut put = |drawing: &mut Self, step| {
            let at = drawing.random.below(1 + steps.len() as u64) as usize;
            steps.insert(at, step);
        };
        if picture.channels_last {
            put(self, Step::Turn);
        }
        if channels == 3 && self.random.one_in(4) {
            put(self, Step::Reverse);
        }
        steps
    }

    fn step(&mut self, taken: &mut Taken, step: Step) {
        let from = taken.name.clone();
        let axis = if taken.channels_last { 3 } else { 1 };
        let to = match step {
            Step::Convert => self.converted(&from),
            Step::Turn => {
                taken.channels_last = false;
                let order = vec![ints("perm", [0, 3, 1, 2])];
                self.node("Transpose", &[&from], 1, order)
            }
            Step::Reverse => {
                let order = self.ints(&[2, 1, 0]);
                self.node("Gather", &[&from, &order], 1, vec![int("axis", axis)])
            }
            Step::Combine(operator, figures) => {
                let each = figures.len() > 1;
                let figures = if each {
                    &figures[..taken.sizes[0] as usize]
                } else {
                    figures
                };
                let dims = match (each, taken.channels_last) {
                    (false, _) => vec![],
                    (true, true) => vec![taken.sizes[0]],
                    (true, false) => vec![1, taken.sizes[0], 1, 1],
                };
                let constant = self.floats(&dims, figures);
                self.node(operator, &[&from, &constant], 1, vec![])
            }
            Step::Mirror(from_what) => {
                let constant = self.floats(&[], &[from_what]);
                self.node("Sub", &[&constant, &from], 1, vec![])
            }
        };
        taken.name = to[0].clone();
    }

    /// Bytes as floats of the same values.
    fn converted(&mut self, from: &str) -> Vec<String> {
        if self.random.one_in(4) {
            let (scale, zero) = (self.floats(&[], &[1.0]), self.name());
            let byte = TensorProto::raw(&zero, data_type::UINT8, &[], vec![0]);
            self.graph.initializer.push(byte);
            return self.node("DequantizeLinear", &[from, &scale, &zero], 1, vec![]);
        }
        let to = int("to", data_type::FLOAT.into());
        self.node("Cast", &[from], 1, vec![to])
    }
}

impl Taken {
    fn dims(&self) -> Vec<i64> {
        let [channels, rows, columns] = self.sizes;
        if self.channels_last {
            vec![rows, columns, channels]
        } else {
            vec![channels, rows, columns]
        }
    }
}
