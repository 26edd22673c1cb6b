//! Acceptance statistics.

use proptest::prelude::*;
use specverify::Topology;
use specverify::metrics::AcceptanceStats;

/// cases.md 28 (vllm #44054): padding was counted as drafted. Drafts [5, -1, -1], one accepted: 100 %.
#[test]
fn padding_is_not_drafted() {
    let mut stats = AcceptanceStats::new();
    stats.record_chain(&[5, -1, -1], Some(1)).unwrap();
    assert_eq!((stats.drafts(), stats.drafted(), stats.accepted()), (1, 1, 1));
    assert_eq!(stats.acceptance_rate(), Some(1.0));
    assert_eq!(stats.mean_accepted_length(), Some(2.0));
    stats.record_chain(&[-1, -1, -1], Some(0)).unwrap();
    assert_eq!((stats.drafts(), stats.drafted()), (1, 1), "a step of padding alone had no draft");
    assert!(stats.record_chain(&[5, -1], Some(2)).is_err());
}

/// cases.md 27 (vllm #26372): counters went negative when drafts were scheduled and nothing was sampled.
#[test]
fn a_step_that_sampled_nothing_leaves_no_trace() {
    let mut stats = AcceptanceStats::new();
    stats.record_chain(&[5, 6, 7], None).unwrap();
    stats.record_tree(&Topology::new(vec![1, 2], vec![-1, -1]).unwrap(), None).unwrap();
    assert_eq!(stats, AcceptanceStats::default());
    assert_eq!((stats.mean_accepted_length(), stats.acceptance_rate(), stats.survival()), (None, None, vec![]));
}

#[test]
fn trees_count_nodes_and_depths_apart() {
    let tree = Topology::new(vec![1, 2, 3, 4, 5], vec![-1, -1, 0, 0, 2]).unwrap();
    let mut stats = AcceptanceStats::new();
    stats.record_tree(&tree, Some(2)).unwrap();
    stats.record_tree(&tree, Some(0)).unwrap();
    assert_eq!((stats.drafts(), stats.drafted(), stats.accepted()), (2, 10, 2));
    assert_eq!(stats.drafted_per_depth(), [4, 4, 2]);
    assert_eq!(stats.accepted_per_depth(), [1, 1, 0]);
    assert_eq!(stats.survival(), [0.5, 0.5, 0.0]);
    let before = stats.clone();
    assert_eq!(
        stats.record_tree(&tree, Some(4)).unwrap_err().to_string(),
        "accepted is 4; expected at most 3, the depth of the draft"
    );
    assert_eq!(stats, before);
}

proptest! {
    #[test]
    fn merged_counts_are_the_counts_of_all(steps in prop::collection::vec((0usize..9, 0usize..9), 0..20), cut in 0usize..20) {
        let count = |steps: &[(usize, usize)]| {
            let mut stats = AcceptanceStats::new();
            for &(drafted, accepted) in steps {
                stats.record_chain(&vec![3; drafted], Some(accepted.min(drafted))).unwrap();
            }
            stats
        };
        let (all, cut) = (count(&steps), cut.min(steps.len()));
        for (a, b) in [steps.split_at(cut), (&steps[cut..], &steps[..cut])] {
            let mut merged = count(a);
            merged.merge(&count(b));
            prop_assert_eq!(&merged, &all);
        }
        let drafts = steps.iter().filter(|s| s.0 > 0).count();
        let accepted: usize = steps.iter().map(|s| s.1.min(s.0)).sum();
        prop_assert_eq!((all.drafts(), all.accepted()), (drafts as u64, accepted as u64));
        prop_assert_eq!(all.mean_accepted_length(), (drafts > 0).then(|| 1.0 + accepted as f64 / drafts as f64));
        if let Some(length) = all.mean_accepted_length() {
            prop_assert!((all.survival().iter().sum::<f64>() - (length - 1.0)).abs() < 1e-12);
        }
    }
}
