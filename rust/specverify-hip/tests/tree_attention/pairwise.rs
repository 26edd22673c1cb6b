//! Cases in which every two levels of two factors meet.

/// Levels of each factor such that every pair of levels of two factors occurs in some case: greedily, the level that covers most.
pub fn pairwise(levels: &[usize]) -> Vec<Vec<usize>> {
    let n = levels.len();
    let mut open = std::collections::BTreeSet::new();
    for i in 0..n {
        for j in i + 1..n {
            open.extend((0..levels[i] * levels[j]).map(|pair| (i, pair / levels[j], j, pair % levels[j])));
        }
    }
    let pair = |i: usize, x: usize, j: usize, y: usize| if i < j { (i, x, j, y) } else { (j, y, i, x) };
    let mut cases = Vec::new();
    while let Some(&(i, x, j, y)) = open.first() {
        let mut case = vec![None; n];
        (case[i], case[j]) = (Some(x), Some(y));
        for f in 0..n {
            if case[f].is_none() {
                let gain = |level: usize| {
                    case.iter()
                        .enumerate()
                        .filter(|&(g, l)| l.is_some_and(|l| open.contains(&pair(f, level, g, l))))
                        .count()
                };
                // Ties take turns, so that factors whose pairs are all covered still vary.
                let start = cases.len();
                case[f] = (0..levels[f]).map(|l| (l + start) % levels[f]).max_by_key(|&level| gain(level));
            }
        }
        let case: Vec<usize> = case.into_iter().flatten().collect();
        for f in 0..n {
            for g in f + 1..n {
                open.remove(&(f, case[f], g, case[g]));
            }
        }
        cases.push(case);
    }
    cases
}
