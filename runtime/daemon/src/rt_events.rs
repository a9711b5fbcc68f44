//! What real-time threads have to say: an event into a ring, said in words by housekeeping.

use std::sync::atomic::{AtomicBool, Ordering};

use log::Level;
use punctual_core::ClientId;
use punctual_events::{Declaration, Declared, RtEvent};
use punctual_ipc::ChannelFault;
use punctual_platform::rt_log::{Record, RtLog};

use crate::metrics::{Metrics, count};

/// Room between two looks of housekeeping (100 ms apart): faults cost a client its connection, so
/// there are few; failed actions come at the rate of stages at worst.
static LOG: RtLog<RtEvent, 1024> = RtLog::new();

/// Whether details are wanted. Relaxed: it orders nothing.
static DETAILED: AtomicBool = AtomicBool::new(false);

/// Leaves it to housekeeping to say; dropped and counted if that cannot keep up, and dropped if it is a detail that
/// is not wanted. Never blocks.
pub fn emit(event: RtEvent) {
    if !is_detail(event.declaration()) || DETAILED.load(Ordering::Relaxed) {
        LOG.write(event);
    }
}

fn is_detail(declaration: &Declaration) -> bool {
    declaration.level >= Level::Debug
}

/// Details come from now on if the log's levels want any, or a recorder does.
pub fn look_at_levels() {
    let mut details = RtEvent::DECLARATIONS
        .iter()
        .filter(|event| is_detail(event));
    DETAILED.store(details.any(Declaration::is_wanted), Ordering::Relaxed);
}

/// Counts and tells what a client did to its channel; that it went away is no fault.
pub fn client_fault(metrics: &Metrics, client: ClientId, fault: ChannelFault) {
    if fault.is_violation() {
        count(&metrics.channel_faults);
        let fault = fault.name();
        emit(RtEvent::ClientFault { client, fault });
    }
}

/// Takes the oldest event out. Housekeeping only.
pub fn take() -> Option<Record<RtEvent>> {
    LOG.take()
}

pub fn dropped() -> u64 {
    LOG.dropped()
}

#[cfg(test)]
mod tests {
    use punctual_core::{ActionId, ModelId};

    use super::*;

    #[test]
    fn what_real_time_threads_note_comes_out_in_order_and_details_only_if_they_are_wanted() {
        let model = ModelId(40);
        let events = [7, 8].map(|action| {
            let action = ActionId(action);
            RtEvent::LoadFailed { model, action }
        });
        let detail = RtEvent::WeightsEvicted { model };
        emit(events[0]);
        emit(detail);
        emit(events[1]);
        // Other tests of this process may emit events of their own meanwhile.
        let taken = std::iter::from_fn(take).map(|record| record.value);
        let ours = taken.filter(|event| events.contains(event) || *event == detail);
        assert_eq!(ours.collect::<Vec<_>>(), events);
    }
}
