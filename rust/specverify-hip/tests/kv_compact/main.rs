//! Compaction on the device: the same bytes in the same places as moving them one by one, and no others touched.

#[path = "../common/mod.rs"]
mod common;
#[allow(dead_code, reason = "one function is for the mutants")]
mod problem;

use common::{ARCHITECTURES, Numbers, program};
use problem::{SHAPES, compact, move_in_order};

/// Cases 18 to 20 of public faults: more nodes than the path has, rejected nodes, a rejection at the last position.
#[test]
fn compacts_every_layer_in_place_and_touches_nothing_else() {
    for arch in ARCHITECTURES {
        let mut numbers = Numbers(7);
        for (width, layout) in SHAPES {
            let moved = compact(program("kv_compact", arch), width, layout, &mut numbers).unwrap();
            assert!(moved.after == moved.expected, "{arch} kv_compact_{width}");
            assert!(moved.before != moved.expected);
            for traffic in moved.traffic {
                let bytes = moved.bytes as u64;
                assert_eq!((traffic.requested_read, traffic.requested_written), (bytes, bytes), "{arch} {width}");
            }
        }
    }
}

#[test]
fn a_list_of_moves_runs_in_order_within_a_group() {
    for arch in ARCHITECTURES {
        let mut numbers = Numbers(11);
        for width in [16, 4, 1] {
            let moved = move_in_order(program("kv_compact", arch), width, &mut numbers).unwrap();
            assert!(moved.after == moved.expected, "{arch} kv_move_{width}");
        }
    }
}
