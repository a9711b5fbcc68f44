//! One `[[task]]` for many packages: `package = "zoo/*.punctual"`.

use punctual_diagnostics::{Problems, Rule, Section, Spanned};
use thiserror::Error;

use super::{Defaults, RawModel, RawTask};
use crate::inputs::PackageInput;
use crate::read::Files;

/// What is wrong with a pattern of packages.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PatternRule {
    #[error("{pattern:?} has a `*` in a folder, or more than one")]
    Stars { pattern: String },
    #[error("no package is called {pattern:?}")]
    NoPackage { pattern: String },
    /// A key that several tasks cannot have in common.
    #[error("a task for each package of {pattern:?} has `{key}`")]
    OfOneTask { pattern: String, key: &'static str },
}

impl Rule for PatternRule {
    fn rule(&self) -> &'static str {
        match self {
            Self::Stars { .. } => "a pattern has one `*`, in the name of the file",
            Self::NoPackage { .. } => "a pattern means one package at least",
            Self::OfOneTask { .. } => "each task of a pattern is called as its model",
        }
    }

    fn help(&self) -> String {
        match self {
            Self::Stars { .. } => "write a folder and a name, as `zoo/*.punctual`".into(),
            Self::NoPackage { .. } => {
                "copy packages there, or correct the pattern; it counts from the manifest's folder"
                    .into()
            }
            Self::OfOneTask { key, .. } => format!("remove `{key}`"),
        }
    }

    fn is_about_a_file(&self) -> bool {
        matches!(self, Self::NoPackage { .. })
    }
}

/// The packages in a folder whose names begin and end alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    /// With the `/` that ends it; empty: the manifest's own.
    folder: String,
    before: String,
    after: String,
}

impl Pattern {
    /// None: the path of one package.
    pub(crate) fn of(path: &str) -> Option<Result<Self, PatternRule>> {
        if !path.contains('*') {
            return None;
        }
        let name = path.rfind('/').map_or(0, |slash| slash + 1);
        let (folder, name) = path.split_at(name);
        let parts = name.split_once('*');
        let parts = parts.filter(|(_, after)| !folder.contains('*') && !after.contains('*'));
        let pattern = parts.map(|(before, after)| Self {
            folder: folder.to_owned(),
            before: before.to_owned(),
            after: after.to_owned(),
        });
        Some(pattern.ok_or_else(|| PatternRule::Stars {
            pattern: path.to_owned(),
        }))
    }

    fn matches(&self, path: &str) -> bool {
        let name = path.strip_prefix(&self.folder);
        let name = name.filter(|name| !name.contains('/'));
        let rest = name.and_then(|name| name.strip_prefix(&self.before));
        rest.is_some_and(|rest| rest.ends_with(&self.after))
    }
}

impl std::fmt::Display for Pattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            folder,
            before,
            after,
        } = self;
        write!(f, "{folder}{before}*{after}")
    }
}

/// The pattern that a task has for a package, if it has a valid one. Keys that do not go with it are noted.
pub(super) fn of_task(
    task: &mut Section<'_, '_>,
    problems: &mut Problems<'_>,
) -> Option<Spanned<Pattern>> {
    // What is no text is noted where it is read as the path of one package.
    let mut aside = Problems::new(problems.file(), problems.text(), "plan");
    let path: Spanned<String> = task.optional("package", &mut aside)?;
    let place = path.place;
    let value = match Pattern::of(&path.value)? {
        Ok(pattern) => pattern,
        Err(cause) => {
            problems.add(&place, cause);
            return None;
        }
    };
    for key in ["name", "model"] {
        if task.optional::<String>(key, problems).is_some() {
            let pattern = path.value.clone();
            problems.add(&task.place_of(key), PatternRule::OfOneTask { pattern, key });
        }
    }
    Some(Spanned { value, place })
}

/// Where the packages are that patterns mean.
#[derive(Clone, Copy)]
pub(crate) enum PackageSource<'a> {
    Files(&'a Files),
    /// What was read of them, when the manifest was read before.
    Read(&'a [PackageInput]),
}

impl PackageSource<'_> {
    /// Paths as a manifest has them, rising. A folder that cannot be read has none.
    fn matching(self, pattern: &Pattern) -> Vec<String> {
        let mut paths: Vec<String> = match self {
            Self::Files(files) => {
                let folder = files.locate(pattern.folder.as_ref());
                let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
                let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
                names
                    .map(|name| format!("{}{name}", pattern.folder))
                    .collect()
            }
            Self::Read(packages) => packages.iter().map(|input| input.path.clone()).collect(),
        };
        paths.retain(|path| pattern.matches(path));
        paths.sort_unstable();
        paths.dedup();
        paths
    }
}

impl RawTask {
    /// One task for each package that it means: itself, if it names one. None if its pattern means none.
    pub(super) fn of_each_package(
        self,
        source: PackageSource<'_>,
        models: &[RawModel],
        defaults: &mut Defaults,
    ) -> Option<Vec<Self>> {
        let Some(pattern) = &self.group.pattern else {
            return Some(vec![self]);
        };
        let paths = source.matching(pattern);
        let tasks = paths.into_iter().map(|path| {
            let place = self.name.place.clone();
            let package = Spanned { value: path, place };
            let model = defaults.model_of_package(package, models);
            Self {
                name: model.clone(),
                model: Some(model),
                ..self.clone()
            }
        });
        let tasks: Vec<Self> = tasks.collect();
        (!tasks.is_empty()).then_some(tasks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_letters_of_a_name() {
        let pattern = |path: &str| Pattern::of(path).expect("a star").expect("one");
        let zoo = pattern("../zoo/net-*.punctual");
        assert!(zoo.matches("../zoo/net-1.punctual") && zoo.matches("../zoo/net-.punctual"));
        for other in [
            "../zoo/net-1.profile.json",
            "../zoo/1.punctual",
            "zoo/net-1.punctual",
            "../zoo/net-/1.punctual",
        ] {
            assert!(!zoo.matches(other), "{other}");
        }
        assert_eq!(zoo.to_string(), "../zoo/net-*.punctual");
        assert!(pattern("*.punctual").matches("a.punctual"));
        // What stands before and behind it does not overlap.
        assert!(!pattern("aba*ba").matches("aba"));
    }

    #[test]
    fn a_star_in_a_folder_and_two_stars_are_refused() {
        assert_eq!(Pattern::of("zoo/a.punctual"), None);
        for path in ["*/a.punctual", "zoo/*a*", "**"] {
            let refused = matches!(Pattern::of(path), Some(Err(PatternRule::Stars { .. })));
            assert!(refused, "{path}");
        }
    }
}
