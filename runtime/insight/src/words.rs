//! The words for verdicts and reasons that reports share.

use punctual_core::{Criticality, Demotion, Event, Nanos, Verdict};
use punctual_recording::frames::{Frame, FrameId, Note, Outcome, Run, What};
use punctual_recording::{Names, messages};

/// With its reason, if it is no answer.
pub(crate) fn verdict(verdict: Verdict) -> String {
    let word = messages::verdict(verdict);
    match messages::reason(verdict) {
        Some(reason) => format!("{word}: {reason}"),
        None => word.to_owned(),
    }
}

pub(crate) const fn event(event: &Event) -> &'static str {
    match event {
        Event::Arrived(_) => "arrived",
        Event::Prepared { .. } => "prepared",
        Event::Finished(_) => "finished",
        Event::NotRun { .. } => "not run",
        Event::Preempted { .. } => "preempted",
        Event::Failed { .. } => "failed",
        Event::Loaded { .. } => "loaded",
        Event::ClientGone { .. } => "client gone",
        Event::Tick => "tick",
        Event::Drain => "drain",
        Event::Shed { .. } => "shed",
        Event::Burst { .. } => "burst",
        Event::Starved { .. } => "starved",
        Event::Readiness(_) => "readiness",
    }
}

/// Of a run: the task of its first member, and the stage. Work without a guarantee says so.
pub(crate) fn run(run: &Run, names: &Names) -> String {
    let mut members = run.members.iter();
    let frame = members.find_map(|member| member.frame);
    let whose = match frame {
        Some(frame) => names.task(frame.task),
        None => names.model(run.model),
    };
    let stage = run.stage.0;
    match run.criticality {
        Criticality::RealTime => format!("{whose} stage {stage}"),
        Criticality::BestEffort => format!("{whose} stage {stage}, best effort"),
    }
}

/// A frame's client and number, where its task is clear.
pub(crate) fn frame(frame: FrameId) -> String {
    format!("{}/{}", frame.ticket.client.0, frame.ticket.sequence)
}

/// A frame in a line.
pub(crate) fn story(frame: &Frame, names: &Names) -> String {
    let mut story = format!(
        "{} {}",
        names.frame(frame.submission.id),
        verdict(frame.reply.verdict)
    );
    if let Some((exit, answer)) = frame.reply.answer {
        let confidence = answer.confidence.as_probability();
        story += &format!(", exit {}, confidence {confidence:.2}", exit.0);
    }
    if let Some(latency) = frame.latency() {
        story += &format!(", {:.3} ms after its capture", ms(latency));
    }
    if let Some(due) = frame.due() {
        let deadline = due.since(frame.reply.captured);
        story += &format!(", deadline {:.3} ms", ms(deadline));
    }
    story
}

pub(crate) const fn outcome(run: &Run) -> &'static str {
    match run.end {
        None => "end not recorded",
        Some(end) => match end.outcome {
            Outcome::Finished { .. } => "finished",
            Outcome::NotRun => "not run: its window was over",
            Outcome::Preempted => "preempted",
            Outcome::Failed => "failed",
        },
    }
}

/// None of those that are of no interest to people.
pub(crate) fn note(note: &Note, names: &Names) -> Option<String> {
    Some(match note.what {
        What::Segment { .. } => return None,
        What::Lost { steps } => format!("{steps} steps are lost"),
        What::Unloaded { model } => format!("{} unloaded", names.model(model)),
        What::Demoted(Demotion {
            model, partition, ..
        }) => format!(
            "{} demoted on {}",
            names.model(model),
            names.partition(partition)
        ),
        What::Reinstated { partition, model } => {
            format!(
                "{} reinstated on {}",
                names.model(model),
                names.partition(partition)
            )
        }
        What::Preempted { partition, .. } => format!("preempts {}", names.partition(partition)),
        What::Starved { partition, starved } => {
            let runs = if starved {
                "does not run"
            } else {
                "runs again"
            };
            format!("{} {runs}", names.partition(partition))
        }
        What::Shed { hold } => {
            let sheds = if hold { "sheds" } else { "no longer sheds" };
            format!("{sheds} best-effort work")
        }
        What::Ready(said) => {
            let model = names.model(said.model);
            match (said.stages, said.as_measured) {
                (0, _) => format!("{model} is not loaded yet"),
                (stages, true) => format!("{stages} stages of {model} are loaded"),
                (stages, false) => {
                    format!("{stages} stages of {model} are loaded, not as they were measured")
                }
            }
        }
        What::ClientGone { client } => format!("client {} is gone", client.0),
        What::Drain => "drains".to_owned(),
    })
}

pub(crate) fn ms(span: Nanos) -> f64 {
    span.as_nanos() as f64 / 1e6
}
