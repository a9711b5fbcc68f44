use thiserror::Error;

/// A key that has another name now; files that have the former one mean the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("`{former}` is now `{now}`: the former name still means the same; rename it")]
pub struct RenamedKey {
    pub former: &'static str,
    pub now: &'static str,
}

/// A key that means nothing any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemovedKey {
    pub key: &'static str,
    pub instead: &'static str,
}

impl RenamedKey {
    #[must_use]
    pub const fn new(former: &'static str, now: &'static str) -> Self {
        Self { former, now }
    }
}
