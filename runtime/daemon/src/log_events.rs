//! What lines of the log tell of, for programs that read the journal. An id is for ever: it is what
//! others search for (`systemd/catalog` explains them).

use punctual_platform::logging::Event;

/// Clients may come.
pub const STARTED: Event = Event {
    name: "started",
    message_id: "903dce8004174b71a0ea92518f93e667",
};

pub const NOT_STARTED: Event = Event {
    name: "not-started",
    message_id: "2f35a347eb124ffa8cdc15df8fd53444",
};

/// The configuration cannot be served; the last good one is.
pub const CONFIGURATION_REFUSED: Event = Event {
    name: "configuration-refused",
    message_id: "4b0f6d2c8a7e4f19b5d3c1e09a62f784",
};

/// It answers what it accepted, and ends.
pub const STOPPING: Event = Event {
    name: "stopping",
    message_id: "146c6094993043e4bf831d03d3d6f18a",
};

pub const STOPPED: Event = Event {
    name: "stopped",
    message_id: "14c2dbf764294204903e6aaea931c546",
};

/// A real-time thread no longer moves.
pub const STUCK: Event = Event {
    name: "stuck",
    message_id: "009aeaad361d464f90ec5a68f43e5e6d",
};

/// The process can no longer use its GPU.
pub const GPU_LOST: Event = Event {
    name: "gpu-lost",
    message_id: "5d7c0b3e0a9f4d0c8b1f6a2e94c7d3b8",
};

/// A model lost its promises, or got them back.
pub const DEMOTED: Event = Event {
    name: "demoted",
    message_id: "1d1b49d13c3948918eff78e1bf9d8492",
};

/// A client broke the protocol and was disconnected.
pub const CLIENT_FAULT: Event = Event {
    name: "client-fault",
    message_id: "edb91d82256c4ddea11fbe2ed991ed05",
};

pub const ALL: [Event; 9] = [
    STARTED,
    NOT_STARTED,
    CONFIGURATION_REFUSED,
    STOPPING,
    STOPPED,
    STUCK,
    GPU_LOST,
    DEMOTED,
    CLIENT_FAULT,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_has_an_id_of_its_own() {
        for event in ALL {
            assert_eq!(event.message_id.len(), 32);
            let same =
                |other: &&Event| other.message_id == event.message_id || other.name == event.name;
            assert_eq!(ALL.iter().filter(same).count(), 1, "{event:?}");
        }
    }

    #[test]
    fn the_catalog_explains_every_event() {
        let catalog = include_str!("../../../systemd/catalog/punctual.catalog");
        let explained = catalog.lines().filter_map(|line| line.strip_prefix("-- "));
        let mut explained: Vec<&str> = explained.collect();
        let mut known = ALL.map(|event| event.message_id);
        explained.sort_unstable();
        known.sort_unstable();
        assert_eq!(explained, known);
    }
}
