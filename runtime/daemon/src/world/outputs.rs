//! Which area the outputs of each request go to, from its arrival to its verdict.

use std::sync::Arc;

use punctual_core::{Reply, RequestId, TaskId, Ticket};
use punctual_device::regions::ClaimedRegions;
use punctual_ipc::{HandedOver, OutputAreas};
use punctual_platform::areas::Area;

/// What must be known about a task whose clients get outputs.
pub struct TaskOutputs {
    /// The request buffers of its model's device.
    pub regions: Arc<ClaimedRegions>,
    /// By stage: which part of an area its exit's outputs are in; none if its clients get nothing of that exit.
    pub parts: Box<[Option<u8>]>,
}

/// The areas that lie in request buffers. Never blocks, never allocates.
pub struct LentAreas {
    /// By task.
    tasks: Box<[Option<TaskOutputs>]>,
    /// By request buffer.
    lent: Box<[Option<Lent>]>,
    /// How many of them have had their verdict: a stage still ran then.
    leaving: usize,
}

/// An area in a request buffer.
#[derive(Clone, Copy, Debug)]
struct Lent {
    ticket: Ticket,
    area: u16,
    /// Whose model's device the buffer is of.
    task: TaskId,
    /// With an answer before the verdict: then the area is the client's, and the verdict's answer is in it.
    handed: Option<HandedOver>,
    /// Its request has had its verdict.
    over: bool,
}

/// An area that is back.
pub struct Returned {
    /// Whose outputs are in it.
    pub ticket: Ticket,
    pub area: u16,
    pub memory: Area,
}

/// The outputs of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivered {
    pub handed: HandedOver,
    pub not_finite: bool,
}

/// The areas of one client, and those that wait for their requests' buffers.
pub struct ClientAreas {
    pub areas: OutputAreas,
    /// By slot, for its frame and the crops of that: the area, until the preparation is ordered or it is rejected.
    waiting: Box<[Option<Waiting>]>,
    a_slot: usize,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    sequence: u64,
    area: u16,
}

/// Room for [`ClientAreas`] before a client comes.
pub struct Places {
    waiting: Box<[Option<Waiting>]>,
    a_slot: usize,
}

impl Places {
    /// For these slots, whose frames have at most this number of crops.
    pub fn new(slots: u16, parts: u8) -> Self {
        let a_slot = 1 + usize::from(parts);
        Self {
            waiting: vec![None; usize::from(slots) * a_slot].into(),
            a_slot,
        }
    }

    pub fn take(&mut self, areas: OutputAreas) -> ClientAreas {
        ClientAreas {
            areas,
            waiting: std::mem::take(&mut self.waiting),
            a_slot: self.a_slot,
        }
    }

    /// Takes the room back; the areas.
    pub fn clear(&mut self, of: ClientAreas) -> OutputAreas {
        self.waiting = of.waiting;
        self.waiting.fill(None);
        of.areas
    }
}

impl ClientAreas {
    /// Takes an area for a submission; false if none is free.
    pub fn reserve(&mut self, ticket: &Ticket) -> bool {
        let Some(area) = self.areas.reserve() else {
            return false;
        };
        let sequence = ticket.sequence;
        let waiting = Waiting { sequence, area };
        let place = self.place(ticket);
        self.waiting[place] = Some(waiting);
        true
    }

    fn place(&self, ticket: &Ticket) -> usize {
        usize::from(ticket.slot) * self.a_slot + usize::from(ticket.part)
    }

    /// The area of a submission that waits for its preparation.
    fn waiting(&mut self, ticket: &Ticket) -> Option<u16> {
        let place = self.place(ticket);
        let waiting = self.waiting.get_mut(place)?;
        let waiting = waiting.take_if(|waiting| waiting.sequence == ticket.sequence)?;
        Some(waiting.area)
    }
}

impl LentAreas {
    pub fn new(tasks: Vec<Option<TaskOutputs>>, request_buffers: u16) -> Self {
        Self {
            tasks: tasks.into(),
            lent: vec![None; usize::from(request_buffers)].into(),
            leaving: 0,
        }
    }

    /// Puts the area of a submission into its request's buffer, before anything is written there.
    pub fn lend(
        &mut self,
        request: RequestId,
        task: TaskId,
        ticket: &Ticket,
        client: &mut ClientAreas,
    ) {
        let Some(area) = client.waiting(ticket) else {
            return;
        };
        let buffer = usize::from(request.buffer);
        let outputs = self.tasks.get(task.index()).and_then(Option::as_ref);
        // The buffer is free and the area reserved; otherwise the answer comes without outputs.
        let claim = outputs.and_then(|outputs| outputs.regions.claim(buffer));
        let free = self.lent.get(buffer).is_some_and(Option::is_none);
        let claim = claim.filter(|_| free);
        let Some((mut claim, memory)) = claim.and_then(|c| Some((c, client.areas.lend(area)?)))
        else {
            return client.areas.cancel(area);
        };
        claim.replace_area(Some(memory));
        self.lent[buffer] = Some(Lent {
            ticket: *ticket,
            area,
            task,
            handed: None,
            over: false,
        });
    }

    /// Whether answers of a task have outputs.
    pub fn has_outputs(&self, task: TaskId) -> bool {
        self.tasks.get(task.index()).is_some_and(Option::is_some)
    }

    /// The outputs that go with a verdict, for a client that is there to read them. The area of a submission that has none is
    /// free again.
    pub fn conclude(
        &mut self,
        reply: &Reply,
        is_gone: bool,
        client: &mut ClientAreas,
    ) -> Option<Delivered> {
        if let Some(area) = client.waiting(&reply.ticket) {
            client.areas.cancel(area);
            return None;
        }
        let buffer = usize::from(reply.request?.buffer);
        let lent = self.lent.get_mut(buffer)?.as_mut()?;
        if lent.over || lent.ticket != reply.ticket {
            return None;
        }
        lent.over = true;
        self.leaving += 1;
        let (area, is_handed) = (lent.area, lent.handed.is_some());
        let delivered = (!is_gone).then(|| self.hand_over(reply, client)).flatten();
        if delivered.is_none() && !is_handed {
            client.areas.cancel(area);
        }
        delivered
    }

    /// The outputs that go with an answer, in the area that is the client's from its first answer on.
    pub fn hand_over(&mut self, reply: &Reply, client: &mut ClientAreas) -> Option<Delivered> {
        let buffer = usize::from(reply.request?.buffer);
        let lent = self.lent.get_mut(buffer)?.as_mut()?;
        if lent.ticket != reply.ticket {
            return None;
        }
        let outputs = self.tasks[lent.task.index()].as_ref()?;
        let (exit, _) = reply.answer?;
        let part = (*outputs.parts.get(exit.index())?)?;
        let areas = &mut client.areas;
        Some(Delivered {
            handed: *lent
                .handed
                .get_or_insert_with(|| areas.hand_over(lent.area)),
            not_finite: outputs.regions.not_finite(buffer, part) > 0,
        })
    }

    /// Looks at the area of a request that has had its verdict. Not if a stage still uses it, or if another task answered.
    pub fn look(&self, reply: &Reply, look: impl FnOnce(&[u8])) {
        let lent = |buffer: usize| self.lent.get(buffer)?.as_ref();
        let Some(buffer) = reply.request.map(|request| usize::from(request.buffer)) else {
            return;
        };
        let own = |lent: &&Lent| (lent.ticket, lent.task) == (reply.ticket, reply.task);
        let lent = lent(buffer).filter(own);
        let outputs = lent.and_then(|lent| self.tasks[lent.task.index()].as_ref());
        let claim = outputs.and_then(|outputs| outputs.regions.claim(buffer));
        if let Some(mut claim) = claim
            && let Some(area) = claim.area()
        {
            look(area.as_slice());
        }
    }

    /// An area whose request is over and that no stage writes to any more. To be called until there is none, whenever a stage may
    /// have ended.
    pub fn returned(&mut self) -> Option<Returned> {
        if self.leaving == 0 {
            return None;
        }
        for (buffer, place) in self.lent.iter_mut().enumerate() {
            let Some(lent) = place.filter(|lent| lent.over) else {
                continue;
            };
            let outputs = self.tasks[lent.task.index()].as_ref();
            let claim = outputs.and_then(|outputs| outputs.regions.claim(buffer));
            if let Some(memory) = claim.and_then(|mut claim| claim.replace_area(None)) {
                *place = None;
                self.leaving -= 1;
                return Some(Returned {
                    ticket: lent.ticket,
                    area: lent.area,
                    memory,
                });
            }
        }
        None
    }
}
