//! A manifest chooses who decides: the same daemon, device and clients under each policy.

use crate::support::{Folder, assert_serves, manifest_under};
use punctual_core::PolicySpec as _;
use punctual_plan::Policies;

#[test]
fn under_every_policy_that_the_cpu_device_can_carry_out_clients_get_their_answers() {
    for policy in Policies::shipped().iter() {
        assert_serves(policy.name());
    }
}

#[test]
fn a_policy_that_the_device_cannot_carry_out_or_nobody_knows_is_refused_with_the_remedy() {
    for (policy, word) in [("streams", "punctual-lab"), ("sebe", "seeb")] {
        let folder = Folder::with(&manifest_under(policy));
        let (code, said) = folder.refusal(&[]);
        assert_eq!(code, Some(3), "{said}");
        assert!(said.contains(word), "{said}");
    }
}
