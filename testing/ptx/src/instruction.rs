//! Instructions as they are executed. Operands are numbers of registers; immediate values and special registers lie in
//! registers of their own, which are filled when a warp begins.

/// A register of one of three files: words (up to 32 bits), longs (64 bits), predicates.
pub(crate) type Reg = u16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word1 {
    Move,
    Not,
    Negate,
    Absolute,
    CountOnes,
    LeadingZeros,
    Reverse,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word2 {
    Add,
    Subtract,
    MultiplyLow,
    /// Of the lowest 16 bits of each.
    MultiplyShort,
    MultiplyHighUnsigned,
    MultiplyHighSigned,
    MinSigned,
    MinUnsigned,
    MaxSigned,
    MaxUnsigned,
    And,
    Or,
    Xor,
    ShiftLeft,
    ShiftRight,
    ShiftRightSigned,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Divide {
    Unsigned,
    Signed,
    UnsignedRemainder,
    SignedRemainder,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Float1 {
    Negate,
    Absolute,
    Reciprocal,
    ReciprocalApprox,
    SquareRoot,
    SquareRootApprox,
    InverseRootApprox,
    Power2Approx,
    Logarithm2Approx,
    Logarithm2ApproxFlushed,
    SineApprox,
    CosineApprox,
    RoundDown,
    RoundUp,
    RoundToEven,
    RoundToZero,
    Saturate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Float2 {
    Add,
    AddTowardsZero,
    Subtract,
    Multiply,
    MultiplyTowardsZero,
    Divide,
    DivideApprox,
    DivideApproxFlushed,
    Min,
    Max,
    /// The sign of the first, the magnitude of the second.
    CopySign,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounding {
    Nearest,
    Down,
    Up,
    Zero,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compare {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compared {
    Unsigned32,
    Signed32,
    Signed16,
    Unsigned64,
    Signed64,
    /// False if one of them is not a number.
    Ordered,
    /// True if one of them is not a number.
    Unordered,
    /// Whether one of them is not a number, or none.
    IsNan,
    IsNumber,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Logic {
    And,
    Or,
    Xor,
}

/// How a value becomes another: the bits that count before, and those that are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Convert {
    HalfToFloat,
    FloatToHalf,
    SignedToFloat,
    UnsignedToFloat,
    /// Of the lowest 16 bits, and of the lowest 8.
    Unsigned16ToFloat,
    Unsigned8ToFloat,
    Signed8ToFloat,
    Signed16ToFloat,
    /// Towards zero, or to the nearest whole number.
    FloatToSigned,
    FloatToUnsigned,
    FloatToSignedNearest,
    FloatToUnsignedNearest,
    /// Within a word: sign or zero extension, then as many bits as the target has.
    Integer {
        signed: bool,
        from: u8,
        to: u8,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    Global,
    Shared,
    Parameter,
    /// Global or shared, as the address says.
    Generic,
}

/// How an address is made: a register, or none, plus an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pointer {
    Word(Reg, i32),
    Long(Reg, i32),
    Absolute(u32),
}

/// Elements in memory: their size, and which file their registers are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Elements {
    pub(crate) bytes: u8,
    pub(crate) count: u8,
    /// Of a load of less than a register: fill with the sign.
    pub(crate) signed: bool,
    /// The registers are longs, whatever the elements are.
    pub(crate) long: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Plain,
    /// `.relaxed.sys`: words that the host reads or writes meanwhile.
    Relaxed,
    Release,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) space: Space,
    pub(crate) order: Order,
    pub(crate) elements: Elements,
    pub(crate) pointer: Pointer,
    /// Read into, or written from.
    pub(crate) registers: [Reg; 4],
    /// A bit for each byte that is used of a load.
    pub(crate) used: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exchange {
    Up,
    Down,
    Butterfly,
    Index,
}

/// How the lanes of a warp agree at a barrier of the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Vote {
    None,
    Or,
    And,
}

/// Of words in global memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Atomic {
    Add,
    Min,
}

/// A predicate as an operand: a register, and whether it is negated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Condition {
    pub(crate) register: Reg,
    pub(crate) negated: bool,
}

/// The destination comes first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Op {
    Word1(Word1, Reg, Reg),
    Word2(Word2, Reg, Reg, Reg),
    Divide(Divide, Reg, Reg, Reg),
    MultiplyAdd(Reg, Reg, Reg, Reg),
    Long1(Word1, Reg, Reg),
    Long2(Word2, Reg, Reg, Reg),
    /// The shift's distance is a word.
    LongShift(Word2, Reg, Reg, Reg),
    LongDivide(Divide, Reg, Reg, Reg),
    LongMultiplyAdd(Reg, Reg, Reg, Reg),
    /// Words to a long; signed or not.
    MultiplyWide(bool, Reg, Reg, Reg),
    MultiplyAddWide(bool, Reg, Reg, Reg, Reg),
    Float1(Float1, Reg, Reg),
    Float2(Float2, Reg, Reg, Reg),
    FusedMultiplyAdd(Rounding, Reg, Reg, Reg, Reg),
    Compare(Compare, Compared, Reg, Reg, Reg),
    Logic(Logic, Reg, Condition, Condition),
    MovePredicate(Reg, Condition),
    Select(Reg, Reg, Reg, Condition),
    SelectLong(Reg, Reg, Reg, Condition),
    Convert(Convert, Reg, Reg),
    /// Two floats to halves: the first is the high one.
    FloatsToHalves(Reg, Reg, Reg),
    /// A word to a long, signed or not, after keeping this number of bits.
    Widen(bool, u8, Reg, Reg),
    Narrow(Reg, Reg),
    PackHalves(Reg, Reg, Reg),
    /// `None`: that half is not wanted.
    UnpackHalves(Option<Reg>, Option<Reg>, Reg),
    PackWords(Reg, Reg, Reg),
    UnpackWords(Option<Reg>, Option<Reg>, Reg),
    /// `bfi`: what is inserted, into what, where, how many bits.
    Insert(Reg, Reg, Reg, Reg, Reg),
    InsertLong(Reg, Reg, Reg, Reg, Reg),
    /// `bfe`, unsigned: of what, where, how many bits.
    Extract(Reg, Reg, Reg, Reg),
    /// `prmt` without a mode.
    Permute(Reg, Reg, Reg, Reg),
    /// `lop3`
    Logic3(u8, Reg, Reg, Reg, Reg),
    /// `shf`: a left or right shift of two words, wrapping or clamped.
    FunnelShift {
        left: bool,
        wraps: bool,
        to: Reg,
        low: Reg,
        high: Reg,
        by: Reg,
    },
    /// `dp4a`: whether the bytes of the two are signed.
    DotBytes(bool, bool, Reg, Reg, Reg, Reg),
    Load(Access),
    Store(Access),
    /// The old value goes to the first register.
    Atomic(Atomic, Reg, Pointer, Reg),
    ToShared(Reg, Reg),
    FromShared(Reg, Reg),
    Branch(u32),
    Return,
    Barrier(Vote, Option<Reg>, Option<Condition>),
    Shuffle {
        exchange: Exchange,
        to: Reg,
        valid: Option<Reg>,
        from: Reg,
        lane: Reg,
        clamp: Reg,
        members: Reg,
    },
    LoadMatrices([Reg; 4], Pointer),
    MultiplyMatrices {
        to: [Reg; 4],
        a: [Reg; 4],
        b: [Reg; 2],
        c: [Reg; 4],
    },
    CopyAsync {
        to: Pointer,
        from: Pointer,
        /// Of the 16 bytes, those that are read; none: all.
        valid: Option<Reg>,
    },
    CopyCommit,
    CopyWait(u32),
    Fence,
    Sleep,
    Timer(Reg),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Instruction {
    pub(crate) guard: Option<Condition>,
    pub(crate) op: Op,
}
