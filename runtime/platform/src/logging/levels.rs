//! What is said and what is not, as a command line or the environment has it.

use std::str::FromStr;

use log::{Level, LevelFilter};

/// Where a program's levels are, if its command line has none.
pub const ENVIRONMENT: &str = "PUNCTUAL_LOG";

/// A level for everything, and levels of modules: `info,punctual_daemon=debug`. Nothing said means
/// `info`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Levels {
    all: LevelFilter,
    /// Of modules and what is in them; the longest path that fits is heard.
    modules: Vec<(String, LevelFilter)>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LevelsError {
    #[error(
        "{0:?} is no level: use error, warn, info, debug or trace, for everything or for a module \
         as in info,punctual_daemon=debug (--log, or {ENVIRONMENT} in the environment)"
    )]
    Level(String),
    #[error(
        "{0:?} has no module in front of its =: use a path, as in info,punctual_daemon=debug \
         (--log, or {ENVIRONMENT} in the environment)"
    )]
    Module(String),
    #[error(
        "{0:?} is a second level for everything: use one, and others with a module, as in \
         info,punctual_daemon=debug (--log, or {ENVIRONMENT} in the environment)"
    )]
    Second(String),
}

impl Default for Levels {
    fn default() -> Self {
        Self {
            all: LevelFilter::Info,
            modules: Vec::new(),
        }
    }
}

impl FromStr for Levels {
    type Err = LevelsError;

    fn from_str(text: &str) -> Result<Self, LevelsError> {
        let mut levels = Self::default();
        let mut all = None;
        let parts = text.split(',').map(str::trim);
        for part in parts.filter(|part| !part.is_empty()) {
            let (module, level) = match part.split_once('=') {
                Some((module, level)) => (Some(module.trim()), level.trim()),
                None => (None, part),
            };
            // No `off`: why a program ends is always said.
            let level = Level::from_str(level).map_err(|_| LevelsError::Level(level.into()))?;
            let level = level.to_level_filter();
            match module {
                Some("") => return Err(LevelsError::Module(part.into())),
                Some(module) => levels.modules.push((module.into(), level)),
                None if all.is_some() => return Err(LevelsError::Second(part.into())),
                None => all = Some(level),
            }
        }
        levels.all = all.unwrap_or(levels.all);
        Ok(levels)
    }
}

impl Levels {
    /// Whether a module says anything at this level. Allocates nothing.
    #[must_use]
    pub fn enable(&self, module: &str, level: Level) -> bool {
        let fitting = self.modules.iter().filter(|(path, _)| holds(path, module));
        let nearest = fitting.max_by_key(|(path, _)| path.len());
        level <= nearest.map_or(self.all, |(_, level)| *level)
    }

    /// The least that any module says.
    #[must_use]
    pub fn most(&self) -> LevelFilter {
        let modules = self.modules.iter().map(|(_, level)| *level);
        modules.fold(self.all, Ord::max)
    }
}

/// Whether `module` is the one at `path`, or in it.
fn holds(path: &str, module: &str) -> bool {
    let rest = module.strip_prefix(path);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levels(text: &str) -> Levels {
        text.parse().unwrap()
    }

    #[test]
    fn a_level_is_for_everything_and_a_module_may_have_its_own() {
        let of = levels("warn,punctual_daemon=info, punctual_daemon::door = trace");
        assert_eq!(of.most(), LevelFilter::Trace);
        for (module, heard, not_heard) in [
            ("punctual_plan", Level::Warn, Level::Info),
            ("punctual_daemon", Level::Info, Level::Debug),
            ("punctual_daemon::startup", Level::Info, Level::Debug),
            ("punctual_daemons::door", Level::Warn, Level::Info),
        ] {
            assert!(
                of.enable(module, heard) && !of.enable(module, not_heard),
                "{module}"
            );
        }
        for module in ["punctual_daemon::door", "punctual_daemon::door::tests"] {
            assert!(of.enable(module, Level::Trace), "{module}");
        }
        assert_eq!(levels("error").most(), LevelFilter::Error);
        assert!(levels("WARN").enable("any", Level::Warn));
    }

    #[test]
    fn nothing_said_means_info() {
        for text in ["", " ", ","] {
            assert_eq!(levels(text), Levels::default(), "{text:?}");
        }
        let one = levels("punctual_daemon=debug");
        assert!(one.enable("any", Level::Info) && !one.enable("any", Level::Debug));
    }

    #[test]
    fn a_wrong_level_is_an_error_that_says_what_is_allowed() {
        for (text, wrong) in [
            ("loud", LevelsError::Level("loud".into())),
            ("off", LevelsError::Level("off".into())),
            ("info,punctual_daemon=", LevelsError::Level(String::new())),
            (
                "punctual_daemon",
                LevelsError::Level("punctual_daemon".into()),
            ),
            ("=debug", LevelsError::Module("=debug".into())),
            ("info,debug", LevelsError::Second("debug".into())),
        ] {
            let error = Levels::from_str(text).unwrap_err();
            assert_eq!(error, wrong);
            assert!(error.to_string().contains("debug"), "{error}");
        }
    }
}
