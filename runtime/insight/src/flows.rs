//! Which frames a step is about, for the arrows that join all that happens to a frame.

use std::collections::BTreeMap;

use punctual_core::{Action, ActionId, ClientId, Event, RequestId, Ticket};
use punctual_recording::Step;
use punctual_recording::frames::Follower;

/// A ticket, to look a frame up by. The order means nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FrameKey {
    client: ClientId,
    sequence: u64,
    slot: u16,
    part: u8,
}

impl From<Ticket> for FrameKey {
    fn from(ticket: Ticket) -> Self {
        let Ticket {
            client,
            slot,
            part,
            sequence,
        } = ticket;
        Self {
            client,
            sequence,
            slot,
            part,
        }
    }
}

/// The flow of each frame that is not over.
#[derive(Debug, Default)]
pub(crate) struct Flows {
    of: BTreeMap<FrameKey, u64>,
    /// By buffer: there are at most as many as numbers of 16 bits.
    requests: BTreeMap<u16, Holder>,
    last: u64,
}

/// A request and its frame.
#[derive(Clone, Copy, Debug)]
struct Holder {
    request: RequestId,
    ticket: Ticket,
}

/// Only a damaged recording has more frames at once. Those beyond it have no arrows.
const OPEN_MAX: usize = 1 << 16;

impl Flows {
    /// The flows that go through a step. `follower` has not taken it in yet.
    pub(crate) fn of_step(&mut self, step: &Step, follower: &Follower) -> Vec<u64> {
        let mut tickets = self.of_event(&step.event, follower);
        for action in &step.actions {
            match action {
                Action::Prepare {
                    request, ticket, ..
                } => {
                    let (request, ticket) = (*request, *ticket);
                    let holder = Holder { request, ticket };
                    self.requests.insert(request.buffer, holder);
                    tickets.push(ticket);
                }
                Action::Infer(infer) => {
                    let members = infer.members.iter();
                    tickets.extend(members.filter_map(|member| self.ticket(*member)));
                }
                Action::Deliver(reply) | Action::Reply(reply) => tickets.push(reply.ticket),
                Action::Load { .. }
                | Action::Unload { .. }
                | Action::Demote(_)
                | Action::Reinstate { .. }
                | Action::Preempt { .. } => {}
            }
        }
        let mut flows: Vec<u64> = tickets.into_iter().filter_map(|t| self.of(t)).collect();
        flows.sort_unstable();
        flows.dedup();
        flows
    }

    /// The flow of a frame that is not over.
    pub(crate) fn of(&self, ticket: Ticket) -> Option<u64> {
        self.of.get(&ticket.into()).copied()
    }

    /// All that happened to a frame is drawn.
    pub(crate) fn end(&mut self, ticket: Ticket) {
        self.of.remove(&ticket.into());
    }

    fn of_event(&mut self, event: &Event, follower: &Follower) -> Vec<Ticket> {
        match event {
            Event::Arrived(arrival) => {
                if self.of.len() < OPEN_MAX {
                    self.last += 1;
                    self.of.insert(arrival.ticket.into(), self.last);
                }
                vec![arrival.ticket]
            }
            Event::Prepared { request, .. } => self.ticket(*request).into_iter().collect(),
            Event::Finished(finished) => members(finished.action, follower),
            Event::NotRun { action } | Event::Preempted { action } | Event::Failed { action } => {
                members(*action, follower)
            }
            Event::Loaded { .. }
            | Event::ClientGone { .. }
            | Event::Tick
            | Event::Drain
            | Event::Shed { .. }
            | Event::Burst { .. }
            | Event::Starved { .. }
            | Event::Readiness(_) => Vec::new(),
        }
    }

    fn ticket(&self, request: RequestId) -> Option<Ticket> {
        let holder = self.requests.get(&request.buffer)?;
        (holder.request == request).then_some(holder.ticket)
    }
}

fn members(action: ActionId, follower: &Follower) -> Vec<Ticket> {
    let run = follower.running().find(|run| run.action == action);
    let members = run.into_iter().flat_map(|run| &run.members);
    members
        .filter_map(|member| Some(member.frame?.ticket))
        .collect()
}
