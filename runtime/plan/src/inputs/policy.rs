//! The policies that a manifest may name, and what one with its parameters is read as.

use std::fmt;
use std::sync::Arc;

use punctual_core::{
    Config, ConfigError, Contract, Policy, PolicySpec, PunctualConfig, StateError,
};
use punctual_diagnostics::{DeValue, FromToml, Invalid, Problems, Rule, Section, Spanned};
use punctual_policy_seeb::SeebConfig;
use serde::de::DeserializeOwned;
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use thiserror::Error;

/// Published policies that only `punctual-lab` has: a user who names one is told where it is.
pub const PUBLISHED: [&str; 10] = [
    "clockwork",
    "batch",
    "deeprt",
    "gslice",
    "branchynet",
    "clipper",
    "nexus",
    "edgeserving",
    "seq",
    "streams",
];

/// What is wrong with the policy that a manifest names.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PolicyRule {
    /// A policy's parameters make no sense.
    #[error("the policy's parameters: {error}")]
    Parameters { error: String },
    /// A policy that is here for comparison only.
    #[error("policy {policy:?} is a published one, for comparison")]
    Published { policy: String },
}

impl Rule for PolicyRule {
    fn rule(&self) -> &'static str {
        match self {
            Self::Parameters { .. } => "a policy takes its own parameters only",
            Self::Published { .. } => "a daemon serves by a policy that ships with it",
        }
    }

    fn help(&self) -> String {
        match self {
            Self::Parameters { .. } => "see the parameters of the policy".into(),
            Self::Published { .. } => {
                "choose `punctual` or `seeb`; or run `punctual-lab daemon`, which knows this one"
                    .into()
            }
        }
    }
}

/// Why a policy that was written out cannot be read again.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WrittenPolicyError {
    #[error("no policy is named")]
    None,
    #[error("policy {policy:?} is unknown here")]
    Unknown { policy: String },
    #[error("the parameters of policy {policy:?}: {error}")]
    Parameters { policy: String, error: String },
}

/// A policy with its parameters. It can be compared, and be written out as it was read.
#[derive(Clone)]
pub struct PolicyChoice {
    spec: Arc<dyn PolicySpec>,
    parameters: serde_json::Value,
}

impl PolicyChoice {
    /// # Panics
    /// If the parameters are not plain data.
    pub fn new<P: PolicySpec + Serialize + 'static>(policy: P) -> Self {
        let parameters = serde_json::to_value(&policy).expect("parameters are plain data");
        Self {
            spec: Arc::new(policy),
            parameters,
        }
    }

    /// The policy, to be kept by others.
    #[must_use]
    pub fn shared(&self) -> Arc<dyn PolicySpec> {
        Arc::clone(&self.spec)
    }
}

impl Default for PolicyChoice {
    fn default() -> Self {
        Self::new(PunctualConfig::default())
    }
}

impl PolicySpec for PolicyChoice {
    fn name(&self) -> &'static str {
        self.spec.name()
    }

    fn summary(&self) -> &'static str {
        self.spec.summary()
    }

    fn contract(&self) -> Contract {
        self.spec.contract()
    }

    fn check(&self, config: &Config) -> Result<(), ConfigError> {
        self.spec.check(config)
    }

    fn build(&self, config: &Config) -> Box<dyn Policy> {
        self.spec.build(config)
    }

    fn restore(&self, config: &Config, state: &[u8]) -> Result<Box<dyn Policy>, StateError> {
        self.spec.restore(config, state)
    }
}

impl fmt::Debug for PolicyChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.spec.fmt(f)
    }
}

impl PartialEq for PolicyChoice {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name() && self.parameters == other.parameters
    }
}

impl Serialize for PolicyChoice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry(self.name(), &self.parameters)?;
        map.end()
    }
}

/// Reads a policy's parameters; those that are not given have their defaults.
type Read = fn(toml::Value) -> Result<PolicyChoice, toml::de::Error>;

/// The policies that a program knows, in the order in which they are listed.
#[derive(Clone, Debug)]
pub struct Policies {
    known: Vec<(PolicyChoice, Read)>,
}

impl Policies {
    /// Those that ship: `punctual` and `seeb`.
    #[must_use]
    pub fn shipped() -> Self {
        let none = Self { known: Vec::new() };
        none.with::<PunctualConfig>().with::<SeebConfig>()
    }

    #[must_use]
    pub fn with<P>(mut self) -> Self
    where
        P: PolicySpec + Serialize + DeserializeOwned + Default + 'static,
    {
        let read: Read = |parameters| Ok(PolicyChoice::new(P::deserialize(parameters)?));
        self.known.push((PolicyChoice::new(P::default()), read));
        self
    }

    pub fn iter(&self) -> impl Iterator<Item = &PolicyChoice> {
        self.known.iter().map(|(default, _)| default)
    }

    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.iter().map(PolicyChoice::name)
    }

    /// The policy of that name with its default parameters.
    #[must_use]
    pub fn by_name(&self, name: &str) -> Option<&PolicyChoice> {
        self.iter().find(|policy| policy.name() == name)
    }

    /// The policy of that name with these parameters; none if there is none of that name.
    pub fn read(
        &self,
        name: &str,
        parameters: toml::Value,
    ) -> Option<Result<PolicyChoice, toml::de::Error>> {
        let mut known = self.known.iter();
        let (_, read) = known.find(|(policy, _)| policy.name() == name)?;
        Some(read(parameters))
    }

    /// The policy that was [written out](PolicyChoice) so.
    ///
    /// # Errors
    /// If it is none of these, or its parameters make no sense.
    pub fn written(&self, written: &serde_json::Value) -> Result<PolicyChoice, WrittenPolicyError> {
        let table = written.as_object().filter(|table| table.len() == 1);
        let entry = table.and_then(|table| table.iter().next());
        let (name, parameters) = entry.ok_or(WrittenPolicyError::None)?;
        let mut parameters = parameters.clone();
        // TOML says nothing where JSON says null.
        if let Some(parameters) = parameters.as_object_mut() {
            parameters.retain(|_, value| !value.is_null());
        }
        let read = toml::Value::try_from(parameters)
            .map_err(|error| error.to_string())
            .map(|parameters| self.read(name, parameters));
        let policy = name.clone();
        match read {
            Ok(Some(Ok(choice))) => Ok(choice),
            Ok(None) => Err(WrittenPolicyError::Unknown { policy }),
            Ok(Some(Err(error))) => Err(WrittenPolicyError::Parameters {
                policy,
                error: error.message().to_owned(),
            }),
            Err(error) => Err(WrittenPolicyError::Parameters { policy, error }),
        }
    }

    /// The policy that a manifest's `policy` names, `punctual` if there is none.
    pub(crate) fn of(
        &self,
        section: &mut Section<'_, '_>,
        problems: &mut Problems<'_>,
    ) -> Spanned<PolicyChoice> {
        let place = section.absent("policy");
        let default = Spanned {
            value: PolicyChoice::default(),
            place,
        };
        let Some(named) = section.optional::<Named>("policy", problems) else {
            return default;
        };
        let Named { name, parameters } = named.value;
        let place = named.place;
        match self.read(&name, parameters) {
            Some(Ok(value)) => return Spanned { value, place },
            Some(Err(error)) => {
                let error = error.message().to_owned();
                problems.add(&place, PolicyRule::Parameters { error });
            }
            None if PUBLISHED.contains(&name.as_str()) => {
                problems.add(&place, PolicyRule::Published { policy: name });
            }
            None => {
                let allowed = self.names().map(str::to_owned).collect();
                let value = name;
                problems.add(&place, Invalid::NotOneOf { value, allowed });
            }
        }
        default
    }
}

/// `policy = "NAME"`, or `[daemon.policy.NAME]` with those parameters that differ from their defaults.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    name: String,
    parameters: toml::Value,
}

impl FromToml for Named {
    const EXPECTED: &'static str = "a policy's name, or one table of that name";

    fn from_toml(value: &DeValue<'_>) -> Result<Self, Invalid> {
        match value {
            DeValue::String(name) => Ok(Self {
                name: name.to_string(),
                parameters: toml::Table::new().into(),
            }),
            DeValue::Table(table) if table.len() == 1 => {
                let (name, parameters) = table.iter().next().expect("just counted");
                Ok(Self {
                    name: name.get_ref().to_string(),
                    parameters: FromToml::from_toml(parameters.get_ref())?,
                })
            }
            other => Err(Invalid::wrong_type(Self::EXPECTED, other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use punctual_diagnostics::Document;

    use super::*;

    fn read_with<'t>(text: &'t str, problems: &mut Problems<'t>) -> PolicyChoice {
        let document = Document::parse(problems).unwrap_or_else(|| panic!("TOML: {text}"));
        Policies::shipped().of(&mut document.root(), problems).value
    }

    fn read(text: &str) -> (PolicyChoice, usize) {
        let mut problems = Problems::new(Path::new("manifest.toml"), text, "plan");
        (read_with(text, &mut problems), problems.count())
    }

    #[test]
    fn a_policy_is_named_or_given_as_a_table_of_its_parameters() {
        let seeb = PolicyChoice::new(SeebConfig::default());
        assert_eq!(read("policy = \"seeb\""), (seeb.clone(), 0));
        assert_eq!(read("[policy.seeb]"), (seeb.clone(), 0));
        let (other, problems) = read("[policy.seeb]\ntpc-masks = false");
        assert_eq!((other == seeb, problems), (false, 0));
        assert_eq!(read(""), (PolicyChoice::default(), 0));
        let former = read("[policy.seeb]\nthetas = [100, 200]");
        assert_eq!(former, read("[policy.seeb]\nthresholds = [100, 200]"));
        assert_eq!((former.0 == seeb, former.1), (false, 0));
    }

    #[test]
    fn every_policy_can_be_named_and_written_out_and_read_again() {
        let policies = Policies::shipped();
        for policy in policies.iter() {
            let name = policy.name();
            assert_eq!(read(&format!("policy = \"{name}\"")), (policy.clone(), 0));
            let written = serde_json::to_value(policy).expect("plain data");
            assert_eq!(policies.written(&written).as_ref(), Ok(policy));
        }
    }

    #[test]
    fn what_no_policy_was_written_as_is_refused() {
        let policies = Policies::shipped();
        let read = |json: serde_json::Value| policies.written(&json).unwrap_err().to_string();
        assert_eq!(read(serde_json::json!([])), "no policy is named");
        assert_eq!(read(serde_json::json!({})), "no policy is named");
        let unknown = read(serde_json::json!({"sec": {}}));
        assert_eq!(unknown, "policy \"sec\" is unknown here");
        let wrong = read(serde_json::json!({"seeb": {"speed": 3}}));
        assert!(
            wrong.starts_with("the parameters of policy \"seeb\": "),
            "{wrong}"
        );
    }

    #[test]
    fn unknown_policies_parameters_and_shapes_are_refused() {
        for text in [
            "policy = \"sec\"",
            "policy = \"seq\"",
            "[policy.clockwork]",
            "[policy.seeb]\nspeed = 3",
            "policy = 3",
            "[policy.seeb]\n[policy.punctual]",
            "[policy]",
        ] {
            assert_eq!(read(text), (PolicyChoice::default(), 1), "{text}");
        }
    }

    #[test]
    fn a_published_policy_is_refused_with_where_it_is() {
        for name in PUBLISHED {
            let text = format!("policy = \"{name}\"");
            let mut problems = Problems::new(Path::new("manifest.toml"), &text, "plan");
            read_with(&text, &mut problems);
            let errors = problems.into_errors();
            let cause = errors.problems()[0].cause::<PolicyRule>();
            assert!(
                matches!(cause, Some(PolicyRule::Published { policy }) if policy == name),
                "{errors}"
            );
            assert!(errors.to_string().contains("punctual-lab daemon"), "{name}");
        }
    }
}
