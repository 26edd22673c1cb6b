//! The compaction plan, executed on arrays.

use proptest::prelude::*;
use specverify::cache::{CompactionPlan, Slots, Step};
use specverify::{Deterministic, DraftTree, Topology};

fn message<T: std::fmt::Debug>(result: specverify::Result<T>) -> String {
    result.expect_err("an error").to_string()
}

#[derive(Debug, Clone)]
struct Request {
    tree: Topology,
    path: Vec<u32>,
    base: u64,
}

fn request() -> impl Strategy<Value = Request> {
    (prop::collection::vec(any::<prop::sample::Index>(), 0..80), any::<prop::sample::Index>(), 0u64..50).prop_map(
        |(picks, row, base)| {
            let n = picks.len();
            // Parents near the node, so that paths are long.
            let parent = |(i, pick): (usize, &prop::sample::Index)| i as i32 - 1 - pick.index((i + 1).min(6)) as i32;
            let tree = Topology::new(vec![0; n], picks.iter().enumerate().map(parent).collect()).unwrap();
            let path = tree.path(row.index(n + 1));
            Request { tree, path, base }
        },
    )
}

/// What row r of request b holds.
const fn mark(b: usize, row: u64) -> i64 {
    (b * 1000) as i64 + row as i64 + 1
}

proptest! {
    /// Moves, done in order in place, leave root and path in a line and touch nothing else's live slots.
    #[test]
    fn moves_executed_in_order_leave_a_chain(
        requests in prop::collection::vec(request(), 0..4),
        page_size in 1u32..20,
        paged in any::<bool>(),
        shuffle in any::<u64>(),
    ) {
        // Each request has its own pages (or linear stretch), with one page to spare, scattered over the cache by a multiplier that
        // is prime to the number of pages.
        let ends: Vec<u64> = requests.iter().map(|r| r.base + r.tree.rows() as u64).collect();
        let counts: Vec<u64> = ends.iter().map(|e| e.div_ceil(page_size.into()) + 1).collect();
        let total: u64 = counts.iter().sum::<u64>().max(1);
        let gcd = |mut a: u64, mut b: u64| { while b > 0 { (a, b) = (b, a % b); } a };
        let stride = (shuffle % total + 1..).find(|&s| gcd(s, total) == 1).unwrap();
        let mut next = 0..total;
        let pages: Vec<Vec<u32>> = counts.iter()
            .map(|&c| next.by_ref().take(c as usize).map(|i| if paged { i * stride % total } else { i } as u32).collect())
            .collect();
        let slots = |b: usize| match paged {
            true => Slots::Paged { pages: &pages[b], page_size },
            false => Slots::Linear { first: u64::from(pages[b][0]) * u64::from(page_size) },
        };
        let physical = |b: usize, s: u64| (u64::from(pages[b][(s / u64::from(page_size)) as usize]) * u64::from(page_size)
            + s % u64::from(page_size)) as usize;
        let steps: Vec<Step> = requests.iter().enumerate()
            .map(|(b, r)| Step { tree: &r.tree, path: &r.path, base: r.base, slots: slots(b) })
            .collect();
        let plan = CompactionPlan::new(&steps).unwrap();

        let mut cache = vec![0i64; (total * u64::from(page_size)) as usize];
        for (b, r) in requests.iter().enumerate() {
            for s in 0..ends[b] {
                // Tokens before the step are marked negative.
                cache[physical(b, s)] = if s < r.base { -1 - s as i64 } else { mark(b, s - r.base) };
            }
        }
        for &(from, to) in &plan.moves {
            prop_assert_ne!(from, to);
            cache[to as usize] = cache[from as usize];
        }
        prop_assert!(plan.moves.len() <= requests.iter().map(|r| r.path.len()).sum());
        for (b, r) in requests.iter().enumerate() {
            let rows = std::iter::once(0).chain(r.path.iter().map(|&node| u64::from(node) + 1));
            let expected: Vec<i64> = (0..r.base).map(|s| -1 - s as i64).chain(rows.map(|row| mark(b, row))).collect();
            let found: Vec<i64> = (0..plan.kept[b]).map(|s| cache[physical(b, s)]).collect();
            prop_assert_eq!(found, expected);
            let size = if paged { u64::from(page_size) } else { 1 };
            for page in 0..counts[b] * u64::from(page_size) / size {
                let (first, last) = (page * size, page * size + size - 1);
                let freed = first >= plan.kept[b] && first < ends[b];
                prop_assert_eq!(plan.freed[b].contains(&page), freed, "page {} of slots {}..={}", page, first, last);
            }
        }
    }
}

/// cases.md 18 (sglang #26866): KV was moved for more nodes than the path has. 8 nodes, depth 3, batch 2.
#[test]
fn only_the_accepted_path_moves() {
    let tree = DraftTree::new(vec![1, 2, 3, 4, 5, 6, 7, 8], vec![-1, -1, 0, 1, 1, 2, 3, 4]).unwrap();
    assert_eq!(tree.depths().iter().max(), Some(&3));
    let step = |path, base, first| Step { tree: &tree, path, base, slots: Slots::Linear { first } };
    let plan = CompactionPlan::new(&[step(&[1, 4, 7], 10, 0), step(&[0], 20, 100)]).unwrap();
    assert_eq!(plan.moves, [(12, 11), (15, 12), (18, 13)], "three moves for the first, none for the second");
    assert_eq!(plan.kept, [14, 22]);
    assert_eq!(plan.freed, [14..19, 22..29]);
}

/// cases.md 19 (sglang #13741): pages of rejected nodes were never freed. Page 16, 4 children a level.
#[test]
fn pages_of_rejected_nodes_come_back() {
    const PAGE: u32 = 16;
    // Four children a level, the first of which goes on: 5 levels, 20 nodes.
    let parents = (0..20).map(|i| if i < 4 { -1 } else { i / 4 * 4 - 4 }).collect();
    let tree = DraftTree::new((0..20).collect(), parents).unwrap();
    let mut free: Vec<u32> = (0..64).rev().collect();
    let mut pages = Vec::new();
    let (mut base, mut freed) = (37u64, 0);
    for accepted in [0, 3, 5, 1, 0, 4, 2, 0, 0, 5, 5, 1] {
        while (pages.len() as u64) < (base + tree.rows() as u64).div_ceil(PAGE.into()) {
            pages.push(free.pop().unwrap());
        }
        let path: Vec<u32> = (0..accepted).map(|d| 4 * d).collect();
        let slots = Slots::Paged { pages: &pages, page_size: PAGE };
        let plan = CompactionPlan::new(&[Step { tree: &tree, path: &path, base, slots }]).unwrap();
        base = plan.kept[0];
        let range = plan.freed[0].start as usize..plan.freed[0].end as usize;
        assert_eq!(range.end, pages.len());
        freed += range.len();
        free.extend(pages.drain(range));
        assert_eq!(pages.len() as u64, base.div_ceil(PAGE.into()), "what is left is what the kept tokens need");
    }
    assert!(freed >= 12, "{freed}: every step of 21 rows opens at least one page, and few rows stay");
    free.append(&mut pages);
    free.sort_unstable();
    assert_eq!(free, (0..64).collect::<Vec<_>>(), "every page once");
}

/// cases.md 20 (openvino.genai #4190): a rejection at the last position was not rolled back. N = 1, reject.
#[test]
fn a_rejection_at_the_last_position_is_rolled_back() {
    let tree = DraftTree::<Deterministic>::chain(vec![5]).unwrap();
    let pages = [9, 4];
    let step = |path| Step { tree: &tree, path, base: 15, slots: Slots::Paged { pages: &pages, page_size: 16 } };
    let rejected = CompactionPlan::new(&[step(&[])]).unwrap();
    assert_eq!((rejected.moves, rejected.kept, &rejected.freed[0]), (vec![], vec![16], &(1..2)));
    let accepted = CompactionPlan::new(&[step(&[0])]).unwrap();
    assert_eq!((accepted.moves, accepted.kept, &accepted.freed[0]), (vec![], vec![17], &(2..2)));
}

/// cases.md 15: offsets of 32 bits wrap. Slots of a cache of more than 2^32 places.
#[test]
fn slots_beyond_32_bits_do_not_wrap() {
    let tree = DraftTree::new(vec![1, 2], vec![-1, -1]).unwrap();
    let pages = [u32::MAX, 1 << 28];
    let slots = Slots::Paged { pages: &pages, page_size: 16 };
    let plan = CompactionPlan::new(&[Step { tree: &tree, path: &[1], base: 14, slots }]).unwrap();
    assert_eq!(plan.moves, [(1 << 32, (u64::from(u32::MAX) << 4) + 15)]);
}

#[test]
fn a_plan_names_what_is_wrong() {
    let tree = DraftTree::new(vec![1, 2, 3], vec![-1, -1, 0]).unwrap();
    let linear = Slots::Linear { first: 0 };
    let plan = |path: &[u32], base, slots| CompactionPlan::new(&[Step { tree: &tree, path, base, slots }]);
    assert_eq!(
        message(plan(&[1, 2], 0, linear)),
        "steps[0].path[1] is 2; expected a child of node 1 in a tree of 3 nodes"
    );
    assert_eq!(
        message(plan(&[2], 0, linear)),
        "steps[0].path[0] is 2; expected a child of the root in a tree of 3 nodes"
    );
    assert_eq!(
        message(plan(&[9], 0, linear)),
        "steps[0].path[0] is 9; expected a child of the root in a tree of 3 nodes"
    );
    assert_eq!(
        message(plan(&[], u64::MAX, linear)),
        format!("steps[0].base is {}; expected slots below 2^64", u64::MAX)
    );
    let far = Slots::Linear { first: u64::MAX - 3 };
    assert_eq!(message(plan(&[], 1, far)), "steps[0].base is 1; expected slots below 2^64");
    let paged = |pages, page_size| Slots::Paged { pages, page_size };
    assert_eq!(message(plan(&[], 0, paged(&[0], 0))), "steps[0].page_size is 0; expected at least 1 slot a page");
    assert_eq!(
        message(plan(&[], 14, paged(&[3], 16))),
        "steps[0].pages has length 1; expected at least 2 pages of 16 for 18 slots"
    );
}
