//! The policies that a manifest may name, and what one with its parameters is read as.

use std::fmt;
use std::sync::Arc;

use punctual_core::{Config, ConfigError, Contract, Policy, PolicySpec, PunctualConfig};
use punctual_policy_seeb::SeebConfig;
use serde::de::DeserializeOwned;
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Serialize, Serializer};
use toml::Spanned;
use toml::de::{DeValue, ValueDeserializer};

use crate::cause::Cause;
use crate::document::{FromToml, Section};
use crate::problem::{At, Problems};

/// Published policies that only `punctual-lab` has: whoever names one is told where it is.
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

    /// The policy that a manifest's `policy` names, `punctual` if there is none.
    pub(crate) fn of(
        &self,
        section: &mut Section<'_, '_>,
        problems: &mut Problems<'_>,
    ) -> At<PolicyChoice> {
        let place = section.absent("policy");
        let default = At {
            value: PolicyChoice::default(),
            place,
        };
        let Some(named) = section.optional::<Named>("policy", problems) else {
            return default;
        };
        let found = self.find(&named.value);
        let place = named.place;
        match found {
            Ok(value) => At { value, place },
            Err(cause) => {
                problems.add(&place, cause);
                default
            }
        }
    }

    fn find(&self, named: &Named) -> Result<PolicyChoice, Cause> {
        let Named { name, parameters } = named;
        let parameters = parameters.clone();
        let parameters = parameters.unwrap_or_else(|| toml::Table::new().into());
        match self.read(name, parameters) {
            Some(policy) => policy.map_err(|error| Cause::PolicyParameters {
                error: error.message().to_owned(),
            }),
            None if PUBLISHED.contains(&name.as_str()) => {
                let policy = name.clone();
                Err(Cause::PublishedPolicy { policy })
            }
            None => Err(Cause::NotOneOf {
                value: name.clone(),
                allowed: self.names().map(str::to_owned).collect(),
            }),
        }
    }
}

/// `policy = "NAME"`, or `[daemon.policy.NAME]` with those parameters that differ from their defaults.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    name: String,
    parameters: Option<toml::Value>,
}

impl FromToml for Named {
    const EXPECTED: &'static str = "a policy's name, or one table of that name";

    fn from_toml(value: &DeValue<'_>) -> Result<Self, Cause> {
        let (name, parameters) = match value {
            DeValue::String(name) => (name.to_string(), None),
            DeValue::Table(table) if table.len() == 1 => {
                let (name, parameters) = table.iter().next().expect("just counted");
                (name.get_ref().to_string(), Some(plain(parameters)?))
            }
            other => return Err(crate::document::wrong_type(Self::EXPECTED, other)),
        };
        Ok(Self { name, parameters })
    }
}

/// A value without the places that it was read at.
fn plain(value: &Spanned<DeValue<'_>>) -> Result<toml::Value, Cause> {
    toml::Value::deserialize(ValueDeserializer::from(value.clone())).map_err(|error| {
        Cause::PolicyParameters {
            error: error.message().to_owned(),
        }
    })
}
#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::document::parse;

    fn read(text: &str) -> (PolicyChoice, usize) {
        let mut problems = Problems::new(Path::new("manifest.toml"), text);
        let document = parse(text, &mut problems);
        let mut root = Section::root(&document);
        let policy = Policies::shipped().of(&mut root, &mut problems);
        (policy.value, problems.count())
    }

    #[test]
    fn a_policy_is_named_or_given_as_a_table_of_its_parameters() {
        let seeb = PolicyChoice::new(SeebConfig::default());
        assert_eq!(read("policy = \"seeb\""), (seeb.clone(), 0));
        assert_eq!(read("[policy.seeb]"), (seeb.clone(), 0));
        let (other, problems) = read("[policy.seeb]\ntpc-masks = false");
        assert_eq!((other == seeb, problems), (false, 0));
        assert_eq!(read(""), (PolicyChoice::default(), 0));
    }

    #[test]
    fn every_policy_can_be_named_and_written_out_and_read_again() {
        let policies = Policies::shipped();
        for policy in policies.iter() {
            let name = policy.name();
            assert_eq!(read(&format!("policy = \"{name}\"")), (policy.clone(), 0));
            let mut written = serde_json::to_value(policy).expect("plain data");
            // TOML says nothing where JSON says null.
            let parameters = written[name].as_object_mut().expect("a table");
            parameters.retain(|_, value| !value.is_null());
            let parameters = toml::Value::try_from(&written[name]).expect("plain data");
            let again = policies.read(name, parameters).expect("known");
            assert_eq!(&again.expect("its own"), policy);
        }
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
            let named = Named {
                name: name.to_owned(),
                parameters: None,
            };
            let cause = Policies::shipped().find(&named).expect_err("not shipped");
            assert!(matches!(&cause, Cause::PublishedPolicy { policy } if policy == name));
            assert!(cause.remedy().contains("punctual-lab daemon"), "{name}");
        }
    }
}
