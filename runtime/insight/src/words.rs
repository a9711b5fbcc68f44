//! The words for verdicts and reasons that reports share.

use punctual_core::{Criticality, Event, Failure, Nanos, Rejection, Verdict};
use punctual_recording::Names;
use punctual_recording::frames::{Frame, Run};

pub(crate) const fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::OnTime => "on time",
        Verdict::Late => "late",
        Verdict::Rejected(reason) => match reason {
            Rejection::LateOnArrival => "rejected: late on arrival",
            Rejection::NoSlack => "rejected: no slack",
            Rejection::QueueFull => "rejected: queue full",
            Rejection::Draining => "rejected: draining",
            Rejection::Superseded => "rejected: superseded",
            Rejection::Shedding => "rejected: shedding",
        },
        Verdict::Failed(reason) => match reason {
            Failure::Device => "failed: device",
            Failure::Payload => "failed: payload",
            Failure::ClientGone => "failed: client gone",
            Failure::Shed => "failed: shed",
            Failure::NotFinite => "failed: not finite",
            Failure::Vector => "failed: vector",
            Failure::Starved => "failed: starved",
        },
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
        Event::Starved { .. } => "starved",
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

/// A frame as people call it: its client and its number.
pub(crate) fn frame(frame: &Frame) -> String {
    let ticket = frame.submission.id.ticket;
    format!("{}/{}", ticket.client.0, ticket.sequence)
}

pub(crate) fn ms(span: Nanos) -> f64 {
    span.as_nanos() as f64 / 1e6
}
