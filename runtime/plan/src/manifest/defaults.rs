//! What is taken where a manifest leaves out what its packages or the machine say. The least manifest is one task: a package,
//! a rate and a deadline.
//!
//! Other keys have their defaults, which are plain values, where they are read.

use std::path::Path;

use punctual_core::{Criticality, Nanos};
use punctual_diagnostics::{Invalid, NAME_BYTES_MAX, Place, Problems, Section, Spanned};
use punctual_model::{InputForm, InputSpec};
use punctual_types::PixelFormat;
use serde::Serialize;

use super::{CRITICALITIES, QUEUE_MAX, RawModel, RawPartition};
use crate::inputs::DeviceKind;

/// The machine that the plan is made on.
const BOARD: &str = "host";

/// A partition without a name; the only one, where none is written.
const PARTITION: &str = "main";

/// The least default of `queue_depth`.
pub(super) const QUEUE_DEPTH: u64 = 8;

/// What a number adds to a name that another package has: a hyphen and four digits, as there are at most 4,096 models.
const NUMBER_BYTES: usize = 5;

/// A rate and a deadline are given so that they are kept.
const CRITICALITY: (&str, Criticality) = CRITICALITIES[0];

/// The format of frames that say none: what the network sees, pixel by pixel.
pub(crate) const fn frame_format(input: &InputSpec) -> PixelFormat {
    match (input.form, input.channels) {
        (InputForm::Image { .. }, 1) => PixelFormat::Gray8,
        (InputForm::Image { .. }, 4) => PixelFormat::Rgba8,
        (InputForm::Image { .. }, _) => PixelFormat::Rgb8,
        (InputForm::Prepared | InputForm::Tokens { .. }, _) => PixelFormat::Tensor,
    }
}

/// How many requests of a task the scheduler holds: as many as can be promised, if they are ready within a quarter of their deadline.
pub(super) fn queue_depth(
    period: Option<&Spanned<Nanos>>,
    deadline: Option<&Spanned<Nanos>>,
) -> u64 {
    let (Some(period), Some(deadline)) = (period, deadline) else {
        return QUEUE_DEPTH;
    };
    let open = deadline.value.as_nanos().saturating_mul(5);
    let promised = open.div_ceil(4 * period.value.as_nanos().max(1)) + 1;
    promised.clamp(QUEUE_DEPTH, QUEUE_MAX)
}

/// A key that a manifest leaves out, and what it is in the plan, as a manifest would say it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Defaulted {
    pub key: String,
    pub value: String,
}

/// Gives keys that are left out their values, and notes them for the plan.
#[derive(Default)]
pub(crate) struct Defaults {
    taken: Vec<Defaulted>,
    /// Models of packages that only tasks name.
    models: Vec<RawModel>,
}

impl Defaults {
    /// All that was taken, in the order of the keys.
    pub(crate) fn into_taken(mut self) -> Vec<Defaulted> {
        self.taken.sort_by(|one, other| one.key.cmp(&other.key));
        self.taken
    }

    /// Notes what was taken for a key of which the plan says the value.
    pub(crate) fn note(&mut self, place: &Place, value: String) {
        let key = place.key.clone();
        self.taken.push(Defaulted { key, value });
    }

    fn take(&mut self, place: Place, value: &str) -> Spanned<String> {
        self.note(&place, format!("{value:?}"));
        let value = value.to_owned();
        Spanned { value, place }
    }

    /// The text of `key`, or else `default`. None only if what is written is no text.
    fn text(
        &mut self,
        section: &mut Section<'_, '_>,
        key: &'static str,
        default: &str,
        problems: &mut Problems<'_>,
    ) -> Option<Spanned<String>> {
        let written = section.optional(key, problems);
        if section.has(key) {
            return written;
        }
        Some(self.take(section.absent(key), default))
    }

    pub(super) fn board(
        &mut self,
        daemon: &mut Section<'_, '_>,
        problems: &mut Problems<'_>,
    ) -> Option<Spanned<String>> {
        self.text(daemon, "board", BOARD, problems)
    }

    /// A name, or else that of the package.
    pub(super) fn name_of_model(
        &mut self,
        model: &mut Section<'_, '_>,
        package: Option<&Spanned<String>>,
        problems: &mut Problems<'_>,
    ) -> Option<Spanned<String>> {
        match package {
            Some(package) => self.name(model, &name_of(&package.value), problems),
            None => model.name(problems),
        }
    }

    pub(super) fn name_of_partition(
        &mut self,
        partition: &mut Section<'_, '_>,
        problems: &mut Problems<'_>,
    ) -> Option<Spanned<String>> {
        self.name(partition, PARTITION, problems)
    }

    /// A name, or else that of the model.
    pub(super) fn name_of_task(
        &mut self,
        task: &mut Section<'_, '_>,
        model: Option<&Spanned<String>>,
        problems: &mut Problems<'_>,
    ) -> Option<Spanned<String>> {
        match model {
            Some(model) => self.name(task, &model.value, problems),
            None => task.optional("name", problems),
        }
    }

    fn name(
        &mut self,
        section: &mut Section<'_, '_>,
        default: &str,
        problems: &mut Problems<'_>,
    ) -> Option<Spanned<String>> {
        let name = self.text(section, "name", default, problems)?;
        if section.has("name") {
            name.is_name(problems);
        }
        Some(name)
    }

    /// The model of a task, by its name, or by its package; or else the only one of those that are written.
    pub(super) fn model_of_task(
        &mut self,
        task: &mut Section<'_, '_>,
        written: &[RawModel],
        problems: &mut Problems<'_>,
    ) -> Option<Spanned<String>> {
        let named = task.optional("model", problems);
        let package = task.optional("package", problems);
        match (task.has("model"), task.has("package"), written) {
            (true, false, _) => named,
            (false, true, _) => Some(self.model_of_package(package?, written)),
            (false, false, [only]) => Some(self.take(task.absent("model"), &only.name.value)),
            (both, _, _) => {
                let (one, other) = ("package", "model");
                let cause = Invalid::ExactlyOne { one, other, both };
                problems.add(task.place(), cause);
                None
            }
        }
    }

    /// The model of the package, which need not be written.
    pub(super) fn model_of_package(
        &mut self,
        package: Spanned<String>,
        written: &[RawModel],
    ) -> Spanned<String> {
        let of_package = |model: &&RawModel| {
            let other = model.package.as_ref();
            other.is_some_and(|other| other.value == package.value)
        };
        let models = || written.iter().chain(&self.models);
        let known = models().find(of_package);
        let is_free = |name: &String| models().all(|model| model.name.value != *name);
        let value = known.map_or_else(
            || free_name(&name_of(&package.value), is_free),
            |known| known.name.value.clone(),
        );
        let place = package.place.clone();
        let name = Spanned { value, place };
        if known.is_none() {
            self.models.push(RawModel {
                name: name.clone(),
                package: Some(package),
            });
        }
        name
    }

    /// The models of packages that only tasks name.
    pub(super) fn models(&mut self) -> Vec<RawModel> {
        std::mem::take(&mut self.models)
    }

    /// The partition of a task, or else the only one.
    pub(super) fn partition_of_task(
        &mut self,
        task: &mut Section<'_, '_>,
        partitions: &[RawPartition],
        problems: &mut Problems<'_>,
    ) -> Option<Spanned<String>> {
        match partitions {
            [only] => self.text(task, "partition", &only.name.value, problems),
            _ => task.required("partition", problems),
        }
    }

    /// The only partition, where none is written: all cores that are left.
    pub(super) fn partition(&mut self) -> RawPartition {
        let place = Place::of_key("partition");
        RawPartition {
            name: self.take(Place::of_key("partition[0].name"), PARTITION),
            cores: None,
            units: None,
            tpcs: None,
            fill: None,
            device: DeviceKind::Cpu,
            device_place: None,
            cores_place: Place::of_key("partition[0].cores"),
            place,
        }
    }

    pub(super) fn criticality(
        &mut self,
        task: &mut Section<'_, '_>,
        problems: &mut Problems<'_>,
    ) -> Option<Criticality> {
        let (word, _) = CRITICALITY;
        let criticality = self.text(task, "criticality", word, problems)?;
        criticality.one_of(&CRITICALITIES, problems)
    }
}

/// The names that models of these packages have without a name of their own, by package.
#[must_use]
pub fn names_of(packages: &[String]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for package in packages {
        names.push(free_name(&name_of(package), |name| !names.contains(name)));
    }
    names
}

/// The name that a package has without its folder and its ending, in letters that names have.
fn name_of(package: &str) -> String {
    let stem = Path::new(package).file_stem().unwrap_or_default();
    let stem = stem.to_string_lossy().to_ascii_lowercase();
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    let name = stem.chars().map(|c| if allowed(c) { c } else { '-' });
    let name: String = name.collect();
    let begins_as_one = name.starts_with(|c: char| c.is_ascii_lowercase());
    let name = if begins_as_one {
        name
    } else {
        format!("model-{name}")
    };
    name.chars().take(NAME_BYTES_MAX - NUMBER_BYTES).collect()
}

/// The name, or else the first that is free of those with a number behind it.
fn free_name(name: &str, is_free: impl Fn(&String) -> bool) -> String {
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    let mut names = std::iter::once(name.to_owned()).chain(numbered);
    names
        .find(is_free)
        .expect("there are fewer models than numbers")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_of_one_name_get_numbers() {
        let taken = ["net", "net-2"];
        let free = |name: &str| free_name(name, |name| !taken.contains(&name.as_str()));
        assert_eq!(
            (free("net"), free("other")),
            ("net-3".into(), "other".into())
        );
    }

    #[test]
    fn a_name_is_the_packages_in_letters_that_names_have() {
        for (package, name) in [
            ("resnet.punctual", "resnet"),
            ("../models/ResNet 50.punctual", "resnet-50"),
            ("yolo11n.v2.punctual", "yolo11n-v2"),
            ("3d.punctual", "model-3d"),
            ("größe.punctual", "gr--e"),
            ("", "model-"),
        ] {
            assert_eq!(name_of(package), name, "{package:?}");
        }
        assert_eq!(
            name_of(&"n".repeat(99)).len(),
            NAME_BYTES_MAX - NUMBER_BYTES
        );
    }
}
