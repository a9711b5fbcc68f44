//! Profiles, and which of them hold for a package.

use std::path::PathBuf;
use std::sync::Arc;

use punctual_model::{Package, Profile, ProfileError, ProfileKey};

use super::PackageInput;

/// A profile file that was read.
#[derive(Clone, Debug)]
pub struct ProfileInput {
    /// Where it lies: named in messages.
    pub path: PathBuf,
    /// The [path](PackageInput::path) of the package that it lies in or next to. None of one that somebody named by itself.
    pub lies_with: Option<String>,
    /// Its content, or why there is none.
    pub profile: Result<Profile, Arc<ProfileError>>,
}

/// How a profile is a package's. Networks of the same work have each other's figures, but not the frame formats of each
/// other's tasks: a package's own profile is taken first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Nearness {
    /// Measured with its very weights.
    SameWeights,
    /// Measured with other weights, and left where its own would be.
    LiesWithIt,
    /// Measured with another package, which takes the same time.
    SameTiming,
}

/// A profile that holds for a package.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'i> {
    pub nearness: Nearness,
    pub profile: &'i Profile,
}

/// What else a profile must be of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conditions<'a> {
    pub board: &'a str,
    /// None: of any, as a board that is elsewhere is known by its profiles alone.
    pub machine: Option<&'a str>,
    pub power_mode: &'a str,
}

impl Conditions<'_> {
    /// What a key has otherwise: field, there, wanted.
    pub fn differences(&self, key: &ProfileKey) -> Vec<(&'static str, String, String)> {
        [
            ("board", &key.board, self.board),
            (
                "machine",
                &key.machine,
                self.machine.unwrap_or(&key.machine),
            ),
            ("power mode", &key.power_mode, self.power_mode),
        ]
        .into_iter()
        .filter(|(_, found, wanted)| found != wanted)
        .map(|(field, found, wanted)| (field, found.clone(), wanted.to_owned()))
        .collect()
    }
}

impl PackageInput {
    /// Those of the profiles that hold for the package, the nearest first.
    #[must_use]
    pub fn candidates<'i>(
        &self,
        package: &Package,
        profiles: &'i [ProfileInput],
    ) -> Vec<Candidate<'i>> {
        // Once: there may be thousands of packages, each with profiles.
        let (timing, hash) = (package.timing().to_string(), package.hash().to_string());
        let candidate = |input: &'i ProfileInput| {
            let profile = input.profile.as_ref().ok()?;
            let key = &profile.key;
            let has_its_weights = key.package == hash;
            if key.timing != timing && !has_its_weights {
                return None;
            }
            let nearness = if has_its_weights {
                Nearness::SameWeights
            } else if self.is_beside(input) {
                Nearness::LiesWithIt
            } else {
                Nearness::SameTiming
            };
            Some(Candidate { nearness, profile })
        };
        let mut found: Vec<Candidate<'_>> = profiles.iter().filter_map(candidate).collect();
        found.sort_by_key(|candidate| candidate.nearness);
        found
    }

    /// A profile that lies with the package and is of another network.
    #[must_use]
    pub fn stranger<'i>(
        &self,
        package: &Package,
        profiles: &'i [ProfileInput],
    ) -> Option<&'i ProfileInput> {
        profiles.iter().find(|input| {
            let other = |profile: &Profile| !profile.key.is_of(package);
            self.is_beside(input) && input.profile.as_ref().is_ok_and(other)
        })
    }

    fn is_beside(&self, input: &ProfileInput) -> bool {
        input.lies_with.as_ref() == Some(&self.path)
    }
}
