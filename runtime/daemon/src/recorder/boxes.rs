//! What a detector saw, from the scheduler's thread to the one that encodes pictures: a few rows of its outputs, as they lie in
//! the area that its client reads.

use punctual_core::{Instant, Reply, StageId, TaskId, Ticket};
use punctual_decode::{Detections, ROW_VALUES, Rows, Size, View};
use punctual_plan::{Payloads, Plan, TaskPlan};
use punctual_recording::{Boxes, SeenBox};
use rtrb::{Consumer, Producer, RingBuffer};

use crate::boxes::{self, Place, Places};
use crate::messages::Payload;
use crate::validate::Validated;

/// Rows of a frame that are recorded: a network's best ones are its first.
const ROWS_MAX: usize = 64;

/// Frames between two looks of the encoding thread.
const FRAMES_MAX: usize = 64;

/// The rows of a frame's verdict.
#[derive(Debug)]
struct Seen {
    task: TaskId,
    ticket: Ticket,
    captured: Instant,
    /// Where the crop lay in the frame.
    x: u32,
    y: u32,
    rows: heapless::Vec<f32, { ROWS_MAX * ROW_VALUES }>,
    count: i32,
}

/// The scheduler's end.
#[derive(Debug)]
pub struct BoxSink {
    seen: Producer<Seen>,
    places: Places,
}

/// The encoding thread's end.
pub struct BoxSource {
    seen: Consumer<Seen>,
    /// By task.
    views: Vec<TaskView>,
    of_frames: bool,
    found: Detections,
}

/// What the network of a task sees of its frames.
struct TaskView {
    crop: Size,
    input: Size,
    letterbox: bool,
}

/// None where no detector's boxes lie in an area. The only allocation.
pub fn boxes(validated: &Validated) -> Option<(BoxSink, BoxSource)> {
    let plan = &validated.plan;
    let places: Places = plan
        .tasks
        .iter()
        .map(|task| boxes::places(validated, task))
        .collect();
    if plan.recorder.payloads.is_none() || places.iter().flatten().all(Option::is_none) {
        return None;
    }
    let (seen, seen_out) = RingBuffer::new(FRAMES_MAX);
    let sink = BoxSink { seen, places };
    let source = BoxSource {
        seen: seen_out,
        views: plan
            .tasks
            .iter()
            .map(|task| TaskView::of(plan, task))
            .collect(),
        of_frames: plan.recorder.payloads == Payloads::Frames,
        found: Detections::default(),
    };
    Some((sink, source))
}

impl BoxSink {
    /// Whether answers of a task's exit have boxes.
    pub fn has_boxes(&self, task: TaskId, exit: StageId) -> bool {
        self.place(task, exit).is_some()
    }

    fn place(&self, task: TaskId, exit: StageId) -> Option<&Place> {
        let exits = self.places.get(task.index())?;
        exits.get(exit.index())?.as_ref()
    }

    /// Copies the rows of a verdict out of its area, or leaves them out.
    pub fn write(&mut self, reply: &Reply, payload: &Payload, area: &[u8]) {
        let _ = self.copy(reply, payload, area);
    }

    fn copy(&mut self, reply: &Reply, payload: &Payload, area: &[u8]) -> Option<()> {
        let (exit, _) = reply.answer?;
        let place = self.place(reply.task, exit)?;
        let found = place.of_area(area)?;
        let rows = found.values.iter().take(ROWS_MAX * ROW_VALUES);
        let seen = Seen {
            task: reply.task,
            ticket: reply.ticket,
            captured: reply.captured,
            x: payload.crop_x,
            y: payload.crop_y,
            rows: rows.map(|value| f32::from_le_bytes(*value)).collect(),
            count: found.count,
        };
        self.seen.push(seen).ok()
    }
}

impl TaskView {
    fn of(plan: &Plan, task: &TaskPlan) -> Self {
        let input = plan.models[task.model.index()].input;
        Self {
            crop: task.frame.crop,
            input: Size {
                width: input.width,
                height: input.height,
            },
            letterbox: !task.frame.fit.is_stretch(),
        }
    }
}

impl BoxSource {
    /// All that there are now, on their pictures.
    pub fn take_all(&mut self) -> impl Iterator<Item = Boxes> {
        std::iter::from_fn(|| self.take())
    }

    fn take(&mut self) -> Option<Boxes> {
        let seen = self.seen.pop().ok()?;
        let TaskView {
            crop,
            input,
            letterbox,
        } = *self.views.get(seen.task.index())?;
        let (x, y) = if self.of_frames {
            (seen.x, seen.y)
        } else {
            (0, 0)
        };
        let found = &mut self.found;
        // What cannot be decoded has no boxes.
        let decoded = Rows { threshold: 0.0 }.decode(&seen.rows, seen.count, found);
        let view = View::new(x, y, crop, input, letterbox);
        let boxes = match (decoded, view) {
            (Ok(()), Ok(view)) => {
                view.detections(found);
                found
                    .iter()
                    .map(|seen| SeenBox {
                        left: seen.rect.left,
                        top: seen.rect.top,
                        right: seen.rect.right,
                        bottom: seen.rect.bottom,
                        score: seen.score,
                        class: seen.class,
                    })
                    .collect()
            }
            _ => Vec::new(),
        };
        Some(Boxes {
            task: seen.task,
            ticket: seen.ticket,
            captured: seen.captured,
            boxes,
        })
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::{Answer, ClientId, Confidence, Verdict};

    use super::*;

    const ROW: [f32; ROW_VALUES] = [10.0, 20.0, 30.0, 40.0, 0.5, 3.0];

    const AT: Payload = Payload {
        slot: 2,
        sequence: 3,
        task: TaskId(0),
        crop_x: 7,
        crop_y: 9,
        size: None,
        captured_ns: 4,
    };

    fn reply(task: u16, exit: u8) -> Reply {
        let confidence = Confidence::ONE;
        Reply {
            request: None,
            task: TaskId(task),
            ticket: Ticket {
                client: ClientId(1),
                slot: 2,
                part: 0,
                sequence: 3,
            },
            verdict: Verdict::OnTime,
            answer: Some((
                StageId(exit),
                Answer {
                    class: 0,
                    confidence,
                },
            )),
            captured: Instant::from_nanos(4),
            deadline: Instant::from_nanos(5),
            delivered: None,
        }
    }

    /// Ends of a detector whose rows lie behind a head of 64 bytes; its crop of 100x50 is stretched to 200x200.
    fn ends(of_frames: bool) -> (BoxSink, BoxSource) {
        let (seen, seen_out) = RingBuffer::new(2);
        let place = Place {
            rows: 64..64 + 2 * 4 * ROW_VALUES,
            count: 128..132,
        };
        let sink = BoxSink {
            seen,
            places: Box::new([Box::new([Some(place), None])]),
        };
        let side = |width, height| Size { width, height };
        let source = BoxSource {
            seen: seen_out,
            views: vec![TaskView {
                crop: side(100, 50),
                input: side(200, 200),
                letterbox: false,
            }],
            of_frames,
            found: Detections::default(),
        };
        (sink, source)
    }

    fn area(count: i32) -> Vec<u8> {
        let mut area = vec![0; 192];
        let rows: Vec<u8> = ROW.iter().flat_map(|value| value.to_le_bytes()).collect();
        area[64..88].copy_from_slice(&rows);
        area[128..132].copy_from_slice(&count.to_le_bytes());
        area
    }

    #[test]
    fn boxes_are_moved_from_the_input_to_the_recorded_picture() {
        for (of_frames, left, top) in [(false, 5.0, 5.0), (true, 12.0, 14.0)] {
            let (mut sink, mut source) = ends(of_frames);
            sink.write(&reply(0, 0), &AT, &area(1));
            let seen = source.take_all().next().expect("one verdict");
            assert_eq!((seen.task, seen.ticket.sequence), (TaskId(0), 3));
            let [seen] = seen.boxes[..] else {
                panic!("{seen:?}");
            };
            assert_eq!((seen.left, seen.top), (left, top));
            assert_eq!((seen.right, seen.bottom), (left + 10.0, top + 5.0));
            assert_eq!((seen.score, seen.class), (0.5, 3));
        }
    }

    #[test]
    fn no_detections_are_no_boxes() {
        for count in [0, -1, i32::MIN] {
            let (mut sink, mut source) = ends(false);
            sink.write(&reply(0, 0), &AT, &area(count));
            assert_eq!(source.take_all().next().expect("a verdict").boxes, []);
        }
        let (mut sink, mut source) = ends(false);
        sink.write(&reply(0, 0), &AT, &area(i32::MAX));
        let seen = source.take_all().next().expect("a verdict");
        assert!(seen.boxes.len() <= 2);
    }

    #[test]
    fn exits_without_boxes_short_areas_and_full_rings_are_left_out() {
        let (mut sink, mut source) = ends(false);
        sink.write(&reply(0, 1), &AT, &area(1));
        sink.write(&reply(0, 9), &AT, &area(1));
        sink.write(&reply(9, 0), &AT, &area(1));
        sink.write(&reply(0, 0), &AT, &area(1)[..100]);
        assert_eq!(source.take_all().count(), 0);
        (0..5).for_each(|_| sink.write(&reply(0, 0), &AT, &area(1)));
        assert_eq!(source.take_all().count(), 2);
    }
}
