//! Dimensions and integers that may depend on the batch.

use std::cmp::Ordering;

/// A dimension of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dim {
    Known(i64),
    /// This multiple of the number of images, which is known only when running.
    Batches(i64),
}

/// `offset + images * i + batches * N` for image `i` of a batch of `N`. There is at least one image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Integer {
    pub offset: i64,
    pub images: i64,
    pub batches: i64,
    /// Only that it differs from image to image is known of it: exporters compute such values for their shape.
    pub unknown: bool,
}

impl Integer {
    pub fn of(offset: i64) -> Self {
        Self {
            offset,
            ..Self::default()
        }
    }

    pub fn truth(value: bool) -> Self {
        Self::of(value.into())
    }

    /// Its value, if that does not depend on the batch.
    pub fn known(self) -> Option<i64> {
        (!self.is_of_image() && self.batches == 0).then_some(self.offset)
    }

    /// Itself, unless int32 holds all of what it was computed from and not it: that may be int32, which would have wrapped.
    pub fn of_width(self, from: &[Self]) -> Option<Self> {
        let is_wide = |value: &Self| {
            let known = value.known();
            known.is_some_and(|value| i32::try_from(value).is_err())
        };
        (!is_wide(&self) || from.iter().any(is_wide)).then_some(self)
    }

    /// Whether it differs from image to image.
    pub fn is_of_image(self) -> bool {
        self.images != 0 || self.unknown
    }

    /// Its value for the one image of a batch of one, or for any image if it is the same for all.
    pub fn at_batch(self, size: i64) -> Option<i64> {
        if self.unknown || (self.images != 0 && size != 1) {
            return None;
        }
        self.offset.checked_add(self.batches.checked_mul(size)?)
    }

    /// As the size of a dimension.
    pub fn dim(self) -> Option<Dim> {
        match self {
            _ if self.is_of_image() => None,
            Self {
                batches: 0, offset, ..
            } => Some(Dim::Known(offset)),
            Self {
                offset: 0, batches, ..
            } => Some(Dim::Batches(batches)),
            _ => None,
        }
    }

    /// `self + by * other`.
    pub fn plus(self, other: Self, by: i64) -> Option<Self> {
        let sum = |own: i64, other: i64| own.checked_add(other.checked_mul(by)?);
        Some(Self {
            offset: sum(self.offset, other.offset)?,
            images: sum(self.images, other.images)?,
            batches: sum(self.batches, other.batches)?,
            unknown: self.unknown || other.unknown,
        })
    }

    pub fn times(self, other: Self) -> Option<Self> {
        match (self.known(), other.known()) {
            (_, Some(by)) => Self::default().plus(self, by),
            (Some(by), _) => Self::default().plus(other, by),
            _ => None,
        }
    }

    /// Towards zero.
    pub fn divided(self, by: Self) -> Option<Self> {
        if let (Some(Dim::Batches(own)), Some(Dim::Batches(by))) = (self.dim(), by.dim())
            && own.checked_rem(by)? == 0
        {
            return own.checked_div(by).map(Self::of);
        }
        let by = by.known()?;
        if let Some(value) = self.known() {
            return value.checked_div(by).map(Self::of);
        }
        let part = |value: i64| (value.checked_rem(by)? == 0).then(|| value / by);
        let is_positive = by > 0 && self.offset.min(self.images).min(self.batches) >= 0;
        // The rest divides evenly, so rounding towards zero is rounding down for the offset alone.
        let offset = if is_positive {
            Some(self.offset / by)
        } else {
            part(self.offset)
        };
        Some(Self {
            offset: offset?,
            images: part(self.images)?,
            batches: part(self.batches)?,
            ..self
        })
    }

    /// The remainder, of the divisor's sign.
    pub fn modulo(self, by: Self) -> Option<Self> {
        let by = by.known()?;
        let whole = |value: i64| value.checked_rem(by) == Some(0);
        if self.unknown || !whole(self.images) || !whole(self.batches) {
            return None;
        }
        let remainder = self.offset.checked_rem(by)?;
        Some(Self::of(match remainder {
            0 => 0,
            _ if (remainder < 0) == (by < 0) => remainder,
            _ => remainder + by,
        }))
    }

    /// How it compares for every image of every batch.
    pub fn compared(self, other: Self) -> Option<Ordering> {
        if let (Some(own), Some(other)) = (self.known(), other.known()) {
            return Some(own.cmp(&other));
        }
        let Self {
            offset,
            images,
            batches,
            unknown: false,
        } = self.plus(other, -1)?
        else {
            return None;
        };
        // The image's number is at least 0, the number of images at least 1.
        let bound = offset.checked_add(batches)?;
        match (images, batches) {
            (0, 0) => Some(offset.cmp(&0)),
            (0.., 0..) if bound > 0 => Some(Ordering::Greater),
            _ if images <= 0 && batches <= 0 && bound < 0 => Some(Ordering::Less),
            _ => None,
        }
    }

    /// Whether it is at least the other for every image of every batch, or less.
    pub fn at_least(self, other: Self) -> Option<bool> {
        if let (Some(own), Some(other)) = (self.known(), other.known()) {
            return Some(own >= other);
        }
        let difference = self.plus(other, -1)?;
        let bound = difference.offset.checked_add(difference.batches)?;
        let never_less = difference.images >= 0 && difference.batches >= 0 && bound >= 0;
        if never_less && !difference.unknown {
            return Some(true);
        }
        Some(self.compared(other)? != Ordering::Less)
    }

    /// Which is the maximum for every batch: this one, or the other. Of equal ones either is.
    pub fn is_larger(self, other: Self) -> Option<bool> {
        self.at_least(other)
            .or_else(|| Some(!other.at_least(self)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZERO: Integer = Integer {
        offset: 0,
        images: 0,
        batches: 0,
        unknown: false,
    };
    const IMAGE: Integer = Integer { images: 1, ..ZERO };
    const BATCH: Integer = Integer { batches: 1, ..ZERO };

    #[test]
    fn the_number_of_an_image_is_carried_along_and_never_guessed() {
        let place = IMAGE.times(Integer::of(6)).unwrap();
        let place = place.plus(Integer::of(2), 1).unwrap();
        assert_eq!((place.images, place.offset, place.known()), (6, 2, None));
        assert_eq!(IMAGE.times(IMAGE), None);
        assert_eq!(IMAGE.compared(Integer::of(3)), None);
        assert_eq!(place.plus(Integer::of(i64::MAX), 1), None);
        assert_eq!(place.divided(Integer::of(2)).unwrap().images, 3);
        assert_eq!(place.divided(Integer::of(4)), None);
        // Half of twice the batch and one, rounded down, is the batch.
        let odd = BATCH
            .times(Integer::of(2))
            .unwrap()
            .plus(Integer::of(1), 1)
            .unwrap();
        assert_eq!(odd.divided(Integer::of(2)), Some(BATCH));
        assert_eq!(
            odd.plus(Integer::of(-2), 1)
                .unwrap()
                .divided(Integer::of(2)),
            None
        );
    }

    #[test]
    fn comparisons_hold_for_every_batch() {
        assert_eq!(BATCH.compared(Integer::of(-1)), Some(Ordering::Greater));
        assert_eq!(BATCH.compared(Integer::of(0)), Some(Ordering::Greater));
        assert_eq!(BATCH.compared(Integer::of(1)), None);
        assert_eq!(BATCH.at_least(Integer::of(1)), Some(true));
        assert_eq!(IMAGE.at_least(Integer::of(0)), Some(true));
        assert_eq!(IMAGE.at_least(Integer::of(1)), None);
        assert_eq!(Integer::of(-1).at_least(IMAGE), Some(false));
        assert_eq!(BATCH.compared(BATCH), Some(Ordering::Equal));
        assert_eq!(Integer::of(1).is_larger(BATCH), Some(false));
        assert_eq!(BATCH.is_larger(Integer::of(1)), Some(true));
        assert_eq!(IMAGE.is_larger(Integer::of(1)), None);
    }

    #[test]
    fn what_is_unknown_stays_so() {
        let unknown = Integer {
            unknown: true,
            ..ZERO
        };
        assert_eq!(
            (unknown.known(), unknown.dim(), unknown.at_batch(1)),
            (None, None, None)
        );
        let sum = unknown.plus(Integer::of(1), 1).unwrap();
        assert!(sum.unknown && unknown.times(Integer::of(2)).unwrap().unknown);
        assert_eq!(
            (unknown.compared(ZERO), unknown.at_least(ZERO)),
            (None, None)
        );
        assert_eq!(unknown.modulo(Integer::of(2)), None);
    }

    #[test]
    fn remainders_have_the_sign_of_the_divisor() {
        let modulo = |a, b| Integer::of(a).modulo(Integer::of(b)).map(|i| i.offset);
        assert_eq!([modulo(7, 3), modulo(-7, 3)], [Some(1), Some(2)]);
        assert_eq!([modulo(7, -3), modulo(-7, -3)], [Some(-2), Some(-1)]);
        assert_eq!(modulo(7, 0), None);
        assert_eq!(modulo(i64::MIN, -1), None);
    }
}
