//! Counting verdicts against what is known of the frames.

use std::collections::{BTreeMap, VecDeque};

use hdrhistogram::Histogram;
use punctual_client::{Response, Verdict};
use punctual_decode::{Detection, Rect};
use punctual_quality::{AveragePrecision, Matched, Object};
use punctual_signs::{Camera, Truth};

use super::boxes;
use crate::report::{CameraReport, LATE_SPANS_MAX, LatencyUs, Shown, ShownBox};

/// The longest latency that is told apart: a minute, in microseconds.
const LATENCY_US_MAX: u64 = 60_000_000;

/// More than a client can have without verdicts.
const OPEN_MAX: usize = 1024;

/// Of how many answers the average precision is known: the last ones.
const MATCHED_MAX: usize = 1000;

/// Boxes with a lower score are not shown.
const SHOWN_SCORE: f32 = 0.35;

/// The verdicts of a camera's frames so far.
pub struct Tally<'c> {
    camera: &'c Camera,
    report: CameraReport,
    latency_us: Histogram<u64>,
    /// The same of each frame's first answer.
    first_us: Histogram<u64>,
    /// Whether there was an answer before its verdict.
    has_answers_before: bool,
    /// Submission `n` at `n % OPEN_MAX`.
    open: Box<[Open]>,
    /// Answers that are boxes, compared with what their frames show.
    answered: Precision,
    /// The same of all verdicts.
    all: Precision,
    /// How many scenes are shown, and their last answers until then.
    scenes: u64,
    shown_seconds: f64,
    shown: BTreeMap<u64, Shown>,
}

/// A submission without a verdict.
#[derive(Default)]
struct Open {
    /// Which of the camera's frames it shows.
    number: u64,
    /// The best of its answers before that.
    early: Option<Heard>,
}

/// An answer or a verdict that was read.
struct Heard {
    response: Response,
    received_ns: u64,
    /// When the frame's first answer was read.
    first_ns: u64,
}

impl Heard {
    /// An answer that is read after its deadline is late for its reader.
    fn is_in_time(&self) -> bool {
        self.response.verdict == Verdict::OnTime && self.received_ns <= self.response.deadline_ns
    }

    /// What the frame has after a later one: the deepest answer of those that were read in time, and the time of the
    /// first.
    fn replaced_by(self, later: Self) -> Self {
        let exit = |heard: &Self| heard.response.answer.map(|answer| answer.exit);
        let is_deeper = exit(&self) != exit(&later);
        // Without an answer it is the verdict of a frame that failed all the same.
        let counts = exit(&later).is_none() || later.is_in_time() || !self.is_in_time();
        let first_ns = self.first_ns;
        let kept = if is_deeper && counts { later } else { self };
        Self { first_ns, ..kept }
    }
}

impl<'c> Tally<'c> {
    /// Nothing yet; `report` names the task. The last answers to the first `scenes` are kept to be shown: those of the first
    /// `shown_seconds`, if there are any, as later other cameras may have ended.
    pub fn new(camera: &'c Camera, report: CameraReport, scenes: u64, shown_seconds: f64) -> Self {
        let histogram =
            || Histogram::new_with_bounds(1, LATENCY_US_MAX, 3).expect("the bounds are constants");
        Self {
            camera,
            report,
            latency_us: histogram(),
            first_us: histogram(),
            has_answers_before: false,
            open: (0..OPEN_MAX).map(|_| Open::default()).collect(),
            answered: Precision::default(),
            all: Precision::default(),
            scenes,
            shown_seconds,
            shown: BTreeMap::new(),
        }
    }

    pub fn submitted(&self) -> u64 {
        self.report.submitted
    }

    /// The camera has captured for so long.
    pub fn reach(&mut self, captured_ns: u64) {
        self.report.seconds = (captured_ns / 1_000_000) as f64 / 1e3;
    }

    /// The camera's frame `number` was submitted.
    pub fn submit(&mut self, sequence: u64, number: u64) {
        self.report.submitted += 1;
        self.open[sequence as usize % OPEN_MAX] = Open {
            number,
            early: None,
        };
    }

    /// A frame was not submitted, as no slot was free.
    pub fn skip(&mut self) {
        self.report.skipped += 1;
    }

    /// A verdict, or an answer before it, that arrived at `received_ns`.
    pub fn count(&mut self, response: &Response, received_ns: u64) {
        let open = &mut self.open[response.sequence as usize % OPEN_MAX];
        let heard = Heard {
            response: response.clone(),
            received_ns,
            first_ns: received_ns,
        };
        let heard = match open.early.take() {
            Some(early) => early.replaced_by(heard),
            None => heard,
        };
        if response.is_final {
            let number = open.number;
            self.count_frame(number, &heard);
        } else {
            open.early = Some(heard);
            self.has_answers_before = true;
        }
    }

    fn count_frame(&mut self, number: u64, heard: &Heard) {
        let response = &heard.response;
        let since = |ns: u64| ns.saturating_sub(response.captured_ns) / 1000;
        let latency_us = since(heard.received_ns);
        let mut shown = Shown {
            scene: number % self.camera.scenes(),
            verdict: response.verdict.to_string(),
            latency_us,
            ..Shown::default()
        };
        match response.verdict {
            Verdict::OnTime | Verdict::Late => {
                self.first_us
                    .saturating_record(since(heard.first_ns).max(1));
                self.latency_us.saturating_record(latency_us.max(1));
                self.count_answer(heard);
                self.compare_class(response, number, &mut shown);
            }
            Verdict::Rejected(_) => self.report.rejected += 1,
            Verdict::Failed(_) => self.report.failed += 1,
        }
        let in_time = response.verdict == Verdict::OnTime;
        self.compare_boxes(response, number, in_time, &mut shown);
        let early = self.report.seconds < self.shown_seconds;
        if shown.scene < self.scenes && (early || !self.shown.contains_key(&shown.scene)) {
            self.shown.insert(shown.scene, shown);
        }
    }

    fn count_answer(&mut self, heard: &Heard) {
        let report = &mut self.report;
        let response = &heard.response;
        if !response.has_deadline() {
            report.without_deadline += 1;
        } else if heard.is_in_time() {
            report.on_time += 1;
        } else {
            report.late += 1;
            if report.late_spans_ns.len() < LATE_SPANS_MAX {
                let span = [response.captured_ns, heard.received_ns];
                report.late_spans_ns.push(span);
            }
        }
        if let Some(answer) = response.answer {
            let exit = usize::from(answer.exit);
            if report.exits.len() <= exit {
                report.exits.resize(exit + 1, 0);
            }
            report.exits[exit] += 1;
        }
    }

    /// Holds an answer's class against what its frame shows.
    fn compare_class(&mut self, response: &Response, number: u64, shown: &mut Shown) {
        shown.exit = response.answer.map(|answer| answer.exit);
        shown.confidence = response.confidence();
        if let Truth::Sign(label) = self.camera.shot(number).truth() {
            let class = response.class().map(usize::from);
            let correct = class == Some(*label);
            self.report.correct += u64::from(correct);
            shown.class = response.class_name().map(str::to_owned);
            shown.correct = Some(correct);
        }
    }

    /// Holds boxes against what their frame shows. Without an answer nothing is found.
    fn compare_boxes(
        &mut self,
        response: &Response,
        number: u64,
        in_time: bool,
        shown: &mut Shown,
    ) {
        let shot = self.camera.shot(number);
        let Truth::Objects(objects) = shot.truth() else {
            return;
        };
        let truth: Vec<Object> = objects.iter().map(boxes::truth).collect();
        let found = boxes::of(response);
        if let Some(found) = &found {
            self.answered.push(Matched::of(&truth, found));
            let clear = found.iter().filter(|found| found.score >= SHOWN_SCORE);
            shown.boxes = clear.map(|found| shown_box(response, found)).collect();
        }
        let found = found.filter(|_| in_time).unwrap_or_default();
        self.all.push(Matched::of(&truth, &found));
    }

    fn first_us(&self) -> Option<LatencyUs> {
        self.has_answers_before
            .then(|| LatencyUs::of(&self.first_us))
    }

    /// The counts, without the list of late ones.
    pub fn now(&self) -> CameraReport {
        CameraReport {
            latency_us: LatencyUs::of(&self.latency_us),
            first_us: self.first_us(),
            map50: self.answered.map50(),
            map50_of_all: self.all.map50(),
            late_spans_ns: Vec::new(),
            ..self.report.clone()
        }
    }

    pub fn last(self, finished: bool) -> CameraReport {
        CameraReport {
            latency_us: LatencyUs::of(&self.latency_us),
            first_us: self.first_us(),
            map50: self.answered.map50(),
            map50_of_all: self.all.map50(),
            shown: self.shown.into_values().collect(),
            finished,
            ..self.report
        }
    }
}

/// The last frames whose boxes were compared.
#[derive(Default)]
struct Precision(VecDeque<Matched>);

impl Precision {
    fn push(&mut self, matched: Matched) {
        self.0.push_back(matched);
        if self.0.len() > MATCHED_MAX {
            self.0.pop_front();
        }
    }

    fn map50(&self) -> Option<f64> {
        AveragePrecision::of(&self.0).map50
    }
}

fn shown_box(response: &Response, found: &Detection) -> ShownBox {
    let Rect {
        left,
        top,
        right,
        bottom,
    } = found.rect;
    let name = response.name_of(found.class.into());
    ShownBox {
        sides: [left, top, right, bottom],
        score: found.score,
        class: name.map_or_else(|| found.class.to_string(), str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_client::{Answer, Failure, Rejection};

    use punctual_client::ResultRecord;
    use punctual_types::PixelFormat;

    /// The response to a frame that shows scene 0, if its class is right.
    fn response(camera: &Camera, sequence: u64, verdict: Verdict, exit: Option<u8>) -> Response {
        let Truth::Sign(label) = *camera.shot(0).truth() else {
            panic!("a camera of signs");
        };
        let class = |exit| Answer::of_class(exit, label as u16, 60_000);
        Response::from(ResultRecord {
            sequence,
            slot: 0,
            verdict,
            answer: exit.map(class),
            part: None,
            left_out: 0,
            captured_ns: 1_000_000,
            deadline_ns: 5_000_000,
            finished_ns: 3_000_000,
            sent_ns: 3_000_000,
            is_final: true,
        })
    }

    fn signs() -> Camera {
        Camera::signs(PixelFormat::Rgb8, 1, 2)
    }

    fn tally(camera: &Camera) -> Tally<'_> {
        Tally::new(camera, CameraReport::default(), 1, 2.0)
    }

    #[test]
    fn every_verdict_is_counted_once_and_an_answer_is_held_against_what_its_frame_shows() {
        let camera = signs();
        let mut tally = tally(&camera);
        for (sequence, number) in [(1, 0), (2, 1), (3, 0), (4, 0)] {
            tally.submit(sequence, number);
        }
        let of = |sequence, verdict, exit| response(&camera, sequence, verdict, exit);
        tally.count(&of(2, Verdict::OnTime, Some(0)), 3_500_000);
        tally.count(&of(1, Verdict::OnTime, Some(2)), 4_000_000);
        let refused = Verdict::Rejected(Rejection::NoSlack);
        tally.count(&of(3, refused, None), 4_000_000);
        tally.count(&of(4, Verdict::Failed(Failure::Shed), None), 4_000_000);
        let report = tally.last(true);
        assert_eq!((report.submitted, report.settled()), (4, 4));
        assert_eq!((report.on_time, report.rejected, report.failed), (2, 1, 1));
        assert_eq!((report.correct, report.exits), (1, vec![1, 0, 1]));
        // To three digits, as the histogram keeps it.
        assert!((3_000..=3_003).contains(&report.latency_us.max));
    }

    #[test]
    fn the_latency_of_first_answers_is_told_apart_from_that_of_the_deepest_and_counts_no_frame_twice()
     {
        let camera = signs();
        let mut tally = tally(&camera);
        let of = |sequence, exit, is_final| {
            let answer = response(&camera, sequence, Verdict::OnTime, Some(exit));
            Response::from(ResultRecord {
                is_final,
                ..answer.record()
            })
        };
        tally.submit(1, 0);
        tally.count(&of(1, 0, true), 2_000_000);
        assert_eq!(
            tally.now().first_us,
            None,
            "no answer came before its verdict"
        );
        tally.submit(2, 0);
        tally.count(&of(2, 0, false), 3_000_000);
        assert_eq!(tally.now().settled(), 1);
        tally.count(&of(2, 1, false), 4_000_000);
        // The verdict is read after the deadline, its answer was there before.
        tally.count(&of(2, 1, true), 9_000_000);
        tally.submit(3, 0);
        tally.count(&of(3, 0, false), 3_000_000);
        // Too late for who reads it.
        tally.count(&of(3, 1, true), 9_000_000);
        let report = tally.last(true);
        assert_eq!((report.submitted, report.settled()), (3, 3));
        assert_eq!((report.on_time, report.late), (3, 0));
        assert_eq!((report.correct, report.exits), (3, vec![2, 1]));
        let max = [report.first_us.unwrap().max, report.latency_us.max];
        // To three digits, as the histogram keeps them.
        assert_eq!(max.map(|us| us / 10), [200, 300]);
    }

    #[test]
    fn the_last_verdict_of_each_scene_while_all_cameras_run_is_kept() {
        let camera = signs();
        let mut tally = tally(&camera);
        for (sequence, number) in [(1, 0), (2, 1), (3, 2), (4, 4)] {
            tally.submit(sequence, number);
        }
        for (sequence, exit, seconds) in [(1, 0, 0), (2, 1, 1), (3, 2, 1), (4, 1, 3)] {
            tally.reach(seconds * 1_000_000_000);
            let answer = response(&camera, sequence, Verdict::OnTime, Some(exit));
            tally.count(&answer, 4_000_000);
        }
        let shown = tally.last(true).shown;
        let [
            Shown {
                scene: 0,
                exit: Some(2),
                correct: Some(true),
                latency_us: 3000,
                ..
            },
        ] = &shown[..]
        else {
            panic!("{shown:?}");
        };
    }

    #[test]
    fn a_frame_without_an_answer_in_time_counts_against_the_precision_of_all() {
        let camera = Camera::streets(PixelFormat::Nv12, 1, 1);
        let mut tally = tally(&camera);
        tally.submit(1, 0);
        let refused = Verdict::Rejected(Rejection::NoSlack);
        let record = ResultRecord {
            verdict: refused,
            answer: None,
            ..response(&signs(), 1, refused, None).record()
        };
        tally.count(&Response::from(record), 4_000_000);
        let report = tally.last(true);
        assert_eq!((report.map50, report.map50_of_all), (None, Some(0.0)));
    }

    #[test]
    fn an_answer_to_a_frame_without_a_deadline_is_neither_on_time_nor_late() {
        let camera = signs();
        let mut tally = tally(&camera);
        tally.submit(1, 0);
        let answered = response(&camera, 1, Verdict::OnTime, Some(0)).record();
        let answered = ResultRecord {
            deadline_ns: u64::MAX,
            ..answered
        };
        tally.count(&Response::from(answered), 9_000_000_000);
        let report = tally.last(true);
        assert_eq!((report.on_time, report.late), (0, 0));
        assert_eq!((report.without_deadline, report.settled()), (1, 1));
    }

    #[test]
    fn an_answer_that_is_read_after_its_deadline_is_late_whatever_the_daemon_says() {
        let camera = signs();
        let mut tally = tally(&camera);
        tally.submit(1, 0);
        let answer = response(&camera, 1, Verdict::OnTime, Some(0));
        tally.count(&answer, 5_000_001);
        let report = tally.last(true);
        assert_eq!((report.on_time, report.late), (0, 1));
        assert_eq!(report.late_spans_ns, [[1_000_000, 5_000_001]]);
    }
}
