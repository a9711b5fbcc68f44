//! Text that a page or a table holds, and what it says by its colour.

use maud::{Markup, html};

/// Whether a text is good news; pages colour it, terminals and documents do not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tone {
    #[default]
    Plain,
    Good,
    Bad,
    /// Of less weight.
    Soft,
}

impl Tone {
    pub(crate) const fn class(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Good => Some("good"),
            Self::Bad => Some("bad"),
            Self::Soft => Some("soft"),
        }
    }
}

/// A cell, a paragraph, a heading. Control characters become question marks: names come out of files, and must reach
/// neither a terminal as its commands nor XML, which cannot hold them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text {
    pub(crate) text: String,
    pub(crate) tone: Tone,
}

impl Text {
    #[must_use]
    pub fn good(text: &str) -> Self {
        Self::from(text).with(Tone::Good)
    }

    #[must_use]
    pub fn bad(text: &str) -> Self {
        Self::from(text).with(Tone::Bad)
    }

    #[must_use]
    pub fn soft(text: &str) -> Self {
        Self::from(text).with(Tone::Soft)
    }

    fn with(self, tone: Tone) -> Self {
        Self { tone, ..self }
    }

    /// For a page: what stands between two backticks is code.
    pub(crate) fn markup(&self) -> Markup {
        let parts: Vec<&str> = self.text.split('`').collect();
        let alone = parts.len() - 1;
        html! {
            @for (at, part) in parts.iter().enumerate() {
                @if at % 2 == 0 { (part) }
                @else if at == alone { "`" (part) }
                @else { code { (part) } }
            }
        }
    }
}

impl<S: AsRef<str>> From<S> for Text {
    fn from(text: S) -> Self {
        Self {
            text: printable(text.as_ref()),
            tone: Tone::Plain,
        }
    }
}

/// Without control characters: a space stands for those that break lines, a question mark for each other.
#[must_use]
pub fn printable(text: &str) -> String {
    let shown = |character: char| match character {
        '\n' | '\r' | '\t' => ' ',
        control if control.is_control() => '?',
        other => other,
    };
    text.chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_between_backticks_is_code_and_one_alone_stays() {
        let markup = |text: &str| Text::from(text).markup().into_string();
        assert_eq!(
            markup("`<check>` and `x`"),
            "<code>&lt;check&gt;</code> and <code>x</code>"
        );
        assert_eq!(markup("a ` b"), "a ` b");
        assert_eq!(markup("`a` ` b"), "<code>a</code> ` b");
    }
}
