//! The policy that a manifest names, with its parameters.

use punctual_core::PolicyConfig;
use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use crate::cause::Cause;
use crate::document::FromToml;

/// `policy = "NAME"`, or `[daemon.policy.NAME]` with those parameters that differ from their
/// defaults.
impl FromToml for PolicyConfig {
    const EXPECTED: &'static str = "a policy's name, or one table of that name";

    fn from_toml(value: &DeValue<'_>) -> Result<Self, Cause> {
        let (name, parameters) = match value {
            DeValue::String(name) => (name.to_string(), None),
            DeValue::Table(table) if table.len() == 1 => {
                let (name, parameters) = table.iter().next().expect("just counted");
                (name.get_ref().to_string(), Some((table, parameters)))
            }
            other => return Err(crate::document::wrong_type(Self::EXPECTED, other)),
        };
        let default = Self::by_name(&name).ok_or_else(|| Cause::NotOneOf {
            value: name.clone(),
            allowed: Self::all().iter().map(|p| p.name().to_owned()).collect(),
        })?;
        match parameters {
            None => Ok(default),
            Some((table, parameters)) => with(table, parameters),
        }
    }
}

fn with(table: &DeTable<'_>, parameters: &Spanned<DeValue<'_>>) -> Result<PolicyConfig, Cause> {
    let whole = Spanned::new(parameters.span(), DeValue::Table(table.clone()));
    PolicyConfig::deserialize(ValueDeserializer::from(whole)).map_err(|error| {
        Cause::PolicyParameters {
            error: error.message().to_owned(),
        }
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::document::{Section, parse};
    use crate::problem::Problems;

    fn read(text: &str) -> (Option<PolicyConfig>, usize) {
        let mut problems = Problems::new(Path::new("manifest.toml"), text);
        let document = parse(text, &mut problems);
        let mut root = Section::root(&document);
        let policy = root.optional::<PolicyConfig>("policy", &mut problems);
        (policy.map(|at| at.value), problems.count())
    }

    #[test]
    fn a_policy_is_named_or_given_as_a_table_of_its_parameters() {
        let seq = PolicyConfig::by_name("seq");
        assert!(seq.is_some());
        assert_eq!(read("policy = \"seq\""), (seq.clone(), 0));
        assert_eq!(read("[policy.seq]"), (seq, 0));
    }

    #[test]
    fn every_policy_can_be_named_and_written_out_and_read_again() {
        for policy in PolicyConfig::all() {
            let name = policy.name();
            let (by_name, problems) = read(&format!("policy = \"{name}\""));
            assert_eq!((by_name.as_ref(), problems), (Some(&policy), 0));
            assert_eq!(read(&format!("[policy.{name}]")), (Some(policy), 0));
        }
    }

    #[test]
    fn unknown_policies_parameters_and_shapes_are_refused() {
        for text in [
            "policy = \"sec\"",
            "[policy.seq]\nspeed = 3",
            "policy = 3",
            "[policy.seq]\n[policy.punctual]",
            "[policy]",
        ] {
            assert_eq!(read(text), (None, 1), "{text}");
        }
    }
}
