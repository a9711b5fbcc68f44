//! The numbers that come with each frame.

use std::path::{Path, PathBuf};

use punctual_client::Description;

use super::npy::{self, NpyError};

/// A vector as it is typed: `NAME=1,2,3` or `NAME=FILE.npy`.
#[derive(Clone, Debug, PartialEq)]
pub struct Given {
    name: String,
    numbers: Numbers,
}

/// One that goes with a frame.
#[derive(Clone, Debug, PartialEq)]
pub struct Vector {
    pub name: String,
    pub numbers: Vec<f32>,
}

#[derive(Clone, Debug, PartialEq)]
enum Numbers {
    Typed(Vec<f32>),
    File(PathBuf),
}

#[derive(Debug, thiserror::Error)]
pub enum VectorsError {
    #[error(
        "the task takes the vector {name:?} with each frame, {length} numbers from {low} to {high}: add `--vector {name}=NUMBERS`"
    )]
    Missing {
        name: String,
        length: u32,
        low: f32,
        high: f32,
    },
    #[error("the task takes no vector {name:?}, but {}", listed(known))]
    Unknown { name: String, known: Vec<String> },
    #[error("the vector {name:?} has {found} numbers, and the task takes {length}")]
    Length {
        name: String,
        found: usize,
        length: u32,
    },
    #[error("{value} of the vector {name:?} is not from {low} to {high}, as the task takes it")]
    Range {
        name: String,
        value: f32,
        low: f32,
        high: f32,
    },
    #[error("the vector's file {path}: {source}", path = path.display())]
    File { path: PathBuf, source: NpyError },
}

fn listed(names: &[String]) -> String {
    match names {
        [] => "none at all".to_owned(),
        names => names.join(", "),
    }
}

/// For the command line.
pub fn typed(text: &str) -> Result<Given, String> {
    let (name, numbers) = text
        .split_once('=')
        .ok_or("must be NAME=NUMBERS or NAME=FILE.npy, such as speed=8.5")?;
    let is_file = Path::new(numbers)
        .extension()
        .is_some_and(|ending| ending == "npy");
    let numbers = if is_file {
        Numbers::File(numbers.into())
    } else {
        let parsed: Result<Vec<f32>, _> = numbers
            .split(',')
            .map(|number| number.trim().parse::<f32>())
            .collect();
        Numbers::Typed(parsed.map_err(|_| format!("{numbers:?} is no list of numbers"))?)
    };
    Ok(Given {
        name: name.to_owned(),
        numbers,
    })
}

/// All vectors that a task takes, in its order.
pub fn resolved(given: &[Given], description: &Description) -> Result<Vec<Vector>, VectorsError> {
    let vectors = &description.vectors;
    let is_known = |given: &&Given| vectors.iter().all(|vector| vector.name != given.name);
    if let Some(unknown) = given.iter().find(is_known) {
        return Err(VectorsError::Unknown {
            name: unknown.name.clone(),
            known: vectors.iter().map(|vector| vector.name.clone()).collect(),
        });
    }
    let resolved = vectors.iter().map(|vector| {
        let (name, low, high) = (vector.name.clone(), vector.low, vector.high);
        let length = vector.length;
        let mut typed = given.iter().rev();
        let Some(given) = typed.find(|given| given.name == name) else {
            return Err(VectorsError::Missing {
                name,
                length,
                low,
                high,
            });
        };
        let numbers = given.numbers()?;
        if numbers.len() != length as usize {
            let found = numbers.len();
            return Err(VectorsError::Length {
                name,
                found,
                length,
            });
        }
        match numbers.iter().find(|value| !(low..=high).contains(*value)) {
            None => Ok(Vector { name, numbers }),
            Some(&value) => Err(VectorsError::Range {
                name,
                value,
                low,
                high,
            }),
        }
    });
    resolved.collect()
}

impl Given {
    fn numbers(&self) -> Result<Vec<f32>, VectorsError> {
        match &self.numbers {
            Numbers::Typed(numbers) => Ok(numbers.clone()),
            Numbers::File(path) => {
                let array = npy::load(path).map_err(|source| VectorsError::File {
                    path: path.clone(),
                    source,
                })?;
                Ok(array.floats())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use punctual_ipc::VectorDescription;

    use super::*;

    fn description() -> Description {
        Description {
            vectors: vec![VectorDescription {
                name: "speed".to_owned(),
                length: 2,
                low: 0.0,
                high: 40.0,
            }],
            ..Description::default()
        }
    }

    #[test]
    fn vectors_are_typed_by_name_and_the_last_counts() {
        let given = ["speed=1,2", "speed=8, 0.5"].map(|text| typed(text).expect("a vector"));
        let resolved = resolved(&given, &description()).expect("within the range");
        assert_eq!(
            (resolved.len(), &resolved[0].numbers[..]),
            (1, &[8.0, 0.5][..])
        );
    }

    #[test]
    fn each_mistake_says_what_the_task_takes() {
        let said = |texts: &[&str]| {
            let given: Vec<Given> = texts.iter().filter_map(|text| typed(text).ok()).collect();
            let refused = resolved(&given, &description()).expect_err("refused");
            refused.to_string()
        };
        assert!(said(&[]).contains("--vector speed="));
        assert!(said(&["sped=1,2"]).contains("but speed"));
        assert!(said(&["speed=1"]).contains("takes 2"));
        assert!(said(&["speed=1,50"]).contains("50 of the vector"));
        assert!(said(&["speed=1,nan"]).contains("NaN of the vector"));
        assert!(said(&["speed=missing.npy"]).contains("missing.npy"));
        for text in ["speed", "speed=", "speed=fast"] {
            assert!(typed(text).is_err(), "{text}");
        }
    }
}
