use thiserror::Error;

/// A key that has another name now; files that have the former one mean the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("`{former}` is now `{now}`: the former name still means the same; rename it")]
pub struct RenamedKey {
    pub former: &'static str,
    pub now: &'static str,
}

impl RenamedKey {
    #[must_use]
    pub const fn new(former: &'static str, now: &'static str) -> Self {
        Self { former, now }
    }
}
