//! What every vector of floats can do.

/// For each lane the lane that it takes from elsewhere. Narrower vectors use the first entries.
pub(crate) type LaneMap = [i32; 16];

/// In a [`LaneMap`]: the lane keeps its value.
pub(crate) const KEPT: i32 = -1;

/// A vector of `LANES` f32.
///
/// # Safety
/// Of every method: the processor has the instruction set. Of [`load`](Vector::load) and
/// [`store`](Vector::store) also: the pointer is valid for `LANES` elements; it needs no alignment
/// beyond that of f32.
pub(crate) trait Vector: Copy {
    const LANES: usize;
    /// How many vector registers the processor has.
    const REGISTERS: usize;
    /// Whether [`mul_add_lane`](Vector::mul_add_lane) is as fast as [`mul_add`](Vector::mul_add);
    /// only vectors of four lanes may return true.
    const MULTIPLIES_BY_LANE: bool = false;
    /// Which lanes of one vector go where in another, ready for [`pick`](Vector::pick).
    type Lanes: Copy;

    /// All lanes `value`.
    unsafe fn splat(value: f32) -> Self;
    /// `LANES` values from memory.
    unsafe fn load(from: *const f32) -> Self;
    /// `LANES` values to memory.
    unsafe fn store(self, to: *mut f32);
    /// Four values from `from`, four from `from + step`, and so on; each four are valid.
    unsafe fn load_fours(from: *const f32, step: usize) -> Self;
    /// Of each four lanes `a b ..` and `c d ..`: `a c b d`.
    unsafe fn alternate_low(self, other: Self) -> Self;
    /// Of each four lanes `.. a b` and `.. c d`: `a c b d`.
    unsafe fn alternate_high(self, other: Self) -> Self;
    /// Of each four lanes `a b ..` and `c d ..`: `a b c d`.
    unsafe fn low_halves(self, other: Self) -> Self;
    /// Of each four lanes `.. a b` and `.. c d`: `a b c d`.
    unsafe fn high_halves(self, other: Self) -> Self;
    /// `self + a * b`, rounded once where the instruction set can.
    unsafe fn mul_add(self, a: Self, b: Self) -> Self;
    /// `self + a * b[LANE]`, rounded as [`mul_add`](Vector::mul_add); `LANE` is below 4.
    unsafe fn mul_add_lane<const LANE: i32>(self, a: Self, b: Self) -> Self {
        let mut lanes = [0.0; 16];
        // SAFETY: no vector has more lanes; otherwise the caller's promise.
        unsafe {
            b.store(lanes.as_mut_ptr());
            self.mul_add(a, Self::splat(lanes[LANE as usize]))
        }
    }
    unsafe fn add(self, other: Self) -> Self;
    unsafe fn sub(self, other: Self) -> Self;
    unsafe fn mul(self, other: Self) -> Self;
    unsafe fn div(self, other: Self) -> Self;
    /// `1 / self`, to 1.5e-7, for what is at least 1 and finite; a NaN stays.
    #[inline(always)]
    unsafe fn reciprocal(self) -> Self {
        // SAFETY: the caller's promise.
        unsafe { Self::splat(1.0).div(self) }
    }
    /// The nearest whole number, the even one of two; a NaN stays.
    unsafe fn round(self) -> Self;
    /// `self * 2^exponent` for whole exponents from -126 to 127; a NaN in `self` stays, whatever the exponent.
    unsafe fn scale(self, exponent: Self) -> Self;
    /// `from[i]` is the lane that lane `i` takes, less than `LANES`, or [`KEPT`].
    unsafe fn lanes(from: &LaneMap) -> Self::Lanes;
    /// Takes lanes of `other`, and keeps the rest of its own.
    unsafe fn pick(self, other: Self, lanes: Self::Lanes) -> Self;
    /// The larger, lane by lane; which of a number and a NaN is not specified.
    unsafe fn max(self, other: Self) -> Self;
    /// Where `self` is more than `other` it, else `other`, also where either is a NaN.
    #[inline(always)]
    unsafe fn larger(self, other: Self) -> Self {
        // SAFETY: the caller's promise.
        unsafe { other.where_less(self, self, other) }
    }
    /// Where `self` is less than `other` it, else `other`, also where either is a NaN.
    #[inline(always)]
    unsafe fn smaller(self, other: Self) -> Self {
        // SAFETY: the caller's promise.
        unsafe { self.where_less(other, self, other) }
    }
    unsafe fn sqrt(self) -> Self;
    /// `min(max(self, low), high)`, lane by lane; a NaN in `self` stays.
    unsafe fn clamp(self, low: Self, high: Self) -> Self;
    /// `yes` where `self < other`, else `no`, also where either is a NaN.
    unsafe fn where_less(self, other: Self, yes: Self, no: Self) -> Self;
    /// `yes` where `self = other`, else `no`, also where either is a NaN.
    unsafe fn where_equal(self, other: Self, yes: Self, no: Self) -> Self;
    /// The parts `m`, from 1 to below 2, and `e` of positive normal numbers `m * 2^e`; any numbers of others.
    unsafe fn split(self) -> (Self, Self);
}
