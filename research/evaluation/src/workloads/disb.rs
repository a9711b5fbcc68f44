//! DISB, the benchmark of REEF (section 7.1): its five workloads and the trace of a car, from its
//! authors' own files (<https://github.com/SJTU-IPADS/disb>, copyright SJTU-IPADS, under the
//! Apache License, Version 2.0; see `disb/NOTICE`).
//!
//! Workload B differs between the two sources: in the file, the real-time client asks again as
//! soon as it is answered (`disb-b`); in the paper, it asks 220 times a second whatever happens
//! (`disb-b-open`). How the files are read, and what of DISB's launcher is not reproduced:
//! [`crate::disb`].

use punctual_core::Nanos;

use super::Workload;
use crate::disb;
use punctual_simulator::arrivals::Pattern;
use punctual_simulator::scenario::Scenario;

pub(super) const WORKLOADS: &[Workload] = &[
    Workload {
        name: "disb-a",
        about: "DISB A: VGG-19 at 100 requests/s beside one closed-loop best-effort client",
        build: || read("A.json", include_str!("disb/A.json")),
    },
    Workload {
        name: "disb-b",
        about: "DISB B as in its file: VGG-19 in a closed loop beside one best-effort client",
        build: || read("B.json", include_str!("disb/B.json")),
    },
    Workload {
        name: "disb-b-open",
        about: "DISB B as in the paper: VGG-19 at 220 requests/s, open loop",
        build: b_open,
    },
    Workload {
        name: "disb-c",
        about: "DISB C: VGG-19 at 100 requests/s beside five best-effort clients",
        build: || read("C.json", include_str!("disb/C.json")),
    },
    Workload {
        name: "disb-d",
        about: "DISB D: five networks at 20 requests/s each beside five best-effort clients",
        build: || read("D.json", include_str!("disb/D.json")),
    },
    Workload {
        name: "disb-e",
        about: "DISB E: as D, with Poisson arrivals",
        build: || read("E.json", include_str!("disb/E.json")),
    },
    Workload {
        name: "disb-real",
        about: "DISB REAL: a trace of an autonomous car (Apollo) beside five best-effort clients",
        build: || read("REAL.json", include_str!("disb/REAL.json")),
    },
];

fn read(file: &str, json: &str) -> Scenario {
    disb::parse(file, json).unwrap_or_else(|error| panic!("the committed {error}"))
}

fn b_open() -> Scenario {
    let mut scenario = read("B.json", include_str!("disb/B.json"));
    scenario.tasks[0].pattern = Pattern::Periodic {
        rate_hz: 220.0,
        phase: Nanos::ZERO,
        jitter: Nanos::ZERO,
    };
    scenario
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_clients_are_those_of_the_papers_table_2() {
        let counts = |name| {
            let scenario = super::super::by_name(name).expect("built in");
            let real_time = |task: &&punctual_simulator::scenario::Task| {
                task.config.criticality == punctual_core::Criticality::RealTime
            };
            let count = scenario.tasks.iter().filter(real_time).count();
            (count, scenario.tasks.len() - count)
        };
        assert_eq!(counts("disb-a"), (1, 1));
        assert_eq!(counts("disb-b"), (1, 1));
        assert_eq!(counts("disb-b-open"), (1, 1));
        assert_eq!(counts("disb-c"), (1, 5));
        assert_eq!(counts("disb-d"), (5, 5));
        assert_eq!(counts("disb-e"), (5, 5));
        assert_eq!(counts("disb-real"), (5, 5));
    }
}
