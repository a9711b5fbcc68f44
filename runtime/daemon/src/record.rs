//! Verdicts in the channel's words.

use punctual_core::{Failure, Instant, Rejection, StageId, Verdict};
use punctual_ipc::{Answer, ResultRecord};

use crate::describe::ExitFacts;
use crate::messages::{Answered, Refusal, Refused};

/// Of a verdict (`is_final`) or an answer before it. `exits` are those of the task, by stage.
pub fn of_answered(
    answered: &Answered,
    is_final: bool,
    exits: &[ExitFacts],
    sent_ns: u64,
) -> ResultRecord {
    let reply = &answered.reply;
    let answer = |(exit, answer): (StageId, punctual_core::Answer)| {
        let facts = exits[exit.index()];
        Answer {
            exit: exit.0,
            class: facts.has_class.then_some(answer.class),
            confidence: facts.has_confidence.then_some(answer.confidence.0),
            outputs: answered.outputs,
            not_finite: answered.not_finite,
        }
    };
    ResultRecord {
        sequence: reply.ticket.sequence,
        slot: reply.ticket.slot,
        verdict: verdict(reply.verdict),
        answer: reply.answer.map(answer),
        part: answered.part,
        left_out: answered.left_out,
        captured_ns: reply.captured.as_nanos(),
        deadline_ns: reply.deadline.as_nanos(),
        finished_ns: reply.delivered.map_or(sent_ns, Instant::as_nanos),
        sent_ns,
        is_final,
    }
}

pub fn of_refusal(refusal: &Refusal, finished_ns: u64) -> ResultRecord {
    ResultRecord {
        sequence: refusal.ticket.sequence,
        slot: refusal.ticket.slot,
        verdict: punctual_ipc::Verdict::Rejected(match refusal.reason {
            Refused::CaptureInFuture => punctual_ipc::Rejection::CapturedInFuture,
            Refused::Draining => punctual_ipc::Rejection::Draining,
            Refused::Quota => punctual_ipc::Rejection::Quota,
            Refused::NoArea => punctual_ipc::Rejection::NoArea,
        }),
        answer: None,
        part: refusal.part,
        left_out: 0,
        captured_ns: refusal.captured_ns,
        deadline_ns: refusal.deadline_ns,
        finished_ns,
        sent_ns: finished_ns,
        is_final: refusal.part.is_none(),
    }
}

fn verdict(verdict: Verdict) -> punctual_ipc::Verdict {
    match verdict {
        Verdict::OnTime => punctual_ipc::Verdict::OnTime,
        Verdict::Late => punctual_ipc::Verdict::Late,
        Verdict::Rejected(reason) => punctual_ipc::Verdict::Rejected(match reason {
            Rejection::LateOnArrival => punctual_ipc::Rejection::LateOnArrival,
            Rejection::NoSlack => punctual_ipc::Rejection::NoSlack,
            Rejection::QueueFull => punctual_ipc::Rejection::QueueFull,
            Rejection::Draining => punctual_ipc::Rejection::Draining,
            Rejection::Superseded => punctual_ipc::Rejection::Superseded,
            Rejection::Shedding => punctual_ipc::Rejection::Shedding,
            Rejection::NotReady => punctual_ipc::Rejection::NotReady,
        }),
        Verdict::Failed(reason) => punctual_ipc::Verdict::Failed(match reason {
            Failure::Device => punctual_ipc::Failure::Device,
            Failure::Starved => punctual_ipc::Failure::Starved,
            Failure::Payload => punctual_ipc::Failure::Payload,
            Failure::ClientGone => punctual_ipc::Failure::ClientGone,
            Failure::Shed => punctual_ipc::Failure::Shed,
            Failure::NotFinite => punctual_ipc::Failure::NotFinite,
            Failure::Vector => punctual_ipc::Failure::Vector,
        }),
    }
}
