//! The daemon, under every published policy.

use crate::support::{Folder, assert_serves, manifest_under};

#[test]
fn under_every_published_policy_that_the_cpu_device_can_carry_out_clients_get_their_answers() {
    for policy in punctual_plan::PUBLISHED {
        if policy != "streams" {
            assert_serves(policy);
        }
    }
}

#[test]
fn a_policy_that_the_cpu_device_cannot_carry_out_is_refused_with_the_remedy() {
    let (code, said) = Folder::with(&manifest_under("streams")).refusal(&[]);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("simulate"), "{said}");
}

#[test]
fn the_names_that_the_product_refuses_are_those_of_the_published_policies() {
    let all = punctual_baselines::all();
    let published: Vec<&str> = all.names().skip(2).collect();
    assert_eq!(published, punctual_plan::PUBLISHED);
}
