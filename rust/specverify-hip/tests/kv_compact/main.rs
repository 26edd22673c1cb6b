//! Compaction on the device: the same bytes in the same places as moving them one by one, and no others touched.

#[path = "../common/mod.rs"]
mod common;
#[allow(dead_code, reason = "one function is for the mutants")]
mod problem;

use common::{ARCHITECTURES, Numbers, program};
use gfxsim::Memory;
use problem::{SHAPES, compact, draw, launch_compaction, move_groups, move_in_order, planned, upload};
use specverify_hip::abi::Arguments;

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

/// A captured launch: the same arguments while contexts, paths, pages and the cache change on the device.
#[test]
fn a_captured_launch_serves_whatever_the_device_holds() {
    for arch in ARCHITECTURES {
        let mut numbers = Numbers(8);
        for (width, layout) in SHAPES {
            let first = draw(layout, &mut numbers);
            let mut second = draw(layout, &mut numbers);
            second.swap_first_two_requests();
            let mut memory = Memory::new();
            let (captured, pools) = upload(&first, &mut memory);
            for compaction in [&first, &second, &first] {
                let mut wanted = Memory::new();
                assert_eq!(upload(compaction, &mut wanted).0.bytes(), captured.bytes());
                memory.refill(&wanted);
                launch_compaction(program("kv_compact", arch), width, &layout, &captured, &mut memory).unwrap();
                for (pool, expected) in pools.iter().zip(&compaction.expected) {
                    assert!(memory.bytes(*pool) == expected, "{arch} kv_compact_{width}");
                }
            }
        }
    }
}

/// The crate's compaction plan, carried out by `kv_move`, gives what `kv_compact` gives.
#[test]
fn a_plan_of_the_crate_moves_the_same() {
    for arch in ARCHITECTURES {
        let mut numbers = Numbers(12);
        for (width, layout) in SHAPES {
            let compaction = draw(layout, &mut numbers);
            let moves = planned(&compaction);
            let (after, _) =
                move_groups(program("kv_compact", arch), width, &layout, &compaction.before, &moves).unwrap();
            assert!(after == compaction.expected, "{arch} kv_move_{width}");
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
