//! The crops that tasks after a detector look at: one for each box that the manifest wants, up to its bound.
//!
//! The scheduler's thread makes them when an answer is decided: a few numbers a row of the detector's list, without allocation.

use punctual_core::{Criticality, StageId, TaskId};
use punctual_decode::{ROW_VALUES, Rect, Size, View};
use punctual_ipc::{Crop, PartCrop};
use punctual_plan::{CropsPlan, Plan};
use punctual_types::FrameLayout;

use crate::boxes::{self, FoundRows, Place};
use crate::validate::Validated;

/// A detector whose boxes become crops of tasks after it.
#[derive(Debug)]
pub struct Pipeline {
    pub first: TaskId,
    pub after: Box<[After]>,
    /// By exit of the detector.
    places: Box<[Option<Place>]>,
    frame: FrameLayout,
    /// Of the frame, what the detector sees.
    crop: Size,
    input: Size,
    letterbox: bool,
    /// How much longer all of a frame may take than its first part.
    pub rest_ns: u64,
    /// From the capture, unless the client wants it sooner; none: none.
    pub deadline_ns: Option<u64>,
}

/// A task after a detector.
#[derive(Debug)]
pub struct After {
    pub task: TaskId,
    /// Its number among those of its clients, as records have it.
    pub number: u16,
    /// Whether each of its crops is promised an answer in time.
    pub is_promised: bool,
    crops: CropsPlan,
    largest: Size,
}

/// A part of a frame for a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FoundCrop {
    /// Position among the tasks after the detector.
    pub after: u8,
    pub crop: PartCrop,
}

/// The most crops of a frame, of all tasks together.
const CROPS_MAX: usize = 96;

/// Crops of a frame, those of one task together.
pub type FoundCrops = heapless::Vec<FoundCrop, CROPS_MAX>;

impl Pipeline {
    /// That of these clients' frames; none if no task is after another.
    pub fn of_client(validated: &Validated, slot: usize) -> Option<Self> {
        let plan = &validated.plan;
        let client = plan.client_slots[slot];
        if client.parts == 0 {
            return None;
        }
        let first = plan.task(client.task);
        let input = plan.models[first.model.index()].input;
        let own = plan.scheduler.tasks[client.task.index()].deadline;
        let rest = first.deadline.zip(own);
        let after = (2..).zip(client.parts());
        Some(Self {
            first: client.task,
            after: after
                .map(|(number, task)| After::of(plan, task, number))
                .collect(),
            places: boxes::places(validated, first),
            frame: first.frame.layout(),
            crop: first.frame.crop,
            input: Size {
                width: input.width,
                height: input.height,
            },
            letterbox: !first.frame.fit.is_stretch(),
            rest_ns: rest.map_or(0, |(all, own)| all.saturating_sub(own).as_nanos()),
            deadline_ns: first.deadline.map(punctual_core::Nanos::as_nanos),
        })
    }

    /// Crops of what an exit found in a frame whose crop lay at that corner, best first for each task. Tells `left_out` the task of
    /// each box beyond its bound. What cannot be read has no boxes.
    pub fn find(
        &self,
        exit: StageId,
        corner: Crop,
        area: &[u8],
        crops: &mut FoundCrops,
        mut left_out: impl FnMut(TaskId),
    ) {
        crops.clear();
        let place = self.places.get(exit.index()).and_then(Option::as_ref);
        let found = place.and_then(|place| place.of_area(area));
        let view = View::new(corner.x, corner.y, self.crop, self.input, self.letterbox);
        let (Some(found), Ok(view)) = (found, view) else {
            return;
        };
        for (position, after) in (0..).zip(&self.after) {
            let mut taken = 0;
            for found in after.wanted(&found) {
                let rect = view.rect(&found).clipped(&view.bounds());
                let Some(crop) = after.crop(&rect, &self.frame) else {
                    continue;
                };
                let crop = FoundCrop {
                    after: position,
                    crop,
                };
                if taken < after.crops.at_most && crops.push(crop).is_ok() {
                    taken += 1;
                } else {
                    left_out(after.task);
                }
            }
        }
    }
}

impl After {
    fn of(plan: &Plan, id: TaskId, number: u16) -> Self {
        let task = plan.task(id);
        let after = task.after.as_ref();
        let after = after.expect("client slots list as parts what is after another");
        Self {
            task: id,
            number,
            is_promised: task.criticality == Criticality::RealTime
                && plan.scheduler.tasks[id.index()].reserved,
            crops: after.crops.clone(),
            largest: task.frame.crop,
        }
    }

    /// Boxes of the classes and scores that it looks at, in pixels of the detector's input.
    fn wanted<'a>(&'a self, found: &FoundRows<'a>) -> impl Iterator<Item = Rect> + use<'a> {
        let (rows, _) = found.values.as_chunks::<ROW_VALUES>();
        let count = usize::try_from(found.count).unwrap_or(0);
        rows.iter().take(count).filter_map(|row| {
            let [left, top, right, bottom, score, class] = row.map(f32::from_le_bytes);
            let classes = &self.crops.classes;
            let is_of_class =
                classes.is_empty() || classes.iter().any(|it| f32::from(*it) == class);
            (score >= self.crops.score && is_of_class).then_some(Rect {
                left,
                top,
                right,
                bottom,
            })
        })
    }

    /// The box in whole pixels, as much larger as the manifest says, inside of the frame. None of a box without a place there, or
    /// whose numbers are none.
    fn crop(&self, rect: &Rect, frame: &FrameLayout) -> Option<PartCrop> {
        let (columns, rows) = frame.format.shared_colour();
        let grow = self.crops.grow;
        let (x, width) = side(
            rect.left,
            rect.right,
            grow,
            frame.width,
            self.largest.width,
            columns,
        )?;
        let (y, height) = side(
            rect.top,
            rect.bottom,
            grow,
            frame.height,
            self.largest.height,
            rows,
        )?;
        Some(PartCrop {
            x,
            y,
            width,
            height,
        })
    }
}

/// Where a side of a crop begins and how long it is, at whole samples of colour. One that is longer than the longest is cut at both
/// ends.
fn side(
    from: f32,
    to: f32,
    grow: f32,
    frame: u32,
    longest: u32,
    shared: u32,
) -> Option<(u16, u16)> {
    // A comparison with what is no number is false.
    if !(to > from && from.is_finite() && to.is_finite()) {
        return None;
    }
    let middle = f32::midpoint(from, to);
    let half = ((to - from) / 2.0 * grow).min(longest as f32 / 2.0);
    let first = (middle - half).max(0.0).floor() as u32;
    let last = ((middle + half).min(frame as f32).ceil() as u32).min(frame);
    let first = first.min(last.saturating_sub(1)) / shared * shared;
    let last = last.next_multiple_of(shared).min(frame);
    let length = last.saturating_sub(first).min(longest);
    let found = (u16::try_from(first).ok()?, u16::try_from(length).ok()?);
    (length > 0).then_some(found)
}

#[cfg(test)]
mod tests {
    use punctual_types::PixelFormat;

    use super::*;

    fn after(at_most: u8, classes: Vec<u16>, grow: f32) -> After {
        After {
            task: TaskId(1),
            number: 2,
            is_promised: true,
            crops: CropsPlan {
                at_most,
                score: 0.5,
                grow,
                classes,
            },
            largest: Size {
                width: 640,
                height: 480,
            },
        }
    }

    /// A detector of 320x240 pixels that sees frames of 640x480 whole.
    fn pipeline(after: Vec<After>) -> Pipeline {
        Pipeline {
            first: TaskId(0),
            after: after.into(),
            places: Box::new([Some(Place {
                rows: 64..64 + 4 * 4 * ROW_VALUES,
                count: 192..196,
            })]),
            frame: FrameLayout::packed(PixelFormat::Nv12, 640, 480),
            crop: Size {
                width: 640,
                height: 480,
            },
            input: Size {
                width: 320,
                height: 240,
            },
            letterbox: false,
            rest_ns: 0,
            deadline_ns: None,
        }
    }

    fn area(rows: &[[f32; ROW_VALUES]]) -> Vec<u8> {
        let mut area = vec![0; 256];
        let values: Vec<u8> = rows
            .iter()
            .flatten()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        area[64..64 + values.len()].copy_from_slice(&values);
        area[192..196].copy_from_slice(&(rows.len() as i32).to_le_bytes());
        area
    }

    fn find(pipeline: &Pipeline, rows: &[[f32; ROW_VALUES]]) -> (Vec<[u16; 4]>, u32) {
        let mut crops = FoundCrops::new();
        let mut left_out = 0;
        pipeline.find(StageId(0), Crop::default(), &area(rows), &mut crops, |_| {
            left_out += 1
        });
        let crops = crops.iter().map(|found| {
            let PartCrop {
                x,
                y,
                width,
                height,
            } = found.crop;
            [x, y, width, height]
        });
        (crops.collect(), left_out)
    }

    const BOX: [f32; ROW_VALUES] = [10.0, 20.0, 30.0, 50.0, 0.9, 3.0];

    #[test]
    fn boxes_become_crops_of_the_frame_of_whole_samples() {
        let pipeline = pipeline(vec![after(2, vec![], 1.0)]);
        let odd = [10.3, 20.3, 30.3, 50.3, 0.8, 3.0];
        let (crops, left_out) = find(&pipeline, &[BOX, odd]);
        // Twice as large as in the detector's input; the second from 20.6, 40.6 to 60.6, 100.6.
        assert_eq!(crops, [[20, 40, 40, 60], [20, 40, 42, 62]]);
        assert_eq!(left_out, 0);
    }

    #[test]
    fn boxes_beyond_the_bound_are_counted_and_poor_or_other_ones_are_not() {
        let poor = [0.0, 0.0, 9.0, 9.0, 0.4, 3.0];
        let other = [0.0, 0.0, 9.0, 9.0, 0.9, 4.0];
        let of_class = pipeline(vec![after(1, vec![3], 1.0)]);
        let (crops, left_out) = find(&of_class, &[BOX, other, BOX, poor]);
        assert_eq!((crops.len(), left_out), (1, 1));
        let two = pipeline(vec![after(8, vec![4], 1.0), after(8, vec![], 1.0)]);
        let (crops, left_out) = find(&two, &[BOX, other]);
        assert_eq!((crops.len(), left_out), (3, 0));
    }

    #[test]
    fn grown_crops_stay_inside_of_the_frame_and_long_ones_are_cut_at_both_ends() {
        let grown = pipeline(vec![after(8, vec![], 2.0)]);
        let corner = [0.0, 0.0, 20.0, 20.0, 0.9, 0.0];
        assert_eq!(find(&grown, &[corner]).0, [[0, 0, 60, 60]]);
        let mut cut = after(8, vec![], 1.0);
        cut.largest = Size {
            width: 100,
            height: 50,
        };
        let whole = [0.0, 0.0, 320.0, 240.0, 0.9, 0.0];
        assert_eq!(
            find(&pipeline(vec![cut]), &[whole]).0,
            [[270, 214, 100, 50]]
        );
    }

    #[test]
    fn boxes_that_are_none_have_no_crop() {
        let pipeline = pipeline(vec![after(8, vec![], 1.0)]);
        let bad = |left, right| [left, 0.0, right, 9.0, 0.9, 0.0];
        for (left, right) in [
            (f32::NAN, 9.0),
            (0.0, f32::INFINITY),
            (9.0, 9.0),
            (9.0, 3.0),
            (400.0, 500.0),
            (-50.0, -1.0),
        ] {
            let (crops, _) = find(&pipeline, &[bad(left, right)]);
            assert!(
                crops.iter().all(|[x, _, width, _]| x + width <= 640),
                "{crops:?}"
            );
        }
        let mut crops = FoundCrops::new();
        for count in [-1, i32::MIN, i32::MAX] {
            let mut area = area(&[BOX]);
            area[192..196].copy_from_slice(&count.to_le_bytes());
            pipeline.find(StageId(0), Crop::default(), &area, &mut crops, |_| ());
            assert!(crops.len() <= 4);
        }
        pipeline.find(StageId(7), Crop::default(), &[], &mut crops, |_| ());
        assert!(crops.is_empty());
    }
}
