use punctual_core::*;
use punctual_simulator::{
    fuzz,
    observer::Observer,
    run::{Settings, run_plan},
};
use punctual_types::Random;
use std::sync::Arc;
struct T(u64, u64);
impl Observer for T {
    fn event(&mut self, now: Instant, e: &Event) {
        let n = now.as_nanos();
        if n >= self.0 && n <= self.1 {
            println!("{n} EVENT {e:?}");
        }
    }
    fn action(&mut self, now: Instant, a: &Action) {
        let n = now.as_nanos();
        if n >= self.0 && n <= self.1 {
            println!("{n}    {a:?}");
        }
    }
}
fn main() {
    let a: Vec<u64> = std::env::args()
        .skip(1)
        .map(|x| x.parse().unwrap())
        .collect();
    let policies: Vec<Arc<dyn PolicySpec>> = vec![Arc::new(PunctualConfig::default())];
    let mut case = fuzz::Case::draw(a[0], &policies);
    if a.len() > 3 {
        let l = case.scenario.lending.as_mut().unwrap();
        l.places = vec![Units {
            first: a[3] as u16,
            count: a[4] as u16,
        }];
        l.corun = a[5] as f64 / 100.0;
        case.scenario.length = Nanos::new(a[6]);
    }
    let config = case.config();
    for (i, p) in config.partitions.iter().enumerate() {
        println!("partition {i} {:?}", p.units);
    }
    let arrivals = case
        .scenario
        .arrivals(1.0, &Random::new(case.seed))
        .unwrap();
    let s = Settings {
        seed: case.seed,
        keep_requests: false,
    };
    let mut t = T(a[1], a[2]);
    let _ = run_plan(
        &case.scenario,
        (&config, &*case.policy),
        arrivals,
        s,
        &mut t,
    );
}
