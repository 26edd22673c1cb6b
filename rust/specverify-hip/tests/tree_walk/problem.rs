//! Trees to walk: drawn, run, and the path and the tokens that the definition gives.

use gfxsim::{Buffer, Fault, Memory, Program};
use specverify_hip::abi::TreeWalkArgs;

use crate::common::{Numbers, input, launch, read_i32};

/// A draft tree, the target's token of each row, and stop tokens.
#[derive(Clone)]
pub struct Request {
    pub tokens: Vec<i32>,
    pub parents: Vec<i32>,
    pub target: Vec<i32>,
    pub stops: Vec<i32>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Walked {
    pub path: Vec<i32>,
    pub emitted: Vec<i32>,
}

/// The definition: while a child of the last accepted node holds the target's token, accept it; nothing follows a stop token.
pub fn expected(request: &Request) -> Walked {
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
pub struct Outcome {
    pub walked: Vec<Walked>,
    pub status: Vec<i32>,
    pub instructions: u64,
}

pub fn walk(
    program: &Program,
    requests: &[Request],
    max_path: usize,
    row_status: Option<&[i32]>,
) -> Result<Outcome, Fault> {
    let mut memory = Memory::new();
    let (arguments, results) = upload(requests, max_path, row_status, &mut memory);
    launched(program, &arguments, results, &mut memory)
}

/// A batch in memory: the arguments, and what is written: path, emitted, accepted, counts, last token and status.
pub fn upload(
    requests: &[Request],
    max_path: usize,
    row_status: Option<&[i32]>,
    memory: &mut Memory,
) -> (TreeWalkArgs, [Buffer; 6]) {
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
    .map(|(name, values)| input(memory, name, &values).address());
    let row_status = row_status.map_or(0, |status| input(memory, "row_status", status).address());
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
    (arguments, [path, emitted, accepted, counts, last_token, status])
}

pub fn launched(
    program: &Program,
    arguments: &TreeWalkArgs,
    results: [Buffer; 6],
    memory: &mut Memory,
) -> Result<Outcome, Fault> {
    let (n, max_path) = (arguments.requests as usize, arguments.max_path as usize);
    let report = launch(program, "tree_walk", [n as u32, 1, 1], 64, arguments, memory)?;
    let [path, emitted, accepted, counts, last, status] = results.map(|buffer| read_i32(memory, buffer));
    let mut walked = Vec::new();
    for b in 0..n {
        let (path, emitted) = (&path[b * max_path..][..max_path], &emitted[b * (max_path + 1)..][..max_path + 1]);
        let (path, after) = path.split_at(accepted[b] as usize);
        let (emitted, also) = emitted.split_at(counts[b] as usize);
        assert!(after.iter().chain(also).all(|&x| x == -1));
        assert_eq!(last[b], emitted.last().copied().unwrap_or(-1));
        walked.push(Walked { path: path.to_vec(), emitted: emitted.to_vec() });
    }
    Ok(Outcome { walked, status, instructions: report.instructions })
}

pub fn random(numbers: &mut Numbers, nodes: usize) -> Request {
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

/// What the mutants of the kernel run on: every way that a walk may go.
pub fn mutant_run(program: &Program, _: &str) -> Result<Vec<u8>, Fault> {
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
    let outcome = walk(program, &requests, 130, Some(&status))?;
    Ok(format!("{:?}", (outcome.walked, outcome.status)).into_bytes())
}
