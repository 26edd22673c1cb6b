//! The walk on the device against the crate's own, on random trees: the same path and the same tokens.

#[path = "../common/mod.rs"]
mod common;
#[allow(dead_code, reason = "one function is for the mutants")]
mod problem;

use common::{ARCHITECTURES, Numbers, program};
use gfxsim::Memory;
use problem::{Outcome, Request, Walked, expected, launched, random, upload, walk};
use specverify_hip::abi::Arguments;

fn walk_on(arch: &str, requests: &[Request], max_path: usize, row_status: Option<&[i32]>) -> Outcome {
    walk(program("tree_walk", arch), requests, max_path, row_status).unwrap()
}

#[test]
fn walks_as_the_definition_says_on_random_trees() {
    for arch in ARCHITECTURES {
        let mut numbers = Numbers(1);
        for _ in 0..20 {
            let sizes = [0, 1, 3, 17, 63, 64, 65, 127, 200];
            let requests: Vec<_> = sizes.iter().map(|&size| random(&mut numbers, size)).collect();
            let outcome = walk_on(arch, &requests, 200, None);
            for (request, walked) in requests.iter().zip(&outcome.walked) {
                assert_eq!(walked, &expected(request));
            }
            assert!(outcome.status.iter().all(|&status| status == 0));
        }
    }
}

/// A captured launch: the same arguments while trees, tokens and stop tokens change on the device. What the launch before left is there.
#[test]
fn a_captured_launch_serves_whatever_the_device_holds() {
    for arch in ARCHITECTURES {
        let mut numbers = Numbers(9);
        let requests: Vec<_> = [0, 90, 3, 17, 0, 64, 127].iter().map(|&size| random(&mut numbers, size)).collect();
        let others: Vec<_> = requests.iter().rev().cloned().collect();
        let mut memory = Memory::new();
        let (captured, results) = upload(&requests, 127, None, &mut memory);
        for requests in [&requests, &others, &requests] {
            let mut wanted = Memory::new();
            assert_eq!(upload(requests, 127, None, &mut wanted).0.bytes(), captured.bytes());
            memory.refill(&wanted);
            let outcome = launched(program("tree_walk", arch), &captured, results, &mut memory).unwrap();
            assert_eq!(outcome.walked, requests.iter().map(expected).collect::<Vec<_>>());
        }
    }
}

/// Case 30 of public faults: a draft past the end-of-sequence token.
#[test]
fn nothing_follows_a_stop_token_that_was_drafted() {
    let request = Request { tokens: vec![7, 9], parents: vec![-1, 0], target: vec![7, 9, 4], stops: vec![5, 7] };
    for arch in ARCHITECTURES {
        let outcome = walk_on(arch, std::slice::from_ref(&request), 4, None);
        assert_eq!(outcome.walked[0], Walked { path: vec![0], emitted: vec![7] });
    }
}

#[test]
fn a_row_without_a_token_ends_its_request_and_no_other() {
    let chain = Request { tokens: vec![1, 2], parents: vec![-1, 0], target: vec![1, 2, 3], stops: vec![] };
    let requests = [chain.clone(), chain.clone(), chain];
    for arch in ARCHITECTURES {
        let outcome = walk_on(arch, &requests, 2, Some(&[0, 0, 0, 0, 6, 0, 7, 0, 0]));
        assert_eq!(outcome.status, [0, 6, 7]);
        assert_eq!(outcome.walked[0], Walked { path: vec![0, 1], emitted: vec![1, 2, 3] });
        assert_eq!(outcome.walked[1], Walked { path: vec![0], emitted: vec![1] });
        assert_eq!(outcome.walked[2], Walked { path: vec![], emitted: vec![] });
    }
}

#[test]
fn a_path_longer_than_its_room_is_reported_not_written() {
    let chain = Request { tokens: vec![1, 2, 3], parents: vec![-1, 0, 1], target: vec![1, 2, 3, 4], stops: vec![] };
    for arch in ARCHITECTURES {
        let outcome = walk_on(arch, std::slice::from_ref(&chain), 2, None);
        assert_eq!(outcome.status, [-1]);
        assert_eq!(outcome.walked[0], Walked { path: vec![0, 1], emitted: vec![1, 2, 3] });
    }
}
