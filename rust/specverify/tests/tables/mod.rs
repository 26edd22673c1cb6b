//! Random table models and all small trees, from fixed seeds.
#![allow(dead_code, reason = "each test file uses its share")]

use specverify::oracle::Table;

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// In (0, 1).
    pub fn uniform(&mut self) -> f64 {
        ((self.word() >> 12) as f64 + 0.5) / (1u64 << 52) as f64
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.word() % n as u64) as usize
    }

    /// A distribution, uniform on the simplex; `power` > 1 makes it peaked.
    pub fn distribution(&mut self, vocab: usize, power: f64) -> Vec<f64> {
        let weights: Vec<f64> = (0..vocab).map(|_| (-self.uniform().ln()).powf(power)).collect();
        let total: f64 = weights.iter().sum();
        weights.into_iter().map(|w| w / total).collect()
    }

    pub fn table(&mut self, vocab: usize, depth: usize, power: f64) -> Table {
        let count: usize = (0..depth as u32).map(|d| vocab.pow(d)).sum();
        let rows = (0..count).flat_map(|_| self.distribution(vocab, power)).collect();
        Table::new(vocab, depth, rows).unwrap()
    }
}

/// The parents of every ordered tree of `nodes` nodes under the root, in preorder.
pub fn ordered_trees(nodes: usize) -> Vec<Vec<i32>> {
    let mut trees = vec![Vec::new()];
    for node in 0..nodes as i32 {
        let mut longer = Vec::new();
        for tree in &trees {
            // The last node or one of its ancestors may have the next child.
            let mut parent = node - 1;
            loop {
                let mut next: Vec<i32> = tree.clone();
                next.push(parent);
                longer.push(next);
                if parent < 0 {
                    break;
                }
                parent = tree[parent as usize];
            }
        }
        trees = longer;
    }
    trees
}

/// All 196 of 1 to 6 nodes.
pub fn small_trees() -> Vec<Vec<i32>> {
    (1..=6).flat_map(ordered_trees).collect()
}

pub fn depths(parents: &[i32]) -> Vec<usize> {
    let mut depths: Vec<usize> = Vec::new();
    for &p in parents {
        depths.push(if p < 0 { 1 } else { depths[p as usize] + 1 });
    }
    depths
}

pub fn depth(parents: &[i32]) -> usize {
    depths(parents).into_iter().max().unwrap_or(0)
}

pub fn most_siblings(parents: &[i32]) -> usize {
    (-1..parents.len() as i32).map(|r| parents.iter().filter(|&&p| p == r).count()).max().unwrap_or(0)
}

pub fn chain(nodes: usize) -> Vec<i32> {
    (0..nodes as i32).map(|i| i - 1).collect()
}
