//! The list keeps its own rules.

use super::*;
use std::collections::BTreeSet;

#[test]
fn names_are_unique_and_every_case_makes_sense() {
    let mut names = BTreeSet::new();
    for workload in all() {
        assert!(
            names.insert(workload.name),
            "{} is there twice",
            workload.name
        );
        assert_eq!(workload.contenders[0].name, "urgo", "{}", workload.name);
        assert!(workload.question.ends_with('?'), "{}", workload.name);
        for size in [Size::Full, Size::Quick] {
            let cases = (workload.cases)(size);
            let mut seen = BTreeSet::new();
            assert!(!cases.is_empty(), "{} has no case", workload.name);
            for case in &cases {
                assert!(
                    seen.insert(case.name.clone()),
                    "{}: {} twice",
                    workload.name,
                    case.name
                );
                assert!(
                    case.params.contains_key("ops"),
                    "{}: {}: no ops",
                    workload.name,
                    case.name
                );
                for name in case.only.unwrap_or(&[]) {
                    assert!(
                        workload.contender(name).is_some(),
                        "{}: {}: {name}?",
                        workload.name,
                        case.name
                    );
                }
                let named = match case.budget {
                    Some(Budget::TimesOf(rival, _)) => vec![rival],
                    Some(Budget::AheadOf(rivals)) => rivals.to_vec(),
                    _ => Vec::new(),
                };
                for name in named {
                    assert!(
                        case.takes(name) && workload.contender(name).is_some(),
                        "{}: {name}",
                        case.name
                    );
                }
            }
        }
    }
}

#[test]
fn a_budget_is_judged_by_the_pairs() {
    assert!(Budget::AtMost(2.0).is_met(2.0, |_| None));
    assert!(!Budget::AtMost(2.0).is_met(2.1, |_| None));
    assert!(Budget::TimesOf("raw", 1.05).is_met(9.0, |name| (name == "raw").then_some(1.04)));
    assert!(!Budget::TimesOf("raw", 1.05).is_met(0.0, |_| None));
    assert!(Budget::AheadOf(&["a", "b"]).is_met(9.0, |_| Some(0.9)));
    assert!(
        !Budget::AheadOf(&["a", "b"]).is_met(9.0, |name| Some(if name == "a" {
            0.5
        } else {
            1.01
        }))
    );
}
