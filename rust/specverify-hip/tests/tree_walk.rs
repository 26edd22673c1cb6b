//! The walk on the device against the crate's own, on random trees: the same path and the same tokens.

mod common;

use common::{ARCHITECTURES, Numbers, input, launch, program, read_i32, surviving_mutants};
use gfxsim::{Fault, Memory, Program};
use specverify_hip::abi::TreeWalkArgs;

/// A draft tree, the target's token of each row, and stop tokens.
#[derive(Clone)]
struct Request {
    tokens: Vec<i32>,
    parents: Vec<i32>,
    target: Vec<i32>,
    stops: Vec<i32>,
}

#[derive(Debug, Clone, PartialEq)]
struct Walked {
    path: Vec<i32>,
    emitted: Vec<i32>,
}

/// The definition: while a child of the last accepted node holds the target's token, accept it; nothing follows a stop token.
fn expected(request: &Request) -> Walked {
    let (mut path, mut emitted, mut node) = (Vec::new(), Vec::new(), -1);
    loop {
        let token = request.target[(node + 1) as usize];
        emitted.push(token);
        let child = (0..request.tokens.len()).find(|&i| request.parents[i] == node && request.tokens[i] == token);
        let Some(child) = child else { break };
        path.push(child as i32);
        node = child as i32;
        if request.stops.contains(&token) {
            break;
        }
    }
    Walked { path, emitted }
}

#[derive(Debug, PartialEq)]
struct Outcome {
    walked: Vec<Walked>,
    status: Vec<i32>,
}

fn walk(arch: &str, requests: &[Request], max_path: usize, row_status: Option<&[i32]>) -> Outcome {
    walk_with(program("tree_walk", arch), requests, max_path, row_status).unwrap()
}

fn walk_with(
    program: &Program,
    requests: &[Request],
    max_path: usize,
    row_status: Option<&[i32]>,
) -> Result<Outcome, Fault> {
    let mut memory = Memory::new();
    let flat = |field: fn(&Request) -> &Vec<i32>| requests.iter().flat_map(|r| field(r).clone()).collect::<Vec<_>>();
    let offsets = |field: fn(&Request) -> &Vec<i32>| {
        let mut sums = vec![0];
        requests.iter().for_each(|r| sums.push(sums.last().unwrap() + field(r).len() as i32));
        sums
    };
    let n = requests.len();
    let [cu_nodes, tokens, parents, target, stop_offsets, stop_ids] = [
        ("cu_nodes", offsets(|r| &r.tokens)),
        ("tokens", flat(|r| &r.tokens)),
        ("parents", flat(|r| &r.parents)),
        ("target_tokens", flat(|r| &r.target)),
        ("stop_offsets", offsets(|r| &r.stops)),
        ("stop_ids", flat(|r| &r.stops)),
    ]
    .map(|(name, values)| input(&mut memory, name, &values).address());
    let row_status = row_status.map_or(0, |status| input(&mut memory, "row_status", status).address());
    let path = memory.reserve("path", 4 * n * max_path);
    let emitted = memory.reserve("emitted", 4 * n * (max_path + 1));
    let [accepted, counts, last_token, status] =
        ["accepted", "counts", "last_token", "status"].map(|name| memory.reserve(name, 4 * n));
    let arguments = TreeWalkArgs {
        cu_nodes,
        tokens,
        parents,
        target_tokens: target,
        row_status,
        stop_offsets,
        stop_ids,
        path: path.address(),
        emitted: emitted.address(),
        accepted: accepted.address(),
        counts: counts.address(),
        last_token: last_token.address(),
        status: status.address(),
        requests: n as i32,
        max_path: max_path as i32,
    };
    launch(program, "tree_walk", [n as u32, 1, 1], 64, &arguments, &mut memory)?;
    let [path, emitted, accepted, counts, last, status] =
        [path, emitted, accepted, counts, last_token, status].map(|buffer| read_i32(&memory, buffer));
    let mut walked = Vec::new();
    for b in 0..n {
        let (path, emitted) = (&path[b * max_path..][..max_path], &emitted[b * (max_path + 1)..][..max_path + 1]);
        let (path, after) = path.split_at(accepted[b] as usize);
        let (emitted, also) = emitted.split_at(counts[b] as usize);
        assert!(after.iter().chain(also).all(|&x| x == -1));
        assert_eq!(last[b], emitted.last().copied().unwrap_or(-1));
        walked.push(Walked { path: path.to_vec(), emitted: emitted.to_vec() });
    }
    Ok(Outcome { walked, status })
}

fn random(numbers: &mut Numbers, nodes: usize) -> Request {
    // Few token ids, so that children hold the target's token often and siblings may be equal.
    let vocab = 3;
    let mut request = Request { tokens: vec![], parents: vec![], target: vec![], stops: vec![] };
    for node in 0..nodes {
        // Near parents make deep trees.
        let parent = node as i32 - 1 - numbers.below(3.min(node + 1)) as i32;
        request.parents.push(parent.max(-1));
        request.tokens.push(numbers.below(vocab) as i32);
    }
    request.target = (0..=nodes).map(|_| numbers.below(vocab) as i32).collect();
    if numbers.below(4) == 0 {
        request.stops = (0..numbers.below(70)).map(|i| 100 + i as i32).chain([numbers.below(vocab) as i32]).collect();
    }
    request
}

#[test]
fn walks_as_the_definition_says_on_random_trees() {
    for arch in ARCHITECTURES {
        let mut numbers = Numbers(1);
        for _ in 0..20 {
            let sizes = [0, 1, 3, 17, 63, 64, 65, 127, 200];
            let requests: Vec<_> = sizes.iter().map(|&size| random(&mut numbers, size)).collect();
            let outcome = walk(arch, &requests, 200, None);
            for (request, walked) in requests.iter().zip(&outcome.walked) {
                assert_eq!(walked, &expected(request));
            }
            assert!(outcome.status.iter().all(|&status| status == 0));
        }
    }
}

/// Case 30 of public faults: a draft past the end-of-sequence token.
#[test]
fn nothing_follows_a_stop_token_that_was_drafted() {
    let request = Request { tokens: vec![7, 9], parents: vec![-1, 0], target: vec![7, 9, 4], stops: vec![5, 7] };
    for arch in ARCHITECTURES {
        let outcome = walk(arch, std::slice::from_ref(&request), 4, None);
        assert_eq!(outcome.walked[0], Walked { path: vec![0], emitted: vec![7] });
    }
}

#[test]
fn a_row_without_a_token_ends_its_request_and_no_other() {
    let chain = Request { tokens: vec![1, 2], parents: vec![-1, 0], target: vec![1, 2, 3], stops: vec![] };
    let requests = [chain.clone(), chain.clone(), chain];
    for arch in ARCHITECTURES {
        let outcome = walk(arch, &requests, 2, Some(&[0, 0, 0, 0, 6, 0, 7, 0, 0]));
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
        let outcome = walk(arch, std::slice::from_ref(&chain), 2, None);
        assert_eq!(outcome.status, [-1]);
        assert_eq!(outcome.walked[0], Walked { path: vec![0, 1], emitted: vec![1, 2, 3] });
    }
}

/// Without any of its waits the kernel fails, but for one: when the last token is stored at the end it has been waited for already, when
/// it was stored among the emitted ones.
#[test]
fn every_wait_but_one_is_needed() {
    let mut numbers = Numbers(3);
    let mut requests: Vec<_> = [0, 5, 70, 130].iter().map(|&size| random(&mut numbers, size)).collect();
    // Accepted nodes make the kernel read the stop tokens; none of these is drafted.
    requests.push(Request {
        tokens: vec![1, 2],
        parents: vec![-1, 0],
        target: vec![1, 2, 0],
        stops: (50..150).collect(),
    });
    let status = vec![0; requests.iter().map(|request| request.target.len()).sum()];
    for arch in ARCHITECTURES {
        let good = walk(arch, &requests, 130, Some(&status));
        let survivors = surviving_mutants("tree_walk", arch, "tree_walk", |mutant| {
            walk_with(mutant, &requests, 130, Some(&status)).is_ok_and(|outcome| outcome == good)
        });
        assert_eq!(survivors, ["s_waitcnt vmcnt(2)"], "{arch}");
    }
}
