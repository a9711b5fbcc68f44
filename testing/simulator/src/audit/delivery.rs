//! Frames that make way: to newer ones of the same client, or all best-effort work to what matters.

use punctual_core::ModelId;

use super::auditor::{Auditor, Subject};
use super::claims::is_real_time;
use super::request_log::{Key, Place, Submission};
use super::violation::Violation;

impl Auditor {
    /// Records that a submission was refused because a newer one is there. Whether there is one is seen
    /// when all orders of the step are known.
    pub(super) fn make_way(&mut self, key: Key, older: Submission) {
        let waits_for_intake = self.subject == Subject::Prepared(key);
        let there = |newer: &Submission| {
            let of_client = newer.origin == older.origin && newer.order > older.order;
            of_client && !matches!(newer.place, Place::Arriving | Place::Preparing)
        };
        let mut open = self.log.open.iter().filter(|(k, _)| k.0 == key.0);
        let newest = self.taken_on.get(&(key.0, older.origin.0));
        let known = newest.is_some_and(|order| *order > older.order);
        if waits_for_intake && known {
            return;
        }
        if !waits_for_intake && open.any(|(_, newer)| there(newer)) {
            self.made_way.push((key, older));
            return;
        }
        let (task, sequence) = (older.origin, key.2);
        self.found(Violation::SupersededByNobody { task, sequence });
    }

    /// At the end of the step in which a submission was prepared: it takes over what was promised to
    /// those that made way, unless it was refused itself.
    pub(super) fn take_places(&mut self, key: Key) {
        let Some(newer) = self.log.open.get_mut(&key) else {
            return;
        };
        let name = (key.0, newer.origin.0);
        let newest = self.taken_on.entry(name).or_insert(newer.order);
        *newest = (*newest).max(newer.order);
        let fits = |(whose, older): &(Key, Submission)| {
            whose.0 == key.0 && older.origin == newer.origin && older.order < newer.order
        };
        for (_, older) in self.made_way.extract_if(.., |made| fits(made)) {
            let own = older.promised_in.map(|epoch| (older.deadline, epoch));
            let places = [newer.inherited, older.inherited, own];
            newer.inherited = places.into_iter().flatten().min();
        }
    }

    /// The same for all that waited for a model's weights, oldest first; some may run already.
    pub(super) fn take_places_of(&mut self, model: ModelId) {
        let waited = |s: &Submission| {
            let there = matches!(s.place, Place::Waiting | Place::Running(_));
            there && s.next_stage == 0 && self.task(s.task).model == model
        };
        let open = self.log.open.iter().filter(|(_, s)| waited(s));
        let mut keys: Vec<(u64, Key)> = open.map(|(key, s)| (s.order, *key)).collect();
        keys.sort_unstable();
        for (_, key) in keys {
            self.take_places(key);
        }
    }

    /// What the policy that promises anything may have running while best-effort work is given up.
    pub(super) fn check_shedding(&mut self) {
        if !self.shedding || !self.punctual {
            return;
        }
        let flights = self.floor.flights.values();
        let mut running = flights.filter(|flight| {
            flight.is_best_effort() && flight.told.is_none() && flight.lost_from() > self.now
        });
        if let Some(action) = running.next().map(|flight| flight.infer.id) {
            self.found(Violation::NotShed { action });
        }
        let best_effort = |s: &&Submission| !is_real_time(self.task(s.task));
        let mut open = self.log.open.values().filter(best_effort);
        let waits = open.find(|s| s.place == Place::Waiting);
        if let Some((task, request)) = waits.and_then(|s| Some((s.task, s.request?))) {
            self.found(Violation::NotGivenUp { task, request });
        }
    }
}
