//! Who is compared.

/// One row of the tables.
#[derive(Debug)]
pub struct Contestant {
    /// What `--only` calls it.
    pub name: &'static str,
    /// What the tables call it.
    pub title: &'static str,
    pub kind: Kind,
}

#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// The daemon with the demo's manifest, of which each of these texts is replaced by its partner.
    Daemon {
        changes: &'static [Change],
    },
    Loop(Rules),
}

/// Something else in the manifest.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    pub from: &'static str,
    pub to: &'static str,
}

/// What a loop around ONNX Runtime does with the frames of its cameras.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    pub threads: Threads,
    pub order: Order,
    pub depth: Depth,
    /// Whether a frame that cannot be on time by the measured times is dropped.
    pub drops: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// One for all cameras.
    One,
    /// One a camera; the shorter its deadline, the higher its priority. That of best effort is ordinary.
    EachCamera,
}

/// Which frame is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The first that came.
    Fifo,
    /// The one with the earliest deadline; frames without an answer come before those that could have a deeper one, and best
    /// effort comes last.
    Edf,
}

/// How deep a network is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// As one session, to this exit.
    Exit(usize),
    /// As one session for each stage, until the confidence is the manifest's threshold or time does not allow another one.
    Adaptive,
}

/// The last exit of both networks.
const FULL: Depth = Depth::Exit(2);

const fn edf(depth: Depth) -> Kind {
    Kind::Loop(Rules {
        threads: Threads::One,
        order: Order::Edf,
        depth,
        drops: true,
    })
}

const fn fifo(threads: Threads) -> Kind {
    Kind::Loop(Rules {
        threads,
        order: Order::Fifo,
        depth: FULL,
        drops: false,
    })
}

const fn contestant(name: &'static str, title: &'static str, kind: Kind) -> Contestant {
    Contestant { name, title, kind }
}

/// Verdicts alone, at the last moment.
const ONE_ANSWER: &[Change] = &[Change {
    from: "\ncriticality = ",
    to: "\nanswers = \"final\"\ncriticality = ",
}];

pub const CONTESTANTS: &[Contestant] = &[
    contestant("punctual", "Punctual", Kind::Daemon { changes: &[] }),
    contestant(
        "punctual-final",
        "Punctual, one answer a frame",
        Kind::Daemon {
            changes: ONE_ANSWER,
        },
    ),
    contestant("fifo", "FIFO queue, full depth", fifo(Threads::One)),
    contestant(
        "rate-monotonic",
        "a thread a camera, rate-monotonic, full depth",
        fifo(Threads::EachCamera),
    ),
    contestant("edf-full", "EDF, full depth, drops", edf(FULL)),
    contestant("edf-second", "EDF, second exit, drops", edf(Depth::Exit(1))),
    contestant("edf-first", "EDF, first exit, drops", edf(Depth::Exit(0))),
    contestant(
        "adaptive",
        "EDF, adaptive depth, drops",
        edf(Depth::Adaptive),
    ),
];

impl Contestant {
    pub fn named(name: &str) -> Option<&'static Self> {
        CONTESTANTS
            .iter()
            .find(|contestant| contestant.name == name)
    }
}
