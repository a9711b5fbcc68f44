//! Boxes out of an answer's tensors.

use punctual_client::Response;
use punctual_decode::{Detection, Detections, Rect, Rows};
use punctual_quality::Object;

/// The detections of an answer, in pixels of the frame; none if it has none.
pub fn of(response: &Response) -> Option<Vec<Detection>> {
    let outputs = response.outputs()?;
    let rows = outputs.get("detections")?;
    let count = outputs.get("count")?.as_i32().ok()?;
    let decoder = Rows { threshold: 0.0 };
    let mut found = Detections::default();
    let count = *count.first()?;
    decoder
        .decode(rows.as_f32().ok()?, count, &mut found)
        .ok()?;
    response.view()?.detections(&mut found);
    Some(found.to_vec())
}

/// What a frame shows, as it is compared.
pub fn truth(object: &punctual_signs::Object) -> Object {
    Object {
        rect: Rect {
            left: object.left,
            top: object.top,
            right: object.right,
            bottom: object.bottom,
        },
        class: object.category as u16,
        crowd: false,
    }
}
