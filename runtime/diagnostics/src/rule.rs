use std::any::Any;
use std::fmt;

/// A rule that a file breaks. Its text says what is wrong, with the value and the limit.
///
/// Implement it for an enum next to the code that checks the rules.
pub trait Rule: Any + fmt::Debug + fmt::Display + Send + Sync {
    /// The rule itself, as a sentence about what is right.
    fn rule(&self) -> &'static str;

    fn help(&self) -> String;

    /// Whether a file is missing, unreadable or damaged, rather than wrong in what it says.
    fn is_about_a_file(&self) -> bool {
        false
    }
}
