//! Codes: what numbers of the parameters stand for.

use punctual_types::{BinaryFunction, Cell, Element, UnaryFunction};

codes! {
    enum Curve {
        None = 0,
        /// Also `Relu`, with bounds 0 and infinity.
        Clip = 1,
        Sigmoid = 2,
        Silu = 3,
        HardSigmoid = 4,
        HardSwish = 5,
        Gelu = 6,
        Tanh = 7,
        LeakyRelu = 8,
        Elu = 9,
        Mish = 10,
        Softplus = 11,
        Softsign = 12,
        TanhGelu = 13,
    }

    /// How the values of a tensor are kept.
    #[derive(Default, PartialOrd, Ord)]
    enum Kept {
        #[default]
        Halves = 0,
        Floats = 1,
        Bytes = 2,
    }

    /// What `elementwise` and `elementwise_further` compute of one value, or of two.
    enum Function {
        Add = 0,
        Subtract = 1,
        Multiply = 2,
        Divide = 3,
        Minimum = 4,
        Maximum = 5,
        Absolute = 6,
        Exponential = 7,
        Reciprocal = 8,
        SquareRoot = 9,
        Equal = 10,
        NotEqual = 11,
        Less = 12,
        LessOrEqual = 13,
        KeepWhere = 14,
        KeepUnless = 15,
        Slope = 16,
        Sign = 17,
        Floor = 18,
        Ceiling = 19,
        Round = 20,
        Truncate = 21,
        Logarithm = 22,
        Power = 23,
        Modulo = 24,
        Remainder = 25,
        Sine = 26,
        Cosine = 27,
        Tangent = 28,
        ArcSine = 29,
        ArcCosine = 30,
        ArcTangent = 31,
        HyperbolicSine = 32,
        HyperbolicCosine = 33,
        ArcHyperbolicSine = 34,
        ArcHyperbolicCosine = 35,
        ArcHyperbolicTangent = 36,
        ErrorFunction = 37,
    }

    /// Types of the values that a client reads.
    enum Type {
        F32 = 0,
        I32 = 1,
        Bool = 2,
        U8 = 3,
        I8 = 4,
    }

    /// What a step of `recurrent` computes.
    enum CellCode {
        GruOfProduct = 0,
        GruOfState = 1,
        Lstm = 2,
        Tanh = 3,
        Relu = 4,
    }

    /// How the confidence follows from the largest class score.
    enum Form {
        /// By softmax over all scores.
        Softmax = 0,
        /// By the logistic function of the score alone.
        Sigmoid = 1,
        /// It is the score itself.
        Probability = 2,
    }
}

impl Kept {
    #[must_use]
    pub const fn bytes(self) -> u32 {
        match self {
            Self::Halves => 2,
            Self::Floats => 4,
            Self::Bytes => 1,
        }
    }
}

impl From<Element> for Type {
    fn from(element: Element) -> Self {
        match element {
            Element::F32 => Self::F32,
            Element::I32 => Self::I32,
            Element::Bool => Self::Bool,
            Element::U8 { .. } => Self::U8,
            Element::I8 { .. } => Self::I8,
        }
    }
}

impl From<Cell> for CellCode {
    fn from(cell: Cell) -> Self {
        match cell {
            Cell::Gru {
                resets_product: true,
            } => Self::GruOfProduct,
            Cell::Gru {
                resets_product: false,
            } => Self::GruOfState,
            Cell::Lstm => Self::Lstm,
            Cell::Tanh => Self::Tanh,
            Cell::Relu => Self::Relu,
        }
    }
}

impl Function {
    /// The kernel that computes it: functions that take many registers or much code are in one of their own.
    #[must_use]
    pub const fn kernel(self) -> &'static str {
        if (self as u32) < Self::Logarithm as u32 {
            "elementwise"
        } else {
            "elementwise_further"
        }
    }
}

impl From<BinaryFunction> for Function {
    fn from(function: BinaryFunction) -> Self {
        match function {
            BinaryFunction::Add => Self::Add,
            BinaryFunction::Subtract => Self::Subtract,
            BinaryFunction::Multiply => Self::Multiply,
            BinaryFunction::Divide => Self::Divide,
            BinaryFunction::Minimum => Self::Minimum,
            BinaryFunction::Maximum => Self::Maximum,
            BinaryFunction::Equal => Self::Equal,
            BinaryFunction::NotEqual => Self::NotEqual,
            BinaryFunction::Less => Self::Less,
            BinaryFunction::LessOrEqual => Self::LessOrEqual,
            BinaryFunction::KeepWhere => Self::KeepWhere,
            BinaryFunction::KeepUnless => Self::KeepUnless,
            BinaryFunction::Slope => Self::Slope,
            BinaryFunction::Power => Self::Power,
            BinaryFunction::Modulo => Self::Modulo,
            BinaryFunction::Remainder => Self::Remainder,
        }
    }
}

impl From<UnaryFunction> for Function {
    fn from(function: UnaryFunction) -> Self {
        match function {
            UnaryFunction::Absolute => Self::Absolute,
            UnaryFunction::Exponential => Self::Exponential,
            UnaryFunction::Reciprocal => Self::Reciprocal,
            UnaryFunction::SquareRoot => Self::SquareRoot,
            UnaryFunction::Logarithm => Self::Logarithm,
            UnaryFunction::Sign => Self::Sign,
            UnaryFunction::Floor => Self::Floor,
            UnaryFunction::Ceiling => Self::Ceiling,
            UnaryFunction::Round => Self::Round,
            UnaryFunction::Truncate => Self::Truncate,
            UnaryFunction::Sine => Self::Sine,
            UnaryFunction::Cosine => Self::Cosine,
            UnaryFunction::Tangent => Self::Tangent,
            UnaryFunction::ArcSine => Self::ArcSine,
            UnaryFunction::ArcCosine => Self::ArcCosine,
            UnaryFunction::ArcTangent => Self::ArcTangent,
            UnaryFunction::HyperbolicSine => Self::HyperbolicSine,
            UnaryFunction::HyperbolicCosine => Self::HyperbolicCosine,
            UnaryFunction::ArcHyperbolicSine => Self::ArcHyperbolicSine,
            UnaryFunction::ArcHyperbolicCosine => Self::ArcHyperbolicCosine,
            UnaryFunction::ArcHyperbolicTangent => Self::ArcHyperbolicTangent,
            UnaryFunction::ErrorFunction => Self::ErrorFunction,
        }
    }
}
