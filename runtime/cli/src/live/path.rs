//! Any field of a report by its path, as in `tasks/front/latency_us/p99`.

use serde_json::Value;

/// The fields by which an element of a list is called.
const NAMES: [&str; 4] = ["name", "task", "partition", "slot"];

/// Those by which a stage is called, all together.
const STAGE: [&str; 4] = ["model", "stage", "batch", "partition"];

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no {wanted:?} in {place}; there {}", if there.is_empty() { "is nothing".to_owned() } else { format!("are {}", there.join(", ")) })]
pub struct NoField {
    wanted: String,
    /// Up to here the path is right.
    place: String,
    there: Vec<String>,
}

/// The value at `path`; parts are names of fields, and names or positions of elements of lists. A name may have slashes of its
/// own: `threads/port/0/cores`; the stage 1 of the model signs, for batches of 2, in the partition main, is
/// `stages/signs/1/2/main`.
pub fn find<'v>(report: &'v Value, path: &str) -> Result<&'v Value, NoField> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let mut at = report;
    let mut done = 0;
    while done < parts.len() {
        // The longest name first: the shorter one would be a position.
        let mut ends = (done + 1..=parts.len()).rev();
        let next = ends.find_map(|end| Some((end, inside(at, &parts[done..end].join("/"))?)));
        let (end, value) = next.ok_or_else(|| NoField {
            wanted: parts[done].to_owned(),
            place: match done {
                0 => "the report".to_owned(),
                _ => format!("`{}`", parts[..done].join("/")),
            },
            there: names(at),
        })?;
        (at, done) = (value, end);
    }
    Ok(at)
}

fn inside<'v>(at: &'v Value, part: &str) -> Option<&'v Value> {
    match at {
        Value::Object(fields) => fields.get(part),
        Value::Array(elements) => {
            let named = elements
                .iter()
                .find(|element| name(element).as_deref() == Some(part));
            named.or_else(|| elements.get(part.parse::<usize>().ok()?))
        }
        _ => None,
    }
}

fn name(element: &Value) -> Option<String> {
    let text = |value: &Value| match value {
        Value::String(name) => name.clone(),
        other => other.to_string(),
    };
    // Of stages, each of these alone names many.
    let stage = STAGE.map(|key| element.get(key).map(text));
    if let [Some(model), Some(stage), Some(batch), Some(partition)] = stage {
        return Some(format!("{model}/{stage}/{batch}/{partition}"));
    }
    NAMES.iter().find_map(|key| element.get(key)).map(text)
}

/// What may follow.
fn names(at: &Value) -> Vec<String> {
    match at {
        Value::Object(fields) => fields.keys().cloned().collect(),
        Value::Array(elements) => {
            let elements = elements.iter().enumerate();
            elements
                .map(|(at, element)| name(element).unwrap_or_else(|| at.to_string()))
                .collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_field_is_found_by_names_and_positions_and_a_wrong_path_says_what_is_there() {
        let report = json!({"pid": 3, "tasks": [{"name": "front", "exits": [4, 5]}, {"name": "rear"}],
            "threads": [{"name": "port/0", "cores": [1]}, {"name": "port/1", "cores": [2]}],
            "stages": [{"model": "signs", "stage": 1, "batch": 2, "partition": "main", "max_us": 8}]});
        for (path, expected) in [
            ("pid", json!(3)),
            ("/tasks/front/exits/1", json!(5)),
            ("tasks/1/name", json!("rear")),
            ("threads/port/1/cores/0", json!(2)),
            ("stages/signs/1/2/main/max_us", json!(8)),
            ("", report.clone()),
        ] {
            assert_eq!(find(&report, path), Ok(&expected), "{path}");
        }
        for (path, words) in [
            (
                "task",
                "there is no \"task\" in the report; there are pid, stages, tasks, threads",
            ),
            (
                "tasks/left",
                "there is no \"left\" in `tasks`; there are front, rear",
            ),
            (
                "tasks/front/exits/2",
                "there is no \"2\" in `tasks/front/exits`; there are 0, 1",
            ),
            ("pid/x", "there is no \"x\" in `pid`; there is nothing"),
        ] {
            assert_eq!(find(&report, path).unwrap_err().to_string(), words);
        }
    }
}
