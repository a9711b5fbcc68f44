//! The four requests of the paper's Figure 4 (its section 4.1 tells their story, without times; the times are ours).
//!
//! Two models, STAR (in the host's memory only) and TRIANGLE (on the device). A transfer takes 8 ms,
//! a batch of one 3 ms, a batch of two 4 ms.
//!
//! | ms | event | decision | why |
//! | --- | --- | --- | --- |
//! | 0 | r1 for STAR, due at 14 | LOAD STAR, until 8 | 8 + 3 ends at 11, in time |
//! | 6 | r2 for TRIANGLE, due at 20 | INFER r2, until 9 | the device would be idle; r1 can wait: 9 + 3 ≤ 14 |
//! | 7 | r3 for STAR, due at 20 | — | the device is busy until 9 |
//! | 8 | STAR is loaded | — | likewise |
//! | 9 | r2 ended | INFER r1 and r3 as a batch, until 13; latest 14 − 4 = 10 | 9 + 4 is before r1's deadline |
//! | 10 | r4 for TRIANGLE, due at 15 | r4 is rejected | free at 13, and 13 + 3 is too late |
//! | 13 | r1 and r3 ended | both answered | |

use super::{Did, Told, config, model};
use punctual_core::{Rejection, Verdict};

const STAR: u16 = 0;
const TRIANGLE: u16 = 1;

/// The times of the table; TRIANGLE is always there.
fn told() -> Told {
    let times = [(1, 3), (2, 4)];
    Told::new(config(
        vec![model(&times, Some((1, 8))), model(&times, None)],
        1,
    ))
}

#[test]
fn four_requests_are_served_as_in_the_papers_figure() {
    let mut told = told();
    assert_eq!(told.request(0, STAR, 14), [Did::Load(STAR)]);
    let star = told.load();
    assert_eq!(
        told.request(6, TRIANGLE, 20),
        [Did::Infer(TRIANGLE, vec![2], 17)]
    );
    let triangle = told.infer();
    assert_eq!(told.request(7, STAR, 20), []);
    assert_eq!(told.loaded(8, star, 8), []);
    assert_eq!(
        told.finished(9, &triangle, 3),
        [
            Did::Reply(2, Verdict::OnTime),
            Did::Infer(STAR, vec![1, 3], 10)
        ]
    );
    let both = told.infer();
    assert_eq!(
        told.request(10, TRIANGLE, 15),
        [Did::Reply(4, Verdict::Rejected(Rejection::NoSlack))]
    );
    assert_eq!(
        told.finished(13, &both, 4),
        [
            Did::Reply(1, Verdict::OnTime),
            Did::Reply(3, Verdict::OnTime)
        ]
    );
}

#[test]
fn a_batch_that_would_end_after_its_heads_deadline_is_not_made() {
    let mut told = told();
    told.request(0, STAR, 12);
    let star = told.load();
    told.request(6, TRIANGLE, 20);
    let triangle = told.infer();
    told.request(7, STAR, 20);
    told.loaded(8, star, 8);
    // 9 + 4 is after 12, so r1 goes alone and r3 after it.
    assert_eq!(
        told.finished(9, &triangle, 3),
        [Did::Reply(2, Verdict::OnTime), Did::Infer(STAR, vec![1], 9)]
    );
    let first = told.infer();
    assert_eq!(
        told.finished(12, &first, 3),
        [
            Did::Reply(1, Verdict::OnTime),
            Did::Infer(STAR, vec![3], 17)
        ]
    );
}
