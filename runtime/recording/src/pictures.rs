//! Pictures, and on them what was seen: as messages of Foxglove's schemas.
//!
//! A picture and its annotation are on two channels of a client, with the same timestamp, the time of its capture: by that,
//! viewers know which belong together.

use prost::Message as _;
use prost_types::Timestamp;
use punctual_core::{ClientId, Instant, Reply, TaskId, Ticket};
use schemars::JsonSchema;
use serde::Serialize;

use crate::frames::FrameId;
use crate::image::{self, CompressedImage};
use crate::messages::schema;
use crate::setting::Names;

/// The size of text on pictures, in pixels, and where an answer's class stands.
const FONT: f64 = 14.0;
const CORNER: Point = Point { x: 3.0, y: 18.0 };

/// Lines around objects, in pixels.
const LINE: f64 = 2.0;
/// How `foxglove.PointsAnnotation` calls a closed line.
const CLOSED: u8 = 2;

const GREEN: Colour = Colour::of(0.2, 1.0, 0.3, 1.0);
const CLEAR: Colour = Colour::of(0.0, 0.0, 0.0, 0.0);
const WHITE: Colour = Colour::of(1.0, 1.0, 1.0, 1.0);
const SHADE: Colour = Colour::of(0.0, 0.0, 0.0, 0.6);

/// A picture of a frame, or of the crop that its network saw.
#[derive(Clone, PartialEq, Eq)]
pub struct Picture {
    pub task: TaskId,
    pub ticket: Ticket,
    pub captured: Instant,
    pub jpeg: Vec<u8>,
}

impl std::fmt::Debug for Picture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { task, ticket, .. } = self;
        write!(
            f,
            "Picture({task:?}, {ticket:?}, {} bytes)",
            self.jpeg.len()
        )
    }
}

/// What a detector saw on a picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Boxes {
    pub task: TaskId,
    pub ticket: Ticket,
    pub captured: Instant,
    pub boxes: Vec<SeenBox>,
}

/// An object, in pixels of the picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SeenBox {
    pub left: f32,
    pub top: f32,
    pub right: f32,
    pub bottom: f32,
    /// 0 to 1.
    pub score: f32,
    pub class: u16,
}

/// What answers of a task say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels {
    pub classes: Vec<String>,
    /// By exit.
    pub exits: Vec<ExitLabels>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExitLabels {
    pub has_class: bool,
    pub has_confidence: bool,
    /// Its boxes are recorded, and the text of its answers is with them.
    pub has_boxes: bool,
}

impl Labels {
    fn class(&self, class: u16) -> String {
        let name = self.classes.get(usize::from(class));
        name.map_or_else(|| format!("class {class}"), String::clone)
    }

    /// The class and the confidence of an answer, as far as it has them.
    fn of(&self, reply: &Reply) -> Option<String> {
        let (exit, answer) = reply.answer?;
        let exit = self.exits.get(exit.index())?;
        if exit.has_boxes {
            return None;
        }
        let class = exit.has_class.then(|| self.class(answer.class));
        let confidence = exit
            .has_confidence
            .then(|| format!("{:.2}", answer.confidence.as_probability()));
        let words: Vec<String> = class.into_iter().chain(confidence).collect();
        (!words.is_empty()).then(|| words.join(" "))
    }
}

/// A channel of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PictureTopic {
    Image,
    Annotations,
}

impl PictureTopic {
    #[must_use]
    pub fn name(self, names: &Names, task: TaskId, client: ClientId) -> String {
        let what = match self {
            Self::Image => "image",
            Self::Annotations => "annotations",
        };
        format!("/punctual/{}/{}/{what}", names.task(task), client.0)
    }

    #[must_use]
    pub const fn schema_name(self) -> &'static str {
        match self {
            Self::Image => "foxglove.CompressedImage",
            Self::Annotations => "foxglove.ImageAnnotations",
        }
    }

    /// How MCAP calls the encoding of its schema and of its messages.
    #[must_use]
    pub const fn encodings(self) -> Encodings {
        match self {
            Self::Image => Encodings {
                schema: "protobuf",
                message: "protobuf",
            },
            Self::Annotations => Encodings {
                schema: "jsonschema",
                message: "json",
            },
        }
    }

    /// The schema of its messages.
    #[must_use]
    pub fn schema(self) -> Vec<u8> {
        match self {
            Self::Image => image::descriptors(),
            Self::Annotations => schema::<ImageAnnotations>().to_string().into_bytes(),
        }
    }
}

/// Names of encodings.
#[derive(Clone, Copy, Debug)]
pub struct Encodings {
    pub schema: &'static str,
    pub message: &'static str,
}

/// Time of day.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[schemars(title = "time")]
pub struct Time {
    sec: u64,
    #[schemars(range(max = 999_999_999))]
    nsec: u32,
}

impl Time {
    #[must_use]
    pub const fn from_nanos(ns: u64) -> Self {
        Self {
            sec: ns / 1_000_000_000,
            nsec: (ns % 1_000_000_000) as u32,
        }
    }
}

/// What is drawn on a picture.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "foxglove.ImageAnnotations")]
struct ImageAnnotations {
    circles: Vec<CircleAnnotation>,
    points: Vec<PointsAnnotation>,
    texts: Vec<TextAnnotation>,
}

/// None is drawn.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "foxglove.CircleAnnotation")]
struct CircleAnnotation {
    timestamp: Time,
    position: Point,
    diameter: f64,
    thickness: f64,
    fill_color: Colour,
    outline_color: Colour,
    metadata: Vec<KeyValuePair>,
}

/// A line through points.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "foxglove.PointsAnnotation")]
struct PointsAnnotation {
    timestamp: Time,
    /// 2: closed.
    #[serde(rename = "type")]
    kind: u8,
    points: Vec<Point>,
    outline_color: Colour,
    outline_colors: Vec<Colour>,
    fill_color: Colour,
    /// In pixels.
    thickness: f64,
    metadata: Vec<KeyValuePair>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "foxglove.TextAnnotation")]
struct TextAnnotation {
    timestamp: Time,
    /// Of its lower left corner.
    position: Point,
    text: String,
    /// In pixels.
    font_size: f64,
    text_color: Colour,
    background_color: Colour,
    metadata: Vec<KeyValuePair>,
}

/// In pixels, from the upper left corner of the picture.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[schemars(title = "foxglove.Point2")]
struct Point {
    x: f64,
    y: f64,
}

#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[schemars(title = "foxglove.Color")]
struct Colour {
    r: f64,
    g: f64,
    b: f64,
    a: f64,
}

impl Colour {
    const fn of(r: f64, g: f64, b: f64, a: f64) -> Self {
        Self { r, g, b, a }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "foxglove.KeyValuePair")]
struct KeyValuePair {
    key: String,
    value: String,
}

impl Picture {
    /// Its message, with the time of day of its capture.
    #[must_use]
    pub fn message(&self, names: &Names, captured: Time) -> Vec<u8> {
        let image = CompressedImage {
            timestamp: Some(Timestamp {
                seconds: captured.sec as i64,
                nanos: captured.nsec as i32,
            }),
            frame_id: format!("{}/{}", names.task(self.task), self.ticket.client.0),
            data: self.jpeg.clone(),
            format: "jpeg".to_owned(),
        };
        image.encode_to_vec()
    }
}

/// What a verdict says about its picture; none if it has no answer, or the answer neither a class nor a confidence.
#[must_use]
pub fn annotation(names: &Names, labels: &[Labels], reply: &Reply, at: Time) -> Option<Vec<u8>> {
    let text = labels.get(reply.task.index())?.of(reply)?;
    let (exit, _) = reply.answer?;
    let frame = names.frame(FrameId {
        task: reply.task,
        ticket: reply.ticket,
    });
    let metadata = [("frame", frame), ("exit", exit.0.to_string())];
    let text = TextAnnotation::of(at, CORNER, text, metadata.into());
    Some(to_json(&ImageAnnotations {
        circles: Vec::new(),
        points: Vec::new(),
        texts: vec![text],
    }))
}

impl TextAnnotation {
    fn of(timestamp: Time, position: Point, text: String, metadata: Vec<(&str, String)>) -> Self {
        let pair = |(key, value): (&str, String)| KeyValuePair {
            key: key.to_owned(),
            value,
        };
        Self {
            timestamp,
            position,
            text,
            font_size: FONT,
            text_color: WHITE,
            background_color: SHADE,
            metadata: metadata.into_iter().map(pair).collect(),
        }
    }
}

impl Boxes {
    /// Their message; without boxes it clears those of the picture before.
    #[must_use]
    pub fn message(&self, names: &Names, labels: &[Labels], at: Time) -> Vec<u8> {
        let labels = labels.get(self.task.index()).cloned().unwrap_or_default();
        let frame = names.frame(FrameId {
            task: self.task,
            ticket: self.ticket,
        });
        let text = |seen: &SeenBox| {
            let corner = Point::at(seen.left, seen.top);
            let text = format!("{} {:.2}", labels.class(seen.class), seen.score);
            TextAnnotation::of(at, corner, text, vec![("frame", frame.clone())])
        };
        to_json(&ImageAnnotations {
            circles: Vec::new(),
            points: self.boxes.iter().map(|seen| seen.outline(at)).collect(),
            texts: self.boxes.iter().map(text).collect(),
        })
    }
}

impl SeenBox {
    fn outline(&self, timestamp: Time) -> PointsAnnotation {
        let Self {
            left,
            top,
            right,
            bottom,
            ..
        } = *self;
        PointsAnnotation {
            timestamp,
            kind: CLOSED,
            points: vec![
                Point::at(left, top),
                Point::at(right, top),
                Point::at(right, bottom),
                Point::at(left, bottom),
            ],
            outline_color: GREEN,
            outline_colors: Vec::new(),
            fill_color: CLEAR,
            thickness: LINE,
            metadata: Vec::new(),
        }
    }
}

impl Point {
    fn at(x: f32, y: f32) -> Self {
        Self {
            x: x.into(),
            y: y.into(),
        }
    }
}

fn to_json(message: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(message).expect("plain data always serialises")
}

#[cfg(test)]
mod tests {
    use punctual_core::{Action, Answer, Confidence, Event, Nanos, StageId, Verdict};

    use punctual_policy_testing::plans::random_plan;
    use punctual_types::Random;

    use serde_json::Value;

    use super::*;
    use crate::entry::{Entry, Step};
    use crate::segment::Segment;
    use crate::setting::Setting;
    use crate::write::Writer;

    const CAPTURED: Instant = Instant::from_nanos(1_500_000_000);
    const AHEAD_NS: i64 = 3_000_000_000;

    fn names() -> Names {
        Names {
            tasks: vec!["front".to_owned()],
            ..Names::default()
        }
    }

    fn labels() -> Labels {
        Labels {
            classes: vec!["stop".to_owned(), "give way".to_owned()],
            exits: vec![
                ExitLabels {
                    has_class: true,
                    has_confidence: true,
                    has_boxes: false,
                },
                ExitLabels::default(),
            ],
        }
    }

    fn ticket() -> Ticket {
        Ticket {
            client: ClientId(2),
            slot: 0,
            part: 0,
            sequence: 7,
        }
    }

    fn reply(answer: Option<(u8, u16)>) -> Reply {
        Reply {
            request: None,
            task: TaskId(0),
            ticket: ticket(),
            verdict: Verdict::OnTime,
            answer: answer.map(|(exit, class)| {
                let confidence = Confidence::from_probability(0.75);
                (StageId(exit), Answer { class, confidence })
            }),
            captured: CAPTURED,
            deadline: CAPTURED,
            delivered: None,
        }
    }

    fn picture() -> Picture {
        Picture {
            task: TaskId(0),
            ticket: ticket(),
            captured: CAPTURED,
            jpeg: b"a picture".to_vec(),
        }
    }

    /// The topics and messages of a file with a picture and its verdict.
    fn written(with_pictures: bool) -> Vec<(String, u64, Vec<u8>)> {
        let mut segment = Segment::new(0, Instant::ZERO, None);
        segment.push(&Entry::Step(Step {
            now: CAPTURED,
            took: Nanos::ZERO,
            event: Event::Tick,
            actions: vec![Action::Reply(reply(Some((0, 1))))],
        }));
        segment.picture(picture());
        assert!(segment.bytes() > 9);
        let policy = punctual_core::PunctualConfig::default();
        let setting = Setting {
            config: random_plan(&policy, &mut Random::new(1)),
            policy: Value::Null,
            names: names(),
        };
        let out = std::io::Cursor::new(Vec::new());
        let mut writer = Writer::bare(out, AHEAD_NS, &setting).expect("memory");
        if with_pictures {
            writer = writer.with_pictures(&names(), &[labels()]).expect("memory");
        }
        writer.whole(&segment).expect("memory");
        let file = writer.finish().expect("memory").into_inner();
        let messages = mcap::MessageStream::new(&file)
            .expect("a file")
            .map(|message| {
                let message = message.expect("whole");
                let data = message.data.to_vec();
                (message.channel.topic.clone(), message.log_time, data)
            });
        messages.collect()
    }

    #[test]
    fn a_picture_and_its_annotation_have_one_timestamp_and_each_a_channel_of_the_client() {
        let messages = written(true);
        let of = |topic: &str| {
            let mut found = messages.iter().filter(|(of, ..)| of == topic);
            let (_, log_time, data) = found.next().expect("it is there");
            assert_eq!(*log_time, 4_500_000_000);
            &data[..]
        };
        let image = CompressedImage::decode(of("/punctual/front/2/image"));
        let image = image.expect("a message");
        let time = Timestamp {
            seconds: 4,
            nanos: 500_000_000,
        };
        assert_eq!(image.timestamp, Some(time));
        assert_eq!((&*image.format, &*image.frame_id), ("jpeg", "front/2"));
        assert_eq!(image.data, b"a picture");
        let time = serde_json::json!({ "sec": 4, "nsec": 500_000_000 });
        let annotations: Value =
            serde_json::from_slice(of("/punctual/front/2/annotations")).expect("JSON");
        let [text] = &annotations["texts"].as_array().expect("texts")[..] else {
            panic!("{annotations:#}");
        };
        assert_eq!(
            (&text["timestamp"], &text["text"]),
            (&time, &"give way 0.75".into())
        );
        assert_eq!(text["metadata"][0]["value"], "front/2/7");
        assert_eq!(
            (&annotations["points"], &annotations["circles"]),
            (&Value::Array(vec![]), &Value::Array(vec![]))
        );
    }

    #[test]
    fn a_writer_that_was_not_told_of_pictures_writes_none() {
        let topics: Vec<String> = written(false)
            .into_iter()
            .map(|(topic, ..)| topic)
            .collect();
        assert!(
            topics.iter().all(|topic| topic == crate::CHANNEL),
            "{topics:?}"
        );
    }

    #[test]
    fn an_answer_without_class_and_confidence_has_no_annotation() {
        let at = Time::from_nanos(1);
        let of = |labels: &[Labels], answer| annotation(&names(), labels, &reply(answer), at);
        assert_eq!(of(&[labels()], None), None);
        assert_eq!(of(&[labels()], Some((1, 0))), None);
        assert_eq!(of(&[labels()], Some((9, 0))), None);
        assert_eq!(of(&[], Some((0, 0))), None);
        let unnamed = of(&[labels()], Some((0, 5))).expect("it has a class");
        assert!(String::from_utf8_lossy(&unnamed).contains("class 5 0.75"));
    }

    #[test]
    fn boxes_are_closed_lines_with_class_and_score_at_their_corner() {
        let boxes = Boxes {
            task: TaskId(0),
            ticket: ticket(),
            captured: CAPTURED,
            boxes: vec![SeenBox {
                left: 1.0,
                top: 2.0,
                right: 3.0,
                bottom: 4.0,
                score: 0.5,
                class: 0,
            }],
        };
        let message = boxes.message(&names(), &[labels()], Time::from_nanos(1));
        let message: Value = serde_json::from_slice(&message).expect("JSON");
        let [outline] = &message["points"].as_array().expect("points")[..] else {
            panic!("{message:#}");
        };
        assert_eq!(
            (&outline["type"], &outline["points"][2]),
            (&2.into(), &serde_json::json!({ "x": 3.0, "y": 4.0 }))
        );
        assert_eq!(message["texts"][0]["text"], "stop 0.50");
        let mut labels = labels();
        labels.exits[0].has_boxes = true;
        let text = annotation(
            &names(),
            &[labels],
            &reply(Some((0, 0))),
            Time::from_nanos(1),
        );
        assert_eq!(text, None, "one message an answer");
    }

    #[test]
    fn schemas_say_what_viewers_look_for() {
        let topic = PictureTopic::Annotations;
        let schema: Value = serde_json::from_slice(&topic.schema()).expect("JSON");
        assert_eq!(schema["title"], topic.schema_name());
        assert!(!schema.to_string().contains("$ref"), "{schema:#}");
        let image = prost_types::FileDescriptorSet::decode(&*PictureTopic::Image.schema());
        let image = image.expect("descriptors");
        let last = image.file.last().expect("its own is the last");
        let name = format!("{}.{}", last.package(), last.message_type[0].name());
        assert_eq!(name, PictureTopic::Image.schema_name());
    }
}
