//! What `punctual check` reports about the places: which of them pay, with the co-run factors that were measured.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::Error;
use crate::programs::Programs;

/// A place, as far as a model is concerned.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlaceUse {
    pub place: String,
    pub cores: Vec<u16>,
    pub model: String,
    /// The time with busy neighbours, divided by the time alone.
    pub co_run: Option<f64>,
    /// The co-run factor up to which the place pays.
    pub break_even: Option<f64>,
    pub pays: bool,
}

/// The plan's JSON, as far as it is needed here.
#[derive(Deserialize)]
struct Plan {
    models: Vec<Model>,
    places: Vec<Place>,
}

#[derive(Deserialize)]
struct Model {
    name: String,
}

#[derive(Deserialize)]
struct Place {
    name: String,
    units: Vec<u16>,
    models: Vec<OfModel>,
}

#[derive(Deserialize)]
struct OfModel {
    model: usize,
    co_run: Option<f64>,
    break_even: Option<f64>,
    pays: bool,
}

/// All places that the manifest asks for.
pub fn places(programs: &Programs, manifest: &Path) -> Result<Vec<PlaceUse>, Error> {
    let mut check = programs.command("punctual");
    check.command.arg("check").arg(manifest).arg("--json");
    let text = check.output("punctual check")?;
    Ok(uses(serde_json::from_str(&text)?))
}

fn uses(plan: Plan) -> Vec<PlaceUse> {
    let Plan { models, places } = plan;
    let models = &models;
    let of_place = |place: Place| {
        let Place {
            name,
            units,
            models: of,
            ..
        } = place;
        of.into_iter().map(move |of| PlaceUse {
            place: name.clone(),
            cores: units.clone(),
            model: models[of.model].name.clone(),
            co_run: of.co_run,
            break_even: of.break_even,
            pays: of.pays,
        })
    };
    places.into_iter().flat_map(of_place).collect()
}
