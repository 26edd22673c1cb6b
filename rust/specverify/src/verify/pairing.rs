//! Rules and trees chosen at run time: the same pairings that the types allow, checked by value.

use std::str::FromStr;

use super::{Chooser, Decision, Drafted, Target};
use super::{block, greedy, lossy_typical, multipath, recursive, target_only, token, traversal};
use crate::error::{Error, Result};
use crate::tree::{Deterministic, DraftTree, Draws, Independent, Paths, Topology, WithoutReplacement};

/// A verification rule.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rule {
    /// [`greedy`].
    Greedy,
    /// [`target_only`].
    TargetOnly,
    /// [`token`].
    Token,
    /// [`block`].
    Block,
    /// [`recursive`].
    Recursive,
    /// [`traversal`].
    Traversal,
    /// [`multipath`].
    Multipath,
    /// [`lossy_typical`].
    LossyTypical {
        /// Upper bound of the threshold, in [0, 1].
        epsilon: f64,
        /// Factor of `exp(-H)`, >= 0.
        delta: f64,
    },
}

/// The names that [`Rule`] reads, in the order of the documentation.
pub const NAMES: [&str; 8] =
    ["greedy", "target_only", "token", "block", "recursive", "traversal", "multipath", "lossy_typical"];

impl Rule {
    /// The rule's name.
    pub fn name(&self) -> &'static str {
        let index = match self {
            Rule::Greedy => 0,
            Rule::TargetOnly => 1,
            Rule::Token => 2,
            Rule::Block => 3,
            Rule::Recursive => 4,
            Rule::Traversal => 5,
            Rule::Multipath => 6,
            Rule::LossyTypical { .. } => 7,
        };
        NAMES[index]
    }

    /// What `auto` means: greedy at T=0; else, for a sampled tree that came with its q, block on a chain and traversal on anything
    /// wider; target_only for the rest.
    pub fn auto(tree: &AnyTree, has_draft_probs: bool, temperature: f32) -> Self {
        match tree {
            _ if temperature == 0.0 => Rule::Greedy,
            _ if !has_draft_probs => Rule::TargetOnly,
            AnyTree::Deterministic(_) => Rule::TargetOnly,
            AnyTree::Independent(tree) if tree.is_chain() => Rule::Block,
            AnyTree::Independent(_) | AnyTree::WithoutReplacement(_) | AnyTree::Paths(_) => Rule::Traversal,
        }
    }

    /// Whether the rule reads q.
    pub fn reads_draft_probs(&self) -> bool {
        !matches!(self, Rule::Greedy | Rule::TargetOnly | Rule::LossyTypical { .. })
    }

    /// Checks that the rule is proved for the tree's draws.
    ///
    /// # Errors
    /// [`Error::Pairing`]; [`Error::Argument`] for parameters of the rule outside their domain.
    pub fn check(&self, tree: &AnyTree) -> Result<()> {
        let proved = match self {
            Rule::LossyTypical { epsilon, .. } if !(0.0..=1.0).contains(epsilon) => {
                return Err(Error::argument("epsilon", epsilon, "a number in [0, 1]"));
            }
            Rule::LossyTypical { delta, .. } if !(0.0..f64::INFINITY).contains(delta) => {
                return Err(Error::argument("delta", delta, "a finite number >= 0"));
            }
            Rule::Greedy | Rule::TargetOnly | Rule::LossyTypical { .. } => true,
            Rule::Token | Rule::Block => matches!(tree, AnyTree::Independent(tree) if tree.is_chain()),
            Rule::Recursive | Rule::Traversal => !matches!(tree, AnyTree::Deterministic(_)),
            Rule::Multipath => matches!(tree, AnyTree::Paths(_)),
        };
        if proved { Ok(()) } else { Err(self.refusal(tree)) }
    }

    fn refusal(&self, tree: &AnyTree) -> Error {
        let expected = match self {
            Rule::Greedy | Rule::TargetOnly | Rule::LossyTypical { .. } => "any draws",
            Rule::Token | Rule::Block => "a chain of independent draws",
            Rule::Recursive | Rule::Traversal => {
                "independent or without_replacement draws, or paths, which are taken unmerged"
            }
            Rule::Multipath => "paths: K i.i.d. paths",
        };
        let shape = if tree.is_chain() { "chain" } else { "tree" };
        let draws = format!("a {shape} of {} draws", tree.draws());
        Error::Pairing { rule: self.name().into(), draws, expected: expected.into() }
    }
}

impl FromStr for Rule {
    type Err = Error;

    /// Reads a name of [`NAMES`]; `lossy_typical` gets Medusa's epsilon = 0.09 and delta = 0.3.
    fn from_str(name: &str) -> Result<Self> {
        Ok(match name {
            "greedy" => Rule::Greedy,
            "target_only" => Rule::TargetOnly,
            "token" => Rule::Token,
            "block" => Rule::Block,
            "recursive" => Rule::Recursive,
            "traversal" => Rule::Traversal,
            "multipath" => Rule::Multipath,
            "lossy_typical" => Rule::LossyTypical { epsilon: 0.09, delta: 0.3 },
            _ => {
                return Err(Error::argument(
                    "rule",
                    format!("{name:?}"),
                    format!("auto or one of {}", NAMES.join(", ")),
                ));
            }
        })
    }
}

/// A draft tree whose draws are known at run time only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnyTree {
    /// Chosen nodes.
    Deterministic(DraftTree<Deterministic>),
    /// Independent draws.
    Independent(DraftTree<Independent>),
    /// Siblings drawn without replacement.
    WithoutReplacement(DraftTree<WithoutReplacement>),
    /// K i.i.d. paths.
    Paths(DraftTree<Paths>),
}

impl AnyTree {
    /// The topology.
    pub fn topology(&self) -> &Topology {
        match self {
            AnyTree::Deterministic(tree) => tree,
            AnyTree::Independent(tree) => tree,
            AnyTree::WithoutReplacement(tree) => tree,
            AnyTree::Paths(tree) => tree,
        }
    }

    /// The name of its draws.
    pub fn draws(&self) -> &'static str {
        match self {
            AnyTree::Deterministic(_) => Deterministic::NAME,
            AnyTree::Independent(_) => Independent::NAME,
            AnyTree::WithoutReplacement(_) => WithoutReplacement::NAME,
            AnyTree::Paths(_) => Paths::NAME,
        }
    }
}

impl std::ops::Deref for AnyTree {
    type Target = Topology;
    fn deref(&self) -> &Topology {
        self.topology()
    }
}

macro_rules! any_tree_from {
    ($($name:ident),*) => {$(
        impl From<DraftTree<$name>> for AnyTree {
            fn from(tree: DraftTree<$name>) -> Self {
                AnyTree::$name(tree)
            }
        }
    )*};
}
any_tree_from!(Deterministic, Independent, WithoutReplacement, Paths);

/// Runs a rule on a tree. `drafted` may be `None` for a rule that never reads q, and for an empty tree.
///
/// # Errors
/// Those of [`Rule::check`] and of the rule; [`Error::Argument`] when q is needed and missing.
pub fn decide<T: Target, Q: Drafted>(
    rule: Rule,
    tree: &AnyTree,
    target: &mut T,
    drafted: Option<&Q>,
    chooser: &mut impl Chooser,
) -> Result<Decision> {
    rule.check(tree)?;
    if drafted.is_none() && rule.reads_draft_probs() && !tree.is_empty() {
        return Err(missing_draft_probs(rule, tree));
    }
    match (rule, tree) {
        (Rule::Greedy, tree) => greedy::verify(target, tree),
        (Rule::TargetOnly, tree) => target_only::verify(target, tree),
        (Rule::LossyTypical { epsilon, delta }, tree) => lossy_typical::verify(target, tree, epsilon, delta),
        (Rule::Token, AnyTree::Independent(tree)) => token::verify(target, &drafted, tree.as_chain()?, chooser),
        (Rule::Block, AnyTree::Independent(tree)) => block::verify(target, &drafted, tree.as_chain()?, chooser),
        (Rule::Recursive, AnyTree::Independent(tree)) => recursive::verify(target, &drafted, tree, chooser),
        (Rule::Recursive, AnyTree::WithoutReplacement(tree)) => recursive::verify(target, &drafted, tree, chooser),
        (Rule::Traversal, AnyTree::Independent(tree)) => traversal::verify(target, &drafted, tree, chooser),
        (Rule::Traversal, AnyTree::WithoutReplacement(tree)) => traversal::verify(target, &drafted, tree, chooser),
        (Rule::Multipath, AnyTree::Paths(tree)) => multipath::verify(target, &drafted, tree, chooser),
        (Rule::Recursive | Rule::Traversal, AnyTree::Paths(tree)) => {
            let (rows, apart) = (tree.unmerged_rows(), tree.unmerged()?);
            let mut target = Mapped { inner: target, rows: &rows };
            let drafted = Mapped { inner: &drafted, rows: &rows };
            let mut decision = match rule {
                Rule::Recursive => recursive::verify(&mut target, &drafted, &apart, chooser),
                _ => traversal::verify(&mut target, &drafted, &apart, chooser),
            }?;
            decision.path.iter_mut().for_each(|node| *node = rows[*node as usize + 1] as u32 - 1);
            Ok(decision)
        }
        (rule, tree) => Err(rule.refusal(tree)),
    }
}

fn missing_draft_probs(rule: Rule, tree: &Topology) -> Error {
    let (rows, name) = (tree.rows(), rule.name());
    let shape = if tree.is_chain() { format!("[{}, V] or [{rows}, V]", rows - 1) } else { format!("[{rows}, V]") };
    let expected = format!(
        "{shape} probabilities, row r being what the children of row r were drawn from: rule {name:?} reads them"
    );
    Error::argument("draft_probs", "None", expected)
}

/// q that may be missing: [`decide`] has seen that there is one, or that there is nothing to read it for.
impl<Q: Drafted> Drafted for Option<&Q> {
    type Row<'a>
        = Q::Row<'a>
    where
        Self: 'a;

    fn row(&self, row: usize) -> Result<Self::Row<'_>> {
        self.ok_or_else(|| Error::argument("draft_probs", "None", format!("a row {row}: it has children")))?.row(row)
    }
}

/// Rows under other numbers: row r is the inner row `rows[r]`.
struct Mapped<'a, I> {
    inner: I,
    rows: &'a [usize],
}

impl<T: Target> Target for Mapped<'_, &mut T> {
    type Row<'a>
        = T::Row<'a>
    where
        Self: 'a;

    fn token(&mut self, row: usize) -> Result<u32> {
        self.inner.token(self.rows[row])
    }

    fn argmax(&mut self, row: usize) -> Result<u32> {
        self.inner.argmax(self.rows[row])
    }

    fn row(&mut self, row: usize) -> Result<Self::Row<'_>> {
        self.inner.row(self.rows[row])
    }
}

impl<Q: Drafted> Drafted for Mapped<'_, &Q> {
    type Row<'a>
        = Q::Row<'a>
    where
        Self: 'a;

    fn row(&self, row: usize) -> Result<Self::Row<'_>> {
        self.inner.row(self.rows[row])
    }
}
