//! Reading the files that a fleet's plan is made from. Nothing is decided here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use punctual_diagnostics::{Diagnostics, Problems, read_text};
use punctual_model::Package;
use punctual_plan::{PackageInput, ProfileInput, inside, read_profile};

use crate::file::{File, RawModel};
use crate::inputs::FleetInputs;

impl FleetInputs {
    /// Reads a fleet file, the packages that it names, and their profiles: those that it names, or if
    /// it names none, those inside each package and the one next to it (`signs.punctual`: `signs.profile.json`).
    pub fn read(path: &Path) -> Result<Self, Diagnostics> {
        let text = read_text(path).map_err(|cause| Diagnostics::of_file(path, "plan", cause))?;
        let mut problems = Problems::new(path, &text, "plan");
        let Some(file) = File::read(&mut problems) else {
            return Err(problems.into_errors());
        };
        let directory = path.parent().unwrap_or(Path::new(""));
        let mut inputs = Self {
            path: path.to_owned(),
            ..Self::default()
        };
        for model in &file.models {
            inputs.add(model, directory);
        }
        inputs.text = text;
        Ok(inputs)
    }

    fn add(&mut self, model: &RawModel, directory: &Path) {
        let Some(package) = &model.package else {
            return;
        };
        let path = directory.join(&package.value);
        let mut known = self.packages.iter();
        if known.all(|known| known.path != package.value) {
            let read = Package::read(&path).map_err(Arc::new);
            if let Ok(read) = &read {
                let inside = inside(read, &path);
                self.profiles
                    .extend(inside.map(|profile| of(&package.value, profile)));
            }
            self.packages.push(PackageInput {
                path: package.value.clone(),
                version: None,
                package: read,
                layout: None,
                footprints: BTreeMap::new(),
            });
        }
        let beside = path.with_extension("profile.json");
        let profiles: Vec<PathBuf> = if model.profiles.is_empty() {
            // That it is not there is for the plan to say.
            beside.exists().then_some(beside).into_iter().collect()
        } else {
            model
                .profiles
                .iter()
                .map(|profile| directory.join(profile))
                .collect()
        };
        for profile in profiles {
            if self.profiles.iter().all(|known| known.path != profile) {
                let profile = read_profile(profile);
                self.profiles.push(of(&package.value, profile));
            }
        }
    }
}

/// A profile that is for a package, wherever it lies.
fn of(package: &str, profile: ProfileInput) -> ProfileInput {
    ProfileInput {
        lies_with: Some(package.to_owned()),
        ..profile
    }
}
