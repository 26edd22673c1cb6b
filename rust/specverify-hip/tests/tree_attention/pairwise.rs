//! Cases in which every two levels of two factors meet.

use std::collections::BTreeSet;

/// Two factors, each with a level.
pub type Pair = [(usize, usize); 2];

/// Every two levels of two factors.
fn pairs(levels: &[usize]) -> impl Iterator<Item = Pair> {
    (0..levels.len()).flat_map(move |i| {
        (i + 1..levels.len())
            .flat_map(move |j| (0..levels[i]).flat_map(move |x| (0..levels[j]).map(move |y| [(i, x), (j, y)])))
    })
}

/// Adds cases until every pair of levels of two factors occurs in one: greedily, the level that covers most. `allowed` says whether a case of
/// which some levels are given can be completed; a pair that cannot be is left out.
pub fn pairwise(cases: &mut Vec<Vec<usize>>, levels: &[usize], allowed: impl Fn(&[Option<usize>]) -> bool) {
    let n = levels.len();
    let with = |pair: &Pair| {
        let mut case = vec![None; n];
        pair.iter().for_each(|&(factor, level)| case[factor] = Some(level));
        case
    };
    let mut open: BTreeSet<Pair> = missing(levels, cases).into_iter().filter(|pair| allowed(&with(pair))).collect();
    while let Some(pair) = open.first() {
        let mut case = with(pair);
        for f in 0..n {
            if case[f].is_some() {
                continue;
            }
            let gain = |level: usize| {
                let meets = |(g, l): (usize, &Option<usize>)| {
                    let (one, other) = ((f, level), (g, (*l)?));
                    open.contains(&[one.min(other), one.max(other)]).then_some(())
                };
                case.iter().enumerate().filter_map(meets).count()
            };
            // Ties take turns, so that factors whose pairs are all covered still vary.
            let start = cases.len();
            let fits = |level: &usize| {
                let mut whole = case.clone();
                whole[f] = Some(*level);
                allowed(&whole)
            };
            let level = (0..levels[f]).map(|l| (l + start) % levels[f]).filter(fits).max_by_key(|&level| gain(level));
            case[f] = Some(level.expect("a case that may be completed"));
        }
        let case: Vec<usize> = case.into_iter().flatten().collect();
        open.retain(|pair| !pair.iter().all(|&(factor, level)| case[factor] == level));
        cases.push(case);
    }
}

/// The pairs that no case has.
pub fn missing(levels: &[usize], cases: &[Vec<usize>]) -> Vec<Pair> {
    let found = |pair: &Pair| cases.iter().any(|case| pair.iter().all(|&(factor, level)| case[factor] == level));
    pairs(levels).filter(|pair| !found(pair)).collect()
}
