//! Which bytes of a launch come from memory, which are in the second-level cache, and which cross the way to the host.
//!
//! A stage is taken to run over and over, as measurements do it. The cache keeps what was touched last, whole tensors
//! at a time, and knows nothing of its sets: an assumption that favours networks that just fit.

use std::collections::BTreeMap;

use punctual_device_cuda::lower::{LaunchList, Place, Step};

/// Bytes that a launch moves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// From and to device memory: what the cache does not have.
    pub memory: u64,
    /// From and to memory of the host: inputs, outputs, answers.
    pub host: u64,
    /// Found in the cache.
    pub cached: u64,
}

/// Of each launch of a list, with a cache of `capacity` bytes.
pub(super) fn moved(list: &LaunchList, capacity: u64) -> Vec<Moved> {
    let touched: Vec<_> = list.steps.iter().map(Step::touched).collect();
    let mut cache = Cache {
        capacity,
        kept: Vec::new(),
    };
    let mut run = || -> Vec<Moved> { touched.iter().map(|all| cache.launch(all)).collect() };
    run();
    run()
}

/// Different bytes of device memory that a list touches: no run of it can do with fewer, less those that a cache kept.
pub(super) fn different(list: &LaunchList) -> u64 {
    let mut places = BTreeMap::new();
    for (place, bytes) in list.steps.iter().flat_map(Step::touched) {
        if matches!(place, Place::Weights { .. } | Place::Request { .. }) {
            let most: &mut u64 = places.entry(place.encode()).or_default();
            *most = bytes.max(*most);
        }
    }
    // Buffers of the workspace may lie on others.
    list.workspace_bytes + places.values().sum::<u64>()
}

/// What was touched, the last at the end: memory, whichever tensors it holds.
struct Cache {
    capacity: u64,
    /// Encoded places, and bytes.
    kept: Vec<(u64, u64)>,
}

impl Cache {
    fn launch(&mut self, touched: &[(Place, u64)]) -> Moved {
        let mut moved = Moved::default();
        for &(place, bytes) in touched {
            let to = match place {
                Place::Input { .. } | Place::Outputs { .. } | Place::Answers | Place::Done => {
                    &mut moved.host
                }
                _ if self.has(place, bytes) => &mut moved.cached,
                _ => &mut moved.memory,
            };
            *to += bytes;
        }
        moved
    }

    /// Whether the bytes are there; they are afterwards.
    fn has(&mut self, place: Place, bytes: u64) -> bool {
        let place = place.encode();
        let at = self.kept.iter().position(|&(kept, _)| kept == place);
        let since = |at: usize| self.kept[at..].iter().map(|&(_, bytes)| bytes).sum::<u64>();
        let has = at.is_some_and(|at| since(at) <= self.capacity);
        if let Some(at) = at {
            self.kept.remove(at);
        }
        self.kept.push((place, bytes));
        has
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(capacity: u64) -> Cache {
        Cache {
            capacity,
            kept: Vec::new(),
        }
    }

    const A: Place = Place::Workspace { offset: 0 };
    const B: Place = Place::Workspace { offset: 256 };
    const C: Place = Place::Weights { page: 0, offset: 0 };

    #[test]
    fn what_was_touched_before_less_than_the_cache_holds_is_still_there() {
        let mut cache = cache(30);
        assert!(!cache.has(A, 10));
        assert!(!cache.has(B, 10));
        assert!(cache.has(A, 10), "20 bytes since");
        assert!(!cache.has(C, 15));
        assert!(!cache.has(B, 10), "35 bytes since");
    }

    #[test]
    fn memory_of_the_host_is_never_in_the_cache() {
        let mut cache = cache(1 << 20);
        let input = Place::Input {
            member: 0,
            offset: 0,
        };
        for _ in 0..2 {
            let moved = cache.launch(&[(input, 40), (Place::Answers, 16)]);
            assert_eq!((moved.host, moved.memory, moved.cached), (56, 0, 0));
        }
    }
}
